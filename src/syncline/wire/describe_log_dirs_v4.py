"""The answer to DescribeLogDirs version 4 with fields of our own: when this broker last took part in a move.

The schema is Kafka's plus tagged fields (from tag 10000): for how many ms it has received nothing for replicas that are
added, and sent nothing to them; -1 while no move runs. Then it is Kafka's, byte for byte, and Kafka's clients ignore
the rest.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.describe_log_dirs.v4.response import DescribeLogDirsResult
from kio.schema.errors import ErrorCode
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32Timedelta, i64

from syncline.model.immutable import Immutable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DescribeLogDirsResponse(Immutable):
    """The answer."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(35)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    results: tuple[DescribeLogDirsResult, ...]
    nothing_received_ms: i64 = field(metadata={"kafka_type": "int64", "tag": 10_000}, default=i64(-1))
    nothing_sent_ms: i64 = field(metadata={"kafka_type": "int64", "tag": 10_001}, default=i64(-1))
