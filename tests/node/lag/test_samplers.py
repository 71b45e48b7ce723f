"""Consumer lag in the journal: samples while something moves, a decision when a status changes, else nothing."""

import pytest

from syncline.core.lag.buckets import BYTES
from syncline.model.events import Event, to_json
from syncline.model.ids import JOURNAL_TOPIC, BrokerId
from syncline.model.lag_events import FetchLagSample, GroupLagSample, GroupStatusChange
from syncline.node.clock import SystemClock
from syncline.node.lag import fetch_sampler, group_sampler
from syncline.node.lag.fetch_lag import FetchLag
from syncline.node.lag.fetch_sampler import FetchLagSampler
from syncline.storage.arrivals.read_facts import ReadFacts
from tests.node.lag.groups import commit, coordinator_of, join
from tests.node.wire_client import at, batch
from tests.node.world import World

EVERY_SECOND = {"journal_enable": "true", "journal_group_lag_interval_ms": 1_000}
sampled = pytest.mark.brokers(1, offsets_topic_num_partitions=1, **EVERY_SECOND)


def listen(world: World) -> list[Event]:
    """Return what all brokers note from now on."""
    noted: list[Event] = []
    for broker_id in world.living():
        world.broker(broker_id).journal.on_event = noted.append
    return noted


def groups_of(noted: list[Event]) -> list[GroupLagSample]:
    """Return the samples of groups."""
    return [event for event in noted if isinstance(event, GroupLagSample)]


def fetches_of(noted: list[Event]) -> list[FetchLagSample]:
    """Return the samples of fetches."""
    return [event for event in noted if isinstance(event, FetchLagSample)]


def changes_of(noted: list[Event]) -> list[tuple[str, str]]:
    """Return the changes of statuses."""
    return [(each.status_before, each.status_after) for each in noted if isinstance(each, GroupStatusChange)]


def sampler_of(lag: FetchLag, noted: list[FetchLagSample]) -> FetchLagSampler:
    """Return a sampler of these counts."""
    return FetchLagSampler(broker_id=BrokerId(1), clock=SystemClock(), lag=lag, interval_ms=1_000, note=noted.append)


def read(lag: FetchLag, topic: str, behind_bytes: int, size_bytes: int, client: str = "c", append_ms: int = 0) -> None:
    """Count one fetch."""
    facts = ReadFacts(behind_bytes, 0, 1_000, append_ms, 5_000, is_estimated=False)
    lag.reader(client, "127.0.0.1").cell(topic).note(facts, 1_000, size_bytes, 2_000)


def test_samples_of_fetches_add_up_to_what_was_counted() -> None:
    """Two clients, three intervals; an interval in which a topic was not read has no sample of it."""
    lag, noted = FetchLag(), list[FetchLagSample]()
    sampler = sampler_of(lag, noted)
    read(lag, "t", 4_096, 100)
    read(lag, "t", 4_097, 10, client="d")
    read(lag, "u", 0, 7, append_ms=-1)
    list(sampler.sample())
    read(lag, "t", 4_096, 1)
    read(lag, "t", BYTES.bound(BYTES.bound_count - 1) + 1, 2)
    list(sampler.sample())
    list(sampler.sample())

    first, unknown, second = noted
    assert (first.topic, first.fetches, first.read_bytes, first.unknown_age_bytes) == ("t", 2, 110, 0)
    assert first.behind_bytes == (
        {"up_to": 4_096, "fetches": 1, "bytes": 100},
        {"up_to": 8_192, "fetches": 1, "bytes": 10},
    )
    assert first.age_ms == ({"up_to": 2_048, "fetches": 2, "bytes": 110},)
    assert first.distance_bytes == ({"up_to": 8_192, "fetches": 2, "bytes": 110},)
    assert (unknown.topic, unknown.fetches, unknown.age_ms, unknown.unknown_age_bytes) == ("u", 1, (), 7)
    assert second.behind_bytes == (
        {"up_to": 4_096, "fetches": 1, "bytes": 1},
        {"up_to": -1, "fetches": 1, "bytes": 2},
    )


