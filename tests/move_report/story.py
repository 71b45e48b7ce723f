"""A move in the simulated world, and the journal of it: throttled below what keeps up, then raised, then complete."""

from typing import Any

from syncline.model.errors import ErrorCode
from syncline.model.events import Event
from syncline.wire.api import ApiKey
from tests.node.throttle.quotas import MB, batch_of, fill
from tests.node.wire_client import WireClient
from tests.node.world import World

WRITES_PER_S = 20
WRITE_BYTES = 30_000
TOO_LOW = 400_000
ENOUGH = 2 * MB + 500_000


async def move(world: World, replicas: tuple[int, ...], **others: Any) -> None:
    """Request replicas for t-0, as a move."""
    client = await world.client()
    partition = {"partition_index": 0, "replicas": replicas}
    answer = await client.ask(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        1,
        timeout=5_000,
        topics=[{"name": "t", "partitions": [partition]}],
        **others,
    )
    client.transport.close()
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


async def writes(world: World, client: WireClient, seconds: float) -> None:
    """Let a client write 600 kB/s with acks=all."""
    for _ in range(round(seconds * WRITES_PER_S)):
        due = world.loop.time() + 1 / WRITES_PER_S
        await client.produce("t", batch_of(WRITE_BYTES))
        await world.later(max(0.0, due - world.loop.time()))


async def throttled_move(world: World) -> list[Event]:
    """Play it on three brokers, and return what they journalled."""
    noted: list[Event] = []
    for broker_id in (1, 2, 3):
        world.broker(broker_id).journal.on_event = noted.append
    await world.topic(replicas=(1, 2))
    await fill(world, 8 * MB)
    client = await world.client()
    await writes(world, client, 3)
    await move(world, (3, 2), throttle=TOO_LOW, name="plan.json")
    await writes(world, client, 12)
    await move(world, (3, 2), throttle=ENOUGH)
    while any(each.is_reassigned for each in world.broker(1).image.topics["t"].partitions):
        await writes(world, client, 0.5)
    other = await world.client(3)
    await writes(world, other, 3)
    return noted
