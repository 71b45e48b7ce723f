"""How a follower reconciles its log with its leader's, in each mode, among whole brokers in virtual time.

The histories of KIP-101 need a broker that is back before anybody noticed (`quick.bounce.enable`) and a follower that
was not told of the last commit: its fetch waits at the leader, which has nothing new to say.
"""

from typing import Any

import pytest

from syncline.core.replication.truncation import TruncationMode
from syncline.records.batch import BatchHeader
from syncline.records.builder import BatchBuilder
from syncline.records.record import read_records
from syncline.virtual.cluster import LOG_DIRECTORY
from syncline.virtual.observers.raw_log import segments
from tests.node.wire_client import batch
from tests.node.world import World

EPOCH_FETCH, EPOCH_REQUEST, HIGH_WATERMARK = (mode.value for mode in TruncationMode)
HISTORY: dict[str, Any] = {
    "quick_bounce_enable": "true",
    "replica_fetch_wait_max_ms": 20_000,
    "replica_lag_time_max_ms": 60_000,
    "replica_socket_timeout_ms": 60_000,
    "replica_high_watermark_checkpoint_interval_ms": 50,
}


def values(world: World, broker_id: int) -> list[str]:
    """Return the records in a replica's files, committed or not."""
    found = []
    for _, file in segments(world.host(broker_id).medium, LOG_DIRECTORY, world.partition(broker_id).key):
        data, position = bytes(file.data), 0
        while position < len(data):
            header = BatchHeader.parse(data, position)
            found += [(record.value or b"").decode() for record in read_records(data, position, header)]
            position += header.size_bytes
    return found


def ends(world: World, broker_id: int) -> tuple[int, int]:
    """Return log end and high watermark of a replica."""
    partition = world.partition(broker_id)
    return partition.log.log_end, partition.high_watermark


def epochs(world: World, broker_id: int) -> list[tuple[int, int]]:
    """Return the epoch cache of a replica."""
    return [(int(entry[0]), int(entry[1])) for entry in world.partition(broker_id).log.epochs.entries]


async def write(world: World, broker_id: int, value: str, acks: int = 1) -> None:
    """Append one record at the leader."""
    builder = BatchBuilder()
    builder.append(1_700_000_000_000, None, value.encode())
    client = await world.client(broker_id)
    row = await client.produce("t", bytes(builder.build()), acks=acks)
    assert row.error_code == 0
    client.transport.close()


async def bounce_unheard(world: World) -> None:
    """Steps 5 to 7: broker 3 is back before the controller knows; broker 2 hangs, then ends, and 3 leads."""
    world.kill(3)
    world.cluster.pause(world.host(2))
    await world.start(3)
    await world.until(lambda: world.partition(3).follower is not None)
    assert world.broker(1).image.partition("t", 0).isr == (2, 3)
    world.kill(2)
    await world.until(lambda: world.partition(3).is_leader)


