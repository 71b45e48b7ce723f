"""What the group coordinator needs of its broker, and no more.

A `Broker` fits `GroupsHost` as it is; a stand-in with a log in memory does, too.
"""

import random
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Protocol

from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.metadata import MetadataImage
from syncline.node.clock import Clock


class OffsetsPartition(Protocol):
    """One replica of the offsets topic on this broker."""

    @property
    def is_leader(self) -> bool:
        """Return whether this broker leads the partition."""

    def append_internal(self, batch: bytes | bytearray, done: Callable[[ErrorCode, int], None]) -> None:
        """Append as leader; `done(code, base offset)` once, in log order, when the high watermark has passed it.

        With an error, a base offset of -1 says that nothing was appended; any other, that the log may keep it.
        """

    def read_committed_batches(self, from_offset: int) -> AsyncIterator[bytes]:
        """Yield chunks of whole batches up to the log end at the start of this leadership, once it is committed."""


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
    def rng(self) -> random.Random:
        """Return the broker's seeded dice."""

    def partition(self, topic: str, partition: int, /) -> OffsetsPartition | None:
        """Return the replica that is hosted here, None if there is none."""

    def spawn(self, work: Coroutine[Any, Any, None], /) -> object:
        """Run `work` as a task that the broker owns and ends."""

    async def create_internal_topic(self, name: str, /) -> object:
        """Ask the controller for a topic of the brokers' own; raises `RequestError`."""
