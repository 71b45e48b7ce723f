"""Which moves a journal knows, and what of them each new replica got."""

import time
from dataclasses import replace
from typing import Any

import pytest

from syncline.model.events import BrokerState, Election, Event, FollowerProgress, IsrChange, Move, Reassignment
from syncline.model.ids import NONE, BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicPartition
from syncline.model.reasons import Reason
from syncline.move_report.bins import Grid
from syncline.move_report.copies import histories
from syncline.move_report.facts import Ending, Step
from syncline.move_report.held_back import stretches
from syncline.move_report.moves import MoveSpan, chosen, moves_of
from syncline.move_report.roles import part_facts

MB = 1_000_000
T0 = TopicPartition("t", 0)


def moved(at_ms: int, phase: Any, move: str = "m", name: str = "plan.json", rate: int = 1_000) -> Move:
    """Return an event of a move."""
    return Move(ts_ms=at_ms, broker=BrokerId(1), move=move, phase=phase, name=name, throttle_bytes_per_s=rate)


def reassigned(
    at_ms: int, phase: Any, move: str = "m", partition: int = 0, adding: tuple[int, ...] = (3,)
) -> Reassignment:
    """Return an event of a reassignment."""
    return Reassignment(
        ts_ms=at_ms,
        broker=BrokerId(1),
        topic="t",
        partition=partition,
        phase=phase,
        replicas=(BrokerId(1), *map(BrokerId, adding)),
        adding=tuple(map(BrokerId, adding)),
        removing=(),
        original=(BrokerId(1),),
        move=move,
    )


def sample(
    at_ms: int, lag: int, size: int, inflow: int = 0, *, leader: int = 1, epoch: int = 0, in_sync: bool = False
) -> FollowerProgress:
    """Return a leader's sample of broker 3."""
    return FollowerProgress(
        ts_ms=at_ms,
        broker=BrokerId(leader),
        topic="t",
        partition=0,
        leader_epoch=LeaderEpoch(epoch),
        follower=BrokerId(3),
        log_end=Offset(size),
        follower_log_end=Offset(size - lag),
        high_watermark=Offset(0),
        lag_records=lag,
        lag_ms=0,
        lag_bytes=lag,
        in_sync=in_sync,
        interval_ms=1_000,
        inflow_records=inflow,
        inflow_bytes=inflow,
        log_bytes=size,
    )


def joined(at_ms: int) -> IsrChange:
    """Return the change that brings broker 3 into the ISR."""
    return IsrChange(
        ts_ms=at_ms,
        broker=BrokerId(1),
        topic="t",
        partition=0,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(2),
        change="expand",
        outcome="committed",
        before=(BrokerId(1),),
        after=(BrokerId(1), BrokerId(3)),
        rule="reached",
    )


def shown(moves: list[MoveSpan]) -> list[tuple[str, int, int | None, int]]:
    """Return id, begin, end and number of partitions of each move."""
    return [(each.move_id, each.started_ms, each.ended_ms, len(each.keys)) for each in moves]


def test_move_lasts_from_its_first_event_to_its_end() -> None:
    """Its reassignments may end earlier; the order of events in the journal does not matter."""
    events: list[Event] = [
        moved(5_000, "ended"),
        reassigned(5_000, "completed"),
        reassigned(1_000, "started"),
        reassigned(1_000, "started", partition=1),
        reassigned(3_000, "completed", partition=1),
        moved(1_000, "started"),
        moved(2_000, "changed", rate=5_000),
    ]

    (span,) = moves_of(events)
    assert shown([span]) == [("m", 1_000, 5_000, 2)]
    assert [each.phase for each in span.records] == ["started", "changed", "ended"]


def test_reassignments_without_an_id_are_one_as_long_as_they_overlap() -> None:
    """Nothing else tells which of them were requested together."""
    events = [
        reassigned(1_000, "started", ""),
        reassigned(2_000, "started", "", 1),
        reassigned(3_000, "completed", ""),
        reassigned(4_000, "cancelled", "", 1),
        reassigned(6_000, "started", "", 2),
    ]

    assert shown(moves_of(events)) == [("", 1_000, 4_000, 2), ("", 6_000, None, 1)]


