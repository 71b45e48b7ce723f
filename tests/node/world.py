"""Unmodified nodes in virtual time, on a network and on disks that do only what a test wants of them.

Waiting costs nothing here: the clock jumps to whatever is due next. After each
test the brokers are stopped in good order, and the invariants of replication
that `syncline.virtual` watches must have held throughout.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.broker import Broker
from syncline.node.node import Node
from syncline.node.partitions.partition import Partition
from syncline.node.replication.leader_fetcher import LeaderFetcher
from syncline.node.serving.connection import Connection
from syncline.virtual.cluster import CLIENT_PORT, INTERNAL_PORT, ClusterSettings, VirtualCluster
from syncline.virtual.disk.disk import DiskSettings
from syncline.virtual.host import Host
from syncline.virtual.network.links import NetworkSettings
from syncline.virtual.time.durations import MS
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient

QUIET_NETWORK = NetworkSettings(
    latency_ns_min=MS // 10, latency_ns_max=MS // 10 + 1, tail_probability=0, split_probability=0
)
QUIET_DISK = DiskSettings(miss_probability=0)
# Nothing happens in a test but what it asks for.
CONFIG = {
    "journal.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "min.insync.replicas": "1",
}
START_S = 15
PATIENCE_S = 120


class Errors(logging.Handler):
    """What brokers logged as an error with a traceback: a fault of ours unless a test expects it. And warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []
        self.warnings: list[str] = []
        # Warnings and errors, in order.
        self.lines: list[str] = []
        # All that was logged as an error, with a traceback or without.
        self.logged: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.lines.append(record.getMessage())
        if record.levelno == logging.WARNING:
            self.warnings.append(record.getMessage())
            return
        self.logged.append(record.getMessage())
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")

    def take(self) -> list[str]:
        """Return what was logged, as expected by the test that asks."""
        found, self.found = self.found, []
        return found


