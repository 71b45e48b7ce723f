"""Reading a led partition back: how the group coordinator loads its state, and renews its log."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, Protocol

from syncline.core.replication.leader import LeaderPartition
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import Offset
from syncline.records.batch import BatchHeader
from syncline.records.buffers import Buffer
from syncline.storage.errors import DamagedLogError
from syncline.storage.log import PartitionLog
from syncline.storage.segments.batch_walk import NotABatch
from syncline.storage.segments.reading import Slice

CHUNK_BYTES_MAX: Final = 1 << 20


class ReplicaToRead(Protocol):
    """What reading back uses of a hosted partition."""

    @property
    def leader(self) -> LeaderPartition | None:
        """Return the leader's state; None while another broker leads."""

    @property
    def leader_epoch(self) -> int:
        """Return the leader epoch."""

    @property
    def log(self) -> PartitionLog:
        """Return the log."""

    @property
    def high_watermark(self) -> Offset:
        """Return the offset below which everything is committed."""

    def wait(self, required_offset: int, waiter: "_CommitWaiter", topic_index: int, row_index: int, /) -> None:
        """Call `waiter.decided` when everything below `required_offset` is committed, or can no longer be."""


async def committed_batches(replica: ReplicaToRead, from_offset: int, end: int | None = None) -> AsyncIterator[bytes]:
    """Yield the batches from `from_offset` up to `end`, or to the start of this leadership, in chunks of whole ones.

    Waits until all of it is committed. Raises `RequestError` if this broker loses the leadership meanwhile.
    """
    leader = replica.leader
    if leader is None:
        raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    epoch = leader.leader_epoch
    if end is None:
        end = leader.epoch_start_offset
    if replica.high_watermark < end:
        committed = asyncio.get_running_loop().create_future()
        replica.wait(end, _CommitWaiter(committed), 0, 0)
        await committed
    offset = max(from_offset, replica.log.log_start)
    while offset < end:
        if replica.leader is None or replica.leader_epoch != epoch:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        chunk = await _read_chunk(replica.log, Offset(offset), Offset(end))
        if not chunk:
            return
        yield chunk
        position = 0
        while position < len(chunk):
            header = BatchHeader.parse(chunk, position)
            position += header.size_bytes
            offset = header.next_offset
    if replica.leader is None or replica.leader_epoch != epoch:
        raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def until_committed(replica: ReplicaToRead, end: Offset) -> None:
    """Wait until all below `end` is committed. Raises `RequestError` if this leadership or the log ends first."""
    epoch = replica.leader_epoch
    committed = asyncio.get_running_loop().create_future()
    replica.wait(end, _CommitWaiter(committed), 0, 0)
    await committed
    if replica.leader is None or replica.leader_epoch != epoch or replica.high_watermark < end:
        raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def _read_chunk(log: PartitionLog, offset: Offset, end: Offset) -> bytes:
    """Return whole batches from `offset` on, at most a chunk but at least one batch."""
    plan = log.read_plan(offset, CHUNK_BYTES_MAX, end, at_least_one=True)
    if isinstance(plan, Slice) and not plan.size_bytes:
        return b""
    read: asyncio.Future[Buffer] = asyncio.get_running_loop().create_future()

    def done(result: Buffer | Exception) -> None:
        if read.done():
            return
        if isinstance(result, NotABatch):
            read.set_exception(DamagedLogError(str(result)))
        elif isinstance(result, Exception):
            read.set_exception(result)
        else:
            read.set_result(result)

    plan.read_later(done)
    return bytes(await read)


class _CommitWaiter:
    """Resolves a future when records are committed."""

    __slots__ = ("_future",)

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self._future = future

    def decided(self, _topic_index: int, _row_index: int, _code: ErrorCode) -> None:
        """Resume the reader, whatever the verdict: it checks the leadership itself."""
        if not self._future.done():
            self._future.set_result(None)
