"""Links between brokers that lose or delay data: both ends, both directions, new connections, and recovery."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from syncline.node.faults import verbs
from syncline.node.links.links import broker_of, client_id_of
from syncline.node.links.peer import CONNECT_TIMEOUT_S, PeerLost
from syncline.wire.api import ApiKey
from tests.node.faults.test_requests import batch, clear, hits
from tests.node.world import World

LAG_MS = 2_000
faulty = pytest.mark.brokers(
    3,
    fault_injection_enable="true",
    replica_lag_time_max_ms=LAG_MS,
    broker_session_timeout_ms=1_500,
    broker_heartbeat_interval_ms=300,
)
BOTH = ((1, 2), (2, 1))


async def cut(world: World, links: Sequence[tuple[int, int]], kind: str = "link-cut", **fields: Any) -> None:
    """Begin a fault of links at every broker that has one of them."""
    for broker_id in dict.fromkeys(broker for link in links for broker in link):
        call = {"id": "cut", "kind": kind, "links": [list(link) for link in links], **fields}
        await world.as_broker(broker_id, verbs.add(world.broker(broker_id), call))


def heal(world: World, *brokers: int) -> None:
    """End all faults of these brokers."""
    for broker_id in brokers:
        clear(world, broker_id)


def controller(world: World) -> int:
    """Return the broker that holds the lease."""
    return next(each for each in (1, 2, 3) if world.broker(each).controller.active is not None)


async def follower_beside(world: World) -> tuple[int, int]:
    """Create a topic of three replicas; return (leader, follower), neither of them the controller."""
    busy = controller(world)
    leader, follower = (each for each in (1, 2, 3) if each != busy)
    await world.topic(replicas=(leader, follower, busy))
    await world.until(lambda: world.partition(leader).isr is not None and len(world.partition(leader).isr or ()) == 3)
    client = await world.client(leader)
    assert (await client.produce("t", batch())).error_code == 0
    return leader, follower


def isr(world: World, leader: int) -> tuple[int, ...]:
    """Return the in-sync set, sorted."""
    return tuple(sorted(world.partition(leader).isr or ()))


@pytest.mark.parametrize(
    ("client_id", "broker_id"),
    [
        ("broker-1", 1),
        ("broker-12-fetcher", 12),
        ("broker-", None),
        ("broker-x", None),
        ("control", None),
        pytest.param(f"broker-{'9' * 5_000}-fetcher", None, id="too many digits for Python"),
        (None, None),
    ],
)
def test_brokers_are_known_by_their_client_ids(client_id: str | None, broker_id: int | None) -> None:
    """The client id of a broker's connection identifies the broker."""
    assert broker_of(client_id) == broker_id
    if client_id is not None and broker_id is not None:
        assert client_id_of(broker_id, client_id.partition("-")[2].partition("-")[2]) == client_id


@faulty
@pytest.mark.parametrize("ways", [(0, 1), (0,), (1,)], ids=["both", "answers", "requests"])
async def test_cut_follower_leaves_the_isr_and_returns(world: World, ways: tuple[int, ...]) -> None:
    """With either direction cut it stalls and leaves the ISR; restored, it catches up. It is never fenced."""
    leader, follower = await follower_beside(world)
    links = ((leader, follower), (follower, leader))
    chosen = [links[way] for way in ways]

    await cut(world, chosen, "link-cut" if len(ways) == 2 else "link-cut-one-way")
    client = await world.client(leader)
    assert (await client.produce("t", batch(b"y"))).error_code == 0, "acks=all goes on with who is left"
    assert (await client.produce("t", batch(b"z"))).error_code == 0

    assert follower not in isr(world, leader)
    # What answers the fetch that was under way still arrives, if answers do.
    assert world.partition(follower).log.log_end == (2 if ways == (1,) else 1)
    assert not world.broker(leader).image.brokers[follower].fenced  # type: ignore[index]
    heal(world, leader, follower)
    await world.until(lambda: follower in isr(world, leader))
    assert world.partition(follower).log.log_end == 3


@faulty
async def test_other_brokers_feel_nothing_of_a_cut_link(world: World) -> None:
    """The third broker stays in sync with the leader; clients of both ends are served."""
    leader, follower = await follower_beside(world)
    await cut(world, ((leader, follower), (follower, leader)))
    client = await world.client(follower)
    began_s = world.loop.time()

    await client.ask(ApiKey.LIST_GROUPS, 0)

    assert world.loop.time() - began_s < 0.05
    assert (await (await world.client(leader)).produce("t", batch(b"y"))).error_code == 0
    assert isr(world, leader) == tuple(sorted({leader, controller(world)}))
    heal(world, leader, follower)


