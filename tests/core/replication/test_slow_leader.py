"""KIP-501, a leader that is slow to serve: section D of the scenario catalogue, and the worked example."""

from dataclasses import replace

import pytest

from syncline.core.cluster.alter_partition import IsrRequest, alter_partition
from syncline.core.cluster.demotions import Demotions, RelinquishLimits
from syncline.core.cluster.standing import preferred_elections
from syncline.core.fetching.session import FetchSpec
from syncline.core.fetching.session_cache import SessionCache
from syncline.core.replication.effects import IsrChange, IsrRefused, RefusalOutcome
from syncline.core.replication.known_brokers import BrokerStanding
from syncline.core.replication.lag_policy import LagBegin, MessageLag
from syncline.core.replication.slow_leader.pending_fetches import PendingFetches
from syncline.core.replication.slow_leader.rules import SlowReadRules, watch_period_ms
from syncline.core.replication.slow_leader.succession import Backoff
from syncline.model.errors import ErrorCode
from tests.core.controller_world import ELR, TOPIC_ID, World, image, partition
from tests.core.replicas import MemoryLog, Replica
from tests.core.s0 import LAG_MS, S0, standings
from tests.core.slow_leader import LEADER, PROMPT, PROTECTS, RELINQUISHES, SLOW, SlowLeader

LIMITS = RelinquishLimits()

# Solution 1: a waiting follower stays


def test_d01_without_the_feature_the_waiting_follower_is_evicted() -> None:
    """In at 10 000 (9 500), out at 15 000 (14 500); what its read proves is too old, and 1002 is below the mark."""
    s = SlowLeader(None)
    entry = s.arrive()
    assert entry is None
    s.tick(10_000)
    assert s.is_in()
    s.tick(15_000)
    assert (s.isr, s.hw) == ([LEADER, PROMPT], 1100)

    s.f(SLOW, 1002, 2000, captured=1100)
    assert s.state(SLOW) == (1002, 1100, 2000, 1000)
    assert not s.is_in()
    s.f(SLOW, 1100, 27_010)

    assert s.is_in()


def test_d02_solution_1_keeps_the_waiting_follower_and_the_mark() -> None:
    """Never evicted while it waits; served at 27 000, silent after, in at 35 000 and out at 40 000."""
    s = SlowLeader()
    entry = s.arrive()
    assert s.ticks_until_evicted(5000, 25_000) is None
    assert s.hw == 950

    s.serve(entry, 27_000)

    assert (s.caught_up(), s.state(SLOW)[0], s.hw) == (27_000, 1002, 1002)
    assert s.ticks_until_evicted(30_000, 50_000) == 40_000
    assert s.protections == [("began", SLOW), ("ended", SLOW)]


def test_d02_next_fetch_moves_the_mark_to_the_end() -> None:
    """With the feature the mark follows the follower: 1100 once it fetched 1100."""
    s = SlowLeader()
    entry = s.arrive()
    s.serve(entry, 27_000)
    s.f(SLOW, 1100, 27_010)

    assert (s.hw, s.is_in(), s.sent) == (1100, True, [])


def controller(**settings: object) -> tuple[World, Demotions]:
    """Return a controller with S0 of the three brokers of section D."""
    record = partition(
        leader=LEADER, replicas=(LEADER, SLOW, PROMPT), isr=(LEADER, SLOW, PROMPT), leader_epoch=5, partition_epoch=20
    )
    brokers = (LEADER, SLOW, PROMPT)
    return World(image(record, active=brokers), replace(ELR, **settings)), Demotions()


def submit(world: World, demotions: Demotions, proposal: object, now: int, sender: int = LEADER) -> ErrorCode:
    """Send a leader's proposal to the controller; return the partition's error."""
    request = IsrRequest(
        TOPIC_ID,
        0,
        proposal.leader_epoch,
        proposal.partition_epoch,
        tuple((each, -1) for each in proposal.broker_ids),
        relinquish=proposal.kind is IsrChange.RELINQUISH,
    )
    epoch = world.image.brokers[sender].broker_epoch
    decision = alter_partition(world.image, sender, epoch, [request], world.settings, demotions=demotions, now_ms=now)
    return world.take(decision).results[0].error


def test_d03_slow_leader_gives_up_to_the_one_with_the_most_records() -> None:
    """Nothing at 2 500, as 500 is not more than 500; at 2 750 the order is most records first, itself last."""
    s = SlowLeader(RELINQUISHES, confirms=False)
    world, demotions = controller()
    s.fetches.start_watch(2000)
    s.arrive()
    s.watch(2250)
    s.watch(2500)
    assert s.sent == []

    s.watch(2750)

    (proposal,) = s.sent
    assert (proposal.kind, list(proposal.broker_ids)) == (IsrChange.RELINQUISH, [PROMPT, SLOW, LEADER])
    assert (proposal.evidence["processing_ms"], proposal.evidence["process_time_max_ms"]) == (750, 500)
    assert s.maximal == [LEADER, SLOW, PROMPT], "safety does not change while it is asked"
    assert submit(world, demotions, proposal, 2750) is ErrorCode.NEW_LEADER_ELECTED
    state = world.t0
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (PROMPT, 6, 21)
    assert set(state.isr) == {LEADER, SLOW, PROMPT}
    assert state.replicas == (LEADER, SLOW, PROMPT), "the preferred leader stays"


