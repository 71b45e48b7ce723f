"""No references in circles: what a broker no longer needs is freed at once, not by a full garbage collection.

Those are rare, because they hold the event loop for as long as there are objects: what waits for one stays.
"""

import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from syncline.node.broker import Broker
from syncline.node.serving.request import Request, Steps
from syncline.node.serving.stepping import STEPS_PER_SLICE
from syncline.wire.api import ApiKey
from tests.node.producing.test_opening import compressed
from tests.node.wire_client import at, batch
from tests.node.world import World

MANY = 1_000
# A deleted log stays on the disk for so long.
FILE_DELETE_DELAY_S = 1


async def topics_made_and_deleted(world: World) -> None:
    """Leaders and followers, with records and fetch sessions."""
    client = await world.client()
    # The simulated world takes a name that comes again for the same topic.
    names = [f"made-{world.loop.now_ns}-{number}" for number in range(20)]
    made: dict[str, Any] = {"num_partitions": 2, "replication_factor": 2, "assignments": (), "configs": ()}
    topics = [{"name": name, **made} for name in names]
    await client.ask(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=10_000, validate_only=False)
    await world.later(1)
    deleted = [{"name": name, "topic_id": None} for name in names]
    await client.ask(ApiKey.DELETE_TOPICS, 6, topics=deleted, timeout=10_000)
    await world.later(2 * FILE_DELETE_DELAY_S)


async def batches_opened(world: World) -> None:
    """In a worker; one of them is refused."""
    client = await world.client()
    for key in (b"k", None):
        await client.produce("compacted", compressed(2, key=key))


async def sessions_used_and_left(world: World) -> None:
    """One fetch is parked when its client leaves."""
    client = await world.client()
    await client.produce("t", batch())
    topics = {"t": [at(1, partition=index) for index in range(MANY)]}
    answer = await client.fetched(client.send_fetch(topics, session=(0, 0)))
    assert answer.session_id > 0
    client.send_fetch({}, session=(answer.session_id, 1), max_wait_ms=60_000)
    await world.later(1)


async def malformed_requests(world: World) -> None:
    """Of which the exception closes the connection."""
    for key, version in ((ApiKey.METADATA, 12), (ApiKey.PRODUCE, 9), (ApiKey.FETCH, 12), (ApiKey.CREATE_TOPICS, 7)):
        client = await world.client()
        client.send(key, version, b"\x7f" * 50_000)
        await client.lost()


async def request_answered_after_its_client_left(world: World) -> None:
    """What it waited for comes too late, and the answer would take many steps."""
    parked: list[Request] = []

    def handler(_broker: Broker, request: Request) -> None:
        parked.append(request)

    def steps() -> Steps:
        for _ in range(2 * STEPS_PER_SLICE):
            yield

    world.broker().dispatcher.handlers.replace(ApiKey.LIST_GROUPS, handler)
    client = await world.client()
    client.send(ApiKey.LIST_GROUPS, 0)
    await world.until(lambda: parked)
    client.transport.abort()
    await world.later(1)
    request = parked.pop()
    world.call(1, request.connection.step, request, steps())
    await world.later(1)


@pytest.mark.brokers(2, log_segment_delete_delay_ms=1_000 * FILE_DELETE_DELAY_S)
@pytest.mark.interpreted
async def test_deleted_topics_leave_nothing_for_the_garbage_collector(world: World) -> None:
    """Neither partitions nor logs, nor what decided on them."""
    assert await garbage(world, topics_made_and_deleted) == {}


@pytest.mark.parametrize(
    "act", [batches_opened, sessions_used_and_left, malformed_requests, request_answered_after_its_client_left]
)
async def test_clients_leave_nothing_for_the_garbage_collector(
    world: World, act: Callable[[World], Awaitable[None]]
) -> None:
    """Neither requests nor errors, sessions or connections."""
    await world.topic()
    await world.topic("compacted", cleanup_policy="compact")

    assert await garbage(world, act) == {}


async def garbage(world: World, act: Callable[[World], Awaitable[None]]) -> Counter[str]:
    """Return the broker's own objects that only a garbage collection frees after an act, by type or name."""

    async def act_and_leave() -> None:
        await act(world)
        for each in list(world.connections()):
            if each.listener == "client":
                world.call(1, each.close, "test")
        await world.later(1)

    # What is made once, such as caches of schemas, is no garbage of each time.
    await act_and_leave()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await act_and_leave()
        gc.collect()
        found = Counter(type(each).__qualname__ for each in gc.garbage if _is_ours(type(each).__module__))
        # A type has its own name, and the functions in it, too; its instances have its module only.
        named = [each for each in gc.garbage if hasattr(each, "__qualname__")]
        found += Counter(each.__qualname__ for each in named if _is_ours(getattr(each, "__module__", None)))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

    return found


def _is_ours(module: object) -> bool:
    """Return whether a type or function is the broker's, not of the simulated world around it."""
    return isinstance(module, str) and module.startswith("syncline.") and not module.startswith("syncline.virtual.")
