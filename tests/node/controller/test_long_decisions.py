"""Requests that change many things: other requests are decided, and answered, before the last of their parts."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from syncline.model.errors import ErrorCode
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_response, encode_request, request_type
from syncline.wire.entities import build
from tests.node.world import World

TOPICS = 80
PARTITIONS = 250
_Prepare = Callable[[World], Awaitable[None]]

_NAMES = [f"t{number}" for number in range(TOPICS)]


def _new(names: list[str]) -> dict[str, Any]:
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()} for name in names
    ]
    return {"topics": topics, "timeout": 5_000, "validate_only": False}


async def _nothing(_world: World) -> None:
    """Prepare nothing."""


async def _many_topics(world: World) -> None:
    client = await world.client()
    await client.ask(ApiKey.CREATE_TOPICS, 7, **_new(_NAMES))


async def _many_partitions_led_by_others(world: World) -> None:
    """Create a topic, and start a broker again: others then lead what it should."""
    await world.topic("t", partitions=PARTITIONS)
    world.kill(3)
    await world.until(lambda: not any(each.leader == 3 for each in _states(world)))
    await world.start(3)
    await world.until(lambda: all(len(each.isr) == 3 for each in _states(world)))


def _states(world: World) -> list[Any]:
    image = world.broker().image
    return [image.partition("t", index) for index in range(PARTITIONS)]


def _altered(topics: int = TOPICS, **of_each: Any) -> dict[str, Any]:
    config = {"name": "retention.ms", "value": "5", **of_each}
    return {
        "resources": [{"resource_type": 2, "resource_name": name, "configs": [config]} for name in _NAMES[:topics]],
        "validate_only": False,
    }


_LONG_LIST = {
    "name": "leader.replication.throttled.replicas",
    "value": ",".join(f"{number}:1" for number in range(9_000)),
}


LONG: dict[str, tuple[_Prepare, ApiKey, int, dict[str, Any]]] = {
    "create-topics": (_nothing, ApiKey.CREATE_TOPICS, 7, _new(_NAMES)),
    "delete-topics": (
        _many_topics,
        ApiKey.DELETE_TOPICS,
        6,
        {"topics": [{"name": name, "topic_id": None} for name in _NAMES], "timeout": 5_000},
    ),
    "create-partitions": (
        _many_topics,
        ApiKey.CREATE_PARTITIONS,
        3,
        {
            "topics": [{"name": name, "count": 2, "assignments": None} for name in _NAMES],
            "timeout": 5_000,
            "validate_only": False,
        },
    ),
    "alter-configs": (_many_topics, ApiKey.ALTER_CONFIGS, 2, _altered()),
    "alter-configs-incrementally": (_many_topics, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, _altered(config_operation=0)),
    "alter-few-configs-with-long-values": (
        _many_topics,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        _altered(20, config_operation=0, **_LONG_LIST),
    ),
    "elect-leaders": (
        _many_partitions_led_by_others,
        ApiKey.ELECT_LEADERS,
        2,
        {
            "election_type": 0,
            "topic_partitions": [{"topic": "t", "partitions": list(range(PARTITIONS))}],
            "timeout": 5_000,
        },
    ),
}


def _errors(entity: Any) -> set[int]:
    """Return every error code of an answer, at any depth."""
    found: set[int] = set()
    for name in entity.__dataclass_fields__:
        value = getattr(entity, name)
        if name == "error_code":
            found.add(int(value))
        elif isinstance(value, tuple):
            found.update(*(_errors(each) for each in value if hasattr(each, "__dataclass_fields__")))
    return found


@pytest.mark.brokers(3)
@pytest.mark.parametrize("case", LONG)
async def test_short_request_is_decided_between_the_parts_of_a_long_one(world: World, case: str) -> None:
    """One decision about all of it would come first, and hold everybody until it is made."""
    prepare, key, version, fields = LONG[case]
    await prepare(world)
    body = encode_request(build(request_type(key, version), fields))
    slow, quick = await world.client(), await world.client()
    long = slow.send(key, version, body)
    created = await quick.ask(ApiKey.CREATE_TOPICS, 7, **_new(["short"]))
    is_first = long not in slow.answers
    answer = decode_response(key, version, await slow.body(long))

    assert is_first
    assert _errors(created) == {ErrorCode.NONE}
    assert _errors(answer) <= {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED}
    if case == "elect-leaders":
        assert [each.leader for each in _states(world)] == [each.replicas[0] for each in _states(world)]