def test_d03_leader_waits_for_metadata_after_the_election() -> None:
    """NEW_LEADER_ELECTED leaves it pending: nothing else is proposed until it is a follower."""
    s = SlowLeader(RELINQUISHES, confirms=False)
    s.arrive()
    s.watch(2750)
    s.answer(s.sent[0], 2760, error=ErrorCode.NEW_LEADER_ELECTED)

    s.watch(3000)
    s.tick(15_000)

    assert len(s.sent) == 1
    assert s.partition.in_sync.pending is not None


def grown(count: int) -> MemoryLog:
    """Return a log of so many records of epoch 5."""
    log = MemoryLog()
    for number in range(count):
        log.append(5, f"v{number}")
    return log


@pytest.mark.parametrize(("successor", "truncated"), [(PROMPT, []), (SLOW, [1002])], ids=["d03", "d04"])
def test_d03_d04_order_of_succession_decides_what_is_lost(successor: int, truncated: list[int]) -> None:
    """1003 has everything: nothing is cut. Had 1002 become leader, the others would drop 98 records."""
    isr = (LEADER, SLOW, PROMPT)
    replicas = {each: Replica(each, grown(1002 if each == SLOW else 1100), mark=950) for each in isr}
    leader = replicas.pop(successor)
    leader.lead(6, isr, brokers=S0(replicas=isr).brokers, replicas=isr)

    for each in replicas.values():
        each.follow(6)
        each.fetch_from(leader, count=200)

    assert leader.leader.epoch_start_offset == (1002 if successor == SLOW else 1100)
    assert [each.truncated_to for each in replicas.values()] == [truncated, truncated]
    assert {each.log.log_end for each in replicas.values()} == {1002 if successor == SLOW else 1100}


def test_d05_follower_behind_by_its_own_fault_is_not_spared() -> None:
    """It had been given 1002 and asks for 960: slow service counts against it as ever."""
    s = SlowLeader()
    entry = s.arrive(960)

    assert not entry.qualifies
    assert s.ticks_until_evicted(5000, 15_000) == 15_000
    assert s.protections == []


@pytest.mark.parametrize(("offset", "evicted"), [(900, 15_000), (1000, None)])
def test_d06_under_a_new_leader_the_epochs_start_is_the_base(offset: int, evicted: int | None) -> None:
    """Below the epoch's start nothing protects; at it the fetch does, and is dated by its service."""
    s = SlowLeader()
    s.partition = S0(
        replicas=(LEADER, SLOW, PROMPT),
        leader=LEADER,
        log_end=1000,
        epoch_start=1000,
        high_watermark=900,
        slow_reads=PROTECTS,
    ).partition
    s.append(1100, 50)
    s.f(PROMPT, 1100, 60)
    entry = s.arrive(offset, 100)
    assert entry.qualifies is (evicted is None)

    assert s.ticks_until_evicted(5000, 20_000) == evicted
    if evicted is None:
        s.serve(entry, 20_100)
        assert s.caught_up() == 20_100


def test_d07_partitions_of_one_request_wait_for_each_other() -> None:
    """Its own read ended at 2 010, but the follower cannot ask again before the whole request is answered."""
    stuck, done = SlowLeader(), SlowLeader()
    request = stuck.fetches.open(SLOW, 10 * SLOW, 2000)
    first = stuck.enter(request, 1002)
    done.partition = S0(
        replicas=(LEADER, SLOW, PROMPT), leader=LEADER, log_end=70, high_watermark=60, slow_reads=PROTECTS
    ).partition
    done.put(SLOW, 60, 65, 1900, 1900)
    second = done.enter(request, 65)
    done.read_ends(second, 2010, captured=70)
    done.append(75, 3000)
    done.f(PROMPT, 75, 3010)
    assert done.caught_up() == 2010

    assert done.ticks_until_evicted(5000, 25_000) is None
    assert stuck.ticks_until_evicted(5000, 25_000) is None
    stuck.read_ends(first, 27_000)
    stuck.fetches.answered(request, 27_000)

    assert (done.caught_up(), stuck.caught_up()) == (27_000, 27_000)


def test_d08_reconnecting_does_not_start_the_cap_anew() -> None:
    """The connection closes at 12 000 and the same fetch comes again: the wait counts from 2 000."""
    s = SlowLeader()
    first = s.arrive()
    s.disconnect(first, 12_000)
    assert s.caught_up() == 12_000
    s.arrive(at=12_500)

    assert s.waits.since_ms == 2000
    assert s.ticks_until_evicted(15_000, 70_000) == 65_000
    assert s.protections == [("began", SLOW), ("cap-exceeded", SLOW)]


