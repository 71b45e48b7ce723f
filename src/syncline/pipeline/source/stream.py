"""A stream: the micro-batches of one query, from where it has read to where the logs end.

It lives in the driver as long as the query does and keeps a connection. Spark asks in the order that `offsets`
describes; recent answers are reused: the ends that a batch was planned with are also the query's progress, and a
batch that this process planned itself needs no second look at the topics before its tasks take theirs.

Units: offsets count records; ends are exclusive; durations are milliseconds.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.commits import commit
from syncline.pipeline.client.offsets import EARLIEST, LATEST
from syncline.pipeline.errors import PipelineError
from syncline.pipeline.source.data_loss import Gap, GapReason, report_loss
from syncline.pipeline.source.following import (
    Course,
    Seen,
    beginnings,
    continued,
    ends_of,
    moved,
    topics_lost,
    without_false_losses,
)
from syncline.pipeline.source.lag import mean_record_bytes
from syncline.pipeline.source.limits import backlog, limit, limit_bytes
from syncline.pipeline.source.offsets import Position, StreamOffset, as_json, from_json
from syncline.pipeline.source.options import SourceOptions
from syncline.pipeline.source.planning import Batch, ranges_of, resolve, within_log
from syncline.pipeline.source.presence import Present, all_present, present_now, present_settled

log = logging.getLogger(__name__)

_SIZES_AGE_MS_MAX: Final = 10_000


@dataclass(slots=True)
class Stream:
    """Plans the micro-batches of one query."""

    options: SourceOptions
    cluster: Cluster
    _initial: StreamOffset | None = None
    _target: Seen | None = None
    _seen: Seen | None = None
    _planned: StreamOffset | None = None
    _triggered_at_s: float | None = None
    _reported: set[str] = field(default_factory=set)
    _record_bytes: Mapping[TopicPartition, float] = field(default_factory=dict)
    _sized_at_s: float | None = None

    def initial(self) -> StreamOffset:
        """Return where a new query starts; the same however often Spark asks, although the logs grow meanwhile."""
        if self._initial is None:
            present = all_present(self.cluster, self.options)
            starting = self.options.starting
            starts = resolve(self.cluster, self.options, present.places, starting, "starting")
            held = within_log(self.cluster, self.options, starting, starts, "starting")
            if self.options.include_gaps:
                # The tasks of the first batches find what the log no longer holds, and have rows for it.
                held = {place: min(offset, starts[place]) for place, offset in held.items()}
            self._initial = as_json(Position(held, present.ids))
        return self._initial

    def stop_at_present_ends(self) -> None:
        """Read no further than to the current ends, whatever arrives later."""
        self._target = ends_of(self.cluster, present_now(self.cluster, self.options))

    def latest(self, start: StreamOffset, *, everything: bool) -> StreamOffset:
        """Return the end of the next micro-batch, bounded by the options unless it is to hold everything."""
        read = from_json(start)
        self._seen = self._target or ends_of(self.cluster, self._present(read))
        seen = without_false_losses(self.cluster, read, self._seen)
        course = continued(read, seen, self.options.topics)
        self._report(course)
        is_first = start == self._initial
        begins = beginnings(self.cluster, course)
        starts = {**course.starts, **begins}
        ends: Mapping[TopicPartition, int] = {place: max(end, starts[place]) for place, end in seen.ends.items()}
        if not everything:
            if not is_first and self._has_to_wait(starts, ends):
                return start
            ends = self._limited(starts, ends)
        position = moved(read, seen, ends, starts if is_first else begins)
        if not is_first and not position.has_moved_since(read):
            return start
        self._triggered_at_s = time.monotonic()
        self._planned = as_json(position)
        return self._planned

    def ends(self) -> StreamOffset:
        """Return the ends of the logs, for the query's progress."""
        if self._seen is None:
            self._seen = ends_of(self.cluster, present_now(self.cluster, self.options))
        return as_json(Position(self._seen.ends))

    def batch(self, start: StreamOffset, end: StreamOffset) -> Batch:
        """Return the ranges of one micro-batch."""
        if start == end:
            return Batch((), {})
        read, goal = from_json(start), from_json(end)
        ends = dict(goal.offsets)
        if end != self._planned:
            ends = self._still_there(goal)
        gaps = [
            Gap(place, offset, None, GapReason.TOPIC_CREATED_AGAIN)
            for place, offset in sorted(read.offsets.items())
            if read.is_other_topic(place.topic, goal.ids.get(place.topic, ""))
        ]
        starts = {
            place: offset
            for place, offset in read.offsets.items()
            if not read.is_other_topic(place.topic, goal.ids.get(place.topic, ""))
        }
        starts |= goal.begins
        # A checkpoint of an earlier version does not say where partitions begin.
        unsaid = [place for place in ends if place not in starts]
        starts |= self.cluster.offsets(dict.fromkeys(unsaid, EARLIEST)) if unsaid else {}
        for place, wanted in sorted(goal.offsets.items()):
            first, there = starts.get(place, wanted), ends.get(place)
            if first < wanted and there is None:
                gaps.append(Gap(place, first, wanted, GapReason.TOPIC_GONE))
            elif there is not None and max(there, first) < wanted:
                gaps.append(Gap(place, max(there, first), wanted, GapReason.CUT))
        return Batch(ranges_of(self.options, starts, ends), goal.ids, tuple(gaps))

    def commit(self, end: StreamOffset) -> None:
        """Commit what was read to the group of the option; a query does not fail if that fails."""
        if self.options.commit_group is None:
            return
        try:
            commit(self.cluster, self.options.commit_group, from_json(end).offsets)
        except PipelineError as error:
            log.warning("offsets were not committed to the consumer group: %s", error)

    def _present(self, read: Position) -> Present:
        """Return what exists; make sure before a topic counts as newly gone."""
        return present_settled(
            self.cluster,
            self.options,
            lambda found: self._reported.issuperset(topics_lost(read, found, self.options.topics)),
        )

    def _still_there(self, goal: Position) -> dict[TopicPartition, int]:
        """Return the ends of a batch that another process planned, without what is gone since."""
        found = self.cluster.describe({place.topic for place in goal.offsets})
        places = {TopicPartition(name, index) for name, topic in found.items() for index in topic.leaders}
        present = Present(tuple(sorted(places)), {name: topic.id for name, topic in found.items()})
        losses = list(topics_lost(goal, present, self.options.topics))
        kept = {
            place: end
            for place, end in goal.offsets.items()
            if place in places and not goal.is_other_topic(place.topic, present.ids[place.topic])
        }
        tops = self.cluster.offsets(dict.fromkeys(kept, LATEST), read_committed=False) if kept else {}
        losses += [
            f"{place} ends at offset {tops[place]}, before {end}" for place, end in kept.items() if tops[place] < end
        ]
        self._report(Course({}, (), tuple(losses)))
        return {place: min(end, tops[place]) for place, end in kept.items()}

    def _report(self, course: Course) -> None:
        for loss in course.losses:
            if loss not in self._reported:
                report_loss(loss, fail=self.options.fail_on_data_loss)
                self._reported.add(loss)

    def _has_to_wait(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
        """Return whether to wait for more records; a query that is to stop at the present ends never does."""
        limits = self.options.trigger
        if limits.offsets_min is None or self._target is not None or self._triggered_at_s is None:
            return False
        has_waited_ms = (time.monotonic() - self._triggered_at_s) * 1000
        return has_waited_ms < limits.delay_ms_max and backlog(starts, ends) < limits.offsets_min

    def _limited(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        limits = self.options.trigger
        if limits.offsets_max is not None:
            ends = limit(starts, ends, limits.offsets_max)
        if limits.bytes_max is not None:
            ends = limit_bytes(starts, ends, limits.bytes_max, self._sizes(starts))
        return ends

    def _sizes(self, places: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, float]:
        """Return the mean size of a record in each partition: its log's bytes by its log's offsets."""
        now_s = time.monotonic()
        if self._sized_at_s is None or now_s - self._sized_at_s > _SIZES_AGE_MS_MAX / 1000:
            self._record_bytes = mean_record_bytes(self.cluster, places)
            self._sized_at_s = now_s
        return self._record_bytes