@faulty
async def test_broker_that_is_cut_off_from_the_controller_is_fenced_in_the_end(world: World) -> None:
    """It is silent, not dead: it gets the whole session timeout. Then it registers or sends heartbeats again."""
    await world.topic()
    busy = controller(world)
    lonely = next(each for each in (1, 2, 3) if each != busy)
    image = lambda: world.broker(busy).image.brokers[lonely]  # type: ignore[index]  # noqa: E731
    began_s = world.loop.time()

    await cut(world, ((busy, lonely), (lonely, busy)))
    await world.until(lambda: image().fenced)
    assert 1.1 <= world.loop.time() - began_s <= 2.2
    heal(world, busy, lonely)
    await world.until(lambda: not image().fenced)


@faulty
async def test_no_connection_is_made_over_a_link_that_is_cut_one_way(world: World) -> None:
    """A handshake needs both directions: either end waits for the connection timeout, and fails."""
    await cut(world, ((1, 2),), "link-cut-one-way")
    target = world.broker(3).image.brokers

    async def dial(broker_id: int, other: int) -> float:
        began_s = world.loop.time()
        record = target[other]  # type: ignore[index]
        with pytest.raises(PeerLost):
            await world.node(broker_id).links.connect(
                other, record.internal_host, record.internal_port, client_id_of(broker_id, "test")
            )
        return world.loop.time() - began_s

    for broker_id, other in BOTH:
        waited_s = await world.as_broker(broker_id, dial(broker_id, other))
        assert waited_s == pytest.approx(CONNECT_TIMEOUT_S, abs=0.1)
    assert hits(world, 1)["cut"] >= 1
    heal(world, 1, 2)


@faulty
async def test_connection_that_waits_is_made_when_the_link_is_whole_again(world: World) -> None:
    """As with packets that are sent again and again, in the time that a connection may take."""
    await cut(world, BOTH)
    record = world.broker(1).image.brokers[2]  # type: ignore[index]
    task = world.as_broker(
        1, world.node(1).links.connect(2, record.internal_host, record.internal_port, client_id_of(1, "test"))
    )
    await world.later(1)
    assert not task.done()
    heal(world, 1, 2)
    peer = await asyncio.wait_for(task, 1)

    assert peer.is_open
    assert (peer, 2) in world.node(1).links.connections()
    peer.close()


@faulty
async def test_new_connection_of_a_broker_that_forgot_the_cut_is_cut_too(world: World) -> None:
    """A broker that died comes back without its faults; the other end still loses what it sends."""
    await cut(world, ((1, 2),), "link-cut-one-way")
    heal(world, 1)
    record = world.broker(1).image.brokers[2]  # type: ignore[index]
    peer = await world.as_broker(
        1, world.node(1).links.connect(2, record.internal_host, record.internal_port, client_id_of(1, "test"))
    )
    lost = asyncio.get_running_loop().create_future()
    world.call(1, lambda: peer.send(ApiKey.LIST_GROUPS, 0, (b"",), lambda frame, _: lost.set_result(frame)))
    await world.later(1)
    assert not lost.done()

    heal(world, 2)

    assert await asyncio.wait_for(lost, 1) is None, "something is missing: the connection breaks"


@faulty
async def test_connections_that_lost_nothing_survive_the_cut(world: World) -> None:
    """No data was sent, so none is missing."""
    await world.topic()
    record = world.broker(1).image.brokers[2]  # type: ignore[index]
    peer = await world.as_broker(
        1, world.node(1).links.connect(2, record.internal_host, record.internal_port, client_id_of(1, "test"))
    )
    await cut(world, BOTH)
    await world.later(0.2)
    heal(world, 1, 2)
    await world.later(0.2)

    assert peer.is_open
    assert peer.transport is not None
    assert peer.transport.get_protocol() is peer
    peer.close()


@faulty
async def test_end_of_a_process_behind_a_cut_is_not_noticed(world: World) -> None:
    """Neither the end of the stream nor a refusal crosses the cut: only silence gets the dead broker fenced."""
    await world.topic()
    busy = controller(world)
    victim = next(each for each in (1, 2, 3) if each != busy)
    await cut(world, ((busy, victim), (victim, busy)))
    began_s = world.loop.time()

    world.kill(victim)
    await world.until(lambda: world.broker(busy).image.brokers[victim].fenced)  # type: ignore[index]

    assert world.loop.time() - began_s >= 1.1
    heal(world, busy)
    await world.start(victim)
    await world.until(lambda: not world.broker(busy).image.brokers[victim].fenced)  # type: ignore[index]


@faulty
async def test_delay_makes_what_is_sent_late_and_keeps_its_order(world: World) -> None:
    """acks=all takes the delay of both directions; all replicas become equal; then the link is fast again."""
    leader, follower = await follower_beside(world)
    await cut(world, ((leader, follower), (follower, leader)), "link-delay", delay_ms=100)
    client = await world.client(leader)
    began_s = world.loop.time()
    for number in range(5):
        assert (await client.produce("t", batch(b"%d" % number))).error_code == 0
    # A fetch is on its way already when the first batch comes.
    assert 5 * 0.2 - 0.2 <= world.loop.time() - began_s <= 5 * 0.25 + 0.3
    assert follower in isr(world, leader)
    assert hits(world, follower)["cut"] >= 5

    heal(world, leader, follower)
    await world.later(0.5)
    began_s = world.loop.time()
    for number in range(5):
        assert (await client.produce("t", batch(b"%d" % number))).error_code == 0
    assert world.loop.time() - began_s < 0.1
    await world.until(lambda: world.partition(follower).log.log_end == 11)


