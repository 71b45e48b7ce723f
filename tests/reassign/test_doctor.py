"""Why a move does not progress."""

import math

import pytest

from syncline.model.ids import TopicPartition
from syncline.reassign.doctor import BrokerView, Cause, Copy, Finding, PartView, diagnose, sentence
from syncline.reassign.formulas import Part, Role

FOO_0 = TopicPartition("foo", 0)
UP = {broker: BrokerView(is_alive=True, usable_bytes=10**12) for broker in (1, 2, 3)}
COPY = Copy(FOO_0, 1, 3, 5_000_000)
SENDING = Part(1, Role.SENDING)
RECEIVING = Part(3, Role.RECEIVING)


def causes(findings: list[Finding]) -> list[tuple[Cause, int]]:
    """Return cause and broker of each."""
    return [(finding.cause, finding.broker) for finding in findings]


def test_move_that_progresses_has_no_finding() -> None:
    """A throttle with a margin, or none."""
    assert diagnose([COPY], UP, {RECEIVING: PartView(3e6, 1e6, remaining_bytes=5_000_000)}) == []
    assert diagnose([COPY], UP, {RECEIVING: PartView(float("inf"), 1e6, remaining_bytes=5_000_000)}) == []
    assert diagnose([], UP, {}) == []


def test_throttle_below_keep_up_is_named_with_the_rate_that_it_needs() -> None:
    """The sentence that an operator needs."""
    findings = diagnose([COPY], UP, {RECEIVING: PartView(1e6, 1.2e6, remaining_bytes=5_000_000)})

    assert causes(findings) == [(Cause.THROTTLE_TOO_LOW, 3)]
    assert sentence(findings[0]).startswith(
        "broker 3 needs more than 1.2 MB/s for receiving: keep-up traffic alone takes 1.2 MB/s"
    )


def test_in_sync_followers_that_use_the_quota_are_another_cause() -> None:
    """Three followers of 400 kB/s each under 1 MB/s: the new one alone would have enough."""
    view = PartView(1e6, 1.2e6, in_sync_bytes_per_s=0.8e6, remaining_bytes=50_000_000)

    findings = diagnose([COPY], UP, {SENDING: view})

    assert findings == [Finding(Cause.STARVED_BY_IN_SYNC, 1, Role.SENDING, 1e6, 1.2e6)]
    assert "in-sync followers count" in sentence(findings[0])


def test_dead_destination_holds_a_move_that_has_copied_everything() -> None:
    """The replica may have everything; it is not in the ISR while its broker is down."""
    brokers = {**UP, 3: BrokerView(is_alive=False, silent_s=180)}

    findings = diagnose([COPY._replace(remaining_bytes=0)], brokers, {})

    assert causes(findings) == [(Cause.DESTINATION_DOWN, 3)]
    assert sentence(findings[0]) == "broker 3 has been down for 3 min, and foo-0 waits for it."


def test_report_tells_what_is_over_in_the_past() -> None:
    """How long a broker was down, and who waited."""
    down = diagnose([COPY], {**UP, 3: BrokerView(is_alive=False, silent_s=12)}, {})
    leaderless = diagnose([COPY], {**UP, 1: BrokerView(is_alive=False)}, {})

    assert sentence(down[0], is_over=True) == "broker 3 was down for 12 s, and foo-0 waited for it."
    assert sentence(leaderless[0], is_over=True) == "foo-0 had no running leader, so no broker sent the records."


def test_unknown_destination_is_down_since_an_unknown_time() -> None:
    """A broker that metadata does not show."""
    findings = diagnose([COPY._replace(destination=9)], UP, {})

    assert sentence(findings[0]) == "broker 9 is down, and foo-0 waits for it."


def test_dead_leader_comes_first() -> None:
    """A throttle that is too low does not matter while nobody sends."""
    brokers = {**UP, 1: BrokerView(is_alive=False)}
    findings = diagnose([COPY], brokers, {RECEIVING: PartView(1e6, 1.2e6, remaining_bytes=1)})

    assert causes(findings) == [(Cause.NO_LEADER, -1), (Cause.THROTTLE_TOO_LOW, 3)]


def test_dead_leader_is_named_when_nobody_knows_what_it_had() -> None:
    """Guards: no finding at all, since nothing seemed to be left of a copy whose only source was down."""
    assert causes(diagnose([Copy(FOO_0, -1, 3, 0)], UP, {})) == [(Cause.NO_LEADER, -1)]


@pytest.mark.parametrize("broker", [1, 3])
def test_broker_that_does_not_answer_is_named_and_nobody_else(broker: int) -> None:
    """Source or target: the other side moves nothing, and its disk and its network are not to blame."""
    brokers = {**UP, broker: BrokerView(is_alive=True, is_silent=True)}
    nothing = PartView(5e6, 0.0, measured_bytes_per_s=0.0, remaining_bytes=5_000_000, is_progressing=False)
    other = COPY._replace(key=TopicPartition("foo", 1), leader=2)

    findings = diagnose([COPY], brokers, {SENDING: nothing, RECEIVING: nothing})

    assert causes(findings) == [(Cause.DOES_NOT_ANSWER, broker)]
    assert sentence(findings[0]) == (
        f"broker {broker} does not answer. If it is paused or cut off, foo-0 waits for it."
    )
    # A copy from elsewhere that receives nothing is suspicious still.
    both = causes(diagnose([COPY, other], brokers, {RECEIVING: nothing}))
    assert both == [(Cause.DOES_NOT_ANSWER, broker), *([(Cause.NOT_THE_THROTTLE, 3)] if broker == 1 else [])]