def test_d09_a_lost_connection_leaves_one_window_to_come_back() -> None:
    """Without a new fetch the follower is out at the first tick after 22 000."""
    s = SlowLeader()
    s.disconnect(s.arrive(), 12_000)

    assert s.ticks_until_evicted(15_000, 30_000) == 25_000


def test_d09_result_of_a_dead_request_counts_as_of_its_end() -> None:
    """The read ends after the connection: the follower's log end is known, its time is that of the loss."""
    s = SlowLeader()
    entry = s.arrive()
    s.disconnect(entry, 12_000)
    s.read_ends(entry, 20_000)

    assert s.state(SLOW) == (1002, 1100, 2000, 12_000)
    assert s.waits.since_ms == 2000, "it was no answer"
    assert len(s.fetches) == 0


def test_d10_a_restarted_follower_waits_for_nothing() -> None:
    """Its former process asked, not this one: the entry is dropped without proof."""
    s = SlowLeader()
    entry = s.arrive()
    s.brokers.replace({**standings(LEADER, PROMPT), SLOW: BrokerStanding(10 * SLOW + 1)})
    s.fetches.drop_older(SLOW, 10 * SLOW + 1)

    assert (entry.is_void, len(s.fetches), s.caught_up()) == (True, 0, 500)
    s.tick(10_000)
    assert s.is_in()
    s.tick(15_000)

    assert not s.is_in()


def test_d10_the_next_processes_fetch_ends_the_wait_as_well() -> None:
    """Metadata may come later than the first fetch of the new process."""
    s = SlowLeader()
    entry = s.arrive()
    s.f(SLOW, 900, 9000, broker_epoch=10 * SLOW + 1)
    before = s.state(SLOW)
    s.read_ends(entry, 27_000)

    assert (entry.is_void, s.waits.is_over, s.state(SLOW)) == (True, True, before)


def test_d11_the_cap_ends_protection() -> None:
    """A read that never ends: protected at 60 000 (58 000), evicted at 65 000 (63 000); the mark moves on."""
    s = SlowLeader()
    s.arrive()

    assert s.ticks_until_evicted(5000, 70_000) == 65_000
    assert s.hw == 1100


def test_d12_without_a_cap_the_wait_never_ends() -> None:
    """The letter of KIP-501: acks=all hangs for as long as the disk does."""
    s = SlowLeader(SlowReadRules(cap_ms=None))
    s.arrive()

    assert s.ticks_until_evicted(5000, 1_000_000) is None
    assert (s.hw, s.partition.acknowledgement(1100)) == (950, None)


def test_d13_an_overtaken_request_says_nothing() -> None:
    """Requests 2 and 3 were served meanwhile: the late end of the first read changes nothing."""
    s = SlowLeader()
    first = s.arrive()
    s.disconnect(first, 12_000)
    second = s.arrive(at=12_500)
    s.serve(second, 13_000)
    s.f(SLOW, 1100, 13_100)
    before = s.state(SLOW)
    assert before == (1100, 1100, 13_100, 13_100)

    s.read_ends(first, 27_000)

    assert s.state(SLOW) == before
    assert s.waits.is_over


def test_d14_a_new_term_owes_nothing() -> None:
    """With the leadership go the entries: the late result is discarded, the table is empty."""
    s = SlowLeader()
    entry = s.arrive()
    s.metadata([LEADER, SLOW, PROMPT], at=8000, leader_epoch=6)
    before = s.state(SLOW)

    s.serve(entry, 27_000)

    assert (s.state(SLOW), s.waits.is_over, len(s.fetches)) == (before, True, 0)


def test_d15_waiting_is_no_reason_to_join() -> None:
    """A follower outside the ISR gains nothing by waiting: no expansion, no hold of the mark."""
    s = SlowLeader(isr=(LEADER, PROMPT))
    s.put(SLOW, 950, 1002, 1000, None)
    s.trigger(1600)
    assert s.hw == 1100
    s.arrive()
    s.append(1200, 3000)
    s.f(PROMPT, 1200, 3010)
    for now in range(5000, 30_001, 5000):
        s.tick(now)

    assert (s.sent, s.hw, s.protections) == ([], 1200, [])


def test_d16_a_failed_read_proves_nothing() -> None:
    """An I/O error at 27 000 leaves 500, and protects no more."""
    s = SlowLeader()
    entry = s.arrive()
    assert s.ticks_until_evicted(5000, 25_000) is None
    s.fetches.read_ended(entry)
    s.fetches.answered(entry.request, 27_000)

    assert s.caught_up() == 500
    s.tick(30_000)
    assert not s.is_in()


# Solution 2: the slow leader goes


def test_d17_waiting_for_data_is_no_slowness() -> None:
    """Parked from 1 000 to 1 500: the processing time stays 0, whatever the watchdog's time."""
    s = SlowLeader(RELINQUISHES)
    entry = s.arrive(1100, 1000)
    entry.request.park(1000)
    s.watch(1600)
    entry.request.unpark(1500)

    assert entry.request.processing_ms(1500) == 0
    assert s.sent == []


