"""Variable-length integers at known places, all at once: zigzag varints of seven bits a byte, least significant first.

Positions and lengths count bytes of the buffer that holds all records of a group.
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from syncline.pipeline.errors import DecodeError

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

VARINT_BYTES_MAX: Final = 10


def varints_at(data: Bytes, positions: Ints) -> tuple[Ints, Ints]:
    """Return the zigzag integers at the given places, and the places after them.

    Where all integers have one byte, or all have two, which is the rule for lengths of equal records, the work is done
    in numbers as narrow as they are.
    """
    if not len(positions):
        return positions, positions
    if positions.max() >= len(data):
        raise DecodeError("a record ends before its fields do")
    first = data[positions]
    long_count = np.count_nonzero(first & 0x80)
    if long_count == 0:
        return _zigzag(first.view(np.int8)), positions + 1
    if long_count == len(positions) and int(positions.max()) + 1 < len(data):
        second = data[positions + 1]
        if not (second & 0x80).any():
            both = (first & 0x7F).astype(np.int16) | second.astype(np.int16) << 7
            return _zigzag(both), positions + 2
    return _any_length(data, positions, first)


def _zigzag(numbers: npt.NDArray[np.int8] | npt.NDArray[np.int16]) -> Ints:
    """Return the integers that zigzag numbers stand for; none of them is negative as it is written."""
    return ((numbers >> 1) ^ -(numbers & 1)).astype(np.int64)


def _any_length(data: Bytes, positions: Ints, first: Bytes) -> tuple[Ints, Ints]:
    """Return what `varints_at` does; each turn of the loop looks only at the integers that go on."""
    value = (first & 0x7F).astype(np.uint64)
    place = positions + 1
    open_rows = np.flatnonzero(first & 0x80)
    shift = 7
    while len(open_rows):
        at = place[open_rows]
        if shift >= 7 * VARINT_BYTES_MAX or at.max() >= len(data):
            raise DecodeError("a record holds an unterminated integer")
        byte = data[at].astype(np.uint64)
        value[open_rows] |= (byte & 0x7F) << np.uint64(shift)
        place[open_rows] += 1
        open_rows = open_rows[byte >= 0x80]
        shift += 7
    decoded = (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)
    return decoded, place


def lengths_at(data: Bytes, positions: Ints) -> tuple[Ints, Ints]:
    """Return the lengths at the given places, -1 for null, and the places after them; none is beyond the data."""
    lengths, place = varints_at(data, positions)
    # Checked before anything is added to them: a sum that overflows is a place before the data.
    if lengths.min(initial=0) < -1 or lengths.max(initial=0) > len(data):
        raise DecodeError("a field of a record is longer than all records")
    return lengths, place
