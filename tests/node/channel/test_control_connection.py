"""Connections between brokers and the controller: when they break or are void, and which requests are sent again."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from syncline.core.cluster.decision import Why
from syncline.core.replication.effects import IsrAnswer, IsrChange, IsrMember, ProposeIsr
from syncline.core.replication.evidence import Evidence
from syncline.model.errors import ErrorCode
from syncline.model.reasons import Reason
from syncline.node.channel.channel import Channel
from syncline.node.channel.states import LinkState
from syncline.node.controller.private_messages import decode_forward_answer, encode_forward
from syncline.virtual.cluster import INTERNAL_PORT
from syncline.virtual.time.process import Process
from syncline.wire.api import ApiKey
from syncline.wire.codec import encode_request, request_type
from syncline.wire.entities import build
from tests.node.wire_client import WireClient, batch
from tests.node.world import World

three = pytest.mark.brokers(3)


def channel(world: World, broker_id: int) -> Channel:
    """Return a broker's way to the controller."""
    return world.broker(broker_id).controller


def is_registered(world: World, broker_id: int) -> bool:
    """Return whether a broker is registered with the controller over two open connections."""
    link = channel(world, broker_id).link
    return link.state is LinkState.REGISTERED and link.is_open


@three
@pytest.mark.parametrize("which", [pytest.param(0, id="control"), pytest.param(1, id="stream")])
async def test_channel_connects_anew_when_one_of_its_connections_breaks(world: World, which: int) -> None:
    """A broker that sends heartbeats and gets no metadata, or the other way round, would be neither dead nor alive."""
    there = channel(world, 2)
    before = there.link.connections
    broker_epoch = there.broker_epoch
    world.call(2, before[which].transport.abort)
    await world.until(lambda: there.link.connections[0] is not before[0] and is_registered(world, 2))
    await world.topic()

    assert there.link.connections[1] is not before[1]
    assert [each.is_open for each in before] == [False, False]
    assert there.broker_epoch == broker_epoch
    assert not world.broker(1).image.brokers[2].fenced


def drop_member(world: World, leader: int, member: int) -> ProposeIsr:
    """Return a proposal of a partition's leader to leave one member out."""
    record = world.partition(leader).record
    isr = tuple(IsrMember(each, world.broker(each).broker_epoch) for each in record.isr if each != member)
    return ProposeIsr(isr, record.leader_epoch, record.partition_epoch, IsrChange.SHRINK, Evidence("test"))


def propose(world: World, leader: int, proposal: ProposeIsr, answered: Callable[[IsrAnswer], None]) -> None:
    """Let a partition's leader send a proposal."""
    world.call(leader, channel(world, leader).propose_isr, world.partition(leader).topic_id, 0, proposal, answered)


@three
async def test_channel_proposes_again_when_the_answer_was_lost(world: World) -> None:
    """The first copy may have been accepted; the answer to the second says so, and the leader has its committed ISR."""
    await world.topic(replicas=(2, 3))
    answers: list[IsrAnswer] = []
    world.network.cut("broker-1", "broker-2")
    propose(world, 2, drop_member(world, 2, 3), answers.append)
    await world.until(lambda: channel(world, 1).image.partition("t", 0).isr == (2,))
    await world.later(0.1)
    early = list(answers)
    world.network.heal("broker-1", "broker-2")
    world.network.reset_connections("broker-1", "broker-2")
    await world.until(lambda: answers)
    await world.later(1)

    assert early == []
    assert [answer.error for answer in answers] in ([ErrorCode.INVALID_UPDATE_VERSION], [ErrorCode.NONE])


@three
async def test_channel_proposes_to_the_next_controller_when_the_first_dies(world: World) -> None:
    """Only its answer removes a proposal from the queue."""
    await world.topic(replicas=(2, 3))
    answers: list[IsrAnswer] = []
    world.network.cut("broker-2", "broker-1")
    propose(world, 2, drop_member(world, 2, 3), answers.append)
    await world.later(0.2)
    world.kill(1)
    world.network.heal("broker-2", "broker-1")
    await world.until(lambda: answers)

    assert [answer.error for answer in answers] == [ErrorCode.NONE]
    assert channel(world, 2).image.partition("t", 0).isr[0] == 2


