"""Journal tables: hand-written journals become the states, lags and faults that they record."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest

from syncline.model.events import (
    Election,
    Event,
    Fault,
    FollowerProgress,
    IsrChange,
    Observation,
    TopicChange,
    UnknownEvent,
    to_json,
)
from syncline.model.lag_events import FetchLagSample, GroupLagSample
from syncline.model.reasons import Reason
from tests.pipeline import journal_story as told

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

_WHERE = {"topic": "t", "partition": 0}
JOURNAL_END_MS = 20_000
# The journal of all tests of timelines; see `_history`.
_HISTORIES: list[Event] = []


def _history(topic: str, *events: Event) -> str:
    """Add to the common journal what happened to a topic; return its name.

    One query answers for all of them: it takes seconds, nearly all of them for its plan.
    """
    _HISTORIES.extend(replace(event, topic=topic) for event in events)
    return topic


@pytest.fixture(scope="module")
def events_of(spark):
    """Return a function that makes the events table from events, as the journal topic would hold them."""
    from syncline.pipeline import tables

    def make(events: Sequence[Event], *, noise: Sequence[bytes] = ()):
        values = [to_json(event) for event in events] + list(noise)
        rows = [(0, offset, bytearray(value)) for offset, value in enumerate(values)]
        return tables.journal(spark.createDataFrame(rows, "partition int, offset long, value binary"))

    return make


def _rows(frame) -> list[dict]:
    return frame.toArrow().to_pylist()


def _at(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def _election(ts_ms: int, before: int, after: int, epoch: int, isr: tuple[int, ...]) -> Election:
    reason = Reason.CREATED if before < 0 else Reason.PROCESS_GONE
    return Election(
        ts_ms=ts_ms,
        broker=9,
        **_WHERE,
        leader_before=before,
        leader_after=after,
        leader_epoch=epoch,
        isr=isr,
        reason=reason,
    )


def _change(ts_ms: int, epoch: int, before: tuple[int, ...], after: tuple[int, ...], **more) -> IsrChange:
    return IsrChange(
        **{
            "ts_ms": ts_ms,
            "broker": 1,
            **_WHERE,
            "leader_epoch": epoch,
            "partition_epoch": ts_ms,
            "change": "shrink" if len(after) < len(before) else "expand",
            "outcome": "committed",
            "before": before,
            "after": after,
            "rule": "time",
            "evidence": {"replica": 2, "behind_ms": 3_100},
            **more,
        }
    )


def _sample(
    ts_ms: int, leader: int, follower: int, *, epoch: int = 0, in_sync: bool = True, **more
) -> FollowerProgress:
    values = {"log_end": 100, "follower_log_end": 90, "high_watermark": 90, "lag_records": 10, "lag_ms": 20, **more}
    return FollowerProgress(
        ts_ms=ts_ms, broker=leader, **_WHERE, leader_epoch=epoch, follower=follower, in_sync=in_sync, **values
    )


@pytest.fixture(scope="module")
def intervals(events_of) -> dict[str, list[dict]]:
    """Return the ISR timeline of each history, in order of replicas and time."""
    from syncline.pipeline import tables

    found = defaultdict(list)
    # The newest event is that of no topic.
    end = Fault(ts_ms=JOURNAL_END_MS, broker=-1, kind="kill", target="broker-2", phase="begin")
    for row in _rows(tables.isr_timeline(events_of([*_HISTORIES, end])).orderBy("replica", "started_at")):
        found[row["topic"]].append(row)
    return found


@pytest.fixture
def timeline(intervals) -> Callable[[str], list[tuple]]:
    """Return a function from a history's topic to its timeline."""

    def ms(at: datetime | None) -> int | None:
        return None if at is None else round((at - _at(0)).total_seconds() * 1000)

    def of(topic: str) -> list[tuple]:
        return [
            (r["replica"], ms(r["started_at"]), ms(r["ended_at"]), r["in_isr"], r["is_leader"], r["rule"])
            for r in intervals[topic]
        ]

    return of


