"""Many new partitions are hosted in slices; the next image waits for them, and so does what the controller hears."""

import asyncio
from collections.abc import Callable

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.hosting.arrivals import PARTITIONS_PER_SLICE
from syncline.node.hosting.image_application import APPLIED_AT_ONCE
from tests.node.wire_client import batch
from tests.node.world import World

MANY = 5 * PARTITIONS_PER_SLICE + 1


def hosted(world: World, topic: str = "t") -> int:
    """Return how many partitions of a topic the second broker hosts."""
    return sum(key.topic == topic for key in world.broker(2).partitions)


def watch(world: World, look: Callable[[], None]) -> None:
    """Look after each slice in which the second broker hosts partitions."""
    arriving = world.broker(2)._images._arriving
    on_hosted = arriving._on_hosted

    def looked() -> None:
        on_hosted()
        look()

    arriving._on_hosted = looked


class Slowly:
    """A loop whose turns are a fifth of a second apart."""

    def __init__(self, world: World) -> None:
        self.loop = world.loop

    def call_soon(self, callback: Callable[..., object], *args: object) -> object:
        """Call back in a fifth of a second."""
        return self.loop.call_later(0.2, callback, *args)


def slow_down(world: World) -> None:
    """Let time pass between the slices of the second broker: other things happen meanwhile."""
    world.broker(2)._images._arriving._loop = Slowly(world)  # type: ignore[assignment]


@pytest.mark.brokers(3)
async def test_many_new_partitions_are_hosted_in_slices(world: World) -> None:
    """No callback hosts more than a slice, and at the end each broker has all of them, in the image's roles."""
    sizes = [0]
    watch(world, lambda: sizes.append(hosted(world)))
    await world.topic(partitions=MANY, replicas=(1, 2, 3))
    await world.until(lambda: all(len(world.broker(each).partitions) == MANY for each in (1, 2, 3)))

    assert sizes == [*range(0, MANY, PARTITIONS_PER_SLICE), MANY]
    image = world.broker(2).image
    for number in range(MANY):
        record = image.partition("t", number)
        assert record is not None
        assert world.partition(record.leader, number=number).is_leader
    last = image.partition("t", MANY - 1)
    assert last is not None
    client = await world.client(last.leader)
    answer = await client.produce("t", batch(), partition=MANY - 1)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)


@pytest.mark.interpreted
@pytest.mark.brokers(3)
async def test_many_partitions_change_their_roles_in_slices(world: World) -> None:
    """Guards: the loss of a broker with thousands of partitions held the others' loops for a third of a second."""
    await world.topic(partitions=MANY, replicas=(1, 2, 3))
    await world.until(lambda: all(len(world.broker(each).partitions) >= MANY for each in (1, 2, 3)))
    images = world.broker(2)._images
    assign, assigned, slices = images._assign, [0], []
    watch(world, lambda: slices.append(assigned[0]))

    def counted(key: TopicPartition, now_ms: int) -> None:
        assigned[0] += 1
        assign(key, now_ms)

    images._assign = counted  # type: ignore[method-assign]
    world.kill(3)
    await world.until(lambda: all(_is_led_by(world, number, (1, 2)) for number in range(MANY)))

    assert max(after - before for before, after in zip([0, *slices], slices, strict=False)) == PARTITIONS_PER_SLICE
    assert assigned[0] >= MANY
    client = await world.client(2)
    (mine, *_) = (number for number in range(MANY) if _is_led_by(world, number, (2,)))
    assert (await client.produce("t", batch(), partition=mine)).error_code == ErrorCode.NONE


def _is_led_by(world: World, number: int, brokers: tuple[int, ...]) -> bool:
    """Return whether a partition is led by one of these, as this one knows itself."""
    record = world.broker(2).image.partition("t", number)
    assert record is not None
    return record.leader in brokers and world.partition(record.leader, number=number).is_leader


@pytest.mark.interpreted
@pytest.mark.brokers(3)
@pytest.mark.parametrize("stops", [False, True])
async def test_an_image_with_a_large_topic_is_applied_in_a_turn_of_its_own(world: World, stops: bool) -> None:
    """To read it took one; a broker that stops between the two applies nothing."""
    slow_down(world)
    creation = asyncio.ensure_future(world.topic(partitions=APPLIED_AT_ONCE + 1, replicas=(1, 2, 3)))
    await world.until(lambda: "t" in world.broker(2).controller.image.topics)
    assert "t" not in world.broker(2).image.topics
    if stops:
        world.call(2, world.broker(2)._images.close)
    await world.later(3)

    assert ("t" in world.broker(2).image.topics) is not stops
    assert hosted(world) == (0 if stops else APPLIED_AT_ONCE + 1)
    creation.cancel()


@pytest.mark.brokers(3)
async def test_few_new_partitions_are_hosted_with_their_image(world: World) -> None:
    """A broker that has an image with a small topic hosts its part."""
    await world.topic(partitions=PARTITIONS_PER_SLICE, replicas=(1, 2, 3))

    for broker_id in (1, 2, 3):
        assert sum(key.topic == "t" for key in world.broker(broker_id).partitions) == PARTITIONS_PER_SLICE


