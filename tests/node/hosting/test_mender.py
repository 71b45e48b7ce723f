"""Damaged logs that no replica can replace: what any disk still holds is put back, also from logs set aside."""

import struct
from typing import Any

import pytest

from syncline.model.ids import NONE, TopicPartition
from syncline.wire.api import ApiKey
from tests.node.hosting.test_aside import LAG, RECORDS, aside_of, data_of, flip, produce, record
from tests.node.hosting.test_scrubber import BATCH_BYTES, FIRST, SCRUB, fill
from tests.node.wire_client import offsets
from tests.node.world import World

KEY = TopicPartition("t", 0)
# Every record is flushed at once, so that damage at the end of a log is no torn write.
FLUSHED: dict[str, Any] = {
    **LAG,
    "log_flush_interval_messages": 1,
    "log_flush_offset_checkpoint_interval_ms": 100,
}


def end_of(world: World, broker_id: int) -> int:
    """Return the position of the last byte of a broker's log."""
    return len(data_of(world, broker_id)["t-0"].names[FIRST].data) - 1


def empty(world: World, broker_id: int) -> None:
    """Replace the disk of a broker that is down."""
    data_of(world, broker_id).clear()


async def readable(world: World, broker_id: int) -> list[int]:
    """Return the offsets that a consumer reads from the leader, from the begin of the log."""
    client = await world.client(broker_id)
    answer = await client.fetch("t", 0)
    client.transport.close()
    return offsets(answer.records)


@pytest.mark.brokers(3, **FLUSHED)
@pytest.mark.parametrize("is_copying", [False, True], ids=["nothing copied", "copying"])
async def test_chain_of_three_faults_loses_no_record_that_a_disk_holds(world: World, is_copying: bool) -> None:
    """The leader is damaged, a follower's disk replaced, and the last good copy damaged at its end: all is read again.

    No sound copy is left: what 2 lacks at its end is only in the log that 1 has set aside.
    """
    await world.topic(replicas=(1, 2, 3))
    await produce(world, 1, RECORDS)
    await world.until(lambda: all(world.partition(each).log.log_end == RECORDS for each in (1, 2, 3)))
    await world.later(0.3)
    whole = bytes(data_of(world, 2)["t-0"].names[FIRST].data)
    world.kill(1)
    flip(world, 1, 500)
    await world.until(lambda: record(world, 2).leader == 2)
    world.kill(3)
    empty(world, 3)
    await world.until(lambda: record(world, 2).isr == (2,))
    world.slow_disk(2, 3_000 if is_copying else 60_000)
    for broker_id in (1, 3):
        await world.start(broker_id)
    await world.until(lambda: aside_of(world, 1))
    world.kill(2)
    flip(world, 2, end_of(world, 2))
    await world.until(lambda: record(world, 1).leader == NONE)

    await world.start(2)
    await world.until(lambda: record(world, 1).leader == 2)
    await world.until(lambda: set(record(world, 1).isr) == {1, 2, 3})
    await world.until(lambda: not any(aside_of(world, each) for each in (1, 2, 3)))

    assert await readable(world, 2) == list(range(RECORDS))
    assert [bytes(data_of(world, each)["t-0"].names[FIRST].data) for each in (1, 2, 3)] == [whole] * 3
    await produce(world, 2, 1)
    world.errors.take()


@pytest.mark.brokers(3, **SCRUB)
async def test_leader_that_is_alone_is_mended_from_a_log_set_aside(world: World) -> None:
    """The other order: a follower's disk goes, the other's copy is refused, and only then the leader's hole shows.

    What the leader lacks is on 2 alone, in the log that it has set aside to copy the leader's.
    """
    await world.topic(replicas=(1, 2, 3))
    await fill(world, 1, 3)
    await world.until(lambda: all(world.partition(each).log.log_end == 5 for each in (1, 2, 3)))
    whole = bytes(data_of(world, 2)["t-0"].names[FIRST].data)
    flip(world, 1, BATCH_BYTES + 1_000)
    for broker_id in (2, 3):
        world.kill(broker_id)
    empty(world, 3)
    flip(world, 2, 100)
    await world.until(lambda: record(world, 1).isr == (1,))
    await world.start(2)
    await world.start(3)

    await world.until(lambda: set(record(world, 1).isr) == {1, 2, 3})
    await world.until(lambda: not aside_of(world, 2))

    assert record(world, 1).leader_epoch == 0
    assert [bytes(data_of(world, each)["t-0"].names[FIRST].data) for each in (1, 2, 3)] == [whole] * 3
    world.errors.take()


@pytest.mark.brokers(3, **LAG)
async def test_segment_that_grows_is_mended_when_a_follower_finds_its_damage(world: World) -> None:
    """The leader is alone in the ISR, and all is in one segment; what it lacks is on 2, which has the log aside."""
    await world.topic(replicas=(1, 2, 3))
    await produce(world, 1, RECORDS)
    await world.until(lambda: all(world.partition(each).log.log_end == RECORDS for each in (1, 2, 3)))
    whole = bytes(data_of(world, 2)["t-0"].names[FIRST].data)
    for broker_id in (2, 3):
        world.kill(broker_id)
    empty(world, 3)
    flip(world, 2, 100)
    await world.until(lambda: record(world, 1).isr == (1,))
    data_of(world, 1)["t-0"].names[FIRST].data[560] ^= 4
    await world.start(2)
    await world.start(3)

    await world.until(lambda: set(record(world, 1).isr) == {1, 2, 3})
    await produce(world, 1, 1)

    assert (await readable(world, 1))[:RECORDS] == list(range(RECORDS))
    assert [bytes(data_of(world, each)["t-0"].names[FIRST].data)[: len(whole)] for each in (1, 2, 3)] == [whole] * 3
    mended = world.broker(1).replicas.mender.mended_count
    await world.later(10)
    assert world.broker(1).replicas.mender.mended_count == mended == 1
    world.errors.take()


@pytest.mark.brokers(3, **FLUSHED)
async def test_log_is_mended_when_the_broker_that_has_the_records_returns(world: World) -> None:
    """Until then it stays as it is, without a leader; nothing is given up for the sake of being available."""
    await world.topic(replicas=(1, 2, 3))
    await produce(world, 1, RECORDS)
    await world.until(lambda: all(world.partition(each).log.log_end == RECORDS for each in (1, 2, 3)))
    for broker_id in (2, 3):
        world.kill(broker_id)
    await world.until(lambda: record(world, 1).isr == (1,))
    await world.later(0.3)
    world.kill(1)
    flip(world, 1, end_of(world, 1))
    await world.start(1)
    await world.until(lambda: any("no sound copy of the end" in each for each in world.errors.lines))
    without = record(world, 1).leader

    await world.start(2)
    await world.until(lambda: record(world, 1).leader == 1)

    assert without == NONE
    assert await readable(world, 1) == list(range(RECORDS))
    world.errors.take()


@pytest.mark.brokers(1)
@pytest.mark.parametrize("body", [b"", bytes(35), bytes(36), struct.pack(">16siqii", bytes(16), -1, -1, -1, -1)])
async def test_request_for_copies_of_nothing_does_no_harm(world: World, body: bytes) -> None:
    """An unknown topic has no copies; a message of another size is refused."""
    peer = await world.peer()

    correlation_id = peer.send(ApiKey.COPIES, 0, body)

    if len(body) == 36:
        assert len(await peer.body(correlation_id)) == 0
    else:
        with pytest.raises(ConnectionError):
            await peer.body(correlation_id)
