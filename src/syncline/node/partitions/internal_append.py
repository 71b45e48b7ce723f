"""Appending a batch that this broker made itself: journal events, and the state of consumer groups."""

from collections.abc import Callable
from typing import Protocol

from syncline.core.replication.leader import LeaderPartition
from syncline.model.errors import ErrorCode
from syncline.model.ids import Offset
from syncline.model.topic_config import TopicConfig
from syncline.records.batch import BatchHeader
from syncline.storage.errors import StorageError


class ReplicaToAppendTo(Protocol):
    """What an append of the broker's own uses of a hosted partition."""

    config: TopicConfig

    @property
    def leader(self) -> LeaderPartition | None:
        """Return the leader's state; None while another broker leads."""

    def append(self, buffer: memoryview | bytearray, position: int, header: BatchHeader, wall_ms: int, /) -> Offset:
        """Append one batch as leader, at this time; return its base offset. Raises `StorageError`."""

    def wait(self, required_offset: int, waiter: "_InternalWaiter", topic_index: int, row_index: int, /) -> None:
        """Call `waiter.decided` when everything below `required_offset` is committed, or can no longer be."""


def append_internal(
    replica: ReplicaToAppendTo, batch: bytes | bytearray, wall_ms: int, done: Callable[[ErrorCode, int], None]
) -> None:
    """Append `batch` as leader, with acks=all; `done(code, base offset)` is called once, possibly at once.

    `wall_ms` is the time of the append.
    """
    leader = replica.leader
    if leader is None:
        done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        return
    refusal = leader.check_append(-1)
    if refusal:
        done(refusal, -1)
        return
    owned = bytearray(batch)
    header = BatchHeader.parse(owned, 0)
    if header.size_bytes > replica.config.segment_bytes:
        done(ErrorCode.MESSAGE_TOO_LARGE, -1)
        return
    try:
        base_offset = replica.append(owned, 0, header, wall_ms)
    except StorageError as error:
        done(error.code, -1)
        return
    replica.wait(base_offset + header.record_count, _InternalWaiter(done, base_offset), 0, 0)


class _InternalWaiter:
    """Calls back when the batch is committed, or can no longer be."""

    __slots__ = ("_base_offset", "_done")

    def __init__(self, done: Callable[[ErrorCode, int], None], base_offset: int) -> None:
        self._done = done
        self._base_offset = base_offset

    def decided(self, _topic_index: int, _row_index: int, code: ErrorCode) -> None:
        """Pass the verdict to the callback."""
        self._done(code, self._base_offset)
