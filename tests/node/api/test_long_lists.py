"""Each list of each API, long: no handler works through all of it before it looks at the clock.

Found in the schemas, so that no list is forgotten. What counts is calls between two looks
(`syncline.virtual.time.meter`).
"""

import asyncio

import pytest

from syncline.core.cluster.topics import PARTITIONS_PER_REQUEST_MAX
from syncline.model.ids import OFFSETS_TOPIC
from syncline.virtual.cluster import CLIENT_PORT
from syncline.virtual.time.meter import CallMeter
from syncline.wire.api import CLIENT_VERSIONS, ApiKey
from tests.attack import naming
from tests.attack.largest import Path, frame_with_list, list_paths
from tests.node.world import World

ITEMS = 6_000
# Some of what is done in one go takes some calls per hundred items, or per decision of some items.
CALLS_MAX = 3 * ITEMS // 4
# Some items have so few bytes that the body is decoded in one call. The others are known and take a few milliseconds:
# the rows of a produce request, the offer of a member, groups that do not exist.
IN_ONE_GO = {
    (ApiKey.CREATE_PARTITIONS, ("topics", "assignments")),
    (ApiKey.CREATE_TOPICS, ("topics", "assignments")),
    (ApiKey.DESCRIBE_QUORUM, ("topics", "partitions")),
    (ApiKey.JOIN_GROUP, ("protocols",)),
    (ApiKey.PRODUCE, ("topic_data", "partition_data")),
}
LISTS = [
    (key, path)
    for key in CLIENT_VERSIONS
    if key not in naming.WITHOUT_LISTS
    for path in list_paths(key, CLIENT_VERSIONS[key].max)
    if (key, path) not in IN_ONE_GO
]
GROUP = {"group_id": "g"}


class Asker(asyncio.Protocol):
    """Waits for one answer, or for the end of the connection."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Take the answer's first bytes: then the request has been worked on."""
        self.is_over.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take a refusal."""
        self.is_over.set()


async def asked(request: bytes) -> None:
    """Send a request to the broker, and wait for its answer."""
    transport, asker = await asyncio.get_running_loop().create_connection(Asker, "broker-1", CLIENT_PORT)
    assert isinstance(transport, asyncio.Transport)
    transport.write(request)
    await asker.is_over.wait()
    transport.close()


@pytest.mark.parametrize(("key", "path"), LISTS, ids=[f"{key.name}-{'.'.join(path)}" for key, path in LISTS])
async def test_work_on_a_long_list_is_divided(world: World, key: ApiKey, path: Path) -> None:
    """A first, short request of the same kind loads the code that it needs."""
    await world.topic("t")
    if key in naming.GROUP_APIS or key is ApiKey.FIND_COORDINATOR:
        await (await world.client()).ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
        await world.until(lambda: OFFSETS_TOPIC in world.broker().image.topics)
        await world.later(1)
    version = CLIENT_VERSIONS[key].max
    values = GROUP if key in naming.GROUP_APIS and path != ("groups",) else {}
    await asked(frame_with_list(key, version, path, values, 3))
    meter = world.loop.meter = CallMeter(frozenset({"broker-1"}))
    await asked(frame_with_list(key, version, path, values, ITEMS))
    world.loop.meter = None

    assert meter.calls_max < CALLS_MAX


async def test_refusal_of_too_many_topics_is_divided(world: World) -> None:
    """Guards: the rows of the refusal were made in one go, which held the loop for 70 ms."""
    await asked(frame_with_list(ApiKey.CREATE_TOPICS, 7, ("topics",), {}, 3))
    meter = world.loop.meter = CallMeter(frozenset({"broker-1"}))
    await asked(frame_with_list(ApiKey.CREATE_TOPICS, 7, ("topics",), {}, PARTITIONS_PER_REQUEST_MAX + 1))
    world.loop.meter = None

    assert meter.calls_max < CALLS_MAX