def test_d18_nobody_to_give_it_to() -> None:
    """Both others are fenced or shutting down: skipped, reported once, and the follower stays protected."""
    s = SlowLeader(RELINQUISHES, confirms=False)
    s.brokers.replace(
        {
            LEADER: BrokerStanding(10 * LEADER),
            SLOW: BrokerStanding(10 * SLOW, is_fenced=True),
            PROMPT: BrokerStanding(10 * PROMPT, is_shutting_down=True),
        }
    )
    s.arrive()
    s.watch(2750)
    s.watch(3000)
    assert (s.sent, s.skipped) == ([], ["no-candidate"])

    assert s.ticks_until_evicted(5000, 15_000) is None


def test_d19_at_most_three_times_in_ten_minutes() -> None:
    """The fourth attempt is refused, and tried again after 5 000 and 10 000 ms, until one left the window."""
    s = SlowLeader(RELINQUISHES, confirms=False)
    world, demotions = controller()
    for now in (0, 100_000, 200_000):
        assert demotions.may_relinquish(TOPIC_ID, 0, LIMITS, now)
        demotions.relinquished(TOPIC_ID, 0, LEADER, world.image.brokers[LEADER].broker_epoch, LIMITS, now)
    outcomes = []
    s.arrive(at=299_000)

    for now in (300_000, 302_000, 305_000, 310_000, 620_000):
        before = len(s.sent)
        s.watch(now)
        if len(s.sent) == before:
            outcomes.append((now, "backoff"))
            continue
        error = submit(world, demotions, s.sent[-1], now)
        outcomes.append((now, error.name))
        s.answer(s.sent[-1], now, error=error)

    assert outcomes == [
        (300_000, "THROTTLING_QUOTA_EXCEEDED"),
        (302_000, "backoff"),
        (305_000, "THROTTLING_QUOTA_EXCEEDED"),
        (310_000, "backoff"),
        (620_000, "NEW_LEADER_ELECTED"),
    ]
    assert s.skipped == ["backoff"], "reported once per request"
    assert "Backoff(until 315000, then 20000 ms)" in repr(s.service)


def test_d19_backoff_doubles_up_to_five_minutes_and_is_forgotten_after_an_hour() -> None:
    """5, 10, 20 ... 300 s; an hour without a reason ends it."""
    backoff = Backoff()
    pauses, now = [], 0
    for _ in range(9):
        assert backoff.triggered(now)
        backoff.refused(now)
        pauses.append((backoff.until_ms - now) // 1000)
        now = backoff.until_ms
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300, 300]

    last = now - 300_000
    assert backoff.triggered(last + 3_600_000)
    backoff.refused(now)

    assert backoff.until_ms == now + 5_000


def test_d20_a_leader_stays_for_its_tenure() -> None:
    """Leader since 10 000: not at 20 000, but at 40 000, when 30 000 are over."""
    s = SlowLeader(RELINQUISHES, confirms=False, leads_since=10_000)
    s.arrive(at=15_000)
    s.watch(20_000)
    s.watch(39_999)
    assert (s.sent, s.skipped) == ([], ["tenure"])

    s.watch(40_000)

    assert s.requested == [[PROMPT, SLOW, LEADER]]


def test_d21_a_change_in_flight_comes_first() -> None:
    """A pending expansion defers it to the first run after the answer."""
    s = SlowLeader(RELINQUISHES, isr=(LEADER, SLOW), confirms=False)
    s.f(PROMPT, 1100, 1900)
    assert [each.kind for each in s.sent] == [IsrChange.EXPAND]
    s.arrive()
    s.watch(2750)
    assert (len(s.sent), s.skipped) == (1, ["change-pending"])

    s.answer(s.sent[0], 2800)
    s.watch(3000)

    assert s.requested[1:] == [[PROMPT, SLOW, LEADER]]


def test_d22_the_balancer_leaves_out_who_gave_up() -> None:
    """Given up at 2 750, the mark ends at 602 750: not moved back at 300 000, moved back at 900 000."""
    world, demotions = controller()
    s = SlowLeader(RELINQUISHES, confirms=False)
    s.arrive()
    s.watch(2750)
    submit(world, demotions, s.sent[0], 2750)

    def balanced(now: int) -> bool:
        return bool(
            preferred_elections(
                world.image,
                world.settings,
                is_demoted=lambda topic_id, index, broker: demotions.is_demoted(
                    topic_id, index, broker, world.image, now
                ),
            )
        )

    assert [balanced(now) for now in (300_000, 602_749, 602_750, 900_000)] == [False, False, True, True]


def test_d22_the_mark_dies_with_the_next_registration() -> None:
    """A new process may have a new disk."""
    world, demotions = controller()
    demotions.relinquished(TOPIC_ID, 0, LEADER, world.image.brokers[LEADER].broker_epoch, LIMITS, 0)
    assert demotions.is_demoted(TOPIC_ID, 0, LEADER, world.image, 1000)
    world.restart(LEADER, "another process")

    assert not demotions.is_demoted(TOPIC_ID, 0, LEADER, world.image, 2000)
    assert len(demotions) == 0


