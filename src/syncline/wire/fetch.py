"""Fetch requests, by hand: read in versions 4-17, written in 12-17.

What each version changed: 5 log start offset; 7 sessions (KIP-227); 9 current
leader epoch (KIP-320); 11 rack (KIP-392); 12 flexible, last fetched epoch
(KIP-595); 13 topic ids instead of names (KIP-516); 15 the replica's state in a
tagged field instead of its id (KIP-903); 16 leader hints in the answer
(KIP-951); 17 directory ids (KIP-853), read and ignored.

Fields that a version lacks read as -1 ("none"), the session as (0, -1) ("no
session"), the rack as "". A topic is a `str` up to version 12 and the 16 bytes
of its id from 13. The answer is in `fetch_response`.
"""

import struct
from collections.abc import Generator
from typing import Final, NamedTuple, TypeAlias

from syncline.records.buffers import Buffer
from syncline.wire.errors import DecodeError
from syncline.wire.primitives import (
    INT32,
    TOPIC_ID_BYTES,
    compact_string,
    not_null,
    read_compact_count,
    read_compact_string,
    read_count,
    read_string,
    read_tags,
    skip_tags,
    varint,
)

FLEXIBLE_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13
REPLICA_STATE_SINCE: Final = 15
# Of a client's request, in all topics, and as many to forget; no broker leads as many.
PARTITIONS_MAX: Final = 20_000
# Topics and partitions of a client's request that are read in one go, and partitions of one step of a longer one.
ROWS_AT_ONCE: Final = 500
ROWS_PER_STEP: Final = 20
UNBOUNDED: Final = 2**31 - 1

# A name (versions up to 12) or the 16 bytes of an id (from 13).
Topic: TypeAlias = str | bytes

# Replica id (-1 where it comes later), maximum wait, least and most bytes, isolation level, session id and epoch.
_Head: TypeAlias = tuple[int, int, int, int, int, int, int]

_HEAD_V4: Final = struct.Struct(">iiiib")
_HEAD_V7: Final = struct.Struct(">iiiibii")
_HEAD_V15: Final = struct.Struct(">iiibii")
_PARTITION_V4: Final = struct.Struct(">iqi")
_PARTITION_V5: Final = struct.Struct(">iqqi")
_PARTITION_V9: Final = struct.Struct(">iiqqi")
# Includes the byte that counts the tagged fields after it.
_PARTITION_V12: Final = struct.Struct(">iiqiqiB")
_REPLICA_STATE: Final = struct.Struct(">iq")
# With an empty section of tags at its end, and what precedes it: one tagged field, its tag is 1, its size this one's.
_REPLICA_STATE_FIELD: Final = struct.Struct(">iqB")
_REPLICA_STATE_TAG: Final = bytes((1, 1, _REPLICA_STATE_FIELD.size))
# The whole request of a follower for one partition, which forgets nothing: each of its fields has a fixed place. Most
# requests between brokers that are not busy are of this form.
_SINGLE: Final = struct.Struct(">iiibii B16sB iiqiqiB BBB 3siqB")
# Of these fields, those that make it one: the counts of topics, of partitions and of the partition's tags; then no tags
# of the topic, nothing to forget, no rack, one tag, and no more.
_SINGLE_MARKS: Final = (2, 2, 0, 0, 1, 1, _REPLICA_STATE_TAG, 0)
_SINGLE_TAIL: Final = _SINGLE_MARKS[2:7]
_INT32: Final = struct.Struct(">i")
_TOPIC_ID: Final = struct.Struct("16s")


class FetchPartition(NamedTuple):
    """From where to read one partition, and what the reader knows about it."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int


class FetchRequest(NamedTuple):
    """One request; consumers have replica id -1."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[Topic, list[FetchPartition]]]
    forgotten: list[tuple[Topic, list[int]]]
    rack_id: str


# Bound once: NamedTuple's own constructor costs three times as much, and a full fetch has thousands of these.
_make: Final = tuple.__new__


class LongFetch(Exception):
    """A request names more topics or partitions than are read in one go."""


def parse_fetch_request(buffer: Buffer, version: int, position: int = 0, *, rows_max: int = UNBOUNDED) -> FetchRequest:
    """Return the request whose body begins at `position`.

    Raises LongFetch for one of more topics and partitions, which `parse_fetch_in_steps` must read, and DecodeError.
    """
    try:
        if version >= FLEXIBLE_SINCE:
            return _parse_flexible(buffer, version, position, rows_max)
        return _parse_legacy(buffer, version, position, rows_max)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise _malformed(error, buffer, version) from None


