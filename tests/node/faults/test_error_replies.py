"""Answers that contain only an error: well formed for every request that clients may send."""

import dataclasses
import datetime as dt
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import pytest

from syncline.model.errors import ErrorCode
from syncline.node.faults.error_replies import error_reply
from syncline.wire.api import CLIENT_VERSIONS, INTERNAL_VERSIONS, ApiKey
from syncline.wire.codec import decode_response, encode_response, request_type
from syncline.wire.entities import build

CODE = ErrorCode.POLICY_VIOLATION
SERVED = [
    (key, version)
    for key, versions in INTERNAL_VERSIONS.items()
    if key < ApiKey.METADATA_DELTAS
    for version in range(versions.min, versions.max + 1)
]


def reply(key: ApiKey, version: int, code: ErrorCode = CODE, /, **fields: Any) -> Any:
    """Return the refusal of a request, as it arrives."""
    request = build(request_type(key, version), fields)
    entity = error_reply(request, key, version, code, "injected")
    return decode_response(key, version, encode_response(entity))


def sample(hint: Any) -> Any:
    """Return some value of a type; of a message, fields in which every list has one row."""
    if get_origin(hint) in (Union, UnionType):
        hint = get_args(hint)[0]
    if get_origin(hint) is tuple:
        return (sample(get_args(hint)[0]),)
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return {field.name: sample(hints[field.name]) for field in dataclasses.fields(hint)}
    values = ((bool, True), (str, "x"), (bytes, b"x"), (UUID, UUID(int=5)), (dt.timedelta, dt.timedelta()))
    return next((value for kind, value in values if issubclass(hint, kind)), 1)


def codes_in(entity: Any) -> list[ErrorCode]:
    """Return every error code in an answer."""
    found = []
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        if field.metadata.get("kafka_type") == "error_code":
            found.append(ErrorCode(int(value)))
        for each in value if isinstance(value, tuple) else ():
            found += codes_in(each) if dataclasses.is_dataclass(each) else []
    return found


@pytest.mark.parametrize(("key", "version"), SERVED, ids=lambda value: str(getattr(value, "name", value)).lower())
def test_every_request_can_be_refused(key: ApiKey, version: int) -> None:
    """The answer encodes, decodes and contains the error, in every version, for a request with one row of each kind."""
    refusal = reply(key, version, **sample(request_type(key, version)))
    assert CODE in codes_in(refusal)


def test_produce_is_refused_row_by_row() -> None:
    """Each partition has the error, and no offset."""
    refusal = reply(
        ApiKey.PRODUCE,
        9,
        transactional_id=None,
        acks=-1,
        timeout=1,
        topic_data=[
            {"name": "a", "partition_data": [{"index": 0, "records": None}, {"index": 2, "records": None}]},
            {"name": "b", "partition_data": [{"index": 1, "records": None}]},
        ],
    )
    rows = [
        (topic.name, row.index, int(row.error_code), row.base_offset)
        for topic in refusal.responses
        for row in topic.partition_responses
    ]
    assert rows == [("a", 0, CODE, -1), ("a", 2, CODE, -1), ("b", 1, CODE, -1)]


@pytest.mark.parametrize(
    ("code", "whole"), [(ErrorCode.NOT_LEADER_OR_FOLLOWER, 0), (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 70)]
)
def test_fetch_is_refused_as_a_whole_only_for_its_session(code: ErrorCode, whole: int) -> None:
    """Errors of partitions stand in their rows, which name the topic by its id as the request did."""
    topic_id = UUID(int=7)
    refusal = reply(
        ApiKey.FETCH,
        13,
        code,
        replica_id=-1,
        max_wait=0,
        min_bytes=1,
        isolation_level=0,
        session_id=9,
        session_epoch=2,
        topics=[{"topic_id": topic_id, "partitions": [{"partition": 4, "fetch_offset": 0, "partition_max_bytes": 1}]}],
        forgotten_topics_data=[],
        rack_id="",
    )
    assert int(refusal.error_code) == whole
    (topic,) = refusal.responses
    assert topic.topic_id == topic_id
    assert [(row.partition_index, int(row.error_code)) for row in topic.partitions] == [(4, code)]


@pytest.mark.parametrize(("code", "whole"), [(ErrorCode.NOT_CONTROLLER, 41), (ErrorCode.INVALID_UPDATE_VERSION, 0)])
def test_alter_partition_is_refused_as_kafka_does(code: ErrorCode, whole: int) -> None:
    """NOT_CONTROLLER refuses the whole request; an error of one proposal stands in its row."""
    refusal = reply(
        ApiKey.ALTER_PARTITION,
        3,
        code,
        broker_id=1,
        broker_epoch=2,
        topics=[
            {
                "topic_id": UUID(int=1),
                "partitions": [
                    {"partition_index": 3, "leader_epoch": 4, "new_isr_with_epochs": [], "partition_epoch": 5}
                ],
            }
        ],
    )
    assert int(refusal.error_code) == whole
    assert [(row.partition_index, int(row.error_code)) for row in refusal.topics[0].partitions] == [(3, code)]


def test_rows_that_are_numbers_or_texts_are_named() -> None:
    """OffsetFetch asks for partitions by number, DeleteGroups and FindCoordinator for keys by name."""
    fetched = reply(ApiKey.OFFSET_FETCH, 5, group_id="g", topics=[{"name": "a", "partition_indexes": [3, 5]}])
    assert [row.partition_index for row in fetched.topics[0].partitions] == [3, 5]
    deleted = reply(ApiKey.DELETE_GROUPS, 2, groups_names=["g", "h"])
    assert [(row.group_id, int(row.error_code)) for row in deleted.results] == [("g", CODE), ("h", CODE)]
    found = reply(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    assert [(row.key, int(row.error_code), row.error_message) for row in found.coordinators] == [
        ("g", CODE, "injected")
    ]


def test_group_requests_are_refused_without_inventing_members() -> None:
    """JoinGroup's protocols are no rows of its answer."""
    refusal = reply(
        ApiKey.JOIN_GROUP,
        5,
        group_id="g",
        session_timeout=1,
        rebalance_timeout=1,
        member_id="m",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    assert (refusal.members, refusal.member_id, int(refusal.error_code)) == ((), "m", CODE)


def test_all_requests_of_clients_are_covered() -> None:
    """The list of requests above is complete."""
    assert set(CLIENT_VERSIONS) <= {key for key, _ in SERVED}
