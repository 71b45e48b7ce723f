"""Mending a damaged log from other copies of it: what is missing, and putting it back.

One hard idea: a term of leadership writes each offset once. So a sound batch that
another copy has at an offset is the one that was here, if its leader epoch is
the one that this log's own history (`leader-epoch-checkpoint`) names for that
offset. Nothing else is taken, and a log without its history is not mended.

A *hole* is a stretch without sound batches. Its segment is written anew, with
the batches in place, under another name; the caller gives it the segment's name
when nothing has changed meanwhile.

Everything but `Patch.apply` may wait for the disk: call it in a worker. Units:
positions are bytes in a file; ends are exclusive.
"""

import contextlib
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from syncline.core.replication.leader_epochs import EpochCache
from syncline.model.ids import NONE, LeaderEpoch, Offset
from syncline.records.batch import BatchHeader, crc_matches, iterate
from syncline.records.buffers import Buffer
from syncline.records.errors import DecodeError
from syncline.storage.checkpoints import decode_epochs
from syncline.storage.disk import Disk, File
from syncline.storage.recovery import EPOCHS_FILE, MENDED_SUFFIX
from syncline.storage.salvage import bases_of, sound_batches
from syncline.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, file_name

COPY_BLOCK_BYTES: Final = 1 << 20
# What one request for copies returns, unless a single batch is larger.
COPIES_BYTES_MAX: Final = 4 << 20


class Hole(NamedTuple):
    """A stretch of a log that holds no sound batch."""

    # The segment that it begins in, and the bytes there that are to be replaced.
    base_offset: Offset
    position: int
    end_position: int
    # Records from `offset` up to `end_offset` are missing; without a batch behind them, at least so many.
    offset: Offset
    end_offset: Offset
    is_at_end: bool
    leader_epoch: LeaderEpoch

    def __str__(self) -> str:
        if self.is_at_end:
            return f"the end, from offset {self.offset} on,"
        last = self.end_offset - 1
        return f"offset {last}" if last == self.offset else f"offsets {self.offset} to {last}"


@dataclass(frozen=True, slots=True)
class Patch:
    """A segment written anew, which has its own name only after `apply`."""

    directory: str
    base_offset: Offset
    # Whether every batch lies where it did, so that indexes and positions remain true.
    is_in_place: bool

    def apply(self, disk: Disk) -> None:
        """Give the new file the segment's name. Raises OSError; the segment is then as it was."""
        path = f"{self.directory}/{file_name(self.base_offset, LOG_SUFFIX)}"
        disk.rename(path + MENDED_SUFFIX, path)
        if not self.is_in_place:
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                index = f"{self.directory}/{file_name(self.base_offset, suffix)}"
                if disk.exists(index):
                    disk.remove(index)
        disk.sync_directory(self.directory)


def history_of(disk: Disk, directory: str) -> EpochCache:
    """Return which term wrote which part of a log. Raises CheckpointError or FileNotFoundError if that is lost."""
    path = f"{directory}/{EPOCHS_FILE}"
    return EpochCache(decode_epochs(path, disk.read_file(path)))


def first_hole(disk: Disk, directory: str, flushed_to: Offset, bases: Container[Offset] | None = None) -> Hole | None:
    """Return the first hole of a log (in the segments at `bases`, None: in all), None if there is none.

    The log reaches up to `flushed_to` at least. Raises as `history_of` does, and OSError.
    """
    history = history_of(disk, directory)
    every = bases_of(disk, directory)
    chosen = every if bases is None else [each for each in every if each in bases]
    for number, base_offset in enumerate(chosen):
        follower = next((each for each in every if each > base_offset), None)
        file = disk.open(f"{directory}/{file_name(base_offset, LOG_SUFFIX)}")
        try:
            hole = _hole_in(file, base_offset, follower, history, flushed_to)
        finally:
            file.close()
        if hole is not None:
            return hole
        assert follower is None or number + 1 == len(chosen) or chosen[number + 1] >= follower, "segments are in order"
    return None


def _hole_in(
    file: File, base_offset: Offset, follower: Offset | None, history: EpochCache, flushed_to: Offset
) -> Hole | None:
    """Return the first hole of a segment; the next one begins at `follower`, None: it is the last."""
    position, offset = 0, base_offset
    for at, header in _believable(file, base_offset, follower, history):
        if header.base_offset < offset:
            continue
        if at != position or header.base_offset != offset:
            return _hole(base_offset, position, at, offset, Offset(header.base_offset), history)
        position, offset = at + header.size_bytes, Offset(header.next_offset)
    end = file.size_bytes
    if follower is not None and (position != end or offset != follower):
        return _hole(base_offset, position, end, offset, follower, history)
    if follower is None and (position != end or offset < flushed_to):
        return _hole(base_offset, position, end, offset, max(flushed_to, Offset(offset + 1)), history, is_at_end=True)
    return None


