"""The pages of other exporters: their names and labels, of the whole cluster, from any broker that is told to."""

from math import inf, isnan

import pytest

from syncline.node.lag import group_rows
from tests.node.lag.groups import commit, coordinator_of, join
from tests.node.metrics.scraping import GET, HttpClient, Samples, ask, scrape, serve
from tests.node.wire_client import batch
from tests.node.world import World

POLL_MS = 5_000
ALL = "kafka_exporter,kminion,kafka-lag-exporter"
EXPORTERS = ALL.split(",")
one = pytest.mark.brokers(1, offsets_topic_num_partitions=1, metrics_compatible=ALL, lag_refresh_interval_ms=POLL_MS)
three = pytest.mark.brokers(3, offsets_topic_num_partitions=3, metrics_compatible=ALL, lag_refresh_interval_ms=POLL_MS)
T0 = {"topic": "t", "partition": 0}
NOBODY = {"member_host": "", "consumer_id": "", "client_id": ""}


async def page(world: World, exporter: str, broker_id: int = 1) -> Samples:
    """Return a page for an exporter."""
    return await scrape(world, broker_id, exporter)


async def five_behind(world: World, replicas: tuple[int, ...] = (1,)) -> int:
    """Let group g be 5 records behind in t-0; return its coordinator."""
    await world.topic("t", replicas=replicas, cleanup_policy="delete")
    client = await world.client(replicas[0])
    await client.produce("t", batch(12))
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): 7})
    return coordinator


@one
async def test_l38_all_three_show_the_same_lag_under_their_own_names(world: World) -> None:
    """5, as the broker's own page has it."""
    await five_behind(world)
    own = await scrape(world)
    kafka_exporter, kminion, lag_exporter = [await page(world, exporter) for exporter in EXPORTERS]
    cluster = world.broker().image.cluster_id

    assert own.of("syncline_group_lag_offsets", group="g", **T0, end="hw") == 5
    assert kafka_exporter.of("kafka_consumergroup_lag", consumergroup="g", **T0) == 5
    assert (
        kminion.of("kminion_kafka_consumer_group_topic_partition_lag", group_id="g", topic_name="t", partition_id=0)
        == 5
    )
    assert lag_exporter.of("kafka_consumergroup_group_lag", cluster_name=cluster, group="g", **T0, **NOBODY) == 5


@three
async def test_any_broker_shows_groups_and_partitions_of_all(world: World) -> None:
    """Dashboards choose one instance: whichever it is, it must not show a third of the cluster."""
    for leader in (1, 2, 3):
        await world.topic(f"t{leader}", replicas=(leader,))
        client = await world.client(leader)
        await client.produce(f"t{leader}", batch(10))
    groups = [f"g{number}" for number in range(6)]
    coordinators = {}
    for group in groups:
        coordinators[group] = await coordinator_of(world, group)
        await commit(world, coordinators[group], group, {(f"t{leader}", 0): leader for leader in (1, 2, 3)})
    assert len(set(coordinators.values())) > 1, "more groups would be on more brokers"
    wanted = {(group, f"t{leader}", "0"): 10 - leader for group in groups for leader in (1, 2, 3)}

    for broker_id in (1, 2, 3):
        kafka_exporter = await page(world, "kafka_exporter", broker_id)
        assert kafka_exporter.all_of("kafka_consumergroup_lag") == wanted
        ends = kafka_exporter.all_of("kafka_topic_partition_current_offset")
        assert {key: end for key, end in ends.items() if key[0][0] == "t"} == {
            (f"t{leader}", "0"): 10 for leader in (1, 2, 3)
        }
        kminion = await page(world, "kminion", broker_id)
        found = kminion.all_of("kminion_kafka_consumer_group_topic_partition_lag")
        assert len(found) == len(wanted)
        assert kminion.all_of("kminion_exporter_up").popitem()[1] == 1
        info = [
            sample.labels
            for sample in kminion.families["kminion_kafka_consumer_group_info"].samples
            if sample.labels["group_id"] == "g0"
        ]
        assert [labels["coordinator_id"] for labels in info] == [str(coordinators["g0"])]


