"""The lag of groups on the metrics page of the broker that coordinates them."""

from math import inf

import pytest

from syncline.model.errors import ErrorCode
from syncline.virtual.time.meter import CallMeter
from syncline.wire.api import ApiKey
from tests.node.lag.groups import commit, coordinator_of, delete_below, stopped_group
from tests.node.metrics.scraping import Samples, scrape
from tests.node.wire_client import batch
from tests.node.world import World

REFRESH_MS = 5_000
one = pytest.mark.brokers(1, offsets_topic_num_partitions=1, lag_refresh_interval_ms=REFRESH_MS)
three = pytest.mark.brokers(3, offsets_topic_num_partitions=3, lag_refresh_interval_ms=REFRESH_MS)
by_topic = pytest.mark.brokers(1, offsets_topic_num_partitions=1, lag_metrics_detail="topic")
by_group = pytest.mark.brokers(1, offsets_topic_num_partitions=1, lag_metrics_detail="group")
many = pytest.mark.brokers(1, offsets_topic_num_partitions=4, is_checked=False, lag_refresh_interval_ms=REFRESH_MS)
# In one turn of the loop: some two milliseconds.
CALLS_MAX = 20_000


def names_of(samples: Samples, group: str) -> set[str]:
    """Return the metrics that have a sample of a group."""
    return {
        sample.name
        for family in samples.families.values()
        for sample in family.samples
        if sample.labels.get("group") == group
    }


async def two_partitions(world: World) -> int:
    """Let group g be 5 records behind in one partition and 9 in another; return its coordinator."""
    await world.topic("t", 2, message_timestamp_type="LogAppendTime")
    client = await world.client()
    await client.produce("t", batch(5), partition=0)
    await client.produce("t", batch(9), partition=1)
    await world.later(10)
    await client.produce("t", batch(1), partition=1)
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): 0, ("t", 1): 1})
    return coordinator


@one
async def test_group_shows_offsets_bytes_and_seconds_of_each_partition(world: World) -> None:
    """As of the scrape, and not of the last refresh: the commit was made a second ago."""
    await two_partitions(world)
    samples = await scrape(world)
    sizes = [world.partition(number=number).log.size_bytes for number in (0, 1)]

    for number, records, size_bytes in ((0, 5, sizes[0]), (1, 9, sizes[1])):
        labels = {"group": "g", "topic": "t", "partition": number}
        assert samples.of("syncline_group_lag_offsets", **labels, end="hw") == records
        assert samples.of("syncline_group_lag_bytes", **labels) == size_bytes
        assert samples.of("syncline_group_staleness_seconds", **labels) == pytest.approx(11.3, abs=0.5)
    assert samples.of("syncline_group_lag_offsets", group="g", end="leo") == 14
    assert samples.of("syncline_group_lag_offsets", group="g", end="lso") == 14
    assert samples.of("syncline_group_event_lag_seconds", group="g") == pytest.approx(10, abs=0.3)
    assert samples.of("syncline_group_commits_total", group="g") == 2
    assert samples.of("syncline_group_lag_age_seconds", group="g") == pytest.approx(0, abs=0.1)
    assert samples.of("syncline_group_unknown_partitions", group="g") == 0


@by_topic
async def test_group_shows_topics_if_configured(world: World) -> None:
    """Sums of offsets and bytes, and the longest wait."""
    await two_partitions(world)
    samples = await scrape(world)

    assert samples.of("syncline_group_lag_offsets", group="g", topic="t", end="hw") == 14
    assert samples.of("syncline_group_lag_bytes", group="g", topic="t") > 0
    assert len(samples.all_of("syncline_group_staleness_seconds")) == 1
    assert samples.of("syncline_group_staleness_seconds", group="g", topic="t") == pytest.approx(11.3, abs=0.5)


