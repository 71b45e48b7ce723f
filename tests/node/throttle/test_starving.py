"""A replica that waits for a quota which a neighbour's move uses up: brokers journal who got it, and `why` names it."""

import pytest

from syncline.explain.diagnosis.diagnose import diagnose
from syncline.explain.diagnosis.findings import Cause
from syncline.model.events import Event, Throttle
from tests.node.test_reassignments import alter as reassign
from tests.node.throttle.quotas import LEADER_LIST, MB, TOPIC, alter, fill, throttle
from tests.node.world import World


async def left_behind(world: World, noted: list[Event]) -> None:
    """Give broker 2 a backlog of 10 MB in "t", and let lists throttle it and "u", of which broker 1 has 10 MB, too."""
    world.broker(1).journal.on_event = noted.append
    await world.topic(replicas=(1, 2))
    await world.topic("u", replicas=(1,))
    world.kill(2)
    await world.until(lambda: world.partition().record.isr == (1,))
    for topic in ("t", "u"):
        await fill(world, 10 * MB, topic=topic)
    await throttle(world, leader=MB)
    await alter(world, TOPIC, "u", {LEADER_LIST: "*"})


def cause(noted: list[Event]) -> Cause | None:
    """Return the main cause of what happened to t-0."""
    times = [event.ts_ms for event in noted]
    main = diagnose(noted, "t", 0, since_ms=min(times), until_ms=max(times), leader=1, replicas=(1, 2)).main
    return None if main is None else main.cause


@pytest.mark.brokers(3, journal_enable="true")
async def test_why_names_the_neighbours_move_that_takes_the_rate(world: World) -> None:
    """Without the move the replica is held back by the rate alone; with it, the move gets about half of the rate."""
    noted: list[Event] = []
    await left_behind(world, noted)
    await world.start(2)
    await world.later(3)
    alone = cause(noted)
    await reassign(world, topics=[{"name": "u", "partitions": [{"partition_index": 0, "replicas": (3,)}]}])
    await world.later(11)
    taken = [event for event in noted if isinstance(event, Throttle)][-1].taken

    assert alone is Cause.THROTTLED
    assert cause(noted) is Cause.STARVED
    assert {row["replica"]: row.get("move") for row in taken} == {"t-0@2": None, "u-0@3": ""}
    assert sum(int(str(row["bytes"])) for row in taken) == pytest.approx(5 * MB, rel=0.2)
