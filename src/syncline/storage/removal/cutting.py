"""Planning how to cut the end off a log, separately from cutting it.

One hard idea: a cut needs facts that may be only on the disk: where the batch
at the cut begins, and what producers had sent up to there. A disk may take half
a minute to answer, or never answer, and the event loop must not wait. So the
search comes first. It runs in a worker unless memory has everything, and uses
plain values, a copy of the segment and files that it opens itself; meanwhile the
log stays usable and may even grow. The result is a plan, which the loop performs
without reading anything, provided that the log still has the same shape.

Units: positions are bytes; `end_offset` is exclusive.
Source: KIP-101; scenario S16 (a cut also rolls back producer state).
"""

from typing import Final, NamedTuple, Self

from syncline.core.producer_state import ProducerTable
from syncline.model.ids import Offset
from syncline.records.buffers import Buffer
from syncline.storage.checkpoints import producer_snapshot
from syncline.storage.disk import Disk
from syncline.storage.segments.batch_walk import NotABatch, NotResident
from syncline.storage.segments.segment import Segment
from syncline.storage.segments.segment_list import SegmentList

# A worker reads more than this even if it is in memory: the loop has other work to do.
AT_ONCE_BYTES: Final = 256 << 10


class Shape(NamedTuple):
    """What must not have changed in a log between a plan and its cut."""

    cut_count: int
    log_end: Offset
    first_base: Offset
    active_base: Offset

    @classmethod
    def of(cls, segments: SegmentList, cut_count: int) -> Self:
        """Return the shape of a log."""
        active = segments.active
        return cls(cut_count, active.end_offset, segments.first.base_offset, active.base_offset)


class Stretch(NamedTuple):
    """A segment below the one that is cut; producer state may have to be replayed from it."""

    path: str
    end_offset: Offset
    size_bytes: int
    # Offsets of producer snapshots inside it, each with a position at or before the batch that follows it.
    starts: tuple[tuple[Offset, int], ...]


class CutPlan(NamedTuple):
    """Everything that a cut at `offset` needs."""

    offset: Offset
    shape: Shape
    # The segment in which the log will end, as it will be after the cut; None if the cut does not need it.
    rest: Segment | None = None
    # None: the cut does not change producer state.
    producers: ProducerTable | None = None


class CutSearch(NamedTuple):
    """What a worker needs to make a plan. Use it once: its copy of the segment becomes part of the plan."""

    disk: Disk
    directory: str
    offset: Offset
    shape: Shape
    segment: Segment
    # The newest offset that producer state depends on.
    producers_rest_on: int
    snapshots: tuple[Offset, ...]
    older: tuple[Stretch, ...]

    def run(self) -> CutPlan:
        """Make the plan; may wait for the disk. Raises OSError, and NotABatch if the log is damaged."""
        try:
            if self.segment.index is None:
                self.segment.need_indexes()
            return self._plan(resident_only=False)
        finally:
            self.segment.release()

    def run_resident(self) -> CutPlan:
        """Make the plan from what is in memory, at once. Raises NotResident if that is not enough."""
        if self.segment.index is None:
            raise NotResident
        return self._plan(resident_only=True)

    def _plan(self, *, resident_only: bool) -> CutPlan:
        segment = self.segment
        position, end_offset = segment.cut_place(self.offset, resident_only=resident_only)
        segment.forget_from(position, end_offset, resident_only=resident_only)
        producers = None
        if self.producers_rest_on >= end_offset:
            producers = self._producers(end_offset, resident_only=resident_only)
        return CutPlan(self.offset, self.shape, segment, producers)

    def _producers(self, log_end: Offset, *, resident_only: bool) -> ProducerTable:
        """Return the producer state of a log that ends at `log_end`."""
        newest = max((offset for offset in self.snapshots if offset <= log_end), default=None)
        table = None
        if newest is not None:
            path = producer_snapshot.path(self.directory, newest)
            table = producer_snapshot.decode(self._read(path, resident_only=resident_only), newest)
        if newest is None or table is None:
            newest, table = Offset(0), ProducerTable()
        for stretch in self.older:
            if stretch.end_offset <= newest or not stretch.size_bytes:
                continue
            start = max((position for offset, position in stretch.starts if offset <= newest), default=0)
            _check_size(stretch.size_bytes - start, resident_only=resident_only)
            file = self.disk.open(stretch.path)
            try:
                offsets = range(newest, stretch.end_offset)
                producer_snapshot.replay_file(
                    file, start, stretch.size_bytes, table, offsets, resident_only=resident_only
                )
            finally:
                file.close()
        rest = self.segment
        if rest.end_offset > newest and rest.size_bytes:
            assert rest.index is not None, "the segment that is cut has its index in memory"
            start = rest.index.position_before(newest)
            _check_size(rest.size_bytes - start, resident_only=resident_only)
            offsets = range(max(newest, rest.base_offset), rest.end_offset)
            producer_snapshot.replay_file(
                rest.file, start, rest.size_bytes, table, offsets, resident_only=resident_only
            )
        return table

    def _read(self, path: str, *, resident_only: bool) -> bytes:
        """Return a whole file."""
        if not resident_only:
            return self.disk.read_file(path)
        file = self.disk.open(path)
        try:
            _check_size(file.size_bytes, resident_only=True)
            data: Buffer | None = file.read_resident(0, file.size_bytes)
        finally:
            file.close()
        if data is None:
            raise NotResident
        return bytes(data)


def _check_size(size_bytes: int, *, resident_only: bool) -> None:
    if resident_only and size_bytes > AT_ONCE_BYTES:
        raise NotResident


def plan(
    disk: Disk, directory: str, segments: SegmentList, producers: ProducerTable, offset: Offset, shape: Shape
) -> CutPlan | CutSearch:
    """Return how to cut at `offset`, which lies inside the log, or what a worker needs to find that out.

    Raises OSError.
    """
    segment = segments.of(offset)
    search = _search(disk, directory, segments, producers, offset, shape)
    if segment.index is not None:
        try:
            return search._replace(segment=segment.copy(segment.file)).run_resident()
        except (NotResident, NotABatch, OSError):
            # The worker will run into the same broken log or disk, and report it.
            pass
    return search


def _search(
    disk: Disk, directory: str, segments: SegmentList, producers: ProducerTable, offset: Offset, shape: Shape
) -> CutSearch:
    segment = segments.of(offset)
    rests_on = producers.rests_on()
    snapshots: list[Offset] = []
    older: list[Stretch] = []
    if rests_on >= segment.base_offset:
        snapshots = producer_snapshot.offsets(disk, directory)
        older = [_stretch(each, snapshots) for each in segments.finished if each.base_offset < segment.base_offset]
    return CutSearch(disk, directory, offset, shape, segment.copy(), rests_on, tuple(snapshots), tuple(older))


def _stretch(segment: Segment, snapshots: list[Offset]) -> Stretch:
    starts = tuple(
        (inner, segment.index.position_before(inner))
        for inner in snapshots
        if segment.index is not None and segment.base_offset < inner < segment.end_offset
    )
    return Stretch(segment.path(), segment.end_offset, segment.size_bytes, starts)
