"""Groups of tests: clients that only commit."""

from collections.abc import Mapping

from syncline.model.errors import ErrorCode
from syncline.wire.api import ApiKey
from tests.node.wire_client import WireClient
from tests.node.world import World


async def coordinator_of(world: World, group_id: str) -> int:
    """Return the broker that coordinates a group, once it has read the log."""
    client = await world.client(world.living()[0])
    found = -1

    async def look() -> bool:
        nonlocal found
        answer = await client.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group_id])
        found = answer.coordinators[0].node_id
        if answer.coordinators[0].error_code or found not in world.living():
            return False
        return await _is_ready(world, found, group_id)

    while not await look():
        await world.later(0.05)
    client.transport.close()
    return found


async def _is_ready(world: World, broker_id: int, group_id: str) -> bool:
    client = await world.client(broker_id)
    answer = await client.ask(ApiKey.OFFSET_FETCH, 7, group_id=group_id, topics=None, require_stable=False)
    client.transport.close()
    return not answer.error_code


async def commit(world: World, broker_id: int, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit offsets for a group without members."""
    client = await world.client(broker_id)
    await commit_with(client, group_id, offsets)
    client.transport.close()


async def commit_with(client: WireClient, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """The same, over a connection that stays."""
    topics: dict[str, list[dict[str, object]]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
        )
    answer = await client.ask(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
    )
    codes = {ErrorCode(int(each.error_code)) for topic in answer.topics for each in topic.partitions}
    assert codes == {ErrorCode.NONE}
