"""The leader's side of LAG: where one of its partitions ends, and where offsets lie in it, in one step of the loop.

One hard idea: ends and places that were read between two callbacks belong together. Nothing can be appended, committed
or deleted between them, so a difference of two is a distance that existed. The asker has read the commits before it
asked; a watermark never falls below what was committed, so no distance is negative.

A new leader's watermark may still lie below what was acknowledged: until it covers that, the answer is
OFFSET_NOT_AVAILABLE, as ListOffsets has it.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from syncline.model.lag import UNKNOWN, OffsetPlace, PartitionEnds
from syncline.model.topic_config import TopicConfig
from syncline.node.lag.messages import READERS_MAX, AnsweredPartition, AskedPartition
from syncline.node.lag.read_positions import ReaderPosition, ReadPositions
from syncline.storage.disk import Disk
from syncline.storage.errors import StorageError
from syncline.storage.lag.places import PlaceSearch
from syncline.storage.log import PartitionLog

# Of one question: places that workers look for, and how long the answer waits for them.
SEARCHES_MAX: Final = 64
SEARCHES_S: Final = 1.0


# Who reads a partition that ends here.
ReadersOf: TypeAlias = Callable[[TopicPartition, Offset], tuple[ReaderPosition, ...]]


def no_readers(_key: TopicPartition, _high_watermark: Offset) -> tuple[ReaderPosition, ...]:
    """Return no readers: they were not asked for."""
    return ()


class ToldReaders:
    """Who reads the partitions of one question: at most `READERS_MAX` in all."""

    __slots__ = ("_left", "_now_ms", "_positions")

    def __init__(self, positions: ReadPositions, now_ms: Callable[[], int]) -> None:
        self._positions = positions
        self._now_ms = now_ms
        self._left = READERS_MAX

    def __call__(self, key: TopicPartition, high_watermark: Offset) -> tuple[ReaderPosition, ...]:
        """Return who reads a partition."""
        if not self._left:
            return ()
        found = self._positions.of(key, high_watermark, self._now_ms())[: self._left]
        self._left -= len(found)
        return found


class MeasuredLeader(Protocol):
    """The leader's state of a partition."""

    @property
    def are_offsets_available(self) -> bool:
        """Return whether its high watermark covers what the leader before it had committed."""


class MeasuredPartition(Protocol):
    """A partition that this broker hosts."""

    @property
    def key(self) -> TopicPartition:
        """Return its topic and number."""

    @property
    def log(self) -> PartitionLog:
        """Return its log."""

    @property
    def leader(self) -> MeasuredLeader | None:
        """Return the leader's state, None on a follower."""

    @property
    def leader_epoch(self) -> int:
        """Return the epoch of the leadership."""

    @property
    def high_watermark(self) -> Offset:
        """Return the offset below which all records are committed."""

    @property
    def config(self) -> TopicConfig:
        """Return the configuration of its topic."""


class Measured(NamedTuple):
    """What memory knows, and what a worker still has to find: (which place, how)."""

    answered: AnsweredPartition
    searches: tuple[tuple[int, PlaceSearch], ...] = ()


def answer_partition(
    partition: MeasuredPartition | None,
    asked: AskedPartition,
    *,
    broker_id: BrokerId,
    wall_ms: Callable[[], int],
    is_exact: bool,
    readers: ReadersOf = no_readers,
) -> Measured:
    """Return the ends of a partition that this broker leads, the places of the offsets that are asked for, and readers.

    `readers` tells who reads a partition whose high watermark is given; by default the answer has no readers.
    """
    error = _refusal(partition, asked.leader_epoch)
    if partition is None or error is not ErrorCode.NONE:
        return Measured(AnsweredPartition(error))
    try:
        ends = ends_of(partition, broker_id, wall_ms())
        offsets = asked.offsets
        places: list[OffsetPlace | None] = [None] * len(offsets)
        searches: list[tuple[int, PlaceSearch]] = []
        # In their order, so that one read of headers serves many; groups come in any.
        in_order = sorted(range(len(offsets)), key=offsets.__getitem__) if ends.log_start < ends.log_end else []
        # The place is that of the first record at or behind an offset that still exists; at the end there is none yet.
        indexes = [index for index in in_order if offsets[index] < ends.log_end]
        found = partition.log.places([offsets[index] for index in indexes], is_exact=is_exact)
        for index, place in zip(indexes, found, strict=True):
            if isinstance(place, PlaceSearch):
                searches.append((index, place))
            else:
                places[index] = place
    except StorageError:
        return Measured(AnsweredPartition(ErrorCode.KAFKA_STORAGE_ERROR))
    read_by = readers(partition.key, ends.high_watermark)
    return Measured(AnsweredPartition(ErrorCode.NONE, ends, tuple(places), read_by), tuple(searches))