def test_broker_that_is_down_leaves_no_blame_for_the_other_side() -> None:
    """Guards: "broker 1 sends 0 B/s: its disk, its network or the other side is slower", while 3 was down."""
    brokers = {**UP, 3: BrokerView(is_alive=False)}
    nothing = PartView(5e6, 0.0, measured_bytes_per_s=0.0, remaining_bytes=5_000_000, is_progressing=False)

    assert causes(diagnose([COPY], brokers, {SENDING: nothing})) == [(Cause.DESTINATION_DOWN, 3)]


def test_disk_without_room_for_the_rest_is_named() -> None:
    """And hides the throttle of the same broker, which is not what stops it."""
    brokers = {**UP, 3: BrokerView(is_alive=True, usable_bytes=4_000_000)}

    findings = diagnose([COPY], brokers, {RECEIVING: PartView(1e6, 1.2e6, remaining_bytes=1)})

    assert causes(findings) == [(Cause.NO_ROOM, 3)]
    assert sentence(findings[0]) == "broker 3 has room for 4 MB, but has yet to receive 5 MB."


def test_copy_far_below_its_throttle_is_held_back_by_something_else() -> None:
    """A disk, a network."""
    view = PartView(50e6, 1e6, measured_bytes_per_s=2e6, remaining_bytes=5_000_000, is_progressing=False)

    findings = diagnose([COPY], UP, {RECEIVING: view})

    assert causes(findings) == [(Cause.NOT_THE_THROTTLE, 3)]
    assert sentence(findings[0]).startswith("broker 3 receives 2 MB/s, far below its throttle of 50 MB/s: its disk")


def test_copy_that_got_nothing_for_a_moment_is_not_suspicious() -> None:
    """A strict throttle passes bytes twice per second, and a batch of 1 MiB at 300 kB/s has to be paid off for 3 s."""
    view = PartView(5e6, 0, measured_bytes_per_s=0.0, remaining_bytes=5_000_000, is_progressing=False)
    slow = view._replace(quota_bytes_per_s=300_000)

    assert diagnose([COPY], UP, {RECEIVING: view}, measured_s=0.3) == []
    assert causes(diagnose([COPY], UP, {RECEIVING: view}, measured_s=1.2)) == [(Cause.NOT_THE_THROTTLE, 3)]
    says = view._replace(nothing_moved_s=1.2)
    assert causes(diagnose([COPY], UP, {RECEIVING: says}, measured_s=0.3)) == [(Cause.NOT_THE_THROTTLE, 3)]
    assert diagnose([COPY], UP, {RECEIVING: says._replace(nothing_moved_s=0.8)}, measured_s=0.3) == []
    assert diagnose([COPY], UP, {RECEIVING: slow}, measured_s=3) == []
    assert causes(diagnose([COPY], UP, {RECEIVING: slow}, measured_s=9)) == [(Cause.NOT_THE_THROTTLE, 3)]


def test_copy_that_stands_still_without_a_throttle_is_told_without_one() -> None:
    """An infinite rate is no number that proves anything."""
    view = PartView(math.inf, 1e6, measured_bytes_per_s=1e6, remaining_bytes=5_000_000, is_progressing=False)
    (finding,) = diagnose([COPY], UP, {RECEIVING: view})

    assert sentence(finding) == (
        "broker 3 receives 1 MB/s, only enough to keep up, and no throttle limits it: its disk, its network "
        "or the other side is slow."
    )


def test_several_partitions_wait() -> None:
    """The first three of them by name."""
    copies = [COPY._replace(destination=9, key=TopicPartition("foo", number)) for number in range(5)]

    assert sentence(diagnose(copies, UP, {})[0]) == (
        "broker 9 is down, and foo-0, foo-1, foo-2 and 2 more partitions wait for it."
    )


@pytest.mark.parametrize(("keep_up", "cause"), [(0.89e6, []), (0.95e6, [(Cause.THIN_MARGIN, 3)])])
def test_thin_margin_is_a_warning(keep_up: float, cause: list[tuple[Cause, int]]) -> None:
    """Less than a tenth of the throttle is left for copying."""
    assert causes(diagnose([COPY], UP, {RECEIVING: PartView(1e6, keep_up, remaining_bytes=1)})) == cause


def test_every_cause_has_a_sentence() -> None:
    """One, without a line end."""
    for cause in Cause:
        text = sentence(Finding(cause, 3, Role.SENDING, 1e6, 2e6, (FOO_0,) * 5))

        assert text.endswith(".")
        assert "\n" not in text
