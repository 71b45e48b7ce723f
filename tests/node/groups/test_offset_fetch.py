"""OffsetFetch that names the same things again and again: what its answer has, and how large it is."""

from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.model.ids import OFFSETS_TOPIC
from syncline.node.api.api_09_offset_fetch import ANSWER_BYTES_MAX
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_response, encode_request, request_type
from syncline.wire.entities import build
from tests.node.wire_client import WireClient
from tests.node.world import World

NOTE = "n" * 4_096
OFTEN = 6_000
PARTITIONS = 3


async def committed(world: World) -> WireClient:
    """Return a client of a group that has committed offsets with all the metadata that they may have."""
    await world.topic("t", partitions=PARTITIONS)
    client = await world.client()
    await client.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    await world.until(lambda: OFFSETS_TOPIC in world.broker().image.topics)
    await world.later(1)
    rows = [
        {"partition_index": index, "committed_offset": index, "committed_leader_epoch": -1, "committed_metadata": NOTE}
        for index in range(PARTITIONS)
    ]
    answer = await client.ask(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": "t", "partitions": rows}],
    )
    assert {int(each.error_code) for each in answer.topics[0].partitions} == {ErrorCode.NONE}
    return client


async def fetched(client: WireClient, version: int, fields: dict[str, Any]) -> tuple[int, Any]:
    """Return the size of an answer in bytes, and the answer."""
    body = encode_request(build(request_type(ApiKey.OFFSET_FETCH, version), fields))
    answer = await client.body(client.send(ApiKey.OFFSET_FETCH, version, body))
    return len(answer), decode_response(ApiKey.OFFSET_FETCH, version, answer)


def _notes(topics: Any) -> list[str]:
    return [each.metadata for topic in topics for each in topic.partitions]


@pytest.mark.parametrize("topics", [None, [{"name": "t", "partition_indexes": list(range(PARTITIONS))}]])
async def test_repeated_group_does_not_make_an_answer_without_bound(
    world: World, topics: list[dict[str, Any]] | None
) -> None:
    """A request of some kilobytes does not get an answer of 70 MB: beyond the bound, groups have an error."""
    client = await committed(world)
    group = {"group_id": "g", "topics": topics}
    size_bytes, answer = await fetched(client, 8, {"groups": [group] * OFTEN, "require_stable": False})
    good = [each for each in answer.groups if not int(each.error_code)]

    assert [each.group_id for each in answer.groups] == ["g"] * OFTEN
    assert ANSWER_BYTES_MAX - 100_000 < size_bytes < ANSWER_BYTES_MAX + 100_000
    assert {tuple(_notes(each.topics)) for each in good} == {(NOTE,) * PARTITIONS}
    assert {(int(each.error_code), each.topics) for each in answer.groups[len(good) :]} == {
        (ErrorCode.INVALID_REQUEST, ())
    }


@pytest.mark.parametrize("version", [1, 7, 8])
async def test_repeated_partition_does_not_make_an_answer_without_bound(world: World, version: int) -> None:
    """The same in one group, whose request is refused as a whole: fewer partitions per request are answered."""
    client = await committed(world)

    def asked(count: int) -> dict[str, Any]:
        group = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [1] * count}]}
        if version == 1:
            return group
        return {**(group if version < 8 else {"groups": [group]}), "require_stable": False}

    size_bytes, refused = await fetched(client, version, asked(OFTEN))
    _, small = await fetched(client, version, asked(2))
    group = refused if version < 8 else refused.groups[0]
    codes = {int(each.error_code) for topic in group.topics for each in topic.partitions}

    assert size_bytes < 200_000
    assert (codes if version == 1 else {int(group.error_code)}) == {ErrorCode.INVALID_REQUEST}
    assert _notes((small if version < 8 else small.groups[0]).topics) == [NOTE] * 2
