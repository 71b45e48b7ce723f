"""The active controller: group commit, fencing by the lease, metadata polls, evidence of death."""

import asyncio
import gc
import random
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from syncline.coordination.port import Batch, Lease, LeaseLost, StoreFailed
from syncline.core.cluster.broker_lifecycle import Registration, heartbeat
from syncline.core.cluster.decision import Decision, Why
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.metadata import (
    BrokerChanged,
    BrokerRecord,
    ControllerChanged,
    MetadataImage,
    PartitionRecord,
    PartitionsChanged,
    ProducerIdsAllocated,
    TopicCreated,
)
from syncline.model.reasons import Reason
from syncline.node.controller.active import ActiveController
from syncline.node.controller.commits import COMMITTED_AT_ONCE
from syncline.node.controller.private_messages import News, Poll, apply_news, decode_news

OWN = UUID(int=0xCAFE)
WHY = Why(Reason.CONFIGS_ALTERED)


class Clock:
    """A clock that does not move until it is set."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def mono_ms(self) -> int:
        """Return the time."""
        return self.now_ms

    def wall_ms(self) -> int:
        """Return the time."""
        return self.now_ms


class Store:
    """A store whose commits end when the test ends them."""

    def __init__(self) -> None:
        self.commits: list[tuple[list[Batch], Callable[[Exception | None], None]]] = []
        self.written: list[Batch] = []
        self.renewable = True

    def commit(self, batches: list[Batch], _lease_epoch: int, done: Callable[[Exception | None], None]) -> None:
        """Remember the commit."""
        self.commits.append((list(batches), done))

    def finish(self, failure: Exception | None = None) -> list[int]:
        """End the commit under way, and return its versions."""
        batches, done = self.commits.pop(0)
        if failure is None:
            self.written.extend(batches)
        done(failure)
        return [batch.version for batch in batches]

    def renew(self, _lease_epoch: int) -> bool:
        """Return whether the test lets the lease be renewed."""
        return self.renewable


class Stage:
    """A controller that has just acquired the lease, with `image` committed."""

    def __init__(self, image: MetadataImage | None = None, silent: int | None = None, **config: Any) -> None:
        self.store = Store()
        self.clock = Clock()
        self.events: list[Any] = []
        self.deposed = 0
        self.answers: list[Any] = []
        self.controller = ActiveController(
            loop=asyncio.get_running_loop(),
            clock=self.clock,
            rng=random.Random(1),
            coordination=self.store,
            lease=Lease(5, image or MetadataImage(), silent),
            config=BrokerConfig(**config),
            broker_id=1,
            incarnation_id=OWN,
            on_event=self.events.append,
            on_deposed=self.count_deposed,
            check_invariants=True,
        )

    def count_deposed(self) -> None:
        """Count one loss of the lease."""
        self.deposed += 1

    def decide(self, number: int | None, name: str) -> None:
        """Allocate producer ids up to `number`, or change nothing; the answer is `name`."""
        changes = () if number is None else (ProducerIdsAllocated(number),)
        self.controller.decide(lambda _image, _version: Decision(changes, name, WHY), self.answers.append)

    def poll(self, version: int, broker_id: int = 2) -> list[News]:
        """Poll for metadata; the answers appear in the returned list."""
        news: list[News] = []
        self.controller.poll(Poll(broker_id, 0, version), lambda body: news.append(decode_news(body, 0)))
        return news


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test on a loop."""
    asyncio.run(asyncio.wait_for(test(), 10))


def record(broker_id: int, port: int, **changes: Any) -> BrokerRecord:
    """Return a registered broker that listens at `port`."""
    values = {"fenced": False, **changes}
    return BrokerRecord(broker_id, broker_id + 10, f"process-{broker_id}", "h", 1, "127.0.0.1", port, **values)


def test_new_controller_makes_the_cluster() -> None:
    """The first commit gives the cluster its id, names the controller and fixes the minimum that ELR rests on."""

    async def test() -> None:
        stage = Stage()
        stage.store.finish()
        image = stage.controller.image

        assert len(image.cluster_id) == 22
        assert (image.controller_id, image.controller_epoch) == (1, 5)
        assert image.cluster_configs() == {"min.insync.replicas": "1"}
        stage.controller.stop()

    run(test)


