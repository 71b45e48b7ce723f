"""Requests that name many things, legal ones: how the loop is shared with others, and what the answers are."""

import tracemalloc
import uuid
from typing import Any

import pytest

from syncline.core.cluster.config_changes import UNKNOWN_NAMES_MAX
from syncline.model.errors import ErrorCode
from syncline.model.ids import OFFSETS_TOPIC
from syncline.node.api.api_32_describe_configs import DESCRIBED_BYTES_MAX
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_response, encode_request, request_type
from syncline.wire.entities import build
from syncline.wire.produce import encode_produce_request, parse_produce_response
from tests.node.wire_client import PRODUCE_VERSION, batch
from tests.node.world import World

MANY = 3_000
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _named(prefix: str, count: int = MANY) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def _indexes(name: str, **fields: Any) -> list[dict[str, Any]]:
    """Return one topic with many partitions, of which only the first exists."""
    return [{"name": name, "partitions": [{"partition_index": index, **fields} for index in range(MANY)]}]


LONG: dict[str, tuple[ApiKey, int, dict[str, Any]]] = {
    "metadata": (
        ApiKey.METADATA,
        12,
        {
            "topics": [{"topic_id": None, "name": name} for name in _named("none")],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        },
    ),
    "find-coordinator": (ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": _named("g")}),
    "list-offsets": (
        ApiKey.LIST_OFFSETS,
        7,
        {"replica_id": -1, "isolation_level": 0, "topics": _indexes("t", current_leader_epoch=-1, timestamp=-1)},
    ),
    "offset-for-leader-epoch": (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        {
            "replica_id": -2,
            "topics": [
                {
                    "topic": "t",
                    "partitions": [
                        {"partition": index, "current_leader_epoch": -1, "leader_epoch": 0} for index in range(MANY)
                    ],
                }
            ],
        },
    ),
    "offset-commit": (
        ApiKey.OFFSET_COMMIT,
        8,
        {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": _indexes("t", committed_offset=1, committed_leader_epoch=-1, committed_metadata=""),
        },
    ),
    "offset-fetch": (
        ApiKey.OFFSET_FETCH,
        8,
        {
            "groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": list(range(MANY))}]}],
            "require_stable": False,
        },
    ),
    "describe-groups": (
        ApiKey.DESCRIBE_GROUPS,
        5,
        {"groups": _named("g"), "include_authorized_operations": False},
    ),
    "delete-groups": (ApiKey.DELETE_GROUPS, 2, {"groups_names": _named("g")}),
    "delete-records": (ApiKey.DELETE_RECORDS, 2, {"topics": _indexes("none", offset=0), "timeout": 1_000}),
    "describe-configs": (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        {
            "resources": [
                {"resource_type": 2, "resource_name": name, "configuration_keys": None} for name in _named("none")
            ],
            "include_synonyms": True,
            "include_documentation": True,
        },
    ),
    "describe-log-dirs": (
        ApiKey.DESCRIBE_LOG_DIRS,
        4,
        {"topics": [{"topic": name, "partitions": [0]} for name in _named("none")]},
    ),
    "alter-replica-log-dirs": (
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        {"dirs": [{"path": "/data", "topics": [{"name": name, "partitions": [0]} for name in _named("none")]}]},
    ),
    "leave-group": (
        ApiKey.LEAVE_GROUP,
        5,
        {
            "group_id": "g",
            "members": [{"member_id": name, "group_instance_id": None, "reason": None} for name in _named("m")],
        },
    ),
    "create-topics": (
        ApiKey.CREATE_TOPICS,
        7,
        {
            "topics": [
                {"name": name, "num_partitions": 1, "replication_factor": 9, "assignments": (), "configs": ()}
                for name in _named("new")
            ],
            "timeout": 5_000,
            "validate_only": False,
        },
    ),
    "delete-topics": (
        ApiKey.DELETE_TOPICS,
        6,
        {
            "topics": [{"name": None, "topic_id": uuid.UUID(int=number + 1)} for number in range(MANY)],
            "timeout": 5_000,
        },
    ),
    "create-partitions": (
        ApiKey.CREATE_PARTITIONS,
        3,
        {
            "topics": [{"name": name, "count": 2, "assignments": None} for name in _named("none")],
            "timeout": 5_000,
            "validate_only": False,
        },
    ),
    "alter-configs": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": name,
                    "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}],
                }
                for name in _named("none")
            ],
            "validate_only": False,
        },
    ),
    "elect-leaders": (
        ApiKey.ELECT_LEADERS,
        2,
        {
            "election_type": 0,
            "topic_partitions": [{"topic": "none", "partitions": list(range(MANY))}],
            "timeout": 5_000,
        },
    ),
    "reassign": (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        1,
        {"timeout": 5_000, "topics": _indexes("t", replicas=(1,))},
    ),
    "reassign-nothing": (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        {"timeout": 5_000, "topics": [{"name": name, "partitions": ()} for name in _named("t")]},
    ),
    "move-refused": (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        1,
        {"timeout": 5_000, "topics": _indexes("t", replicas=(1,)), "throttle": 5},
    ),
    "list-reassignments": (
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        {"timeout": 5_000, "topics": [{"name": name, "partition_indexes": (0,)} for name in _named("t")]},
    ),
}
# What is not there is left out of their answers.
SHORT_ANSWERS = {"describe-log-dirs": 1, "list-reassignments": 0}


