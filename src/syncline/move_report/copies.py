"""The copies of a move: each new replica, what it had when, and how many bytes it got in each bin of time.

Leaders sample how far each follower is behind and what clients add (`follower_progress`). What a follower received
between two samples is what it lacked before, and what was added, without what it lacks now. The sum over the copies of
a broker is what it received, or sent, for the move: bytes of records, without the overhead of answers.

Where the leader changes, the old one may have been paused or gone before: it took no samples then, and sent nothing. A
new leader does not know what a follower has before the follower's first fetch, and a deposed leader that wakes up tells
once more what it last knew; such samples are left out, or what came long ago would seem to come at once.

Units: bytes; Unix milliseconds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from syncline.model.events import Election, FollowerProgress, IsrChange, Reassignment
from syncline.model.ids import NONE, TopicPartition
from syncline.move_report.facts import Copied, Copy, Ending
from syncline.move_report.moves import MoveSpan, key_of

_ENDINGS: Final = {
    "completed": Ending.COMPLETED,
    "cancelled": Ending.CANCELLED,
    "changed": Ending.OVERTAKEN,
    "started": Ending.OVERTAKEN,
}


class Received(NamedTuple):
    """What one copy got from `start_ms` to `at_ms`, and what it then lacked; `added_bytes` is what clients wrote."""

    start_ms: int
    at_ms: int
    leader: int
    copied_bytes: int
    added_bytes: int
    lag_bytes: int


class History(NamedTuple):
    """One copy, and what it got between its samples until it was in sync."""

    copy: Copy
    received: tuple[Received, ...]


def histories(
    span: MoveSpan,
    progress: Iterable[FollowerProgress],
    joins: Iterable[IsrChange],
    elections: Iterable[Election] = (),
) -> tuple[History, ...]:
    """Return the copies of a move, sorted by partition and destination."""
    samples: dict[tuple[TopicPartition, int], list[FollowerProgress]] = {}
    for sample in progress:
        samples.setdefault((TopicPartition(sample.topic, sample.partition), sample.follower), []).append(sample)
    committed: dict[TopicPartition, list[IsrChange]] = {}
    for join in joins:
        if join.outcome == "committed":
            committed.setdefault(TopicPartition(join.topic, join.partition), []).append(join)
    led_from: dict[TopicPartition, dict[int, int]] = {}
    for election in elections:
        led_from.setdefault(TopicPartition(election.topic, election.partition), {}).setdefault(
            election.leader_epoch, election.ts_ms
        )
    events_of: dict[TopicPartition, list[Reassignment]] = {}
    for event in span.reassignments:
        events_of.setdefault(key_of(event), []).append(event)
    found = []
    for key in span.keys:
        events = events_of.get(key, [])
        for destination in sorted(
            {broker for event in events if event.move == span.move_id for broker in event.adding}
        ):
            mine = sorted(samples.get((key, destination), ()), key=lambda each: each.ts_ms)
            isr_changes, led_from_ms = committed.get(key, ()), led_from.get(key, {})
            found.append(_history(span, key, destination, events, mine, isr_changes, led_from_ms))
    return tuple(found)


def endings(span: MoveSpan) -> dict[TopicPartition, Ending]:
    """Return how the reassignment of each partition ended."""
    return {key_of(event): _ending(span, event) for event in span.reassignments}


def _ending(span: MoveSpan, last: Reassignment) -> Ending:
    if last.move != span.move_id:
        return Ending.OVERTAKEN
    return Ending.RUNNING if last.phase in {"started", "changed"} else _ENDINGS[last.phase]


def _history(
    span: MoveSpan,
    key: TopicPartition,
    destination: int,
    events: Sequence[Reassignment],
    samples: Sequence[FollowerProgress],
    joins: Sequence[IsrChange],
    led_from_ms: Mapping[int, int],
) -> History:
    started_ms = next(event.ts_ms for event in events if destination in event.adding)
    ended = next((e for e in events if e.ts_ms >= started_ms and not _adds(span, e, destination)), None)
    joined_ms = next(
        (
            each.ts_ms
            for each in joins
            if each.ts_ms >= started_ms
            and destination in set(each.after) - set(each.before)
            and (ended is None or each.ts_ms <= ended.ts_ms)
        ),
        None,
    )
    ending = Ending.RUNNING if ended is None else _ENDINGS[ended.phase]
    if ending is Ending.COMPLETED and joined_ms is None and ended is not None:
        # It joined with the decision that completed the reassignment.
        joined_ms = ended.ts_ms
    until_ms = joined_ms if joined_ms is not None else None if ended is None else ended.ts_ms
    samples = _known(started_ms, samples)
    received = tuple(_received(started_ms, until_ms, samples, led_from_ms))
    if received and joined_ms is not None and received[-1].at_ms < joined_ms:
        received = (*received[:-1], *_last(received[-1], joined_ms, span))
    ended_ms = None if ended is None else ended.ts_ms
    progress = tuple(_progress(started_ms, joined_ms, samples, received))
    copied_bytes = sum(each.copied_bytes for each in received) if received else None
    return History(Copy(key, destination, started_ms, joined_ms, ended_ms, ending, progress, copied_bytes), received)


def _adds(span: MoveSpan, event: Reassignment, destination: int) -> bool:
    return event.move == span.move_id and event.phase in {"started", "changed"} and destination in event.adding


def _known(started_ms: int, samples: Sequence[FollowerProgress]) -> list[FollowerProgress]:
    """Return the samples of a copy without those of leaders that did not know what the follower has.

    If it has not fetched from its last leader yet, it still has what it had.
    """
    found: list[FollowerProgress] = []
    unknown: FollowerProgress | None = None
    for sample in samples:
        before = found[-1] if found else None
        if before is not None and before.ts_ms > started_ms:
            if sample.leader_epoch < before.leader_epoch:
                continue
            if sample.leader_epoch > before.leader_epoch and sample.follower_log_end == NONE:
                unknown = replace(sample, lag_bytes=before.lag_bytes)
                continue
        unknown = None
        found.append(sample)
    return found if unknown is None else [*found, unknown]


def _received(
    started_ms: int, until_ms: int | None, samples: Sequence[FollowerProgress], led_from_ms: Mapping[int, int]
) -> Iterable[Received]:
    """Yield what the copy got between samples; what it got after it was in sync is no longer the move's."""
    before: FollowerProgress | None = None
    best_per_ms = 0.0
    for sample in samples:
        if sample.ts_ms <= started_ms:
            # Another request was adding the replica already.
            before = None if sample.in_sync else sample
            continue
        if until_ms is not None and sample.ts_ms > until_ms:
            if before is None and until_ms > started_ms and sample.log_bytes >= 0:
                # It was done between two samples.
                copied = max(sample.log_bytes - max(sample.inflow_bytes, 0), 0)
                yield Received(started_ms, until_ms, int(sample.broker), copied, 0, 0)
            return
        if before is not None and before.leader_epoch != sample.leader_epoch:
            yield from _over_change(before, max(before.ts_ms, started_ms), sample, led_from_ms, best_per_ms)
            before = sample
            continue
        added = max(sample.inflow_bytes, 0)
        if before is None:
            start_ms, copied = started_ms, max(sample.log_bytes - sample.lag_bytes, 0) if sample.log_bytes >= 0 else 0
        else:
            start_ms, copied = max(before.ts_ms, started_ms), max(before.lag_bytes + added - sample.lag_bytes, 0)
        if sample.ts_ms > start_ms:
            best_per_ms = max(best_per_ms, copied / (sample.ts_ms - start_ms))
            yield Received(start_ms, sample.ts_ms, int(sample.broker), copied, added, max(sample.lag_bytes, 0))
        before = sample


