"""Whether the records of an uncompressed batch are what its header says: as many, and each filling its place exactly.

Consumers read records one after the other. At the first one that does not fit they stop, and they stop there again
after each restart; records beyond the header's count they never see, although these were acknowledged.

One hard idea: records of equal size lie at equal distances. The bytes that hold lengths then form columns, which
slicing with a stride compares at the speed of memory, some nanoseconds per record. Opening a record costs half a
microsecond, reading its length alone a seventh of that. So these are opened:

- all records, if they are at most `OPENED_MAX`, or form runs of equal shape (`_runs`);
- otherwise the first `OPENED_MAX` after such runs; of the others only the length is read.

Offset deltas may have any value, as in Kafka: only their size counts. A compressed batch stays closed.

Units: sizes and positions are bytes; time deltas milliseconds. Source: KIP-98 (the format of a record).
"""

from enum import Enum
from typing import Final, NamedTuple

from syncline.records.batch import COMPRESSION_BITS, HEADER_BYTES, OVERHEAD_BYTES, BatchHeader
from syncline.records.buffers import Buffer
from syncline.records.errors import DecodeError
from syncline.records.varint import read_signed

OPENED_MAX: Final = 16
# Reading so many lengths takes one or two milliseconds, during which the broker serves no other request.
LENGTHS_MAX: Final = 16_384
# Attributes, two deltas, two lengths and the number of headers have at least one byte each.
RECORD_BYTES_MIN: Final = 6
LENGTH_VARINT_BYTES_MAX: Final = 5
TIME_VARINT_BYTES_MAX: Final = 10

# Records of equal shape are looked for behind every record, until so many looks found too few.
_RUN_MIN: Final = 16
_FAILED_RUNS_MAX: Final = 4
# How many records a search compares at once: few at first, since the copy is in vain if they differ.
_FIRST_STRETCH: Final = 64
_STRETCH: Final = 4_096
# Slicing bytes is seven times as fast as slicing a view, which pays for the copy unless records are large.
_COPIED_BYTES_MAX: Final = 4_096
_COLUMNS_MAX: Final = 64

# Maps each byte to whether another one of its variable-length integer follows.
_CONTINUES: Final = bytes(byte >> 7 for byte in range(256))


class Verdict(Enum):
    """What is known of a body."""

    OK = "ok"
    BAD = "bad"
    # It has more records of different sizes than may be looked at without a pause.
    NEEDS_WALK = "needs a walk"


class BodyCheck(NamedTuple):
    """The verdict, and its reason if it is BAD.

    No timestamp is farther from the batch's base timestamp than `delta_max_ms`; None if that is unknown.
    """

    verdict: Verdict
    reason: str = ""
    delta_max_ms: int | None = None


_SPREAD_UNKNOWN: Final = BodyCheck(Verdict.OK)
_NEEDS_WALK: Final = BodyCheck(Verdict.NEEDS_WALK)
# By the number of bytes of the longest time delta: seven bits each, of which one is the sign.
_OK: Final = tuple(
    BodyCheck(Verdict.OK, delta_max_ms=1 << max(0, 7 * width - 1)) for width in range(TIME_VARINT_BYTES_MAX + 1)
)


class _Shape(NamedTuple):
    """Where a record has which bytes that hold lengths.

    `fixed` are (place in the record, byte), `varied` (place, whether another byte of the same integer follows).
    """

    size_bytes: int
    fixed: list[tuple[int, bytes]]
    varied: list[tuple[int, bytes]]