def test_topics_beyond_a_bound_share_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those told apart first stay so, whichever comes first later."""
    monkeypatch.setattr(fetch_sampler, "TOPICS_MAX", 1)
    lag, noted = FetchLag(), list[FetchLagSample]()
    sampler = sampler_of(lag, noted)
    for _ in range(2):
        for topic, size_bytes in (("b", 1), ("a", 10), ("c", 100)):
            read(lag, topic, 0, size_bytes)
        list(sampler.sample())

    assert [(each.topic, each.read_bytes) for each in noted] == [("b", 1), ("", 110)] * 2


@sampled
async def test_fetches_are_sampled_and_those_of_the_journal_are_not(world: World) -> None:
    """A consumer that follows the journal would else cause a record in each interval for ever."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(3))
    await world.until(lambda: JOURNAL_TOPIC in world.broker().image.topics)
    noted = listen(world)
    await world.later(2)
    never = fetches_of(noted)
    await client.fetch("t")
    await client.fetched(client.send_fetch({JOURNAL_TOPIC: [at(0)]}))
    await world.later(3)

    assert never == []
    (only,) = fetches_of(noted)
    size_bytes = world.partition().log.size_bytes
    assert (only.topic, only.broker, only.interval_ms) == ("t", 1, 1_000)
    assert (only.fetches, only.read_bytes) == (1, size_bytes)
    assert only.behind_bytes == ({"up_to": 4_096, "fetches": 1, "bytes": size_bytes},)


@sampled
async def test_group_is_sampled_while_it_moves_and_not_at_rest(world: World) -> None:
    """Sums and rows are those of the verb; once it has caught up and nobody writes, nothing is written any more."""
    await world.topic("t", 2)
    client = await world.client()
    coordinator = await coordinator_of(world, "g")
    noted = listen(world)
    await client.produce("t", batch(10))
    await commit(world, coordinator, "g", {("t", 0): 4, ("t", 1): 0})
    await world.later(1)
    await commit(world, coordinator, "g", {("t", 0): 10})
    await world.later(1)
    moving = groups_of(noted)
    await world.later(10)

    behind, even = moving
    assert (behind.group, behind.state, behind.members) == ("g", "Empty", 0)
    assert (behind.partitions, behind.missing, behind.lag_records, behind.lost) == (2, 0, 6, 0)
    assert behind.lag_bytes == world.partition().log.size_bytes
    assert 0 < behind.staleness_ms <= 1_000
    assert [(each["partition"], each["committed"], each["end"], each["lag_bytes"]) for each in behind.rows] == [
        (0, 4, 10, behind.lag_bytes),
        (1, 0, 0, 0),
    ]
    assert (even.lag_records, even.lag_bytes, even.staleness_ms) == (0, 0, 0)
    assert even.interval_ms == 1_000
    assert groups_of(noted) == moving


@pytest.mark.brokers(1, offsets_topic_num_partitions=1, lag_status_min_window_ms=10_000, **EVERY_SECOND)
async def test_group_that_stops_is_a_decision_with_its_numbers(world: World) -> None:
    """It is told once, with the rule and the cause, also if nothing moves; and again when the group has caught up."""
    await world.topic()
    client = await world.client()
    coordinator = await coordinator_of(world, "g")
    noted = listen(world)
    await client.produce("t", batch(40))
    for number in range(1, 4):
        await commit(world, coordinator, "g", {("t", 0): 10 * number})
        await world.later(4)
    assert changes_of(noted) == []
    await world.later(60)
    stopped = changes_of(noted)
    (change,) = (event for event in noted if isinstance(event, GroupStatusChange))
    await commit(world, coordinator, "g", {("t", 0): 40})
    await world.later(2)

    assert stopped == [("OK", "ERR")]
    assert (change.group, change.topic, change.partition) == ("g", "t", 0)
    assert (change.evidence["rule"], change.evidence["lag"]) == ("stopped", 10)
    assert [each["cause"] for each in change.findings] == ["no-members"]
    assert changes_of(noted) == [("OK", "ERR"), ("ERR", "OK")]
    assert b"Infinity" not in to_json(change)