def test_journal_keeps_events_and_drops_what_is_none(events_of) -> None:
    """Broken values vanish; events of a newer type keep their envelope; evidence stays JSON text."""
    newer = UnknownEvent(type="throttle_sample", version=2, ts_ms=7, broker=1, rest={"rate": 5})
    events = events_of([_change(5, 0, (1, 2), (1,)), newer], noise=[b"", b"nonsense", b"{}", b'{"type": "fault"}'])

    rows = sorted(_rows(events), key=lambda row: row["ts_ms"])

    assert [(row["type"], row["at"]) for row in rows] == [("isr_change", _at(5)), ("throttle_sample", _at(7))]
    assert rows[0]["after"] == [1]
    assert rows[0]["evidence"] == '{"replica":2,"behind_ms":3100}'


OUT_AND_BACK = _history(
    "out-and-back",
    _election(0, -1, 1, 0, (1, 2)),
    _change(1_000, 0, (1, 2), (1,)),
    _change(5_000, 0, (1,), (1, 2), rule="caught_up"),
    _sample(9_000, 1, 2),
)


def test_isr_timeline_follows_a_follower_out_and_back(timeline) -> None:
    """One interval ends where the next begins, each with the rule that began it; the last one is open."""
    assert timeline(OUT_AND_BACK) == [
        (1, 0, None, True, True, "created"),
        (2, 0, 1_000, True, False, "created"),
        (2, 1_000, 5_000, False, False, "time"),
        (2, 5_000, None, True, False, "caught_up"),
    ]


OPEN = _history("open", _election(1_000, -1, 1, 0, (1,)))


def test_isr_timeline_measures_open_intervals_to_the_end_of_the_journal(intervals) -> None:
    """An open interval lasts until the newest event, whatever its subject."""
    assert [(row["duration_ms"], row["ended_at"]) for row in intervals[OPEN]] == [(JOURNAL_END_MS - 1_000, None)]


ELECTED = _history(
    "elected",
    _election(0, -1, 1, 0, (1, 2, 3)),
    _election(2_000, 1, 3, 1, (2, 3)),
)


def test_isr_timeline_changes_leaders_at_an_election(timeline) -> None:
    """The dead leader is out of the ISR from the election on, and the new one leads."""
    assert timeline(ELECTED) == [
        (1, 0, 2_000, True, True, "created"),
        (1, 2_000, None, False, False, "process-gone"),
        (2, 0, 2_000, True, False, "created"),
        (2, 2_000, None, True, False, "process-gone"),
        (3, 0, 2_000, True, False, "created"),
        (3, 2_000, None, True, True, "process-gone"),
    ]


YOUNGER = _history(
    "younger",
    _sample(1_000, 2, 1, epoch=7),
    _sample(1_100, 2, 3, epoch=7, in_sync=False),
    _sample(2_000, 2, 1, epoch=7),
    _change(4_000, 7, (1, 2), (1, 2, 3), rule="caught_up"),
    _sample(5_000, 2, 3, epoch=7),
)


def test_isr_timeline_begins_with_samples_when_the_journal_is_younger_than_the_partition(timeline) -> None:
    """Without an election the first samples show who leads and who is in sync; later ones change nothing."""
    assert timeline(YOUNGER) == [
        (1, 1_000, None, True, False, "first samples"),
        (2, 1_000, None, True, True, "first samples"),
        (3, 1_000, 4_000, False, False, "first samples"),
        (3, 4_000, None, True, False, "caught_up"),
    ]


REFUSED = _history(
    "refused",
    _election(0, -1, 1, 0, (1, 2)),
    _change(500, 0, (1, 2), (1,), outcome="refused"),
    _change(1_000, 0, (1, 2), (1,)),
    _change(1_000, 0, (1, 2), (1,)),
)


def test_isr_timeline_ignores_refused_and_repeated_changes(timeline) -> None:
    """A refused proposal changed nothing, and neither does an event that was appended twice."""
    assert [row[:4] for row in timeline(REFUSED)] == [(1, 0, None, True), (2, 0, 1_000, True), (2, 1_000, None, False)]