@three
async def test_groups_come_in_pages_that_miss_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page begins behind the last group of the one before, whatever comes and goes meanwhile."""
    monkeypatch.setattr(group_rows, "PAGE_ROWS", 1)
    await five_behind(world)
    groups = ["a", "g", "gg", "z"]
    for group in groups:
        await commit(world, await coordinator_of(world, group), group, {("t", 0): 7})
    samples = await page(world, "kafka_exporter", 2)

    assert samples.all_of("kafka_consumergroup_lag") == {(group, "t", "0"): 5 for group in groups}


@three
async def test_broker_that_does_not_answer_leaves_a_page_that_says_so(world: World) -> None:
    """The groups of the others are there."""
    coordinator = await five_behind(world, replicas=(1, 2, 3))
    asked = next(each for each in (1, 2, 3) if each != coordinator)
    await page(world, "kminion", asked)
    world.network.cut(f"broker-{asked}", f"broker-{coordinator}")
    kminion = await page(world, "kminion", asked)
    world.network.heal(f"broker-{asked}", f"broker-{coordinator}")

    assert kminion.all_of("kminion_exporter_up").popitem()[1] == 0
    assert not kminion.all_of("kminion_kafka_consumer_group_members")


@one
async def test_kafka_exporter_shows_brokers_topics_and_sums(world: World) -> None:
    """A partition without a commit has no lag of -1, which would spoil the sums."""
    await world.topic("t", 3)
    client = await world.client()
    for number, count in ((0, 4), (1, 6), (2, 8)):
        await client.produce("t", batch(count), partition=number)
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): 1, ("t", 1): 6})
    samples = await page(world, "kafka_exporter")

    assert samples["kafka_brokers"] == 1
    assert samples.of("kafka_broker_info", id=1, address="broker-1:9092") == 1
    assert samples.of("kafka_topic_partitions", topic="t") == 3
    for number, end in ((0, 4), (1, 6), (2, 8)):
        labels = {"topic": "t", "partition": number}
        assert samples.of("kafka_topic_partition_current_offset", **labels) == end
        assert samples.of("kafka_topic_partition_oldest_offset", **labels) == 0
        assert samples.of("kafka_topic_partition_leader", **labels) == 1
        assert samples.of("kafka_topic_partition_leader_is_preferred", **labels) == 1
        assert samples.of("kafka_topic_partition_replicas", **labels) == 1
        assert samples.of("kafka_topic_partition_in_sync_replica", **labels) == 1
        assert samples.of("kafka_topic_partition_under_replicated_partition", **labels) == 0
    assert samples.all_of("kafka_consumergroup_lag") == {("g", "t", "0"): 3, ("g", "t", "1"): 0}
    assert samples.all_of("kafka_consumergroup_current_offset") == {("g", "t", "0"): 1, ("g", "t", "1"): 6}
    assert samples.of("kafka_consumergroup_lag_sum", consumergroup="g", topic="t") == 3
    assert samples.of("kafka_consumergroup_current_offset_sum", consumergroup="g", topic="t") == 7
    assert samples.of("kafka_consumergroup_members", consumergroup="g") == 0


@one
async def test_kminion_shows_members_marks_and_sizes(world: World) -> None:
    """As it documents them."""
    await world.topic("t", 2, cleanup_policy="delete")
    client = await world.client()
    await client.produce("t", batch(4), partition=0)
    await client.produce("t", batch(6), partition=1)
    coordinator = await coordinator_of(world, "g")
    await join(world, coordinator, "g", "t", 0, 1)
    await commit_old(world, coordinator)
    samples = await page(world, "kminion")
    in_group = {"group_id": "g"}
    in_topic = {"group_id": "g", "topic_name": "t"}

    (info,) = (
        sample
        for sample in samples.families["kminion_kafka_consumer_group_info"].samples
        if sample.labels["group_id"] == "g"
    )
    assert (info.labels["state"], info.labels["protocol"], info.labels["protocol_type"], info.value) == (
        "Stable",
        "range",
        "consumer",
        1,
    )
    assert samples.of("kminion_kafka_consumer_group_members", **in_group) == 1
    assert samples.of("kminion_kafka_consumer_group_empty_members", **in_group) == 0
    assert samples.of("kminion_kafka_consumer_group_topic_members", **in_topic) == 1
    assert samples.of("kminion_kafka_consumer_group_topic_assigned_partitions", **in_topic) == 2
    assert samples.of("kminion_kafka_topic_partition_high_water_mark", topic_name="t", partition_id=1) == 6
    assert samples.of("kminion_kafka_topic_high_water_mark_sum", topic_name="t") == 10
    assert samples.of("kminion_kafka_topic_low_water_mark_sum", topic_name="t") == 0
    sizes = sum(world.partition(number=number).log.size_bytes for number in (0, 1))
    assert samples.of("kminion_kafka_topic_log_dir_size_total_bytes", topic_name="t") == sizes
    assert (
        samples.of(
            "kminion_kafka_topic_info", cleanup_policy="delete", partition_count=2, replication_factor=1, topic_name="t"
        )
        == 1
    )
    assert samples.of("kminion_kafka_consumer_group_topic_lag", group_id="h", topic_name="t") == 9
    assert samples.of("kminion_kafka_consumer_group_topic_offset_sum", group_id="h", topic_name="t") == 1
    assert samples.of("kminion_kafka_consumer_group_offset_commits_total", group_id="h") == 2


async def commit_old(world: World, coordinator: int) -> None:
    """Let group h, which has no members, commit in both partitions."""
    await commit(world, coordinator, "h", {("t", 0): 1, ("t", 1): 0})


@one
async def test_l35_kafka_lag_exporter_estimates_as_the_original_does(world: World) -> None:
    """It draws a line between two polls, and on a flat stretch the lag is infinite; ours is the record's own age."""
    await world.topic(message_timestamp_type="LogAppendTime")
    client = await world.client()
    await client.produce("t", batch(100))
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): 0})
    labels = {"cluster_name": world.broker().image.cluster_id, "group": "g"}
    row = {**labels, **T0, **NOBODY}

    first = await page(world, "kafka-lag-exporter")
    await client.produce("t", batch(100))
    await commit(world, coordinator, "g", {("t", 0): 150})
    again = await page(world, "kafka-lag-exporter")
    await world.later(POLL_MS / 1_000)
    second = await page(world, "kafka-lag-exporter")
    await commit(world, coordinator, "g", {("t", 0): 199})
    await world.later(POLL_MS / 1_000)
    third = await page(world, "kafka-lag-exporter")

    assert first.of("kafka_consumergroup_group_lag", **row) == 100
    assert isnan(first.of("kafka_consumergroup_group_lag_seconds", **row)), "one point is no line"
    assert again.of("kafka_consumergroup_group_offset", **row) == 0, "an interval has not passed since the last poll"
    # Halfway between the two polls by offsets, so by time, too: half an interval and half of what lay between.
    seconds = second.of("kafka_consumergroup_group_lag_seconds", **row)
    assert seconds == pytest.approx((POLL_MS / 1_000 + 2.2) / 2, abs=0.3)
    assert second.of("kafka_consumergroup_group_max_lag_seconds", **labels) == seconds
    assert second.of("kafka_consumergroup_group_max_lag", **labels) == 50
    assert second.of("kafka_consumergroup_group_sum_lag", **labels) == 50
    assert second.of("kafka_consumergroup_group_topic_sum_lag", **labels, topic="t") == 50
    assert second.of("kafka_consumergroup_group_offset", **row) == 150
    assert second.of("kafka_partition_latest_offset", cluster_name=labels["cluster_name"], **T0) == 200
    assert second.of("kafka_partition_earliest_offset", cluster_name=labels["cluster_name"], **T0) == 0
    # 199 lies on the line from 100 to 200, an interval ago.
    assert POLL_MS / 1_000 < third.of("kafka_consumergroup_group_lag_seconds", **row) < POLL_MS / 1_000 + 2
    own = await scrape(world)
    assert own.of("syncline_group_staleness_seconds", group="g", **T0) == pytest.approx(13.3, abs=1.5)


