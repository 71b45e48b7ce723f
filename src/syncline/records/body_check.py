"""Whether the records of an uncompressed batch are as many as its header says, and fill it exactly.

Consumers read records one after the other. At the first one that does not fit they stop, and they stop there again
after each restart; records beyond the header's count they never see, although these were acknowledged.

One hard idea: the lengths alone show how many records there are, and most need not be read one by one. Records of
equal size lie at equal distances, so that slicing with a stride yields all their lengths at once: some nanoseconds per
record (`_stride`). Records of different sizes take a loop that does two look-ups for each (`_leap`). Opening a record
to look at its fields costs ten times as much, so all are opened in a small batch, and the first two in a larger one:
an encoder that is wrong is wrong in these, too.

Offset deltas may have any value, as in Kafka: only their size counts. A compressed batch stays closed.

Units: sizes and positions are bytes; time deltas milliseconds. Source: KIP-98 (the format of a record).
"""

from enum import Enum
from itertools import repeat
from typing import Final, NamedTuple

from syncline.records.batch import COMPRESSION_BITS, HEADER_BYTES, OVERHEAD_BYTES, BatchHeader
from syncline.records.buffers import Buffer
from syncline.records.errors import DecodeError
from syncline.records.varint import read_signed

# A batch of so many records has them all opened, a larger one the first few.
OPENED_MAX: Final = 8
OPENED_OF_MANY: Final = 2
# A record with more headers than this has them unread: one record of a megabyte could have half a million.
HEADERS_MAX: Final = 256
# Reading so many lengths one by one takes one or two milliseconds, during which the broker serves no other request.
LENGTHS_MAX: Final = 16_384
# Attributes, two deltas, two lengths and the number of headers have at least one byte each.
RECORD_BYTES_MIN: Final = 6
LENGTH_VARINT_BYTES_MAX: Final = 5
TIME_VARINT_BYTES_MAX: Final = 10

# Fewer records of equal size than this are not worth a stride.
_RUN_MIN: Final = 16
# So many searches for records of equal size may find too few, and so many may be made: a batch made for it could have
# thousands of short runs. Then the rest is read one by one.
_FAILED_RUNS_MAX: Final = 4
_RUNS_MAX: Final = 64
# The first search looks at few records, since the sizes may soon change.
_FIRST_STRETCH: Final = 64
_STRETCH: Final = 4_096

# By the first byte of a record: how far it is to the next one if its length has one byte, 0 if it has more. Too far for
# any buffer: the length is negative or too small.
_BEYOND: Final = 1 << 40
_LEAPS: Final = tuple(
    (_BEYOND if byte & 1 or byte >> 1 < RECORD_BYTES_MIN else 1 + (byte >> 1)) if byte < 0x80 else 0
    for byte in range(256)
)
# The same in two parts for lengths of two bytes, by the first byte and by the second one. A second byte of 0 adds
# nothing, so the length may be too small.
_LEAPS_LOW: Final = tuple(_BEYOND if byte & 1 else 2 + ((byte & 0x7F) >> 1) for byte in range(256))
_LEAPS_HIGH: Final = tuple(byte << 6 if 0 < byte < 0x80 else _BEYOND for byte in range(256))


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


