"""Produce, by hand: the parser locates the records of a request without copying them (versions 3-11).

What each version changed: 3 transactional ids and record batches (KIP-98); 5
log start offset in the answer; 7 zstd allowed (KIP-110); 8 record errors
(KIP-467); 9 flexible (KIP-482); 10 current leader and endpoints in the answer
(KIP-951); 11 no change of form (KIP-890 errors).

Positions refer to the caller's buffer; `records_end` is exclusive. Times are
milliseconds. Requests that end early, contain negative lengths or announce more
than they hold raise DecodeError; bytes after a complete request are ignored, as
in Kafka.
"""

import struct
from collections.abc import Generator, Sequence
from typing import Final, NamedTuple, TypeAlias

from syncline.records.buffers import Buffer
from syncline.records.varint import read_unsigned
from syncline.wire.endpoints import NodeEndpoint
from syncline.wire.errors import DecodeError
from syncline.wire.leader_hints import (
    LeaderIdAndEpoch,
    encode_endpoints,
    encode_leader,
    read_endpoints,
    read_leader,
)
from syncline.wire.primitives import (
    compact_string,
    not_null,
    nullable_compact_string,
    nullable_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_string,
    read_nullable_string,
    read_string,
    read_tags,
    skip_tags,
    string,
    tagged,
    varint,
)

FLEXIBLE_SINCE: Final = 9
# Of one request, in all topics; no broker leads as many.
PARTITIONS_MAX: Final = 20_000
# Topics and partitions that are read in one go, and partitions of one step of a longer request.
ROWS_AT_ONCE: Final = 1_000
ROWS_PER_STEP: Final = 20

# (partition, start of records, end of records); the end is None if the client sent null.
PartitionRecords: TypeAlias = tuple[int, int, int | None]

_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_INT32: Final = struct.Struct(">i")
_PARTITION_AND_SIZE: Final = struct.Struct(">ii")
_RESULT_V3: Final = struct.Struct(">ihqq")
_RESULT_V5: Final = struct.Struct(">ihqqq")
# Includes the end of almost every row of a flexible answer: no record_errors, a null error_message, no tags.
_RESULT_FLEXIBLE: Final = struct.Struct(">ihqqqBBB")


# The lengths of compact arrays and strings are written one larger; a longer one has more than one byte.
_ONE: Final = 2
_LONG: Final = 0x80
# A null transactional id, acks, time-out, the number of topics, and the length of the first one's name.
_SINGLE_HEAD: Final = struct.Struct(">BhiBB")
# Behind the records of the last partition: those of the partition, the topic and the request.
_NO_TAGS: Final = b"\0\0\0"
_ONE_TOPIC: Final = bytes([_ONE])
# The number of partitions, a result as above, and the end of the answer: no tags of the topic, throttle time, no tags.
_SINGLE_RESULT: Final = struct.Struct(">BihqqqBBBBiB")
# No record errors, no message, and no leader hint.
_UNEXPLAINED: Final = ((), None, None)

# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__


