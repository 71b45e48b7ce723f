"""DescribeProducers: what a replica remembers of idempotent producers, and how much of it one answer holds."""

from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.node.api import api_61_describe_producers
from syncline.wire.api import ApiKey
from tests.conformance.batches import batch, encode
from tests.node.wire_client import WireClient
from tests.node.world import World


async def described(client: WireClient, *partitions: int) -> list[Any]:
    """Ask for partitions of one topic; return their rows."""
    answer = await client.ask(
        ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": "t", "partition_indexes": list(partitions)}]
    )
    return list(answer.topics[0].partitions)


@pytest.mark.brokers(1)
async def test_an_answer_describes_a_bounded_number_of_producers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a request costs is bounded by what it carries: it may name the same partition again and again."""
    await world.topic("t")
    client = await world.client()
    for producer_id in (71, 72):
        await client.produce("t", encode(batch("a", producer_id=producer_id, producer_epoch=3, base_sequence=0)))
    monkeypatch.setattr(api_61_describe_producers, "DESCRIBED_MAX", 3)
    first, second = await described(client, 0, 0)

    assert [(each.producer_id, each.producer_epoch, each.last_sequence) for each in first.active_producers] == [
        (71, 3, 0),
        (72, 3, 0),
    ]
    assert (second.error_code, second.active_producers) == (ErrorCode.INVALID_REQUEST, ())
    assert "fewer partitions" in second.error_message