def test_decisions_during_a_commit_make_up_the_next_one() -> None:
    """Three decisions while one commit runs are one commit; answers come after it, in order."""

    async def test() -> None:
        stage = Stage()
        for number in (1, 2, 3):
            stage.decide(number, f"to {number}")
        before = list(stage.answers)
        first = stage.store.finish()
        between = list(stage.answers)
        second = stage.store.finish()

        assert (first, second) == ([1], [2, 3, 4])
        assert (before, between, stage.answers) == ([], [], ["to 1", "to 2", "to 3"])
        assert stage.controller.image.next_producer_id == 3
        assert stage.store.commits == []
        stage.controller.stop()

    run(test)


def test_decision_about_many_partitions_is_committed_in_the_next_turn() -> None:
    """To make it has taken long enough; until then it waits like others, and nothing overtakes it."""

    async def test() -> None:
        stage = Stage()
        stage.store.finish()
        partitions = tuple(PartitionRecord(number, 1, 0, 0, (1,), (1,)) for number in range(COMMITTED_AT_ONCE + 1))
        changes = (TopicCreated("t", UUID(int=7), partitions),)
        stage.controller.decide(lambda _image, _version: Decision(changes, "many", WHY), stage.answers.append)
        stage.decide(None, "none")
        at_once = list(stage.store.commits)
        await asyncio.sleep(0)
        answers = list(stage.answers)
        stage.store.finish()

        assert (at_once, answers) == ([], [])
        assert stage.answers == ["many", "none"]
        assert len(stage.controller.image.topics["t"].partitions) == COMMITTED_AT_ONCE + 1
        stage.controller.stop()

    run(test)


@pytest.mark.parametrize("grows", [False, True])
def test_decisions_after_one_about_many_partitions_are_committed_as_ever(grows: bool) -> None:
    """A new topic, or more partitions of one; a small decision begins a commit at once again."""

    async def test() -> None:
        stage = Stage()
        stage.store.finish()
        first = 1 if grows else 0
        many = tuple(
            PartitionRecord(number, 1, 0, 0, (1,), (1,)) for number in range(first, first + COMMITTED_AT_ONCE + 1)
        )
        topic_id = UUID(int=7)
        if grows:
            new = (TopicCreated("t", topic_id, (PartitionRecord(0, 1, 0, 0, (1,), (1,)),)),)
            stage.controller.decide(lambda _image, _version: Decision(new, "new", WHY), stage.answers.append)
            stage.store.finish()
        change = PartitionsChanged(topic_id, many) if grows else TopicCreated("t", topic_id, many)
        stage.controller.decide(lambda _image, _version: Decision((change,), "many", WHY), stage.answers.append)
        assert stage.store.commits == []
        await asyncio.sleep(0)
        stage.store.finish()
        stage.decide(1, "small")

        assert len(stage.store.commits) == 1
        stage.store.finish()
        assert stage.answers == (["new"] if grows else []) + ["many", "small"]
        stage.controller.stop()

    run(test)


def test_controller_that_ends_before_the_next_turn_commits_nothing() -> None:
    """The decision is refused, as one in commit is."""

    async def test() -> None:
        stage = Stage()
        stage.store.finish()
        partitions = tuple(PartitionRecord(number, 1, 0, 0, (1,), (1,)) for number in range(COMMITTED_AT_ONCE + 1))
        changes = (TopicCreated("t", UUID(int=7), partitions),)
        stage.controller.decide(lambda _image, _version: Decision(changes, "many", WHY), stage.answers.append)
        stage.controller.stop()
        await asyncio.sleep(0)

        assert (stage.store.commits, stage.answers) == ([], [None])

    run(test)


def test_waiting_decisions_keep_no_images() -> None:
    """Each image of a large cluster is megabytes, and thousands of decisions may wait for one commit."""

    async def test() -> None:
        gc.collect()
        others = {id(each): each for each in gc.get_objects() if isinstance(each, MetadataImage)}
        stage = Stage()
        for number in range(1, 301):
            stage.decide(number, f"to {number}")
        gc.collect()
        images = [each for each in gc.get_objects() if isinstance(each, MetadataImage) and id(each) not in others]

        assert len(images) <= 3, "the committed one, the one in commit and the tentative one"
        assert stage.store.finish() == [1]
        assert stage.store.finish() == list(range(2, 302))
        assert stage.controller.image.next_producer_id == 300
        stage.controller.stop()

    run(test)


