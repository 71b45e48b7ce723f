"""Variable-length integers inside records: seven bits per byte, lowest first.

Lengths and deltas of a record are zig-zag encoded, so that small negative
numbers stay short: 0, -1, 1, -2 become 0, 1, 2, 3. A varint has at most five
bytes, a varlong at most ten; more is an attack or garbage.
Source: the Protocol Buffers encoding, as adopted by KIP-98.
"""

from syncline.records.buffers import Buffer
from syncline.records.errors import DecodeError


def read_unsigned(buffer: Buffer, position: int, bytes_max: int = 5) -> tuple[int, int]:
    """Return the number at `position` and the position after it."""
    value = 0
    try:
        # Most have one byte, and a batch's size two.
        byte = buffer[position]
        if byte < 0x80:
            return byte, position + 1
        more = buffer[position + 1]
        if more < 0x80:
            return (more << 7) + byte - 0x80, position + 2
        for index in range(bytes_max):
            byte = buffer[position + index]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value, position + index + 1
    except IndexError:
        raise DecodeError(f"the bytes end inside a variable-length integer at {position}") from None
    raise DecodeError(f"a variable-length integer at {position} has more than {bytes_max} bytes")


def read_signed(buffer: Buffer, position: int, bytes_max: int = 10) -> tuple[int, int]:
    """Return the zig-zag encoded number at `position` and the position after it."""
    try:
        byte = buffer[position]
    except IndexError:
        raise DecodeError(f"the bytes end before a variable-length integer at {position}") from None
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = read_unsigned(buffer, position, bytes_max)
    return (value >> 1) ^ -(value & 1), position


def write_unsigned(out: bytearray, value: int) -> None:
    """Append `value`, which must not be negative."""
    assert value >= 0, f"an unsigned integer is {value}"
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_signed(out: bytearray, value: int) -> None:
    """Append `value`, zig-zag encoded; at most 64 bits."""
    value = (value << 1) ^ (value >> 63)
    if value < 0x80:
        out.append(value)
    else:
        write_unsigned(out, value)