def parse_fetch_in_steps(
    buffer: Buffer, version: int, position: int = 0, *, partitions_max: int = PARTITIONS_MAX
) -> Generator[None, None, FetchRequest]:
    """Return the request whose body begins at `position`, however long it is; each step takes some microseconds.

    Raises DecodeError, also for too many partitions, or too many to forget.
    """
    try:
        return (yield from _parse_long(buffer, version, position, partitions_max))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise _malformed(error, buffer, version) from None


def _malformed(error: Exception, buffer: Buffer, version: int) -> DecodeError:
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"a name in a fetch request is not UTF-8: {error}")
    return DecodeError(f"a fetch request (version {version}) of {len(buffer)} bytes ends too early")


def _read_head(buffer: Buffer, version: int, position: int) -> tuple[_Head, int]:
    """Return what comes before the topics, and the position of these."""
    if version >= REPLICA_STATE_SINCE:
        return (-1, *_HEAD_V15.unpack_from(buffer, position)), position + 21
    if version >= 7:
        return _HEAD_V7.unpack_from(buffer, position), position + 25
    return (*_HEAD_V4.unpack_from(buffer, position), 0, -1), position + 17


def _parse_single(buffer: Buffer, position: int) -> FetchRequest | None:
    """Return a request of the layout `_SINGLE`, None if it has another."""
    fields = _SINGLE.unpack_from(buffer, position)
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, topic, rows = fields[:9]
    row_end, topic_end, forgotten, rack, tag, replica_id, replica_epoch, end = fields[15:]
    if (topics, rows, row_end, topic_end, forgotten, rack, tag, end) != _SINGLE_MARKS:
        return None
    partition = _make(FetchPartition, fields[9:15])
    return _make(
        FetchRequest,
        (
            replica_id,
            replica_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            [(topic, [partition])],
            [],
            "",
        ),
    )


def _parse_flexible(buffer: Buffer, version: int, position: int, rows_max: int) -> FetchRequest:
    if len(buffer) - position == _SINGLE.size and version >= REPLICA_STATE_SINCE and rows_max > 1:
        single = _parse_single(buffer, position)
        if single is not None:
            return single
    head, position = _read_head(buffer, version, position)
    topics: list[tuple[Topic, list[FetchPartition]]] = []
    # 1 is the compact encoding of "no items", the usual case in a session.
    if buffer[position] == 1:
        position += 1
    else:
        position = _parse_topics(buffer, version, position, topics, rows_max)
    forgotten: list[tuple[Topic, list[int]]] = []
    if buffer[position] == 1:
        position += 1
    else:
        position = _parse_forgotten(buffer, version, position, forgotten, rows_max)
    return _with_tail(buffer, version, position, head, topics, forgotten)


def _with_tail(
    buffer: Buffer,
    version: int,
    position: int,
    head: _Head,
    topics: list[tuple[Topic, list[FetchPartition]]],
    forgotten: list[tuple[Topic, list[int]]],
) -> FetchRequest:
    """Return the request with what comes after the forgotten topics."""
    replica_id, replica_epoch, rack_id = head[0], -1, ""
    if version < FLEXIBLE_SINCE:
        if version >= 11:
            rack_id, _ = read_string(buffer, position)
    else:
        if buffer[position] == 1:
            position += 1
        else:
            rack_id, position = read_compact_string(buffer, position)
        if buffer[position : position + 3] == _REPLICA_STATE_TAG and version >= REPLICA_STATE_SINCE:
            # A follower's request ends with this one field.
            replica_id, replica_epoch, _ = _REPLICA_STATE_FIELD.unpack_from(buffer, position + 3)
        elif buffer[position] != 0:
            for tag, start, end in read_tags(buffer, position):
                if tag == 1 and version >= REPLICA_STATE_SINCE:
                    if end - start < _REPLICA_STATE.size:
                        raise DecodeError(f"the replica state of a fetch request has {end - start} bytes")
                    replica_id, replica_epoch = _REPLICA_STATE.unpack_from(buffer, start)
    return _make(FetchRequest, (replica_id, replica_epoch, *head[1:], topics, forgotten, rack_id))


def _at_once(rows_left: int, count: int) -> int:
    """Return how many topics and partitions may still be read in one go; raises LongFetch if these are more."""
    if count > rows_left:
        raise LongFetch
    return rows_left - count