@faulty
async def test_lines_are_given_back_when_the_link_is_whole(world: World) -> None:
    """No connection keeps another protocol under it, and nothing waits at a gate."""
    leader, follower = await follower_beside(world)
    for kind, fields in (("link-delay", {"delay_ms": 50}), ("link-cut", {})):
        await cut(world, ((leader, follower), (follower, leader)), kind, **fields)
        await world.later(1)
        heal(world, leader, follower)
        await world.later(1)
        for broker_id in (leader, follower):
            links = world.node(broker_id).links
            assert (links.gate, links.on_connected) == (None, None)
            for peer, _ in links.connections():
                assert peer.transport is not None
                assert peer.transport.get_protocol() is peer
            for connection in world.broker(broker_id).dispatcher.connections:
                assert connection.transport is None or connection.transport.get_protocol() is connection


@faulty
async def test_connection_whose_end_died_behind_a_cut_still_takes_what_is_written(world: World) -> None:
    """Its owner cannot know that; its writes are lost, and it learns of the loss when the link is restored."""
    await world.topic()
    record = world.broker(1).image.brokers[2]  # type: ignore[index]
    peer = await world.as_broker(
        1, world.node(1).links.connect(2, record.internal_host, record.internal_port, client_id_of(1, "test"))
    )
    await cut(world, BOTH)
    world.kill(2)
    await world.later(0.5)
    answers: list[object] = []

    for _ in range(3):
        world.call(1, lambda: peer.send(ApiKey.LIST_GROUPS, 0, (b"",), lambda frame, _: answers.append(frame)))
        await world.later(0.1)
    assert (peer.is_open, answers) == (True, [])

    heal(world, 1)
    await world.later(0.1)
    assert (peer.is_open, answers) == (False, [None] * 3)


@faulty
async def test_owner_may_close_a_connection_whose_end_died_behind_a_cut(world: World) -> None:
    """An owner that gives up waiting closes it, and the broker forgets it while the cut lasts."""
    await world.topic()
    record = world.broker(1).image.brokers[2]  # type: ignore[index]
    peer = await world.as_broker(
        1, world.node(1).links.connect(2, record.internal_host, record.internal_port, client_id_of(1, "test"))
    )
    await cut(world, BOTH)
    world.kill(2)
    await world.later(0.5)
    answers: list[object] = []
    world.call(1, lambda: peer.send(ApiKey.LIST_GROUPS, 0, (b"",), lambda frame, _: answers.append(frame)))

    world.call(1, peer.close)
    await world.later(0.1)

    assert (peer.is_open, answers) == (False, [None])
    assert peer not in [each for each, _ in world.node(1).links.connections()]
    heal(world, 1)


@faulty
async def test_connections_without_a_request_are_forgotten_when_they_end(world: World) -> None:
    """A broker without the rule connects again and again; its attempts do not pile up at the other end."""
    await cut(world, ((1, 2),), "link-cut-one-way")
    heal(world, 1)
    record = world.broker(1).image.brokers[2]  # type: ignore[index]
    before = len(world.broker(2).dispatcher.connections)
    for _ in range(5):
        peer = await world.as_broker(
            1, world.node(1).links.connect(2, record.internal_host, record.internal_port, client_id_of(1, "test"))
        )
        world.call(1, lambda: peer.send(ApiKey.LIST_GROUPS, 0, (b"",), lambda _frame, _position: None))  # noqa: B023
        await world.later(0.1)
        world.call(1, peer.close)
        await world.later(0.1)

    # Those that broker 1 keeps for itself may have come meanwhile.
    assert len([each for each in world.broker(2).dispatcher.connections if each.client_id == "broker-1-test"]) == 0
    assert len(world.broker(2).dispatcher.connections) <= before + 2
    heal(world, 2)


@faulty
async def test_delay_is_felt_on_connections_that_survived_a_cut(world: World) -> None:
    """Two faults of one link: the cut hides the delay, and its end brings it back."""
    await world.topic()
    record = world.broker(1).image.brokers[2]  # type: ignore[index]
    peer = await world.as_broker(
        1, world.node(1).links.connect(2, record.internal_host, record.internal_port, client_id_of(1, "test"))
    )
    call = {"id": "late", "kind": "link-delay", "links": [[2, 1]], "delay_ms": 300}
    await world.as_broker(1, verbs.add(world.broker(1), call))
    await cut(world, BOTH)
    for broker_id in (1, 2):
        world.call(broker_id, verbs.clear, world.broker(broker_id), {"id": "cut"})
    began_s = world.loop.time()

    await world.as_broker(1, peer.request_raw(ApiKey.LIST_GROUPS, 0, (b"",)))

    assert 0.3 <= world.loop.time() - began_s < 0.4
    heal(world, 1)
    peer.close()