class World:
    """A cluster of nodes and what tests do with it."""

    def __init__(
        self, brokers: int = 1, started: int | None = None, seed: int = 1, *, is_checked: bool = True, **config: Any
    ) -> None:
        """`is_checked`: invariants are checked after each step, which takes long with thousands of partitions."""
        named = {name.replace("_", "."): str(value) for name, value in config.items()}
        settings = ClusterSettings(
            brokers=brokers,
            config={**CONFIG, **named},
            network=QUIET_NETWORK,
            disk=QUIET_DISK,
            is_shuffled=False,
            check_invariants=is_checked,
        )
        self.cluster = VirtualCluster(seed, settings)
        self.loop = self.cluster.loop
        self.network = self.cluster.network
        self.hosts = self.cluster.hosts
        self.errors = Errors()
        self._started = brokers if started is None else started

    # Running

    def run(self, scene: Callable[[], Awaitable[None]]) -> None:
        """Run a test, then stop everything and look for what went wrong unseen."""
        logger = logging.getLogger("syncline")
        level, propagates = logger.level, logger.propagate
        logger.addHandler(self.errors)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._play(scene))
        finally:
            for task in self.loop.world_tasks():
                task.cancel()
            self.cluster.take_apart()
            asyncio.set_event_loop(None)
            logger.removeHandler(self.errors)
            logger.setLevel(level)
            logger.propagate = propagates

        assert [] == [*self.cluster.failures, *self.cluster.ghost.violations, *self.errors.found]

    async def _play(self, scene: Callable[[], Awaitable[None]]) -> None:
        for broker_id in range(1, self._started + 1):
            await self.start(broker_id)
        async with asyncio.timeout(PATIENCE_S):
            await scene()
        await self.cluster.stop()

    async def start(self, broker_id: int) -> None:
        """Start a broker and wait until it serves."""
        host = self.hosts[broker_id]
        self.cluster.start(host)
        assert host.starting is not None
        await asyncio.wait_for(asyncio.shield(host.starting), START_S)

    def kill(self, broker_id: int) -> None:
        """End a broker's process at once."""
        self.cluster.kill(self.hosts[broker_id])

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds."""
        while not condition():  # noqa: ASYNC110 - there is no event for it, and virtual time is free
            await asyncio.sleep(0.0005)

    async def later(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)

    def slow_disk(self, broker_id: int, latency_ms: int) -> None:
        """From now on nothing is in memory, and each read takes so long; 0 ends it."""
        disk = self.hosts[broker_id].disk
        assert disk is not None
        disk.settings = (
            DiskSettings(latency_ns_min=latency_ms * MS, latency_ns_max=0, miss_probability=1)
            if latency_ms
            else QUIET_DISK
        )

    # Its inhabitants

    def host(self, broker_id: int = 1) -> Host:
        """Return a broker's host."""
        return self.hosts[broker_id]

    def node(self, broker_id: int = 1) -> Node:
        """Return a node that lives."""
        node = self.hosts[broker_id].node
        assert node is not None
        return node

    def broker(self, broker_id: int = 1) -> Broker:
        """Return the broker of a node that lives."""
        return self.node(broker_id).broker

    def partition(self, broker_id: int = 1, topic: str = "t", number: int = 0) -> Partition:
        """Return a partition that a broker hosts."""
        return self.broker(broker_id).partitions[TopicPartition(topic, number)]

    def fetcher(self, broker_id: int, leader_id: int) -> LeaderFetcher:
        """Return what one broker fetches from another with."""
        return self.broker(broker_id).replicas.fetchers.by_leader[leader_id]

    def as_broker(self, broker_id: int, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run a coroutine as part of a broker's process."""
        process = self.hosts[broker_id].process
        assert process is not None
        return process.context.run(self.loop.create_task, work)

    def call(self, broker_id: int, work: Callable[..., Any], *args: Any) -> Any:
        """Call a function as part of a broker's process."""
        process = self.hosts[broker_id].process
        assert process is not None
        return process.context.run(work, *args)

    def connections(self, broker_id: int = 1) -> list[Connection]:
        """Return a broker's side of its clients' connections."""
        return [each for each in self.broker(broker_id).dispatcher.connections if each.listener == "client"]

    async def client(self, broker_id: int = 1) -> WireClient:
        """Return a connection to a broker's client listener."""
        return await WireClient.connect(f"broker-{broker_id}", CLIENT_PORT)

    async def peer(self, broker_id: int = 1) -> WireClient:
        """Return a connection to a broker's inter-broker listener."""
        return await WireClient.connect(f"broker-{broker_id}", INTERNAL_PORT)

    async def topic(
        self, name: str = "t", partitions: int = 1, replicas: tuple[int, ...] | None = None, **configs: Any
    ) -> None:
        """Create a topic and wait until every broker has it; its first partition is led by the first of `replicas`."""
        broker_id = next(broker_id for broker_id, host in self.hosts.items() if host.is_up)
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}
        count = len(self.hosts) if replicas is None else len(replicas)
        channel = self.broker(broker_id).controller
        if replicas is None or partitions > 1:
            ((_, code, message),) = await self.as_broker(
                broker_id, channel.create_topics([name], partitions, count, named)
            )
        else:
            code, message = await self._assigned_topic(broker_id, name, replicas, named)
        assert (code, message) == (ErrorCode.NONE, None)
        await self.until(lambda: all(name in self.broker(each).image.topics for each in self.living()))

    async def _assigned_topic(
        self, broker_id: int, name: str, replicas: tuple[int, ...], configs: dict[str, str]
    ) -> tuple[ErrorCode, str | None]:
        client = await self.client(broker_id)
        answer = await client.ask(
            ApiKey.CREATE_TOPICS,
            5,
            topics=[
                {
                    "name": name,
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": [{"partition_index": 0, "broker_ids": replicas}],
                    "configs": [{"name": key, "value": value} for key, value in configs.items()],
                }
            ],
            timeout=5_000,
            validate_only=False,
        )
        client.transport.close()
        return ErrorCode(int(answer.topics[0].error_code)), answer.topics[0].error_message

    async def delete_topic(self, name: str = "t") -> None:
        """Delete a topic and wait until every broker has forgotten it."""
        client = await self.client(self.living()[0])
        await client.ask(ApiKey.DELETE_TOPICS, 5, topic_names=[name], timeout=5_000)
        await self.until(lambda: all(name not in self.broker(each).image.topics for each in self.living()))

    def living(self) -> list[int]:
        """Return the brokers that have a process."""
        return [broker_id for broker_id, host in self.hosts.items() if host.is_up]