def _rows(entity: Any) -> int:
    """Return how many structures the deepest array of an answer has, or an array of structures if there is only one."""
    count = 0
    for name in entity.__dataclass_fields__:
        value = getattr(entity, name)
        if isinstance(value, tuple) and value and hasattr(value[0], "__dataclass_fields__"):
            count = max(count, len(value), *(_rows(each) for each in value))
    return count


@pytest.mark.parametrize("case", LONG)
async def test_long_list_shares_the_loop(world: World, case: str) -> None:
    """A short request that arrives at the same moment is answered before it; the long one has a row for each item.

    What the controller decides takes longer in any case; `test_long_decisions` shows how it is shared.
    """
    await world.topic("t")
    first = await world.client()
    if case in {"offset-commit", "offset-fetch", "delete-groups", "describe-groups", "leave-group"}:
        await first.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
        await world.until(lambda: OFFSETS_TOPIC in world.broker().image.topics)
        await world.later(1)
    key, version, fields = LONG[case]
    body = encode_request(build(request_type(key, version), fields))
    slow, quick = await world.client(), await world.client()
    order: list[str] = []
    for name, client in (("slow", slow), ("quick", quick)):
        client.note_arrivals(name, order)
    long = slow.send(key, version, body)
    short = quick.send(ApiKey.API_VERSIONS, 0)
    await quick.body(short)
    answer = await slow.body(long)
    assert order[0] == "quick"
    assert _rows(decode_response(key, version, answer)) >= SHORT_ANSWERS.get(case, MANY)


@pytest.mark.brokers(1, default_replication_factor=1, auto_create_topics_enable="true")
async def test_topics_that_a_client_names_are_created_together(world: World) -> None:
    """Each decision of the controller is stored, sent to all brokers and applied: not one for each of many names."""
    client = await world.client()
    names = _named("auto", 75)
    version = world.broker().image.version
    answer = await client.ask(
        ApiKey.METADATA,
        12,
        topics=[{"topic_id": None, "name": name} for name in names],
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )
    await world.until(lambda: len(world.broker().image.topics) >= len(names))

    assert {topic.name: int(topic.error_code) for topic in answer.topics} == dict.fromkeys(names, UNKNOWN)
    assert sorted(world.broker().image.topics) == sorted(names)
    assert world.broker().image.version - version <= 5


async def test_topics_of_one_request_are_created_in_parts_and_answered_once(world: World) -> None:
    """The answer has every topic with its description; a name that stands twice is refused, wherever it stands."""
    client = await world.client()
    names = [*_named("a", 120), "twice", *_named("b", 120), "twice"]
    version = world.broker().image.version
    answer = await client.ask(
        ApiKey.CREATE_TOPICS,
        7,
        topics=[
            {
                "name": name,
                "num_partitions": 1,
                "replication_factor": 1,
                "assignments": (),
                "configs": [{"name": "retention.ms", "value": "5"}] if name.startswith("b") else (),
            }
            for name in names
        ],
        timeout=5_000,
        validate_only=False,
    )
    codes = {topic.name: int(topic.error_code) for topic in answer.topics}
    retention = {
        topic.name: next(each.value for each in topic.configs if each.name == "retention.ms")
        for topic in answer.topics
        if topic.name != "twice"
    }

    assert codes == {name: ErrorCode.INVALID_REQUEST if name == "twice" else ErrorCode.NONE for name in names}
    assert retention == {name: "5" if name.startswith("b") else "604800000" for name in names if name != "twice"}
    assert len(world.broker().image.topics) == 240
    assert 9 <= world.broker().image.version - version <= 11