def check_body(buffer: Buffer, position: int, header: BatchHeader, lengths_max: int | None = LENGTHS_MAX) -> BodyCheck:
    """Return whether the records of the batch at `position` agree with its header, which has been checked.

    NEEDS_WALK if it takes the lengths of more than `lengths_max` records (None: any number) to tell.
    """
    if header.attributes & COMPRESSION_BITS:
        return _SPREAD_UNKNOWN
    count = header.record_count
    at = position + HEADER_BYTES
    end = position + header.batch_length + OVERHEAD_BYTES
    assert count > 0, f"a checked header announces {count} records"
    assert end <= len(buffer), f"the batch at {position} ends at {end}, the buffer at {len(buffer)}"
    if count * (RECORD_BYTES_MIN + 1) > end - at:
        return BodyCheck(Verdict.BAD, f"{count} records need more than its {end - at} bytes")
    try:
        left = count
        width = 0
        if count > OPENED_MAX:
            left, at, width = _runs(buffer, at, end, count)
        if left > OPENED_MAX:
            if lengths_max is not None and left > lengths_max:
                return _NEEDS_WALK
            at, _ = _open(buffer, at, end, OPENED_MAX)
            at = _skip(buffer, at, end, left - OPENED_MAX)
            width = -1
        elif left:
            at, widest = _open(buffer, at, end, left)
            width = max(width, widest)
    except DecodeError as error:
        return BodyCheck(Verdict.BAD, str(error))
    except IndexError:
        return BodyCheck(Verdict.BAD, f"its {count} records do not end with it")
    if at != end:
        return BodyCheck(Verdict.BAD, f"{end - at} bytes follow its {count} records")
    return _OK[width] if width >= 0 else _SPREAD_UNKNOWN


def _open(buffer: Buffer, at: int, end: int, count: int) -> tuple[int, int]:
    """Return the position after `count` records, of which each field is looked at, and the width of their time deltas.

    Positions only grow within a record, so that one comparison at its end finds any field that leaves it. Integers
    of one or two bytes are read in line: a call would cost more than the rest.
    """
    widest = 1
    for _ in range(count):
        size = buffer[at]
        after = at + 1
        if size >= 0x80:
            more = buffer[after]
            if more < 0x80:
                size += (more << 7) - 0x80
                after += 1
            else:
                size, after = _zigzag(buffer, at)
        record_end = after + (size >> 1)
        if size & 1 or size < 2 * RECORD_BYTES_MIN or record_end > end:
            raise _ill_sized(at, size, end - after)
        # Skip the attributes byte of a record, which has no meaning yet.
        time_at = after + 1
        offset_at = time_at + 1 if buffer[time_at] < 0x80 else _end_of(buffer, time_at, TIME_VARINT_BYTES_MAX)
        if offset_at - time_at > widest:  # noqa: PLR1730 - a call of `max` takes as long as the rest of this line
            widest = offset_at - time_at
        field = offset_at + 1 if buffer[offset_at] < 0x80 else _end_of(buffer, offset_at, LENGTH_VARINT_BYTES_MAX)
        # Key, then value. A negative length is that of a null.
        size = buffer[field]
        if size < 0x80:
            field += 1
        else:
            size, field = _zigzag(buffer, field)
        if not size & 1:
            field += size >> 1
        size = buffer[field]
        field += 1
        if size >= 0x80:
            more = buffer[field]
            if more < 0x80:
                size += (more << 7) - 0x80
                field += 1
            else:
                size, field = _zigzag(buffer, field - 1)
        if not size & 1:
            field += size >> 1
        headers = buffer[field] if field < record_end else -1
        if headers:
            field = _skip_headers(buffer, field, record_end)
        else:
            field += 1
        if field != record_end:
            raise DecodeError(f"the fields of a record end {abs(record_end - field)} bytes from its end")
        at = record_end
    return at, widest


def _skip_headers(buffer: Buffer, at: int, end: int) -> int:
    """Return the position after the headers of a record, which ends at `end`."""
    if at >= end:
        raise DecodeError("a record ends within its fields")
    count, at = read_signed(buffer, at, LENGTH_VARINT_BYTES_MAX)
    if not 0 <= count * 2 <= end - at:
        raise DecodeError(f"a record announces {count} headers in {end - at} bytes")
    for _ in range(count):
        size, at = read_signed(buffer, at, LENGTH_VARINT_BYTES_MAX)
        if size < 0:
            raise DecodeError("the key of a record's header is null")
        size, at = read_signed(buffer, at + size, LENGTH_VARINT_BYTES_MAX)
        at += max(0, size)
        if at > end:
            raise DecodeError("a record's headers are longer than the record")
    return at