@pytest.mark.interpreted
@pytest.mark.brokers(3)
async def test_the_next_image_waits_for_partitions_that_arrive(world: World) -> None:
    """While partitions are missing, the broker takes no newer metadata, and reports none as applied."""
    slow_down(world)
    channel = world.broker(2).controller
    before = channel._stream.applied_version
    await world.topic(partitions=MANY, replicas=(1, 2, 3))
    await world.until(lambda: hosted(world))
    created = asyncio.ensure_future(world.topic("u", replicas=(1, 2, 3)))
    await world.until(lambda: "u" in world.broker(1).image.topics)
    for _ in range(3):
        world.call(2, channel._stream.poll)
        await world.later(0.2)
        assert 0 < hosted(world) < MANY
        assert "u" not in world.broker(2).image.topics
        assert channel.membership._heartbeat().current_metadata_offset == before
    await created

    assert hosted(world) == MANY
    assert channel.membership._heartbeat().current_metadata_offset == world.broker(2).image.version > before


@pytest.mark.interpreted
@pytest.mark.brokers(3)
async def test_a_controller_that_dies_meanwhile_is_followed_when_all_have_arrived(world: World) -> None:
    """The new stream of metadata asks once, after the last partition."""
    slow_down(world)
    await world.topic(partitions=MANY, replicas=(1, 2, 3))
    await world.until(lambda: hosted(world))
    controller = next(each for each in (1, 2, 3) if world.broker(each).controller.active is not None)
    if controller == 2:
        world.broker(2).controller.link.close()
    else:
        world.kill(controller)
    await world.until(lambda: hosted(world) == MANY)
    await world.topic("u", replicas=(2,))

    assert "u" in world.broker(2).image.topics


@pytest.mark.interpreted
@pytest.mark.brokers(3)
async def test_a_broker_that_stops_meanwhile_hosts_no_more(world: World) -> None:
    """Its logs are closed."""
    slow_down(world)
    await world.topic(partitions=MANY, replicas=(1, 2, 3))
    await world.until(lambda: hosted(world))
    broker = world.broker(2)
    world.call(2, broker._images.close)
    count = hosted(world)
    await world.later(2)

    assert hosted(world) == count < MANY


@pytest.mark.interpreted
@pytest.mark.brokers(4, page_cache_leader_budget_bytes=1 << 20)
async def test_only_own_partitions_arrive_and_share_what_is_for_all(world: World) -> None:
    """Those of other brokers take no slice; the budget of page cache is for the leaders of all slices together."""
    sizes: list[int] = []
    watch(world, lambda: sizes.append(hosted(world)))
    await world.topic(partitions=MANY, replicas=(1, 2))
    await world.until(lambda: len(sizes) > 1 and not len(world.broker(2)._images._arriving))
    led = [each for each in world.broker(2).partitions.values() if each.is_leader]

    assert sizes[-1] == hosted(world) < MANY * 3 / 4
    assert len(sizes) == -(-hosted(world) // PARTITIONS_PER_SLICE)
    assert {each.log.keep_cached_bytes for each in led} == {(1 << 20) // len(led)}


@pytest.mark.brokers(3)
async def test_a_broker_that_starts_serves_when_all_its_partitions_are_hosted(world: World) -> None:
    """Its first image gives it hundreds of partitions; until they are hosted it is not part of the cluster."""
    await world.topic(partitions=MANY, replicas=(1, 2, 3))
    world.kill(2)
    await world.until(lambda: world.broker(1).image.brokers[2].fenced)  # type: ignore[index]
    await world.start(2)

    assert sum(key.topic == "t" for key in world.broker(2).partitions) == MANY
    await world.until(
        lambda: all(len(world.broker(1).image.partition("t", number).isr) == 3 for number in range(MANY))  # type: ignore[union-attr]
    )


@pytest.mark.interpreted
@pytest.mark.brokers(3)
async def test_a_topic_that_goes_while_its_partitions_arrive_is_gone_everywhere(world: World) -> None:
    """The deletion comes with the next image, after the last partition was hosted."""
    slow_down(world)
    await world.topic(partitions=MANY, replicas=(1, 2, 3))
    await world.until(lambda: hosted(world))
    deleted = asyncio.ensure_future(world.delete_topic("t"))
    await world.until(lambda: "t" not in world.broker(1).image.topics)
    assert 0 < hosted(world) < MANY
    await deleted

    for broker_id in (1, 2, 3):
        assert not [key for key in world.broker(broker_id).partitions if key.topic == "t"]


@pytest.mark.interpreted
@pytest.mark.brokers(3)
async def test_a_broker_that_cannot_host_an_arriving_partition_for_a_fault_of_ours_ends(world: World) -> None:
    """Its roles would differ from the metadata."""
    reasons: list[str] = []
    world.node(2).on_unfit = reasons.append
    replicas = world.broker(2).replicas
    assign = replicas.assign

    def fails(key: TopicPartition, now_ms: int) -> None:
        if key == TopicPartition("t", MANY - 1):
            raise AssertionError("planted")
        assign(key, now_ms)

    replicas.assign = fails  # type: ignore[method-assign]
    created = asyncio.ensure_future(world.topic(partitions=MANY, replicas=(1, 2, 3)))
    await world.until(lambda: reasons)
    await created
    world.kill(2)

    assert ["planted" in each for each in reasons] == [True]
    assert any("could not be applied" in each for each in world.errors.take())