def test_answer_that_rests_on_something_uncommitted_waits_for_it() -> None:
    """A decision that changes nothing is answered once the state that it saw is committed, or at once if it is."""

    async def test() -> None:
        stage = Stage()
        stage.store.finish()
        stage.decide(1, "change")
        stage.decide(None, "look")
        early = list(stage.answers)
        stage.store.finish()
        stage.decide(None, "look again")

        assert early == []
        assert stage.answers == ["change", "look", "look again"]
        stage.controller.stop()

    run(test)


def test_lost_lease_ends_the_controller_on_the_spot() -> None:
    """Every open decision is answered with None, no broker gets metadata, and parked polls are refused."""

    async def test() -> None:
        stage = Stage()
        stage.store.finish()
        stage.decide(1, "one")
        stage.decide(2, "two")
        news = stage.poll(1)
        stage.store.finish(LeaseLost("gone"))
        stage.decide(3, "three")
        await asyncio.sleep(0)

        assert stage.answers == [None, None, None]
        assert stage.deposed == 1
        assert not stage.controller.is_active
        assert [each.error for each in news] == [ErrorCode.NOT_CONTROLLER]
        assert stage.controller.image.next_producer_id == 0

    run(test)


def test_store_that_cannot_write_costs_the_decisions_but_not_the_role() -> None:
    """A full disk: the controller drops the decisions, and the next one starts from the committed image."""

    async def test() -> None:
        stage = Stage()
        stage.store.finish()
        stage.decide(1, "one")
        stage.decide(2, "two")
        stage.store.finish(StoreFailed("disk full"))
        stage.decide(9, "nine")
        versions = stage.store.finish()

        assert stage.answers == [None, None, "nine"]
        assert versions == [2]
        assert stage.controller.image.next_producer_id == 9
        stage.controller.stop()

    run(test)


def test_new_controller_takes_over_again_when_the_store_could_not_write_it() -> None:
    """Its next tick repeats the commit: the cluster gets its id, also if the same broker held the lease before."""

    async def test() -> None:
        before = MetadataImage().apply([ControllerChanged(1, 4)], 20)
        stage = Stage(before, broker_session_timeout_ms=180)
        stage.store.finish(StoreFailed("disk full"))
        stage.controller.rounds.tick()
        stage.controller.rounds.tick()
        under_way = len(stage.store.commits)
        stage.store.finish()
        image = stage.controller.image

        assert under_way == 1
        assert (len(image.cluster_id), image.controller_id, image.controller_epoch) == (22, 1, 5)
        assert image.cluster_configs() == {"min.insync.replicas": "1"}
        assert stage.store.commits == []
        stage.controller.stop()

    run(test)


def test_fencing_that_could_not_be_written_is_tried_again_on_the_next_tick() -> None:
    """A dead process is detected only once, and its session may be long. Once fenced, it is left alone."""

    async def test() -> None:
        stage = Stage(MetadataImage().apply([BrokerChanged(record(2, await closed_port()))], 20))
        stage.store.finish()
        while not stage.store.commits:  # noqa: ASYNC110 - the watch finds out by itself
            await asyncio.sleep(0.001)
        stage.store.finish(StoreFailed("disk full"))
        after_loss = stage.controller.image.brokers[2].fenced
        stage.controller.rounds.tick()
        stage.store.finish()
        stage.controller.rounds.tick()

        assert not after_loss
        assert stage.controller.image.brokers[2].fenced
        assert [event.reason for event in stage.events] == [Reason.PROCESS_GONE]
        assert stage.store.commits == []
        stage.controller.stop()

    run(test)


def test_news_go_out_when_they_are_committed_and_lead_to_the_same_image() -> None:
    """A parked poll is answered with the deltas; one that is far behind gets a snapshot."""

    async def test() -> None:
        stage = Stage(MetadataImage().apply([ProducerIdsAllocated(5)], 20))
        stage.store.finish()
        (snapshot,) = stage.poll(0)
        image = apply_news(MetadataImage(), snapshot)
        parked = stage.poll(image.version)
        stage.decide(7, "x")
        early = list(parked)
        stage.store.finish()
        after = apply_news(image, parked[0])

        assert early == []
        assert not parked[0].is_snapshot
        assert after == stage.controller.image
        assert snapshot.is_snapshot
        stage.controller.stop()

    run(test)


def test_second_poll_of_a_broker_ends_its_first() -> None:
    """A broker that reconnects does not leave a poll behind."""

    async def test() -> None:
        stage = Stage()
        stage.store.finish()
        first = stage.poll(1)
        stage.poll(1)

        assert [each.version for each in first] == [0]
        stage.controller.stop()

    run(test)


