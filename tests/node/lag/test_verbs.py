"""Lag for tools: the verbs of the control API."""

import json
from typing import Any

import pytest

from syncline.node.control.verbs import perform
from tests.node.lag.groups import commit, coordinator_of
from tests.node.wire_client import batch
from tests.node.world import World

pytestmark = pytest.mark.brokers(1, offsets_topic_num_partitions=1)


async def call(world: World, verb: str, broker_id: int = 1, **fields: Any) -> dict[str, Any]:
    """Return the answer to a call, as JSON that any reader takes."""
    answer = await world.as_broker(broker_id, perform(world.broker(broker_id), verb, fields))
    decoded: dict[str, Any] = json.loads(json.dumps(answer, allow_nan=False))
    return decoded


async def test_broker_without_groups_has_none(world: World) -> None:
    """And does not import the code for them."""
    assert await call(world, "lag.groups") == {"error": None, "broker": 1, "groups": [], "next": None}
    assert (await call(world, "lag.group", group="g"))["standing"] == "NOT_COORDINATOR"
    assert world.broker().lag.of_groups is None


async def test_groups_and_their_partitions_come_in_pages(world: World) -> None:
    """Each page says where the next one begins."""
    await world.topic("t", 3)
    client = await world.client()
    await client.produce("t", batch(9), partition=1)
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", 0): 0, ("t", 1): 4})
    await commit(world, coordinator, "h", {("t", 1): 9})

    both = await call(world, "lag.groups")
    first = await call(world, "lag.groups", count=1)
    second = await call(world, "lag.groups", **{"from": first["next"], "count": 1})
    whole = await call(world, "lag.group", group="g")
    part = await call(world, "lag.group", group="g", **{"from": 1, "count": 1})

    assert [(each["group"], each["lag_records"], each["worst"]) for each in both["groups"]] == [
        ("g", 5, "t-1"),
        ("h", 0, "t-1"),
    ]
    assert [each["group"] for each in (*first["groups"], *second["groups"])] == ["g", "h"]
    assert (both["next"], second["next"]) == (None, None)
    assert [(each["partition"], each["lag_hw"]) for each in whole["rows"]] == [(0, 0), (1, 5), (2, None)]
    assert [each["partition"] for each in part["rows"]] == [1]
    assert (whole["next"], part["next"]) == (None, 2)
    assert whole["verdict"]["total_lag"] == part["verdict"]["total_lag"] == 5
    assert (whole["state"], whole["members"]) == ("Empty", 0)
    # No clean-up will delete what is read already: an infinite time, which JSON has no number for.
    assert whole["rows"][0]["retention_margin_s"] == "never"


async def test_pages_of_a_group_are_of_one_moment(world: World) -> None:
    """And the group is measured once; pages that are asked for much later are of a new cut."""
    await world.topic("t", 3)
    client = await world.client()
    coordinator = await coordinator_of(world, "g")
    await commit(world, coordinator, "g", {("t", number): 0 for number in range(3)})

    first = await call(world, "lag.group", group="g", count=1)
    await client.produce("t", batch(9), partition=2)
    second = await call(world, "lag.group", group="g", **{"from": first["next"], "count": 1})
    third = await call(world, "lag.group", group="g", **{"from": second["next"], "count": 1})
    await world.later(11)
    later = await call(world, "lag.group", group="g", **{"from": second["next"], "count": 1})
    anew = await call(world, "lag.group", group="g")

    assert [(each["rows"][0]["partition"], each["lag_records"]) for each in (first, second, third, later)] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (2, 9),
    ]
    assert [each["lag_hw"] for each in anew["rows"]] == [0, 0, 9]


