"""LAG (private key 20007), version 0, between brokers: where partitions end, and where offsets lie in them.

A group's coordinator asks the leaders of the partitions in which the group has committed:

    request   flags u8 (1: exact places, 2: readers) | partitions i32, each:
              topic id 16 s | partition i32 | leader epoch i32 | offsets i32, each i64
    answer    broker epoch i64 | partitions i32, each:
              error i16 | (if none) ends, as `PartitionEnds` without the leader | a place per offset | readers

    ends      leader epoch i32 | at_ms, log start, high watermark, last stable, log end i64
              first, watermark and end bytes i64 | newest event i64 | bytes per second f64
              retention ms, bytes i64 | held since i64 | readable i64
    place     flags u8 (1: found, 2: estimated)
              offset, coordinate, append, event, readable, kept until, segment end i64
    readers   count u16 (0 unless asked for), each:
              flags u8 (1: shared, 2: connected) | offset, fetched ago i64 | held back f64
              client id, host: length u16 and UTF-8 each

Partitions and places come in the order of the request. Numbers are big endian. Bounded: a request has at most
`PARTITIONS_MAX` partitions and `OFFSETS_MAX` offsets, `STEP_OFFSETS_MAX` of them per partition, which may be listed
again for others; an answer has at most `READERS_MAX` readers, and none for the partitions after these. What is not
exactly such a message raises `DecodeError`.
"""

import struct
from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId, Offset
from syncline.model.lag import OffsetPlace, PartitionEnds
from syncline.node.lag.read_positions import ReaderPosition
from syncline.wire.errors import DecodeError

Buffer = bytes | bytearray | memoryview

PARTITIONS_MAX: Final = 2_000
OFFSETS_MAX: Final = 10_000
# A leader measures a listed partition in one step, and looking up a place takes some microseconds.
STEP_OFFSETS_MAX: Final = 100
READERS_MAX: Final = 10_000

_REQUEST: Final = struct.Struct(">Bi")
_ASKED: Final = struct.Struct(">16siii")
_ANSWER: Final = struct.Struct(">qi")
_ERROR: Final = struct.Struct(">h")
_ENDS: Final = struct.Struct(">iqqqqqqqqqdqqqq")
_PLACE: Final = struct.Struct(">Bqqqqqqq")
_READERS: Final = struct.Struct(">H")
_READER: Final = struct.Struct(">Bqqd")
_LENGTH: Final = struct.Struct(">H")
_EXACT: Final = 1
_WITH_READERS: Final = 2
_SHARED: Final = 1
_CONNECTED: Final = 2
_FOUND: Final = 1
_ESTIMATED: Final = 2
_NOT_FOUND: Final = _PLACE.pack(0, -1, -1, -1, -1, -1, -1, -1)