def _parse_topics(
    buffer: Buffer,
    version: int,
    position: int,
    topics: list[tuple[Topic, list[FetchPartition]]],
    rows_left: int,
) -> int:
    """Fill `topics`; return the position after them."""
    count, position = read_compact_count(buffer, position, 3)
    rows_left -= not_null(count)
    for _ in range(count):
        topic, position = _read_topic(buffer, version, position)
        partition_count, position = read_compact_count(buffer, position, 33)
        rows_left -= not_null(partition_count)
        if rows_left < 0:
            raise LongFetch
        partitions, position = _flexible_partitions(buffer, position, partition_count)
        topics.append((topic, partitions))
        position = skip_tags(buffer, position)
    return position


def _flexible_partitions(buffer: Buffer, position: int, count: int) -> tuple[list[FetchPartition], int]:
    """Return so many partitions, and the position after them."""
    unpack = _PARTITION_V12.unpack_from
    partitions = []
    for _ in range(count):
        *fields, tag_count = unpack(buffer, position)
        partitions.append(_make(FetchPartition, fields))
        # The tag count is the byte after the first 32; a follower of version 17 sends its directory id as a tag.
        position = position + 33 if tag_count == 0 else skip_tags(buffer, position + 32)
    return partitions, position


def _parse_forgotten(
    buffer: Buffer,
    version: int,
    position: int,
    forgotten: list[tuple[Topic, list[int]]],
    rows_left: int,
) -> int:
    """Fill `forgotten`; return the position after it."""
    count, position = _count_of(buffer, version, position, 3, 6)
    rows_left = _at_once(rows_left, not_null(count))
    for _ in range(count):
        topic, numbers, position = _forgotten_topic(buffer, version, position)
        rows_left = _at_once(rows_left, len(numbers))
        forgotten.append((topic, numbers))
    return position


def _forgotten_topic(buffer: Buffer, version: int, position: int) -> tuple[Topic, list[int], int]:
    """Return a topic with the partitions to forget, and the position after it."""
    topic, position = _read_topic(buffer, version, position)
    count, position = _count_of(buffer, version, position, 4, 4)
    numbers = list(struct.unpack_from(f">{not_null(count)}i", buffer, position))
    position += 4 * count
    return topic, numbers, skip_tags(buffer, position) if version >= FLEXIBLE_SINCE else position


def _count_of(buffer: Buffer, version: int, position: int, bytes_min: int, legacy_bytes_min: int) -> tuple[int, int]:
    """Return how many items an array has, of so many bytes at least in flexible versions and in others."""
    if version >= FLEXIBLE_SINCE:
        return read_compact_count(buffer, position, bytes_min)
    return read_count(buffer, position, legacy_bytes_min)


def _read_topic(buffer: Buffer, version: int, position: int) -> tuple[Topic, int]:
    if version >= TOPIC_IDS_SINCE:
        return _TOPIC_ID.unpack_from(buffer, position)[0], position + TOPIC_ID_BYTES
    if version >= FLEXIBLE_SINCE:
        return read_compact_string(buffer, position)
    return read_string(buffer, position)


def _parse_legacy(buffer: Buffer, version: int, position: int, rows_max: int) -> FetchRequest:
    head, position = _read_head(buffer, version, position)
    topics: list[tuple[Topic, list[FetchPartition]]] = []
    layout = _legacy_layout(version)
    count, position = _count_at_once(buffer, position, 6, rows_max)
    rows_left = rows_max - count
    for _ in range(count):
        topic, position = read_string(buffer, position)
        partition_count, position = _count_at_once(buffer, position, layout.size, rows_left)
        rows_left -= partition_count
        partitions, position = _legacy_partitions(buffer, layout, position, partition_count)
        topics.append((topic, partitions))
    forgotten: list[tuple[Topic, list[int]]] = []
    if version >= 7:
        # Most requests forget nothing.
        (count,) = INT32.unpack_from(buffer, position)
        position = _parse_forgotten(buffer, version, position, forgotten, rows_max) if count else position + 4
    return _with_tail(buffer, version, position, head, topics, forgotten)


def _count_at_once(buffer: Buffer, position: int, item_bytes_min: int, rows_left: int) -> tuple[int, int]:
    """Return the number of items of an array; raises LongFetch if these are more than may be read in one go."""
    count, position = read_count(buffer, position, item_bytes_min)
    if not 0 <= count <= rows_left:
        _at_once(rows_left, not_null(count))
    return count, position


def _legacy_layout(version: int) -> struct.Struct:
    return _PARTITION_V9 if version >= 9 else _PARTITION_V5 if version >= 5 else _PARTITION_V4