class _Searches:
    """The searches of one answer: workers read `is_over`, and only the loop sets it."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False

    def run(self, search: PlaceSearch) -> OffsetPlace | None:
        """Return what a search finds, None if the answer left while it waited for a worker. In a worker."""
        return None if self.is_over else search.run(lambda: not self.is_over)


async def completed(measured: Sequence[Measured], disk: Disk) -> list[AnsweredPartition]:
    """Return the answers with the places that workers find in time; what is not found by then is missing.

    Searches that have not begun by then never begin, and those under way end soon: they would keep consumers waiting
    for the disk.
    """
    places = [list(each.answered.places) for each in measured]
    searches = [(row, index, search) for row, each in enumerate(measured) for index, search in each.searches]
    if searches:
        del searches[SEARCHES_MAX:]
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        under_way = _Searches()
        left = len(searches)

        def found(row: int, index: int, outcome: OffsetPlace | Exception | None) -> None:
            nonlocal left
            left -= 1
            if isinstance(outcome, OffsetPlace):
                places[row][index] = outcome
            end(is_over=not left)

        def end(*, is_over: bool = True) -> None:
            if is_over and not ended.done():
                ended.set_result(None)

        timer = loop.call_later(SEARCHES_S, end)
        for row, index, search in searches:
            disk.run_later(partial(under_way.run, search), partial(found, row, index))
        try:
            await ended
        finally:
            under_way.is_over = True
            timer.cancel()
    return [each.answered._replace(places=tuple(row)) for each, row in zip(measured, places, strict=True)]


def ends_of(partition: MeasuredPartition, broker_id: BrokerId, wall_ms: int) -> PartitionEnds:
    """Return where a led partition begins and ends now."""
    log, config = partition.log, partition.config
    is_trimmed = "delete" in config.cleanup_policy
    first_bytes, end_bytes = log.byte_bounds()
    ends = PartitionEnds(
        leader=broker_id,
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        at_ms=wall_ms,
        log_start=log.log_start,
        high_watermark=partition.high_watermark,
        # There are no transactions, so nothing below the watermark is undecided.
        last_stable=partition.high_watermark,
        log_end=log.log_end,
        first_bytes=first_bytes,
        watermark_bytes=end_bytes - log.bytes_from(partition.high_watermark),
        end_bytes=end_bytes,
        newest_event_ms=log.newest_timestamp_ms,
        # Asked twice, a leader shows how fast it writes; the asker knows both answers.
        written_bytes_per_s=0.0,
        retention_ms=config.retention_ms if is_trimmed else UNKNOWN,
        retention_bytes=config.retention_bytes if is_trimmed else UNKNOWN,
        held_since_ms=UNKNOWN,
        readable_below_watermark=log.readable_before(partition.high_watermark),
    )
    ends.check_invariants()
    return ends


def _refusal(partition: MeasuredPartition | None, leader_epoch: int) -> ErrorCode:
    if partition is None or partition.leader is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader_epoch > partition.leader_epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if partition.log.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE if partition.leader.are_offsets_available else ErrorCode.OFFSET_NOT_AVAILABLE