def test_move_that_was_taken_over_ends_without_a_copy() -> None:
    """Of the first move nothing is left, and the copy belongs to the second one."""
    first, second = moves_of(
        [
            moved(1_000, "started"),
            reassigned(1_000, "started"),
            moved(3_000, "started", "n"),
            reassigned(3_000, "changed", "n"),
            moved(3_000, "ended"),
        ]
    )

    assert shown([first, second]) == [("m", 1_000, 3_000, 1), ("n", 3_000, None, 1)]
    assert [each.copy.ending for each in histories(first, [], [])] == [Ending.OVERTAKEN]
    assert [each.copy.ending for each in histories(second, [], [])] == [Ending.RUNNING]


def test_what_began_before_the_journal_is_left_out_unless_it_goes_on() -> None:
    """A lonely end tells nothing; what needed no copy is told."""
    assert moves_of([reassigned(1_000, "completed", "")]) == []
    assert shown(moves_of([reassigned(1_000, "completed", "", adding=())])) == [("", 1_000, 1_000, 1)]
    assert shown(moves_of([moved(2_000, "changed")])) == [("m", 2_000, None, 0)]


@pytest.mark.parametrize(("wanted", "begin"), [(None, 9_000), ("m", 1_000), ("plan.json", 9_000), ("x", None)])
def test_move_is_chosen_by_id_or_name(wanted: str | None, begin: int | None) -> None:
    """Without either, and of several with one name, the last one."""
    moves = moves_of([moved(1_000, "started"), moved(2_000, "ended"), moved(9_000, "started", "n")])
    found = chosen(moves, wanted)

    assert begin == (None if found is None else found.started_ms)


def test_move_is_not_hidden_by_a_request_that_had_nothing_to_copy() -> None:
    """Guards: after a plan was executed twice, the report told of the second time only, in which nothing moved."""
    first = [reassigned(1_000, "started"), reassigned(2_000, "completed")]
    again = [reassigned(9_000, "completed", "", adding=())]

    for wanted, events in ((1_000, [*first, *again]), (9_000, again), (9_000, [*first, moved(9_000, "started", "n")])):
        found = chosen(moves_of(events), None)
        assert found is not None
        assert found.started_ms == wanted


def span_of(*events: Event) -> MoveSpan:
    """Return the only move."""
    (span,) = moves_of(events)
    return span


def test_copy_received_what_it_lacked_and_what_was_added_without_what_it_lacks() -> None:
    """Bytes between samples, and the share of the leader's log; when it joins it has everything."""
    span = span_of(moved(1_000, "started"), reassigned(1_000, "started"), reassigned(4_600, "completed"))
    samples = [sample(2_000, 900, 1_000), sample(3_000, 700, 1_100, 100), sample(4_000, 100, 1_200, 100)]
    (history,) = histories(span, samples, [joined(4_500)])

    assert [(each.at_ms, each.copied_bytes) for each in history.received] == [
        (2_000, 100),
        (3_000, 300),
        (4_000, 700),
        # After the last sample clients went on writing as before.
        (4_500, 150),
    ]
    assert history.copy.copied_bytes == 1_250
    assert history.copy.joined_ms == 4_500
    assert [(each.done_bytes, each.total_bytes) for each in history.copy.progress] == [
        (0, 1_000),
        (100, 1_000),
        (400, 1_100),
        (1_100, 1_200),
        (1_250, 1_250),
    ]


def test_what_a_new_leader_cannot_know_is_not_counted() -> None:
    """Its first sample does not say what was added since the last one of the old leader."""
    span = span_of(moved(1_000, "started"), reassigned(1_000, "started"))
    samples = [sample(2_000, 900, 1_000), sample(3_000, 500, 1_100, -1, leader=2, epoch=1)]
    (history,) = histories(span, samples, [])

    assert [(each.leader, each.copied_bytes, each.added_bytes) for each in history.received] == [
        (1, 100, 0),
        (2, 400, 0),
    ]


