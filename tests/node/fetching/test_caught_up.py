"""Followers at the end of a log: parked without a row, and only where a row would say nothing."""

from collections import Counter
from collections.abc import Collection, Mapping

import pytest

from syncline.core.fetching.limits import FetchBudget
from syncline.core.fetching.session import FetchContext, SessionPartition
from syncline.model.ids import TopicPartition
from syncline.node.fetching import operation
from syncline.node.fetching.caught_up import caught_up
from syncline.node.fetching.operation import FetchOperation
from syncline.node.fetching.reader import PartitionReader
from syncline.node.partitions.partition import Partition
from syncline.virtual.simulation import RunSettings, Simulation
from syncline.wire.fetch import FetchRequest
from tests.node.wire_client import at, batch
from tests.node.world import World


@pytest.mark.brokers(3)
async def test_followers_without_lag_are_parked_at_once(world: World) -> None:
    """Guards: each of their fetches was looked at as one that has records to read."""
    await world.topic(replicas=(1, 2, 3))
    client = await world.client()
    await client.produce("t", batch())
    partition, counters = world.partition(), world.broker().fetching.counters
    await world.until(lambda: len(world.broker().fetching.deadlines) == 2)
    fetches, read_bytes = partition.counters.fetches, counters.memory_read_bytes
    await client.produce("t", batch())
    await world.until(lambda: len(world.broker().fetching.deadlines) == 2)

    assert partition.counters.fetches == fetches + 2
    assert counters.memory_read_bytes == read_bytes + 2 * len(batch())
    assert partition.high_watermark == 2


@pytest.mark.brokers(2)
async def test_session_that_a_consumer_opened_proves_no_progress(world: World) -> None:
    """Guards: a request that said it was a follower's counted, and committed records that no follower had."""
    await world.topic(replicas=(1, 2))
    world.network.cut("broker-2", "broker-1")
    client = await world.client()
    await client.produce("t", batch(), acks=1)
    end = {"t": [at(1, leader_epoch=0, last_epoch=0)]}
    opened = await client.fetched(client.send_fetch(end, session=(0, 0)))
    fetch = client.send_fetch(end, session=(opened.session_id, 1), max_wait_ms=30_000, replica_id=2)
    await world.later(0.1)

    assert world.partition().high_watermark == 0
    # It reads beyond what consumers are shown, and this is answered at once.
    assert fetch in client.answers


@pytest.mark.interpreted
async def test_pending_partitions_are_sorted_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: those of a follower that lacks records, thousands perhaps, were sorted again before they were read."""
    await world.topic()
    client = await world.client()
    sorted_counts: list[int] = []
    pending = FetchContext.pending

    def counted(self: FetchContext) -> list[SessionPartition]:
        entries = pending(self)
        sorted_counts.append(len(entries))
        return entries

    monkeypatch.setattr(FetchContext, "pending", counted)
    await client.fetch("t", 7, max_wait_ms=30_000, replica_id=2)

    assert sorted_counts == [1]


@pytest.mark.interpreted
@pytest.mark.parametrize("seed", [3, 8, 21])
def test_the_reader_finds_nothing_where_followers_are_caught_up(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whatever faults strike: no records, no error, and the same progress."""
    seen: Counter[bool] = Counter()
    readers: list[PartitionReader] = []
    start = FetchOperation.start

    def remembered(self: FetchOperation, now_ms: int) -> None:
        readers.append(self._reader)
        start(self, now_ms)

    def compared(
        entries: Collection[SessionPartition], fetch: FetchRequest, partitions: Mapping[TopicPartition, Partition]
    ) -> list[Partition] | None:
        found = caught_up(entries, fetch, partitions)
        seen[found is not None] += 1
        for entry in () if found is None else entries:
            row = readers[-1].read(entry, FetchBudget(1 << 20), readers[-1], is_first_look=True)
            assert (row.error, len(row.records), row.diverging, row.preferred) == (0, 0, None, -1), f"{row}"
            assert (row.is_progress, row.log_end) == (True, entry.fetch_offset), f"{row}"
            assert row.leader_epoch == entry.current_leader_epoch, f"{row}"
        return found

    monkeypatch.setattr(operation, "caught_up", compared)
    monkeypatch.setattr(FetchOperation, "start", remembered)

    assert Simulation(seed, RunSettings(seconds=8)).run().failures == []
    assert 0 < seen[False] < seen[True], f"{seen}"