@three
async def test_channel_keeps_its_proposals_when_it_is_not_registered_yet(world: World) -> None:
    """A controller that holds the registration back would refuse them, and that would cost the new connection, too."""
    await world.topic(replicas=(2, 3))
    active = channel(world, 1).active
    link = channel(world, 2).link
    active.registrations.hold_for([99])
    before = link.connections
    world.call(2, before[0].close)
    await world.until(lambda: link.connections[0] is not before[0] and link.state is LinkState.REGISTERING)
    made = link.connections
    answers: list[IsrAnswer] = []
    propose(world, 2, drop_member(world, 2, 3), answers.append)
    await world.later(0.05)
    early = (link.state, link.connections == made, list(answers))
    active.registrations.looked_at(99)
    await world.until(lambda: answers)

    assert early == (LinkState.REGISTERING, True, [])
    assert link.connections == made
    assert [answer.error for answer in answers] == [ErrorCode.NONE]


@three
async def test_channel_refuses_a_second_proposal_when_one_of_that_partition_is_unsent(world: World) -> None:
    """OPERATION_NOT_ATTEMPTED at once: the leader decides again when it knows more."""
    await world.topic(replicas=(2, 3))
    answers: list[IsrAnswer] = []
    proposal = drop_member(world, 2, 3)
    for _ in range(2):
        propose(world, 2, proposal, answers.append)
    await world.until(lambda: len(answers) == 2)

    assert [answer.error for answer in answers] == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.NONE]


@three
async def test_channel_pauses_when_a_refused_proposal_is_to_be_sent_again(world: World) -> None:
    """The leader asks a controller that is behind every 50 ms, not as fast as it answers."""
    await world.topic(replicas=(2, 3))
    ahead = replace(drop_member(world, 2, 3), partition_epoch=99)
    topic_id = world.partition(2).topic_id
    answers: list[IsrAnswer] = []

    def answered(answer: IsrAnswer) -> None:
        answers.append(answer)
        channel(world, 2).propose_isr(topic_id, 0, ahead, answered)

    propose(world, 2, ahead, answered)
    await world.later(1)

    assert {answer.error for answer in answers} == {ErrorCode.NOT_CONTROLLER}
    assert 15 <= len(answers) <= 20


@three
async def test_channel_gives_up_a_clients_request_when_there_is_no_controller_in_time(world: World) -> None:
    """A client that requested a topic does not wait for ever: its connection is closed after its timeout."""
    for broker_id in (1, 3):
        world.kill(broker_id)
    world.cluster.store.candidates.clear()
    client = await world.client(2)
    began = world.loop.time()
    with pytest.raises(ConnectionError):
        await client.ask(ApiKey.CREATE_TOPICS, 5, topics=(), timeout=5_000, validate_only=False)

    assert 30 <= world.loop.time() - began < 32


# A broker played by the test, which sends what a delayed or doubled packet would carry.