async def test_request_for_too_many_partitions_creates_none_of_them(world: World) -> None:
    """The bound is one of the whole request, though it is decided in parts."""
    client = await world.client()
    answer = await client.ask(
        ApiKey.CREATE_TOPICS,
        7,
        topics=[
            {"name": name, "num_partitions": 101, "replication_factor": 1, "assignments": (), "configs": ()}
            for name in _named("wide", 100)
        ],
        timeout=5_000,
        validate_only=False,
    )

    assert {int(topic.error_code) for topic in answer.topics} == {ErrorCode.POLICY_VIOLATION}
    assert not world.broker().image.topics


async def test_offsets_of_deleted_topics_are_looked_for_once_per_change_of_the_metadata(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look goes over all groups of every partition of the offsets topic, which has fifty."""
    client = await world.client()
    names = _named("t", 20)
    for name in names:
        await world.topic(name)
    deleted: list[tuple[str, ...]] = []
    monkeypatch.setattr(world.broker().groups, "topics_deleted", deleted.append)
    topics = [{"name": name, "topic_id": None} for name in names]
    await client.ask(ApiKey.DELETE_TOPICS, 6, topics=topics, timeout=5_000)
    await world.until(lambda: not world.broker().image.topics)

    assert deleted == [tuple(names)]


async def test_topic_named_by_name_and_by_id_is_not_deleted(world: World) -> None:
    """Also where the two stand far apart in a long request."""
    client = await world.client()
    for name in ("t", "u"):
        await world.topic(name)
    topic_id = world.broker().image.topics["t"].topic_id
    named = [{"name": name, "topic_id": None} for name in ("t", "u", *_named("none", 200))]
    answer = await client.ask(
        ApiKey.DELETE_TOPICS, 6, topics=[*named, {"name": None, "topic_id": topic_id}], timeout=5_000
    )
    codes = {topic.name: int(topic.error_code) for topic in answer.responses if topic.name in {"t", "u"}}

    assert codes == {"t": ErrorCode.INVALID_REQUEST, "u": ErrorCode.NONE}
    assert list(world.broker().image.topics) == ["t"]


async def test_offsets_of_a_long_commit_are_all_stored(world: World) -> None:
    """The parts are written one after the other; the answer says of each partition what came of it."""
    await world.topic("t", partitions=500)
    client = await world.client()
    await client.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    await world.until(lambda: OFFSETS_TOPIC in world.broker().image.topics)
    await world.later(1)
    rows = [
        {"partition_index": index, "committed_offset": index, "committed_leader_epoch": -1, "committed_metadata": ""}
        for index in range(501)
    ]
    committed = await client.ask(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": "t", "partitions": rows}],
    )
    fetched = await client.ask(ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": "g", "topics": None}], require_stable=False)
    codes = [int(each.error_code) for each in committed.topics[0].partitions]

    assert codes == [UNKNOWN] + [ErrorCode.NONE] * 500
    assert {each.partition_index: each.committed_offset for each in fetched.groups[0].topics[0].partitions} == {
        index: index for index in range(500)
    }


def _broker(count: int, name: str = "1") -> list[dict[str, Any]]:
    return [{"resource_type": 4, "resource_name": name, "configuration_keys": None}] * count


async def test_repeated_resource_is_described_once_and_its_answer_is_bounded(world: World) -> None:
    """A request of 12 KB does not get an answer of 100 MB: beyond the bound, resources have an error."""
    client = await world.client()
    resources = [*_broker(300), *_broker(300, "01")]
    options = {"include_synonyms": True, "include_documentation": True}
    body = encode_request(build(request_type(ApiKey.DESCRIBE_CONFIGS, 4), {"resources": resources, **options}))
    answer = await client.body(client.send(ApiKey.DESCRIBE_CONFIGS, 4, body))
    results = decode_response(ApiKey.DESCRIBE_CONFIGS, 4, answer).results
    one = await client.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=_broker(1), **options)
    described = [each for each in results if not int(each.error_code)]

    assert len(body) < 6_000
    assert len(results) == 600
    assert 0 < len(described) < 600
    assert described[0].configs == described[-1].configs == one.results[0].configs
    assert {int(each.error_code) for each in results[len(described) :]} == {ErrorCode.INVALID_REQUEST}
    assert len(answer) < 2 * DESCRIBED_BYTES_MAX


@pytest.mark.parametrize("kind", [4, 8])
async def test_only_what_java_reads_as_the_brokers_number_describes_it(world: World, kind: int) -> None:
    """A number has no end of spellings with spaces, which are refused; the others are one resource."""
    client = await world.client()
    names = ["1", "+1", "01", " 1", "1 ", "1_0", "10"]
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None} for name in names]
    answer = await client.ask(
        ApiKey.DESCRIBE_CONFIGS, 4, resources=resources, include_synonyms=True, include_documentation=True
    )
    rows = {each.resource_name: each for each in answer.results}

    assert {name: int(row.error_code) for name, row in rows.items()} == {
        name: ErrorCode.NONE if name in {"1", "+1", "01"} else ErrorCode.INVALID_REQUEST for name in names
    }
    assert rows["1"].configs == rows["+1"].configs == rows["01"].configs
    assert [rows[name].error_message for name in (" 1", "1 ", "1_0")] == [
        f"Broker id must be an integer, but it is: {name}" for name in (" 1", "1 ", "1_0")
    ]


async def test_broker_keeps_few_configurations_that_it_does_not_know(world: World) -> None:
    """Every description would show them, and every broker hold them."""
    client = await world.client()

    async def alter(first: int, count: int, *, operation: int = 0) -> int:
        configs = [
            {"name": f"x.{number}", "config_operation": operation, "value": "v"}
            for number in range(first, first + count)
        ]
        resource = {"resource_type": 4, "resource_name": "1", "configs": configs}
        answer = await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
        return int(answer.responses[0].error_code)

    assert await alter(0, 20_000) == ErrorCode.POLICY_VIOLATION
    assert await alter(0, UNKNOWN_NAMES_MAX) == ErrorCode.NONE
    assert await alter(UNKNOWN_NAMES_MAX, 1) == ErrorCode.POLICY_VIOLATION
    assert await alter(0, 1, operation=1) == ErrorCode.NONE
    assert await alter(UNKNOWN_NAMES_MAX, 1) == ErrorCode.NONE


async def test_produce_to_many_partitions_shares_the_loop(world: World) -> None:
    """Each append costs its time; a short request that comes at the same moment does not wait for all of them."""
    await world.topic("t", partitions=600)
    slow, quick = await world.client(), await world.client()
    topics = [("t", [(index, batch()) for index in range(601)]), ("none", [(index, batch()) for index in range(9_000)])]
    parts = encode_produce_request(PRODUCE_VERSION, acks=-1, timeout_ms=5_000, topics=topics)
    order: list[str] = []
    for name, client in (("slow", slow), ("quick", quick)):
        client.note_arrivals(name, order)
    produced = slow.send(ApiKey.PRODUCE, PRODUCE_VERSION, *parts)
    await quick.body(quick.send(ApiKey.API_VERSIONS, 0))
    answer = parse_produce_response(await slow.body(produced), PRODUCE_VERSION)
    codes = {topic: [row.error_code for row in rows] for topic, rows in answer.topics}

    assert order[0] == "quick"
    assert codes == {"t": [ErrorCode.NONE] * 600 + [UNKNOWN], "none": [UNKNOWN] * 9_000}
    assert world.partition(number=599).log.log_end == 1


async def test_other_brokers_produce_to_many_partitions(world: World) -> None:
    """Guards: what a broker's long request is copied to could not be stamped with offsets."""
    await world.topic("t", partitions=150)
    peer = await world.peer()
    topics = [("t", [(index, batch()) for index in range(150)])]
    parts = encode_produce_request(PRODUCE_VERSION, acks=-1, timeout_ms=5_000, topics=topics)
    answer = parse_produce_response(
        await peer.body(peer.send(ApiKey.PRODUCE, PRODUCE_VERSION, *parts)), PRODUCE_VERSION
    )

    assert {row.error_code for _, rows in answer.topics for row in rows} == {ErrorCode.NONE}


async def test_member_with_too_many_protocols_is_refused_for_what_it_takes_to_read_them(world: World) -> None:
    """Those beyond the bound are not kept while the request is read: forty clients may send such requests at once."""
    protocols = [{"name": f"protocol-{number}", "metadata": bytes(8)} for number in range(30_000)]
    fields = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": protocols,
    }
    body = encode_request(build(request_type(ApiKey.JOIN_GROUP, 3), fields))
    client = await world.client()
    await client.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    await world.until(lambda: OFFSETS_TOPIC in world.broker().image.topics)
    await world.later(1)
    tracemalloc.start()
    answer = await client.body(client.send(ApiKey.JOIN_GROUP, 3, body))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    reply = decode_response(ApiKey.JOIN_GROUP, 3, answer)
    assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert peak_bytes < 3 * len(body)
