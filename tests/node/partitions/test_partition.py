"""Partitions: their two roles, and their waiters."""

import asyncio

import pytest

from syncline.model.errors import ErrorCode, RequestError
from syncline.node.partitions.led_log import LedLog
from syncline.storage.pages.cached_pages import WANTED
from syncline.wire.api import ApiKey
from tests.node.wire_client import batch
from tests.node.world import World


class Verdicts:
    """A waiter that records its verdicts."""

    def __init__(self) -> None:
        self.told: list[tuple[int, ErrorCode]] = []

    def decided(self, topic_index: int, _row_index: int, code: ErrorCode) -> None:
        """Take the verdict."""
        self.told.append((topic_index, code))


async def held_back(world: World) -> None:
    """Make a topic whose records are not committed until the link from broker 2 is healed."""
    await world.topic(replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    client = await world.client()
    for _ in range(3):
        await client.produce("t", batch(), acks=1)


@pytest.mark.brokers(2)
async def test_partition_tells_waiters_in_the_order_of_offsets_when_they_came_in_another(world: World) -> None:
    """A retry of an idempotent producer waits for its original, which is older than what waits already."""
    await held_back(world)
    verdicts = Verdicts()
    partition = world.partition()
    for offset in (2, 3, 1):
        partition.wait(offset, verdicts, offset, 0)
    early = list(verdicts.told)
    world.network.heal("broker-2", "broker-1")
    await world.until(lambda: len(verdicts.told) == 3)

    assert early == []
    assert verdicts.told == [(1, ErrorCode.NONE), (2, ErrorCode.NONE), (3, ErrorCode.NONE)]


async def test_partition_tells_a_waiter_at_once_when_its_records_are_committed(world: World) -> None:
    """A produce that is already decided is not queued."""
    await world.topic()
    await (await world.client()).produce("t", batch(5))
    verdicts = Verdicts()
    world.partition().wait(5, verdicts, 0, 0)

    assert verdicts.told == [(0, ErrorCode.NONE)]


@pytest.mark.brokers(2)
async def test_partition_sends_a_waiter_on_when_it_does_not_lead(world: World) -> None:
    """Only the leader knows what is committed."""
    await world.topic(replicas=(1, 2))
    verdicts = Verdicts()
    world.partition(2).wait(1, verdicts, 0, 0)

    assert verdicts.told == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


@pytest.mark.brokers(2)
async def test_partition_calls_back_once_when_an_internal_batch_is_committed(world: World) -> None:
    """The coordinator's own records wait for the in-sync set as a producer's do."""
    await world.topic(replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    told: list[tuple[ErrorCode, int]] = []
    world.call(1, world.partition().append_internal, batch(4), lambda code, offset: told.append((code, offset)))
    await world.later(0.2)
    early = list(told)
    world.network.heal("broker-2", "broker-1")
    await world.until(lambda: told)
    await world.later(1)

    assert (early, told) == ([], [(ErrorCode.NONE, 0)])


@pytest.mark.brokers(2)
async def test_partition_refuses_an_internal_batch_when_it_cannot_be_stored(world: World) -> None:
    """Not the leader, or larger than a segment: the caller hears why, and nothing is appended."""
    await world.topic(replicas=(1, 2), segment_bytes=1_048_576, max_message_bytes=1_000_000)
    told: list[tuple[ErrorCode, int]] = []
    for broker_id, size_bytes in ((2, 10), (1, 2_000_000)):
        data = batch(size_bytes=size_bytes)
        world.partition(broker_id).append_internal(data, lambda code, offset: told.append((code, offset)))

    assert told == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (ErrorCode.MESSAGE_TOO_LARGE, -1)]
    assert world.partition().log.log_end == 0


@pytest.mark.brokers(3)
async def test_partition_keeps_the_high_watermark_and_its_records_when_the_leader_dies(world: World) -> None:
    """The new leader has all acknowledged records, and continues in a new epoch where the old one ended."""
    await world.topic(replicas=(1, 2))
    await (await world.client()).produce("t", batch(5))
    await world.until(lambda: world.partition(2).high_watermark == 5)
    world.kill(1)
    await world.until(lambda: world.partition(2).is_leader)
    row = await (await world.client(2)).produce("t", batch())

    assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 5)
    assert world.partition(2).leader_epoch == 1
    assert [tuple(each)[:2] for each in world.partition(2).log.epochs.entries] == [(0, 0), (1, 5)]


