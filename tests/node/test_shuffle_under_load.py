"""A full shuffle of partitions while all brokers are restarted and producers go on: nothing is lost, or there twice."""

import asyncio

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.metadata import PartitionRecord
from syncline.records.batch import BatchHeader
from syncline.records.builder import BatchBuilder
from syncline.records.record import read_records
from tests.node.test_reassignments import move
from tests.node.throttle.quotas import BATCH_BYTES, batch_of
from tests.node.wire_client import WireClient
from tests.node.world import World

PARTITIONS = 20
# Together a thousand records per second, and what restarts leave out is made up for by larger batches.
BATCHES_PER_S = 4
BATCH_RECORDS = 20
RECORDS_PER_S = 1_000
FIRST_PRODUCER_ID = 1_000
ACCEPTED = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


def partitions(world: World) -> tuple[PartitionRecord, ...]:
    """Return the partitions of t as the living broker knows them that knows most: others have just started."""
    images = [world.broker(each).image for each in world.living()]
    return max(images, key=lambda image: image.version).topics["t"].partitions


class Writer:
    """An idempotent producer of one partition, which sends each batch until it is acknowledged by all members."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self._client: WireClient | None = None
        self.sequence = 0
        self.is_over = False

    async def run(self) -> None:
        """Write until it is over."""
        while not self.is_over:
            await self._write()
            await self._world.later(1 / BATCHES_PER_S)

    async def _write(self) -> None:
        """Append the next batch."""
        builder = BatchBuilder(
            producer_id=FIRST_PRODUCER_ID + self._number, producer_epoch=0, base_sequence=self.sequence
        )
        for record in range(BATCH_RECORDS):
            builder.append(1_700_000_000_000, None, str(self.sequence + record).encode())
        records = bytes(builder.build())
        while not await self._is_written(records):
            await self._world.later(0.05)
        self.sequence += BATCH_RECORDS

    async def _is_written(self, records: bytes) -> bool:
        leader = partitions(self._world)[self._number].leader
        try:
            if self._client is None:
                self._client = await self._world.client(leader)
            row = await self._client.produce("t", records, partition=self._number)
        except OSError:
            self._client = None
            return False
        if row.error_code in ACCEPTED:
            return True
        # Perhaps another broker leads.
        self._client.transport.close()
        self._client = None
        return False


async def values(world: World, number: int) -> list[int]:
    """Return what consumers read of a partition, after what filled it."""
    client = await world.client(partitions(world)[number].leader)
    found: list[int] = []
    offset = 0
    while data := (await client.fetch("t", offset, partition=number)).records:
        position = 0
        while position < len(data):
            header = BatchHeader.parse(data, position)
            offset = header.base_offset + header.record_count
            if header.producer_id >= 0:
                found += [int(record.value or b"") for record in read_records(data, position, header)]
            position += header.size_bytes
    client.transport.close()
    return found


@pytest.mark.brokers(4, is_checked=False)
async def test_t55_a_full_shuffle_with_restarts_loses_and_repeats_no_acknowledged_record(world: World) -> None:
    """20 partitions on three of four brokers, all three members needed, a thousand records per second."""
    await world.topic(partitions=PARTITIONS, replicas=(1, 2, 3), min_insync_replicas=3)
    for each in partitions(world):
        client = await world.client(each.leader)
        for _ in range(2):
            row = await client.produce("t", batch_of(BATCH_BYTES), partition=each.partition)
            assert row.error_code == ErrorCode.NONE
        client.transport.close()
    writers = [Writer(world, number) for number in range(PARTITIONS)]
    running = [asyncio.ensure_future(writer.run()) for writer in writers]
    await world.later(1)

    began = world.loop.time()
    targets = [(*({1, 2, 3, 4} - set(each.replicas)), each.replicas[2], each.replicas[0]) for each in partitions(world)]
    await move(world, *targets, throttle=150_000)
    moving_at_restart = []
    restarting_s = 0.0
    for broker_id in (1, 2, 3, 4):
        moving_at_restart.append(sum(each.is_reassigned for each in partitions(world)))
        killed = world.loop.time()
        world.kill(broker_id)
        await world.later(0.5)
        await world.start(broker_id)
        restarting_s += world.loop.time() - killed
        await world.until(lambda: all(len(each.isr) >= 3 for each in partitions(world)))
    await world.until(lambda: not any(each.is_reassigned for each in partitions(world)))
    took_s = world.loop.time() - began
    for writer in writers:
        writer.is_over = True
    await asyncio.gather(*running)

    assert took_s <= 60 + restarting_s
    assert moving_at_restart == [PARTITIONS] * 4
    assert [each.replicas for each in partitions(world)] == targets
    for number, writer in enumerate(writers):
        assert await values(world, number) == list(range(writer.sequence))
    assert sum(writer.sequence for writer in writers) >= RECORDS_PER_S * took_s
