"""Answers to Fetch, by hand: written in versions 4-17, read in 12-17.

An answer is written as parts: bytes that are made here, and between them the
records as they came from the log. Small record sets are joined to the bytes
around them, because a copy of a few kilobytes costs less than one more buffer;
other records are never copied. A follower reads records as views of the receive
buffer and writes these to its log.

Between brokers a row may have one field that Kafka does not have, under a tag that Kafka will not use: when the leader
appended some of the batches. Nothing but this module knows how it is written.

Versions: see `fetch`. Offsets are -1 where a row is in error.
"""

import struct
from collections.abc import Generator, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

from syncline.records.buffers import Buffer, Part
from syncline.records.unread import Unread
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
    TOPIC_ID_BYTES,
    compact_string,
    not_null,
    read_compact_count,
    read_compact_string,
    read_tags,
    skip_tags,
    string,
    tagged,
    varint,
)

# (producer id, first offset of its aborted transaction)
AbortedTransaction: TypeAlias = tuple[int, int]

# (offset of a batch, when the leader appended it: Unix ms; negative: a gap, see `storage/arrivals/append_times.py`)
AppendTime: TypeAlias = tuple[int, int]

JOIN_BYTES_MAX: Final = 4096
# Of the private field: n x (i64 offset, i64 time).
APPEND_TIMES_TAG: Final = 20_000
# Another private field: i32 leader epoch, i64 sum.
UNREAD_TAG: Final = 20_002
# Of an answer that is written in steps.
ROWS_PER_STEP: Final = 20

_HEAD: Final = struct.Struct(">ihi")
# An answer with a single row, up to the size of its records: what most followers get.
_SINGLE: Final = struct.Struct(">ihi B16sB ihqqqBi")
# What ends such an answer: no tagged fields of the row, of its topic, and of the whole.
_SINGLE_END: Final = b"\x00\x00\x00"
# Of such a row: no diverging epoch, no hint at a leader, no append times, nothing unread.
_NO_TAGS: Final = (None, None, (), None)
# A row without records, in the flexible versions.
ROW_BYTES_MIN: Final = 37
_ROW: Final = struct.Struct(">ihqqqBi")
_ROW_START: Final = struct.Struct(">ihqqq")
_ROW_START_V4: Final = struct.Struct(">ihqq")
# A row without aborted transactions, up to its records.
_ROW_V11: Final = struct.Struct(">ihqqqiii")
_ABORTED: Final = struct.Struct(">qq")
_DIVERGING: Final = struct.Struct(">iq")
_APPEND_TIME: Final = struct.Struct(">qq")
_UNREAD: Final = struct.Struct(">iq")
_INT32: Final = struct.Struct(">i")
_TOPIC_ID: Final = struct.Struct("16s")
# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__


class FetchedPartition(NamedTuple):
    """The answer for one partition."""

    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    # In a parsed answer, a view of the buffer.
    records: Part = b""
    # None unless the reader asked only for committed data.
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    # (epoch, end offset): the reader's log diverges from the leader's at this offset or before.
    diverging_epoch: tuple[int, int] | None = None
    current_leader: LeaderIdAndEpoch | None = None
    # Only between brokers, in the order of the offsets.
    append_times: Sequence[AppendTime] = ()
    # Only between brokers, of records that the leader has not read.
    unread: Unread | None = None


class FetchResponse(NamedTuple):
    """A whole answer."""

    throttle_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    topics: Sequence[tuple[str | bytes, Sequence[FetchedPartition]]] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()


def encode_fetch_response(response: FetchResponse, version: int) -> list[Part]:
    """Return the body of an answer as buffers to be written in order."""
    if version >= 12:
        return _encode_flexible(response, version)
    return _encode_legacy(response, version)


def encode_fetch_in_steps(response: FetchResponse, version: int) -> Generator[None, None, list[Part]]:
    """Return the same buffers for an answer of many rows; each step takes some microseconds."""
    parts: list[Part] = []
    is_flexible = version >= 12
    out = _head(response, version)
    out += varint(len(response.topics) + 1) if is_flexible else _INT32.pack(len(response.topics))
    for topic, rows in response.topics:
        out += _topic_head(topic, len(rows), version)
        for start in range(0, len(rows), ROWS_PER_STEP):
            some = rows[start : start + ROWS_PER_STEP]
            out = _append_rows(parts, out, some) if is_flexible else _append_legacy_rows(parts, out, some, version)
            yield
        if is_flexible:
            out.append(0)
        yield
    if is_flexible:
        out += _end(response, version)
    parts.append(out)
    return parts