def check_body(buffer: Buffer, position: int, header: BatchHeader, lengths_max: int | None = LENGTHS_MAX) -> BodyCheck:
    """Return whether the records of the batch at `position` agree with its header, which has been checked.

    NEEDS_WALK if it takes the lengths of more than `lengths_max` records (None: any number), one by one, to tell.
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
        if count <= OPENED_MAX:
            at, time_width = _open(buffer, at, end, count)
            return _OK[time_width] if at == end else _surplus(at, end, count)
        at, _ = _open(buffer, at, end, OPENED_OF_MANY)
        left, at = _stride(buffer, at, end, count - OPENED_OF_MANY)
        if lengths_max is not None and left > lengths_max:
            return _NEEDS_WALK
        if left and _leap(buffer, at, left) == end:
            return _SPREAD_UNKNOWN
        # Either the batch is bad, or a length has another form than `_leap` expects.
        at = _walk(buffer, at, end, left)
    except DecodeError as error:
        return BodyCheck(Verdict.BAD, str(error))
    except IndexError:
        return BodyCheck(Verdict.BAD, f"its {count} records do not end with it")
    return _SPREAD_UNKNOWN if at == end else _surplus(at, end, count)


def _surplus(at: int, end: int, count: int) -> BodyCheck:
    return BodyCheck(Verdict.BAD, f"{end - at} bytes follow its {count} records")


def _stride(buffer: Buffer, at: int, end: int, count: int) -> tuple[int, int]:
    """Skip records that have the size of many others behind them; return how many are left, and where they begin.

    The sizes change at least where an offset delta needs another byte, after 64 records and after 8,192.
    """
    failed = 0
    stretch = _FIRST_STRETCH
    for _ in range(_RUNS_MAX):
        if count < _RUN_MIN or failed == _FAILED_RUNS_MAX:
            break
        width = 1
        size = _LEAPS[buffer[at]]
        if not size:
            width = 2
            size = _LEAPS_LOW[buffer[at]] + _LEAPS_HIGH[buffer[at + 1]]
        if size > end - at:
            # Its length has more bytes, or is wrong.
            length, after = _length(buffer, at, end)
            width = after - at
            size = width + length
        most = min(count, stretch, (end - at) // size)
        equal = 1
        if most >= _RUN_MIN and buffer[at + (_RUN_MIN - 1) * size] == buffer[at]:
            equal = most
            for place in range(at, at + width):
                column = bytes(buffer[place : place + (equal - 1) * size + 1 : size])
                if column != column[:1] * equal:
                    equal -= len(column.lstrip(column[:1]))
        if equal < _RUN_MIN:
            failed += 1
        else:
            stretch = _STRETCH
        count -= equal
        at += equal * size
    return count, at


def _leap(buffer: Buffer, at: int, count: int) -> int:
    """Return the position after `count` records with lengths of one or two bytes; a wrong one if there are others.

    Positions only grow. So a comparison with the end, after the last record, finds any record that leaves the batch.
    """
    leaps, low, high = _LEAPS, _LEAPS_LOW, _LEAPS_HIGH
    try:
        for _ in repeat(None, count):
            byte = buffer[at]
            at += leaps[byte] or low[byte] + high[buffer[at + 1]]
    except IndexError:
        return -1
    return at


def _walk(buffer: Buffer, at: int, end: int, count: int) -> int:
    """Return the position after `count` records; raises DecodeError at the first whose length is wrong."""
    for _ in range(count):
        length, at = _length(buffer, at, end)
        at += length
    return at


def _length(buffer: Buffer, at: int, end: int) -> tuple[int, int]:
    """Return the length of the record at `at`, and the position after that length."""
    length, after = read_signed(buffer, at, LENGTH_VARINT_BYTES_MAX)
    if length < RECORD_BYTES_MIN or length > end - after:
        raise _ill_sized(at, length, end - after)
    return length, after


def _ill_sized(at: int, length: int, left: int) -> DecodeError:
    return DecodeError(f"the record at {at} announces {length} bytes, {left} are left in its batch")


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
            raise _ill_sized(at, (size >> 1) ^ -(size & 1), end - after)
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
    """Return the position after the headers of a record, which ends at `end`; those of very many are not looked at."""
    if at >= end:
        raise DecodeError("a record ends within its fields")
    count, at = read_signed(buffer, at, LENGTH_VARINT_BYTES_MAX)
    if not 0 <= count * 2 <= end - at:
        raise DecodeError(f"a record announces {count} headers in {end - at} bytes")
    if count > HEADERS_MAX:
        return end
    for _ in range(count):
        size, at = read_signed(buffer, at, LENGTH_VARINT_BYTES_MAX)
        if size < 0:
            raise DecodeError("the key of a record's header is null")
        size, at = read_signed(buffer, at + size, LENGTH_VARINT_BYTES_MAX)
        at += max(0, size)
        if at > end:
            raise DecodeError("a record's headers are longer than the record")
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
