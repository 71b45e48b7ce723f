"""Where the members of a group fetch, and who else reads: also of consumers that never commit."""

import asyncio
from typing import Any

import pytest

from syncline.model.ids import TopicPartition
from syncline.model.lag import GroupStatus, LagCause, StatusRule
from syncline.node.lag import reader_verbs
from syncline.node.lag.group_lag import MeasuredGroup
from syncline.node.lag.read_positions import READERS_MAX
from tests.node.counted_calls import counted
from tests.node.lag.groups import commit, coordinator_of, join
from tests.node.lag.test_read_positions import Holding
from tests.node.lag.test_time_lag import measured
from tests.node.lag.test_verbs import call
from tests.node.wire_client import at, batch
from tests.node.world import World

pytestmark = pytest.mark.brokers(1, offsets_topic_num_partitions=1)


def causes(found: MeasuredGroup) -> list[LagCause]:
    """Return the causes that were found."""
    return [each.cause for each in found.findings]


@pytest.mark.brokers(3, offsets_topic_num_partitions=1)
async def test_l39_consumer_that_never_commits_has_a_position_a_lag_and_no_commits(world: World) -> None:
    """It reads from a leader that is not the coordinator of its group, and has fetched 4 of 7 records."""
    coordinator = await coordinator_of(world, "g")
    leader = next(each for each in (1, 2, 3) if each != coordinator)
    await world.topic(replicas=(leader,))
    client = await world.client(leader)
    for _ in range(7):
        await client.produce("t", batch())
    member = await join(world, coordinator, "g", "t", 0)
    await client.fetch("t", 0)
    await client.fetch("t", 4)

    found = await measured(world, coordinator)

    (only,) = found.rows
    assert (only.row.committed, only.row.lag_hw) == (None, None)
    assert (only.row.fetch_offset, only.row.fetch_lag) == (4, 3)
    assert (only.row.member, only.row.client_id) == (member, "test")
    assert (only.verdict.status, only.verdict.rule) == (GroupStatus.OK, StatusRule.NO_COMMITS)
    assert causes(found) == [LagCause.NEVER_COMMITS]
    (never,) = found.findings
    assert (never.evidence["fetch_offset"], never.evidence["fetch_lag"]) == (4, 3)
    # The lag of its commits is another one than that of its fetches.
    await commit(world, coordinator, "g", {("t", 0): 1}, member=member)
    (then,) = (await measured(world, coordinator)).rows
    assert (then.row.lag_hw, then.row.fetch_lag) == (6, 3)


async def test_member_that_lives_and_fetches_no_more_is_stuck(world: World) -> None:
    """It fetched once, and its session goes on; as long as it fetches, it is not stuck."""
    await world.topic()
    client = await world.client()
    for _ in range(5):
        await client.produce("t", batch())
    coordinator = await coordinator_of(world, "g")
    member = await join(world, coordinator, "g", "t", 0, session_ms=300_000)
    await commit(world, coordinator, "g", {("t", 0): 2}, member=member)
    await client.fetch("t", 2)
    await world.later(20)
    before = await measured(world, coordinator)
    await world.later(20)

    found = await measured(world, coordinator)

    assert LagCause.STUCK_POLL not in causes(before)
    assert causes(found) == [LagCause.STUCK_POLL]
    assert found.findings[0].evidence["fetched_ago_ms"] == pytest.approx(40_000, abs=1_000)
    assert found.rows[0].row.fetch_offset == 2
    # It commits what that fetch has brought: it was slow, and has got at least so far.
    await commit(world, coordinator, "g", {("t", 0): 4}, member=member)
    slow = await measured(world, coordinator)
    assert LagCause.STUCK_POLL not in causes(slow)
    assert slow.rows[0].row.fetch_offset == 4
    await client.fetch("t", 2)
    assert LagCause.STUCK_POLL not in causes(await measured(world, coordinator))


async def test_reader_that_goes_on_without_commits_has_stopped_committing(world: World) -> None:
    """Three commits, then none for a minute, while it fetches on."""
    await world.topic(retention_ms=-1)
    client = await world.client()
    coordinator = await coordinator_of(world, "g")
    member = await join(world, coordinator, "g", "t", 0, session_ms=300_000)
    for count in range(1, 4):
        await client.produce("t", batch(10))
        await commit(world, coordinator, "g", {("t", 0): 5 * count}, member=member)
        await world.later(1)
    await measured(world, coordinator)
    await world.later(60)
    await client.fetch("t", 30)

    found = await measured(world, coordinator)

    assert found.rows[0].verdict.status is GroupStatus.STOP
    assert causes(found) == [LagCause.STOPPED_COMMITTING]
    assert (found.rows[0].row.fetch_offset, found.rows[0].row.fetch_lag) == (30, 0)


async def test_session_that_does_not_name_a_quiet_partition_goes_on_reading_it(world: World) -> None:
    """Incremental fetches of nothing: the position is at the end, and as old as the last of them."""
    await world.topic()
    client = await world.client()
    await client.produce("t", batch(3))
    opened = await client.fetched(client.send_fetch({"t": [at(3)]}, session=(0, 0)))
    await world.later(10)
    for epoch in (1, 2):
        await client.fetched(client.send_fetch({}, session=(opened.session_id, epoch)))
        await world.later(1)

    (reader,) = (await call(world, "lag.readers"))["readers"]

    assert (reader["position"], reader["lag"]) == (3, 0)
    assert reader["fetched_ago_ms"] == pytest.approx(1_000, abs=200)