def _head(response: FetchResponse, version: int) -> bytearray:
    return bytearray(_HEAD.pack(*response[:3]) if version >= 7 else _INT32.pack(response.throttle_ms))


def _topic_head(topic: str | bytes, row_count: int, version: int) -> bytes:
    if version >= 12:
        return (topic if isinstance(topic, bytes) else compact_string(topic)) + varint(row_count + 1)
    assert isinstance(topic, str), f"version {version} has topic names, not ids"
    return string(topic) + _INT32.pack(row_count)


def _end(response: FetchResponse, version: int) -> bytes:
    if response.node_endpoints and version >= 16:
        return b"\x01" + tagged(0, encode_endpoints(response.node_endpoints))
    return b"\x00"


def _encode_single(response: FetchResponse) -> list[Part] | None:
    """Return an answer with one row of few records and without tagged fields, None if it has another form."""
    ((topic, (row,)),) = response.topics
    records, aborted = row[5], row[6]
    if len(records) > JOIN_BYTES_MAX or aborted or row[8:] != _NO_TAGS:
        return None
    # A compact count: 0 for null, 1 for no items.
    head = _SINGLE.pack(*response[:3], 2, topic, 2, *row[:5], 0 if aborted is None else 1, row[7])
    # What lies in a file is larger.
    return [b"".join((head, varint(len(records) + 1), cast("Buffer", records), _SINGLE_END))]


def _encode_flexible(response: FetchResponse, version: int) -> list[Part]:
    throttle_ms, error_code, session_id, topics, endpoints = response
    if len(topics) == 1 and len(topics[0][1]) == 1 and not endpoints and version >= 13:
        single = _encode_single(response)
        if single is not None:
            return single
    parts: list[Part] = []
    out = bytearray(_HEAD.pack(throttle_ms, error_code, session_id))
    out += varint(len(topics) + 1)
    for topic, rows in topics:
        out += topic if isinstance(topic, bytes) else compact_string(topic)
        count = len(rows) + 1
        # As `varint`, in line: most answers have few rows.
        if count < 0x80:
            out.append(count)
        else:
            out += varint(count)
        out = _append_rows(parts, out, rows)
        out.append(0)
    if endpoints:
        out += _end(response, version)
    else:
        out.append(0)
    parts.append(out)
    return parts


def _append_rows(parts: list[Part], out: bytearray, rows: Iterable[FetchedPartition]) -> bytearray:
    """Write rows to `out`; return where to go on: what ends in large records goes to `parts`."""
    for row in rows:
        index, error, high_watermark, stable, start, records, aborted, replica, diverging, leader, times, unread = row
        if aborted:
            out += _ROW_START.pack(index, error, high_watermark, stable, start)
            out += varint(len(aborted) + 1)
            for transaction in aborted:
                out += _ABORTED.pack(*transaction) + b"\x00"
            out += _INT32.pack(replica)
        else:
            # A compact count: 0 for null, 1 for no items.
            count = 0 if aborted is None else 1
            out += _ROW.pack(index, error, high_watermark, stable, start, count, replica)
        size = len(records)
        out += varint(size + 1)
        if size > JOIN_BYTES_MAX:
            parts += (out, records)
            out = bytearray()
        elif size:
            # What lies in a file is larger.
            out += cast("Buffer", records)
        if diverging is None and leader is None and not times and unread is None:
            out.append(0)
        else:
            out += _row_tags(diverging, leader, times, unread)
    return out


def _row_tags(
    diverging: tuple[int, int] | None,
    leader: LeaderIdAndEpoch | None,
    append_times: Sequence[AppendTime],
    unread: Unread | None,
) -> bytes:
    fields = []
    if diverging is not None:
        fields.append(tagged(0, _DIVERGING.pack(*diverging) + b"\x00"))
    if leader is not None:
        fields.append(tagged(1, encode_leader(leader)))
    if append_times:
        fields.append(tagged(APPEND_TIMES_TAG, b"".join(_APPEND_TIME.pack(*each) for each in append_times)))
    if unread is not None:
        fields.append(tagged(UNREAD_TAG, _UNREAD.pack(*unread)))
    return varint(len(fields)) + b"".join(fields)


