"""A broker reduced to what groups need: metadata, a clock, and offsets partitions with a log in memory."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any
from uuid import UUID

from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import OFFSETS_TOPIC, BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from syncline.model.metadata import BrokerChanged, BrokerRecord, MetadataImage, PartitionRecord, TopicCreated
from syncline.node.api import (
    api_08_offset_commit,
    api_09_offset_fetch,
    api_10_find_coordinator,
    api_11_join_group,
    api_12_heartbeat,
    api_13_leave_group,
    api_14_sync_group,
    api_15_describe_groups,
    api_16_list_groups,
    api_42_delete_groups,
    api_47_offset_delete,
)
from syncline.node.clients.memory import MemoryBudget
from syncline.node.groups.coordinator import GroupCoordinator
from syncline.node.lag.commits import Commits
from syncline.node.lag.ends import KnownEnds
from syncline.node.serving.request import Request, Steps
from syncline.records.batch import BatchHeader, crc_matches, iterate, stamp
from syncline.virtual.time.clock import VirtualClock
from syncline.virtual.time.loop import VirtualLoop
from syncline.wire.codec import decode_response, encode_request, request_type
from syncline.wire.entities import build

HANDLERS: dict[int, Any] = {
    module.KEY: module.handle
    for module in (
        api_08_offset_commit,
        api_09_offset_fetch,
        api_10_find_coordinator,
        api_11_join_group,
        api_12_heartbeat,
        api_13_leave_group,
        api_14_sync_group,
        api_15_describe_groups,
        api_16_list_groups,
        api_42_delete_groups,
        api_47_offset_delete,
    )
}
BROKER_ID = BrokerId(1)
PARTITION_COUNT = 50


class MemoryPartition:
    """One offsets partition; records are committed at once, or when `commit` is called."""

    def __init__(self) -> None:
        self.is_leader = True
        self.log = b""
        self.high_watermark = 0
        self.log_start = 0
        self.log_end = Offset(0)
        self.synced_end = 0
        # Where the last segment that no longer grows ends.
        self.finished_end = 0
        self.is_committing = True
        self.refusal = ErrorCode.NONE
        # The disk fails with the next append: what waits gets the verdict inside it.
        self.is_disk_failing = False
        self._waiting: list[tuple[int, int, Callable[[ErrorCode, int], None]]] = []
        self.term_start = 0
        self.committed = asyncio.Event()
        self.committed.set()

    def append_internal(self, batch: bytes | bytearray, done: Callable[[ErrorCode, int], None]) -> None:
        """Append, as the port says."""
        if self.is_disk_failing:
            self.fail(ErrorCode.KAFKA_STORAGE_ERROR)
            done(ErrorCode.KAFKA_STORAGE_ERROR, -1)
            return
        if self.refusal:
            done(self.refusal, -1)
            return
        owned = bytearray(batch)
        header = BatchHeader.parse(owned, 0)
        assert crc_matches(owned, 0, header), "the coordinator made a batch with a wrong checksum"
        base_offset = self.log_end
        stamp(owned, 0, base_offset, 0)
        self.log += owned
        self.log_end = Offset(base_offset + header.record_count)
        self._waiting.append((self.log_end, base_offset, done))
        if self.is_committing:
            self.commit()

    def commit(self) -> None:
        """Let the high watermark reach the log end."""
        self.high_watermark = self.log_end
        self.committed.set()
        while self._waiting:
            _, base_offset, done = self._waiting.pop(0)
            done(ErrorCode.NONE, base_offset)

    def lose(self) -> None:
        """Lose leadership: every waiter gets that verdict, whether or not its records stay."""
        self.is_leader = False
        self.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def fail(self, error: ErrorCode) -> None:
        """Give this verdict to all waiters."""
        waiting, self._waiting = self._waiting, []
        for _, base_offset, done in waiting:
            done(error, base_offset)

    async def read_committed_batches(self, from_offset: int, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield the log once it is committed."""
        assert from_offset == 0
        await self.committed.wait()
        if not self.is_leader:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for position, header in iterate(self.log, 0, len(self.log)):
            if self.log_start <= header.base_offset and (end is None or header.base_offset < end):
                await asyncio.sleep(0)
                yield self.log[position : position + header.size_bytes]

    async def until_committed(self, end: Offset) -> None:
        """Wait for the high watermark."""
        while self.is_leader and self.high_watermark < end:  # noqa: ASYNC110 - virtual time is free
            await asyncio.sleep(0.001)
        if not self.is_leader:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def flush(self) -> None:
        """Sync the log."""
        self.synced_end = self.log_end
        await asyncio.sleep(0)

    def finished_segments(self) -> tuple[int, Offset]:
        """Return the segments up to where the test says that they no longer grow."""
        batches = [header for _, header in iterate(self.log, 0, len(self.log))]
        finished = [each.size_bytes for each in batches if self.log_start <= each.base_offset < self.finished_end]
        return sum(finished), Offset(self.finished_end)

    def raise_log_start(self, offset: Offset) -> None:
        """Let go of the records below `offset`."""
        assert self.log_start <= offset <= self.high_watermark, f"{offset} is no log start"
        self.log_start = offset


