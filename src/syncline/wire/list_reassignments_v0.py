"""The answer to ListPartitionReassignments version 0 with fields of our own: which move owns what, and the moves.

The schema is Kafka's plus tagged fields (from tag 10000): of a partition its replicas of before and its move's id, of
the whole answer the moves (`model.metadata.MoveRecord`). Without moves and reassignments it is Kafka's, byte for byte,
and Kafka's clients ignore the rest.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta, i64

from syncline.model.immutable import Immutable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OngoingPartitionReassignment(Immutable):
    """One partition that is reassigned."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(46)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    replicas: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"}, default=())
    adding_replicas: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"}, default=())
    removing_replicas: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"}, default=())
    original: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32", "tag": 10_000}, default=())
    move_id: str = field(metadata={"kafka_type": "string", "tag": 10_001}, default="")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OngoingTopicReassignment(Immutable):
    """The partitions of one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(46)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    name: TopicName = field(metadata={"kafka_type": "string"})
    partitions: tuple[OngoingPartitionReassignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Move(Immutable):
    """A move, with the fields of `model.metadata.MoveRecord`."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(46)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    move_id: str = field(metadata={"kafka_type": "string"})
    throttle: i64 = field(metadata={"kafka_type": "int64"})
    started_ms: i64 = field(metadata={"kafka_type": "int64"})
    control: str = field(metadata={"kafka_type": "string"})
    deadline_ms: i64 = field(metadata={"kafka_type": "int64"})
    impact_percent: i32 = field(metadata={"kafka_type": "int32"})
    name: str = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ListPartitionReassignmentsResponse(Immutable):
    """The answer."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(46)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    topics: tuple[OngoingTopicReassignment, ...]
    moves: tuple[Move, ...] = field(metadata={"tag": 10_000}, default=())