async def lose_the_leader(world: World) -> None:
    """Steps 1 to 7 of the data loss: m0 is acknowledged to acks=all, and broker 3 does not know."""
    await world.topic(replicas=(2, 3))
    await write(world, 2, "m0", acks=-1)
    assert (ends(world, 2), ends(world, 3)) == ((1, 1), (1, 0))
    await world.later(0.1)
    await bounce_unheard(world)


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(mode, marks=pytest.mark.brokers(3, **HISTORY, log_truncation_mode=mode))
        for mode in (EPOCH_FETCH, EPOCH_REQUEST, HIGH_WATERMARK)
    ],
)
async def test_e08_e09_a_committed_record_is_lost_by_watermark_and_kept_by_epochs(world: World, mode: str) -> None:
    """History 1.1: m0 was acknowledged to acks=all; cut by watermark it is gone from both logs, with warnings."""
    await lose_the_leader(world)
    await world.start(2)
    await world.until(lambda: len(world.broker(1).image.partition("t", 0).isr) == 2)

    if mode == HIGH_WATERMARK:
        assert (values(world, 2), values(world, 3)) == ([], [])
        assert epochs(world, 3) == [(1, 0)]
    else:
        assert (values(world, 2), values(world, 3)) == (["m0"], ["m0"])
        assert epochs(world, 3) == [(0, 0), (1, 1)]
    warnings = world.errors.warnings
    assert any("quick.bounce.enable is on" in each for each in warnings)
    assert any("log.truncation.mode is high-watermark" in each for each in warnings) == (mode == HIGH_WATERMARK)
    assert any("below its high watermark 1 " in each for each in warnings) == (mode == HIGH_WATERMARK)


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(mode, marks=pytest.mark.brokers(3, **HISTORY, log_truncation_mode=mode))
        for mode in (EPOCH_FETCH, EPOCH_REQUEST, HIGH_WATERMARK)
    ],
)
async def test_e10_a_write_in_between_makes_the_loss_a_divergence(world: World, mode: str) -> None:
    """The variant: x0 is written before broker 2 is back; by watermark offset 0 differs for ever."""
    await lose_the_leader(world)
    await write(world, 3, "x0")
    await world.start(2)
    await world.until(lambda: len(world.broker(1).image.partition("t", 0).isr) == 2)

    expected = (["m0"], ["x0"]) if mode == HIGH_WATERMARK else (["m0", "x0"], ["m0", "x0"])
    assert (values(world, 2), values(world, 3)) == expected


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(mode, marks=pytest.mark.brokers(3, **HISTORY, log_truncation_mode=mode))
        for mode in (EPOCH_FETCH, EPOCH_REQUEST, HIGH_WATERMARK)
    ],
)
async def test_e11_e12_logs_diverge_by_watermark_and_not_by_epochs(world: World, mode: str) -> None:
    """History 1.2: offset 1 is m2 here and m3 there, and both replicas believe it committed."""
    await world.topic(replicas=(2, 3))
    await write(world, 2, "m1", acks=-1)
    await write(world, 2, "m2", acks=-1)
    assert (ends(world, 2), ends(world, 3)) == ((2, 2), (2, 1))
    await world.later(0.1)
    await bounce_unheard(world)
    await write(world, 3, "m3")
    await world.start(2)
    await world.until(lambda: len(world.broker(1).image.partition("t", 0).isr) == 2)

    if mode == HIGH_WATERMARK:
        assert (values(world, 2), values(world, 3)) == (["m1", "m2"], ["m1", "m3"])
        assert (ends(world, 2)[1], ends(world, 3)[1]) == (2, 2)
    else:
        assert (values(world, 2), values(world, 3)) == (["m1", "m2", "m3"], ["m1", "m2", "m3"])
        assert epochs(world, 2) == [(0, 0), (1, 2)]


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(mode, marks=pytest.mark.brokers(3, **HISTORY, log_truncation_mode=mode))
        for mode in (EPOCH_FETCH, EPOCH_REQUEST, HIGH_WATERMARK)
    ],
)
async def test_e13_a_record_lost_by_power_is_cut_on_the_other_side(world: World, mode: str) -> None:
    """Broker 3 loses power and m2 with it, is back unnoticed, and leads: consistent by epochs, divergent without."""
    await world.topic(replicas=(2, 3))
    await write(world, 2, "m1", acks=-1)
    ((_, file),) = segments(world.host(3).medium, LOG_DIRECTORY, world.partition(3).key)
    written_bytes = len(file.data)
    await write(world, 2, "m2", acks=-1)
    await world.later(0.1)
    world.kill(3)
    del file.data[written_bytes:]
    world.cluster.pause(world.host(2))
    await world.start(3)
    await world.until(lambda: world.partition(3).follower is not None)
    world.kill(2)
    await world.until(lambda: world.partition(3).is_leader)
    assert values(world, 3) == ["m1"]
    await write(world, 3, "m3")
    await world.start(2)
    await world.until(lambda: len(world.broker(1).image.partition("t", 0).isr) == 2)

    kept = ["m1", "m2"] if mode == HIGH_WATERMARK else ["m1", "m3"]
    assert (values(world, 2), values(world, 3)) == (kept, ["m1", "m3"])
    # Power took what was committed; no rule can bring that back.
    world.cluster.ghost.violations.clear()


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(
            mode,
            marks=pytest.mark.brokers(3, log_truncation_mode=mode, replica_high_watermark_checkpoint_interval_ms=50),
        )
        for mode in (EPOCH_FETCH, EPOCH_REQUEST, HIGH_WATERMARK)
    ],
)
async def test_e03_quick_unclean_elections_are_repaired_by_rounds_of_epochs(world: World, mode: str) -> None:
    """KIP-279: two brokers lead by turns and each writes one record; only epochs find out that nothing is shared."""
    await world.topic(replicas=(2, 3), unclean_leader_election_enable="true")
    world.kill(3)
    await world.until(lambda: world.partition(2).isr == (2,))
    for turn, writer in enumerate((2, 3, 2, 3, 2, 3)):
        if turn:
            world.kill(5 - writer)
            await world.until(lambda: not world.broker(1).image.partition("t", 0).has_leader)
            await world.start(writer)
            await world.until(lambda writer=writer: world.broker(1).image.partition("t", 0).leader == writer)
            await world.until(lambda writer=writer: world.partition(writer).is_leader)
        await write(world, writer, f"{'ab'[writer - 2]}{turn}")
        await world.later(0.1)
    cuts_before = world.cluster.ghost.counts.get("truncate", 0)
    # Unclean elections lose committed records, as they say.
    world.cluster.ghost.violations.clear()
    await world.start(2)
    await world.until(lambda: len(world.broker(1).image.partition("t", 0).isr) == 2)

    cuts = world.cluster.ghost.counts.get("truncate", 0) - cuts_before
    if mode == HIGH_WATERMARK:
        assert (values(world, 2), values(world, 3)) == (["a0", "a2", "a4"], ["b1", "b3", "b5"])
        assert cuts == 0
    else:
        assert (values(world, 2), values(world, 3)) == (["b1", "b3", "b5"], ["b1", "b3", "b5"])
        assert cuts == 3
    world.cluster.ghost.violations.clear()