class StandInBroker:
    """Fits `GroupsHost`, and what the API modules of groups use."""

    def __init__(self, loop: VirtualLoop, config: BrokerConfig | None = None) -> None:
        self.config = config or BrokerConfig(group_initial_rebalance_delay_ms=0)
        self.clock = VirtualClock(loop)
        self.rng = random.Random(7)
        self.memory = MemoryBudget(loop, 1 << 30)
        self.partitions: dict[int, MemoryPartition] = {}
        self.tasks: list[asyncio.Task[Any]] = []
        self.created: list[str] = []
        self.found_damaged: dict[int, str] = {}
        self.image = MetadataImage().apply(
            [
                BrokerChanged(
                    BrokerRecord(BROKER_ID, BrokerEpoch(1), "i", "127.0.0.1", 9092, "127.0.0.1", 9093, fenced=False)
                ),
                _topic("t", 2, UUID(int=1)),
            ],
            1,
        )
        self.commits = Commits(KnownEnds(10), intervals=10, min_distance_ms=0)
        self.groups = GroupCoordinator(self)

    def partition(self, topic: str, partition: int) -> MemoryPartition | None:
        """Return an offsets partition."""
        assert topic == OFFSETS_TOPIC
        return self.partitions.get(partition)

    def damaged(self, partition: int, reason: str) -> None:
        """Record what the coordinator has found."""
        self.found_damaged[partition] = reason

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task that `stop` ends."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.append(task)
        return task

    async def create_internal_topic(self, name: str) -> None:
        """Create the offsets topic, led by this broker."""
        self.created.append(name)
        await asyncio.sleep(0.05)
        self.image = self.image.apply([_topic(name, PARTITION_COUNT, UUID(int=2))], self.image.version + 1)
        for index in range(PARTITION_COUNT):
            self.partitions[index] = MemoryPartition()
            self.groups.became_leader(index, 0)

    async def start(self) -> None:
        """Create the offsets topic, and load it."""
        await self.create_internal_topic(OFFSETS_TOPIC)
        await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """End every task."""
        self.groups.close()
        for task in self.tasks:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def led(self, group_id: str = "g") -> MemoryPartition:
        """Return the partition of a group."""
        return self.partitions[self.groups.partition_of(group_id)]

    def call(self, key: int, version: int, /, **fields: Any) -> "asyncio.Future[Any]":
        """Send a request through its API module, over the wire format; the future is the decoded answer."""
        connection = _Connection()
        body = memoryview(encode_request(build(request_type(key, version), fields)))
        request = Request(connection, key, version, 0, "client", body, 0)
        connection.step(request, HANDLERS[key](self, request))
        return connection.answer


class _Connection:
    """The connection of one request."""

    listener = "client"
    client_host = "/127.0.0.1"
    transport = None
    files = None

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def step(self, _request: Request, steps: Steps | None) -> None:
        """Do all steps."""
        for _ in steps or ():
            pass

    def wait_for(self, request: Request) -> None:
        """Do nothing: there are no other requests."""

    def answered(self, request: Request) -> None:
        """Take the answer, as its bytes say it."""
        parts = request.take_answer()
        assert parts is not None, "requests of groups have an answer"
        self.answer.set_result(decode_response(request.key, request.version, b"".join(parts)))

    def close(self, reason: str) -> None:
        """Refuse: no request of these tests is malformed."""
        raise AssertionError(reason)

    def hold(self, size_bytes: int) -> None:
        """Do nothing: nothing is counted."""

    def release(self, size_bytes: int) -> None:
        """Do nothing: nothing is counted."""

    def beat(self) -> None:
        """Do nothing: no broker listens."""


def _topic(name: str, partition_count: int, topic_id: UUID) -> TopicCreated:
    partitions = tuple(
        PartitionRecord(index, BROKER_ID, LeaderEpoch(0), PartitionEpoch(0), (BROKER_ID,), (BROKER_ID,))
        for index in range(partition_count)
    )
    return TopicCreated(name, topic_id, partitions)
