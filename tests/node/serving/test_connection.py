"""Connections of clients: frames, the order of answers, limits, back-pressure."""

import struct

import pytest

from syncline.model.errors import ErrorCode
from syncline.wire.api import LISTS_BYTES_MAX, ApiKey
from tests.node.wire_client import at, batch
from tests.node.world import World


async def test_connection_answers_when_a_frame_comes_byte_by_byte(world: World) -> None:
    """TCP may cut anywhere: a request in as many pieces as it has bytes is one request."""
    client = await world.client()
    for byte in client.frame(ApiKey.API_VERSIONS, 0):
        client.transport.write(bytes([byte]))
        await world.until(lambda: not client.transport.outgoing.in_flight_bytes)

    assert (await client.body(0))[:2] == b"\x00\x00"


async def test_connection_answers_each_when_many_frames_come_in_one_piece(world: World) -> None:
    """Requests that arrive together are all answered, in order."""
    client = await world.client()
    client.transport.write(b"".join(client.frame(ApiKey.API_VERSIONS, 0) for _ in range(500)))
    await client.body(499)

    assert list(range(500)) == list(client.answers)


async def test_connection_keeps_the_order_when_a_later_answer_is_ready_first(world: World) -> None:
    """The answer to a pipelined request waits for that of the parked fetch before it."""
    await world.topic()
    client = await world.client()
    parked = client.send_fetch({"t": [at(0)]}, max_wait_ms=500)
    later = client.send(ApiKey.API_VERSIONS, 0)
    await client.body(later)

    assert [parked, later] == list(client.answers)
    assert world.loop.time() > 1.5


async def test_connection_is_closed_alone_when_a_frame_is_too_large(world: World) -> None:
    """A size above socket.request.max.bytes ends this connection before its bytes arrive; others stay open."""
    bad, good = await world.client(), await world.client()
    bad.transport.write(struct.pack(">i", (100 << 20) + 1))
    await bad.lost()

    assert await good.body(good.send(ApiKey.API_VERSIONS, 0))


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(struct.pack(">i", -1), id="negative-size"),
        pytest.param(struct.pack(">i", 3) + b"abc", id="shorter-than-a-header"),
        pytest.param(struct.pack(">ihhih", 10, 18, 0, 7, 50), id="client-id-beyond-the-frame"),
        pytest.param(struct.pack(">ihhih", 10, 18, 0, 7, -2), id="negative-client-id"),
        pytest.param(struct.pack(">ihhihB", 11, 18, 0, 7, 1, 0xFF), id="client-id-is-not-text"),
    ],
)
async def test_connection_is_closed_alone_when_a_frame_is_malformed(world: World, frame: bytes) -> None:
    """Bytes that cannot be a request end the connection that sent them, and no other."""
    bad, good = await world.client(), await world.client()
    bad.transport.write(frame)
    await bad.lost()

    assert await good.body(good.send(ApiKey.API_VERSIONS, 0))


async def test_connection_is_closed_alone_when_a_list_is_as_long_as_records_may_be(world: World) -> None:
    """Only records and the data of group members may fill a frame: long lists take too long to read."""
    bad, good = await world.client(), await world.client()
    bad.transport.write(bad.frame(ApiKey.METADATA, 4, bytes(LISTS_BYTES_MAX)))
    await bad.lost()

    assert await good.body(good.send(ApiKey.API_VERSIONS, 0))


async def test_connection_sends_what_is_answered_before_it_closes_for_a_bad_frame(world: World) -> None:
    """A valid request that arrives together with an invalid one gets its answer."""
    client = await world.client()
    client.transport.write(client.frame(ApiKey.API_VERSIONS, 0) + struct.pack(">i", -1))
    await client.lost()

    assert [0] == list(client.answers)