def test_d22_the_assignment_may_be_reordered_instead() -> None:
    """With leader.relinquish.reorder.replicas the preferred leader is another for good."""
    world, demotions = controller(leader_relinquish_reorder_replicas=True)
    s = SlowLeader(RELINQUISHES, confirms=False)
    s.arrive()
    s.watch(2750)
    submit(world, demotions, s.sent[0], 2750)

    assert (world.t0.leader, world.t0.replicas, world.t0.leader_epoch) == (PROMPT, (SLOW, PROMPT, LEADER), 6)


@pytest.mark.parametrize("others", [(), (SLOW, PROMPT)], ids=["alone", "others-fenced"])
def test_relinquishing_is_refused_when_nobody_else_can_lead(others: tuple[int, ...]) -> None:
    """Alone in the ISR: ELIGIBLE_LEADERS_NOT_AVAILABLE; a fenced member in it: INELIGIBLE_REPLICA. Nothing changes."""
    world, demotions = controller()
    if not others:
        world.image = image(
            partition(leader=LEADER, replicas=(LEADER, SLOW, PROMPT), isr=(LEADER,)), active=(LEADER, SLOW, PROMPT)
        )
    before = world.t0
    for each in others:
        world.image = image(before, active=(LEADER,), fenced=others)
        assert each in world.image.brokers
    request = IsrRequest(TOPIC_ID, 0, 5, 20, tuple((each, -1) for each in (*others, LEADER)), relinquish=True)
    decision = alter_partition(world.image, LEADER, LEADER + 100, [request], ELR, demotions=demotions, now_ms=0)

    expected = ErrorCode.INELIGIBLE_REPLICA if others else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert (decision.answer.results[0].error, decision.changes, world.t0) == (expected, (), before)


def test_relinquishing_must_not_change_the_members() -> None:
    """An order of other members is no order of succession."""
    world, demotions = controller()
    request = IsrRequest(TOPIC_ID, 0, 5, 20, ((PROMPT, -1), (LEADER, -1)), relinquish=True)

    decision = alter_partition(world.image, LEADER, LEADER + 100, [request], ELR, demotions=demotions)

    assert decision.answer.results[0].error is ErrorCode.INVALID_REQUEST


def test_d23_switching_it_off_ends_protection_at_once() -> None:
    """Off at 12 000: the tick of 15 000 evicts, 14 500 being too much again."""
    s = SlowLeader()
    s.arrive()
    s.tick(10_000)
    s.fetches.clear()
    s.note(s.partition.configure(replace(s.partition.settings, slow_reads=None), 12_000), 12_000)

    assert (s.waits.is_over, len(s.fetches)) == (True, 0)
    s.tick(15_000)
    assert not s.is_in()


def test_d24_a_pause_of_the_whole_process_is_not_counted() -> None:
    """Of 7 000 ms between two runs 6 750 are excused: the trigger comes at 9 500, with 750."""
    s = SlowLeader(RELINQUISHES, confirms=False)
    s.fetches.start_watch(2000)
    entry = s.arrive()
    found = []
    for now in (9000, 9250, 9500):
        s.watch(now)
        found.append((entry.request.processing_ms(now), len(s.sent)))

    assert found == [(250, 0), (500, 0), (750, 1)]


def test_d24_a_request_that_came_during_the_pause_is_excused_for_its_own_time_only() -> None:
    """Otherwise seconds of service would not count as processing time."""
    fetches = PendingFetches()
    fetches.start_watch(0)
    request = fetches.open(SLOW, 1, 6900)
    fetches.watch(7000, 250)

    assert request.processing_ms(7000) == 0


@pytest.mark.parametrize(
    ("rules", "acknowledged_at"), [pytest.param(None, 15_000, id="off"), pytest.param(PROTECTS, 27_010, id="on")]
)
def test_d25_what_a_producer_sees(rules: SlowReadRules | None, acknowledged_at: int) -> None:
    """acks=all up to 1100: after the eviction without the feature, after the late follower's next fetch with it."""
    s = SlowLeader(rules)
    entry = s.arrive()
    seen = []
    for now in (5000, 10_000, 15_000, 20_000, 25_000):
        s.tick(now)
        seen += [now] if s.partition.acknowledgement(1100) is ErrorCode.NONE else []
    if entry is not None:
        s.serve(entry, 27_000)
        s.f(SLOW, 1100, 27_010)
        seen += [27_010] if s.partition.acknowledgement(1100) is ErrorCode.NONE else []

    assert seen[0] == acknowledged_at


