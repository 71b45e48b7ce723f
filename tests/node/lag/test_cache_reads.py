"""What consumers read from memory and from the disk, and how far back: measured, on pages that a test knows."""

import sys
from typing import Any

import pytest

from syncline.core.lag.buckets import BYTES
from syncline.lag_report.agreement import agreements
from syncline.lag_report.answers import facts_of
from syncline.lag_report.attribution import attributed
from syncline.model.ids import TopicPartition
from syncline.node.fetching.reader import READ_AT_ONCE_BYTES
from syncline.node.lag.cache_verbs import READERS_MAX
from syncline.node.lag.fetch_lag import CELLS_MAX, Cell, FetchLag
from syncline.node.lag.fetch_lag import READERS_MAX as CLIENTS_MAX
from syncline.node.lag.read_ahead import PLACES_MAX, ReadAhead
from syncline.virtual.disk.pages import SimPages
from tests.node.counted_calls import counted
from tests.node.lag.groups import coordinator_of, join
from tests.node.lag.test_fetch_lag import FACTS, sized, total
from tests.node.lag.test_verbs import call
from tests.node.wire_client import WireClient, at, batch
from tests.node.world import World

PAGE = 4_096
BATCH = 2 * PAGE
KEY = TopicPartition("t", 0)


def give_memory(world: World, memory_bytes: int) -> None:
    """From now on the first broker's page cache holds so much, and nothing of before."""
    disk = world.host().disk
    assert disk is not None
    disk.pages = SimPages(memory_bytes)


async def written(world: World, batches: int, **configs: Any) -> WireClient:
    """Return a client that has produced batches of two pages each."""
    await world.topic(**configs)
    client = await world.client()
    for _ in range(batches):
        assert not (await client.produce("t", sized(1, BATCH))).error_code
    return client


def read(world: World) -> tuple[int, int]:
    """Return which bytes were in memory, and which were not, by all consumers; the broker's counters say the same."""
    cell: Cell = total(world)
    counters = world.broker().counters
    assert (cell.hit_bytes, cell.missed_bytes) == (counters.memory_read_bytes, counters.disk_read_bytes)
    return cell.hit_bytes, cell.missed_bytes


async def fetch(client: WireClient, offset: int, max_bytes: int = 1 << 20) -> int:
    """Fetch, and return how many bytes came."""
    row = await client.fetched_row(client.send_fetch({"t": [at(offset, max_bytes=max_bytes)]}))
    assert not row.error_code
    return len(row.records)


async def test_bytes_up_to_the_first_page_that_is_missing_are_hits(world: World) -> None:
    """Of ten batches the last eight fit in memory; one that was read takes the place of the oldest."""
    give_memory(world, 8 * BATCH)
    client = await written(world, 10)
    await fetch(client, 9)
    assert read(world) == (BATCH, 0)

    assert await fetch(client, 0, BATCH) == BATCH
    assert read(world) == (BATCH, BATCH)
    # Batch 0 is in memory now, and batch 1 is not.
    assert await fetch(client, 0, 2 * BATCH) == 2 * BATCH
    assert read(world) == (2 * BATCH, 2 * BATCH)