def _legacy_partitions(
    buffer: Buffer, layout: struct.Struct, position: int, count: int
) -> tuple[list[FetchPartition], int]:
    """Return so many partitions, and the position after them."""
    end = position + count * layout.size
    rows = layout.iter_unpack(buffer[position:end])
    make, kind = _make, FetchPartition
    if layout is _PARTITION_V9:
        partitions = [make(kind, (index, epoch, offset, -1, start, size)) for index, epoch, offset, start, size in rows]
    elif layout is _PARTITION_V5:
        partitions = [make(kind, (index, -1, offset, -1, start, size)) for index, offset, start, size in rows]
    else:
        partitions = [make(kind, (index, -1, offset, -1, -1, size)) for index, offset, size in rows]
    return partitions, end


def _parse_long(
    buffer: Buffer, version: int, position: int, partitions_max: int
) -> Generator[None, None, FetchRequest]:
    is_flexible = version >= FLEXIBLE_SINCE
    head, position = _read_head(buffer, version, position)
    topics: list[tuple[Topic, list[FetchPartition]]] = []
    partitions_left = to_forget_left = partitions_max
    count, position = _count_of(buffer, version, position, 3, 6)
    for _ in range(not_null(count)):
        topic, position = _read_topic(buffer, version, position)
        partition_count, position = _count_of(buffer, version, position, 33, _legacy_layout(version).size)
        partitions_left = _less(partitions_left, not_null(partition_count))
        partitions: list[FetchPartition] = []
        while (missing := partition_count - len(partitions)) > 0:
            size = min(missing, ROWS_PER_STEP)
            if is_flexible:
                some, position = _flexible_partitions(buffer, position, size)
            else:
                some, position = _legacy_partitions(buffer, _legacy_layout(version), position, size)
            partitions += some
            yield
        topics.append((topic, partitions))
        if is_flexible:
            position = skip_tags(buffer, position)
        yield
    forgotten: list[tuple[Topic, list[int]]] = []
    if version >= 7:
        count, position = _count_of(buffer, version, position, 3, 6)
        for _ in range(not_null(count)):
            topic, numbers, position = _forgotten_topic(buffer, version, position)
            to_forget_left = _less(to_forget_left, len(numbers))
            forgotten.append((topic, numbers))
            yield
    return _with_tail(buffer, version, position, head, topics, forgotten)


def _less(partitions_left: int, count: int) -> int:
    """Return how many partitions a request may still have after `count` more."""
    if count > partitions_left:
        raise DecodeError(f"{count - partitions_left} partitions more than a fetch request may have")
    return partitions_left - count


def encode_fetch_request(request: FetchRequest, version: int) -> bytes | bytearray:
    """Return the body of a follower's request, version 12 or newer."""
    assert version >= FLEXIBLE_SINCE, f"followers fetch with version {FLEXIBLE_SINCE} or newer, not {version}"
    topics, forgotten, rack_id = request[8:]
    is_single = len(topics) == 1 and len(topics[0][1]) == 1 and not forgotten and not rack_id
    if is_single and version >= REPLICA_STATE_SINCE and request.replica_id != -1:
        topic, (partition,) = topics[0]
        return _SINGLE.pack(*request[2:8], 2, topic, 2, *partition, *_SINGLE_TAIL, *request[:2], 0)
    if version >= REPLICA_STATE_SINCE:
        out = bytearray(_HEAD_V15.pack(*request[2:8]))
    else:
        out = bytearray(_HEAD_V7.pack(request[0], *request[2:8]))
    out += varint(len(request.topics) + 1)
    pack = _PARTITION_V12.pack
    for topic, partitions in request.topics:
        out += _encode_topic(topic)
        out += varint(len(partitions) + 1)
        for partition in partitions:
            out += pack(*partition, 0)
        out.append(0)
    if request.forgotten:
        out += varint(len(request.forgotten) + 1)
        for topic, numbers in request.forgotten:
            out += _encode_topic(topic)
            out += varint(len(numbers) + 1)
            out += struct.pack(f">{len(numbers)}iB", *numbers, 0)
    else:
        out.append(1)
    if request.rack_id:
        out += compact_string(request.rack_id)
    else:
        out.append(1)
    if version >= REPLICA_STATE_SINCE and request.replica_id != -1:
        out += _REPLICA_STATE_TAG + _REPLICA_STATE_FIELD.pack(request.replica_id, request.replica_epoch, 0)
    else:
        out.append(0)
    return out


def _encode_topic(topic: Topic) -> bytes:
    return topic if isinstance(topic, bytes) else compact_string(topic)