@pytest.mark.brokers(3)
async def test_partition_reads_its_committed_past_when_it_becomes_leader(world: World) -> None:
    """What a coordinator loads is everything below the start of its term, each batch once, in order."""
    await world.topic(replicas=(1, 2), segment_bytes=1_048_576)
    client = await world.client()
    for _ in range(5):
        await client.produce("t", batch(3, size_bytes=200_000))
    world.kill(1)
    await world.until(lambda: world.partition(2).is_leader)
    await (await world.client(2)).produce("t", batch())

    async def load() -> list[bytes]:
        return [chunk async for chunk in LedLog(world.partition(2)).read_committed_batches(3)]

    chunks = await world.as_broker(2, load())

    assert len(chunks) > 1
    assert sum(len(chunk) for chunk in chunks) == 4 * len(batch(3, size_bytes=200_000))


@pytest.mark.brokers(2)
async def test_partition_stops_reading_its_past_when_it_does_not_lead(world: World) -> None:
    """The batches of another leader's term are left to that leader."""
    await world.topic(replicas=(1, 2))
    reading = LedLog(world.partition(2)).read_committed_batches(0)

    with pytest.raises(RequestError) as refused:
        await asyncio.ensure_future(anext(reading))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_partition_goes_by_another_configuration_when_it_changes(world: World) -> None:
    """max.message.bytes counts from the next batch on."""
    await world.topic()
    client = await world.client()
    before = await client.produce("t", batch(size_bytes=2_000))
    await alter(world, "max.message.bytes", "1000")
    after = await client.produce("t", batch(size_bytes=2_000))

    assert (before.error_code, after.error_code) == (ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE)


@pytest.mark.brokers(3)
async def test_partition_commits_what_waits_when_its_minimum_is_lowered(world: World) -> None:
    """The change itself moves the mark, without an append or a fetch."""
    await world.topic(replicas=(1, 2), min_insync_replicas=2)
    world.kill(2)
    await world.until(lambda: world.partition().isr == (1,))
    client = await world.client()
    written = await client.produce("t", batch(), acks=1)
    held = world.partition().high_watermark
    await alter(world, "min.insync.replicas", "1")
    await world.until(lambda: world.partition().high_watermark == 1)

    assert (written.error_code, held) == (ErrorCode.NONE, 0)


async def alter(world: World, name: str, value: str) -> None:
    """Change one configuration of the topic, and wait until the broker applies it."""
    client = await world.client()
    await client.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        0,
        resources=[
            {
                "resource_type": 2,
                "resource_name": "t",
                "configs": [{"name": name, "config_operation": 0, "value": value}],
            }
        ],
        validate_only=False,
    )
    await world.until(lambda: name in world.broker().image.topic_configs("t"))


@pytest.mark.brokers(2)
async def test_leader_keeps_what_is_read_and_follower_its_newest_bytes(world: World) -> None:
    """By default."""
    await world.topic("t")
    kept = sorted(world.partition(broker_id).log.keep_cached_bytes for broker_id in (1, 2))

    assert kept == [WANTED, 16_777_216]


@pytest.mark.brokers(1, page_cache_leader_budget_bytes=1 << 20)
async def test_partition_keeps_its_share_of_the_page_cache_when_others_are_led_too(world: World) -> None:
    """The budget is the broker's, whatever it leads."""
    await world.topic("t")
    alone = world.partition().log.keep_cached_bytes
    await world.topic("u", partitions=3)

    assert (alone, world.partition().log.keep_cached_bytes) == (1 << 20, 1 << 18)