async def test_large_read_beside_the_loop_is_a_hit_if_its_pages_are_in_memory(world: World) -> None:
    """Guards: what a worker read counted as read from the disk."""
    await world.topic()
    client = await world.client()
    for _ in range(6):
        await client.produce("t", batch(size_bytes=READ_AT_ONCE_BYTES // 5))
    size_bytes = await fetch(client, 0, 1 << 25)

    assert size_bytes > READ_AT_ONCE_BYTES
    assert read(world) == (size_bytes, 0)


@pytest.mark.parametrize("segments", [2, 12])
async def test_what_the_search_for_headers_brings_in_is_no_hit(world: World, segments: int) -> None:
    """Guards: headers are read in windows of 64 KiB, so small reads would all seem to be in memory.

    Of twelve segments the first has no index in memory, either.
    """
    give_memory(world, 2 * BATCH)
    client = await written(world, 4 * segments, internal_segment_bytes=4 * BATCH)
    # The newest batches of the active segment have positions in memory; finished segments do not.
    assert await fetch(client, 0) == 4 * BATCH

    assert read(world) == (0, 4 * BATCH)


@pytest.mark.brokers(1, page_cache_leader_budget_bytes=1 << 20)
async def test_what_is_given_back_is_beyond_every_distance_and_takes_no_room(world: World) -> None:
    """A log whose pages are dropped behind it pushes nothing out; what is kept of it is as far away as it is long."""
    give_memory(world, 64 << 20)
    await world.topic()
    client = await world.client()
    for _ in range(10):
        await client.produce("t", batch(size_bytes=900_000))
    first = await fetch(client, 0, 1)
    assert read(world) == (0, first)
    distances = total(world).distance_bytes
    assert (distances.fetches[BYTES.bound_count], distances.sum_by_fetches) == (1, 0)

    last = await fetch(client, 9, 1)
    assert read(world) == (last, first)
    assert total(world).distance_bytes.sum_by_fetches == last
    assert world.broker().logs.written.total_bytes == 0


async def test_distance_is_what_was_written_to_all_logs_since(world: World) -> None:
    """To the byte, for each fetch."""
    await world.topic("t")
    await world.topic("u")
    client = await world.client()
    await client.produce("t", sized(1, 10_000))
    await client.produce("u", sized(1, 70_000))
    await client.produce("t", sized(1, 20_000))
    await fetch(client, 0, 1)

    assert total(world).distance_bytes.sum_by_fetches == 100_000
    assert world.broker().logs.written.total_bytes == 100_000


async def test_verb_tells_what_was_read_and_by_whom(world: World) -> None:
    """By reader and topic, with the members of groups, of which the command makes attributions."""
    give_memory(world, 8 * BATCH)
    client = await written(world, 10)
    coordinator = await coordinator_of(world, "g")
    await join(world, coordinator, "g", "t", 0)
    await fetch(client, 8)
    await fetch(client, 0, BATCH)
    answer = await call(world, "cache.show")
    ((broker, told),) = attributed({1: answer}).items()
    (reader,) = told["readers"]
    facts = facts_of(broker, told, None)

    assert (answer["hit_bytes"], answer["miss_bytes"], answer["unmeasured_bytes"]) == (2 * BATCH, BATCH, 0)
    assert (reader["client_id"], reader["topic"], reader["group"]) == ("test", "t", "g")
    assert (reader["hit_bytes"], reader["miss_bytes"]) == (2 * BATCH, BATCH)
    assert told["memory_bytes"] == 8 * BATCH
    assert facts.read_bytes == 3 * BATCH
    assert [each.name for each in facts.readers] == ["group g"]
    assert answer["written_bytes_per_s"] * answer["interval_s"] >= 10 * BATCH


async def test_answer_forgets_what_was_read_before_the_last_note_but_one(world: World) -> None:
    """A broker that has run for weeks says what happens now."""
    client = await written(world, 2)
    await fetch(client, 0, BATCH)
    for _ in range(2):
        for _step in world.broker().cache.note():
            await fetch(client, 1)
    answer = await call(world, "cache.show")

    # The fetch during the first note belongs to the time before it.
    assert answer["hit_bytes"] == 2 * BATCH
    assert sum(size_bytes for _, _, size_bytes in answer["buckets"]) == 2 * BATCH


async def test_answer_about_many_readers_is_made_in_turns(world: World) -> None:
    """Guards: 512 readers of 64 topics each held the loop for half a second."""
    counted_reads = world.broker().fetching.lag
    for number in range(500):
        reader = counted_reads.reader(f"c-{number}", "/10.0.0.1")
        for topic in range(8):
            cell = reader.cell(f"t-{topic}")
            cell.note(FACTS, 4_000, 1 + number, 100_000)
            cell.missed(number % 2, 1 + number)
    async with counted(world, 2_000):
        answer = await call(world, "cache.show")

    read_bytes = 8 * sum(range(1, 501))
    assert answer["hit_bytes"] + answer["miss_bytes"] == read_bytes
    assert (answer["miss_bytes"], answer["unmeasured_bytes"]) == (8 * 250, 0)
    assert [row[1:] for row in answer["buckets"]] == [[4_000, read_bytes]]
    assert [(each["client_id"], each["topic"]) for each in answer["readers"][:9:8]] == [
        ("c-499", "t-0"),
        ("c-498", "t-0"),
    ]
    assert len(answer["readers"]) == READERS_MAX


def test_cells_are_bounded_by_what_they_take() -> None:
    """Guards: 512 readers of 64 topics each took 126 MB, besides what was noted of them."""
    reads = FetchLag()
    for number in range(CLIENTS_MAX):
        reader = reads.reader(f"client-{number}", "/host")
        for topic in range(20):
            reader.cell(f"topic-{topic}").note(FACTS, 4_000, 10, 100_000)
    reads.check_invariants()
    cells = list(reads.cells())
    histograms = cells[0].behind_bytes, cells[0].event_ms, cells[0].age_ms, cells[0].distance_bytes
    cell_bytes = sum(sys.getsizeof(each.fetches) + sys.getsizeof(each.bytes) for each in histograms)

    assert CELLS_MAX < len(cells) <= CELLS_MAX + CLIENTS_MAX + 1
    assert len(cells) * cell_bytes < 16_000_000
    assert sum(sum(cell.behind_bytes.fetches) for cell in cells) == 20 * CLIENTS_MAX


SIZES = (384 << 10, 768 << 10, 1_500_000, 3 << 20, 6 << 20)


@pytest.mark.parametrize("memory_bytes", SIZES)
async def test_model_is_within_five_points_of_what_is_measured(world: World, memory_bytes: int) -> None:
    """Four logs are written in turn and read at the tail; then others catch up with three of them, each by itself."""
    size_bytes, partitions = 4 * BATCH, 4
    records = sized(1, size_bytes)
    give_memory(world, memory_bytes)
    await world.topic(partitions=partitions)
    client = await world.client()
    next_offsets = {("tail", each): 0 for each in range(partitions)}
    next_offsets |= {("late", each): 0 for each in range(1, partitions)}
    for step in range(260):
        number = step % partitions
        assert not (await client.produce("t", records, partition=number)).error_code
        for (name, partition), offset in next_offsets.items():
            begins_at = 0 if name == "tail" else 60 * partition
            if step < begins_at or (name == "tail" and partition != number):
                continue
            wanted = at(offset, partition=partition, max_bytes=2 * size_bytes)
            row = await client.fetched_row(client.send_fetch({"t": [wanted]}))
            next_offsets[(name, partition)] += len(row.records) // size_bytes
    answer = await call(world, "cache.show")
    (agreement,) = agreements([("", facts_of(1, answer, None))])

    assert answer["memory_bytes"] == memory_bytes
    assert abs(agreement.points) <= 5, f"{agreement}"


def test_what_is_brought_in_for_the_next_read_is_a_miss_once() -> None:
    """Though a look finds it in memory; the rest of it is for the read after."""
    ahead = ReadAhead()
    assert ahead.missed_bytes(KEY, 0, 100, 30) == 70
    ahead.brought(KEY, 100, 150)

    assert ahead.missed_bytes(KEY, 0, 100, 100) == 0
    assert ahead.missed_bytes(KEY, 100, 100, 100) == 100
    assert ahead.missed_bytes(KEY, 200, 100, 100) == 50
    assert not ahead.places


def test_places_of_readers_who_went_away_are_bounded() -> None:
    """The oldest go first."""
    ahead = ReadAhead()
    for number in range(PLACES_MAX + 5):
        ahead.brought(KEY, number, 1)

    assert len(ahead.places) == PLACES_MAX
    assert ahead.missed_bytes(KEY, 0, 1, 1) == 0
    assert ahead.missed_bytes(KEY, PLACES_MAX, 1, 1) == 1