async def test_position_that_fits_two_programs_is_nobodys(world: World) -> None:
    """Two connections with one client id read the partition at once: whose member is stuck, nobody can tell."""
    await world.topic()
    client, other = await world.client(), await world.client()
    await client.produce("t", batch(3))
    coordinator = await coordinator_of(world, "g")
    await join(world, coordinator, "g", "t", 0)
    await client.fetch("t", 1)
    await world.later(0.1)
    await other.fetch("t", 2)

    found = await measured(world, coordinator)
    answer = await call(world, "lag.readers")

    assert found.rows[0].row.fetch_offset is None
    assert [(each["position"], each["is_shared"]) for each in answer["readers"]] == [(2, True)]


async def test_readers_and_members_are_listed_in_pages(world: World) -> None:
    """What a tool needs to tell who reads for which group; followers and failed fetches are no readers."""
    await world.topic("t", 2)
    client = await world.client()
    await client.produce("t", batch(3))
    coordinator = await coordinator_of(world, "g")
    member = await join(world, coordinator, "g", "t", 0, 1)
    await client.fetch("t", 0)
    await client.fetch("t", 0, partition=1)
    await client.fetch("t", 99, partition=1)
    await client.fetch("t", 0, replica_id=-2)

    answer = await call(world, "lag.readers")
    first = await call(world, "lag.readers", count=1)

    assert [(each["partition"], each["position"], each["end"], each["lag"]) for each in answer["readers"]] == [
        (0, 0, 3, 3),
        (1, 0, 0, 0),
    ]
    assert {(each["client_id"], each["is_leader"], each["is_connected"]) for each in answer["readers"]} == {
        ("test", True, True)
    }
    (only,) = answer["members"]
    assert (only["group"], only["member"], only["topics"]) == ("g", member, {"t": [0, 1]})
    assert (len(first["readers"]), first["next"], answer["next"]) == (1, 1, None)


async def test_page_of_readers_costs_what_it_has(world: World) -> None:
    """Guards: each page computed all positions and all members, and held the loop while it did."""
    await world.topic("t", 100)
    positions = world.broker().lag.positions
    for number in range(READERS_MAX):
        reading = positions.reading(f"c-{number}", "/10.0.0.1", Holding(), 1)
        assert reading is not None
        for partition in range(100):
            positions.note(reading, TopicPartition("t", partition), 0, 1)
    async with counted(world):
        pages = [await call(world, "lag.readers", **{"from": first, "count": 500}) for first in (0, 25_000, 50_900)]

    assert [len(page["readers"]) for page in pages] == [500, 500, 300]
    assert [page["next"] for page in pages] == [500, 25_500, None]
    assert {each["client_id"] for each in pages[1]["readers"]} == {f"c-{number}" for number in range(250, 255)}


async def test_members_come_in_pages_of_groups(world: World) -> None:
    """Each group once, and a group that may read more than a page has ends it."""
    await world.topic("t", 4)
    for group in ("a", "b", "c"):
        coordinator = await coordinator_of(world, group)
        await join(world, coordinator, group, "t", 0, 1, 2)

    pages = [await call(world, "lag.readers", **{"from": first, "count": 2}) for first in (0, 2)]
    small = [await call_small(world, first) for first in (0, 1, 2)]

    assert [[each["group"] for each in page["members"]] for page in pages] == [["a", "b"], ["c"]]
    assert [page["next"] for page in pages] == [2, None]
    assert [([each["group"] for each in page["members"]], page["next"]) for page in small] == [
        (["a"], 1),
        (["b"], 2),
        (["c"], None),
    ]


async def test_groups_without_members_free_the_loop_too(world: World) -> None:
    """Guards: a page of five hundred groups that only commit was put together in one turn."""
    await world.topic("t")
    names = [f"g-{number}" for number in range(5)]
    for group in names:
        await commit(world, await coordinator_of(world, group), group, {("t", 0): 0})
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_turns())
    page = await call(world, "lag.readers", **{"from": 0, "count": 500})
    counting.cancel()

    assert page["members"] == []
    assert turns >= len(names)


async def call_small(world: World, first: int) -> dict[str, Any]:
    """Return a page whose members may read two partitions before it ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_verbs, "PARTITIONS_MAX", 2)
        return await call(world, "lag.readers", **{"from": first, "count": 3})


async def test_places_of_offsets_are_told_by_the_leader(world: World) -> None:
    """Three batches of one size; at the end there is no record, and an unknown partition is not led here."""
    await world.topic(message_timestamp_type="LogAppendTime")
    client = await world.client()
    for _ in range(3):
        await client.produce("t", batch(2))
        await world.later(2)
    size_bytes = world.partition().log.size_bytes // 3

    answer = await call(world, "lag.places", topic="t", partition=0, offsets=[0, 3, 6])
    elsewhere = await call(world, "lag.places", topic="t", partition=7, offsets=[])

    start, middle, end = answer["places"]
    assert (start["coordinate_bytes"], middle["coordinate_bytes"], end) == (0, size_bytes, None)
    assert middle["append_ms"] - start["append_ms"] == pytest.approx(2_000, abs=300)
    assert (answer["ends"]["log_end"], answer["ends"]["end_bytes"]) == (6, 3 * size_bytes)
    assert elsewhere["standing"] == "NOT_LEADER_OR_FOLLOWER"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="no-partition"),
        pytest.param({"topic": "t", "partition": 0}, id="no-offsets"),
        pytest.param({"topic": "t", "partition": 0, "offsets": [-1]}, id="below-0"),
        pytest.param({"topic": "t", "partition": 0, "offsets": ["1"]}, id="text"),
        pytest.param({"topic": "t", "partition": 0, "offsets": [2**63]}, id="too-large"),
        pytest.param({"topic": "t", "partition": 0, "offsets": [0] * 101}, id="too-many"),
    ],
)
async def test_malformed_question_about_places_is_refused(world: World, fields: dict[str, Any]) -> None:
    """With a sentence that says what is wanted."""
    assert (await call(world, "lag.places", **fields))["error"]
