"""Reassignments with fields of our own: Kafka's messages where there are none, and the same bytes in steps."""

import io
from typing import Any

from kio.schema.alter_partition_reassignments.v1 import request as kafkas_request
from kio.schema.alter_partition_reassignments.v1 import response as kafkas_response
from kio.schema.describe_log_dirs.v4 import response as kafkas_dirs
from kio.schema.list_partition_reassignments.v0 import response as kafkas_list
from kio.serial import entity_writer

from syncline.wire.api import ApiKey
from syncline.wire.codec import (
    decode_request,
    decode_request_in_steps,
    decode_response,
    encode_fields,
    encode_request,
    encode_response,
    request_type,
    response_type,
)
from syncline.wire.entities import build
from syncline.wire.reassignments_v1 import THROTTLE_TAG
from syncline.wire.rows import Rows
from syncline.wire.stepwise import encode_in_steps

ALTER, LIST = ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.LIST_PARTITION_REASSIGNMENTS
OWN = {"throttle": 5, "control": "deadline", "deadline_ms": 9, "impact_percent": -1, "move_id": "m", "name": "night"}


def kafkas(entity_type: Any, fields: dict[str, Any]) -> bytes:
    """Return Kafka's bytes."""
    out = io.BytesIO()
    entity_writer(entity_type)(out, build(entity_type, fields))
    return out.getvalue()


def finished(steps: Any) -> Any:
    """Run steps to their end, and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def request(**others: Any) -> dict[str, Any]:
    """Return the fields of a request."""
    partitions = [{"partition_index": 3, "replicas": (1, 2)}, {"partition_index": 4, "replicas": None}]
    return {
        "timeout": 1_000,
        "allow_replication_factor_change": False,
        "topics": [{"name": "t", "partitions": partitions}],
        **others,
    }


def answer(**others: Any) -> dict[str, Any]:
    """Return the fields of an answer."""
    return {
        "throttle_time": 0,
        "allow_replication_factor_change": False,
        "error_code": 0,
        "error_message": None,
        "responses": [{"name": "t", "partitions": [{"partition_index": 3, "error_code": 39, "error_message": "no"}]}],
        **others,
    }


def listing(count: int, **row: Any) -> dict[str, Any]:
    """Return the fields of a list with so many partitions."""
    rows = [
        {"partition_index": index, "replicas": (4, 1), "adding_replicas": (4,), "removing_replicas": (1,), **row}
        for index in range(count)
    ]
    return {"throttle_time": 0, "error_code": 0, "error_message": None, "topics": [{"name": "t", "partitions": rows}]}


def test_messages_without_our_fields_are_kafkas_byte_for_byte() -> None:
    """A client that knows nothing of moves sends and gets Kafka's."""
    ours = encode_request(build(request_type(ALTER, 1), request()))
    assert ours == kafkas(kafkas_request.AlterPartitionReassignmentsRequest, request())
    assert encode_fields(ALTER, 1, answer()) == kafkas(kafkas_response.AlterPartitionReassignmentsResponse, answer())
    assert encode_fields(LIST, 0, listing(2)) == kafkas(kafkas_list.ListPartitionReassignmentsResponse, listing(2))
    fields = {"throttle_time": 0, "error_code": 0, "results": ()}
    assert encode_fields(ApiKey.DESCRIBE_LOG_DIRS, 4, fields) == kafkas(kafkas_dirs.DescribeLogDirsResponse, fields)
    told = decode_response(ApiKey.DESCRIBE_LOG_DIRS, 4, encode_fields(ApiKey.DESCRIBE_LOG_DIRS, 4, fields))
    assert (told.nothing_received_ms, told.nothing_sent_ms) == (-1, -1)


def test_our_fields_are_tagged_far_from_kafkas() -> None:
    """They come after everything of Kafka's, so its readers skip them; ours finds them, at once and in steps."""
    body = encode_request(build(request_type(ALTER, 1), request(**OWN)))
    plain = kafkas(kafkas_request.AlterPartitionReassignmentsRequest, request())
    mine, in_steps = decode_request(ALTER, 1, body), finished(decode_request_in_steps(ALTER, 1, body))

    assert plain[-1] == 0
    assert body.startswith(plain[:-1])
    assert mine == in_steps
    assert {name: getattr(mine, name) for name in OWN} == OWN
    assert THROTTLE_TAG >= 10_000


def test_version_0_has_none_of_them() -> None:
    """Who wants a move sends version 1."""
    fields = request()
    del fields["allow_replication_factor_change"]

    assert not hasattr(decode_request(ALTER, 0, encode_request(build(request_type(ALTER, 0), fields))), "throttle")


def test_long_answer_has_its_tagged_fields_too() -> None:
    """Written row by row it is the same, whether they have values or not."""
    move = {
        "move_id": "m", "throttle": 5, "started_ms": 7, "control": "", "deadline_ms": -1, "impact_percent": -1,
        "name": "night",
    }  # fmt: skip
    for fields in (
        listing(3, original=(1,), move_id="m") | {"moves": [move, move | {"move_id": "n"}]},
        listing(3) | {"moves": []},
        listing(3),
    ):
        entity = build(response_type(LIST, 0), fields)
        assert finished(encode_in_steps(response_type(LIST, 0), fields)) == encode_response(entity)
    for fields in (answer(move_id="m"), answer()):
        entity = build(response_type(ALTER, 1), fields)
        assert finished(encode_in_steps(response_type(ALTER, 1), fields)) == encode_response(entity)


def test_list_of_thousands_names_each_move() -> None:
    """So long an answer is made in steps, and its rows when they are written."""
    count = 3_000
    rows = listing(count, original=(1,), move_id="m")["topics"][0]["partitions"]
    topics = Rows([rows], lambda some: {"name": "t", "partitions": Rows(some, dict)}, lambda some: some)
    encoded = encode_fields(LIST, 0, listing(0) | {"topics": topics, "moves": []})

    decoded = decode_response(LIST, 0, finished(encoded))

    assert [each.partition_index for each in decoded.topics[0].partitions] == list(range(count))
    assert {each.move_id for each in decoded.topics[0].partitions} == {"m"}
