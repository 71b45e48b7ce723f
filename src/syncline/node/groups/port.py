"""What the group coordinator uses of its broker.

`GroupsOnDemand` implements `GroupsHost` on a broker, and tests implement it on a log in memory.
"""

import random
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Protocol

from syncline.core.groups.watch import CommitWatch
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.ids import Offset
from syncline.model.metadata import MetadataImage
from syncline.node.clock import Clock


class OffsetsPartition(Protocol):
    """One replica of the offsets topic on this broker."""

    @property
    def is_leader(self) -> bool:
        """Return whether this broker leads the partition."""

    @property
    def log_end(self) -> Offset:
        """Return the offset of the next record."""

    def append_internal(self, batch: bytes | bytearray, done: Callable[[ErrorCode, int], None]) -> None:
        """Append as leader; `done(code, base offset)` once, in log order, when the high watermark has passed it.

        With an error, a base offset of -1 means that nothing was appended; any other, that the log may keep it.
        """

    def read_committed_batches(self, from_offset: int, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield chunks of whole batches up to `end`, or the log end at the start of this leadership, once committed."""

    async def until_committed(self, end: Offset) -> None:
        """Wait until everything below `end` is committed. Raises `RequestError` if this leadership or the log ends."""

    async def flush(self) -> None:
        """Make what this replica has now safe from a power cut. Raises `StorageError` or `OSError`."""

    def finished_segments(self) -> tuple[int, Offset]:
        """Return the bytes of the readable part of the segments that no longer grow, and where they end."""

    def raise_log_start(self, offset: Offset) -> None:
        """Let go of the records below `offset`. Raises `RequestError` unless they are committed, and led here."""


class MemberMemory(Protocol):
    """The memory that members of groups share with the broker's connections."""

    def add(self, change_bytes: int) -> None:
        """Count members that come, or (negative) leave."""

    def room_bytes(self) -> int:
        """Return how many more bytes may be held."""


class WatchesTerms(Protocol):
    """What looks on while the groups of this broker commit."""

    def term_began(self, partition: int, /) -> CommitWatch:
        """Return what hears of the commits of a new term of this partition of the offsets topic."""

    def term_ended(self, partition: int, /) -> None:
        """Forget what was heard of these groups: another broker coordinates them, or the log is read again."""


class GroupsHost(Protocol):
    """The broker, as the group coordinator sees it."""

    @property
    def config(self) -> BrokerConfig:
        """Return the broker's configuration as of now."""

    @property
    def image(self) -> MetadataImage:
        """Return the cluster's metadata as of now."""

    @property
    def clock(self) -> Clock:
        """Return the broker's clock."""

    @property
    def memory(self) -> MemberMemory:
        """Return what counts the memory that members take."""

    @property
    def rng(self) -> random.Random:
        """Return the broker's seeded random generator."""

    @property
    def commits(self) -> WatchesTerms:
        """Return what looks on while groups commit."""

    def partition(self, topic: str, partition: int, /) -> OffsetsPartition | None:
        """Return this broker's replica; None if it hosts none."""

    def damaged(self, partition: int, reason: str, /) -> None:
        """Report that this broker's log of a partition is damaged: another replica leads, or the log is mended."""

    def spawn(self, work: Coroutine[Any, Any, None], /) -> object:
        """Run `work` as a task that the broker owns and cancels."""

    async def create_internal_topic(self, name: str, /) -> object:
        """Ask the controller to create an internal topic; raises `RequestError`."""
