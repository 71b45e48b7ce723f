"""Progress samples: how far behind each follower is; an idle partition has none."""

import pytest

from syncline.model.events import Event, FollowerProgress
from syncline.model.ids import NONE
from syncline.node.observing.progress import FORGET_EVERY, ProgressSampler
from tests.node.wire_client import batch
from tests.node.world import World

# The interval is so long that only the test samples.
sampled = pytest.mark.brokers(3, journal_enable="true", journal_progress_interval_ms=3_600_000)


def sampler_of(world: World) -> ProgressSampler:
    """Return a sampler of the first broker."""
    broker = world.broker()
    return ProgressSampler(
        broker_id=broker.broker_id,
        clock=broker.clock,
        configs=broker.configs,
        partitions=broker.partitions,
        active=broker.isr_ticks.active,
        note=broker.journal.note,
    )


def samples(world: World, sampler: ProgressSampler) -> list[FollowerProgress]:
    """Sample once; return the samples."""
    noted: list[Event] = []
    world.broker().journal.on_event = noted.append
    for _ in sampler.sample():
        pass
    world.broker().journal.on_event = None
    return [event for event in noted if isinstance(event, FollowerProgress)]


@sampled
async def test_progress_tells_of_each_follower_when_records_came(world: World) -> None:
    """Numbers as of the end of the interval."""
    await world.topic(replicas=(1, 2, 3))
    sampler = sampler_of(world)
    client = await world.client()
    await client.produce("t", batch(5))
    await world.until(lambda: world.partition(2).high_watermark == world.partition(3).high_watermark == 5)
    found = samples(world, sampler)

    assert sorted(each.follower for each in found) == [2, 3]
    assert {(each.log_end, each.follower_log_end, each.lag_records, each.lag_ms) for each in found} == {(5, 5, 0, 0)}
    assert all(each.in_sync and each.topic == "t" and each.high_watermark == 5 for each in found)


@sampled
async def test_progress_is_silent_when_nothing_moves(world: World) -> None:
    """An idle cluster journals nothing: neither an empty partition nor one that all replicas have."""
    await world.topic(replicas=(1, 2, 3))
    await world.until(lambda: all(each.log_end == 0 for each in world.partition().leader.followers))
    sampler = sampler_of(world)
    never = samples(world, sampler)
    await (await world.client()).produce("t", batch())
    first = samples(world, sampler)
    again = samples(world, sampler)

    assert (len(never), len(first), len(again)) == (0, 2, 0)


@sampled
async def test_progress_goes_on_when_a_follower_is_behind(world: World) -> None:
    """Although nothing is appended any more, its lag grows with time; one last sample says that it caught up."""
    await world.topic(replicas=(1, 2))
    sampler = sampler_of(world)
    client = await world.client()
    await client.produce("t", batch())
    samples(world, sampler)
    world.network.cut("broker-2", "broker-1")
    await world.later(0.6)
    await client.produce("t", batch(4), acks=1)
    await world.later(0.2)
    (early,) = samples(world, sampler)
    await world.later(0.5)
    (late,) = samples(world, sampler)
    world.network.heal("broker-2", "broker-1")
    await world.until(lambda: world.partition().high_watermark == 5)
    (last,) = samples(world, sampler)
    after = samples(world, sampler)

    assert (early.lag_records, late.lag_records, last.lag_records) == (4, 4, 0)
    assert 0 < early.lag_ms
    assert 450 <= late.lag_ms - early.lag_ms <= 550
    assert last.lag_ms == 0
    assert after == []


@sampled
async def test_progress_is_told_by_the_leader_only_when_there_are_followers(world: World) -> None:
    """A follower samples nothing, nor does the leader of a partition without followers."""
    await world.topic("led", replicas=(2, 1))
    await world.topic("alone", replicas=(1,))
    for broker_id, name in ((2, "led"), (1, "alone")):
        await (await world.client(broker_id)).produce(name, batch())

    assert samples(world, sampler_of(world)) == []


@sampled
async def test_progress_forgets_what_is_not_led_here_any_more(world: World) -> None:
    """Topics come and go; after some samplings nothing is kept of those that went."""
    await world.topic(replicas=(1, 2))
    sampler = sampler_of(world)
    await (await world.client()).produce("t", batch())
    samples(world, sampler)
    known = len(sampler)
    await world.delete_topic("t")
    for _ in range(FORGET_EVERY):
        samples(world, sampler)

    assert (known, len(sampler)) == (1, 0)


@sampled
async def test_a_partition_that_was_led_elsewhere_meanwhile_has_no_inflow(world: World) -> None:
    """What another leader appended came at an unknown time."""
    await world.topic(replicas=(1, 2))
    sampler = sampler_of(world)
    client = await world.client()
    await client.produce("t", batch())
    samples(world, sampler)
    await client.produce("t", batch(2))
    (known,) = samples(world, sampler)
    world.call(1, world.partition().resign)
    world.call(1, world.partition().lead, world.broker().image.partition("t", 0), world.broker().clock.mono_ms())
    await client.produce("t", batch(3))
    (unknown,) = samples(world, sampler)

    assert (known.log_end, known.inflow_records) == (3, 2)
    assert (unknown.log_end, unknown.inflow_records, unknown.inflow_bytes) == (6, NONE, NONE)


@sampled
async def test_a_leadership_that_came_back_is_sampled_once(world: World) -> None:
    """The next tick has not judged the past one yet, and a follower lags under the present one."""
    await world.topic(replicas=(1, 2))
    sampler = sampler_of(world)
    client = await world.client()
    await client.produce("t", batch())
    samples(world, sampler)
    world.call(1, world.partition().resign)
    world.call(1, world.partition().lead, world.broker().image.partition("t", 0), world.broker().clock.mono_ms())
    world.kill(2)
    await client.produce("t", batch(3), acks=1)

    assert [(each.log_end, each.inflow_records) for each in samples(world, sampler)] == [(4, NONE)]
    assert [(each.log_end, each.inflow_records) for each in samples(world, sampler)] == [(4, 0)]


@sampled
async def test_sampling_many_partitions_is_divided_into_steps_and_quiet_ones_are_not_looked_at(world: World) -> None:
    """Ten thousand partitions take too long for one callback, and too long for every second."""
    await world.topic(partitions=100, replicas=(1, 2))
    led = [each.leader for each in world.broker().partitions.values() if each.leader is not None]
    await world.until(lambda: all(each.log_end == 0 for leader in led for each in leader.followers))
    sampler = sampler_of(world)
    first = sum(1 for _ in sampler.sample())
    world.call(1, world.broker().isr_ticks.tick)
    world.broker().isr_ticks.active()
    again = sum(1 for _ in sampler.sample())

    assert first == len(world.broker().partitions) >= 50
    assert not any(leader.is_ticked for leader in led)
    assert again == 0