def _over_change(
    before: FollowerProgress,
    start_ms: int,
    sample: FollowerProgress,
    led_from_ms: Mapping[int, int],
    best_per_ms: float,
) -> Iterable[Received]:
    """Yield what came from the last sample of one leader to the first one of the next, each part at its leader.

    The old leader sent for as long as one interval, since it would have taken the next sample then, or longer if what
    came took longer at the best rate before; then nobody sent. What was added meanwhile no leader knows.
    """
    if sample.ts_ms <= start_ms:
        return
    copied = max(before.lag_bytes - sample.lag_bytes, 0)
    changed_ms = min(max(led_from_ms.get(sample.leader_epoch, start_ms), start_ms), sample.ts_ms)
    new_ms = sample.ts_ms - changed_ms
    longest_ms = changed_ms - start_ms
    if before.interval_ms == NONE or not best_per_ms:
        old_ms = longest_ms
    else:
        old_ms = min(max(before.interval_ms, math.ceil(copied / best_per_ms) - new_ms), longest_ms)
    by_new = copied * new_ms // (old_ms + new_ms)
    old, stopped_ms = int(before.broker), start_ms + old_ms
    lag_bytes = max(sample.lag_bytes, 0)
    if old_ms:
        yield Received(start_ms, stopped_ms, old, copied - by_new, 0, lag_bytes + by_new)
    if stopped_ms < changed_ms:
        yield Received(stopped_ms, changed_ms, old, 0, 0, lag_bytes + by_new)
    if new_ms:
        yield Received(changed_ms, sample.ts_ms, int(sample.broker), by_new, 0, lag_bytes)


