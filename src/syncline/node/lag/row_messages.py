"""GROUP_ROWS (private key 20009), version 0, between brokers: the groups that a broker coordinates, page by page.

A broker that shows the groups of the whole cluster asks all coordinators:

    request   flags u8 (1: with the sizes of logs) | after: string, the last group of the page before, "" at first
    answer    flags u8 (1: more groups follow) | sizes i32, each: topic string | bytes i64 | groups i32, each a group
    group     id, state, protocol type, protocol: strings | commits i64
              members i32, each: member id, client id, host: strings
              topics i32, each: topic string | partitions i32, each: partition i32 | offset i64 | member i32

Groups come in the order of their ids, and whole. An offset is -1 where the group has committed nothing, a member -1
where no member reads. Numbers are big endian, a string is its length in bytes (u16) and UTF-8. What is not exactly such
a message raises `DecodeError`.
"""

import struct
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from syncline.wire.errors import DecodeError

Buffer = bytes | bytearray | memoryview

_FLAGS: Final = struct.Struct(">B")
_COUNT: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">H")
_BYTES: Final = struct.Struct(">q")
_ROW: Final = struct.Struct(">iqi")
_SIZES: Final = 1
_MORE: Final = 1
# Rows that are written or read in one step.
STEP_ROWS: Final = 200


class RowsRequest(NamedTuple):
    """Which page is wanted."""

    has_sizes: bool
    after: str


class GroupMember(NamedTuple):
    """One member of a group."""

    member_id: str
    client_id: str
    host: str


class GroupRow(NamedTuple):
    """One partition that a group has committed in, or that is assigned to a member."""

    partition: int
    committed: int
    """-1 without a commit."""
    member: int
    """Which member reads it, -1 if none does."""


class CoordinatedGroup(NamedTuple):
    """One group as its coordinator sees it."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    commit_count: int
    members: Sequence[GroupMember]
    topics: Mapping[str, Sequence[GroupRow]]


class RowsAnswer(NamedTuple):
    """One page of groups."""

    has_more: bool
    log_bytes: Mapping[str, int]
    """Of the logs that this broker hosts, by topic; empty unless asked for."""
    groups: Sequence[CoordinatedGroup]


def encode_request(request: RowsRequest) -> bytes:
    """Return the body of a request."""
    return _FLAGS.pack(_SIZES if request.has_sizes else 0) + _string(request.after)


def decode_request(body: Buffer, position: int) -> RowsRequest:
    """Return the request whose body begins at `position`."""
    reading = _Reading(body, position)
    (flags,) = reading.take(_FLAGS)
    request = RowsRequest(bool(flags & _SIZES), reading.string())
    reading.end()
    return request


def encode_answer(answer: RowsAnswer) -> Generator[None, None, bytes]:
    """Return the body of an answer, in steps."""
    parts = [_FLAGS.pack(_MORE if answer.has_more else 0), _COUNT.pack(len(answer.log_bytes))]
    for topic, size_bytes in answer.log_bytes.items():
        parts += (_string(topic), _BYTES.pack(size_bytes))
    yield
    parts.append(_COUNT.pack(len(answer.groups)))
    for group in answer.groups:
        parts += map(_string, group[:4])
        parts += (_BYTES.pack(group.commit_count), _COUNT.pack(len(group.members)))
        for member in group.members:
            parts += map(_string, member)
        parts.append(_COUNT.pack(len(group.topics)))
        for topic, rows in group.topics.items():
            parts += (_string(topic), _COUNT.pack(len(rows)))
            for first in range(0, len(rows), STEP_ROWS):
                parts += [_ROW.pack(*row) for row in rows[first : first + STEP_ROWS]]
                yield
        yield
    return b"".join(parts)


def decode_answer(body: Buffer) -> Generator[None, None, RowsAnswer]:
    """Return the page in an answer, in steps."""
    reading = _Reading(body, 0)
    (flags,) = reading.take(_FLAGS)
    sizes = {reading.string(): reading.take(_BYTES)[0] for _ in range(reading.count())}
    yield
    groups = []
    for _ in range(reading.count()):
        groups.append((yield from _group(reading)))
        yield
    reading.end()
    return RowsAnswer(bool(flags & _MORE), sizes, groups)


def _group(reading: "_Reading") -> Generator[None, None, CoordinatedGroup]:
    group_id, state, protocol_type, protocol = (reading.string() for _ in range(4))
    (commit_count,) = reading.take(_BYTES)
    members = [GroupMember(reading.string(), reading.string(), reading.string()) for _ in range(reading.count())]
    topics: dict[str, list[GroupRow]] = {}
    for _ in range(reading.count()):
        rows = topics[reading.string()] = []
        for _ in range(reading.count()):
            row = GroupRow._make(reading.take(_ROW))
            if not -1 <= row.member < len(members):
                raise DecodeError(f"a row of group {group_id} names member {row.member} of {len(members)}")
            rows.append(row)
            if len(rows) % STEP_ROWS == 0:
                yield
    return CoordinatedGroup(group_id, state, protocol_type, protocol, commit_count, members, topics)


def _string(text: str) -> bytes:
    data = text.encode()
    return _LENGTH.pack(len(data)) + data


class _Reading:
    """A place in a message that is being read."""

    __slots__ = ("_body", "_position")

    def __init__(self, body: Buffer, position: int) -> None:
        self._body = memoryview(body)
        self._position = position

    def take(self, what: struct.Struct) -> tuple[Any, ...]:
        """Return the next numbers."""
        try:
            values = what.unpack_from(self._body, self._position)
        except struct.error:
            raise DecodeError("a GROUP_ROWS message ends too early") from None
        self._position += what.size
        return values

    def count(self) -> int:
        """Return how many items follow."""
        (count,) = self.take(_COUNT)
        if not 0 <= count <= len(self._body) - self._position:
            raise DecodeError(f"a GROUP_ROWS message of {len(self._body)} bytes says that it has {count} items")
        return int(count)

    def string(self) -> str:
        """Return the next text."""
        (length,) = self.take(_LENGTH)
        end = self._position + length
        if end > len(self._body):
            raise DecodeError("a GROUP_ROWS message ends too early")
        try:
            text = str(self._body[self._position : end], "utf-8")
        except UnicodeDecodeError:
            raise DecodeError("a GROUP_ROWS message has text that is not UTF-8") from None
        self._position = end
        return text

    def end(self) -> None:
        """Raise `DecodeError` unless all of it was read."""
        if self._position != len(self._body):
            raise DecodeError(f"{len(self._body) - self._position} bytes follow a GROUP_ROWS message")