def test_f22_relinquishing_waits_for_metadata_that_it_lacks() -> None:
    """3 was fenced behind its back: INVALID_UPDATE_VERSION, pending; with the metadata [2,1] goes out, 2 leads."""
    s = S0(confirms=False, slow_reads=RELINQUISHES, log_end=10, now=-60_000)
    s.put(2, 5, 5, 0, 0)
    s.put(3, 10, 10, 0, 0)
    fetches, demotions = PendingFetches(), Demotions()
    world = World(image(), replace(ELR))
    world.fence(3)
    assert (world.t0.isr, world.t0.partition_epoch) == ((1, 2), 21)
    request = fetches.open(2, 20, 1000)
    entry = s.partition.slow_leader.fetch_pends(2, 5, request)

    s.note(s.partition.slow_leader.relinquish(entry, 2000), 2000)
    assert s.requested == [[3, 2, 1]]
    error = submit(world, demotions, s.sent[0], 2000, sender=1)
    assert error is ErrorCode.INVALID_UPDATE_VERSION
    s.answer(s.sent[0], 2010, error=error)
    s.note(s.partition.slow_leader.relinquish(entry, 2250), 2250)
    assert len(s.sent) == 1
    assert [each.outcome for each in s.effects if isinstance(each, IsrRefused)] == [RefusalOutcome.AWAITING_METADATA]
    s.metadata([1, 2], at=2300)
    assert s.isr == [1, 2]
    s.note(s.partition.slow_leader.relinquish(entry, 2500), 2500)

    assert s.requested[1:] == [[2, 1]]
    assert submit(world, demotions, s.sent[1], 2500, sender=1) is ErrorCode.NEW_LEADER_ELECTED
    assert world.t0.leader == 2


# The worked example


@pytest.mark.parametrize(
    ("rules", "ages"),
    [pytest.param(None, {15_000: False}, id="off"), pytest.param(PROTECTS, {}, id="solution-1")],
)
def test_d01_d02_worked_example(rules: SlowReadRules | None, ages: dict[int, bool]) -> None:
    """The table of the worked example, tick by tick: who is in the ISR, and where the mark stands."""
    s = SlowLeader(rules)
    s.arrive()
    seen = {}
    for now in (5000, 10_000, 15_000, 20_000, 25_000):
        s.tick(now)
        seen[now] = (s.is_in(), s.hw)

    expected = {5000: (True, 950), 10_000: (True, 950)}
    late = (False, 1100) if ages else (True, 950)
    assert seen == {**expected, 15_000: late, 20_000: late, 25_000: late}


# Beyond the catalogue


@pytest.mark.parametrize("policy", [MessageLag(LAG_MS, 100), LagBegin(LAG_MS)], ids=["messages", "lag-begin"])
def test_protection_holds_under_the_historic_modes(policy: object) -> None:
    """The predicate of the mode, and not protected."""
    spared, evicted = SlowLeader(policy=policy), SlowLeader(None, policy=policy)
    entry = spared.arrive()
    evicted.arrive()
    assert evicted.ticks_until_evicted(5000, 25_000) is not None
    assert spared.ticks_until_evicted(5000, 25_000) is None
    spared.serve(entry, 27_000)

    served = spared.partition.in_sync.by_id[SLOW].log_end_update_ms
    assert served == (27_000 if isinstance(policy, MessageLag) else 2000)


def session_of(s: SlowLeader, now: int) -> tuple[SessionCache, object]:
    """Return a session of the slow follower that holds this partition at the log's end."""
    cache = SessionCache(10, lambda: 7, s.brokers)
    context = cache.open(
        0,
        0,
        listed=[(("t", 0), FetchSpec(1100, 1 << 20))],
        forgotten=(),
        uses_topic_ids=False,
        replica_id=SLOW,
        broker_epoch=10 * SLOW,
        now_ms=now,
    )
    return cache, context.pending()[0]


def next_fetch(cache: SessionCache, now: int, epoch: int) -> object:
    """Let the session fetch again, listing nothing."""
    return cache.open(
        7,
        epoch,
        listed=[],
        forgotten=(),
        uses_topic_ids=False,
        replica_id=SLOW,
        broker_epoch=10 * SLOW,
        now_ms=now,
    )


def idle_world() -> tuple[SlowLeader, SessionCache, object]:
    """Return a partition whose slow follower has everything, known by its session's fetch of 1 900."""
    s = SlowLeader()
    cache, asker = session_of(s, 1900)
    s.partition.follower_fetched(SLOW, 1100, 0, 1100, 10 * SLOW, 5, 1900, stamp=asker)
    return s, cache, asker


def test_idle_partition_of_a_stuck_request_is_spared_without_an_entry() -> None:
    """The request looked at other partitions; this one moved meanwhile, and the follower cannot ask for it."""
    s, cache, asker = idle_world()
    context = next_fetch(cache, 2000, 1)
    request = s.fetches.open(SLOW, 10 * SLOW, 2000, cover=context.session.slow_fetches())
    s.append(1200, 3000)
    s.f(PROMPT, 1200, 3010)

    assert s.waits.is_over
    assert s.ticks_until_evicted(5000, 25_000) is None
    s.service.covered_fetch_ended(SLOW, request, asker, 27_000)
    s.fetches.answered(request, 27_000)

    assert s.caught_up() == 27_000
    assert s.ticks_until_evicted(30_000, 45_000) == 40_000


