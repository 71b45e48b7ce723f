"""The building blocks of messages: strings, counts and tagged fields.

Every length has two encodings: legacy (fixed width, -1 for null) and compact
(an unsigned varint of length + 1, 0 for null; KIP-482). Readers take a buffer
and a position and return the value and the position after it; they raise
DecodeError. They check every slice, because Python shortens a slice that reaches
past the end instead of refusing it.
"""

import struct
from collections.abc import Iterator
from typing import Final

from syncline.records.buffers import Buffer
from syncline.records.errors import DecodeError
from syncline.records.varint import read_unsigned, write_unsigned

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
TOPIC_ID_BYTES: Final = 16
# Far above any real use, far below what would keep a broker busy for long: every item costs microseconds.
ITEMS_MAX: Final = 100_000
TAGS_MAX: Final = 100
NO_TOPIC_ID: Final = bytes(TOPIC_ID_BYTES)

_VARINTS: Final = tuple(bytes([value]) for value in range(0x80))


def varint(value: int) -> bytes:
    """Return `value` as an unsigned varint."""
    if value < 0x80:
        return _VARINTS[value]
    out = bytearray()
    write_unsigned(out, value)
    return bytes(out)


def text(buffer: Buffer, position: int, size: int) -> str:
    """Return `size` bytes at `position` as text."""
    end = position + size
    if end > len(buffer):
        raise DecodeError(f"a string of {size} bytes at {position} reaches past the end ({len(buffer)} bytes)")
    return str(buffer[position:end], "utf-8")


def read_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """Return the string with an int16 length at `position`, None if it is -1."""
    (size,) = INT16.unpack_from(buffer, position)
    if size >= 0:
        return text(buffer, position + 2, size), position + 2 + size
    if size == -1:
        return None, position + 2
    raise DecodeError(f"a string at {position} has {size} bytes")


def read_string(buffer: Buffer, position: int) -> tuple[str, int]:
    """Return the string with an int16 length at `position`."""
    (size,) = INT16.unpack_from(buffer, position)
    if size <= 0:
        if size < 0:
            raise DecodeError(f"a string at {position} has {size} bytes")
        return "", position + 2
    return text(buffer, position + 2, size), position + 2 + size


def read_nullable_compact_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """Return the string with a varint length at `position`, None if it is 0."""
    size, position = read_unsigned(buffer, position)
    if size == 0:
        return None, position
    return text(buffer, position, size - 1), position + size - 1


def read_compact_string(buffer: Buffer, position: int) -> tuple[str, int]:
    """Return the string with a varint length at `position`."""
    size = buffer[position]
    position += 1
    if size >= 0x80:
        size, position = read_unsigned(buffer, position - 1)
    end = position + size - 1
    if size == 0:
        raise DecodeError(f"the string at {position - 1} must not be null")
    if end > len(buffer):
        raise DecodeError(f"a string of {size - 1} bytes at {position} reaches past the end ({len(buffer)} bytes)")
    return str(buffer[position:end], "utf-8"), end


def read_count(buffer: Buffer, position: int, item_bytes_min: int) -> tuple[int, int]:
    """Return the number of items of a legacy array; -1 stands for null.

    Refuses a count that the rest of the buffer cannot hold, before a decoder allocates for it, and a count above
    ITEMS_MAX.
    """
    (count,) = INT32.unpack_from(buffer, position)
    position += 4
    if count < -1 or count > ITEMS_MAX or count * item_bytes_min > len(buffer) - position:
        raise DecodeError(f"{count} items announced at {position - 4}, {len(buffer) - position} bytes left")
    return count, position


def read_compact_count(buffer: Buffer, position: int, item_bytes_min: int) -> tuple[int, int]:
    """Return the number of items of a compact array; -1 stands for null. Refuses as `read_count` does."""
    count = buffer[position]
    position += 1
    if count >= 0x80:
        count, position = read_unsigned(buffer, position - 1)
    count -= 1
    if count > ITEMS_MAX or count * item_bytes_min > len(buffer) - position:
        raise DecodeError(f"{count} items announced before {position}, {len(buffer) - position} bytes left")
    return count, position


def not_null(count: int) -> int:
    """Return `count`, which belongs to an array that must not be null."""
    if count < 0:
        raise DecodeError("an array that must not be null is null")
    return count


def read_tags(buffer: Buffer, position: int) -> Iterator[tuple[int, int, int]]:
    """Yield (tag, start, end) of each tagged field; the last one is (-1, position, position) after the section."""
    count, position = read_unsigned(buffer, position)
    if count > TAGS_MAX or count > len(buffer) - position:
        raise DecodeError(f"{count} tagged fields announced, {len(buffer) - position} bytes left")
    for _ in range(count):
        tag, position = read_unsigned(buffer, position)
        size, position = read_unsigned(buffer, position)
        if size > len(buffer) - position:
            raise DecodeError(f"tagged field {tag} has {size} bytes, {len(buffer) - position} are left")
        yield tag, position, position + size
        position += size
    yield -1, position, position


def skip_tags(buffer: Buffer, position: int) -> int:
    """Return the position after a section of unknown tagged fields."""
    if buffer[position] == 0:
        return position + 1
    for _, _, end in read_tags(buffer, position):
        position = end
    return position


def string(value: str) -> bytes:
    """Return `value` with an int16 length."""
    raw = value.encode()
    return INT16.pack(len(raw)) + raw


def nullable_string(value: str | None) -> bytes:
    """Return `value` with an int16 length, -1 for None."""
    return b"\xff\xff" if value is None else string(value)


def compact_string(value: str) -> bytes:
    """Return `value` with a varint length."""
    raw = value.encode()
    return varint(len(raw) + 1) + raw


def nullable_compact_string(value: str | None) -> bytes:
    """Return `value` with a varint length, 0 for None."""
    return b"\x00" if value is None else compact_string(value)


def tagged(tag: int, payload: bytes) -> bytes:
    """Return one tagged field, without the count that begins its section."""
    return varint(tag) + varint(len(payload)) + payload
