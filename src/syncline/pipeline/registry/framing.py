"""The bytes before a value that name its schema.

    0 u8 | schema id u32 big endian | of Protobuf: which message of the file | the value

Protobuf names the message by its way through nested messages: a count and so many indexes, as zigzag varints. The usual
one, the first message of the file, is a single 0 byte instead of `1, 0`.

A newer format (first byte 1) names the schema by 16 bytes, usually in a header of the record; it is refused by name.
Source: Confluent's documentation of the wire format.
"""

import struct
from typing import Final

from syncline.pipeline.errors import PipelineError

_FRAME: Final = struct.Struct(">BI")
FRAME_BYTES: Final = _FRAME.size
_BY_ID: Final = 0
_BY_GUID: Final = 1
_VARINT_BYTES_MAX: Final = 5
# Messages nest a few levels deep; what claims more is damaged.
_INDEXES_MAX: Final = 64


class FramingError(PipelineError):
    """A value does not begin with the id of a schema, or ends within it."""


def unframed(value: bytes) -> tuple[int, int]:
    """Return the schema id of a value, and where its payload begins. Raises FramingError."""
    if len(value) < FRAME_BYTES:
        raise FramingError(f"the value has {len(value)} bytes, too few for the id of a schema")
    magic, schema_id = _FRAME.unpack_from(value)
    if magic == _BY_GUID:
        raise FramingError("the value names its schema by a GUID (first byte 1); only ids are supported (first byte 0)")
    if magic != _BY_ID:
        raise FramingError(f"the value begins with {magic:#04x} instead of 0x00: it was not written with a registry")
    return schema_id, FRAME_BYTES


def frame(schema_id: int) -> bytes:
    """Return the bytes before a payload."""
    return _FRAME.pack(_BY_ID, schema_id)


def message_indexes(value: bytes, position: int) -> tuple[tuple[int, ...], int]:
    """Return which message of its file a Protobuf value is, and where the message begins. Raises FramingError."""
    count, position = _zigzag(value, position)
    if not count:
        return (0,), position
    if not 0 < count <= _INDEXES_MAX:
        raise FramingError(f"the value names its message by {count} indexes")
    indexes = []
    for _ in range(count):
        index, position = _zigzag(value, position)
        indexes.append(index)
    return tuple(indexes), position


def encoded_indexes(indexes: tuple[int, ...]) -> bytes:
    """Return the bytes that name a message."""
    return b"\0" if indexes == (0,) else b"".join(map(_varint, (len(indexes), *indexes)))


def _zigzag(value: bytes, position: int) -> tuple[int, int]:
    number = 0
    for count, byte in enumerate(value[position : position + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position + count + 1
    raise FramingError("the value is cut short or malformed where it names its Protobuf message")


def _varint(number: int) -> bytes:
    zigzag, out = number << 1, bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)