NEVER_TOLD = _history(
    "never-told",
    _election(0, -1, 1, 0, (1, 2)),
    _change(1_000, 0, (1, 2), (1,)),
    _sample(1_400, 1, 2, interval_ms=1_000),  # The leader does not know of it yet.
    _sample(4_000, 1, 2, in_sync=False, interval_ms=1_000),
    _sample(5_000, 1, 2, interval_ms=1_000),
    _sample(6_000, 1, 2, interval_ms=1_000),
    _sample(7_000, 3, 2, epoch=5, in_sync=False, interval_ms=1_000),  # A term that no event names.
)


def test_isr_timeline_believes_samples_when_a_change_was_never_told(timeline) -> None:
    """A journal that lost an expansion does not keep the replica out for ever: its leader's samples say it is back."""
    assert [row for row in timeline(NEVER_TOLD) if row[0] == 2] == [
        (2, 0, 1_000, True, False, "created"),
        (2, 1_000, 5_000, False, False, "time"),
        (2, 5_000, None, True, False, "later samples"),
    ]


def _topic(ts_ms: int, change: Literal["created", "grown", "deleted"], topic_id: str) -> TopicChange:
    return TopicChange(ts_ms=ts_ms, broker=9, topic="t", topic_id=topic_id, change=change, partitions=1)


DELETED = _history(
    "deleted",
    _topic(0, "created", "A"),
    _election(0, -1, 1, 0, (1, 2)),
    _sample(1_000, 1, 2),
    _topic(2_000, "deleted", "A"),
    _topic(2_000, "deleted", "A"),
    _change(2_001, 0, (1, 2), (1,)),
    _sample(9_000, 1, 2, in_sync=False),
)


def test_isr_timeline_of_a_deleted_topic_ends(timeline) -> None:
    """It ends with the deletion, which a retry wrote twice; what a leader reports after that does not count."""
    assert timeline(DELETED) == [
        (1, 0, 2_000, True, True, "created"),
        (2, 0, 2_000, True, False, "created"),
    ]


GIVEN_TWICE = _history(
    "given-twice",
    _sample(500, 1, 2),  # The journal is younger than the first topic.
    _topic(2_000, "deleted", "A"),
    _topic(2_000, "created", "B"),
    _election(2_000, -1, 3, 0, (3, 4)),
    _change(5_000, 0, (3, 4), (3,)),
    _sample(9_000, 3, 4, in_sync=False),
    _topic(10_000, "deleted", "B"),
)


def test_isr_timeline_tells_topics_of_one_name_apart(timeline) -> None:
    """The second topic has other replicas; leader epochs begin at 0 again, and a change names its leader by them."""
    assert timeline(GIVEN_TWICE) == [
        (1, 500, 2_000, True, True, "first samples"),
        (2, 500, 2_000, True, False, "first samples"),
        (3, 2_000, 10_000, True, True, "created"),
        (4, 2_000, 5_000, True, False, "created"),
        (4, 5_000, 10_000, False, False, "time"),
    ]


def test_elections_of_topics_of_one_name_are_all_there(events_of) -> None:
    """Guards: one row per leader epoch, although another topic of the name had the same epochs."""
    from syncline.pipeline import tables

    lost = [_election(ts_ms, 1, 3, 1, (3,)) for ts_ms in (1_000, 5_000, 5_000)]

    assert [row["at"] for row in _rows(tables.elections(events_of(lost)).orderBy("at"))] == [_at(1_000), _at(5_000)]


def test_topics_are_a_row_for_each_id(events_of) -> None:
    """A name may be given twice; what the journal does not show is null."""
    from syncline.pipeline import tables

    events = events_of([_topic(1_000, "deleted", "A"), _topic(2_000, "created", "B"), _topic(3_000, "grown", "B")])
    rows = _rows(tables.topics(events).orderBy("topic_id"))

    assert [(row["topic_id"], row["created_at"], row["deleted_at"], row["partitions"]) for row in rows] == [
        ("A", None, _at(1_000), 1),
        ("B", _at(2_000), None, 1),
    ]


