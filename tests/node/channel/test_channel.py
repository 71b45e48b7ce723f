"""Channels of several brokers in one process: real sockets and a real store, no logs behind them."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from syncline.coordination.sqlite import SqliteCoordination
from syncline.core.replication.effects import IsrAnswer, IsrChange, IsrMember, ProposeIsr
from syncline.core.replication.evidence import Evidence
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.metadata import MetadataImage
from syncline.node.api import (
    api_56_alter_partition,
    api_62_broker_registration,
    api_63_broker_heartbeat,
    api_20000_metadata_delta,
    api_20001_forward,
)
from syncline.node.channel.channel import Channel
from syncline.node.channel.identity import BrokerIdentity
from syncline.node.channel.membership import RegistrationRefused
from syncline.node.clients.clients import Clients
from syncline.node.clock import SystemClock
from syncline.node.fetching.woken import WokenFetches
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.serving.connection import Connection
from syncline.node.serving.dispatch import Dispatcher
from syncline.node.serving.long_requests import LongRequests
from syncline.node.serving.outgoing import Outgoing
from syncline.node.serving.received import Received
from syncline.node.serving.stepping import Stepping

MODULES = (
    api_56_alter_partition,
    api_62_broker_registration,
    api_63_broker_heartbeat,
    api_20000_metadata_delta,
    api_20001_forward,
)


class Member:
    """A broker that is only its channel and the listener for other brokers."""

    def __init__(self, broker_id: int, directory: Path, **identity: Any) -> None:
        self.broker_id = broker_id
        self.directory = directory
        self.identity = identity
        self.patience_ms = 5_000
        self.images: list[int] = []
        self.channel: Channel
        self.server: asyncio.AbstractServer

    async def start(self) -> "Member":
        """Serve, then join."""
        loop = asyncio.get_running_loop()
        stub = SimpleNamespace(counters=SimpleNamespace(requests={}))
        holds = LoopHolds(SystemClock())
        stepping = Stepping(loop, holds, lambda: None)
        self.dispatcher = Dispatcher(
            stub,
            {int(module.KEY): module.handle for module in MODULES},
            outgoing=Outgoing(),
            woken=WokenFetches(loop),
            holds=holds,
            clients=Clients(
                loop=loop,
                clock=SystemClock(),
                config=BrokerConfig(),
                memory_bytes=1 << 30,
                connections=lambda: self.dispatcher.connections,
                spawn=loop.create_task,
            ),
            stepping=stepping,
            long_requests=LongRequests(stepping, 1 << 30),
            received=Received(loop, holds, lambda: None),
            on_connection_lost=lambda _connection: None,
        )
        self.server = await loop.create_server(lambda: Connection(self.dispatcher, "internal", 1 << 20), "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.channel = stub.controller = Channel(
            loop=loop,
            clock=SystemClock(),
            rng=random.Random(self.broker_id),
            coordination=SqliteCoordination(self.directory, loop.call_soon_threadsafe),
            config=BrokerConfig(initial_broker_registration_timeout_ms=self.patience_ms),
            identity=BrokerIdentity(
                broker_id=self.broker_id,
                host="127.0.0.1",
                port=1,
                internal_host="127.0.0.1",
                internal_port=port,
                rack=None,
                **{"incarnation_id": UUID(int=self.broker_id), **self.identity},
            ),
            on_image=self.take_image,
            on_event=lambda _event: None,
            check_invariants=True,
        )
        await self.channel.start()
        return self

    def take_image(self, new: MetadataImage, applied: Callable[[], None]) -> None:
        """Remember the versions, which only go forward."""
        assert not self.images or new.version > self.images[-1]
        self.images.append(new.version)
        applied()

    async def stop(self) -> None:
        """Stop without leaving, as a process that ends."""
        self.server.close()
        await self.channel.stop()
        self.dispatcher.close_all()


def run(directory: Path, test: Callable[[list[Member]], Awaitable[None]], count: int = 3) -> None:
    """Run a test with `count` members."""

    async def scene() -> None:
        members = [Member(broker_id, directory) for broker_id in range(1, count + 1)]
        for member in members:
            await member.start()
        try:
            await test(members)
        finally:
            for member in members:
                await member.stop()

    asyncio.run(asyncio.wait_for(scene(), 20))


async def until(condition: Callable[[], object]) -> None:
    """Wait until `condition` holds."""
    while not condition():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.002)


def test_topic_created_through_any_broker_is_seen_by_all(tmp_path: Path) -> None:
    """The request goes to the controller; all brokers get the metadata."""

    async def test(members: list[Member]) -> None:
        created = await members[2].channel.create_topics(["t"], 6, 3, {"retention.ms": "5"})
        again = await members[1].channel.create_topics(["t"], 6, 3, {})
        await until(lambda: all("t" in member.channel.image.topics for member in members))

        assert created == [("t", ErrorCode.NONE, None)]
        assert again == [("t", ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")]
        assert all(len(record.isr) == 3 for record in members[0].channel.image.topics["t"].partitions)
        assert members[0].channel.image.topic_configs("t") == {"retention.ms": "5"}

    run(tmp_path, test)


def test_another_broker_becomes_controller_and_finishes_what_was_asked(tmp_path: Path) -> None:
    """The controller ends; the others notice, one takes over, and fences it without waiting for its session."""

    async def test(members: list[Member]) -> None:
        first = next(member for member in members if member.channel.active)
        others = [member for member in members if member is not first]
        await first.stop()
        ((_, code, _),) = await others[0].channel.create_topics(["t"], 1, 2, {})
        await until(lambda: all(each.channel.image.brokers[first.broker_id].fenced for each in others))

        assert code is ErrorCode.NONE
        assert others[0].channel.image.controller_id in {each.broker_id for each in others}
        assert others[0].channel.image.controller_epoch == 2

    run(tmp_path, test)


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    """Each broker has its own blocks."""

    async def test(members: list[Member]) -> None:
        ids = [await member.channel.producer_id() for member in members for _ in range(1_200)]

        assert len(set(ids)) == len(ids)

    run(tmp_path, test)


def test_proposed_isr_is_answered_and_a_second_unsent_one_refused(tmp_path: Path) -> None:
    """B23: one item per partition waits; the answer carries what is committed."""

    async def test(members: list[Member]) -> None:
        channel = members[0].channel
        await channel.create_topics(["t"], 3, 3, {})
        await until(lambda: "t" in channel.image.topics)
        topic = channel.image.topics["t"]
        mine = next(record for record in topic.partitions if record.leader == 1)
        answers: list[IsrAnswer] = []
        proposal = ProposeIsr((IsrMember(1, channel.broker_epoch),), 0, 0, IsrChange.SHRINK, Evidence("test"))
        channel.propose_isr(topic.topic_id, mine.partition, proposal, answers.append)
        channel.propose_isr(topic.topic_id, mine.partition, proposal, answers.append)
        await until(lambda: len(answers) == 2)
        await until(lambda: channel.image.partition("t", mine.partition).isr == (1,))

        assert {answer.error for answer in answers} == {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}
        accepted = next(answer for answer in answers if answer.error is ErrorCode.NONE)
        assert (accepted.isr, accepted.partition_epoch) == ((1,), 1)

    run(tmp_path, test)


def test_leaving_broker_hands_over_and_is_let_go(tmp_path: Path) -> None:
    """Controlled shutdown ends when the others have seen it, long before any session does."""

    async def test(members: list[Member]) -> None:
        await members[0].channel.create_topics(["t"], 3, 3, {})
        left = await members[1].channel.leave(5)
        await until(lambda: members[0].channel.image.brokers[2].fenced)

        assert left
        assert 2 not in {record.leader for record in members[0].channel.image.topics["t"].partitions}

    run(tmp_path, test)


def test_broker_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """Its data names another cluster; it is refused at once."""

    async def test(_members: list[Member]) -> None:
        stranger = Member(9, tmp_path, cluster_id="somewhere else")
        with pytest.raises(RegistrationRefused, match="belongs to cluster"):
            await stranger.start()
        await stranger.stop()

    run(tmp_path, test, count=1)


def test_second_process_of_a_living_broker_is_refused_when_its_time_is_over(tmp_path: Path) -> None:
    """It waits for the end of the first one's session; if that one stays alive, the error names cause and remedy."""

    async def test(_members: list[Member]) -> None:
        twin = Member(2, tmp_path, incarnation_id=UUID(int=77))
        twin.patience_ms = 500
        with pytest.raises(RegistrationRefused, match=r"another process has registered with this id.*another id\."):
            await twin.start()
        await twin.stop()

    run(tmp_path, test, count=2)
