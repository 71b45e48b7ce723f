"""Observations: brokers report unusual conditions with their numbers, and nothing in ordinary operation."""

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.events import Event, Observation, Watermark
from tests.node.test_elections import PREFERRED, elect
from tests.node.wire_client import batch
from tests.node.world import World

observed = pytest.mark.brokers(
    3, journal_enable="true", replica_lag_time_max_ms=1_500, journal_progress_interval_ms=3_600_000
)


class Ears:
    """All events that brokers journal from now on, by broker."""

    def __init__(self, world: World) -> None:
        self.noted: dict[int, list[Event]] = {}
        for broker_id in world.living():
            journal = world.broker(broker_id).journal
            mine = self.noted.setdefault(broker_id, [])
            journal.on_event = mine.append

    def of(self, kind: str, writer: int | None = None) -> list[Observation]:
        """Return the observations of a kind."""
        return [
            event
            for broker_id, events in self.noted.items()
            for event in events
            if isinstance(event, Observation) and event.kind == kind and writer in (None, broker_id)
        ]

    def last(self, kind: str, writer: int) -> Observation:
        """Return the last observation of a kind by one broker."""
        return self.of(kind, writer)[-1]

    def all(self) -> list[Observation]:
        """Return every observation."""
        return [event for events in self.noted.values() for event in events if isinstance(event, Observation)]


def controller_of(world: World) -> int:
    """Return the controller."""
    return next(each for each in world.living() if world.broker(each).controller.active is not None)


def two_others(world: World) -> tuple[int, int]:
    """Return two brokers other than the controller."""
    first, second = (each for each in world.living() if each != controller_of(world))
    return first, second


@observed
async def test_nothing_is_observed_when_nothing_is_unusual(world: World) -> None:
    """Produces, fetches and long polls of ten seconds are no observation."""
    await world.topic(replicas=(1, 2, 3))
    ears = Ears(world)
    client = await world.client()
    for _ in range(10):
        await client.produce("t", batch())
        await world.later(1)

    assert ears.all() == []


@observed
async def test_stall_is_told_by_whoever_stood_still_when_it_goes_on(world: World) -> None:
    """With its start and length; the broker reports no silence of others in that time."""
    follower, leader = two_others(world)
    await world.topic(replicas=(leader, follower, controller_of(world)))
    await world.later(2)
    ears = Ears(world)
    world.cluster.pause(world.host(follower))
    await world.later(2.5)
    world.cluster.resume(world.host(follower))
    await world.later(1.5)
    (stall,) = ears.of("stall")

    assert (stall.broker, stall.subject, stall.phase) == (follower, follower, "end")
    assert 1_500 <= stall.lasted_ms <= 2_500
    assert ears.of("leader-silent", follower) == []


@observed
async def test_paused_follower_is_missed_and_its_beats_are_not_heard(world: World) -> None:
    """Its leader reports since when, beats in vain, and reports that it is back."""
    follower, leader = two_others(world)
    await world.topic(replicas=(leader, follower))
    await (await world.client(leader)).produce("t", batch())
    await world.later(1)
    ears = Ears(world)
    world.cluster.pause(world.host(follower))
    await world.later(5)
    world.cluster.resume(world.host(follower))
    await world.later(2)
    silences = ears.of("follower-silent", leader)

    assert [silences[0].phase, silences[-1].phase] == ["begin", "end"]
    assert {each.subject for each in silences} == {follower}
    assert silences[-1].evidence["beats_heard"] == 0
    assert silences[-1].evidence["beats_sent"] >= 8
    assert 4_000 <= silences[-1].lasted_ms <= 6_500
    assert len({each.since_ms for each in silences}) == 1


@observed
@pytest.mark.parametrize("ways", ["both", "to the leader", "to the follower"])
async def test_beats_tell_which_way_a_line_is_cut(world: World, ways: str) -> None:
    """Each end gets the other's beats exactly when that direction of the connection works."""
    follower, leader = two_others(world)
    await world.topic(replicas=(leader, follower))
    await (await world.client(leader)).produce("t", batch())
    await world.later(1)
    ears = Ears(world)
    if ways != "to the follower":
        world.network.cut(f"broker-{follower}", f"broker-{leader}")
    if ways != "to the leader":
        world.network.cut(f"broker-{leader}", f"broker-{follower}")
    await world.later(5)
    by_leader, by_follower = ears.last("follower-silent", leader), ears.last("leader-silent", follower)
    if ways != "to the follower":
        world.network.heal(f"broker-{follower}", f"broker-{leader}")
    if ways != "to the leader":
        world.network.heal(f"broker-{leader}", f"broker-{follower}")
    await world.later(3)

    assert bool(by_leader.evidence["beats_heard"]) == (ways == "to the follower")
    assert bool(by_follower.evidence["beats_heard"]) == (ways == "to the leader")
    assert ears.last("leader-silent", follower).phase == "end"


