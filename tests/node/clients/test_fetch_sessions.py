"""Fetch sessions of clients in a broker's memory: how much all of them may take, and when it is given back."""

from collections.abc import Sequence

import pytest

from syncline.core.fetching.session_bytes import session_bytes
from syncline.model.errors import ErrorCode
from syncline.node.assembly import SESSIONS_SHARE
from syncline.wire.fetch import FetchPartition
from syncline.wire.fetch_response import FetchResponse
from tests.node.wire_client import WireClient, at, batch, offsets
from tests.node.world import World

LIMIT_BYTES = 16 << 20
MANY = 3_000
# More than have room.
READERS = 8
LONG_MS = 3_600_000
small_memory = pytest.mark.brokers(1, queued_max_request_bytes=LIMIT_BYTES, socket_request_max_bytes=LIMIT_BYTES)


def many() -> dict[str, Sequence[FetchPartition]]:
    """Return one topic with many partitions, of which only the first exists."""
    return {"t": [at(0, partition=index) for index in range(MANY)]}


async def open_session(client: WireClient) -> FetchResponse:
    """Return the answer to a full fetch that asks for a session."""
    return await client.fetched(client.send_fetch(many(), session=(0, 0)))


@small_memory
async def test_sessions_of_all_clients_together_are_bounded(world: World) -> None:
    """Those for which there is no room are answered without one, with all that they asked for."""
    await world.topic()
    writer, *readers = [await world.client() for _ in range(READERS + 1)]
    await writer.produce("t", batch())
    answers = [await open_session(reader) for reader in readers]
    has_session = [answer.session_id > 0 for answer in answers]
    fits = LIMIT_BYTES // SESSIONS_SHARE // session_bytes(MANY)

    assert has_session == [True] * fits + [False] * (READERS - fits)
    assert [len(rows) for answer in answers for _, rows in answer.topics] == [MANY] * READERS
    assert offsets(answers[-1].topics[0][1][0].records) == [0]
    assert sum(each.holding.kept_bytes for each in world.connections()) == fits * session_bytes(MANY)


@small_memory
async def test_sessions_of_clients_that_left_take_nothing(world: World) -> None:
    """Their room is there for others at once."""
    await world.topic()
    readers = [await world.client() for _ in range(READERS)]
    for reader in readers:
        await open_session(reader)
    for reader in readers:
        reader.transport.abort()
    memory = world.broker().dispatcher.clients.memory
    await world.until(lambda: not world.connections())
    held_bytes = memory.held_bytes
    answer = await open_session(await world.client())

    assert (held_bytes, len(world.broker().fetching.sessions)) == (0, 1)
    assert answer.session_id > 0


@small_memory
async def test_fetch_without_a_session_does_not_park_when_memory_is_full(world: World) -> None:
    """A client may say that it waits for an hour; what it names would be kept as long."""
    await world.topic()
    readers = [await world.client() for _ in range(2 * LIMIT_BYTES // session_bytes(MANY))]
    sent = [reader.send_fetch(many(), max_wait_ms=LONG_MS) for reader in readers]
    memory = world.broker().dispatcher.clients.memory
    await world.later(1)
    held_bytes = memory.held_bytes
    answered = [number in reader.answers for reader, number in zip(readers, sent, strict=True)]
    last = await readers[-1].fetched(sent[-1])

    assert held_bytes <= LIMIT_BYTES * 1.1
    assert not all(answered)
    assert answered[-1]
    assert {row.error_code for _, rows in last.topics for row in rows[1:]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@small_memory
async def test_other_brokers_have_sessions_whatever_clients_hold(world: World) -> None:
    """They replicate."""
    await world.topic()
    for _ in range(READERS):
        await open_session(await world.client())
    peer = await world.peer()
    answer = await peer.fetched(peer.send_fetch(many(), session=(0, 0), replica_id=9))

    assert answer.session_id > 0
