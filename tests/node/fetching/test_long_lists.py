"""Consumers' fetches of many partitions: how they share the loop, wait, end, and how many they may name."""

from syncline.model.errors import ErrorCode
from syncline.virtual.time.meter import CallMeter
from syncline.wire.api import ApiKey
from syncline.wire.fetch import PARTITIONS_MAX, FetchPartition
from syncline.wire.fetch_response import FetchResponse
from tests.node.wire_client import at, batch, offsets
from tests.node.world import World

MANY = 3_000
LONG_MS = 30_000


def many(count: int = MANY) -> dict[str, list[FetchPartition]]:
    """Return one topic with many partitions, of which only the first exists."""
    return {"t": [at(0, partition=index) for index in range(count)]}


def found(answer: FetchResponse) -> tuple[list[int], set[int]]:
    """Return the offsets in the answer's first partition, and the errors of the others."""
    ((_, rows),) = answer.topics
    assert [row.partition for row in rows] == list(range(MANY))
    return offsets(rows[0].records), {row.error_code for row in rows[1:]}


async def test_long_fetch_shares_the_loop(world: World) -> None:
    """A short request that arrives at the same moment is answered before it."""
    await world.topic()
    slow, quick = await world.client(), await world.client()
    await quick.produce("t", batch())
    order: list[str] = []
    slow.note_arrivals("slow", order)
    quick.note_arrivals("quick", order)
    long = slow.send_fetch(many())
    await quick.body(quick.send(ApiKey.API_VERSIONS, 0))

    assert found(await slow.fetched(long)) == ([0], {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    assert order[0] == "quick"


async def test_long_fetch_waits_for_records_and_is_woken(world: World) -> None:
    """Also by records that come while its partitions are looked at; and later requests come after its answer."""
    await world.topic()
    reader, writer = await world.client(), await world.client()
    for round_, pause_s in enumerate((0, 1)):
        began_s = world.loop.time()
        fetch = reader.send_fetch({"t": [at(round_), *many()["t"][1:]]}, max_wait_ms=LONG_MS)
        later = reader.send(ApiKey.API_VERSIONS, 0)
        await world.later(pause_s)
        await writer.produce("t", batch())
        answer = await reader.fetched(fetch)
        await reader.body(later)

        assert found(answer) == ([round_], {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        assert world.loop.time() - began_s < pause_s + 1
    assert list(reader.answers) == sorted(reader.answers)


async def test_long_fetch_is_answered_when_its_wait_is_over(world: World) -> None:
    """With what there is, and once."""
    await world.topic()
    reader, writer = await world.client(), await world.client()
    began_s = world.loop.time()
    fetch = reader.send_fetch(many(), max_wait_ms=2_000, min_bytes=1_000)
    await world.later(1)
    await writer.produce("t", batch())

    assert found(await reader.fetched(fetch)) == ([0], {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    assert 2 <= world.loop.time() - began_s < 2.1


async def test_long_fetch_ends_with_its_connection(world: World) -> None:
    """Between two of its steps, and while it is parked: nothing of it is left that a record could wake."""
    await world.topic()
    writer = await world.client()
    for pause_s in (0.0, 0.001, 1):
        reader = await world.client()
        reader.send_fetch(many(), max_wait_ms=LONG_MS)
        await world.later(pause_s)
        reader.transport.abort()
        await world.later(1)
    row = await writer.produce("t", batch())

    assert row.error_code == ErrorCode.NONE
    assert len(world.connections()) == 1


async def test_consumer_may_not_name_more_partitions_than_any_broker_leads(world: World) -> None:
    """Each costs time that other requests wait for. Another broker names those that it follows, however many."""
    await world.topic()
    client, peer, bad = await world.client(), await world.peer(), await world.client()
    most = await client.fetched(client.send_fetch(many(PARTITIONS_MAX)))
    more = await peer.fetched(peer.send_fetch(many(PARTITIONS_MAX + 1), replica_id=9))
    bad.send_fetch(many(PARTITIONS_MAX + 1))
    await bad.lost()

    assert [len(rows) for answer in (most, more) for _, rows in answer.topics] == [PARTITIONS_MAX, PARTITIONS_MAX + 1]


async def test_session_of_many_partitions_is_opened_and_changed_in_steps(world: World) -> None:
    """Calls between two looks at the clock are few, whether it gets, has or loses its partitions."""
    await world.topic()
    reader, writer = await world.client(), await world.client()
    await writer.produce("t", batch())
    await reader.fetched(reader.send_fetch(many(), session=(0, 0)))
    meter = world.loop.meter = CallMeter(frozenset({"broker-1"}))
    opened = await reader.fetched(reader.send_fetch(many(), session=(0, 0)))
    same = await reader.fetched(reader.send_fetch(many(), session=(opened.session_id, 1)))
    more = [at(0, partition=index) for index in range(MANY, 2 * MANY)]
    grown = await reader.fetched(reader.send_fetch({"t": more}, session=(opened.session_id, 2)))
    gone = list(range(2 * MANY))
    empty = await reader.fetched(reader.send_fetch({}, session=(opened.session_id, 3), forgotten=[("t", gone)]))
    world.loop.meter = None

    assert found(opened) == ([0], {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    assert [len(rows) for answer in (same, grown) for _, rows in answer.topics] == [MANY, 2 * MANY]
    assert opened.session_id == same.session_id == grown.session_id
    assert (empty.session_id, list(empty.topics)) == (0, [])
    assert meter.calls_max < MANY // 2


async def test_long_fetch_is_refused_if_its_session_ends_meanwhile(world: World) -> None:
    """The same reader has begun a new one, over another connection."""
    await world.topic()
    reader, other = await world.client(), await world.client()
    opened = await reader.fetched(reader.send_fetch({"t": [at(0)]}, session=(0, 0)))
    long = reader.send_fetch(many(), session=(opened.session_id, 1))
    other.send_fetch({"t": [at(0)]}, session=(opened.session_id, 0))
    answer = await reader.fetched(long)

    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
