"""Fetches of old versions: errors that the client knows, and who may read from a follower."""

import errno
from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient, batch, offsets
from tests.node.world import World


async def old_fetch(client: WireClient, version: int, offset: int = 0) -> Any:
    """Return the answer to a consumer's fetch of t-0 in an old version."""
    answer = await client.ask(
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        rack_id="",
        forgotten_topics_data=[],
        topics=[
            {
                "topic": "t",
                "partitions": [
                    {
                        "partition": 0,
                        "current_leader_epoch": -1,
                        "fetch_offset": offset,
                        "log_start_offset": -1,
                        "partition_max_bytes": 1 << 20,
                    }
                ],
            }
        ],
    )
    return answer.responses[0].partitions[0]


@pytest.mark.brokers(1)
@pytest.mark.parametrize(
    ("version", "error"),
    [
        pytest.param(5, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="v5"),
        pytest.param(6, ErrorCode.KAFKA_STORAGE_ERROR, id="v6"),
    ],
)
async def test_h10_a_failed_log_is_told_in_words_the_client_knows(world: World, version: int, error: ErrorCode) -> None:
    """Up to version 5 a client is sent to look for another leader; from 6 on it may hear of the disk."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch())
    world.host().disk.fail_next("append", errno.EIO)
    refused = await client.produce("t", batch())

    row = await old_fetch(client, version)
    # A broker with a failed log cannot stop in good order.
    world.kill(1)

    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert int(row.error_code) == error


@pytest.mark.brokers(2)
async def test_h11_a_follower_serves_consumers_that_may_know_it(world: World) -> None:
    """Version 10 is sent to the leader; from 11 on a consumer reads from a follower, up to the follower's watermark."""
    await world.topic(replicas=(1, 2))
    leader, follower = await world.client(1), await world.client(2)
    await leader.produce("t", batch())
    await world.until(lambda: world.partition(2).high_watermark == 1)

    old, new = await old_fetch(follower, 10), await old_fetch(follower, 11)

    assert int(old.error_code) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert int(new.error_code) == ErrorCode.NONE
    assert offsets(new.records) == [0]
    assert new.high_watermark == 1
    assert new.preferred_read_replica == NONE