class AskedPartition(NamedTuple):
    """One partition of a request: as whose leader the asker knows the receiver, and which offsets it wants."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    offsets: tuple[Offset, ...]


class LagRequest(NamedTuple):
    """What a coordinator asks one leader."""

    is_exact: bool
    partitions: Sequence[AskedPartition]
    with_readers: bool = False


class AnsweredPartition(NamedTuple):
    """What the leader says of one partition; without ends if there is an error."""

    error: ErrorCode
    ends: PartitionEnds | None = None
    places: tuple[OffsetPlace | None, ...] = ()
    """Per asked offset; None if no record is there, or its place was not found in time."""
    readers: tuple[ReaderPosition, ...] = ()


class LagAnswer(NamedTuple):
    """What one leader answers."""

    broker_epoch: int
    partitions: Sequence[AnsweredPartition]


def encode_request(request: LagRequest) -> bytes:
    """Return the body of a request."""
    assert len(request.partitions) <= PARTITIONS_MAX, f"a request for {len(request.partitions)} partitions"
    flags = _EXACT * request.is_exact | _WITH_READERS * request.with_readers
    parts = [_REQUEST.pack(flags, len(request.partitions))]
    for each in request.partitions:
        parts.append(_ASKED.pack(each.topic_id.bytes, each.partition, each.leader_epoch, len(each.offsets)))
        parts.append(struct.pack(f">{len(each.offsets)}q", *each.offsets))
    return b"".join(parts)


def decode_request(body: Buffer, position: int) -> Generator[None, None, LagRequest]:
    """Return the request whose body begins at `position`, in steps; it keeps nothing of the buffer."""
    reading = _Reading(body, position)
    flags, count = reading.take(_REQUEST)
    if not 0 <= count <= PARTITIONS_MAX:
        raise DecodeError(f"a LAG request for {count} partitions, at most {PARTITIONS_MAX} are answered at once")
    partitions = []
    offset_count = 0
    for _ in range(count):
        topic_id, partition, leader_epoch, asked_count = reading.take(_ASKED)
        offset_count += asked_count
        if not 0 <= asked_count <= STEP_OFFSETS_MAX or offset_count > OFFSETS_MAX:
            raise DecodeError(
                f"a LAG request for {asked_count} offsets of one partition and {offset_count} of all so far, at most"
                f" {STEP_OFFSETS_MAX} and {OFFSETS_MAX} are answered at once"
            )
        offsets = reading.take(struct.Struct(f">{asked_count}q"))
        partitions.append(AskedPartition(UUID(bytes=topic_id), partition, leader_epoch, offsets))
        yield
    reading.end()
    return LagRequest(bool(flags & _EXACT), partitions, with_readers=bool(flags & _WITH_READERS))


def encode_head(broker_epoch: int, partition_count: int) -> bytes:
    """Return how an answer begins."""
    return _ANSWER.pack(broker_epoch, partition_count)


def encode_partition(answered: AnsweredPartition) -> bytes:
    """Return one partition of an answer."""
    head = _ERROR.pack(answered.error)
    if answered.ends is None:
        return head
    # Who answers is known without being said.
    _, *rest = answered.ends
    return b"".join(
        (
            head,
            _ENDS.pack(*rest),
            *map(_encode_place, answered.places),
            _READERS.pack(len(answered.readers)),
            *map(_encode_reader, answered.readers),
        )
    )


def decode_answer(body: Buffer, leader: BrokerId, asked: Sequence[AskedPartition]) -> Generator[None, None, LagAnswer]:
    """Return the answer of `leader` to a request for these partitions, in steps."""
    reading = _Reading(body, 0)
    broker_epoch, count = reading.take(_ANSWER)
    if count != len(asked):
        raise DecodeError(f"a LAG answer about {count} partitions instead of {len(asked)}")
    partitions = []
    for each in asked:
        (code,) = reading.take(_ERROR)
        try:
            error = ErrorCode(code)
        except ValueError:
            raise DecodeError(f"a LAG answer with the unknown error {code}") from None
        if error is not ErrorCode.NONE:
            partitions.append(AnsweredPartition(error))
        else:
            ends = PartitionEnds(leader, *reading.take(_ENDS))
            places = tuple(_decode_place(reading) for _ in each.offsets)
            (reader_count,) = reading.take(_READERS)
            readers = tuple(_decode_reader(reading) for _ in range(reader_count))
            partitions.append(AnsweredPartition(error, ends, places, readers))
        yield
    reading.end()
    return LagAnswer(broker_epoch, partitions)


def _encode_place(place: OffsetPlace | None) -> bytes:
    if place is None:
        return _NOT_FOUND
    *numbers, is_estimated = place
    return _PLACE.pack(_FOUND | (_ESTIMATED if is_estimated else 0), *numbers)


def _decode_place(reading: "_Reading") -> OffsetPlace | None:
    flags, *numbers = reading.take(_PLACE)
    return OffsetPlace._make((*numbers, bool(flags & _ESTIMATED))) if flags & _FOUND else None


def _encode_reader(reader: ReaderPosition) -> bytes:
    client_id, host, offset, fetched_ago_ms, held_back_share, is_shared, is_open = reader
    flags = _SHARED * is_shared | _CONNECTED * is_open
    names = [text.encode() for text in (client_id, host)]
    return b"".join(
        (
            _READER.pack(flags, offset, fetched_ago_ms, held_back_share),
            *(part for name in names for part in (_LENGTH.pack(len(name)), name)),
        )
    )


def _decode_reader(reading: "_Reading") -> ReaderPosition:
    flags, offset, fetched_ago_ms, held_back_share = reading.take(_READER)
    client_id, host = reading.text(), reading.text()
    return ReaderPosition(
        client_id,
        host,
        offset,
        fetched_ago_ms,
        held_back_share,
        is_shared=bool(flags & _SHARED),
        is_open=bool(flags & _CONNECTED),
    )


class _Reading:
    """A place in a message that is being read."""

    __slots__ = ("_body", "_position")

    def __init__(self, body: Buffer, position: int) -> None:
        self._body = body
        self._position = position

    def take(self, what: struct.Struct) -> tuple[Any, ...]:
        """Return the next numbers."""
        try:
            values = what.unpack_from(self._body, self._position)
        except struct.error:
            raise DecodeError("a LAG message ends too early") from None
        self._position += what.size
        return values

    def text(self) -> str:
        """Return the next text."""
        (length,) = self.take(_LENGTH)
        try:
            return bytes(self.take(struct.Struct(f"{length}s"))[0]).decode()
        except UnicodeDecodeError:
            raise DecodeError("a LAG message has a name that is not UTF-8") from None

    def end(self) -> None:
        """Raise `DecodeError` unless all of it was read."""
        if self._position != len(self._body):
            raise DecodeError(f"{len(self._body) - self._position} bytes follow a LAG message")