class Silent(asyncio.Protocol):
    """The server's side of a connection on which nothing is sent."""

    def __init__(self, accepted: list[asyncio.BaseTransport]) -> None:
        self.accepted = accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the connection."""
        self.accepted.append(transport)


class Listener:
    """A server that accepts connections and sends nothing."""

    def __init__(self) -> None:
        self.accepted: list[asyncio.BaseTransport] = []
        self.server: asyncio.AbstractServer

    async def start(self) -> int:
        """Return the port at which it listens."""
        self.server = await asyncio.get_running_loop().create_server(lambda: Silent(self.accepted), "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Refuse connections from now on; open ones stay open."""
        self.server.close()

    def abort_connections(self) -> None:
        """Close all connections."""
        for transport in self.accepted:
            transport.abort()


async def listener() -> tuple[Listener, int]:
    """Return a server that accepts connections and sends nothing, and its port."""
    server = Listener()
    return server, await server.start()


async def closed_port() -> int:
    """Return a port that refuses connections."""
    server, port = await listener()
    server.close()
    await server.server.wait_closed()
    return port


async def committed(stage: Stage, condition: Callable[[], bool]) -> None:
    """Let commits finish until `condition` holds."""
    while not condition():
        while stage.store.commits:
            stage.store.finish()
        await asyncio.sleep(0.001)


def test_broker_whose_listener_refuses_connections_is_fenced_at_once() -> None:
    """The clock does not move: evidence fences, not time. The journal has the reason."""

    async def test() -> None:
        server, port = await listener()
        stage = Stage(MetadataImage().apply([BrokerChanged(record(2, port))], 20))
        await committed(stage, lambda: not stage.controller.registrations.are_held)
        await committed(stage, lambda: len(server.accepted) == 1)
        alive = not stage.controller.image.brokers[2].fenced
        server.close()
        server.abort_connections()
        await committed(stage, lambda: stage.controller.image.brokers[2].fenced)

        assert alive
        assert [event.state for event in stage.events] == ["fenced"]
        assert stage.events[0].reason is Reason.PROCESS_GONE
        stage.controller.stop()

    run(test)


def test_broker_that_closes_connections_but_listens_is_not_fenced() -> None:
    """A broken connection alone proves nothing."""

    async def test() -> None:
        server, port = await listener()
        stage = Stage(MetadataImage().apply([BrokerChanged(record(2, port))], 20))
        await committed(stage, lambda: not stage.controller.registrations.are_held)
        await committed(stage, lambda: len(server.accepted) == 1)
        server.abort_connections()
        await committed(stage, lambda: len(server.accepted) == 2)

        assert not stage.controller.image.brokers[2].fenced
        stage.controller.stop()
        server.close()

    run(test)


def test_new_controller_looks_who_is_gone_before_it_registers_anybody() -> None:
    """After a total outage dead brokers are fenced first, so that the first broker to return can lead."""

    async def test() -> None:
        port = await closed_port()
        stage = Stage(MetadataImage().apply([BrokerChanged(record(2, port)), BrokerChanged(record(3, port))], 20))
        registration = Registration(
            broker_id=3,
            incarnation_id="new",
            host="h",
            port=1,
            internal_host="127.0.0.1",
            internal_port=port,
        )
        stage.controller.register(registration, stage.answers.append)
        at_once = list(stage.answers)
        await committed(stage, lambda: bool(stage.answers))

        states = [(event.subject, event.state) for event in stage.events if event.TYPE == "broker_state"]
        assert at_once == []
        assert states[:2] == [(2, "fenced"), (3, "fenced")]
        assert states[2] == (3, "registered")
        stage.controller.stop()

    run(test)


def test_holder_that_was_deposed_for_silence_is_fenced_with_the_takeover() -> None:
    """A controller that was silent for a whole session does not get another one as a broker."""

    async def test() -> None:
        server, port = await listener()
        image = MetadataImage().apply([BrokerChanged(record(2, port))], 20)
        stage = Stage(image, silent=2)
        await committed(stage, lambda: stage.controller.image.brokers[2].fenced)

        assert stage.events[-1].reason is Reason.LEASE_HOLDER_SILENT
        stage.controller.stop()
        server.close()

    run(test)


