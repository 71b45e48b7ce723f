"""Moves of whole brokers under a rate that is adapted to a deadline, and what is said of their end: in virtual time.

The loop is that of `syncline reassign execute --deadline`, with its rules; it looks at brokers without a connection.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from syncline.model.ids import TopicPartition
from syncline.reassign.cluster_state import BrokerState, ClusterState, PartitionState
from syncline.reassign.control import Passing, Range, for_deadline
from syncline.reassign.eta import Ends
from syncline.reassign.formulas import Load, Part, loads
from syncline.reassign.growth import Growth
from syncline.reassign.log_dir_states import Place
from syncline.reassign.move_map import Running
from syncline.reassign.plan_file import Target
from syncline.reassign.progress import planned, remaining, rows
from tests.node.test_reassignments import move
from tests.node.throttle.quotas import BATCH_BYTES, MB, batch_of
from tests.node.world import World

ALLOWED = Range(50_000, 10**12)
RECORD_BYTES = 20_000


class Case(NamedTuple):
    """A move of so many partitions with so many bytes together, from some brokers to others, under this much load."""

    partitions: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int
    write_bytes_per_s: int = 0


def look(world: World) -> ClusterState:
    """Return the cluster as a command would read it."""
    records = world.broker(1).image.topics["t"].partitions
    keys = {record.partition: TopicPartition("t", record.partition) for record in records}
    brokers = world.living()
    return ClusterState(
        round(world.loop.time() * 1000),
        {broker: BrokerState("", 0) for broker in brokers},
        {keys[each.partition]: PartitionState(each.replicas, each.isr, each.leader) for each in records},
        {
            keys[each.partition]: Running(each.replicas, each.adding, each.removing)
            for each in records
            if each.is_reassigned
        },
        {
            Place(key, broker): partition.log.size_bytes
            for broker in brokers
            for key, partition in world.broker(broker).partitions.items()
            if key.topic == "t"
        },
        owns_throttles=True,
    )


async def filled(world: World, case: Case) -> None:
    """Create the partitions where the case wants them, with their bytes."""
    await world.topic(partitions=case.partitions, replicas=case.before)
    await move(world, *[case.before] * case.partitions)
    await world.until(lambda: not look(world).running)
    for number in range(case.size_bytes // BATCH_BYTES):
        await produce(world, number % case.partitions, BATCH_BYTES)


async def produce(world: World, partition: int, size_bytes: int) -> None:
    """Append one batch with acks=all at whichever broker leads."""
    leader = world.broker(1).image.topics["t"].partitions[partition].leader
    client = await world.client(leader)
    await client.produce("t", batch_of(size_bytes), partition=partition, acks=-1)
    client.transport.close()


@contextlib.asynccontextmanager
async def load(world: World, case: Case) -> AsyncIterator[None]:
    """Produce to all partitions in turn meanwhile, and for two seconds before."""

    async def work() -> None:
        begun, number = world.loop.time(), 0
        while True:
            await produce(world, number % case.partitions, RECORD_BYTES)
            number += 1
            await world.later(max(begun + number * RECORD_BYTES / case.write_bytes_per_s - world.loop.time(), 0.0))

    if not case.write_bytes_per_s:
        yield
        return
    task = asyncio.ensure_future(work())
    await world.later(2)
    try:
        yield
    finally:
        task.cancel()


async def steered(world: World, case: Case, deadline_s: float) -> float:
    """Move the partitions by a deadline; return how long it took."""
    begun = world.loop.time()
    deadline_ms = round((begun + deadline_s) * 1000)
    growth = Growth()
    growth.seen(look(world))
    await world.later(1)
    growth.seen(state := look(world))
    targets = [Target(key, case.after) for key in state.partitions]

    passing = Passing()

    def rate_for(parts: dict[Part, Load], now_ms: int, rate: int) -> int:
        nonlocal passing
        passing = passing.seen(now_ms, parts, rate)
        return for_deadline(
            parts, now_ms=now_ms, deadline_ms=deadline_ms, allowed=ALLOWED, rate_bytes_per_s=rate, passing=passing
        ).rate_bytes_per_s

    rate = rate_for(loads(planned(state, targets, growth.rates), counts_in_sync=False), state.at_ms, 0)
    await move(world, *[case.after] * case.partitions, throttle=rate)
    looked = world.loop.time()
    while (state := look(world)).running:
        if world.loop.time() - looked < 1:
            await world.later(0.05)
            continue
        looked = world.loop.time()
        growth.seen(state)
        parts = remaining(state, rows(state, state.running), growth.rates, counts_in_sync=False)
        wanted = rate_for(parts, state.at_ms, rate)
        if abs(wanted - rate) > 0.03 * rate:
            rate = wanted
            await move(world, *[case.after] * case.partitions, throttle=rate)
    return world.loop.time() - begun


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(1, (1,), (2,), 6 * MB), id="one-log"),
        pytest.param(Case(4, (1,), (2,), 8 * MB, 300_000), id="with-load"),
        pytest.param(Case(2, (1,), (2,), 20 * MB, MB), id="with-more-load-than-copy"),
        pytest.param(Case(10, (1, 2), (2, 3), 10 * MB), id="new-leaders"),
        pytest.param(Case(10, (1, 2), (3, 1), 10 * MB, 500_000), id="new-leaders-with-load"),
        pytest.param(Case(10, (1,), (2, 3), 10 * MB, 500_000), id="one-to-two-with-load"),
    ],
)
@pytest.mark.brokers(3)
async def test_steered_move_ends_within_a_seventh_of_its_deadline_and_never_late(world: World, case: Case) -> None:
    """Thirty seconds, at rates that are adapted each second to what is left.

    With more load than copy it ends earliest: what clients write while the replicas join passes any quota.
    """
    await filled(world, case)
    async with load(world, case):
        took_s = await steered(world, case, 30)

    assert 30 * 6 / 7 <= took_s <= 30


@pytest.mark.brokers(3)
async def test_t58_what_is_said_of_the_end_is_true_within_a_fifth_and_again_after_the_throttle_doubled(
    world: World,
) -> None:
    """12 MB from one broker to two at 600 kB/s; at 70 % the throttle is doubled: the rest takes half of the time."""
    case = Case(6, (1,), (2, 3), 6 * MB)
    await filled(world, case)
    targets = [case.after] * case.partitions
    rate, ends, said = 600_000, Ends(is_steady=True), []
    begun = world.loop.time()
    await move(world, *targets, throttle=rate)
    while (state := look(world)).running:
        at_s = world.loop.time() - begun
        if rate == 600_000 and at_s >= 14:
            rate *= 2
            await move(world, *targets, throttle=rate)
        parts = remaining(state, rows(state, state.running), {}, counts_in_sync=False)
        ends = ends.seen(state.at_ms, parts, dict.fromkeys(parts, float(rate)))
        if ends.left_s is not None:
            said.append((at_s, ends.left_s))
        await world.later(0.5)
    took_s = world.loop.time() - begun

    # 600 kB/s for 14 s are 8.4 MB of 12, and 3.6 MB are left for 1.2 MB/s; the bucket's half second varies.
    assert took_s == pytest.approx(17, abs=0.6)
    for quarter in (0.25, 0.5, 0.75):
        at_s, left_s = min(said, key=lambda each: abs(each[0] - quarter * 20))
        true_s = 20 - at_s if at_s < 14 else took_s - at_s
        assert left_s == pytest.approx(true_s, rel=0.2, abs=0.3), (at_s, said)
    assert all(left_s == pytest.approx(took_s - at_s, rel=0.2, abs=0.6) for at_s, left_s in said if at_s >= 14)
