"""`replicas.show`: what the replicas of a broker look like right now."""

import logging

import pytest

from syncline.node.control.replica_view import show
from tests.node.wire_client import batch
from tests.node.world import World


@pytest.mark.brokers(2)
async def test_show_tells_of_leader_and_follower_alike(world: World) -> None:
    """Role, log, watermark and epochs of each; the leader also shows how far it knows its followers to be."""
    await world.topic(replicas=(1, 2))
    await world.topic("other", replicas=(1, 2))
    await (await world.client()).produce("t", batch(3))
    await world.until(lambda: world.partition(2).high_watermark == 3)

    (leads,) = show(world.broker(1), {"topic": "t"})["replicas"]
    (follows,) = show(world.broker(2), {"topic": "t"})["replicas"]
    everything = show(world.broker(2), {})

    common = {"log_start": 0, "log_end": 3, "high_watermark": 3, "epochs": [[0, 0]], "isr": [1, 2], "leader": 1}
    assert {name: leads[name] for name in common} == {name: follows[name] for name in common} == common
    assert (leads["role"], leads["phase"], leads["known_log_ends"]) == ("leader", None, {2: 3})
    assert (follows["role"], follows["phase"], follows["known_log_ends"]) == ("follower", "fetching", {})
    assert {row["topic"] for row in everything["replicas"]} == {"t", "other"}
    assert (everything["controller"], everything["unfenced"]) == (1, [1, 2])


@pytest.mark.brokers(1, log_truncation_mode="high-watermark")
async def test_a_broker_says_so_when_it_truncates_by_its_watermark(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The one mode that loses committed records is announced at each start."""
    world.kill(1)
    logging.getLogger("syncline").addHandler(caplog.handler)
    await world.start(1)
    logging.getLogger("syncline").removeHandler(caplog.handler)

    assert "log.truncation.mode is high-watermark" in caplog.text
    assert "committed records can be lost" in caplog.text