def test_idle_partition_that_did_not_move_is_dated_by_the_sessions_clock() -> None:
    """No code walks over idle partitions: the answer's time is read when the log moves."""
    s, cache, _ = idle_world()
    context = next_fetch(cache, 2000, 1)
    request = s.fetches.open(SLOW, 10 * SLOW, 2000, cover=context.session.slow_fetches())
    s.fetches.answered(request, 27_000)
    s.append(1200, 27_001)
    s.f(PROMPT, 1200, 27_002)

    assert s.caught_up() == 27_000
    assert context.session.slow_fetches().in_flight is None
    assert s.ticks_until_evicted(30_000, 45_000) == 40_000


def test_partition_that_was_looked_at_and_refused_is_not_covered() -> None:
    """A row that failed was not registered: its follower is not spared by the rest of the request."""
    s, cache, asker = idle_world()
    context = next_fetch(cache, 2000, 1)
    request = s.fetches.open(SLOW, 10 * SLOW, 2000, cover=context.session.slow_fetches())
    request.looked[asker] = None
    s.append(1200, 3000)
    s.f(PROMPT, 1200, 3010)

    assert s.ticks_until_evicted(5000, 25_000) == 15_000


def test_prompt_fetch_is_dated_by_its_service_too() -> None:
    """The caught-up time is that of the update in both branches."""
    s = SlowLeader()
    s.f(SLOW, 1002, 2000)

    assert s.caught_up() == 2000


@pytest.mark.parametrize("scenario", ["d02", "d10", "d16", "d23"])
def test_worked_example_with_the_feature_on_from_its_beginning(scenario: str) -> None:
    """The prompt fetch of 1 000 is dated 1 000, by its service, and not 500; the ticks say the same with either."""
    s = SlowLeader()
    s.partition = S0(
        replicas=(LEADER, SLOW, PROMPT),
        leader=LEADER,
        log_end=950,
        high_watermark=950,
        min_isr=2,
        slow_reads=PROTECTS,
        now=-60_000,
    ).partition
    s.f(SLOW, 950, 500)
    s.append(1002, 900)
    s.f(SLOW, 950, 1000)
    s.append(1100, 1500)
    s.f(PROMPT, 1100, 1500)
    assert s.state(SLOW) == (950, 1002, 1000, 1000)
    entry = s.arrive()
    s.tick(5000)

    if scenario == "d10":
        s.fetches.drop_older(SLOW, 10 * SLOW + 1)
    s.tick(10_000)
    assert s.is_in()
    if scenario == "d23":
        s.note(s.partition.configure(replace(s.partition.settings, slow_reads=None), 12_000), 12_000)
    out = s.ticks_until_evicted(15_000, 25_000)
    if scenario == "d02":
        s.serve(entry, 27_000)
    elif scenario == "d16":
        s.fetches.read_ended(entry)
    out = out or s.ticks_until_evicted(30_000, 50_000)

    assert out == {"d02": 40_000, "d10": 15_000, "d16": 30_000, "d23": 15_000}[scenario]


def test_pending_entries_are_counted() -> None:
    """PendingFollowerFetches counts entries that a follower waits for."""
    s = SlowLeader()
    entry = s.arrive()
    assert s.fetches.entry_count == 1
    s.disconnect(entry, 12_000)

    assert (s.fetches.entry_count, len(s.fetches)) == (0, 1)


@pytest.mark.parametrize(("limit_ms", "period_ms"), [(500, 250), (60, 50), (200, 100), (10_000, 250)])
def test_watchdog_looks_often_enough(limit_ms: int, period_ms: int) -> None:
    """Every half limit, between 50 and 250 ms."""
    assert watch_period_ms(limit_ms) == period_ms


def test_overtaken_read_leaves_an_idle_follower_as_it_was() -> None:
    """A late result must not replace the session's clock for a partition that fetches no longer look at."""
    s = SlowLeader()
    late = s.arrive()
    cache, asker = session_of(s, 13_000)
    s.partition.follower_fetched(SLOW, 1100, 0, 1100, 10 * SLOW, 5, 13_000, stamp=asker)
    s.read_ends(late, 27_000)
    assert s.partition.in_sync.by_id[SLOW].stamp is asker
    for number in range(1, 20):
        next_fetch(cache, 13_000 + 5000 * number, number)
    s.append(1101, 108_010)
    s.f(PROMPT, 1101, 108_020)

    s.tick(110_000)

    assert (s.is_in(), s.caught_up()) == (True, 108_000)


def test_idle_partition_is_covered_from_the_next_request_on_when_the_feature_is_switched_on() -> None:
    """Its follower was known by its session before; no request looks at the partition meanwhile."""
    s = SlowLeader(None)
    cache, asker = session_of(s, 1900)
    s.partition.follower_fetched(SLOW, 1100, 0, 1100, 10 * SLOW, 5, 1900, stamp=asker)
    s.note(s.partition.configure(replace(s.partition.settings, slow_reads=PROTECTS), 1950), 1950)
    context = next_fetch(cache, 2000, 1)
    s.fetches.open(SLOW, 10 * SLOW, 2000, cover=context.session.slow_fetches())
    s.append(1200, 3000)
    s.f(PROMPT, 1200, 3010)

    assert s.ticks_until_evicted(5000, 25_000) is None