async def test_broker_says_why_it_cannot_tell(world: World) -> None:
    """A tool asks all brokers, and one of them knows."""
    await coordinator_of(world, "g")

    assert (await call(world, "lag.group", group="unknown"))["standing"] == "GROUP_ID_NOT_FOUND"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="no-group"),
        pytest.param({"group": 3}, id="number"),
        pytest.param({"group": "g", "from": -1}, id="before-the-first"),
        pytest.param({"group": "g", "count": 0}, id="nothing"),
        pytest.param({"group": "g", "count": 501}, id="too-many"),
        pytest.param({"group": "g", "from": "a"}, id="text"),
    ],
)
async def test_malformed_call_is_refused(world: World, fields: dict[str, Any]) -> None:
    """With a sentence that says what is wanted."""
    assert (await call(world, "lag.group", **fields))["error"]


@pytest.mark.brokers(3, offsets_topic_num_partitions=1)
async def test_coordinator_asks_other_leaders_over_the_wire(world: World) -> None:
    """The others say that they do not coordinate the group."""
    coordinator = await coordinator_of(world, "g")
    leader, _ = (each for each in (1, 2, 3) if each != coordinator)
    await world.topic(replicas=(leader,))
    client = await world.client(leader)
    await client.produce("t", batch(5))
    await commit(world, coordinator, "g", {("t", 0): 2})

    answer = await call(world, "lag.group", coordinator, group="g")
    others = [await call(world, "lag.group", each, group="g") for each in (1, 2, 3) if each != coordinator]

    assert [each["lag_hw"] for each in answer["rows"]] == [3]
    assert {each["standing"] for each in others} == {"NOT_COORDINATOR"}


@pytest.mark.brokers(3, offsets_topic_num_partitions=1)
async def test_partition_without_a_leader_is_named_with_its_error(world: World) -> None:
    """The other rows are there."""
    coordinator = await coordinator_of(world, "g")
    gone, _ = (each for each in (1, 2, 3) if each != coordinator)
    await world.topic("t", replicas=(gone,))
    await world.topic("u", replicas=(coordinator,))
    await commit(world, coordinator, "g", {("t", 0): 0, ("u", 0): 0})
    world.kill(gone)
    await world.until(lambda: world.broker(coordinator).image.topics["t"].partitions[0].leader < 0)

    answer = await call(world, "lag.group", coordinator, group="g")

    assert [each["topic"] for each in answer["rows"]] == ["u"]
    assert answer["unanswered"] == [{"topic": "t", "partition": 0, "error": "LEADER_NOT_AVAILABLE"}]
    await world.start(gone)


async def test_l18_list_of_groups_goes_on_warning_that_retention_is_near(world: World) -> None:
    """A group that stands still has a place that is kept; what retention is about to do is asked for each time."""
    await world.topic("t", retention_ms=100_000, message_timestamp_type="LogAppendTime")
    client = await world.client()
    await client.produce("t", batch(9))
    coordinator = await coordinator_of(world, "g")
    for offset in range(5):
        await commit(world, coordinator, "g", {("t", 0): offset})
        await world.later(1)
    # Two samples of ends, from which speeds are known.
    await world.later(70)

    found = []
    for _ in range(3):
        (each,) = (await call(world, "lag.groups"))["groups"]
        found.append((each["loses_data"], each["retention_margin_s"]))
        await world.later(1)
    exact = await call(world, "lag.group", group="g")

    assert [loses_data for loses_data, _ in found] == [True] * 3
    assert found[0][1] - found[2][1] == pytest.approx(2, abs=0.2)
    assert exact["loses_data"]


async def test_negative_commit_is_no_commit(world: World) -> None:
    """Coordinators keep it, as Kafka's do; nobody is behind by it, and an earlier commit does not count either."""
    await world.topic("t")
    client = await world.client()
    await client.produce("t", batch(9))
    coordinator = await coordinator_of(world, "g")
    for group_id, offsets in (("g", (-5,)), ("h", (4, -1))):
        for offset in offsets:
            await commit(world, coordinator, group_id, {("t", 0): offset})

    for each in (await call(world, "lag.groups"))["groups"]:
        assert (each["lag_records"], each["status"]) == (None, "OK")