def _believable(
    file: File, base_offset: Offset, follower: Offset | None, history: EpochCache
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the sound batches whose offset and leader epoch, which no checksum covers, fit the log's history."""
    for at, header in sound_batches(file, base_offset):
        is_inside = follower is None or header.next_offset <= follower
        if is_inside and _epoch_at(history, Offset(header.base_offset)) == header.leader_epoch:
            yield at, header


def _epoch_at(history: EpochCache, offset: Offset) -> LeaderEpoch:
    entry = history.entry_for_offset(offset)
    return LeaderEpoch(NONE) if entry is None else entry.leader_epoch


def _hole(
    base_offset: Offset,
    position: int,
    end_position: int,
    offset: Offset,
    end_offset: Offset,
    history: EpochCache,
    *,
    is_at_end: bool = False,
) -> Hole:
    assert position <= end_position, f"a hole from {position} to {end_position}"
    assert offset < end_offset, f"a hole from offset {offset} to {end_offset}"
    return Hole(base_offset, position, end_position, offset, end_offset, is_at_end, _epoch_at(history, offset))


def copies(disk: Disk, directory: str, offset: Offset, leader_epoch: LeaderEpoch, max_bytes: int) -> bytes:
    """Return the sound batches of one term that a copy of the log has from `offset` on, b"" if it has none there."""
    found = bytearray()
    try:
        base_offset = max((each for each in bases_of(disk, directory) if each <= offset), default=None)
        if base_offset is None:
            return b""
        file = disk.open(f"{directory}/{file_name(base_offset, LOG_SUFFIX)}")
    except FileNotFoundError:
        return b""
    try:
        for at, header in sound_batches(file, base_offset):
            if header.base_offset == offset and header.leader_epoch == leader_epoch:
                if found and len(found) + header.size_bytes > max_bytes:
                    break
                found += file.read(at, header.size_bytes)
                offset = Offset(header.next_offset)
            elif found:
                break
    finally:
        file.close()
    return bytes(found)


def fitting(hole: Hole, history: EpochCache, offered: Buffer) -> tuple[memoryview, Offset]:
    """Return the part of `offered` that belongs into the hole, and the offset behind it.

    Nothing of it is believed: each batch must be sound, follow the one before, and be of the term that wrote here.
    """
    view, end, offset = memoryview(offered), 0, hole.offset
    with contextlib.suppress(DecodeError):
        for at, header in iterate(view, 0, len(view)):
            is_next = header.base_offset == offset < header.next_offset
            is_inside = hole.is_at_end or header.next_offset <= hole.end_offset
            is_of_term = _epoch_at(history, offset) == header.leader_epoch
            if not (is_next and is_inside and is_of_term and crc_matches(view, at, header)):
                break
            end, offset = at + header.size_bytes, Offset(header.next_offset)
    return view[:end], offset


def patch(disk: Disk, directory: str, hole: Hole, offered: Buffer) -> Patch | None:
    """Write the hole's segment anew with the batches of `offered` that fit; None if none does. Raises OSError."""
    data, offset = fitting(hole, history_of(disk, directory), offered)
    if not data:
        return None
    is_whole = offset == hole.end_offset and not hole.is_at_end
    path = f"{directory}/{file_name(hole.base_offset, LOG_SUFFIX)}"
    source = disk.open(path)
    try:
        end = source.size_bytes
        # What is left of the hole stays, as bytes, for the next patch; damage at the end of a log goes.
        behind = hole.end_position
        if not is_whole and not hole.is_at_end:
            behind = min(hole.end_position, hole.position + len(data))
        if disk.exists(path + MENDED_SUFFIX):
            disk.remove(path + MENDED_SUFFIX)
        target = disk.open(path + MENDED_SUFFIX, create=True)
        try:
            _copy(source, target, 0, hole.position)
            target.append([data])
            _copy(source, target, behind, end)
            target.sync()
        finally:
            target.close()
    finally:
        source.close()
    is_in_place = hole.position + len(data) == behind
    return Patch(directory, hole.base_offset, is_in_place)


def _copy(source: File, target: File, start: int, end: int) -> None:
    while start < end:
        block = source.read(start, min(COPY_BLOCK_BYTES, end - start))
        assert block, f"{source.path} ends at {start}, before {end}"
        target.append([block])
        start += len(block)
