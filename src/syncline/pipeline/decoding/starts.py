"""Where each record of a group of batches begins and ends.

Variable-length integers precede a record's fields, so the place of each record is known only once the length of the
previous one has been read. The plain way follows that chain and reads one integer a record (`_walk`).

Where a group has many batches, the next record of each is looked up at once, batch beside batch (`_in_step`).

Where it has few large ones, records of one size are the rule where machines produce, and a whole run of them is found
at once: if the bytes of the first record's length repeat at every multiple of its size, then each of these records ends
where the next one begins, and all have that size (`_run`). That is no guess, but it is not free: on records of varied
sizes each try fails. So a try looks at one record further on before it looks at all, and every failure doubles how many
records are walked before the next one, to the end of the group.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from syncline.pipeline.decoding.headers import Batch, Buffer
from syncline.pipeline.decoding.varints import VARINT_BYTES_MAX, Bytes, Ints, lengths_at
from syncline.pipeline.errors import DecodeError

# Length, attributes, two deltas, two lengths and the number of headers, one byte each.
_RECORD_BYTES_MIN: Final = 7
# Shorter runs cost more to find than to walk.
_RUN_MIN: Final = 24
# How many records one try looks at: looking beyond the first one of another size is wasted.
_RUN_MAX: Final = 8192
_WALK_MIN: Final = 32
# Fewer batches than this cost more in step than one after the other: fewer to begin with, and fewer that go on.
_IN_STEP_MIN: Final = 128
_IN_STEP_REST: Final = 48


class _Length(NamedTuple):
    """A record's length, as it is written in one or two bytes: those of longer records never make a run."""

    value: int
    width: int


def record_bounds(buffer: Buffer, data: Bytes, batches: Sequence[Batch]) -> tuple[Ints, Ints]:
    """Return where each record's body starts, after its length, and where it ends; `data` is the buffer for NumPy."""
    total = 0
    for batch in batches:
        # A few compressed bytes may claim to be millions of records: refused before anything is kept of them.
        if batch.record_count * _RECORD_BYTES_MIN > batch.end - batch.start:
            raise DecodeError(
                f"the batch at offset {batch.base_offset} claims {batch.record_count} records in"
                f" {batch.end - batch.start} bytes"
            )
        total += batch.record_count
    places = np.empty(total, np.int64)
    chain = _Chain(memoryview(buffer), data, places)
    slot = 0
    done, positions = _in_step(data, batches, places) if len(batches) >= _IN_STEP_MIN else (0, [])
    for number, batch in enumerate(batches):
        if batch.record_count > done:
            chain.follow(batch, positions[number] if done else batch.start, done, slot + done)
        slot += batch.record_count
    lengths, starts = lengths_at(data, places)
    return starts, starts + lengths


def _in_step(data: Bytes, batches: Sequence[Batch], places: Ints) -> tuple[int, list[int]]:
    """Put the first records of all batches into `places`, as long as enough batches have a next one.

    Return how many records of each batch that are (of some, all), and where the next record of each begins.
    """
    counts = np.array([batch.record_count for batch in batches], np.int64)
    order = np.argsort(-counts, kind="stable")
    slots = (np.cumsum(counts) - counts)[order]
    positions = np.array([batch.start for batch in batches], np.int64)[order]
    ends = np.array([batch.end for batch in batches], np.int64)[order]
    # Sorted by their numbers of records, batches that have a next one are the first ones.
    fewest_first = counts[order][::-1]
    step = 0
    while (active := len(counts) - int(np.searchsorted(fewest_first, step, side="right"))) >= _IN_STEP_REST:
        here = positions[:active]
        places[slots[:active] + step] = here
        lengths, after = lengths_at(data, here)
        after += np.maximum(lengths, 0)
        if (after > ends[:active]).any():
            number = order[int((after > ends[:active]).argmax())]
            raise DecodeError(f"the batch at offset {batches[number].base_offset} ends inside a record")
        positions[:active] = after
        step += 1
    found = np.empty_like(positions)
    found[order] = positions
    return step, found.tolist()