async def test_connection_stops_reading_when_answers_are_not_read(world: World) -> None:
    """A broker stops reading from a peer that does not read: its pending answers are bounded, and later it gets all."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(size_bytes=400_000))
    client.transport.pause_reading()
    for _ in range(100):
        client.send_fetch({"t": [at(0)]})
    (connection,) = world.connections()
    await world.until(lambda: not connection.is_reading)
    await world.until(lambda: world.loop.time() > 3)
    owed_bytes = connection.transport.outgoing.in_flight_bytes
    client.transport.resume_reading()
    await client.body(100)

    assert owed_bytes < 2_000_000
    assert len(client.answers) == 101


async def test_connection_stops_reading_when_many_answers_wait_for_their_turn(world: World) -> None:
    """Answers behind a parked fetch accumulate only up to a bound; afterwards every request is answered."""
    await world.topic()
    await world.topic("quiet")
    client = await world.client()
    await client.produce("t", batch(size_bytes=400_000))
    client.send_fetch({"quiet": [at(0)]}, max_wait_ms=5_000)
    for _ in range(100):
        client.send_fetch({"t": [at(0)]})
    (connection,) = world.connections()
    await world.until(lambda: not connection.is_reading)
    await world.later(1)
    waiting_bytes = connection.holding.waiting_bytes
    await client.body(101)

    assert 16_000_000 < waiting_bytes < 18_000_000
    assert connection.is_reading
    assert connection.holding.waiting_bytes == 0


@pytest.mark.brokers(3)
async def test_connection_stops_reading_when_much_is_unacknowledged(world: World) -> None:
    """A producer with 16 MiB under way waits until half of it is acknowledged."""
    await world.topic(replicas=(1, 2), min_insync_replicas=2)
    world.network.cut("broker-2", "broker-1")
    client = await world.client()
    for _ in range(40):
        client.send_produce("t", batch(size_bytes=900_000))
    await world.until(lambda: world.partition().log.log_end >= 18)
    await world.until(lambda: world.loop.time() > 3)
    appended = world.partition().log.log_end
    world.network.heal("broker-2", "broker-1")
    last = await client.produced(39)

    assert appended == 19
    assert (ErrorCode.NONE, 39) == (last.error_code, last.base_offset)


async def test_connection_sends_nothing_when_acks_is_zero(world: World) -> None:
    """The records are stored, and the next answer is that of the next request."""
    await world.topic()
    client = await world.client()
    client.send_produce("t", batch(), acks=0)
    later = client.send(ApiKey.API_VERSIONS, 0)
    await client.body(later)

    assert [later] == list(client.answers)
    assert world.partition().log.log_end == 1


async def test_connection_is_closed_when_a_produce_without_answer_fails(world: World) -> None:
    """With acks=0 nothing else makes the producer look for another leader."""
    client = await world.client()
    client.send_produce("unknown", batch(), acks=0)
    await client.lost()

    assert client.answers == {}


async def test_connection_drops_answers_when_its_client_has_gone(world: World) -> None:
    """The broker forgets the parked fetch of a client that left."""
    await world.topic()
    client, other = await world.client(), await world.client()
    client.send_fetch({"t": [at(0)]}, max_wait_ms=1_000)
    await world.until(lambda: len(world.broker().fetching.deadlines) == 1)
    client.transport.abort()
    await world.until(lambda: len(world.connections()) == 1)
    await other.produce("t", batch())

    assert len(world.broker().fetching.deadlines) == 0


async def test_parked_fetches_end_with_their_connection(world: World) -> None:
    """Fetches with waits of weeks leave nothing behind when their client disconnects."""
    await world.topic()
    client = await world.client()
    for _ in range(3):
        client.send_fetch({"t": [at(0)]}, max_wait_ms=2**31 - 1)
    await world.until(lambda: len(world.broker().fetching.deadlines) == 3)
    client.transport.abort()

    await world.until(lambda: len(world.connections()) == 0)
    assert len(world.broker().fetching.deadlines) == 0
