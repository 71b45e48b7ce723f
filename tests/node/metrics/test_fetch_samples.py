"""How far back consumers read, by topic and by client, on the metrics page."""

import pytest

from syncline.node.metrics import fetch_samples
from tests.node.metrics.scraping import scrape
from tests.node.wire_client import batch
from tests.node.world import World


async def test_fetches_are_weighted_by_number_and_by_bytes(world: World) -> None:
    """The reader at the start returns little and is far behind; the one at the end is not."""
    await world.topic("t")
    await world.topic("u")
    client = await world.client()
    old, new = batch(1, timestamp_ms=1_000_000), batch(200, timestamp_ms=1_004_000)
    await client.produce("t", old)
    await client.produce("t", new)
    await client.produce("u", old)
    await client.fetch("t", 0)
    await client.fetch("t", 1)
    await client.fetch("u", 0)
    await client.fetch("u", 1)
    samples = await scrape(world)
    whole = len(old) + len(new)

    for family, of_t, of_u in (
        ("syncline_topic_fetch_lag_bytes", whole + len(new), len(old)),
        ("syncline_topic_fetch_event_lag_seconds", 4, 0),
    ):
        assert samples.of(f"{family}_count", topic="t", weight="fetch") == 2
        assert samples.of(f"{family}_count", topic="u", weight="fetch") == 1
        assert samples.of(f"{family}_sum", topic="t", weight="fetch") == of_t
        assert samples.of(f"{family}_sum", topic="u", weight="fetch") == of_u
    assert samples.of("syncline_topic_fetch_lag_bytes_count", topic="t", weight="bytes") == whole + len(new)
    assert samples.of("syncline_fetch_lag_bytes_count", weight="fetch") == 3
    assert samples.of("syncline_fetch_lag_bytes_count", weight="bytes") == whole + len(new) + len(old)
    assert samples.of("syncline_fetch_age_seconds_count", weight="fetch") == 3
    assert samples.of("syncline_fetch_stack_distance_bytes_count", weight="fetch") == 3
    clients = samples.all_of("syncline_client_fetch_lag_bytes_count")
    assert sum(count for labels, count in clients.items() if "fetch" in labels) == 3
    # KIP-489 counts an answer without records as a lag of 0, these do not.
    assert samples["syncline_empty_fetches_total"] == 1
    assert samples["kafka_server_brokertopicmetrics_consumerfetchlagbytes_count"] == 4


async def test_topics_beyond_the_bound_share_samples_for_good(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that got a place of its own later would look like a burst of it, and a loss of the others."""
    monkeypatch.setattr(fetch_samples, "NAMES_MAX", 1)
    client = await world.client()
    for topic in ("t", "u", "v"):
        await world.topic(topic)
        await client.produce(topic, batch())
    counts = []
    for read in (("t",), ("u", "v"), ("v",)):
        for topic in read:
            await client.fetch(topic, 0)
        samples = await scrape(world)
        found = samples.all_of("syncline_topic_fetch_lag_bytes_count")
        counts.append({labels[0]: count for labels, count in found.items() if labels[1] == "fetch"})

    assert counts == [{"t": 1}, {"t": 1, "(others)": 2}, {"t": 1, "(others)": 3}]


async def test_samples_of_a_topic_go_with_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: they stayed until a restart. Sums do not fall, and what shares a sample stays there."""
    monkeypatch.setattr(fetch_samples, "NAMES_MAX", 1)
    client = await world.client()
    counts, totals = [], []
    for read, deleted in (("t", None), ("u", "t"), ("v", "u")):
        await world.topic(read)
        await client.produce(read, batch())
        await client.fetch(read, 0)
        samples = await scrape(world)
        if deleted is not None:
            await world.delete_topic(deleted)
            samples = await scrape(world)
        found = samples.all_of("syncline_topic_fetch_lag_bytes_count")
        counts.append({labels[0]: count for labels, count in found.items() if labels[1] == "fetch"})
        totals.append(samples.of("syncline_fetch_lag_bytes_count", weight="fetch"))

    assert counts == [{"t": 1}, {"(others)": 1}, {"v": 1, "(others)": 1}]
    assert totals == [1, 2, 3]
