"""KIP-489: how far behind consumers read, one sample for each partition of an answered fetch."""

import pytest

from syncline.model.ids import Offset
from syncline.node.lag.fetch_lag import OTHER, READERS_MAX, TOPICS_MAX, WAITING_MAX, Cell, FetchLag
from syncline.records.builder import BatchBuilder
from syncline.storage.arrivals.read_facts import ReadFacts
from syncline.wire.api import ApiKey
from syncline.wire.fetch import encode_fetch_request
from tests.node.metrics.scraping import scrape
from tests.node.wire_client import FETCH_VERSION, WireClient, at, batch, fetch_request
from tests.node.world import World

# The sheet's example, a thousand times smaller.
KB = 1_000
THOUSANDTH = {"internal_segment_bytes": 100 * KB}
TRAFFIC = "kafka_server_brokertopicmetrics_consumerfetchlag"


def sized(records: int, size_bytes: int) -> bytes:
    """Return a batch of so many records and exactly so many bytes."""

    def built(padding: int) -> bytes:
        builder = BatchBuilder()
        for number in range(records):
            builder.append(1_700_000_000_000, b"", bytes(padding if number == 0 else 0))
        return bytes(builder.build())

    missing = size_bytes - len(built(0))
    fitting = (built(missing - less) for less in range(8))
    return next(data for data in fitting if len(data) == size_bytes)


async def example(world: World, replicas: tuple[int, ...] = (1,)) -> WireClient:
    """Make segments at 0, 1000, 2000 and 3000; offset 1500 lies at 52 kB of its segment."""
    await world.topic(replicas=replicas, **THOUSANDTH)
    client = await world.client(replicas[0])
    for records, kilobytes in ((1000, 100), (500, 52), (500, 48), (1000, 100), (1000, 40)):
        row = await client.produce("t", sized(records, kilobytes * KB))
        assert not row.error_code
    assert [each.base_offset for each in world.partition(replicas[0]).log.segments] == [0, 1000, 2000, 3000]
    return client


def lag(world: World, broker_id: int = 1) -> FetchLag:
    """Return what a broker has counted."""
    counted = world.broker(broker_id).fetching.lag
    counted.check_invariants()
    return counted


def total(world: World, broker_id: int = 1) -> Cell:
    """Return the sum over a broker's readers and topics."""
    total = Cell()
    for cell in lag(world, broker_id).cells():
        total.add(cell)
    return total


def samples(world: World, broker_id: int = 1) -> tuple[int, int]:
    """Return how many byte lags were counted, and their sum."""
    counted = total(world, broker_id).behind_bytes
    return sum(counted.fetches), counted.sum_by_fetches


async def test_l01_a_fetch_in_an_older_segment_counts_the_bytes_from_its_batch_on(world: World) -> None:
    """One sample of 188 kB of 340."""
    client = await example(world)
    await client.fetch("t", 1500)

    assert samples(world) == (1, 188 * KB)


@pytest.mark.brokers(2)
async def test_l02_followers_do_not_count_and_read_committed_does(world: World) -> None:
    """All that the follower has fetched, and a fetch in its name, leave no sample."""
    client = await example(world, replicas=(1, 2))
    await world.until(lambda: world.partition(2).log.log_end == 4000)
    assert samples(world) == samples(world, 2) == (0, 0)

    request = fetch_request({"t": [at(1500)]})._replace(isolation_level=1)
    body = encode_fetch_request(request, FETCH_VERSION)
    row = await client.fetched_row(client.send(ApiKey.FETCH, FETCH_VERSION, body))
    assert row.records
    assert samples(world) == (1, 188 * KB)
    # One that reads from the follower counts there (KIP-392).
    await world.until(lambda: world.partition(2).high_watermark == 4000)
    other = await world.client(2)
    assert (await other.fetch("t", 1500)).records
    assert samples(world, 2) == (1, 188 * KB)
    assert samples(world) == (1, 188 * KB)
    # A debugging tool is no consumer.
    await client.fetch("t", 1500, replica_id=-2)
    assert samples(world) == (1, 188 * KB)


