"""The fields of all records of a group of batches, as parallel arrays: numbers, and the places of keys and values.

    record   length | attributes 1 | timestamp delta | offset delta | key length, key | value length, value
             header count, headers: key length, key | value length, value         (lengths and deltas: zigzag varint)

Once the place of each record is known, NumPy reads the n-th integer of all records at once. Each step is taken when a
column needs it, and never for a column that was not requested: the fields of batch headers need no record at all, the
offset needs none where no record of a batch was removed, the timestamp needs one integer of each.

Units: offsets count records; timestamps are Unix milliseconds, -1 for none; places count bytes.
Source: KIP-98 (record batch v2).
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from syncline.pipeline.decoding.headers import LOG_APPEND_TIME, Batch, Buffer
from syncline.pipeline.decoding.starts import record_bounds
from syncline.pipeline.decoding.varints import Bytes, Ints, lengths_at, varints_at
from syncline.pipeline.errors import DecodeError


class Records:
    """Records of a group of batches: all of them, or those with the numbers `rows`, counted through all batches.

    Every property is an array with one element a record, or two of them. Each may raise `DecodeError` where a record
    leaves its bounds.
    """

    def __init__(self, buffer: Buffer, batches: Sequence[Batch], rows: Ints | None = None) -> None:
        self.buffer = buffer
        self.data: Bytes = np.frombuffer(buffer, np.uint8)
        self.batches = batches
        self._rows = rows
        self._counts = np.array([batch.record_count for batch in batches], np.int64)

    @classmethod
    def wanted(cls, buffer: Buffer, batches: Sequence[Batch]) -> "Records":
        """Return those records of the batches that lie within the wanted offsets of their parts."""
        every = cls(buffer, batches)
        if all(
            batch.part.first_offset <= batch.base_offset and batch.last_offset < batch.part.end_offset
            for batch in batches
        ):
            return every
        first = every.of_batches([batch.part.first_offset for batch in batches])
        end = every.of_batches([batch.part.end_offset for batch in batches])
        kept = (every.offsets >= first) & (every.offsets < end)
        return every if kept.all() else cls(buffer, batches, np.flatnonzero(kept))

    @cached_property
    def count(self) -> int:
        """Return how many records these are."""
        return int(self._counts.sum()) if self._rows is None else len(self._rows)

    def of_batches(self, values: Sequence[int]) -> Ints:
        """Return for each record the value of its batch."""
        repeated = np.repeat(np.array(values, np.int64), self._counts)
        return repeated if self._rows is None else repeated[self._rows]

    @cached_property
    def _bounds(self) -> tuple[Ints, Ints]:
        starts, ends = record_bounds(self.buffer, self.data, self.batches)
        return (starts, ends) if self._rows is None else (starts[self._rows], ends[self._rows])

    @property
    def ends(self) -> Ints:
        """Return the places after the records."""
        return self._bounds[1]

    @cached_property
    def _timestamp_deltas(self) -> tuple[Ints, Ints]:
        """Return the differences to the first timestamps of the batches, and the places after them."""
        return varints_at(self.data, self._bounds[0] + 1)

    @cached_property
    def _offset_deltas(self) -> tuple[Ints, Ints]:
        """Return the differences to the first offsets of the batches, and the places after them."""
        return varints_at(self.data, self._timestamp_deltas[1])

    @cached_property
    def offsets(self) -> Ints:
        """Return the offsets."""
        if any(batch.last_offset - batch.base_offset + 1 != batch.record_count for batch in self.batches):
            return self.of_batches([batch.base_offset for batch in self.batches]) + self._offset_deltas[0]
        # A batch that has as many records as offsets has one record at each of them.
        before = np.cumsum(self._counts) - self._counts
        numbers = np.arange(int(self._counts.sum())) if self._rows is None else self._rows
        bases = np.array([batch.base_offset for batch in self.batches], np.int64) - before
        repeated = np.repeat(bases, self._counts)
        return (repeated if self._rows is None else repeated[self._rows]) + numbers

    @cached_property
    def append_time(self) -> npt.NDArray[np.bool_]:
        """Return whether the broker set the timestamps."""
        return self.of_batches([batch.attributes & LOG_APPEND_TIME for batch in self.batches]).astype(np.bool_)

    @cached_property
    def timestamps(self) -> Ints:
        """Return the timestamps."""
        stamped = [bool(batch.attributes & LOG_APPEND_TIME) for batch in self.batches]
        if all(stamped):
            return self.of_batches([batch.max_timestamp for batch in self.batches])
        created = self.of_batches([batch.base_timestamp for batch in self.batches]) + self._timestamp_deltas[0]
        if not any(stamped):
            return created
        return np.where(self.append_time, self.of_batches([batch.max_timestamp for batch in self.batches]), created)

    @cached_property
    def keys(self) -> tuple[Ints, Ints]:
        """Return the places of the keys, and their lengths, -1 for null."""
        lengths, starts = lengths_at(self.data, self._offset_deltas[1])
        return starts, lengths

    @cached_property
    def values(self) -> tuple[Ints, Ints]:
        """Return the places of the values, and their lengths, -1 for null."""
        starts, lengths = self.keys
        lengths, starts = lengths_at(self.data, starts + np.maximum(lengths, 0))
        if (starts + np.maximum(lengths, 0) > self.ends).any():
            raise DecodeError("a record's key or value is longer than the record")
        return starts, lengths