def _encode_legacy(response: FetchResponse, version: int) -> list[Part]:
    parts: list[Part] = []
    out = _head(response, version)
    out += _INT32.pack(len(response.topics))
    for topic, rows in response.topics:
        out += _topic_head(topic, len(rows), version)
        out = _append_legacy_rows(parts, out, rows, version)
    parts.append(out)
    return parts


def _append_legacy_rows(parts: list[Part], out: bytearray, rows: Iterable[FetchedPartition], version: int) -> bytearray:
    for row in rows:
        index, error, high_watermark, stable, start, records, aborted, replica, _, _, _, _ = row
        size = len(records)
        if version >= 11 and not aborted:
            count = -1 if aborted is None else 0
            out += _ROW_V11.pack(index, error, high_watermark, stable, start, count, replica, size)
        else:
            out += _ROW_START.pack(*row[:5]) if version >= 5 else _ROW_START_V4.pack(*row[:4])
            out += _INT32.pack(-1 if aborted is None else len(aborted))
            for transaction in aborted or ():
                out += _ABORTED.pack(*transaction)
            if version >= 11:
                out += _INT32.pack(replica)
            out += _INT32.pack(size)
        if size > JOIN_BYTES_MAX:
            parts += (out, records)
            out = bytearray()
        else:
            out += cast("Buffer", records)
    return out


def parse_fetch_response(buffer: Buffer, version: int, position: int = 0) -> FetchResponse:
    """Return the answer (version 12 or newer) whose body begins at `position`; records are views of `buffer`.

    Raises DecodeError.
    """
    assert version >= 12, f"followers fetch with version 12 or newer, not {version}"
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    try:
        return _parse(view, version, position)
    except (struct.error, IndexError):
        raise DecodeError(f"a fetch response (version {version}) of {len(buffer)} bytes ends too early") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"a text in a fetch response is not UTF-8: {error}") from None


def has_more_rows(buffer: memoryview, version: int, position: int, rows: int) -> bool:
    """Return whether an answer has more than so many topics, or its first one so many rows; False if unreadable."""
    assert version >= 13, f"topics of version {version} are named"
    if len(buffer) <= rows * ROW_BYTES_MIN:
        return False
    try:
        topic_count, position = read_compact_count(buffer, position + _HEAD.size, 3)
        if topic_count <= 0:
            return False
        row_count, _ = read_compact_count(buffer, position + TOPIC_ID_BYTES, ROW_BYTES_MIN)
    except (struct.error, IndexError, DecodeError):
        # To parse it says what is wrong.
        return False
    return max(topic_count, row_count) > rows


class TopicRow(NamedTuple):
    """A row of an answer, and its topic."""

    topic_id: bytes
    row: FetchedPartition


class FetchedRows:
    """The rows of an answer with topic ids: each is parsed when it is asked for.

    To make it, and to ask it for a row, raises DecodeError if that part of the answer makes no sense.
    """

    def __init__(self, buffer: memoryview, version: int, position: int) -> None:
        """Read the head of the answer whose body begins at `position`."""
        assert version >= 13, f"topics of version {version} are named"
        self._view = buffer
        try:
            _, self.error_code, self.session_id = _HEAD.unpack_from(buffer, position)
            topic_count, self._position = read_compact_count(buffer, position + _HEAD.size, 3)
        except (struct.error, IndexError):
            raise DecodeError(f"a fetch response (version {version}) of {len(buffer)} bytes ends too early") from None
        self._topics_left = not_null(topic_count)
        self._rows_left = 0
        # None before the first topic.
        self._topic_id: bytes | None = None

    def __iter__(self) -> "FetchedRows":
        return self

    def __next__(self) -> TopicRow:
        try:
            while not self._rows_left:
                if not self._topics_left:
                    raise StopIteration
                if self._topic_id is not None:
                    self._position = skip_tags(self._view, self._position)
                self._begin_topic()
            row, self._position = _parse_row(self._view, self._position)
        except (struct.error, IndexError):
            raise DecodeError(f"a fetch response ends {self._rows_left} rows too early") from None
        except UnicodeDecodeError as error:
            raise DecodeError(f"a text in a fetch response is not UTF-8: {error}") from None
        self._rows_left -= 1
        assert self._topic_id is not None, "a row belongs to a topic"
        return _make(TopicRow, (self._topic_id, row))

    def keep(self) -> None:
        """Copy the rows that are left out of a buffer that is about to be used for something else.

        One copy of all takes far less time than one of each.
        """
        self._view, self._position = memoryview(bytes(self._view[self._position :])), 0

    def _begin_topic(self) -> None:
        position = self._position
        (self._topic_id,) = _TOPIC_ID.unpack_from(self._view, position)
        count, self._position = read_compact_count(self._view, position + TOPIC_ID_BYTES, ROW_BYTES_MIN)
        self._rows_left = not_null(count)
        self._topics_left -= 1


