"""The log of a led partition in which this broker keeps a state of its own, as a coordinator uses it."""

import asyncio
from collections.abc import AsyncIterator, Callable

from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import Offset
from syncline.node.partitions.committed_batches import committed_batches, until_committed
from syncline.node.partitions.partition import Partition


class LedLog:
    """Appends to a partition, reads it back, and lets its oldest records go."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""
        return self._partition.is_leader

    @property
    def log_end(self) -> Offset:
        """The offset of the next record."""
        return self._partition.log.log_end

    def append_internal(self, batch: bytes | bytearray, done: Callable[[ErrorCode, int], None]) -> None:
        """Append a batch made by this broker, with acks=all; `done(code, base offset)` is called once."""
        self._partition.append_internal(batch, done)

    def read_committed_batches(self, from_offset: int, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield the batches from `from_offset` up to `end`, or to this leader's start, in chunks of whole ones.

        Waits until all of it is committed. Raises `RequestError` if this broker loses the leadership meanwhile.
        """
        return committed_batches(self._partition, from_offset, end)

    async def until_committed(self, end: Offset) -> None:
        """Wait until all below `end` is committed. Raises RequestError if this leadership or the log ends first."""
        await until_committed(self._partition, end)

    async def flush(self) -> None:
        """Sync in a worker what this replica has now. Raises StorageError or OSError."""
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: Exception | None) -> None:
            if flushed.done():
                return
            if error is None:
                flushed.set_result(None)
            else:
                flushed.set_exception(error)

        self._partition.log.flush_later(done)
        await flushed

    def finished_segments(self) -> tuple[int, Offset]:
        """Return the bytes of the readable part of the segments that no longer grow, and where they end."""
        log = self._partition.log
        end = log.active_base_offset
        if end <= log.log_start:
            return 0, log.log_start
        return log.bytes_from(log.log_start) - log.bytes_from(end), end

    def raise_log_start(self, offset: Offset) -> None:
        """Let go of the records below `offset`. Raises RequestError unless they are committed, and led here."""
        if not self.is_leader:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._partition.log.raise_log_start(offset):
            self._partition.watchers.log_start_moved()