@pytest.mark.brokers(3, log_truncation_mode=EPOCH_REQUEST)
async def test_a_follower_asks_for_epochs_again_when_the_leader_went_away(world: World) -> None:
    """The question got no answer; the pause ends, the connection is made anew, and then records are fetched."""
    await world.topic(replicas=(2, 3))
    await write(world, 2, "m0", acks=-1)
    world.kill(3)
    await world.until(lambda: world.partition(2).isr == (2,))
    await write(world, 2, "m1")
    world.network.cut("broker-2", "broker-3")
    await world.start(3)
    await world.later(2)
    stuck = (world.partition(3).follower.phase.value, ends(world, 3)[0])
    world.network.heal("broker-2", "broker-3")
    await world.until(lambda: world.partition(3).log.log_end == 2)

    assert stuck == ("comparing", 1)
    assert values(world, 3) == ["m0", "m1"]


@pytest.mark.brokers(2, log_truncation_mode=EPOCH_REQUEST)
async def test_many_partitions_are_compared_with_one_request(world: World) -> None:
    """All of a leader's partitions stand in one question, and replication goes on for each of them."""
    await world.topic(partitions=20)
    for broker_id in (1, 2):
        client = await world.client(broker_id)
        for partition in range(20):
            if world.partition(broker_id, number=partition).is_leader:
                await client.produce("t", batch(), partition=partition)
    world.kill(2)
    await world.until(lambda: all(world.partition(1, number=each).isr == (1,) for each in range(20)))
    await world.start(2)
    await world.until(lambda: all(len(world.partition(1, number=each).isr) == 2 for each in range(20)))

    assert all(world.partition(2, number=each).log.log_end == 1 for each in range(20))
