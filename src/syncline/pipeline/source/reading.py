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
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.ahead import Ahead, Arrived, Span
from syncline.pipeline.client.cluster import Cluster, Whereabouts
from syncline.pipeline.client.offsets import EARLIEST
from syncline.pipeline.decoding.chunks import Decoded, decode
from syncline.pipeline.decoding.headers import Part
from syncline.pipeline.errors import TopicGoneError
from syncline.pipeline.source.data_loss import Gap, GapReason, gap_rows, report_loss
from syncline.pipeline.source.options import SourceOptions
from syncline.pipeline.source.ranges import OffsetRange
from syncline.pipeline.source.vacancies import Vacancies


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
        rows_of = with_vacancies if options.include_vacancies else _records
        yield from rows_of(task.answers(), task.ends, schema)
        task.confirm()
        if options.include_gaps and task.gaps:
            yield gap_rows(task.gaps, schema)


class _Task:
    """The ranges of one task; `ends` are those of the partitions whose topics are still what was planned."""

    def __init__(self, cluster: Cluster, options: SourceOptions, wanted: Sequence[OffsetRange]) -> None:
        self.ends = {item.place: item.end for item in wanted}
        self.gaps: list[Gap] = []
        # How far the rows of each partition reach; what lies beyond is lost when its topic is.
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
                        # One part of an answer can tell that a topic is gone, and then the others are not read either.
                        kept = [arrived for arrived in answer if arrived.place in self.ends]
                        for arrived in kept:
                            self._reached[arrived.place] = max(self._reached[arrived.place], arrived.next_offset)
                        yield kept
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
        """Record what a partition's part of an answer means for what is asked next."""
        place, end = arrived.place, self.ends.get(arrived.place)
        if end is None:
            return
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
            self._reached[place] = end
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


def _records(
    answers: Iterable[Sequence[Arrived]], ends: Mapping[TopicPartition, int], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the records of answers below the `ends`."""
    for answer in answers:
        for decoded in _decoded(answer, ends, _names(schema)):
            yield _rows(decoded, schema)


def with_vacancies(
    answers: Iterable[Sequence[Arrived]], ends: Mapping[TopicPartition, int], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the records of answers below the `ends`, and rows for the offsets that hold none."""
    vacancies = Vacancies()
    names = sorted({"offset", *_names(schema)})
    for answer in answers:
        gaps: list[Gap] = []
        # One partition after the other, as the rows of many do not say which is whose unless these columns are read.
        for arrived in answer:
            found = []
            for decoded in _decoded([arrived], ends, names):
                found.append(decoded.columns["offset"].to_numpy())
                yield _rows(decoded, schema)
            gaps += vacancies.read(arrived.place, arrived.offset, arrived.next_offset, found)
        if gaps:
            yield gap_rows(gaps, schema)
    rest = vacancies.rest()
    if rest:
        yield gap_rows(rest, schema)


def _decoded(answer: Sequence[Arrived], ends: Mapping[TopicPartition, int], names: Sequence[str]) -> Iterator[Decoded]:
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
    if parts:
        yield from decode(answer[0].fetched.answer, parts, names)


def _names(schema: pa.Schema) -> list[str]:
    """Return the columns that records have: a record is no gap."""
    return [name for name in schema.names if name != "gap"]


def _rows(decoded: Decoded, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        decoded.columns[column.name] if column.name != "gap" else pa.nulls(decoded.row_count, column.type)
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