@observed
async def test_leader_is_missed_since_it_is_followed_again(world: World) -> None:
    """Guards: silent "since" it had died long before, although nobody had followed it meanwhile.

    Nobody connects to a broker that leads nothing, so nobody finds out that it is back.
    """
    follower, leader = two_others(world)
    await world.topic(replicas=(leader, follower))
    world.kill(leader)
    await world.until(lambda: world.partition(follower).is_leader)
    await world.start(leader)
    await world.until(lambda: len(world.partition(follower).isr) == 2)
    await world.later(20)
    ears = Ears(world)
    world.network.cut(f"broker-{follower}", f"broker-{leader}")
    assert await elect(await world.client(controller_of(world)), PREFERRED) is ErrorCode.NONE
    await world.later(3)
    missed = ears.of("leader-silent", follower)[0]
    world.network.heal(f"broker-{follower}", f"broker-{leader}")
    await world.later(3)

    assert (missed.subject, missed.phase) == (leader, "begin")
    assert missed.lasted_ms <= 3_000


@observed
async def test_read_is_told_while_it_lasts_with_the_follower_that_waits(world: World) -> None:
    """The follower misses its leader, and hears that it lives; the leader does not miss the follower."""
    follower, leader = two_others(world)
    await world.topic(replicas=(leader, follower))
    ears = Ears(world)
    world.slow_disk(leader, 4_000)
    await (await world.client(leader)).produce("t", batch(), acks=1)
    await world.later(3)
    told = ears.of("slow-disk", leader)
    heard = ears.last("leader-silent", follower)
    world.slow_disk(leader, 0)
    await world.later(3)

    assert told[0].phase == "begin"
    assert told[0].evidence["is_under_way"] is True
    assert {"op": "read", "for_replica": follower}.items() <= told[0].evidence.items()
    assert (told[0].topic, told[0].partition) == ("t", 0)
    assert heard.evidence["beats_heard"] > 0
    assert ears.of("follower-silent", leader) == []
    assert ears.last("slow-disk", leader).phase == "end"


@observed
async def test_controller_is_told_to_be_unreachable_by_whoever_asks_it(world: World) -> None:
    """And the controller reports the gap between heartbeats, before it fences."""
    broker, _ = two_others(world)
    controller = controller_of(world)
    ears = Ears(world)
    world.network.cut(f"broker-{broker}", f"broker-{controller}")
    world.network.cut(f"broker-{controller}", f"broker-{broker}")
    await world.later(6)
    world.network.heal(f"broker-{broker}", f"broker-{controller}")
    world.network.heal(f"broker-{controller}", f"broker-{broker}")
    await world.later(5)
    told = ears.of("controller-unreachable", broker)

    assert [told[0].phase, told[-1].phase] == ["begin", "end"]
    assert told[0].subject == controller
    assert ears.of("heartbeat-gap", controller)[0].subject == broker
    assert ears.of("controller-unreachable", controller) == []


@observed
async def test_metadata_is_told_to_be_late_by_the_controller(world: World) -> None:
    """A broker that heartbeats, and whose polls for metadata do not come."""
    broker, other = two_others(world)
    controller = controller_of(world)
    ears = Ears(world)
    stream = world.broker(broker).controller.link.connections[1].transport
    stream.pause_reading()
    await _create(world, other, "late")
    await world.later(3)
    begin = ears.of("metadata-late", controller)[0]
    stream.resume_reading()
    await world.later(3)

    assert (begin.subject, begin.phase) == (broker, "begin")
    assert begin.evidence["applied_version"] < begin.evidence["committed_version"]
    assert ears.last("metadata-late", controller).phase == "end"


@observed
async def test_empty_log_of_an_old_partition_is_told_to_be_filled(world: World) -> None:
    """With its start, its end, and how fast; a new topic's logs are not reported."""
    follower, leader = two_others(world)
    await world.topic(replicas=(leader, follower))
    client = await world.client(leader)
    for _ in range(20):
        await client.produce("t", batch(10))
    ears = Ears(world)
    partition = world.partition(follower)
    key = partition.key

    def lose() -> None:
        broker = world.broker(follower)
        broker.replicas.drop(partition, broker.clock.mono_ms())
        again = broker.replicas.host(key, broker.clock.mono_ms())
        again.is_fresh = True
        broker.replicas.follow(again, broker.image.partition(key.topic, key.partition))
        broker.replicas.fetchers.go()

    world.call(follower, lose)
    await world.later(2)
    told = ears.of("catching-up", follower)

    assert [each.phase for each in told] == ["begin", "end"]
    assert {"leader": leader, "log_start": 0, "log_end": 200, "leader_end": 200}.items() <= told[-1].evidence.items()


