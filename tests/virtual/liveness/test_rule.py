"""L9, judged on plans and probes written by hand: who is able, which windows oblige, and when a probe is due."""

import pytest

from syncline.model.ids import TopicPartition
from syncline.virtual.faults import LASTING_KINDS
from syncline.virtual.liveness.episodes import Episode
from syncline.virtual.liveness.prober import Probe
from syncline.virtual.liveness.rule import NOTICED, Duty, Notice, Terms, duties, violations
from syncline.virtual.liveness.store_record import StoreRecord
from syncline.virtual.time.durations import SECOND

KEY = TopicPartition("orders", 0)
HOSTS = {1: "broker-1", 2: "broker-2", 3: "broker-3"}
TERMS = Terms(session_timeout_ms=4_000, lag_time_max_ms=2_000, isr_size_min=2)
ALL = (1, 2, 3)
END_NS = 30 * SECOND


class Store(StoreRecord):
    """A record with one in-sync set, and holders of the lease at given seconds."""

    def __init__(self, isr: tuple[int, ...] = ALL, holders: tuple[tuple[int, int], ...] = ((0, 3),)) -> None:
        self._seconds = 0
        super().__init__(lambda: self._seconds * SECOND)
        self._known = isr
        for self._seconds, holder in holders:
            self.lease_moved(holder)

    def isr_before(self, key: TopicPartition, now_ns: int) -> tuple[int, ...]:
        """Return the one in-sync set."""
        return self._known


def episode(kind: str, host: int, begin_s: float, end_s: float | None = None, peers: tuple[int, ...] = ()) -> Episode:
    """Return a fault that lasts to the end unless told otherwise."""
    end_ns = END_NS if end_s is None else int(end_s * SECOND)
    return Episode(kind, HOSTS[host], tuple(HOSTS[each] for each in peers), int(begin_s * SECOND), end_ns)


def found(*episodes: Episode, store: StoreRecord | None = None) -> list[Duty]:
    """Return the duties of a plan."""
    return duties(episodes, store or Store(), [KEY], HOSTS, TERMS, END_NS)


def seconds(duty: Duty) -> tuple[float, float, float]:
    """Return the begin, the end and the limit of a duty."""
    return duty.begin_ns / SECOND, duty.end_ns / SECOND, duty.limit_ns / SECOND


@pytest.mark.parametrize(
    ("fault", "limit_s"),
    [
        pytest.param(episode("kill", 1, 10), 3.0, id="its port refuses connections"),
        pytest.param(episode("full_disk", 1, 10), 3.0, id="its disk says no"),
        pytest.param(episode("refusing_disk", 1, 10), 3.0, id="its disk says no to everything"),
        pytest.param(episode("pause", 1, 10), 5.0, id="only the session tells"),
        pytest.param(episode("power_cut", 1, 10), 5.0, id="a machine without power refuses nothing"),
        pytest.param(episode("delay", 1, 10, peers=(2, 3)), 6.0, id="each message takes longer, too"),
        pytest.param(episode("cut", 1, 10, peers=(2, 3)), 5.0, id="cut off from both others"),
        pytest.param(episode("one_way_cut", 1, 10, peers=(2,)), 5.0, id="cut off from one, and the lag tells"),
    ],
)
def test_limit_is_that_of_how_the_fault_can_be_noticed(fault: Episode, limit_s: float) -> None:
    """The window lasts from the fault to the end of the run."""
    assert [seconds(duty) for duty in found(fault)] == [(10.0, 30.0, limit_s)]


def test_slow_disk_excuses_the_cluster() -> None:
    """Each operation is done, late: no limit follows from the plan."""
    assert found(episode("slow_disk", 1, 10)) == []


def test_every_kind_of_fault_has_a_limit_or_an_excuse() -> None:
    """A new kind without a row would break the first run in which it strikes."""
    assert set(NOTICED) == {*LASTING_KINDS} - {"costly_request"}
    assert [kind for kind, notice in NOTICED.items() if notice is Notice.NEVER] == ["slow_disk"]


def test_clock_starts_again_with_every_change_of_the_plan() -> None:
    """A pause of 20 s with a lost lease in the middle is two windows, and the short one obliges nobody."""
    plan = (episode("pause", 1, 10), episode("lose_lease", 2, 13, 13.000_001))

    assert [seconds(duty)[:2] for duty in found(*plan)] == [(13.000_001, 30.0)]


def test_costly_request_excuses_nobody() -> None:
    """A client's request is no fault: the clock of the kill goes on."""
    plan = (episode("kill", 1, 10), episode("costly_request", 2, 12, 12.000_001))

    assert [seconds(duty) for duty in found(*plan)] == [(10.0, 30.0, 3.0)]


def test_too_few_members_oblige_nobody() -> None:
    """The in-sync set had two members, and one is gone."""
    assert found(episode("kill", 1, 10), store=Store(isr=(1, 2))) == []
    assert found(episode("kill", 3, 10), store=Store(isr=(1, 2))) != []


def test_broker_that_is_just_back_is_not_yet_able() -> None:
    """It starts, registers and catches up: one second after its return it need not replace another one."""
    plan = (episode("kill", 1, 5, 12), episode("kill", 2, 13))

    assert [seconds(duty)[0] for duty in found(*plan)] == [5.0]


def test_two_members_that_are_cut_from_each_other_oblige_nobody() -> None:
    """Broker 3 is gone, and the other two do not reach each other."""
    assert found(episode("cut", 1, 10, peers=(2,)), episode("kill", 3, 10)) == []


def test_holder_of_the_lease_that_is_cut_off_but_runs_excuses_the_cluster() -> None:
    """It renews the lease, so no other broker can decide."""
    fault = episode("cut", 3, 10, peers=(1, 2))

    assert found(fault) == []
    assert found(fault, store=Store(holders=((0, 3), (11, 2)))) == []
    assert found(fault, store=Store(holders=((0, 2),))) != []


def test_holder_of_the_lease_that_is_paused_excuses_nobody() -> None:
    """It does not renew, so another broker takes the lease within the session timeout."""
    assert found(episode("pause", 3, 10), store=Store(holders=((0, 3), (14, 1)))) != []


@pytest.mark.parametrize(
    ("began_s", "accepted_s", "is_late"),
    [
        pytest.param(9, 12.9, False, id="in time after the fault"),
        pytest.param(9, 13.1, True, id="too late after the fault"),
        pytest.param(20, 22.9, False, id="in time after its own begin"),
        pytest.param(20, 23.1, True, id="too late after its own begin"),
        pytest.param(20, None, True, id="never"),
        pytest.param(28, None, False, id="not due before the end"),
    ],
)
def test_probe_is_due_a_limit_after_its_begin_or_that_of_the_window(
    began_s: float, accepted_s: float | None, is_late: bool
) -> None:
    """The later of the two counts: three seconds after a kill at 10 s."""
    accepted_ns = None if accepted_s is None else int(accepted_s * SECOND)
    late = violations(found(episode("kill", 1, 10)), [Probe(KEY, int(began_s * SECOND), accepted_ns)])

    assert bool(late) is is_late
    assert all(
        text.startswith("L9 orders-0: a produce of ") and "kill broker-1 since 10.000 s" in text for text in late
    )