class Impostor:
    """Broker 2: a listener that only listens, and connections to the controller."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.incarnation = UUID(int=7)
        self.broker_epoch = -1

    async def listen(self) -> None:
        """Stay alive for the controller."""
        process = Process("broker-2")
        server = self._world.loop.create_server(asyncio.Protocol, "broker-2", INTERNAL_PORT)
        await process.context.run(self._world.loop.create_task, server)

    async def register(self, connection: WireClient) -> ErrorCode:
        """Register over a connection; if the controller grants that, get unfenced."""
        answer = await connection.ask(
            ApiKey.BROKER_REGISTRATION,
            4,
            broker_id=2,
            cluster_id=self._world.broker(1).image.cluster_id,
            incarnation_id=self.incarnation,
            listeners=[
                {"name": name, "host": "broker-2", "port": port, "security_protocol": 0}
                for name, port in (("CLIENT", 9092), ("INTERNAL", INTERNAL_PORT))
            ],
            features=(),
            rack=None,
            log_dirs=(),
            previous_broker_epoch=-1,
        )
        if not int(answer.error_code):
            self.broker_epoch = int(answer.broker_epoch)
            await self.heartbeat(connection, self.broker_epoch)
        return ErrorCode(int(answer.error_code))

    async def heartbeat(self, connection: WireClient, broker_epoch: int) -> ErrorCode:
        """Send a heartbeat with a metadata version above every existing one."""
        answer = await connection.ask(
            ApiKey.BROKER_HEARTBEAT,
            1,
            broker_id=2,
            broker_epoch=broker_epoch,
            current_metadata_offset=10_000,
            want_fence=False,
            want_shut_down=False,
        )
        return ErrorCode(int(answer.error_code))

    async def shrink(self, connection: WireClient, broker_epoch: int | None = None) -> tuple[ErrorCode, Any]:
        """Propose over a connection that broker 2 alone is in sync; return the errors of the answer and of its row."""
        record = self._world.broker(1).image.partition("t", 0)
        answer = await connection.ask(
            ApiKey.ALTER_PARTITION,
            3,
            broker_id=2,
            broker_epoch=self.broker_epoch if broker_epoch is None else broker_epoch,
            topics=[
                {
                    "topic_id": self._world.broker(1).image.topics["t"].topic_id,
                    "partitions": [
                        {
                            "partition_index": 0,
                            "leader_epoch": record.leader_epoch,
                            "new_isr_with_epochs": [{"broker_id": 2, "broker_epoch": self.broker_epoch}],
                            "leader_recovery_state": 0,
                            "partition_epoch": record.partition_epoch,
                        }
                    ],
                }
            ],
        )
        rows = [ErrorCode(int(row.error_code)) for topic in answer.topics for row in topic.partitions]
        return ErrorCode(int(answer.error_code)), rows

    async def create_topic(self, connection: WireClient, name: str) -> ErrorCode:
        """Forward a client's request over a connection; return the error around the client's answer."""
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
        fields = {"topics": [topic], "timeout": 5_000, "validate_only": False}
        body = encode_request(build(request_type(ApiKey.CREATE_TOPICS, 5), fields))
        head = encode_forward(ApiKey.CREATE_TOPICS, 5, 2)
        return decode_forward_answer(await connection.body(connection.send(ApiKey.FORWARD, 0, head, body)), 0)[0]


lone_controller = pytest.mark.brokers(2, started=1)


async def joined(world: World) -> tuple[Impostor, WireClient]:
    """Return broker 2, which leads a topic, and the connection over which it is registered."""
    impostor, connection = Impostor(world), await world.peer(1)
    await impostor.listen()
    assert await impostor.register(connection) is ErrorCode.NONE
    await world.until(lambda: world.broker(1).image.is_active(2))
    await world.topic(replicas=(2, 1))
    return impostor, connection


def isr(world: World) -> tuple[int, ...]:
    """Return the committed ISR."""
    return tuple(channel(world, 1).image.partition("t", 0).isr)


@lone_controller
async def test_controller_takes_a_proposal_when_it_comes_over_the_connection_of_the_registration(world: World) -> None:
    """The ordinary case, for comparison with the others."""
    impostor, connection = await joined(world)

    assert await impostor.shrink(connection) == (ErrorCode.NONE, [ErrorCode.NONE])
    assert isr(world) == (2,)


@lone_controller
async def test_controller_refuses_a_proposal_when_its_connection_is_older_than_the_registration(world: World) -> None:
    """An earlier copy that was delayed on an abandoned connection must not be accepted behind the leader's back."""
    impostor, old = await joined(world)
    new = await world.peer(1)
    await impostor.register(new)
    late = await impostor.shrink(old)
    isr_after_late = isr(world)
    good = await impostor.shrink(new)

    assert late == (ErrorCode.NOT_CONTROLLER, [])
    assert isr_after_late == (2, 1)
    assert good == (ErrorCode.NONE, [ErrorCode.NONE])