@sampled
async def test_many_groups_take_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval measures no more than its allowance; a large group is paid for by the intervals after it."""
    monkeypatch.setattr(group_sampler, "ROWS_PER_S", 4)
    monkeypatch.setattr(group_sampler, "GROUPS_AT_ONCE", 1)
    await world.topic("t", 8)
    coordinator = await coordinator_of(world, "a")
    noted = listen(world)
    await commit(world, coordinator, "a", {("t", partition): 0 for partition in range(8)})
    for name in ("b", "c", "d"):
        await commit(world, coordinator, name, {("t", 0): 0})
    await world.later(0.9)
    begun_ms = world.broker().clock.wall_ms()
    await world.later(6)

    found = [(each.group, round((each.ts_ms - begun_ms) / 1_000)) for each in groups_of(noted)]
    assert [name for name, _ in found] == ["a", "b", "c", "d"]
    (_, first_s), *others = found
    assert [at_s - first_s for _, at_s in others] == [2, 2, 2]


@sampled
async def test_group_with_many_partitions_names_those_with_the_largest_lag(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums are over all of them."""
    monkeypatch.setattr(group_sampler, "ROWS_MAX", 2)
    await world.topic("t", 4)
    client = await world.client()
    coordinator = await coordinator_of(world, "g")
    noted = listen(world)
    for partition, count in enumerate((3, 9, 1, 5)):
        await client.produce("t", batch(count), partition=partition)
    await commit(world, coordinator, "g", {("t", partition): 0 for partition in range(4)})
    await world.later(2)

    (only,) = groups_of(noted)
    assert (only.partitions, only.lag_records) == (4, 18)
    assert [(each["partition"], each["end"]) for each in only.rows] == [(1, 9), (3, 5)]


@sampled
async def test_group_that_reads_the_journal_causes_no_records_there(world: World) -> None:
    """Its own samples would move the end that it is behind."""
    await world.topic()
    coordinator = await coordinator_of(world, "g")
    await world.until(lambda: JOURNAL_TOPIC in world.broker().image.topics)
    noted = listen(world)
    await commit(world, coordinator, "g", {(JOURNAL_TOPIC, 0): 0})
    await world.later(5)

    assert groups_of(noted) == []


@pytest.mark.brokers(3, offsets_topic_num_partitions=1, **EVERY_SECOND)
async def test_sample_without_a_leader_says_what_is_missing(world: World) -> None:
    """Sums are over the rest, and the status is not judged by it."""
    await world.topic("t", replicas=(1,))
    await world.topic("u", replicas=(2,))
    for broker_id, topic in ((1, "t"), (2, "u")):
        await (await world.client(broker_id)).produce(topic, batch(10))
    coordinator = await coordinator_of(world, "g")
    victim, topic = next((each, name) for each, name in ((1, "t"), (2, "u")) if each != coordinator)
    await commit(world, coordinator, "g", {("t", 0): 4, ("u", 0): 4})
    await world.later(3)
    noted = listen(world)
    world.kill(victim)
    await world.until(lambda: groups_of(noted))

    (missing,) = groups_of(noted)
    assert (missing.partitions, missing.missing, missing.lag_records) == (1, 1, 6)
    assert [each["topic"] for each in missing.rows] == ["u" if topic == "t" else "t"]


@pytest.mark.brokers(1, offsets_topic_num_partitions=1, journal_group_lag_interval_ms=1_000)
async def test_nothing_is_sampled_without_a_journal(world: World) -> None:
    """Nobody would read it."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(10))
    coordinator = await coordinator_of(world, "g")
    await join(world, coordinator, "g", "t", 0)
    await client.fetch("t")
    noted = listen(world)
    await commit(world, coordinator, "h", {("t", 0): 4})
    await world.later(5)

    assert (groups_of(noted), fetches_of(noted)) == ([], [])
