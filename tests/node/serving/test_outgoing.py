"""Answers that one callback makes ready leave together; none waits longer, none is kept in bulk."""

from collections.abc import Callable

import pytest

from syncline.model.errors import ErrorCode
from syncline.node.serving.outgoing import TOGETHER_BYTES_MAX, Outgoing
from syncline.virtual.network.transport import Buffer, VirtualTransport
from syncline.wire.api import ApiKey
from syncline.wire.fetch import encode_fetch_request
from syncline.wire.produce import encode_produce_request
from tests.node.wire_client import FETCH_VERSION, PRODUCE_VERSION, WireClient, at, batch, fetch_request
from tests.node.world import World


@pytest.fixture
def sizes_to(monkeypatch: pytest.MonkeyPatch) -> Callable[[WireClient], list[int]]:
    """Return a function that returns the sizes of what is written to a client from now on."""
    real_write = VirtualTransport.write
    watched: dict[VirtualTransport, list[int]] = {}

    def write(transport: VirtualTransport, data: Buffer) -> None:
        if transport in watched:
            watched[transport].append(len(data))
        real_write(transport, data)

    monkeypatch.setattr(VirtualTransport, "write", write)

    def sizes(client: WireClient) -> list[int]:
        assert isinstance(client.transport, VirtualTransport)
        return watched.setdefault(client.transport.peer, [])

    return sizes


def produce_frame(client: WireClient) -> bytes:
    """Return a produce request of one record, not sent yet."""
    parts = encode_produce_request(PRODUCE_VERSION, acks=-1, timeout_ms=30_000, topics=[("t", [(0, batch())])])
    return client.frame(ApiKey.PRODUCE, PRODUCE_VERSION, *parts)


def fetch_frame(client: WireClient) -> bytes:
    """Return a fetch of the topic from its beginning, not sent yet."""
    request = fetch_request({"t": [at(0)]})
    return client.frame(ApiKey.FETCH, FETCH_VERSION, encode_fetch_request(request, FETCH_VERSION))


@pytest.mark.brokers(3)
async def test_answers_that_one_fetch_of_a_follower_frees_leave_in_one_write(
    world: World, sizes_to: Callable[[WireClient], list[int]]
) -> None:
    """A system call per answer takes most of what a produce request with one record costs."""
    await world.topic(replicas=(1, 2, 3))
    first, second = await world.client(), await world.client()
    await first.produce("t", batch())
    written = sizes_to(first), sizes_to(second)
    for client in (first, second):
        # They arrive in one piece, and before a follower fetches again.
        client.transport.write(b"".join(produce_frame(client) for _ in range(50)))
    rows = [await first.produced(number) for number in range(1, 51)]
    rows += [await second.produced(number) for number in range(50)]

    assert [row.error_code for row in rows] == [ErrorCode.NONE] * 100
    assert list(first.answers) == list(range(51))
    assert list(second.answers) == list(range(50))
    # The followers may have found the records of one client before the other's came.
    assert [1 <= len(sizes) <= 4 for sizes in written] == [True, True], written


async def test_answers_of_one_read_leave_in_one_write(
    world: World, sizes_to: Callable[[WireClient], list[int]]
) -> None:
    """Requests that arrive together are answered together."""
    client = await world.client()
    sizes = sizes_to(client)
    client.transport.write(b"".join(client.frame(ApiKey.API_VERSIONS, 0) for _ in range(20)))
    await client.body(19)

    assert len(sizes) == 1
    assert list(client.answers) == list(range(20))


async def test_answers_behind_a_parked_fetch_leave_with_it(
    world: World, sizes_to: Callable[[WireClient], list[int]]
) -> None:
    """Guards: each of them was a system call, since a woken fetch does not wait for the end of the callback."""
    await world.topic()
    client, writer = await world.client(), await world.client()
    client.send_fetch({"t": [at(0)]}, max_wait_ms=30_000)
    client.transport.write(b"".join(client.frame(ApiKey.API_VERSIONS, 0) for _ in range(500)))
    await world.until(lambda: any(len(connection._pending) == 501 for connection in world.connections()))
    sizes = sizes_to(client)
    await writer.produce("t", batch())
    await client.body(500)

    assert list(client.answers) == list(range(501))
    assert len(sizes) <= 2 + sum(sizes) // TOGETHER_BYTES_MAX


async def test_a_connection_that_cannot_be_written_to_keeps_no_other_back(world: World) -> None:
    """The answers of the others leave, and the failure is logged."""
    left = []

    class Sender:
        def __init__(self, name: str) -> None:
            self.name = name

        def send(self) -> None:
            left.append(self.name)
            if self.name == "failing":
                raise RuntimeError("a failing transport")

    outgoing = Outgoing()
    outgoing.senders += [Sender("first"), Sender("failing"), Sender("last")]
    outgoing.leave()

    assert left == ["first", "failing", "last"]
    assert world.errors.take() == ["responses could not be written: RuntimeError('a failing transport')"]


async def test_no_more_than_64_kib_of_answers_wait_for_the_end_of_a_callback(
    world: World, sizes_to: Callable[[WireClient], list[int]]
) -> None:
    """Answers are written at once when there are many of them: what is kept is bounded whatever a client asks."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(size_bytes=20_000))
    sizes = sizes_to(client)
    # Each answer has some 20 kB.
    client.transport.write(b"".join(fetch_frame(client) for _ in range(40)))
    await client.body(40)

    assert sum(sizes) > 40 * 20_000
    assert max(sizes) < TOGETHER_BYTES_MAX + 21_000
    assert len(sizes) < 20


@pytest.mark.brokers(3)
async def test_a_client_that_does_not_read_holds_up_no_other(world: World) -> None:
    """Answers to two clients become ready together; one of them reads nothing."""
    await world.topic(replicas=(1, 2, 3))
    deaf, client = await world.client(), await world.client()
    await deaf.produce("t", batch(size_bytes=400_000))
    deaf.transport.pause_reading()
    for _ in range(20):
        deaf.send_fetch({"t": [at(0)]})
    await world.until(lambda: any(connection.holding.unsent_bytes for connection in world.connections()))
    for _ in range(20):
        assert not (await client.produce("t", batch())).error_code