def test_follower_lag_is_a_row_for_each_sample(events_of) -> None:
    """Numbers that the writer did not know are null; repeated samples count once."""
    from syncline.pipeline import tables

    known = _sample(1_000, 1, 2, lag_bytes=2_100, interval_ms=500)
    events = events_of([known, known, _sample(1_000, 1, 3, lag_ms=-1, in_sync=False)])

    rows = _rows(tables.follower_lag(events).orderBy("follower"))

    assert [
        (r["follower"], r["leader"], r["lag_records"], r["lag_ms"], r["lag_bytes"], r["in_sync"]) for r in rows
    ] == [
        (2, 1, 10, 20, 2_100, True),
        (3, 1, 10, None, None, False),
    ]


def test_fetch_lag_has_a_row_for_each_sample_with_quantiles_by_bytes(events_of) -> None:
    """A quantile is the bound of its bucket; above all bounds, and where nothing is known, it is null."""
    from syncline.pipeline import tables

    def bucket(up_to: int, size_bytes: int) -> dict[str, int]:
        return {"up_to": up_to, "fetches": 1, "bytes": size_bytes}

    sample = FetchLagSample(
        ts_ms=1_000,
        broker=1,
        topic="t",
        interval_ms=500,
        fetches=3,
        read_bytes=100,
        behind_bytes=(bucket(4_096, 50), bucket(8_192, 49), bucket(16_384, 1)),
        event_ms=(bucket(1, 98), bucket(-1, 2)),
        unknown_age_bytes=100,
    )

    (row,) = _rows(tables.fetch_lag(events_of([sample, sample])))

    assert (row["at"], row["broker"], row["topic"], row["fetches"], row["read_bytes"]) == (_at(1_000), 1, "t", 3, 100)
    assert (row["behind_bytes_p50"], row["behind_bytes_p99"]) == (4_096, 8_192)
    assert (row["event_ms_p50"], row["event_ms_p99"]) == (1, None)
    assert (row["age_ms_p50"], row["age_ms"], row["unknown_age_bytes"]) == (None, [], 100)
    assert row["behind_bytes"][2] == bucket(16_384, 1)


def test_group_lag_is_a_row_for_each_partition_of_a_sample(events_of) -> None:
    """The lag in records follows from commit and end; what nobody knew is null, and repeated samples count once."""
    from syncline.pipeline import tables

    def entry(partition: int, committed: int, end: int, known: int) -> dict[str, int | str]:
        times = dict.fromkeys(("lag_bytes", "staleness_ms", "event_lag_ms"), known)
        return {"topic": "t", "partition": partition, "committed": committed, "end": end, **times, "lost": 0}

    sample = GroupLagSample(
        ts_ms=1_000,
        broker=2,
        group="g",
        state="Stable",
        members=2,
        interval_ms=500,
        status="OK",
        partitions=2,
        missing=1,
        lag_records=6,
        lag_bytes=70,
        staleness_ms=70,
        event_lag_ms=70,
        lost=0,
        # A client may commit any offset, also one behind the end.
        rows=(entry(0, 4, 10, 70), entry(1, 9, 8, -1)),
    )

    behind, beyond = _rows(tables.group_lag(events_of([sample, sample])).orderBy("partition"))

    assert (behind["at"], behind["group"], behind["topic"], behind["coordinator"]) == (_at(1_000), "g", "t", 2)
    assert (behind["committed"], behind["end_offset"], behind["lag_records"]) == (4, 10, 6)
    assert (behind["lag_bytes"], behind["staleness_ms"], behind["event_lag_ms"]) == (70, 70, 70)
    assert (behind["state"], behind["members"], behind["status"], behind["missing"]) == ("Stable", 2, "OK", 1)
    assert (beyond["lag_records"], beyond["lag_bytes"], beyond["staleness_ms"]) == (0, None, None)


def test_faults_are_paired_by_kind_and_target(events_of) -> None:
    """A fault begins and ends; one without an end lasts."""
    from syncline.pipeline import tables

    def mark(ts_ms: int, kind: str, target: str, phase: str) -> Fault:
        return Fault(ts_ms=ts_ms, broker=-1, kind=kind, target=target, phase=phase)

    events = events_of(
        [
            mark(1, "kill", "broker-1", "begin"),
            mark(2, "pause", "broker-2", "begin"),
            mark(3, "kill", "broker-1", "end"),
            mark(9, "kill", "broker-1", "begin"),
        ]
    )

    rows = _rows(tables.faults(events).orderBy("started_at"))

    assert [(r["kind"], r["target"], r["started_at"], r["ended_at"]) for r in rows] == [
        ("kill", "broker-1", _at(1), _at(3)),
        ("pause", "broker-2", _at(2), None),
        ("kill", "broker-1", _at(9), None),
    ]


