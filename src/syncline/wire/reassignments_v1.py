"""AlterPartitionReassignments version 1 with fields of our own, by which its reassignments become one move.

The schemas are Kafka's plus tagged fields (from tag 10000, far from those that Kafka assigns). A message without them
is Kafka's, byte for byte, and Kafka's clients ignore them. A request that has one of them asks for a move
(`model.metadata.MoveRecord`), whose id the answer tells; one that names no partition changes the move `move_id`. A
request for replicas that repeats a move without a throttle (-1) keeps the move's; the one without partitions ends it.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.alter_partition_reassignments.v1.request import ReassignableTopic
from kio.schema.alter_partition_reassignments.v1.response import ReassignableTopicResponse
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta, i64

from syncline.model.immutable import Immutable

THROTTLE_TAG = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AlterPartitionReassignmentsRequest(Immutable):
    """A request for other replicas."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(45)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    allow_replication_factor_change: bool = field(metadata={"kafka_type": "bool"}, default=True)
    topics: tuple[ReassignableTopic, ...]
    throttle: i64 = field(metadata={"kafka_type": "int64", "tag": THROTTLE_TAG}, default=i64(-1))
    control: str = field(metadata={"kafka_type": "string", "tag": THROTTLE_TAG + 1}, default="")
    deadline_ms: i64 = field(metadata={"kafka_type": "int64", "tag": THROTTLE_TAG + 2}, default=i64(-1))
    impact_percent: i32 = field(metadata={"kafka_type": "int32", "tag": THROTTLE_TAG + 3}, default=i32(-1))
    move_id: str = field(metadata={"kafka_type": "string", "tag": THROTTLE_TAG + 4}, default="")
    name: str = field(metadata={"kafka_type": "string", "tag": THROTTLE_TAG + 5}, default="")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AlterPartitionReassignmentsResponse(Immutable):
    """The answer, with the id of the move if one was requested."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(45)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    allow_replication_factor_change: bool = field(metadata={"kafka_type": "bool"}, default=True)
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    responses: tuple[ReassignableTopicResponse, ...]
    move_id: str = field(metadata={"kafka_type": "string", "tag": 10_000}, default="")
