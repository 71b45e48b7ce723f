"""Reading and writing in steps against `kio`, which does it in one call; and what is refused on the way."""

import gc
import uuid
from collections.abc import Generator
from types import FunctionType
from typing import Any, TypeVar

import pytest

from syncline.wire.announced_counts import STRING_BYTES_MAX
from syncline.wire.api import ApiKey
from syncline.wire.codec import (
    decode_request,
    decode_request_in_steps,
    encode_fields,
    encode_request,
    encode_response,
    request_type,
    response_type,
)
from syncline.wire.entities import build
from syncline.wire.errors import DecodeError
from syncline.wire.primitives import varint
from syncline.wire.rows import ROWS_AT_ONCE, Rows, SharedRows, is_long
from syncline.wire.stepwise import NUMBERS_AT_ONCE, STRINGS_AT_ONCE, decode_in_steps, encode_in_steps, forget_plans

T = TypeVar("T")
ID = uuid.UUID(int=0xABC)


def drained(steps: Generator[None, None, T]) -> tuple[T, int]:
    """Return the result of a generator, and how many steps led to it."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


def _partitions(count: int) -> list[dict[str, Any]]:
    return [{"partition_index": index, "current_leader_epoch": -1, "timestamp": -1} for index in range(count)]


def _new_topic(number: int) -> dict[str, Any]:
    return {
        "name": f"t{number}",
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": index, "broker_ids": (1, 2, 3)} for index in range(number)],
        "configs": [{"name": "retention.ms", "value": "1"}, {"name": "no.value", "value": None}],
    }


REQUESTS = [
    (ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["a", "", "ö"]}),
    (ApiKey.DESCRIBE_GROUPS, 3, {"groups": ["a", "", "ö"], "include_authorized_operations": False}),
    (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        {
            "resources": [
                {"resource_type": 2, "resource_name": "t", "configuration_keys": keys}
                for keys in (None, (), ("a", "b"))
            ],
            "include_synonyms": True,
            "include_documentation": False,
        },
    ),
    (ApiKey.LIST_OFFSETS, 1, {"replica_id": -1, "topics": [{"name": "t", "partitions": _partitions(3)}]}),
    (
        ApiKey.LIST_OFFSETS,
        7,
        {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": "t", "partitions": _partitions(3)}, {"name": "u", "partitions": ()}],
        },
    ),
    (
        ApiKey.CREATE_TOPICS,
        7,
        {"topics": [_new_topic(number) for number in range(4)], "timeout": 5, "validate_only": True},
    ),
    (
        ApiKey.METADATA,
        12,
        {
            "topics": [{"topic_id": ID, "name": None}, {"topic_id": None, "name": "t"}],
            "allow_auto_topic_creation": True,
            "include_topic_authorized_operations": False,
        },
    ),
    (
        ApiKey.METADATA,
        12,
        {"topics": None, "allow_auto_topic_creation": True, "include_topic_authorized_operations": False},
    ),
    (ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": "g", "topics": None}], "require_stable": False}),
    (
        ApiKey.OFFSET_FETCH,
        8,
        {
            "groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": (1, 2)}]}],
            "require_stable": False,
        },
    ),
]
ANSWER = {
    "throttle_time": 0,
    "topics": [
        {
            "name": f"t{number}",
            "topic_id": ID,
            "error_code": 0,
            "error_message": None,
            "num_partitions": 1,
            "replication_factor": 3,
            "configs": [
                {"name": name, "value": None, "read_only": False, "config_source": 5, "is_sensitive": False}
                for name in ("a", "b")
            ],
        }
        for number in range(3)
    ],
}


@pytest.mark.parametrize(("key", "version", "fields"), REQUESTS)
def test_steps_read_what_one_call_reads(key: ApiKey, version: int, fields: dict[str, Any]) -> None:
    """The same entity, and the position after it; bytes that follow are left alone."""
    body = encode_request(build(request_type(key, version), fields))
    (entity, end), _ = drained(decode_in_steps(request_type(key, version), memoryview(body + b"more"), 0))

    assert entity == decode_request(key, version, body)
    assert end == len(body)


def test_each_structure_of_an_array_is_a_step_at_any_depth() -> None:
    """Otherwise one topic with many partitions would be one step."""
    fields = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "t", "partitions": _partitions(1_000)}]}
    body = encode_request(build(request_type(ApiKey.LIST_OFFSETS, 7), fields))
    _, steps = drained(decode_request_in_steps(ApiKey.LIST_OFFSETS, 7, body))

    assert steps >= 1_000


@pytest.mark.parametrize(("version", "key"), [(4, ApiKey.FIND_COORDINATOR), (1, ApiKey.DESCRIBE_GROUPS)])
def test_strings_of_an_array_are_read_some_at_a_time(version: int, key: ApiKey) -> None:
    """A hundred thousand names in one step would take 20 ms."""
    names = [f"g{number}" for number in range(1_000)]
    fields: dict[str, Any] = {"groups": names}
    if key is ApiKey.FIND_COORDINATOR:
        fields = {"key_type": 0, "coordinator_keys": names}
    body = encode_request(build(request_type(key, version), fields))
    read, steps = drained(decode_request_in_steps(key, version, body))

    assert read == decode_request(key, version, body)
    assert steps >= 1_000 / STRINGS_AT_ONCE


def test_numbers_of_an_array_are_read_some_at_a_time() -> None:
    """A hundred thousand partitions of one topic in one step would take 50 ms."""
    topics = [{"name": "t", "partition_indexes": range(10 * NUMBERS_AT_ONCE)}, {"name": "u", "partition_indexes": ()}]
    fields = {"groups": [{"group_id": "g", "topics": topics}], "require_stable": False}
    body = encode_request(build(request_type(ApiKey.OFFSET_FETCH, 8), fields))
    read, steps = drained(decode_request_in_steps(ApiKey.OFFSET_FETCH, 8, body))

    assert read == decode_request(ApiKey.OFFSET_FETCH, 8, body)
    assert steps >= 10


def test_string_of_an_array_is_no_longer_than_a_string_may_be() -> None:
    """Other versions have two bytes for its length, and could not return it."""
    body = b"\x00\x02" + varint(STRING_BYTES_MAX + 2) + b"s" * (STRING_BYTES_MAX + 1) + b"\x00"
    for decode in (decode_request, lambda *request: drained(decode_request_in_steps(*request))):
        with pytest.raises(DecodeError, match="32767 are allowed"):
            decode(ApiKey.FIND_COORDINATOR, 4, body)


@pytest.mark.parametrize(("key", "version", "fields"), REQUESTS)
def test_body_that_ends_too_early_is_malformed_in_steps_as_in_one_call(
    key: ApiKey, version: int, fields: dict[str, Any]
) -> None:
    """However little is missing, both refuse it, or neither does."""
    body = encode_request(build(request_type(key, version), fields))
    for size in range(len(body)):
        short = body[:size]
        try:
            whole: Any = decode_request(key, version, short)
        except DecodeError:
            whole = None
        try:
            stepped: Any = drained(decode_request_in_steps(key, version, short))[0]
        except DecodeError:
            stepped = None

        assert stepped == whole


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x00" * 5 + b"\xff\xff\xff\xff\x0f", id="four-thousand-million-topics"),
        pytest.param(b"\x00" * 5 + b"\x00", id="null-where-an-array-must-be"),
        pytest.param(b"\x00" * 5 + b"\x02\x02t\xff\xff\xff\xff\x0f", id="four-thousand-million-partitions"),
        pytest.param(b"\x00" * 5 + b"\x01\xff\xff\xff\xff\x0f", id="four-thousand-million-tags"),
    ],
)
def test_announced_counts_are_checked_in_steps(body: bytes) -> None:
    """No count is believed that the bytes cannot hold."""
    with pytest.raises(DecodeError):
        drained(decode_request_in_steps(ApiKey.LIST_OFFSETS, 7, body))


@pytest.mark.parametrize("version", range(2, 8))
def test_steps_write_what_one_call_writes(version: int) -> None:
    """The same bytes, in flexible versions and in others, with shared rows and rows made on the way."""
    entity_type = response_type(ApiKey.CREATE_TOPICS, version)
    whole = encode_response(build(entity_type, ANSWER))
    shared = SharedRows(ANSWER["topics"][0]["configs"])  # type: ignore[index]
    made = {
        "throttle_time": 0,
        "topics": Rows(ANSWER["topics"], lambda topic: {**topic, "configs": shared}, lambda topic: topic["configs"]),
    }
    written, steps = drained(encode_in_steps(entity_type, ANSWER))
    written_of_made, _ = drained(encode_in_steps(entity_type, made))

    assert written == written_of_made == whole == encode_response(build(entity_type, made))
    assert steps >= 3


@pytest.mark.parametrize(
    ("topics", "partitions", "long"),
    [(1, ROWS_AT_ONCE - 1, False), (1, ROWS_AT_ONCE, True), (ROWS_AT_ONCE + 1, 0, True)],
)
def test_answer_is_long_by_all_its_rows(topics: int, partitions: int, long: bool) -> None:
    """One topic with many partitions is as long as many topics; a long one comes as steps."""

    def row(index: int) -> dict[str, int]:
        return {"partition_index": index, "error_code": 0}

    plain = {
        "throttle_time": 0,
        "topics": [{"name": "t", "partitions": [row(index) for index in range(partitions)]} for _ in range(topics)],
    }
    lazy = {
        "throttle_time": 0,
        "topics": Rows(
            range(topics),
            lambda _: {"name": "t", "partitions": Rows(range(partitions), row)},
            lambda _: range(partitions),
        ),
    }

    assert is_long(plain) is is_long(lazy) is long
    assert isinstance(encode_fields(ApiKey.OFFSET_COMMIT, 8, plain), bytes) is not long


def test_items_beyond_those_that_are_kept_are_read_and_dropped() -> None:
    """What comes after the array has its place; an array that is not named keeps all of its items."""
    protocols = [{"name": f"p{number}", "metadata": b"m"} for number in range(9)]
    fields = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": protocols,
        "reason": "because",
    }
    body = encode_request(build(request_type(ApiKey.JOIN_GROUP, 8), fields))
    some, step_count = drained(decode_request_in_steps(ApiKey.JOIN_GROUP, 8, body, kept_max={"protocols": 4}))
    whole, _ = drained(decode_request_in_steps(ApiKey.JOIN_GROUP, 8, body, kept_max={"others": 4}))

    assert [each.name for each in some.protocols] == ["p0", "p1", "p2", "p3"]
    assert (some.reason, step_count) == ("because", len(protocols))
    assert whole == decode_request(ApiKey.JOIN_GROUP, 8, body)


UNKNOWN = b"\x01" + varint(77) + b"\x02zz"


@pytest.mark.parametrize(
    ("key", "version", "plain", "tagged"),
    [
        # Without a list; in the items of a list; in an item that has a list itself, and at the end.
        (ApiKey.DESCRIBE_CLUSTER, 0, b"\x00\x00", b"\x00" + UNKNOWN),
        (
            ApiKey.METADATA,
            12,
            b"\x02" + bytes(16) + b"\x02t\x00\x01\x00\x00",
            b"\x02" + bytes(16) + b"\x02t" + UNKNOWN + b"\x01\x00\x00",
        ),
        (
            ApiKey.OFFSET_FETCH,
            8,
            b"\x02\x02g\x02\x02t\x01\x00\x00\x00\x00",
            b"\x02\x02g\x02\x02t\x01" + UNKNOWN + UNKNOWN + b"\x00" + UNKNOWN,
        ),
    ],
    ids=["alone", "item", "nested"],
)
def test_unknown_tagged_fields_are_ignored(key: ApiKey, version: int, plain: bytes, tagged: bytes) -> None:
    """Guards: a short request with one closed the connection, a long one did not. KIP-482 lets senders add them."""
    expected = decode_request(key, version, plain)

    assert decode_request(key, version, tagged) == expected
    assert drained(decode_request_in_steps(key, version, tagged))[0] == expected
    assert drained(decode_request_in_steps(key, version, tagged, at_once_bytes_max=1_000))[0] == expected
    assert drained(decode_request_in_steps(key, version, plain, at_once_bytes_max=1_000)) == (expected, 0)


def test_tagged_field_that_reaches_past_the_end_is_malformed() -> None:
    """In one call and in steps."""
    body = b"\x00\x01" + varint(77) + b"\x7fzz"
    with pytest.raises(DecodeError):
        decode_request(ApiKey.DESCRIBE_CLUSTER, 0, body)
    with pytest.raises(DecodeError):
        drained(decode_request_in_steps(ApiKey.DESCRIBE_CLUSTER, 0, body))


@pytest.mark.parametrize("times", [1, 2])
def test_what_was_found_out_is_forgotten_and_found_out_again(times: int) -> None:
    """Thousands of objects, made while a long request was served, would live on all over what it took."""
    for _ in range(times):
        forget_plans()
        assert found_out() == 0
        test_steps_write_what_one_call_writes(7)
        assert found_out() > 10
    forget_plans()

    assert found_out() == 0


def found_out() -> int:
    """Return how many objects there are that tell how entities are read and written."""
    return sum(
        type(each).__module__ == "syncline.wire.stepwise"
        or getattr(each, "__qualname__", "").startswith("converter.<locals>")
        for each in gc.get_objects()
        if isinstance(each, tuple | FunctionType)
    )