@lone_controller
async def test_controller_refuses_a_proposal_when_no_broker_has_registered_over_its_connection(world: World) -> None:
    """A connection without a registration belongs to no broker."""
    impostor, _ = await joined(world)

    assert await impostor.shrink(await world.peer(1)) == (ErrorCode.NOT_CONTROLLER, [])
    assert isr(world) == (2, 1)


@lone_controller
async def test_controller_refuses_a_heartbeat_when_its_connection_is_older_than_the_registration(world: World) -> None:
    """One that was delayed must not put a broker back into service that was fenced because all brokers stop."""
    impostor, old = await joined(world)
    new = await world.peer(1)
    await impostor.register(new)
    channel(world, 1).active.fencings.fence(2, Why(Reason.STOPPED_TOGETHER))
    await world.until(lambda: world.broker(1).image.brokers[2].fenced)
    late = await impostor.heartbeat(old, impostor.broker_epoch)
    fenced_after_late = world.broker(1).image.brokers[2].fenced
    good = await impostor.heartbeat(new, impostor.broker_epoch)

    assert (late, good) == (ErrorCode.NOT_CONTROLLER, ErrorCode.NONE)
    assert fenced_after_late
    assert not world.broker(1).image.brokers[2].fenced


@lone_controller
async def test_controller_carries_nothing_out_for_a_client_when_the_connection_is_older_than_the_registration(
    world: World,
) -> None:
    """A topic that was created by a resent request and deleted since is not created again by the delayed first copy."""
    impostor, old = await joined(world)
    new = await world.peer(1)
    await impostor.register(new)
    late = await impostor.create_topic(old, "late")
    good = await impostor.create_topic(new, "good")

    assert (late, good) == (ErrorCode.NOT_CONTROLLER, ErrorCode.NONE)
    assert {"late", "good"} & set(channel(world, 1).image.topics) == {"good"}


@lone_controller
async def test_controller_refuses_what_a_former_process_says_when_its_successor_is_registered(world: World) -> None:
    """Its broker epoch is over: STALE_BROKER_EPOCH to heartbeats, nothing at all for its proposals."""
    impostor, old = await joined(world)
    old_epoch = impostor.broker_epoch
    impostor.incarnation = UUID(int=8)
    new = await world.peer(1)
    await impostor.register(new)
    late_heartbeat = await impostor.heartbeat(old, old_epoch)
    late_proposal = await impostor.shrink(old, old_epoch)
    stale_proposal = await impostor.shrink(new, old_epoch)

    assert impostor.broker_epoch > old_epoch
    assert late_heartbeat is ErrorCode.STALE_BROKER_EPOCH
    assert late_proposal == (ErrorCode.NOT_CONTROLLER, [])
    assert stale_proposal == (ErrorCode.STALE_BROKER_EPOCH, [])


@three
async def test_broker_that_is_no_controller_says_so_when_it_is_asked_to_decide(world: World) -> None:
    """A broker that follows an old hint is sent to look for the controller again."""
    impostor = Impostor(world)
    impostor.broker_epoch = 1
    await world.topic()
    connection = await world.peer(3)

    assert await impostor.heartbeat(connection, 1) is ErrorCode.NOT_CONTROLLER
    assert await impostor.shrink(connection) == (ErrorCode.NOT_CONTROLLER, [])
    assert await impostor.register(connection) is ErrorCode.NOT_CONTROLLER


@three
async def test_cluster_acknowledges_everything_when_its_controller_changes_hands(world: World) -> None:
    """Leaders need no controller to serve: a producer does not notice."""
    await world.topic(replicas=(2, 3))
    client = await world.client(2)
    world.kill(1)
    rows = [await client.produce("t", batch()) for _ in range(20)]
    await world.until(lambda: channel(world, 2).image.controller_id != 1)

    assert [row.error_code for row in rows] == [ErrorCode.NONE] * 20
