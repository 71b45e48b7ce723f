"""Batches that must be opened: who waits for that, and what happens meanwhile."""

import gc

import pytest

from syncline.model.errors import ErrorCode
from syncline.records.builder import BatchBuilder
from syncline.records.compression import Codec
from syncline.records.validate import OPENED_RECORDS_MAX, InvalidBatch
from syncline.wire.api import ApiKey
from syncline.wire.produce import encode_produce_request, parse_produce_response
from tests.node.wire_client import PRODUCE_VERSION, batch, offsets
from tests.node.world import World

NOW_MS = 1_700_000_000_000


def compressed(count: int, *, key: bytes | None = b"k") -> bytes:
    """Return a batch that a compacted topic must open."""
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(NOW_MS, key, b"v")
    return bytes(builder.build(Codec.GZIP))


async def test_others_are_served_while_a_batch_is_opened(world: World) -> None:
    """The client with that batch waits for the disk's thread, other clients do not."""
    await world.topic("compacted", cleanup_policy="compact")
    await world.topic("t")
    slow, quick = await world.client(), await world.client()
    opened = slow.send_produce("compacted", compressed(2))
    row = await quick.produce("t", batch())
    was_opened = opened in slow.answers
    slow_row = await slow.produced(opened)

    assert (row.error_code, row.base_offset, was_opened) == (ErrorCode.NONE, 0, False)
    assert (slow_row.error_code, slow_row.base_offset) == (ErrorCode.NONE, 0)


async def test_requests_of_a_connection_stay_in_order_around_an_opened_batch(world: World) -> None:
    """What a producer sent later is not appended before, though it need not be opened; nor is it answered before."""
    await world.topic("compacted", cleanup_policy="compact")
    client = await world.client()
    sent = [client.send_produce("compacted", records) for records in (compressed(2), batch(3), compressed(4), batch(5))]
    rows = [await client.produced(correlation_id) for correlation_id in sent]
    stored = await client.fetch("compacted", 0)

    assert [row.base_offset for row in rows] == [0, 2, 5, 9]
    assert list(client.answers)[:4] == sent
    assert offsets(stored.records) == [0, 2, 5, 9]


async def test_request_has_the_rows_of_opened_and_other_batches_in_their_places(world: World) -> None:
    """One is refused for what is in it, one appended after it was opened, and one needs no opening."""
    await world.topic("compacted", partitions=3, cleanup_policy="compact")
    client = await world.client()
    partitions = [(0, compressed(2)), (1, batch(3)), (2, compressed(4, key=None))]
    parts = encode_produce_request(PRODUCE_VERSION, acks=-1, timeout_ms=5_000, topics=[("compacted", partitions)])
    body = await client.body(client.send(ApiKey.PRODUCE, PRODUCE_VERSION, *parts))
    ((_, rows),) = parse_produce_response(body, PRODUCE_VERSION).topics

    assert [(row.partition, row.error_code, row.base_offset) for row in rows] == [
        (0, ErrorCode.NONE, 0),
        (1, ErrorCode.NONE, 0),
        (2, ErrorCode.INVALID_RECORD, -1),
    ]
    assert len(rows[2].record_errors) == 4


async def test_topic_deleted_while_its_batch_is_opened_gets_nothing(world: World) -> None:
    """The partition is looked up again before the append."""
    await world.topic("compacted", cleanup_policy="compact")
    world.slow_disk(1, 5_000)
    client = await world.client()
    sent = client.send_produce("compacted", compressed(2))
    await world.until(lambda: world.broker().dispatcher.counts.get(PRODUCE_VERSION))
    await world.delete_topic("compacted")
    row = await client.produced(sent)

    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_client_that_leaves_while_its_batch_is_opened_is_forgotten(world: World) -> None:
    """The next batch is opened all the same."""
    await world.topic("compacted", cleanup_policy="compact")
    leaver, other = await world.client(), await world.client()
    leaver.send_produce("compacted", compressed(2))
    await world.until(lambda: world.broker().dispatcher.counts.get(PRODUCE_VERSION))
    world.call(1, next(each for each in world.connections() if each.client_id == "test").close, "test")
    row = await other.produce("compacted", compressed(3))

    assert row.error_code == ErrorCode.NONE


async def test_request_has_a_bound_on_the_records_that_are_opened_for_it(world: World) -> None:
    """Few bytes may hold millions of records: what lies beyond the bound is refused, unopened."""
    await world.topic("compacted", partitions=3, cleanup_policy="compact")
    client = await world.client()
    large = compressed(OPENED_RECORDS_MAX * 3 // 5)
    partitions = [(0, large), (1, large), (2, batch())]
    parts = encode_produce_request(PRODUCE_VERSION, acks=-1, timeout_ms=5_000, topics=[("compacted", partitions)])
    body = await client.body(client.send(ApiKey.PRODUCE, PRODUCE_VERSION, *parts))
    ((_, rows),) = parse_produce_response(body, PRODUCE_VERSION).topics

    assert [row.error_code for row in rows] == [ErrorCode.NONE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.NONE]


@pytest.mark.parametrize("acks", [1, -1])
async def test_uncompressed_batches_of_few_records_are_opened_at_once(world: World, acks: int) -> None:
    """They cost less than the way to the thread and back; a later request is not held up."""
    await world.topic("compacted", cleanup_policy="compact")
    world.slow_disk(1, 5_000)
    client = await world.client()
    began_ns = world.loop.now_ns
    row = await client.produce("compacted", batch(10), acks=acks)

    assert row.error_code == ErrorCode.NONE
    assert world.loop.now_ns - began_ns < 100_000_000


async def test_refused_batch_leaves_nothing_for_the_garbage_collector(world: World) -> None:
    """An error that its own frames keep would keep what was decompressed as well, and full collections are rare."""
    await world.topic("compacted", cleanup_policy="compact")
    client = await world.client()
    gc.collect()
    gc.disable()
    try:
        row = await client.produce("compacted", compressed(2, key=None))
        kept = [each for each in gc.get_objects() if isinstance(each, InvalidBatch)]
    finally:
        gc.enable()

    assert row.error_code == ErrorCode.INVALID_RECORD
    assert kept == []