def _parse_single(view: memoryview, position: int) -> FetchResponse | None:
    """Return an answer with one row that has no tagged fields, None if it has another form."""
    fields = _SINGLE.unpack_from(view, position)
    topic_count, topic, row_count, aborted_count = *fields[3:6], fields[11]
    if topic_count != 2 or row_count != 2 or aborted_count > 1:
        return None
    size, records_at = read_unsigned(view, position + _SINGLE.size)
    records_end = records_at + max(size - 1, 0)
    if records_end + len(_SINGLE_END) != len(view) or bytes(view[records_end:]) != _SINGLE_END:
        return None
    aborted: list[AbortedTransaction] | None = [] if aborted_count else None
    records = view[records_at:records_end]
    row = _make(FetchedPartition, (*fields[6:11], records, aborted, fields[12], None, None, (), None))
    return _make(FetchResponse, (*fields[:3], [(topic, [row])], []))


def _parse(view: memoryview, version: int, position: int) -> FetchResponse:
    if len(view) - position > _SINGLE.size and version >= 13:
        single = _parse_single(view, position)
        if single is not None:
            return single
    throttle_ms, error_code, session_id = _HEAD.unpack_from(view, position)
    topics: list[tuple[str | bytes, list[FetchedPartition]]] = []
    topic_count, position = read_compact_count(view, position + _HEAD.size, 3)
    for _ in range(not_null(topic_count)):
        topic: str | bytes
        if version >= 13:
            (topic,) = _TOPIC_ID.unpack_from(view, position)
            position += TOPIC_ID_BYTES
        else:
            topic, position = read_compact_string(view, position)
        partition_count, position = read_compact_count(view, position, ROW_BYTES_MIN)
        partitions = []
        for _ in range(not_null(partition_count)):
            row, position = _parse_row(view, position)
            partitions.append(row)
        topics.append((topic, partitions))
        position = skip_tags(view, position)
    endpoints: list[NodeEndpoint] = []
    # Nearly always there are no tagged fields.
    if view[position] != 0:
        for tag, start, _ in read_tags(view, position):
            if tag == 0 and version >= 16:
                endpoints = read_endpoints(view, start)
    return FetchResponse(throttle_ms, error_code, session_id, topics, endpoints)


def _parse_row(view: memoryview, position: int) -> tuple[FetchedPartition, int]:
    index, error, high_watermark, stable, start, aborted_count, replica = _ROW.unpack_from(view, position)
    aborted: list[AbortedTransaction] | None = None
    if aborted_count <= 1:
        aborted = [] if aborted_count else None
        position += _ROW.size
    else:
        aborted, position = _parse_aborted(view, position + _ROW_START.size)
        (replica,) = _INT32.unpack_from(view, position)
        position += 4
    size, position = read_unsigned(view, position)
    records_end = position + max(size - 1, 0)
    if records_end > len(view):
        raise DecodeError(f"{size - 1} bytes of records announced, {len(view) - position} are there")
    records = view[position:records_end]
    diverging = leader = None
    times: Sequence[AppendTime] = ()
    unread = None
    position = records_end + 1
    if view[records_end] != 0:
        for tag, payload, end in read_tags(view, records_end):
            if tag == 0:
                diverging = _DIVERGING.unpack_from(view, payload)
            elif tag == 1:
                leader = read_leader(view, payload)
            elif tag == APPEND_TIMES_TAG:
                times = tuple(_APPEND_TIME.iter_unpack(view[payload:end]))
            elif tag == UNREAD_TAG:
                unread = Unread(*_UNREAD.unpack(view[payload:end]))
            position = end
    row = FetchedPartition(
        index, error, high_watermark, stable, start, records, aborted, replica, diverging, leader, times, unread
    )
    return row, position


def _parse_aborted(view: memoryview, position: int) -> tuple[list[AbortedTransaction], int]:
    count, position = read_compact_count(view, position, 17)
    aborted = []
    for _ in range(count):
        producer_id, first_offset = _ABORTED.unpack_from(view, position)
        position = skip_tags(view, position + _ABORTED.size)
        aborted.append((producer_id, first_offset))
    return aborted, position