def _skip(buffer: Buffer, at: int, end: int, count: int) -> int:
    """Return the position after `count` records, of which only the lengths are read."""
    for _ in range(count):
        size = buffer[at]
        after = at + 1
        if size >= 0x80:
            more = buffer[after]
            if more < 0x80:
                size += (more << 7) - 0x80
                after += 1
            else:
                size, after = _zigzag(buffer, at)
        if size & 1 or size < 2 * RECORD_BYTES_MIN:
            raise _ill_sized(at, size, end - after)
        at = after + (size >> 1)
        if at > end:
            raise _ill_sized(at, size, end - after)
    return at


def _end_of(buffer: Buffer, at: int, bytes_max: int) -> int:
    """Return the position after the variable-length integer at `at`."""
    for after in range(at + 1, at + 1 + bytes_max):
        if buffer[after - 1] < 0x80:
            return after
    raise DecodeError(f"a variable-length integer at {at} has more than {bytes_max} bytes")


def _zigzag(buffer: Buffer, at: int) -> tuple[int, int]:
    """Return the length at `at`, still zig-zag encoded, and the position after it."""
    value, after = read_signed(buffer, at, LENGTH_VARINT_BYTES_MAX)
    return (value << 1) ^ (value >> 63), after


def _ill_sized(at: int, size: int, left: int) -> DecodeError:
    announced = (size >> 1) ^ -(size & 1)
    return DecodeError(f"the record at {at} announces {announced} bytes, {left} are left in its batch")


# Records of equal shape.


def _runs(buffer: Buffer, at: int, end: int, count: int) -> tuple[int, int, int]:
    """Skip records that are equally shaped; return how many are left, the position after, the width of time deltas."""
    width = failed = 0
    stretch = _FIRST_STRETCH
    while count and failed < _FAILED_RUNS_MAX:
        record_end, time_width = _open(buffer, at, end, 1)
        equal = 1
        if count >= _RUN_MIN and buffer[record_end : record_end + 2] == buffer[at : at + 2]:
            shape = _shape(buffer, at, time_width)
            equal = _equal(buffer, at, end, shape, min(count, stretch))
        count -= equal
        at += equal * (record_end - at)
        width = max(width, time_width)
        if equal < _RUN_MIN:
            failed += 1
        else:
            stretch = _STRETCH
    return count, at, width


def _shape(buffer: Buffer, at: int, time_width: int) -> _Shape:
    """Return the shape of the record at `at`, which has been opened."""
    fixed: list[tuple[int, bytes]] = []

    def number(field: int) -> tuple[int, int]:
        value, after = read_signed(buffer, field, LENGTH_VARINT_BYTES_MAX)
        fixed.extend((place - at, bytes((buffer[place],))) for place in range(field, after))
        return value, after

    _, after = number(at)
    offset_at = after + 1 + time_width
    field = _end_of(buffer, offset_at, LENGTH_VARINT_BYTES_MAX)
    varied = [
        (place - at, bytes((place + 1 < stop,)))
        for start, stop in ((after + 1, offset_at), (offset_at, field))
        for place in range(start, stop)
    ]
    for _ in (0, 1):
        size, field = number(field)
        field += max(0, size)
    headers, field = number(field)
    for _ in range(headers * 2):
        size, field = number(field)
        field += max(0, size)
    return _Shape(field - at, fixed, varied)


def _equal(buffer: Buffer, at: int, end: int, shape: _Shape, most: int) -> int:
    """Return how many records from `at` on have this shape, at most `most`; the first one has it."""
    size = shape.size_bytes
    most = min(most, (end - at) // size)
    if most < _RUN_MIN or len(shape.fixed) > _COLUMNS_MAX:
        return 1
    # The first byte of the lengths shows most differences, and thus how much there is to copy.
    most = _alike(bytes(buffer[at : at + most * size : size]), shape.fixed[0][1])
    records = buffer[at : at + most * size]
    if size <= _COPIED_BYTES_MAX:
        records = bytes(records)
    for place, byte in shape.fixed[1:]:
        most = _alike(bytes(records[place : most * size : size]), byte)
    for place, flag in shape.varied:
        most = _alike(bytes(records[place : most * size : size]).translate(_CONTINUES), flag)
    assert most >= 1, f"the record at {at} has another shape than its own"
    return most


def _alike(column: bytes, byte: bytes) -> int:
    """Return how many bytes from the first on equal `byte`."""
    if column == byte * len(column):
        return len(column)
    return len(column) - len(column.lstrip(byte))