async def test_l03_deleted_segments_change_nothing_and_appends_do(world: World) -> None:
    """193 kB after 5 kB more, without the first segment."""
    client = await example(world)
    partition = world.partition()
    world.call(1, partition.log.raise_log_start, Offset(1000))
    assert len(world.call(1, partition.log.retention, 0)) == 1
    await client.produce("t", sized(10, 5 * KB))
    await client.fetch("t", 1500)

    assert samples(world) == (1, 193 * KB)


async def test_l04_a_consumer_at_the_end_counts_each_answer_and_no_look(world: World) -> None:
    """Guards: a fetch that looked, found too little and looked again counted once per look."""
    await world.topic()
    client = await world.client()
    for _ in range(20):
        await client.fetch("t", 0, max_wait_ms=500)
    assert samples(world) == (0, 0)
    assert lag(world).empty_fetches == 20

    waiting = client.send_fetch({"t": [at(0)]}, max_wait_ms=1_000, min_bytes=1 << 20)
    other = await world.client()
    for _ in range(5):
        await other.produce("t", batch())
        await world.later(0.1)
    row = await client.fetched_row(waiting)
    size_bytes = world.partition().log.size_bytes

    assert len(row.records) == size_bytes
    assert samples(world) == (1, size_bytes)
    # What KIP-489 names has a zero for each fetch without records.
    page = await scrape(world)
    assert page[f"{TRAFFIC}bytes_count"] == page[f"{TRAFFIC}timeinms_count"] == 21
    assert page[f"{TRAFFIC}bytes_sum"] == size_bytes
    assert page.of(f"{TRAFFIC}timeinms_bucket", le="1") == 21


async def test_l05_a_reader_lacks_the_batch_that_it_reads_and_then_nothing(world: World) -> None:
    """100,000 bytes, then 0."""
    await world.topic()
    client = await world.client()
    await client.produce("t", sized(10, 100 * KB))
    await client.fetch("t", 0)
    await client.fetch("t", 10)

    assert samples(world) == (1, 100 * KB)
    assert lag(world).empty_fetches == 1


async def read_times(world: World, *times_ms: int) -> WireClient:
    """Produce a record with each of these times."""
    client = await world.client()
    for time_ms in times_ms:
        assert not (await client.produce("t", batch(timestamp_ms=1_000_000 + time_ms))).error_code
    return client


async def test_l08_time_lag_is_that_of_the_records_own_times(world: World) -> None:
    """Of batches with 1,000 to 10,000 ms, the one with 4,000 is 6,000 behind."""
    await world.topic()
    client = await read_times(world, *range(1_000, 11_000, 1_000))
    await client.fetch("t", 3)
    counted = total(world).event_ms

    assert (sum(counted.fetches), counted.sum_by_fetches) == (1, 6_000)


async def test_l09_a_segment_that_has_just_begun_has_the_newest_time_of_the_one_before(world: World) -> None:
    """5,000 and not -4,001."""
    await world.topic()
    client = await read_times(world, 1_000, 4_000, 9_000)
    world.call(1, world.partition().log.roll)
    await client.fetch("t", 1)

    assert total(world).event_ms.sum_by_fetches == 5_000


async def test_l10_a_record_of_the_future_moves_the_time_lag_and_not_the_age(world: World) -> None:
    """Older fetches show an hour, a later one nothing below 0; when it was appended is another matter."""
    await world.topic()
    client = await read_times(world, 0, 3_600_000, 5_000)
    await world.later(2)
    await client.fetch("t", 0)
    counted = total(world)
    assert counted.event_ms.sum_by_fetches == 3_600_000
    assert 2_000 <= counted.age_ms.sum_by_fetches < 2_100

    world.call(1, world.partition().log.roll)
    await client.produce("t", batch(timestamp_ms=1_000_000 + 7_000))
    before = total(world).event_ms.sum_by_fetches
    await client.fetch("t", 1)
    assert total(world).event_ms.sum_by_fetches == before


