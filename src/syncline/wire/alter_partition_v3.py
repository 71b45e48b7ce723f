"""AlterPartition version 3 with one field of our own, by which a leader relinquishes a partition (KIP-501).

The schema is Kafka's plus one tagged field of a partition, `relinquish` (tag 10000, far from the tags that Kafka
assigns). A request without it is Kafka's, byte for byte. Only brokers of one cluster exchange this message.
"""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.alter_partition.v3.request import BrokerState
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.types import BrokerId
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i64

from syncline.model.immutable import Immutable

RELINQUISH_TAG = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PartitionData(Immutable):
    """What a leader requests for one partition."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(56)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"})
    new_isr_with_epochs: tuple[BrokerState, ...]
    leader_recovery_state: i8 = field(metadata={"kafka_type": "int8"}, default=i8(0))
    partition_epoch: i32 = field(metadata={"kafka_type": "int32"})
    relinquish: bool = field(metadata={"kafka_type": "bool", "tag": RELINQUISH_TAG}, default=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TopicData(Immutable):
    """The partitions of one topic."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(56)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: tuple[PartitionData, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AlterPartitionRequest(Immutable):
    """A leader's request to the controller."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(56)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    broker_id: BrokerId = field(metadata={"kafka_type": "int32"})
    broker_epoch: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    topics: tuple[TopicData, ...]
