"""Many new partitions are hosted in slices; the next image waits for them, and so does what the controller hears."""

import asyncio
from collections.abc import Callable

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.hosting.arrivals import PARTITIONS_PER_SLICE
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


@pytest.mark.brokers(3)
async def test_few_new_partitions_are_hosted_with_their_image(world: World) -> None:
    """A broker that has an image with a small topic hosts its part."""
    await world.topic(partitions=PARTITIONS_PER_SLICE, replicas=(1, 2, 3))

    for broker_id in (1, 2, 3):
        assert sum(key.topic == "t" for key in world.broker(broker_id).partitions) == PARTITIONS_PER_SLICE


@pytest.mark.brokers(3)
async def test_the_next_image_waits_for_partitions_that_arrive(world: World) -> None:
    """The broker polls for no newer metadata, and reports none as applied, while partitions are missing."""
    stream = world.broker(2).controller._stream
    before = stream.applied_version
    seen = []
    watch(world, lambda: seen.append((hosted(world) < MANY, stream.applied_version < stream.image.version)))
    watch(world, stream.poll)
    await world.topic(partitions=MANY, replicas=(1, 2, 3))
    await world.topic("u", replicas=(1, 2, 3))

    # The last look is within the last slice.
    assert seen == [*[(True, True)] * (MANY // PARTITIONS_PER_SLICE), (False, True)]
    assert stream.image.version == stream.applied_version > before


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


@pytest.mark.brokers(3)
async def test_a_topic_that_goes_while_its_partitions_arrive_is_gone_everywhere(world: World) -> None:
    """The deletion comes with the next image, after the last partition was hosted."""
    deletions = []
    watch(world, lambda: deletions or deletions.append(asyncio.ensure_future(world.delete_topic("t"))))
    created = asyncio.ensure_future(world.topic(partitions=MANY, replicas=(1, 2, 3)))
    await world.until(lambda: deletions)
    await deletions[0]
    created.cancel()

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
