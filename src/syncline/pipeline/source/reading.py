"""Reading: one task fetches its ranges from the partitions' leaders and yields Arrow record batches.

A task reads many partitions through one connection per leader (`client/ahead.py`); what one answer holds of them is
decoded together, and becomes one Arrow batch, or a few if it is large.

Fetches are by name, and the task begins with the leaders that planning knew. It also knows the ids of the topics that
were planned: metadata that it needs to find a leader must have the same, and when all is read, each leader confirms
them. So a topic that was deleted and created again between planning and the last fetch is always noticed, at the latest
after its rows were yielded and before the task succeeds. A task that may go on without lost records has no second
chance, so its leaders confirm the topics before it reads, too. Where brokers tell no ids, only what is out of range is
noticed.

A topic that is gone takes its partitions with it; those of the task's other topics are read to their ends.

Units: offsets count records; ends are exclusive.
"""

import time
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.ahead import Ahead, Arrived, Span
from syncline.pipeline.client.cluster import Cluster, Whereabouts
from syncline.pipeline.client.offsets import EARLIEST
from syncline.pipeline.decoding.chunks import decode
from syncline.pipeline.decoding.headers import Part
from syncline.pipeline.errors import TopicGoneError
from syncline.pipeline.source.data_loss import Gap, GapReason, gap_rows, report_loss
from syncline.pipeline.source.options import SourceOptions
from syncline.pipeline.source.ranges import OffsetRange


def read(
    options: SourceOptions,
    schema: pa.Schema,
    wanted: Sequence[OffsetRange],
    whereabouts: Whereabouts,
    topic_ids: Mapping[str, str],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ranges of different partitions; `whereabouts` and `topic_ids` are what planning knew."""
    assert len({item.place for item in wanted}) == len(wanted), "a task reads a partition once"
    with Cluster.known(options.client, whereabouts, topic_ids) as cluster:
        task = _Task(cluster, options, wanted)
        if not options.fail_on_data_loss:
            task.confirm()
        for answer in task.answers():
            yield from _batches(answer, task.ends, schema)
        task.confirm()
        if options.include_gaps and task.gaps:
            yield gap_rows(task.gaps, schema)


class _Task:
    """The ranges of one task; `ends` are those of the partitions whose topics are still what was planned."""

    def __init__(self, cluster: Cluster, options: SourceOptions, wanted: Sequence[OffsetRange]) -> None:
        self.ends = {item.place: item.end for item in wanted}
        self.gaps: list[Gap] = []
        # How far each partition was read.
        self._reached = {item.place: item.start for item in wanted}
        self._options = options
        self._cluster = cluster
        # Connections of the task have questions on their way, so in between others are asked; none is open yet.
        self._aside = Cluster.known(options.client, cluster.whereabouts(self.ends), cluster.expected)
        self._ahead = Ahead(cluster, {item.place: Span(item.start, item.end) for item in wanted})
        self._waiting_since_s: dict[TopicPartition, float] = {}

    def answers(self) -> Iterator[list[Arrived]]:
        """Yield what each answer holds of the ranges, until all are read."""
        with self._aside:
            while True:
                try:
                    for answer in self._ahead.answers():
                        for arrived in answer:
                            self._heed(arrived)
                        yield [arrived for arrived in answer if arrived.place in self.ends]
                except TopicGoneError as error:
                    self._lose(error)
                else:
                    return

    def confirm(self) -> None:
        """Have the leaders confirm that the topics are the ones that were planned."""
        while self.ends:
            try:
                self._cluster.confirm(self.ends)
            except TopicGoneError as error:
                self._lose(error)
            else:
                return

    def _heed(self, arrived: Arrived) -> None:
        """Take note of what a partition's part of an answer means for what is asked next."""
        place, end = arrived.place, self.ends.get(arrived.place)
        if end is None:
            return
        self._reached[place] = arrived.next_offset
        if arrived.is_gone:
            self._go_on_after_loss(place, arrived.offset, end)
        elif not _waits(arrived):
            self._waiting_since_s.pop(place, None)
        elif place not in self._waiting_since_s:
            # A new leader may need a moment to learn how far its log is committed; a new topic would never have it all.
            self._waiting_since_s[place] = time.monotonic()
            self._is_still_there(place)
        elif time.monotonic() - self._waiting_since_s[place] > self._options.client.patience_ms / 1000:
            what = f"{place} ends at offset {arrived.offset}, before {end}, where it ended when planned"
            self._report(what, Gap(place, arrived.offset, end, GapReason.CUT))
            self._ahead.drop(place)

    def _is_still_there(self, place: TopicPartition) -> bool:
        """Return whether the leader confirms the partition's topic, while others have questions to answer."""
        try:
            self._aside.confirm([place])
        except TopicGoneError as error:
            self._lose(error)
            return False
        return True

    def _go_on_after_loss(self, place: TopicPartition, position: int, end: int) -> None:
        """Continue where the log begins when it no longer holds `position`."""
        if not self._is_still_there(place):
            return
        earliest = self._aside.offsets({place: EARLIEST})[place]
        going_on = min(earliest, end) if earliest > position else end
        what = f"{place} no longer holds offsets {position} to {going_on - 1}"
        reason = GapReason.EXPIRED if earliest > position else GapReason.CUT
        self._report(what, Gap(place, position, going_on, reason))
        self._reached[place] = going_on
        self._ahead.move(place, Span(going_on, end))

    def _lose(self, error: TopicGoneError) -> None:
        """Read no more of topics that are gone."""
        lost = sorted(place for place in self.ends if place.topic in error.topics)
        assert lost, f"the task does not read {error.topics}"
        others = f", and {len(lost) - 1} more partitions to their ends" if lost[1:] else ""
        gaps = [Gap(each, self._reached[each], self.ends[each], GapReason.TOPIC_GONE) for each in lost]
        self._report(f"{error}, before {lost[0]} was read to {self.ends[lost[0]]}{others}", *gaps)
        for place in lost:
            self._ahead.drop(place)
            del self.ends[place]

    def _report(self, what: str, *gaps: Gap) -> None:
        report_loss(what, fail=self._options.fail_on_data_loss)
        self.gaps += [gap for gap in gaps if gap.end is None or gap.start < gap.end]


def _waits(arrived: Arrived) -> bool:
    """Return whether there was nothing to read, although the answer had room for it."""
    fetched = arrived.fetched
    readable_end = fetched.high_watermark
    if fetched.last_stable_offset >= 0:
        readable_end = min(readable_end, fetched.last_stable_offset)
    return arrived.next_offset == arrived.offset and (arrived.is_first or readable_end <= arrived.offset)


def _batches(
    answer: Sequence[Arrived], ends: Mapping[TopicPartition, int], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    parts = [
        Part(
            *arrived.place,
            arrived.fetched.start,
            arrived.fetched.end,
            arrived.offset,
            ends[arrived.place],
            arrived.fetched.aborted,
        )
        for arrived in answer
        if arrived.fetched.end > arrived.fetched.start
    ]
    if not parts:
        return
    # A record is no gap.
    names = [name for name in schema.names if name != "gap"]
    for decoded in decode(answer[0].fetched.answer, parts, names):
        columns = [
            decoded.columns[column.name] if column.name in decoded.columns else pa.nulls(decoded.row_count, column.type)
            for column in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
