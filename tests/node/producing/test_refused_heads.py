"""A producer with several batches on their way meets a broker that refuses the first one, and then is ready."""

import errno

import pytest

from syncline.model.errors import ErrorCode
from syncline.records.builder import BatchBuilder
from tests.node.wire_client import WireClient
from tests.node.world import World


def numbered(sequence: int) -> bytes:
    """Return the batch of one record that an idempotent producer sends with a sequence."""
    builder = BatchBuilder(producer_id=9, producer_epoch=0, base_sequence=sequence)
    builder.append(1_700_000_000_000, b"key", b"value")
    return bytes(builder.build())


async def produced(client: WireClient, *sequences: int) -> list[tuple[int, int]]:
    """Send batches before any is answered; return error and offset of each."""
    sent = [client.send_produce("t", numbered(sequence)) for sequence in sequences]
    rows = [await client.produced(each) for each in sent]
    return [(row.error_code, row.base_offset) for row in rows]


REFUSED = (ErrorCode.KAFKA_STORAGE_ERROR, -1)


@pytest.mark.parametrize("stored", [0, 1], ids=["new_producer", "known_producer"])
async def test_batches_behind_a_refused_one_are_refused_with_it(world: World, stored: int) -> None:
    """OUT_OF_ORDER_SEQUENCE_NUMBER makes librdkafka renew its epoch and send stored batches again: they stood twice.

    And a log that does not know the producer took the second batch before the first one.
    """
    await world.topic()
    client = await world.client()
    first = await produced(client, *range(stored))
    world.host().disk.fail_next("append", errno.ENOSPC)
    refused = await produced(client, stored, stored + 1, stored + 2)
    again = await produced(client, stored, stored + 1, stored + 2)

    assert first == [(ErrorCode.NONE, offset) for offset in range(stored)]
    assert refused == [REFUSED] * 3
    assert again == [(ErrorCode.NONE, stored + each) for each in range(3)]


async def test_a_gap_is_still_named(world: World) -> None:
    """A batch out of sequence is called so when nothing was refused before it, or when that has come again."""
    await world.topic()
    client = await world.client()
    await produced(client, 0)
    gap = await produced(client, 5)
    world.host().disk.fail_next("append", errno.ENOSPC)
    refused = await produced(client, 1)
    behind = await produced(client, 3)
    in_order = await produced(client, 1)
    gap_again = await produced(client, 3)

    assert gap == gap_again == [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
    assert refused == behind == [REFUSED]
    assert in_order == [(ErrorCode.NONE, 1)]


@pytest.mark.brokers(3)
async def test_batches_behind_one_that_came_before_the_role_are_refused_with_it(world: World) -> None:
    """The first batch is in the log of the new leader already; asked too early it says that it does not lead."""
    await world.topic(replicas=(1, 2))
    client, early = await world.client(1), await world.client(2)
    stored = await produced(client, 0)
    refused = await produced(early, 0, 1)
    world.kill(1)
    await world.until(lambda: world.partition(2).is_leader)
    behind = await produced(early, 2)
    again = await produced(early, 0, 1, 2)

    assert stored == [(ErrorCode.NONE, 0)]
    assert refused + behind == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)] * 3
    assert again == [(ErrorCode.NONE, offset) for offset in range(3)]
