"""Throttling brokers of a world, and copying under a throttle."""

from collections.abc import Mapping
from typing import Any

from syncline.core.throttle.quota import Quota
from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.wire.api import ApiKey
from syncline.wire.fetch import FetchPartition, encode_fetch_request
from syncline.wire.fetch_response import FetchResponse
from tests.node.wire_client import FETCH_VERSION, WireClient, batch, fetch_request
from tests.node.world import World

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_LIST = "leader.replication.throttled.replicas"
FOLLOWER_LIST = "follower.replication.throttled.replicas"
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
MB = 1_000_000
BATCH_BYTES = 100_000


async def alter(
    world: World, kind: int, name: str, values: Mapping[str, str | None], operation: int = SET, *, at: int = 1
) -> tuple[int, str | None]:
    """Alter configurations at one broker, and wait until all brokers have them; return the error."""
    client = await world.client(at)
    answer = await client.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [
                    {"name": key, "config_operation": DELETE if value is None else operation, "value": value}
                    for key, value in values.items()
                ],
            }
        ],
        validate_only=False,
    )
    client.transport.close()
    version = world.broker(at).image.version
    await world.until(lambda: all(world.broker(each).image.version >= version for each in world.living()))
    (response,) = answer.responses
    return int(response.error_code), response.error_message


async def throttle(
    world: World, topic: str = "t", *, leader: int | None = None, follower: int | None = None, items: str = "*"
) -> None:
    """Throttle a topic's partitions on all brokers."""
    rates = {LEADER_RATE: leader, FOLLOWER_RATE: follower}
    lists = {LEADER_LIST: leader, FOLLOWER_LIST: follower}
    for name, rate in rates.items():
        if rate is not None:
            assert (await alter(world, BROKER, "", {name: str(rate)}))[0] == ErrorCode.NONE
    chosen = {name: items for name, rate in lists.items() if rate is not None}
    assert (await alter(world, TOPIC, topic, chosen))[0] == ErrorCode.NONE


def batch_of(size_bytes: int) -> bytes:
    """Return a batch of so many bytes."""
    for head_bytes in range(70, 80):
        records = batch(size_bytes=size_bytes - head_bytes)
        if len(records) == size_bytes:
            return records
    raise AssertionError(f"no batch has {size_bytes} bytes")


async def fill(world: World, size_bytes: int, *, topic: str = "t", partitions: int = 1, at: int = 1) -> None:
    """Append batches of 100 kB to the partitions of a topic in turn, all led by one broker."""
    client = await world.client(at)
    records = batch_of(BATCH_BYTES)
    for number in range(size_bytes // BATCH_BYTES):
        row = await client.produce(topic, records, partition=number % partitions, acks=1)
        assert row.error_code == ErrorCode.NONE
    client.transport.close()


def log_end(world: World, broker_id: int, topic: str = "t", number: int = 0) -> int:
    """Return where a log ends, 0 if the broker does not host it."""
    partition = world.broker(broker_id).partitions.get(TopicPartition(topic, number))
    return 0 if partition is None else int(partition.log.log_end)


def leader_quota(world: World, broker_id: int = 1) -> Quota:
    """Return the quota of a leader."""
    return world.broker(broker_id).throttles.leader.states[""].quota


def follower_quota(world: World, broker_id: int = 2) -> Quota:
    """Return the quota of a follower."""
    return world.broker(broker_id).throttles.follower.states[""].quota


class RawFollower:
    """Broker 2's fetches, sent by hand over one session."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self.session = (0, 0)

    def send(self, topics: Mapping[str, list[FetchPartition]], **options: Any) -> int:
        """Send the next fetch of the session."""
        request = fetch_request(dict(topics), session=self.session, replica_id=2, **options)
        return self._client.send(ApiKey.FETCH, FETCH_VERSION, encode_fetch_request(request, FETCH_VERSION))

    def is_answered(self, correlation_id: int) -> bool:
        """Return whether an answer has come."""
        return correlation_id in self._client.answers

    def close(self) -> None:
        """Close the connection."""
        self._client.transport.close()

    async def answered(self, correlation_id: int) -> FetchResponse:
        """Return the answer."""
        response = await self._client.fetched(correlation_id)
        self.session = (response.session_id, self.session[1] + 1)
        return response

    async def fetch(self, topics: Mapping[str, list[FetchPartition]], **options: Any) -> dict[int, Any]:
        """Fetch, and return the rows of the answer by partition."""
        response = await self.answered(self.send(topics, **options))
        return {row.partition: row for _, rows in response.topics for row in rows}


async def raw_follower(world: World) -> RawFollower:
    """Return what fetches as broker 2, whose process is dead."""
    return RawFollower(await world.peer(1))
