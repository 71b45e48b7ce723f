"""Connections over which nothing moves are closed, and no others."""

import pytest

from syncline.wire.api import ApiKey
from tests.node.wire_client import at, batch
from tests.node.world import World


@pytest.mark.brokers(1, connections_max_idle_ms=4_000)
async def test_silent_connections_are_closed(world: World) -> None:
    """Whether they once sent a request or never did; one that sends now and then stays, and so do brokers'."""
    used, unused, busy, peer = [await world.client(), await world.client(), await world.client(), await world.peer()]
    await used.body(used.send(ApiKey.API_VERSIONS, 0))
    for _ in range(10):
        await busy.body(busy.send(ApiKey.API_VERSIONS, 0))
        await world.later(1)

    assert (used.is_lost, unused.is_lost, busy.is_lost, peer.is_lost) == (True, True, False, False)


@pytest.mark.brokers(1, connections_max_idle_ms=4_000)
async def test_connections_are_not_closed_early(world: World) -> None:
    """The time is the least, and a sweep comes at most a quarter of it late."""
    client = await world.client()
    await world.later(3.9)
    is_early = client.is_lost
    await client.lost()

    assert not is_early
    assert world.loop.time() < 15


@pytest.mark.brokers(1, connections_max_idle_ms=2_000)
async def test_connection_whose_request_waits_is_not_idle(world: World) -> None:
    """A parked fetch may wait for longer than a connection may be idle; afterwards the time begins anew."""
    await world.topic()
    client = await world.client()
    fetch = client.send_fetch({"t": [at(0)]}, max_wait_ms=10_000)
    await client.fetched(fetch)
    is_lost_at_once = client.is_lost
    await client.lost()

    assert not is_lost_at_once


@pytest.mark.brokers(1, connections_max_idle_ms=2_000)
async def test_connection_whose_peer_reads_nothing_is_idle(world: World) -> None:
    """An answer that stays unread keeps neither the connection nor its memory."""
    await world.topic()
    client = await world.client()
    for _ in range(4):
        await client.produce("t", batch(size_bytes=900_000))
    client.transport.pause_reading()
    client.send_fetch({"t": [at(0, max_bytes=1 << 25)]})
    await world.until(lambda: world.broker().dispatcher.clients.memory.held_bytes > 3_000_000)
    await world.until(lambda: not world.connections())

    assert world.broker().dispatcher.clients.memory.held_bytes == 0


@pytest.mark.brokers(1, connections_max_idle_ms=-1)
async def test_connections_stay_when_no_time_is_set(world: World) -> None:
    """A negative time closes none."""
    client = await world.client()
    await world.later(50)

    assert not client.is_lost