@by_group
async def test_group_shows_itself_alone_if_configured(world: World) -> None:
    """One sample per metric and end, and no histogram of a single topic or client."""
    await two_partitions(world)
    client = await world.client()
    await client.fetch("t", 0)
    samples = await scrape(world)

    assert samples.all_of("syncline_group_lag_offsets") == {("g", "hw"): 14, ("g", "lso"): 14, ("g", "leo"): 14}
    assert set(samples.all_of("syncline_group_lag_bytes")) == {("g",)}
    assert not samples.all_of("syncline_topic_fetch_lag_bytes_count")
    assert samples.of("syncline_fetch_lag_bytes_count", weight="fetch") == 1


@one
async def test_group_is_judged_at_each_refresh(world: World) -> None:
    """A commit per second, then nothing: STOP by Burrow's rule, which is ERR of the group, and never at that speed."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(100))
    coordinator = await coordinator_of(world, "g")
    for offset in range(0, 40, 2):
        await commit(world, coordinator, "g", {("t", 0): offset})
        await world.later(1)
    moving = await scrape(world)
    await world.later(60)
    stopped = await scrape(world)

    assert moving.of("syncline_group_status", group="g") == 1
    # 60 records left at two per second, as of up to 5 s ago.
    assert moving.of("syncline_group_catch_up_seconds", group="g") == pytest.approx(32, abs=6)
    assert stopped.of("syncline_group_status", group="g") == 3
    assert stopped.of("syncline_group_catch_up_seconds", group="g") > 100
    assert stopped.of("syncline_group_retention_margin_seconds", group="g") > 600_000
    assert stopped.of("syncline_group_lost_offsets_total", group="g") == 0


@one
async def test_group_that_has_read_everything_is_not_late_in_any_way(world: World) -> None:
    """And what comes then is seen at once, although nobody knew where it lies."""
    await world.topic(message_timestamp_type="LogAppendTime")
    client = await world.client()
    await client.produce("t", batch(4))
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): 4})
    await world.later(2 * REFRESH_MS / 1_000)
    read = await scrape(world)
    await client.produce("t", batch(3))
    behind = await scrape(world)
    labels = {"group": "g", "topic": "t", "partition": 0}

    assert read.of("syncline_group_lag_bytes", **labels) == read.of("syncline_group_staleness_seconds", **labels) == 0
    assert read.of("syncline_group_catch_up_seconds", group="g") == 0
    assert read.of("syncline_group_retention_margin_seconds", group="g") == inf
    assert behind.of("syncline_group_lag_offsets", **labels, end="hw") == 3
    assert behind.of("syncline_group_lag_bytes", **labels) > 0
    assert behind.of("syncline_group_staleness_seconds", **labels) == pytest.approx(1.1, abs=0.3)


@one
async def test_deleted_records_that_a_group_had_not_read_are_counted_once(world: World) -> None:
    """The counter stays when the group goes on behind the gap."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(10))
    await client.produce("t", batch(10))
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): 4})
    await world.later(2 * REFRESH_MS / 1_000)
    await delete_below(world, 10)
    await world.later(3 * REFRESH_MS / 1_000)
    lost = await scrape(world)
    await commit(world, coordinator, "g", {("t", 0): 12})
    await world.later(2 * REFRESH_MS / 1_000)
    later = await scrape(world)

    assert lost.of("syncline_group_lost_offsets_total", group="g") == 6
    assert lost.of("syncline_group_lag_offsets", group="g", topic="t", partition=0, end="hw") == 16
    assert later.of("syncline_group_lost_offsets_total", group="g") == 6


@one
async def test_group_whose_unread_records_are_deleted_is_not_late(world: World) -> None:
    """Offsets are left, and no record: no bytes, no seconds, and no status but OK."""
    await stopped_group(world)
    stopped = await scrape(world)
    await delete_below(world, 10)
    await world.later(2 * REFRESH_MS / 1_000)
    samples = await scrape(world)
    labels = {"group": "g", "topic": "t", "partition": 0}

    assert stopped.of("syncline_group_status", group="g") == 3
    assert samples.of("syncline_group_status", group="g") == 1
    assert samples.of("syncline_group_lag_offsets", **labels, end="hw") == 6
    assert samples.of("syncline_group_lag_bytes", **labels) == 0
    assert samples.of("syncline_group_staleness_seconds", **labels) == 0