def _last(before: Received, joined_ms: int, span: MoveSpan) -> Iterable[Received]:
    """Yield the last sample's interval, and what the copy got after it until it joined, which nobody sampled.

    That is what it lacked then, and what clients added, as much as before. A leader knows what a follower has as of its
    last fetch, so some of that may be older than the sample; but not older than the last throttle.
    """
    added = before.added_bytes * (joined_ms - before.at_ms) // (before.at_ms - before.start_ms)
    raised = [each.ts_ms for each in span.records if before.start_ms < each.ts_ms < before.at_ms]
    start_ms = max(raised, default=before.at_ms)
    yield before._replace(at_ms=start_ms)
    yield Received(start_ms, joined_ms, before.leader, before.lag_bytes + added, added, 0)


def _progress(
    started_ms: int, joined_ms: int | None, samples: Sequence[FollowerProgress], received: Sequence[Received]
) -> Iterable[Copied]:
    """Yield what the copy had of what its leader had, from its start on, and all of it when it joins."""
    if not received:
        return
    sizes = {each.ts_ms: each.log_bytes for each in samples}
    done_bytes = 0
    rows: list[Copied] = []
    for each in received:
        done_bytes += each.copied_bytes
        if each.at_ms not in sizes and rows:
            # Nobody took a sample then.
            done = rows[-1].total_bytes + each.added_bytes - each.lag_bytes
        else:
            size_bytes = sizes.get(each.at_ms, -1)
            done = size_bytes - each.lag_bytes if size_bytes >= each.lag_bytes else done_bytes
        rows.append(Copied(each.at_ms, done, done + each.lag_bytes))
    first = received[0]
    had_bytes = max(rows[0].done_bytes - first.copied_bytes, 0)
    yield Copied(started_ms, had_bytes, max(rows[0].total_bytes - first.added_bytes, had_bytes))
    for row in rows:
        if joined_ms is None or row.at_ms < joined_ms:
            yield row
    if joined_ms is not None:
        last = rows[-1]
        yield Copied(joined_ms, last.total_bytes, last.total_bytes)


def usual_interval_ms(all_received: Iterable[Sequence[Received]]) -> int:
    """Return the median time between two samples, 1000 if there are none."""
    spaces = sorted(after.at_ms - before.at_ms for each in all_received for before, after in pairwise(each))
    return spaces[len(spaces) // 2] if spaces else 1_000