def test_copy_that_another_request_had_begun_starts_with_what_it_had() -> None:
    """Bytes of before belong to the move of before."""
    span = span_of(moved(2_500, "started", "n"), reassigned(2_500, "changed", "n"))
    samples = [sample(2_000, 300, 1_000), sample(3_000, 200, 1_000), sample(4_000, 0, 1_000, in_sync=True)]
    (history,) = histories(span, samples, [joined(3_500)])

    assert [(each.start_ms, each.copied_bytes) for each in history.received] == [(2_500, 100), (3_000, 200)]
    assert history.copy.progress[0] == (2_500, 700, 1_000)
    assert history.copy.copied_bytes == 300


def test_copy_between_two_samples_is_known_by_the_log_that_it_has() -> None:
    """What was added later does not count; without a sample only the moment of its end is known."""
    span = span_of(moved(1_000, "started"), reassigned(1_000, "started"), reassigned(1_003, "completed"))
    (history,) = histories(span, [sample(1_500, 0, 1_000, 100, in_sync=True)], [joined(1_003)])
    (unknown,) = histories(span, [], [joined(1_003)])

    assert [tuple(each) for each in history.received] == [(1_000, 1_003, 1, 900, 0, 0)]
    assert (unknown.copy.ending, unknown.copy.joined_ms, unknown.copy.copied_bytes) == (Ending.COMPLETED, 1_003, None)


def test_copy_that_a_higher_throttle_ended_got_its_rest_under_that_one() -> None:
    """The last sample is as of a fetch before the change, and would say that the rest came within 0.1 s."""
    span = span_of(
        moved(1_000, "started"), reassigned(1_000, "started"), moved(2_600, "changed"), reassigned(3_100, "completed")
    )
    samples = [sample(2_000, 900, 1_000), sample(3_000, 900, 1_000)]
    (history,) = histories(span, samples, [joined(3_100)])

    assert [(each.start_ms, each.at_ms, each.copied_bytes) for each in history.received] == [
        (1_000, 2_000, 100),
        (2_000, 2_600, 0),
        (2_600, 3_100, 900),
    ]


def test_what_a_replica_gets_in_sync_is_not_the_moves() -> None:
    """The sample after it joined tells of traffic that no throttle of a move bounds."""
    span = span_of(moved(1_000, "started"), reassigned(1_000, "started"), reassigned(2_500, "completed"))
    samples = [sample(2_000, 400, 1_000), sample(3_000, 0, 9_000, 8_000, in_sync=True)]
    (history,) = histories(span, samples, [joined(2_500)])

    assert [(each.at_ms, each.copied_bytes) for each in history.received] == [(2_000, 600), (2_500, 400)]


def test_bins_share_what_was_measured_over_their_edges() -> None:
    """In proportion to time; what lies outside is dropped."""
    grid = Grid(1_000, 1_000, 3)

    assert grid.spread([(500, 2_500, 20.0), (3_500, 4_500, 8.0)]) == [10.0, 5.0, 4.0]
    assert [grid.index_of(at_ms) for at_ms in (1_000, 1_001, 2_000, 2_001, 4_000, 4_001)] == [None, 0, 0, 1, 2, None]


def test_report_of_thousands_of_partitions_looks_at_each_event_once() -> None:
    """At two thousand partitions a look at all events for each partition took seconds, and at ten thousand a minute."""
    begun = [reassigned(1, "started", partition=index) for index in range(2_000)]
    ended = [reassigned(9, "completed", partition=index, adding=()) for index in range(2_000)]
    span = MoveSpan("m", 1, 9, [], [*begun, *ended])
    began_s = time.process_time()

    found = histories(span, [], [])

    assert len(found) == 2_000
    assert time.process_time() - began_s < 0.5


def got(samples: list[FollowerProgress], *led_from: tuple[int, int]) -> list[tuple[int, int, int, int]]:
    """Return from when to when, whose, and how many bytes a copy that began at 0 got; elections are (epoch, time)."""
    elections = [
        Election(
            ts_ms=at_ms,
            broker=BrokerId(1),
            topic="t",
            partition=0,
            leader_before=BrokerId(1),
            leader_after=BrokerId(2),
            leader_epoch=LeaderEpoch(epoch),
            isr=(BrokerId(2),),
            reason=Reason.SESSION_TIMED_OUT,
        )
        for epoch, at_ms in led_from
    ]
    (history,) = histories(span_of(moved(0, "started"), reassigned(0, "started")), samples, [], elections)
    return [(each.start_ms, each.at_ms, each.leader, each.copied_bytes) for each in history.received]


