"""What a broker drops is freed at once: Python looks at old objects only when a broker has nothing to do."""

import gc
import weakref

import pytest

from tests.node.wire_client import batch
from tests.node.world import World


@pytest.mark.brokers(2)
@pytest.mark.interpreted
async def test_deleted_topics_leave_no_cyclic_garbage(world: World) -> None:
    """Ten thousand of them would be three hundred thousand objects that only a look at all objects could free."""
    names = [f"t{number}" for number in range(10)]
    client = await world.client()
    for name in names:
        await world.topic(name, replicas=(1, 2))
        await client.produce(name, batch())
    logs = [weakref.ref(world.partition(broker_id, name).log) for broker_id in (1, 2) for name in names]
    gc.collect()
    gc.disable()
    try:
        for name in names:
            await world.delete_topic(name)
        # With its next fetch a follower's session forgets the partition that went last.
        await world.topic("last", replicas=(1, 2))
        await client.produce("last", batch())
        await world.later(1)
        left = [log() for log in logs]
    finally:
        gc.enable()

    assert left == [None] * 20
