"""Limits on the number and rate of connections: who waits in the backlog, who is reset, who makes room."""

import pytest

from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient
from tests.node.world import World

# A broker that is its own controller has two connections to itself, which count.
OWN = 2


async def is_served(world: World, client: WireClient, within_s: float = 0.5) -> bool:
    """Return whether a connection gets an answer; a second call waits for the same one."""
    number = client.send(ApiKey.API_VERSIONS, 0)
    deadline_s = world.loop.time() + within_s
    await world.until(lambda: number in client.answers or client.is_lost or world.loop.time() > deadline_s)
    return number in client.answers


async def configure(world: World, **configs: object) -> None:
    """Change configurations of all brokers while they run."""
    peer = await world.peer()
    changes = [
        {"name": name.replace("_", "."), "config_operation": 0, "value": str(value)} for name, value in configs.items()
    ]
    resource = {"resource_type": 4, "resource_name": "", "configs": changes}
    answer = await peer.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    peer.transport.close()
    assert int(answer.responses[0].error_code) == 0, answer
    await world.later(1)


@pytest.mark.brokers(1, max_connections=OWN + 3)
async def test_clients_beyond_the_limit_wait_for_a_place(world: World) -> None:
    """Of five, three are served; the others stay in the backlog, unanswered, and get a place that is freed."""
    clients = [await world.client() for _ in range(5)]
    served = [await is_served(world, each) for each in clients]
    clients[1].transport.close()
    await world.later(1)

    assert served == [True, True, True, False, False]
    assert world.broker().dispatcher.clients.places.count("client") == 3
    assert clients[3].answers
    assert not clients[4].answers
    assert not clients[4].is_lost


@pytest.mark.brokers(1, max_connections=OWN + 2)
async def test_brokers_get_a_place_when_clients_have_taken_all(world: World) -> None:
    """The client that has been silent for longest makes room, whichever came first."""
    first, second = await world.client(), await world.client()
    assert await is_served(world, second)
    assert await is_served(world, first)
    peer = await world.peer()
    await second.lost()

    assert await is_served(world, peer)
    assert await is_served(world, first)


async def test_limit_changes_while_the_broker_runs(world: World) -> None:
    """Lowered, it keeps what is open; raised, it lets in who waits."""
    clients = [await world.client() for _ in range(3)]
    await configure(world, max_connections=OWN + 2)
    clients.append(await world.client())
    served = [await is_served(world, each) for each in clients]
    await configure(world, max_connections=10)

    assert served == [True, True, True, False]
    assert clients[3].answers


@pytest.mark.brokers(1, max_connections=OWN + 1)
async def test_log_says_once_a_minute_that_clients_wait(world: World) -> None:
    """Guards: the clients of a broker without a place for them saw silence, and so did the operator."""
    for _ in range(4):
        client = await world.client()
        assert await is_served(world, client)
        client.transport.close()
        await world.later(1)
    told = [each for each in world.errors.warnings if "no more clients are accepted" in each]
    await world.later(60)
    await world.client()
    await world.later(1)

    reason = "there are 3 connections, including those of brokers, and max.connections is 3"
    assert told == [f"no more clients are accepted until one leaves: {reason}"]
    assert sum("no more clients are accepted" in each for each in world.errors.warnings) == 2


@pytest.mark.brokers(1, max_connections_per_ip=2)
async def test_connections_beyond_the_limit_of_an_address_are_reset(world: World) -> None:
    """At once, and only those; a closed one makes room, and other brokers are not counted."""
    clients = [await world.client() for _ in range(2)]
    third = await world.client()
    await third.lost()
    assert await is_served(world, await world.peer())
    clients[0].transport.close()
    await world.later(0.1)

    assert await is_served(world, await world.client())
    assert await is_served(world, clients[1])


@pytest.mark.brokers(1, max_connections_per_ip=0, max_connections_per_ip_overrides="10.0.0.1:0, world:2")
async def test_addresses_may_have_limits_of_their_own(world: World) -> None:
    """None but the hosts that are named may connect; a name is resolved."""
    assert await is_served(world, await world.client())
    assert await is_served(world, await world.client())
    await (await world.client()).lost()


async def test_limit_of_an_address_changes_while_the_broker_runs(world: World) -> None:
    """From the next connection on; open ones stay."""
    clients = [await world.client() for _ in range(3)]
    await configure(world, max_connections_per_ip=3)
    await (await world.client()).lost()
    await configure(world, max_connections_per_ip_overrides="world:4")

    assert await is_served(world, await world.client())
    assert [await is_served(world, each) for each in clients] == [True] * 3


@pytest.mark.brokers(1, max_connection_creation_rate=10)
async def test_connections_are_accepted_no_faster_than_allowed(world: World) -> None:
    """After the connections of one second at once, ten a second; brokers do not wait."""
    began_s = world.loop.time()
    clients = [await world.client() for _ in range(40)]
    numbers = [each.send(ApiKey.API_VERSIONS, 0) for each in clients]
    peer_is_served = await is_served(world, await world.peer(), 0.1)
    for client, number in zip(clients, numbers, strict=True):
        await client.body(number)
    took_s = world.loop.time() - began_s

    assert peer_is_served
    assert 2.5 < took_s < 3.5