def test_new_leader_that_nobody_fetched_from_knows_nothing() -> None:
    """It takes a follower for empty until that fetches; what this one has would seem to come in the next second."""
    unknown = replace(sample(2_200, 10_000, 10_000, -1, leader=2, epoch=1), follower_log_end=Offset(NONE))
    samples = [sample(1_000, 9_000, 10_000), unknown, sample(3_000, 7_000, 10_000, leader=2, epoch=1)]

    assert got(samples, (1, 2_000)) == [(0, 1_000, 1, 1_000), (1_000, 2_000, 1, 1_000), (2_000, 3_000, 2, 1_000)]
    # As long as it has not fetched, nothing comes, and the time counts.
    assert got(samples[:2], (1, 2_000)) == [(0, 1_000, 1, 1_000), (1_000, 2_000, 1, 0), (2_000, 2_200, 2, 0)]


def test_deposed_leader_that_wakes_up_is_not_believed() -> None:
    """It tells what it knew before its pause; the new leader's next sample would be a burst of all since then."""
    samples = [
        sample(1_000, 9_000, 10_000),
        sample(3_000, 7_000, 10_000, leader=2, epoch=1),
        sample(3_950, 9_000, 10_000),
        sample(4_000, 6_000, 10_000, leader=2, epoch=1),
    ]

    assert got(samples, (1, 2_000))[-1] == (3_000, 4_000, 2, 1_000)


def test_pause_before_a_change_of_leaders_is_nobodys_time_of_copying() -> None:
    """The paused leader sent until it took no sample any more, the new one since its election, at the rate before."""
    paused = [sample(1_000, 9_000, 10_000), sample(11_000, 7_000, 10_000, leader=2, epoch=1)]
    slower = [sample(1_000, 9_000, 10_000), sample(11_000, 4_000, 10_000, leader=2, epoch=1)]

    assert got(paused, (1, 10_000)) == [
        (0, 1_000, 1, 1_000),
        (1_000, 2_000, 1, 1_000),
        (2_000, 10_000, 1, 0),
        (10_000, 11_000, 2, 1_000),
    ]
    # More came than in two intervals: samples were lost, and no rate is told that was never measured.
    assert got(slower, (1, 10_000)) == [
        (0, 1_000, 1, 1_000),
        (1_000, 5_000, 1, 4_000),
        (5_000, 10_000, 1, 0),
        (10_000, 11_000, 2, 1_000),
    ]


def test_standstill_is_told_from_its_first_moment() -> None:
    """Guards: rates are means of three bins, so the first two seconds of each pause were missing."""
    samples = [sample(at_ms, 100 * MB - min(at_ms, 5_000) * 1_000, 100 * MB) for at_ms in range(1_000, 13_000, 1_000)]
    (history,) = histories(span_of(moved(0, "started"), reassigned(0, "started")), samples, [])
    grid = Grid(0, 1_000, 12)
    parts = part_facts([history], [], [Step(0, MB)], "m", grid)

    assert {(each.start_ms, each.end_ms) for each in stretches(parts, [history], [], grid)} == {(5_000, 12_000)}


def test_broker_is_down_from_when_it_was_last_heard_of() -> None:
    """Guards: a pause of 20 s was told as one of 11, since the controller waits for 9 before it gives a broker up."""
    samples = [sample(at_ms, 100 * MB - min(at_ms, 5_000) * 1_000, 100 * MB) for at_ms in range(1_000, 31_000, 1_000)]
    (history,) = histories(span_of(moved(0, "started"), reassigned(0, "started")), samples, [])
    grid = Grid(0, 1_000, 30)
    parts = part_facts([history], [], [Step(0, MB)], "m", grid)
    states = [
        BrokerState(
            ts_ms=14_000, broker=BrokerId(1), subject=BrokerId(3), state="fenced", evidence={"silent_ms": 9_000}
        ),
        BrokerState(ts_ms=25_000, broker=BrokerId(1), subject=BrokerId(3), state="unfenced"),
    ]

    (down,) = [each for each in stretches(parts, [history], states, grid) if "down" in each.sentence]
    assert down.start_ms <= 5_000
    assert "broker 3 was down for 19 s" in down.sentence