def test_silent_broker_is_fenced_when_its_session_is_over() -> None:
    """It listens but sends no heartbeats: the session timeout decides."""

    async def test() -> None:
        server, port = await listener()
        image = MetadataImage().apply([BrokerChanged(record(2, port))], 20)
        stage = Stage(image, broker_session_timeout_ms=9_000)
        for _ in range(9):
            stage.clock.now_ms += 1_000
            stage.controller.rounds.tick()
        await committed(stage, lambda: not stage.store.commits)
        at_the_limit = stage.controller.image.brokers[2].fenced
        stage.clock.now_ms += 1
        stage.controller.rounds.tick()
        await committed(stage, lambda: stage.controller.image.brokers[2].fenced)

        assert not at_the_limit
        stage.controller.stop()
        server.close()

    run(test)


def test_controller_that_did_not_run_fences_no_broker() -> None:
    """After a pause of the controller itself, every broker gets a fresh session."""

    async def test() -> None:
        server, port = await listener()
        image = MetadataImage().apply([BrokerChanged(record(2, port))], 20)
        stage = Stage(image)
        stage.clock.now_ms += 60_000
        stage.controller.rounds.tick()
        await committed(stage, lambda: not stage.store.commits)

        assert not stage.controller.image.brokers[2].fenced
        stage.controller.stop()
        server.close()

    run(test)


def test_controller_that_cannot_renew_stops() -> None:
    """Another broker has the lease: the controller also detects that on its own."""

    async def test() -> None:
        stage = Stage()
        stage.store.renewable = False
        stage.clock.now_ms += 1_000
        stage.controller.rounds.tick()

        assert stage.deposed == 1

    run(test)


@pytest.mark.parametrize(("port_differs", "error"), [(False, 0), (True, 101)])
def test_registration_at_the_same_port_proves_that_the_predecessor_is_gone(port_differs: bool, error: int) -> None:
    """No other process can listen there; at another address, the live predecessor keeps its registration."""

    async def test() -> None:
        server, port = await listener()
        image = MetadataImage().apply([BrokerChanged(record(2, port))], 20)
        stage = Stage(image)
        await committed(stage, lambda: not stage.controller.registrations.are_held)
        registration = Registration(
            broker_id=2,
            incarnation_id="new",
            host="h",
            port=1,
            internal_host="127.0.0.1",
            internal_port=port + port_differs,
        )
        stage.controller.register(registration, stage.answers.append)
        await committed(stage, lambda: bool(stage.answers))

        assert int(stage.answers[0].error) == error
        stage.controller.stop()
        server.close()

    run(test)


def test_first_to_return_from_a_total_outage_leads_at_once() -> None:
    """All were in sync and all died; broker 1 is back, elsewhere, and the others are found dead: 1 leads."""

    async def test() -> None:
        dead_port = await closed_port()
        brokers = [BrokerChanged(record(each, dead_port)) for each in (1, 2, 3)]
        topic = TopicCreated("t", UUID(int=9), (PartitionRecord(0, 2, 5, 20, (2, 1, 3), (2, 1, 3)),))
        stage = Stage(MetadataImage().apply([*brokers, topic], 20))
        registration = Registration(
            broker_id=1, incarnation_id=OWN.hex, host="h", port=1, internal_host="127.0.0.1", internal_port=7
        )
        stage.controller.register(registration, stage.answers.append)
        await committed(stage, lambda: bool(stage.answers))
        (answer,) = stage.answers
        stage.controller.decide(
            lambda image, version: heartbeat(
                image,
                stage.controller.sessions,
                1,
                answer.broker_epoch,
                stage.controller.config,
                metadata_version=image.version,
                want_fence=False,
                want_shut_down=False,
                version=version,
                now_ms=stage.clock.now_ms,
            ),
            stage.answers.append,
        )
        await committed(stage, lambda: len(stage.answers) == 2)

        state = stage.controller.image.topics["t"].partitions[0]
        assert answer.error is ErrorCode.NONE
        assert (state.leader, state.isr) == (1, (1,))
        stage.controller.stop()

    run(test)


def test_answer_that_cannot_be_given_harms_no_other() -> None:
    """Every request that waits for the same commit is answered, and decisions continue."""

    async def test() -> None:
        stage = Stage()
        stage.store.finish()
        stage.decide(1, "under way")

        def fail(_answer: Any) -> None:
            raise ValueError("too long for the wire")

        stage.controller.decide(lambda _image, _version: Decision((ProducerIdsAllocated(2),), None, WHY), fail)
        stage.decide(3, "beside it")
        stage.store.finish()
        stage.store.finish()
        stage.decide(4, "after it")
        stage.store.finish()

        assert stage.answers == ["under way", "beside it", "after it"]
        stage.controller.stop()

    run(test)