def test_covered_partition_is_dated_by_the_answer_even_beyond_the_cap() -> None:
    """The cap ends protection; the answer still counts as a proof."""
    s, cache, asker = idle_world()
    context = next_fetch(cache, 2000, 1)
    request = s.fetches.open(SLOW, 10 * SLOW, 2000, cover=context.session.slow_fetches())
    s.append(1200, 3000)
    s.f(PROMPT, 1200, 3010)
    assert s.ticks_until_evicted(5000, 60_000) is None
    s.service.covered_fetch_ended(SLOW, request, asker, 63_000)
    s.fetches.answered(request, 63_000)

    assert s.ticks_until_evicted(65_000, 80_000) == 75_000


def test_d08_reconnecting_does_not_start_the_cap_anew_for_a_covered_partition() -> None:
    """The request that was lost had not looked at it, and its session is gone; the wait counts from 2 000."""
    s, cache, asker = idle_world()
    context = next_fetch(cache, 2000, 1)
    request = s.fetches.open(SLOW, 10 * SLOW, 2000, cover=context.session.slow_fetches())
    s.append(1200, 3000)
    s.f(PROMPT, 1200, 3010)
    s.service.covered_fetch_ended(SLOW, request, asker, 12_000, is_lost=True)
    s.fetches.lost(request, 12_000, 60_000)
    assert s.caught_up() == 12_000
    cache.close(7)
    s.arrive(1100, 12_500)

    assert s.ticks_until_evicted(15_000, 70_000) == 65_000


def test_r4_a_failed_read_ends_the_wait() -> None:
    """The next slow fetch has the whole cap: the one before was answered, if only with an error."""
    s = SlowLeader()
    failed = s.arrive()
    s.fetches.read_ended(failed)
    s.answer_fetch(failed, 9000)
    assert s.waits.is_over
    s.arrive(at=9010)

    assert s.ticks_until_evicted(10_000, 80_000) == 70_000


def test_r6_the_next_process_does_not_inherit_a_wait_without_entries() -> None:
    """What the former process waited for ended with it, even if its reads have ended before."""
    s = SlowLeader()
    entry = s.arrive()
    s.disconnect(entry, 12_000)
    s.read_ends(entry, 12_100)
    assert s.waits.since_ms == 2000
    s.brokers.replace({**standings(LEADER, PROMPT), SLOW: BrokerStanding(10 * SLOW + 1)})
    s.enter(s.fetches.open(SLOW, 10 * SLOW + 1, 13_000), 1100)

    assert s.waits.since_ms == 13_000


@pytest.mark.parametrize("end", ["answered", "lost"])
def test_r6_the_end_of_a_former_processs_request_proves_nothing_of_idle_partitions(end: str) -> None:
    """Its idle partitions are not dated by it, either."""
    s, cache, _ = idle_world()
    context = next_fetch(cache, 2000, 1)
    request = s.fetches.open(SLOW, 10 * SLOW, 2000, cover=context.session.slow_fetches())
    s.enter(request, 1100)
    s.fetches.drop_older(SLOW, 10 * SLOW + 1)
    if end == "answered":
        s.fetches.answered(request, 9000)
    else:
        s.fetches.lost(request, 9000, 60_000)
    s.append(1200, 9010)

    assert s.caught_up() == 2000


def test_proof_of_an_answer_outlives_the_session() -> None:
    """A session that is closed before the log moves leaves what its last answer said."""
    s, cache, _ = idle_world()
    context = next_fetch(cache, 2000, 1)
    s.fetches.answered(s.fetches.open(SLOW, 10 * SLOW, 2000, cover=context.session.slow_fetches()), 27_000)
    cache.close(7)
    s.append(1200, 27_005)

    assert s.caught_up() == 27_000


def test_d24_a_read_that_ends_right_after_a_pause_is_excused_as_well() -> None:
    """After a pause of the process reads may end before the watchdog has its turn."""
    s = SlowLeader(RELINQUISHES, confirms=False)
    s.fetches.start_watch(2000)
    entry = s.arrive()
    s.fetches.excuse_pause(9000, 250)
    s.note(s.service.relinquish(entry, 9000), 9000)
    assert (entry.request.processing_ms(9000), s.sent) == (250, [])

    s.watch(9000)

    assert (entry.request.processing_ms(9000), s.sent) == (250, [])


def test_leader_that_is_giving_up_has_no_reason_to_stay() -> None:
    """Its own proposal is no reason to skip: it reports none."""
    s = SlowLeader(RELINQUISHES, confirms=False)
    s.arrive()
    s.watch(2750)
    s.watch(3000)

    assert (len(s.sent), s.skipped) == (1, [])


def test_r8_a_new_term_spares_nobody() -> None:
    """A follower that was spared in the last term is not reported again."""
    s = SlowLeader()
    s.arrive()
    s.tick(15_000)
    assert s.service.spared == (SLOW,)
    s.metadata([LEADER, SLOW, PROMPT], at=16_000, leader_epoch=6)
    s.tick(20_000)

    assert (s.service.spared, s.protections) == ((), [("began", SLOW)])
