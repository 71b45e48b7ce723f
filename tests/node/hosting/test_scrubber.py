"""The scrubber on whole brokers: cold damage is found, reported with its place, and repaired from another replica."""

from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.events import Event, Observation
from syncline.model.ids import TopicPartition
from syncline.virtual.cluster import LOG_DIRECTORY
from syncline.wire.api import ApiKey
from tests.node.hosting.test_aside import LAG, aside_of, data_of, record
from tests.node.wire_client import batch, offsets
from tests.node.world import World

KEY = TopicPartition("t", 0)
FIRST = "00000000000000000000.log"
# Two batches of this size fill the smallest segment.
BATCH_BYTES = 450_000
SCRUB: dict[str, Any] = {**LAG, "log_scrub_bytes_per_second": 1_000_000, "log_segment_bytes": 1 << 20}


async def fill(world: World, broker_id: int, segments: int) -> None:
    """Write with acks=all until each replica's log has so many segments."""
    client = await world.client(broker_id)
    while any(world.partition(each).log.segment_count < segments for each in world.living()):
        row = await client.produce("t", batch(size_bytes=BATCH_BYTES), acks=-1)
        assert row.error_code == ErrorCode.NONE
    client.transport.close()


def flip(world: World, broker_id: int, position: int = BATCH_BYTES + 1_000) -> None:
    """Flip a bit in the second batch of the first segment, under a running broker."""
    data_of(world, broker_id)["t-0"].names[FIRST].data[position] ^= 4


def found_count(world: World, broker_id: int) -> int:
    """Return how many damaged places a broker's scrub has found."""
    return world.broker(broker_id).replicas.scrubber.found_count


async def until_found(world: World, broker_id: int) -> None:
    """Wait until a broker's scrub has found damage; its first round comes half a minute after the start."""
    await world.later(28)
    await world.until(lambda: found_count(world, broker_id))


@pytest.mark.brokers(3, **SCRUB)
async def test_leader_with_a_damaged_cold_segment_is_replaced_and_copied_again(world: World) -> None:
    """No consumer reads the segment; the scrub finds the place, another member of the ISR leads, 1 returns whole."""
    await world.topic(replicas=(1, 2, 3))
    await fill(world, 1, 3)
    await world.until(lambda: record(world, 1).isr == (1, 2, 3))
    flip(world, 1)

    await until_found(world, 1)
    await world.until(lambda: record(world, 2).leader == 2)
    await world.until(lambda: aside_of(world, 1))
    await world.until(lambda: 1 in record(world, 1).isr and not aside_of(world, 1))

    sound = data_of(world, 2)["t-0"].names[FIRST].data
    assert data_of(world, 1)["t-0"].names[FIRST].data == sound
    assert [found_count(world, each) for each in (1, 2, 3)] == [1, 0, 0]
    world.errors.take()


@pytest.mark.brokers(3, **SCRUB)
async def test_damaged_follower_is_copied_again_and_the_leader_stays(world: World) -> None:
    """It leaves the ISR: with what it lost it cannot lead."""
    await world.topic(replicas=(1, 2, 3))
    await fill(world, 1, 3)
    flip(world, 3)

    await until_found(world, 3)
    await world.until(lambda: 3 not in record(world, 1).isr)
    await world.until(lambda: 3 in record(world, 1).isr and not aside_of(world, 3))

    assert record(world, 1).leader == 1
    assert data_of(world, 3)["t-0"].names[FIRST].data == data_of(world, 1)["t-0"].names[FIRST].data
    world.errors.take()


@pytest.mark.brokers(1, **SCRUB)
async def test_damage_in_the_only_replica_is_journalled_and_the_rest_is_served(world: World) -> None:
    """The evidence names file, position and offset. What is sound can be read, and the log grows."""
    events: list[Event] = []
    await world.topic()
    await fill(world, 1, 3)
    world.broker().journal.on_event = events.append
    flip(world, 1)

    await until_found(world, 1)
    client = await world.client()
    row = await client.produce("t", batch())
    answer = await client.fetch("t", 4)

    (event,) = [each for each in events if isinstance(each, Observation) and each.kind == "scrub-found-damage"]
    assert (event.topic, event.partition, event.phase) == ("t", 0, "end")
    assert {name: event.evidence[name] for name in ("file", "offset")} == {
        "file": f"{LOG_DIRECTORY}/t-0/{FIRST}",
        "offset": 1,
    }
    assert "checksum" in str(event.evidence["reason"])
    assert (row.error_code, record(world, 1).leader) == (ErrorCode.NONE, 1)
    assert offsets(answer.records)[0] == 4


@pytest.mark.brokers(2, **SCRUB)
async def test_damaged_leader_waits_for_a_replica_that_can_lead(world: World) -> None:
    """It is alone when the damage is found, and goes offline as soon as the follower is in sync again."""
    await world.topic(replicas=(1, 2))
    await fill(world, 1, 3)
    world.kill(2)
    await world.until(lambda: record(world, 1).isr == (1,))
    flip(world, 1)

    await until_found(world, 1)
    leader_alone = record(world, 1).leader
    await world.start(2)
    await world.until(lambda: record(world, 2).leader == 2)
    await world.until(lambda: 1 in record(world, 2).isr)

    # One commit has both the follower's return to the ISR and its election: a spectator sees only the outcome.
    world.cluster.ghost.violations[:] = [each for each in world.cluster.ghost.violations if " S4 " not in each]
    assert leader_alone == 1
    assert data_of(world, 1)["t-0"].names[FIRST].data == data_of(world, 2)["t-0"].names[FIRST].data
    world.errors.take()


@pytest.mark.brokers(1, log_segment_bytes=1 << 20)
async def test_scrub_begins_when_it_is_switched_on(world: World) -> None:
    """The rate is dynamic, and the worlds of tests begin without."""
    await world.topic()
    await fill(world, 1, 3)
    scrubber = world.broker().replicas.scrubber
    await world.later(40)
    before = scrubber.checked_bytes

    client = await world.client()
    change = {"name": "log.scrub.bytes.per.second", "config_operation": 0, "value": "10000000"}
    resources = [{"resource_type": 4, "resource_name": "", "configs": [change]}]
    await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False)
    await world.until(lambda: scrubber.checked_bytes)
    await world.until(lambda: scrubber.check_age_ms(world.partition()) < 1_000)
    await world.later(2)

    finished = world.partition().log.segments[:-1]
    assert before == 0
    assert scrubber.checked_bytes == sum(each.size_bytes for each in finished)