@one
async def test_negative_commit_has_no_lag(world: World) -> None:
    """An offset that is none is not a lag of 0."""
    await world.topic()
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): -5})
    samples = await scrape(world)

    assert not samples.all_of("syncline_group_lag_offsets")


@one
async def test_l37_deleted_group_is_gone_with_the_next_scrape(world: World) -> None:
    """All of it, and no other group."""
    coordinator = await two_partitions(world)
    await commit(world, coordinator, "h", {("t", 0): 5})
    await world.later(2 * REFRESH_MS / 1_000)
    before = await scrape(world)
    client = await world.client(coordinator)
    answer = await client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g"])
    assert [int(each.error_code) for each in answer.results] == [ErrorCode.NONE]
    after = await scrape(world)

    assert len(names_of(before, "g")) == 11
    assert names_of(after, "g") == set()
    assert names_of(after, "h") == names_of(before, "h")


@three
async def test_leader_that_does_not_answer_leaves_what_it_said_last_with_its_age(world: World) -> None:
    """A scrape waits a third of a second for it, and no longer."""
    # Neither of the two is the controller, which would elect others.
    controller = world.broker().image.controller_id
    coordinators = {name: await coordinator_of(world, name) for name in ("g", "h", "i", "j")}
    group, coordinator = next(each for each in coordinators.items() if each[1] != controller)
    leader = next(each for each in (1, 2, 3) if each not in {coordinator, controller})
    await world.topic(replicas=(leader,))
    client = await world.client(leader)
    await client.produce("t", batch(7))
    await commit(world, coordinator, group, {("t", 0): 3})
    known = await scrape(world, coordinator)
    world.network.cut(f"broker-{coordinator}", f"broker-{leader}")
    began_ms = world.broker(coordinator).clock.mono_ms()
    late = await scrape(world, coordinator)
    took_ms = world.broker(coordinator).clock.mono_ms() - began_ms
    world.network.heal(f"broker-{coordinator}", f"broker-{leader}")

    labels = {"group": group, "topic": "t", "partition": 0, "end": "hw"}
    assert known.of("syncline_group_lag_offsets", **labels) == late.of("syncline_group_lag_offsets", **labels) == 4
    assert known.of("syncline_group_lag_age_seconds", group=group) < 0.1
    assert 1 < late.of("syncline_group_lag_age_seconds", group=group) < 3
    # A second of these passes before the page is asked for.
    assert took_ms < 1_100 + 2 * 300 + 200


@many
async def test_l37_scrape_of_many_groups_never_holds_the_loop_for_long(world: World) -> None:
    """What counts is calls in one turn of the loop; the benchmark `lag_scrape` has the times."""
    await world.topic("t", 50)
    client = await world.client()
    for number in range(50):
        await client.produce("t", batch(1), partition=number)
    coordinator = await coordinator_of(world, "g0")
    for group in range(40):
        await commit(world, coordinator, f"g{group}", {("t", number): 0 for number in range(50)})
    meter = world.loop.meter = CallMeter(frozenset({"broker-1"}))
    samples = await scrape(world)
    # And a refresh, which judges them all.
    await world.later(2 * REFRESH_MS / 1_000)
    world.loop.meter = None

    assert meter.calls_max < CALLS_MAX
    rows = {key: value for key, value in samples.all_of("syncline_group_lag_offsets").items() if key[-1] == "hw"}
    assert len(rows) == 40 * 50
    assert set(rows.values()) == {1}
    assert len(samples.all_of("syncline_group_lag_bytes")) == 40 * 50
