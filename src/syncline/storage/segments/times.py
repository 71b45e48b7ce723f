"""Offsets by time: the only reads in which a broker opens batches.

One hard idea: timestamps need not rise, so "the first record not older than t"
is the first in offset order. A segment's largest timestamp shows whether it can
hold one, its time index where to start, and the largest timestamp in a header
which batch to open. A leader stores compressed batches unopened: of one that turns
out to be malformed, its header alone is believed.

Everything here works on plain values (`Place`), so that a worker may do it while
the log is in use. Units: milliseconds; offsets count records.
Source: KIP-33, KIP-79 (by time), KIP-734 (largest timestamp).
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from syncline.model.ids import LeaderEpoch, Offset
from syncline.records import record
from syncline.records.batch import BatchHeader
from syncline.records.buffers import Buffer
from syncline.records.errors import DecodeError
from syncline.storage.disk import Disk
from syncline.storage.segments.batch_walk import walk
from syncline.storage.segments.index import OffsetIndex, TimeIndex

TIMESTAMP_MAX_MS: Final = 2**63 - 1


class TimestampedOffset(NamedTuple):
    """A record found by its time."""

    offset: Offset
    timestamp_ms: int
    leader_epoch: LeaderEpoch


class Place(NamedTuple):
    """What a look-up by time needs to know of one segment."""

    disk: Disk
    path: str
    index_path: str
    time_index_path: str
    base_offset: Offset
    size_bytes: int
    max_timestamp_ms: int
    # Where to start; None: the index files have to be read first.
    start: int | None

    def positions_from(self, timestamp_ms: int) -> int:
        """Return a position before which every record is older than `timestamp_ms`."""
        if self.start is not None:
            return self.start
        try:
            index = OffsetIndex.decode(self.base_offset, self.disk.read_file(self.index_path))
            times = TimeIndex.decode(self.base_offset, self.disk.read_file(self.time_index_path))
        except FileNotFoundError:
            return 0
        if index is None or times is None:
            return 0
        return index.position_before(times.offset_before(timestamp_ms))

    def batches_with(self, timestamp_ms: int) -> Iterator[tuple[Buffer, BatchHeader]]:
        """Yield (bytes, header) of the batches that reach `timestamp_ms`, in offset order."""
        file = self.disk.open(self.path)
        try:
            for position, header in walk(file, self.positions_from(timestamp_ms), self.size_bytes):
                if header.max_timestamp >= timestamp_ms:
                    yield file.read(position, header.size_bytes), header
        finally:
            file.close()


def first_at_or_after(places: Sequence[Place], timestamp_ms: int, log_start: Offset) -> TimestampedOffset | None:
    """Return the first record at or above `log_start` that is not older than `timestamp_ms`."""
    for place in places:
        if place.max_timestamp_ms < timestamp_ms:
            continue
        for data, header in place.batches_with(timestamp_ms):
            if header.last_offset < log_start:
                continue
            found = _first_in(data, header, timestamp_ms, log_start)
            if found is not None:
                return found
    return None


def _first_in(data: Buffer, header: BatchHeader, timestamp_ms: int, log_start: Offset) -> TimestampedOffset | None:
    # A consumer that reads from there misses nothing.
    claimed = (max(header.base_offset, log_start), header.max_timestamp)
    try:
        found = record.first_at_or_after(data, 0, header, timestamp_ms)
        if found is not None and header.base_offset <= found[0] < log_start:
            # The log begins inside this batch: look only at the records from the log start on.
            left = (each for each in record.read_records(data, 0, header) if each.offset >= log_start)
            found = next(((each.offset, each.timestamp_ms) for each in left if each.timestamp_ms >= timestamp_ms), None)
    except DecodeError:
        found = claimed
    return None if found is None else _result(found if _is_possible(found, header) else claimed, header)


def latest(places: Sequence[Place]) -> TimestampedOffset | None:
    """Return the first record with the largest timestamp, None if no record has one."""
    largest_ms = max((place.max_timestamp_ms for place in places), default=-1)
    if largest_ms < 0:
        return None
    for place in places:
        if place.max_timestamp_ms == largest_ms:
            for data, header in place.batches_with(largest_ms):
                return _result(_latest_in(data, header, largest_ms), header)
    return None


def _latest_in(data: Buffer, header: BatchHeader, largest_ms: int) -> tuple[int, int]:
    # A compressed batch may claim a time that none of its records has.
    claimed = (header.last_offset, largest_ms)
    try:
        found = record.latest(data, 0, header)
    except DecodeError:
        return claimed
    return claimed if found is None or not _is_possible(found, header) else found


def _is_possible(found: tuple[int, int], header: BatchHeader) -> bool:
    offset, timestamp_ms = found
    return header.base_offset <= offset <= header.last_offset and timestamp_ms <= TIMESTAMP_MAX_MS


def _result(found: tuple[int, int], header: BatchHeader) -> TimestampedOffset:
    return TimestampedOffset(Offset(found[0]), found[1], LeaderEpoch(header.leader_epoch))