@one
async def test_l35_kafka_lag_exporter_calls_a_record_on_a_flat_stretch_infinitely_late(world: World) -> None:
    """Nothing is produced between two polls, and one record is unread; ours is the age of that record."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(100))
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): 99})
    await page(world, "kafka-lag-exporter")
    await world.later(POLL_MS / 1_000)
    flat = await page(world, "kafka-lag-exporter")
    own = await scrape(world)
    labels = {"cluster_name": world.broker().image.cluster_id, "group": "g"}

    assert flat.of("kafka_consumergroup_group_lag_seconds", **labels, **T0, **NOBODY) == inf
    assert flat.of("kafka_consumergroup_group_max_lag_seconds", **labels) == inf
    assert 5 < own.of("syncline_group_staleness_seconds", group="g", **T0) < 10


@pytest.mark.brokers(1, metrics_compatible="kminion")
async def test_page_that_is_off_says_how_it_is_switched_on(world: World) -> None:
    """Only what is named is served."""
    await serve(world)
    statuses = {}
    for exporter in (*EXPORTERS, "burrow"):
        client = await HttpClient.connect()
        status, _, body = await ask(world, client, GET.replace(b"/metrics", f"/metrics/{exporter}".encode()))
        statuses[exporter] = (status, b"metrics.compatible=" + exporter.encode() in body)
        client.close()

    assert statuses == {
        "kafka_exporter": (404, True),
        "kminion": (200, False),
        "kafka-lag-exporter": (404, True),
        "burrow": (404, False),
    }