async def test_a_read_that_waits_for_the_disk_counts_what_was_true_before(world: World) -> None:
    """Guards: its bytes were a little too few, and its newest time was that of after the read."""
    client = await example(world)
    world.slow_disk(1, 200)
    reading = client.send_fetch({"t": [at(1500)]}, max_wait_ms=5_000)
    await world.later(0.05)
    other = await world.client()
    await other.produce("t", sized(10, 5 * KB))
    row = await client.fetched_row(reading)
    world.slow_disk(1, 0)

    assert row.records
    assert samples(world) == (1, 188 * KB)


async def test_a_fetch_of_many_partitions_counts_each_that_has_records(world: World) -> None:
    """Also where the answer is written in steps; errors are no empty fetch."""
    await world.topic(partitions=120)
    client = await world.client()
    for number in (3, 77):
        await client.produce("t", batch(), partition=number)
    await client.fetched(client.send_fetch({"t": [at(0, partition=number) for number in range(120)]}))
    assert samples(world)[0] == 2
    ends = [at(int(number in (3, 77)), partition=number) for number in range(120)]
    await client.fetched(client.send_fetch({"t": ends}))
    assert samples(world)[0] == 2
    assert lag(world).empty_fetches == 1
    assert (await client.fetch("t", 0, partition=500)).error_code

    assert lag(world).empty_fetches == 1


async def test_few_samples_wait_and_none_when_anything_is_told(world: World) -> None:
    """However many fetches are answered before anybody asks."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch())
    for _ in range(WAITING_MAX):
        await client.fetch("t", 0)
    waiting = world.broker().fetching.lag.waiting
    counts = [len(waiting)]
    for offset in (0, 1):
        await client.fetch("t", offset)
    counts.append(len(waiting))

    assert counts == [0, 2]
    assert samples(world)[0] == WAITING_MAX + 1
    assert lag(world).empty_fetches == 1
    assert not world.broker().fetching.lag.waiting


async def test_readers_are_told_apart_by_client_and_address(world: World) -> None:
    """Each has a cell per topic."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch())
    await client.fetch("t", 0)
    (reader,) = lag(world).readers()
    ((topic, cell),) = reader.by_topic()

    assert (reader.client_id, topic, sum(cell.behind_bytes.fetches)) == ("test", "t", 1)
    assert reader.host.startswith("/")


FACTS = ReadFacts(1_000, 400, 5_000, 90_000, 50_000, is_estimated=False)


def test_readers_and_topics_beyond_the_bounds_share_a_cell() -> None:
    """However many names a client makes up."""
    counted = FetchLag()
    for number in range(READERS_MAX + 50):
        counted.reader(f"client-{number}", "/host").cell("t").note(FACTS, 4_000, 10, 100_000)
    reader = counted.reader("client-0", "/host")
    for number in range(TOPICS_MAX + 50):
        reader.cell(f"topic-{number}").note(FACTS, 4_000, 10, 100_000)
    counted.check_invariants()
    names = [each.client_id for each in counted.readers()]

    assert len(names) == READERS_MAX + 1
    assert names[-1] == OTHER
    assert counted.reader("another", "/host") is counted.reader("yet another", "/else")
    assert len(dict(reader.by_topic())) == TOPICS_MAX + 1
    assert sum(sum(cell.behind_bytes.fetches) for cell in counted.cells()) == READERS_MAX + TOPICS_MAX + 100


def test_a_cell_counts_bytes_times_ages_and_distances() -> None:
    """What is unknown of a read is counted by its bytes."""
    cell = Cell()
    cell.note(FACTS, 4_000, 10, 100_000)
    cell.note(FACTS._replace(append_ms=-1, distance_bytes=-1), 6_000, 20, 100_000)
    cell.note(FACTS, -1, 30, 80_000)

    assert (cell.behind_bytes.sum_by_fetches, cell.behind_bytes.sum_by_bytes) == (1_800, 36_000)
    # Newer than the newest, without a time, and a clock that was set back: no lag.
    assert cell.event_ms.sum_by_fetches == 1_000
    assert cell.age_ms.sum_by_fetches == 10_000
    assert cell.distance_bytes.sum_by_fetches == 100_000
    assert cell.unknown_age_bytes == 20