class ProduceRequest(NamedTuple):
    """One request; the records stay in the buffer it was parsed from."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[str, list[PartitionRecords]]]


class ProducedPartition(NamedTuple):
    """The result for the records of one partition."""

    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch | None = None


class ProduceResponse(NamedTuple):
    """A whole answer."""

    topics: list[tuple[str, list[ProducedPartition]]]
    throttle_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()


class LongProduce(Exception):
    """A request names more topics or partitions than are read in one go."""


def parse_produce(buffer: Buffer, version: int, position: int = 0) -> ProduceRequest:
    """Return the request whose body begins at `position`.

    Raises LongProduce for one that `parse_produce_in_steps` must read, and DecodeError.
    """
    try:
        if version >= FLEXIBLE_SINCE:
            return _parse_single(buffer, position) or _parse_flexible(buffer, position)
        return _parse_legacy(buffer, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise _malformed(error, buffer, version) from None


def parse_produce_in_steps(buffer: Buffer, version: int, position: int = 0) -> Generator[None, None, ProduceRequest]:
    """Return the request whose body begins at `position`, however long it is; each step takes some microseconds.

    Raises DecodeError.
    """
    try:
        return (yield from _parse_long(buffer, position, is_flexible=version >= FLEXIBLE_SINCE))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise _malformed(error, buffer, version) from None


def _malformed(error: Exception, buffer: Buffer, version: int) -> DecodeError:
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"a name in a produce request is not UTF-8: {error}")
    return DecodeError(f"a produce request (version {version}) of {len(buffer)} bytes ends too early")


def _parse_single(buffer: Buffer, position: int) -> ProduceRequest | None:
    """Return a request for one partition without transaction or tagged fields, or None if it has another form."""
    try:
        transactional_id, acks, timeout_ms, topic_count, name_size = _SINGLE_HEAD.unpack_from(buffer, position)
        if transactional_id or topic_count != _ONE or not 0 < name_size < _LONG:
            return None
        name_start = position + _SINGLE_HEAD.size
        name_end = name_start + name_size - 1
        if buffer[name_end] != _ONE:
            return None
        (partition,) = _INT32.unpack_from(buffer, name_end + 1)
        records_size, start = read_unsigned(buffer, name_end + 5)
        end = start + records_size - 1
        if end < start or buffer[end : end + 3] != _NO_TAGS:
            return None
        name = str(buffer[name_start:name_end], "utf-8")
    except (struct.error, IndexError, UnicodeDecodeError, DecodeError):
        # The general parser reports what is wrong.
        return None
    return _make(ProduceRequest, (None, acks, timeout_ms, [(name, [(partition, start, end)])]))


def _parse_flexible(buffer: Buffer, position: int) -> ProduceRequest:
    transactional_id, acks, timeout_ms, topic_count, position = _flexible_head(buffer, position)
    row_count = topic_count
    if row_count > ROWS_AT_ONCE:
        raise LongProduce
    topics = []
    for _ in range(topic_count):
        name, position = read_compact_string(buffer, position)
        partition_count, position = read_compact_count(buffer, position, 6)
        row_count += not_null(partition_count)
        if row_count > ROWS_AT_ONCE:
            raise LongProduce
        partitions, position = _flexible_partitions(buffer, position, partition_count)
        topics.append((name, partitions))
        position = position + 1 if buffer[position] == 0 else skip_tags(buffer, position)
    skip_tags(buffer, position)
    return _make(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def _flexible_head(buffer: Buffer, position: int) -> tuple[str | None, int, int, int, int]:
    """Return transactional id, acks, time-out, the number of topics, and the position of the first one."""
    transactional_id = None
    if buffer[position] == 0:
        position += 1
    else:
        transactional_id, position = read_nullable_compact_string(buffer, position)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(buffer, position)
    # A topic has a name, a count and tags, each of at least one byte.
    topic_count, position = read_compact_count(buffer, position + 6, 3)
    return transactional_id, acks, timeout_ms, not_null(topic_count), position


def _flexible_partitions(buffer: Buffer, position: int, count: int) -> tuple[list[PartitionRecords], int]:
    """Return so many partitions, and the position after them."""
    end = len(buffer)
    partitions: list[PartitionRecords] = []
    for _ in range(count):
        (partition,) = _INT32.unpack_from(buffer, position)
        records_size, position = read_unsigned(buffer, position + 4)
        if records_size == 0:
            partitions.append((partition, position, None))
        else:
            start = position
            position += records_size - 1
            if position > end:
                raise DecodeError(f"{records_size - 1} bytes of records announced, {end - start} are there")
            partitions.append((partition, start, position))
        position = position + 1 if buffer[position] == 0 else skip_tags(buffer, position)
    return partitions, position


def _parse_legacy(buffer: Buffer, position: int) -> ProduceRequest:
    transactional_id, acks, timeout_ms, topic_count, position = _legacy_head(buffer, position)
    row_count = topic_count
    if row_count > ROWS_AT_ONCE:
        raise LongProduce
    topics = []
    for _ in range(topic_count):
        name, position = read_string(buffer, position)
        partition_count, position = read_count(buffer, position, 8)
        row_count += not_null(partition_count)
        if row_count > ROWS_AT_ONCE:
            raise LongProduce
        partitions, position = _legacy_partitions(buffer, position, partition_count)
        topics.append((name, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _legacy_head(buffer: Buffer, position: int) -> tuple[str | None, int, int, int, int]:
    """Return transactional id, acks, time-out, the number of topics, and the position of the first one."""
    transactional_id, position = read_nullable_string(buffer, position)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(buffer, position)
    topic_count, position = read_count(buffer, position + 6, 6)
    return transactional_id, acks, timeout_ms, not_null(topic_count), position


def _legacy_partitions(buffer: Buffer, position: int, count: int) -> tuple[list[PartitionRecords], int]:
    """Return so many partitions, and the position after them."""
    end = len(buffer)
    partitions: list[PartitionRecords] = []
    for _ in range(count):
        partition, records_size = _PARTITION_AND_SIZE.unpack_from(buffer, position)
        position += 8
        if records_size < 0:
            if records_size != -1:
                raise DecodeError(f"records of {records_size} bytes")
            partitions.append((partition, position, None))
            continue
        start = position
        position += records_size
        if position > end:
            raise DecodeError(f"{records_size} bytes of records announced, {end - start} are there")
        partitions.append((partition, start, position))
    return partitions, position


def _parse_long(buffer: Buffer, position: int, *, is_flexible: bool) -> Generator[None, None, ProduceRequest]:
    head = _flexible_head if is_flexible else _legacy_head
    partitions_of = _flexible_partitions if is_flexible else _legacy_partitions
    transactional_id, acks, timeout_ms, topic_count, position = head(buffer, position)
    topics = []
    row_count = 0
    for _ in range(topic_count):
        if is_flexible:
            name, position = read_compact_string(buffer, position)
            partition_count, position = read_compact_count(buffer, position, 6)
        else:
            name, position = read_string(buffer, position)
            partition_count, position = read_count(buffer, position, 8)
        row_count += not_null(partition_count)
        if row_count > PARTITIONS_MAX:
            raise DecodeError(f"{row_count} partitions in a produce request")
        partitions: list[PartitionRecords] = []
        while (missing := partition_count - len(partitions)) > 0:
            some, position = partitions_of(buffer, position, min(missing, ROWS_PER_STEP))
            partitions += some
            yield
        topics.append((name, partitions))
        if is_flexible:
            position = skip_tags(buffer, position)
        yield
    if is_flexible:
        skip_tags(buffer, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_produce_response(
    version: int,
    topics: Sequence[tuple[str, Sequence[ProducedPartition]]],
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> Buffer:
    """Return the body of an answer, with the fields that `version` has."""
    if version >= FLEXIBLE_SINCE:
        return _encode_single(topics, throttle_ms, node_endpoints) or _encode_flexible(
            version, topics, throttle_ms, node_endpoints
        )
    out = bytearray(_INT32.pack(len(topics)))
    for name, partitions in topics:
        out += string(name)
        out += _INT32.pack(len(partitions))
        for row in partitions:
            if version >= 5:
                out += _RESULT_V5.pack(*row[:5])
            else:
                out += _RESULT_V3.pack(*row[:4])
            if version >= 8:
                out += _INT32.pack(len(row.record_errors))
                for index, message in row.record_errors:
                    out += _INT32.pack(index) + nullable_string(message)
                out += nullable_string(row.error_message)
    out += _INT32.pack(throttle_ms)
    return out


def _encode_single(
    topics: Sequence[tuple[str, Sequence[ProducedPartition]]],
    throttle_ms: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> bytes | None:
    """Return a response with one row and no error details, or None if it has another form."""
    if len(topics) != 1 or node_endpoints:
        return None
    ((name, rows),) = topics
    if len(rows) != 1 or rows[0][5:] != _UNEXPLAINED:
        return None
    raw_name = name.encode()
    result = _SINGLE_RESULT.pack(_ONE, *rows[0][:5], 1, 0, 0, 0, throttle_ms, 0)
    return b"".join((_ONE_TOPIC, varint(len(raw_name) + 1), raw_name, result))


def _encode_flexible(
    version: int,
    topics: Sequence[tuple[str, Sequence[ProducedPartition]]],
    throttle_ms: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> bytearray:
    out = bytearray(varint(len(topics) + 1))
    for name, partitions in topics:
        out += compact_string(name)
        out += varint(len(partitions) + 1)
        for row in partitions:
            partition, error_code, base_offset, append_time_ms, log_start_offset, errors, message, leader = row
            if leader is None and message is None and not errors:
                out += _RESULT_FLEXIBLE.pack(
                    partition, error_code, base_offset, append_time_ms, log_start_offset, 1, 0, 0
                )
                continue
            out += _RESULT_V5.pack(partition, error_code, base_offset, append_time_ms, log_start_offset)
            out += varint(len(errors) + 1)
            for index, text_ in errors:
                out += _INT32.pack(index) + nullable_compact_string(text_) + b"\x00"
            out += nullable_compact_string(message)
            if leader is None or version < 10:
                out.append(0)
            else:
                out += b"\x01" + tagged(0, encode_leader(leader))
        out.append(0)
    out += _INT32.pack(throttle_ms)
    if node_endpoints and version >= 10:
        out += b"\x01" + tagged(0, encode_endpoints(node_endpoints))
    else:
        out.append(0)
    return out


def encode_produce_request(
    version: int,
    *,
    transactional_id: str | None = None,
    acks: int,
    timeout_ms: int,
    topics: Sequence[tuple[str, Sequence[tuple[int, Buffer]]]],
) -> list[Buffer]:
    """Return the body of a request (flexible versions) as parts, without copying the records."""
    assert version >= FLEXIBLE_SINCE, f"brokers produce with version {FLEXIBLE_SINCE} or newer, not {version}"
    parts: list[Buffer] = []
    out = bytearray(nullable_compact_string(transactional_id))
    out += _ACKS_AND_TIMEOUT.pack(acks, timeout_ms) + varint(len(topics) + 1)
    for name, partitions in topics:
        out += compact_string(name) + varint(len(partitions) + 1)
        for partition, records in partitions:
            out += _INT32.pack(partition) + varint(len(records) + 1)
            parts += (out, records)
            out = bytearray(b"\x00")
        out.append(0)
    out.append(0)
    parts.append(out)
    return parts


def parse_produce_response(buffer: Buffer, version: int, position: int = 0) -> ProduceResponse:
    """Return the answer (flexible versions) whose body begins at `position`. Raises DecodeError."""
    assert version >= FLEXIBLE_SINCE, f"brokers produce with version {FLEXIBLE_SINCE} or newer, not {version}"
    try:
        return _parse_response(buffer, position)
    except (struct.error, IndexError):
        raise DecodeError(f"a produce response (version {version}) of {len(buffer)} bytes ends too early") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"a text in a produce response is not UTF-8: {error}") from None


def _parse_response(buffer: Buffer, position: int) -> ProduceResponse:
    topics = []
    topic_count, position = read_compact_count(buffer, position, 3)
    for _ in range(not_null(topic_count)):
        name, position = read_compact_string(buffer, position)
        partition_count, position = read_compact_count(buffer, position, 33)
        partitions = []
        for _ in range(not_null(partition_count)):
            row, position = _parse_row(buffer, position)
            partitions.append(row)
        topics.append((name, partitions))
        position = skip_tags(buffer, position)
    (throttle_ms,) = _INT32.unpack_from(buffer, position)
    endpoints: list[NodeEndpoint] = []
    for tag, start, _ in read_tags(buffer, position + 4):
        if tag == 0:
            endpoints = read_endpoints(buffer, start)
    return ProduceResponse(topics, throttle_ms, endpoints)


def _parse_row(buffer: Buffer, position: int) -> tuple[ProducedPartition, int]:
    index, error_code, base_offset, append_time_ms, log_start_offset = _RESULT_V5.unpack_from(buffer, position)
    error_count, position = read_compact_count(buffer, position + _RESULT_V5.size, 6)
    errors: list[tuple[int, str | None]] = []
    for _ in range(error_count):
        (record_index,) = _INT32.unpack_from(buffer, position)
        message, position = read_nullable_compact_string(buffer, position + 4)
        errors.append((record_index, message))
        position = skip_tags(buffer, position)
    message, position = read_nullable_compact_string(buffer, position)
    leader = None
    for tag, start, end in read_tags(buffer, position):
        if tag == 0:
            leader = read_leader(buffer, start)
        position = end
    row = ProducedPartition(index, error_code, base_offset, append_time_ms, log_start_offset, errors, message, leader)
    return row, position
