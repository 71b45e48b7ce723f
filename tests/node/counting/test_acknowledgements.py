"""How long clients wait for followers, in the journal: exact numbers of each interval, and of clients only."""

import pytest

from syncline.model.events import Acknowledgements, Event
from syncline.node.counting.acknowledgements import Summary, Waits
from tests.node.wire_client import batch
from tests.node.world import World


def test_percentiles_are_waits_that_somebody_had() -> None:
    """Of a hundred, 99 waited at most p99; what was told is forgotten."""
    waits = Waits()
    for wait_ms in [*range(1, 100), 700]:
        waits.note(wait_ms)

    assert waits.take() == Summary(100, 50, 99, 700)
    assert waits.take() is None
    waits.note(3)
    assert waits.take() == Summary(1, 3, 3, 3)


@pytest.mark.brokers(2, journal_enable="true", journal_progress_interval_ms=1_000)
async def test_journal_tells_how_long_clients_waited(world: World) -> None:
    """A cut-off follower delays one request and lets another one time out; acks=1, and brokers themselves, wait not."""
    await world.topic(replicas=(1, 2))
    noted: list[Event] = []
    for broker_id in (1, 2):
        world.broker(broker_id).journal.on_event = noted.append
    client, other = await world.client(), await world.client()
    await client.produce("t", batch(), acks=1)
    await world.later(2)
    before = [event for event in noted if isinstance(event, Acknowledgements)]
    world.network.cut("broker-2", "broker-1")
    waiting = client.send_produce("t", batch())
    await other.produce("t", batch(), timeout_ms=400)
    await world.later(0.2)
    world.network.heal("broker-2", "broker-1")
    await client.produced(waiting)
    await world.later(2)
    samples = [event for event in noted if isinstance(event, Acknowledgements)]

    assert before == []
    assert sum(each.count for each in samples) == 2
    assert {(each.broker, each.interval_ms) for each in samples} == {(1, 1_000)}
    assert min(each.p50_ms for each in samples) in range(400, 420)
    assert 600 <= max(each.max_ms for each in samples) < 2_000