def test_faults_of_one_kind_and_target_may_overlap(events_of) -> None:
    """Guards: the first of two had no end, as the beginning of the second came before it."""
    from syncline.pipeline import tables

    def mark(ts_ms: int, phase: str, note: str) -> Fault:
        return Fault(ts_ms=ts_ms, broker=1, kind="disk-slow", target="broker-1", phase=phase, note=note)

    events = events_of(
        [
            mark(1, "begin", "fault f-1, read, delayed by 2000 ms"),
            mark(2, "begin", "fault f-2, write, delayed by 200 ms, for 1000 ms"),
            mark(3, "end", "fault f-2, write, delayed by 200 ms, for 1000 ms: its time is up, 0 hits"),
            mark(9, "end", "fault f-1, read, delayed by 2000 ms: cleared, 4 hits"),
            mark(11, "begin", "fault f-3"),
            mark(12, "begin", "fault f-4"),
            mark(13, "end", "fault f-3: cleared, 0 hits"),
        ]
    )

    rows = _rows(tables.faults(events).orderBy("started_at"))

    assert [(r["started_at"], r["ended_at"], r["note"][:9]) for r in rows] == [
        (_at(1), _at(9), "fault f-1"),
        (_at(2), _at(3), "fault f-2"),
        (_at(11), _at(13), "fault f-3"),
        (_at(12), None, "fault f-4"),
    ]


def test_observations_are_one_row_each_however_often_they_were_told(events_of) -> None:
    """Begin, reminders and end of one observation share their start; the last report counts."""
    from syncline.pipeline import tables

    def told(ts_ms: int, phase: str, **place) -> Observation:
        return Observation(
            ts_ms=ts_ms,
            broker=1,
            kind="follower-silent",
            subject=2,
            phase=phase,
            since_ms=100,
            lasted_ms=ts_ms - 100,
            evidence={"beats_heard": ts_ms},
            **place,
        )

    events = events_of(
        [told(200, "begin"), told(400, "ongoing"), told(900, "end"), told(300, "begin", topic="t", partition=3)]
    )

    whole, part = _rows(tables.observations(events).orderBy("is_over", ascending=False))
    assert (whole["topic"], whole["partition"], whole["started_at"]) == (None, None, _at(100))
    assert (whole["lasted_ms"], whole["is_over"], whole["evidence"]) == (800, True, '{"beats_heard":900}')
    assert (part["topic"], part["partition"], part["is_over"]) == ("t", 3, False)


def test_tables_tell_the_whole_story(events_of) -> None:
    """On the long journal: every outage of the two faults, its length, and the two changes of leaders."""
    from syncline.pipeline import tables

    events = events_of(told.story())

    out = _rows(tables.isr_timeline(events).where("not in_isr").orderBy("partition", "replica"))
    changes = _rows(tables.elections(events).orderBy("partition"))

    assert [(row["partition"], row["replica"]) for row in out if row["replica"] == told.KILLED] == [
        (partition, told.KILLED) for partition in range(told.PARTITIONS)
    ]
    led_by_paused = {change["partition"] for change in changes if change["leader_after"] == told.PAUSED} | {
        partition for partition in range(told.PARTITIONS) if told.first_leader(partition) == told.PAUSED
    }
    assert {row["partition"] for row in out if row["replica"] == told.PAUSED} == set(range(6)) - led_by_paused
    assert {row["duration_ms"] for row in out if row["replica"] == told.KILLED} == {16_000}
    assert {row["duration_ms"] for row in out if row["replica"] == told.PAUSED} == {10_000}
    assert [(change["partition"], change["leader_before"]) for change in changes] == [(1, 2), (4, 2)]