class _Chain:
    """Finds places of records, and knows how many are walked before the next try to find a run."""

    def __init__(self, view: memoryview, data: Bytes, places: Ints) -> None:
        self._places = places
        self._slot = 0
        self._view = view
        self._data = data
        self._walk_next = _WALK_MIN
        self._to_walk = 0

    def follow(self, batch: Batch, position: int, done: int, slot: int) -> None:
        """Put the records of one batch after the first `done` ones into the places from `slot` on.

        The next one begins at `position`. Raises `DecodeError` where they leave the batch.
        """
        left, self._slot = batch.record_count - done, slot
        # Reading a byte of an object of bytes takes half the time of reading it through a window.
        body = b""
        try:
            while left:
                if self._to_walk == 0 and left >= _RUN_MIN:
                    count, position = self._run(position, left, batch.end)
                    left -= count
                    if count:
                        continue
                count = min(left, self._to_walk or left)
                body = body or bytes(self._view[batch.start : batch.end])
                position = batch.start + self._walk(body, position - batch.start, count, batch)
                self._to_walk = max(0, self._to_walk - count)
                left = left - count if position <= batch.end else 0
        except IndexError:
            position = batch.end + 1
        if position > batch.end:
            raise DecodeError(f"the batch at offset {batch.base_offset} ends inside a record")

    def _add(self, places: Ints) -> None:
        self._places[self._slot : self._slot + len(places)] = places
        self._slot += len(places)

    def _run(self, position: int, left: int, end: int) -> tuple[int, int]:
        """Add the run that begins at `position`; return its number of records, and the place after them."""
        length = _short_length(self._view, position)
        size = length.value + length.width
        count = min(left, _RUN_MAX, (end - position) // size) if size else 0
        if count >= _RUN_MIN and _short_length(self._view, position + (_RUN_MIN - 1) * size) == length:
            count = self._equal_count(position, size, count, length.width)
        else:
            count = 0
        if count < _RUN_MIN:
            self._to_walk, self._walk_next = self._walk_next, 2 * self._walk_next
            return 0, position
        self._walk_next = _WALK_MIN
        self._add(np.arange(position, position + count * size, size))
        return count, position + count * size

    def _equal_count(self, position: int, size: int, count: int, width: int) -> int:
        """Return how many records in a row, of at most `count`, begin with the bytes of the first one's length."""
        for place in range(position, position + width):
            column = self._data[place : place + (count - 1) * size + 1 : size]
            differs = column != column[0]
            first = int(differs.argmax())
            count = first if differs[first] else count
        return count

    def _walk(self, body: bytes, position: int, count: int, batch: Batch) -> int:
        """Add the next `count` records of a batch one by one, and return the place after them in its body."""
        places: list[int] = []
        add = places.append
        for _ in range(count):
            add(position)
            first = body[position]
            if first < 0x80:
                position += (first >> 1) + 1
                continue
            second = body[position + 1]
            if second < 0x80:
                position += ((first & 0x7F | second << 7) >> 1) + 2
            else:
                position = _after_long(body, position, batch)
        # A made-up length may even exceed NumPy's integers: such places are not kept.
        if position <= len(body):
            self._add(np.array(places, np.int64) + batch.start)
        return position


def _after_long(body: bytes, position: int, batch: Batch) -> int:
    """Return the place after a record whose length has three bytes or more."""
    length = shift = 0
    while (byte := body[position]) >= 0x80:
        if shift >= 7 * VARINT_BYTES_MAX:
            raise DecodeError(f"the batch at offset {batch.base_offset} has an unterminated integer")
        length |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return position + 1 + ((length | byte << shift) >> 1)


def _short_length(view: memoryview, position: int) -> _Length:
    """Return the length at `position`, of width 0 if it has more than two bytes or is negative."""
    first = view[position]
    if first & 1:
        return _Length(0, 0)
    if first < 0x80:
        return _Length(first >> 1, 1)
    second = view[position + 1]
    return _Length((first & 0x7F | second << 7) >> 1, 2) if second < 0x80 else _Length(0, 0)