@observed
async def test_log_that_is_filled_is_spoken_of_no_more_when_its_leader_changes(world: World) -> None:
    """What began under one leader ends with it, and begins anew with the next; nothing is left open for ever."""
    follower, leader = two_others(world)
    await world.topic(replicas=(leader, follower))
    partition = world.partition(follower)
    broker = world.broker(follower)
    fetcher = broker.replicas.fetchers.by_leader[leader]
    ears = Ears(world)

    def change() -> None:
        fetcher.remove(partition)
        partition.is_fresh = True
        fetcher.add(partition)
        assert broker.observer.catching_up(partition, broker.clock.mono_ms(), leader, 100)
        fetcher.remove(partition)

    world.call(follower, change)

    assert [each.phase for each in ears.of("catching-up", follower)] == ["begin", "end"]
    assert partition.is_fresh
    assert not broker.observer.episodes.is_open(("catching-up", partition.key))


@pytest.mark.brokers(3, journal_enable="true", replica_lag_time_max_ms=1_500, broker_session_timeout_ms=60_000)
async def test_proposal_without_an_answer_is_told_with_its_age(world: World) -> None:
    """A leader that wants to shrink the ISR, over connections that return no answer."""
    follower, leader = two_others(world)
    controller = controller_of(world)
    await world.topic(replicas=(leader, follower))
    client = await world.client(leader)
    await client.produce("t", batch())
    ears = Ears(world)
    ways = [each.transport for each in world.broker(leader).controller.link.connections]
    for way in ways:
        way.pause_reading()
    world.network.cut(f"broker-{follower}", f"broker-{leader}")
    await client.produce("t", batch(), acks=1)
    await world.later(6)
    told = ears.of("proposal-pending", leader)
    for way in ways:
        way.resume_reading()
    world.network.heal(f"broker-{follower}", f"broker-{leader}")
    await world.later(2)

    assert {"change": "shrink", "isr": [leader, follower], "proposed": [leader]}.items() <= told[0].evidence.items()
    assert (told[0].topic, told[0].partition, told[0].subject) == ("t", 0, controller)
    assert ears.last("proposal-pending", leader).phase == "end"


@observed
async def test_held_watermark_is_journalled_with_its_holder(world: World) -> None:
    """Begin and end of a stall, with the rule and the replica that it waits for."""
    follower, leader = two_others(world)
    await world.topic(replicas=(leader, follower))
    client = await world.client(leader)
    await client.produce("t", batch())
    ears = Ears(world)
    world.cluster.pause(world.host(follower))
    await client.produce("t", batch(), acks=1)
    await world.later(4)
    world.cluster.resume(world.host(follower))
    await world.later(2)
    marks = [event for event in ears.noted[leader] if isinstance(event, Watermark)]

    assert [each.phase for each in marks] == ["held", "resumed"]
    assert (marks[0].rule, marks[0].evidence["holders"]) == ("held:isr-member", str(follower))
    assert marks[0].ts_ms - marks[0].since_ms == marks[0].lasted_ms


@observed
async def test_status_of_partitions_tells_lags_and_the_time_left(world: World) -> None:
    """The data of `syncline isr`: a follower with everything has no time limit, for one that lags it runs down."""
    from syncline.node.hosting.partition_status import peers, show

    follower, leader = two_others(world)
    await world.topic(replicas=(leader, follower))
    client = await world.client(leader)
    await client.produce("t", batch(5))
    (even,) = show(world.broker(leader), {"topic": "t"})["partitions"]
    world.cluster.pause(world.host(follower))
    await world.later(0.6)
    await client.produce("t", batch(7), acks=1)
    await world.later(0.3)
    (behind,) = show(world.broker(leader), {"topic": "t", "partition": 0})["partitions"]
    seen = peers(world.broker(leader), {})
    world.cluster.resume(world.host(follower))

    assert [(each["lag_records"], each["lag_bytes"], each["left_ms"]) for each in even["followers"]] == [(0, 0, None)]
    (late,) = behind["followers"]
    assert late["lag_records"] == 7
    assert late["lag_bytes"] > 70
    assert 0 < late["left_ms"] < 1_500
    assert late["lag_ms"] + late["left_ms"] == 1_500
    assert (behind["isr"], behind["log_end"], behind["high_watermark"]) == ([leader, follower], 12, 5)
    assert show(world.broker(follower), {"topic": "t"})["partitions"] == []
    assert [each["broker"] for each in seen["followers"]] == [follower]


async def _create(world: World, broker_id: int, name: str) -> None:
    channel = world.broker(broker_id).controller
    await world.as_broker(broker_id, channel.create_topics([name], 1, 3, {}))
