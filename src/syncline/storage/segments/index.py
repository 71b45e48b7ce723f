"""Sparse indexes of a segment: from an offset, or a time, to a position in its file.

One hard idea: an index is a hint that can always be rebuilt from the batches.
So it lives in memory while its segment grows, is written when the segment is
finished, and never costs an append an fsync. One batch per
`index.interval.bytes` gets an entry; a walk over batch headers finds the
batches between entries.

Formats (big endian), relative to the segment's base offset:
    .index      int32 offset of the LAST record of a batch, int32 position of that batch
    .timeindex  int64 largest timestamp so far, int32 offset of the batch that has it (its last record)

Invariants: offsets and positions rise strictly; timestamps rise strictly.
Source: observed Kafka files; KIP-33 (time index).
"""

import struct
import sys
from array import array
from bisect import bisect_right
from itertools import pairwise
from typing import Final

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
_TIME_ENTRY: Final = struct.Struct(">qi")
_SWAPS: Final = sys.byteorder == "little"


class OffsetIndex:
    """Offsets (absolute here, relative in the file) and the positions of their batches."""

    __slots__ = ("_base_offset", "_offsets", "_positions")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def file_bytes(self) -> int:
        """The size of the index as a file."""
        return len(self._offsets) * OFFSET_ENTRY_BYTES

    @property
    def last(self) -> tuple[int, int] | None:
        """The newest entry: (last offset of a batch, position of that batch)."""
        if not self._offsets:
            return None
        return self._base_offset + self._offsets[-1], self._positions[-1]

    def append(self, last_offset: int, position: int) -> None:
        """Add the batch that ends with `last_offset` and lies at `position`."""
        self._offsets.append(last_offset - self._base_offset)
        self._positions.append(position)

    def position_before(self, offset: int) -> int:
        """Return a position at or before the batch that holds `offset`."""
        at = bisect_right(self._offsets, min(offset - self._base_offset, 2**31 - 1)) - 1
        return self._positions[at] if at >= 0 else 0

    def boundary_up_to(self, position: int) -> int:
        """Return the last known beginning of a batch at or before `position`."""
        at = bisect_right(self._positions, min(position, 2**31 - 1)) - 1
        return self._positions[at] if at >= 0 else 0

    def check_invariants(self, end_offset: int, size_bytes: int) -> None:
        """Assert that the entries rise and lie within a segment of this end and size."""
        assert len(self._offsets) == len(self._positions), (
            f"{len(self._offsets)} offsets, {len(self._positions)} positions"
        )
        assert _rises(self._offsets, 0), f"offsets of the index do not rise: {self._offsets}"
        assert _rises(self._positions, 1), f"positions of the index do not rise: {self._positions}"
        if self.last is not None:
            last_offset, position = self.last
            assert last_offset < end_offset, f"the index knows offset {last_offset}, the segment ends at {end_offset}"
            assert position < size_bytes, f"the index points to position {position} of {size_bytes}"

    def cut(self, position: int) -> None:
        """Forget batches at or above `position`."""
        keep = bisect_right(self._positions, position - 1) if position > 0 else 0
        del self._offsets[keep:], self._positions[keep:]

    def copy(self) -> "OffsetIndex":
        """Return an independent index with the same entries."""
        other = OffsetIndex(self._base_offset)
        other._offsets, other._positions = self._offsets[:], self._positions[:]
        return other

    def encode(self) -> bytes:
        """Return the contents of the `.index` file."""
        entries = array("i", bytes(self.file_bytes))
        entries[0::2] = self._offsets
        entries[1::2] = self._positions
        if _SWAPS:
            entries.byteswap()
        return entries.tobytes()

    @classmethod
    def decode(cls, base_offset: int, data: bytes) -> "OffsetIndex | None":
        """Return the index that `data` holds, None if that is damaged."""
        if len(data) % OFFSET_ENTRY_BYTES:
            return None
        entries = array("i", data)
        if _SWAPS:
            entries.byteswap()
        index = cls(base_offset)
        index._offsets = entries[0::2]
        index._positions = entries[1::2]
        return index if _rises(index._offsets, 0) and _rises(index._positions, 1) else None


class TimeIndex:
    """Largest timestamps so far, and where they were reached."""

    __slots__ = ("_base_offset", "_offsets", "_timestamps")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def file_bytes(self) -> int:
        """The size of the index as a file."""
        return len(self._timestamps) * TIME_ENTRY_BYTES

    @property
    def last(self) -> tuple[int, int] | None:
        """The newest entry: (largest timestamp, last offset of its batch)."""
        if not self._timestamps:
            return None
        return self._timestamps[-1], self._base_offset + self._offsets[-1]

    def append(self, timestamp_ms: int, last_offset: int) -> None:
        """Add a new largest timestamp; ignore anything older."""
        if timestamp_ms >= 0 and (not self._timestamps or timestamp_ms > self._timestamps[-1]):
            self._timestamps.append(timestamp_ms)
            self._offsets.append(last_offset - self._base_offset)

    def offset_before(self, timestamp_ms: int) -> int:
        """Return an offset below which every record is older than `timestamp_ms`."""
        at = bisect_right(self._timestamps, timestamp_ms - 1) - 1
        return self._base_offset + (self._offsets[at] if at >= 0 else 0)

    def check_invariants(self, end_offset: int, max_timestamp_ms: int) -> None:
        """Assert that the entries rise and lie within a segment with this end and this newest timestamp."""
        assert len(self._timestamps) == len(self._offsets), (
            f"{len(self._timestamps)} times, {len(self._offsets)} offsets"
        )
        assert _rises(self._timestamps, 0), f"times of the index do not rise: {self._timestamps}"
        assert _rises(self._offsets, 0), f"offsets of the time index do not rise: {self._offsets}"
        if self.last is not None:
            timestamp_ms, last_offset = self.last
            assert last_offset < end_offset, f"the time index knows {last_offset}, the segment ends at {end_offset}"
            assert timestamp_ms <= max_timestamp_ms, f"indexed time {timestamp_ms} ms, newest is {max_timestamp_ms} ms"

    def cut(self, offset: int) -> None:
        """Forget entries at or above `offset`."""
        keep = bisect_right(self._offsets, offset - self._base_offset - 1)
        del self._timestamps[keep:], self._offsets[keep:]

    def copy(self) -> "TimeIndex":
        """Return an independent index with the same entries."""
        other = TimeIndex(self._base_offset)
        other._timestamps, other._offsets = self._timestamps[:], self._offsets[:]
        return other

    def encode(self) -> bytes:
        """Return the contents of the `.timeindex` file."""
        return b"".join(map(_TIME_ENTRY.pack, self._timestamps, self._offsets))

    @classmethod
    def decode(cls, base_offset: int, data: bytes) -> "TimeIndex | None":
        """Return the index that `data` holds, None if that is damaged."""
        if len(data) % TIME_ENTRY_BYTES:
            return None
        index = cls(base_offset)
        for timestamp_ms, offset in _TIME_ENTRY.iter_unpack(data):
            index._timestamps.append(timestamp_ms)
            index._offsets.append(offset)
        return index if _rises(index._timestamps, 0) and _rises(index._offsets, 0) else None


def _rises(column: "array[int]", at_least: int) -> bool:
    """Return whether a column begins at `at_least` or above and rises strictly."""
    if not column:
        return True
    return column[0] >= at_least and all(low < high for low, high in pairwise(column))
