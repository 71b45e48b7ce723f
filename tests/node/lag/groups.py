"""Groups of tests: clients that only commit, a member that does not, and records that are gone before they are read."""

from collections.abc import Mapping

from syncline.model.errors import ErrorCode
from syncline.wire.api import ApiKey
from tests.core.group_driver import subscription
from tests.node.wire_client import WireClient, batch
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


async def commit(
    world: World, broker_id: int, group_id: str, offsets: Mapping[tuple[str, int], int], *, member: str = ""
) -> None:
    """Commit offsets for a group without members, or as the member that made its first generation."""
    client = await world.client(broker_id)
    await commit_with(client, group_id, offsets, member=member)
    client.transport.close()


async def commit_with(
    client: WireClient, group_id: str, offsets: Mapping[tuple[str, int], int], *, member: str = ""
) -> None:
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
        generation_id_or_member_epoch=1 if member else -1,
        member_id=member,
        group_instance_id=None,
        topics=[{"name": topic, "partitions": partitions} for topic, partitions in topics.items()],
    )
    codes = {ErrorCode(int(each.error_code)) for topic in answer.topics for each in topic.partitions}
    assert codes == {ErrorCode.NONE}


async def stopped_group(world: World) -> int:
    """Let group g commit 1 to 4 of ten records of t-0, and nothing for a minute; return its coordinator."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(10))
    coordinator = await coordinator_of(world, "g")
    for offset in range(1, 5):
        await commit(world, coordinator, "g", {("t", 0): offset})
        await world.later(1)
    await world.later(60)
    return coordinator


async def delete_below(world: World, offset: int) -> None:
    """Delete the records of t-0 below an offset."""
    client = await world.client()
    partitions = [{"partition_index": 0, "offset": offset}]
    await client.ask(ApiKey.DELETE_RECORDS, 2, topics=[{"name": "t", "partitions": partitions}], timeout=5_000)
    client.transport.close()


def assignment(topic: str, *partitions: int) -> bytes:
    """Return an assignment of partitions of one topic, version 1 without user data."""
    return b"".join(
        (
            b"\0\1\0\0\0\1",
            len(topic).to_bytes(2),
            topic.encode(),
            len(partitions).to_bytes(4),
            *(partition.to_bytes(4) for partition in partitions),
            b"\xff\xff\xff\xff",
        )
    )


async def join(
    world: World, broker_id: int, group_id: str, topic: str, *partitions: int, session_ms: int = 30_000
) -> str:
    """Let one member join a group and read these partitions; return its id. It lives without heartbeats for so long."""
    client = await world.client(broker_id)
    member_id, generation = "", -1
    while generation < 0:
        joined = await client.ask(
            ApiKey.JOIN_GROUP,
            5,
            group_id=group_id,
            session_timeout=session_ms,
            rebalance_timeout=60_000,
            member_id=member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": subscription(topic)}],
            reason=None,
        )
        member_id, generation = joined.member_id, joined.generation_id
    synced = await client.ask(
        ApiKey.SYNC_GROUP,
        3,
        group_id=group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=None,
        assignments=[{"member_id": member_id, "assignment": assignment(topic, *partitions)}],
    )
    assert ErrorCode(int(synced.error_code)) is ErrorCode.NONE
    return str(member_id)
