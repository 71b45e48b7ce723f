"""Mending a damaged log from other copies of it: what is missing, and putting it back.

One hard idea: a term of leadership writes each offset once. So a sound batch that
another copy has at an offset is the one that was here, if it is of the term that
wrote here. Which one that was, this log itself says: for what was flushed, its
`leader-epoch-checkpoint`; for the rest, the terms before and behind the hole if
they are the same, or what is left of the batch. Nothing else is taken.

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
from syncline.model.immutable import Immutable
from syncline.records.batch import HEADER_BYTES, BatchHeader, crc_matches, iterate
from syncline.records.buffers import Buffer
from syncline.records.errors import DecodeError
from syncline.storage.checkpoints.formats import CheckpointError, decode_epochs
from syncline.storage.disk import Disk, File
from syncline.storage.errors import DamagedLogError
from syncline.storage.recovery.recover import EPOCHS_FILE, MENDED_SUFFIX
from syncline.storage.recovery.salvage import bases_of, sound_batches
from syncline.storage.recovery.scan import is_unfinished
from syncline.storage.segments.segment import HINT_SUFFIXES, LOG_SUFFIX, file_name

COPY_BLOCK_BYTES: Final = 1 << 20
_NEWEST: Final = LeaderEpoch(2**31 - 1)


class Hole(NamedTuple):
    """A stretch of a log that holds no sound batch, and what is known of what was there."""

    # The segment that it begins in, and the bytes there that are to be replaced.
    base_offset: Offset
    position: int
    end_position: int
    # Records from `offset` up to `end_offset` are missing; without a batch behind them, at least so many.
    offset: Offset
    end_offset: Offset
    is_at_end: bool
    # The term that wrote at `offset`, -1 if that is not sure, and how far it surely wrote.
    leader_epoch: LeaderEpoch
    sure_up_to: Offset
    # Another term cannot be older than the first, nor newer than the second.
    oldest_epoch: LeaderEpoch
    newest_epoch: LeaderEpoch
    # The checksum in the place where the first batch has it, None if the bytes are missing.
    stored_crc: int | None

    def __str__(self) -> str:
        if self.is_at_end:
            return f"the end, from offset {self.offset} on"
        last = self.end_offset - 1
        return f"offset {last}" if last == self.offset else f"offsets {self.offset} to {last}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Patch(Immutable):
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
            for suffix in HINT_SUFFIXES:
                index = f"{self.directory}/{file_name(self.base_offset, suffix)}"
                if disk.exists(index):
                    disk.remove(index)
        disk.sync_directory(self.directory)


def first_hole(disk: Disk, directory: str, flushed_to: Offset, bases: Container[Offset] | None = None) -> Hole | None:
    """Return the first hole of a log (in the segments at `bases`, None: in all), None if there is none.

    The log reaches up to `flushed_to` at least. Raises OSError, and CheckpointError if its history is lost.
    """
    history = _History(disk, directory, flushed_to)
    every = bases_of(disk, directory)
    latest = LeaderEpoch(NONE)
    for base_offset, follower in zip(every, [*every[1:], None], strict=True):
        if bases is None or base_offset in bases:
            file = disk.open(f"{directory}/{file_name(base_offset, LOG_SUFFIX)}")
            try:
                walk = _Walk(file, base_offset, follower, history, latest)
                hole = walk.first_hole()
            finally:
                file.close()
            if hole is not None:
                return hole
            latest = walk.leader_epoch
    return None


class _History:
    """What a log's own files say about which term wrote what."""

    def __init__(self, disk: Disk, directory: str, flushed_to: Offset) -> None:
        self.flushed_to = flushed_to
        path = f"{directory}/{EPOCHS_FILE}"
        try:
            entries = decode_epochs(path, disk.read_file(path))
        except FileNotFoundError:
            if flushed_to:
                raise CheckpointError(f"{path} is missing: nothing says which leader wrote what is lost") from None
            entries = []
        # It was synced before anything counted as flushed; above, it may be old, and the batches themselves say it.
        self._epochs = EpochCache((epoch, start) for epoch, start in entries if start < flushed_to)

    def at(self, offset: Offset) -> LeaderEpoch | None:
        """Return the term that wrote at an offset that was flushed, None for others and those before all terms."""
        entry = self._epochs.entry_for_offset(offset) if offset < self.flushed_to else None
        return None if entry is None else entry.leader_epoch

    def end_of(self, leader_epoch: LeaderEpoch) -> Offset:
        """Return where the records of a term end, as far as they were flushed."""
        return self._epochs.end_offset_for(leader_epoch, self.flushed_to).end_offset


def _with_next(
    batches: Iterator[tuple[int, BatchHeader]],
) -> Iterator[tuple[tuple[int, BatchHeader], BatchHeader | None]]:
    """Yield each batch together with the header of the one behind it."""
    before: tuple[int, BatchHeader] | None = None
    for each in batches:
        if before is not None:
            yield before, each[1]
        before = each
    if before is not None:
        yield before, None


class _Walk:
    """A walk over one segment, up to its first hole; the next segment begins at `follower`, None: it is the last."""

    def __init__(
        self, file: File, base_offset: Offset, follower: Offset | None, history: _History, latest: LeaderEpoch
    ) -> None:
        self._file = file
        self._base_offset = base_offset
        self._follower = follower
        self._history = history
        # Behind the last batch that can be believed.
        self._position = 0
        self._offset = base_offset
        self.leader_epoch = latest

    def first_hole(self) -> Hole | None:
        """Return the first hole of the segment."""
        for (at, header), behind in _with_next(sound_batches(self._file, self._base_offset)):
            if not self._is_believable(header, behind):
                continue
            if at != self._position or header.base_offset != self._offset:
                return self._hole(at, Offset(header.base_offset), LeaderEpoch(header.leader_epoch))
            self._position, self._offset = at + header.size_bytes, Offset(header.next_offset)
            self.leader_epoch = LeaderEpoch(header.leader_epoch)
        end, flushed_to = self._file.size_bytes, self._history.flushed_to
        if self._follower is not None:
            is_whole = self._position == end and self._offset == self._follower
            return None if is_whole else self._hole(end, self._follower, None)
        # What is not flushed may be cut short there: recovery decides about it.
        is_whole = self._position == end or is_unfinished(self._file, self._position, end)
        if self._offset >= flushed_to and is_whole:
            return None
        return self._hole(end, max(flushed_to, Offset(self._offset + 1)), None, is_at_end=True)

    def _is_believable(self, header: BatchHeader, behind: BatchHeader | None) -> bool:
        """Return whether offset and leader epoch, which no checksum covers, fit what is known."""
        if header.base_offset < self._offset or (self._follower is not None and header.next_offset > self._follower):
            return False
        # An offset that was damaged leaps, and the next batch undoes it, or it leaps over more than the bytes can hold.
        if header.base_offset > self._offset and behind is not None and behind.base_offset < header.next_offset:
            return False
        if header.base_offset - self._offset > self._file.size_bytes:
            return False
        known = self._history.at(Offset(header.base_offset))
        if known is not None:
            return header.leader_epoch == known
        # Terms only rise.
        is_undone = behind is not None and self.leader_epoch <= behind.leader_epoch < header.leader_epoch
        return header.leader_epoch >= max(0, self.leader_epoch) and not is_undone

    def _hole(
        self, end_position: int, end_offset: Offset, epoch_behind: LeaderEpoch | None, *, is_at_end: bool = False
    ) -> Hole:
        assert self._position <= end_position, f"a hole from {self._position} to {end_position}"
        if self._offset >= end_offset:
            raise DamagedLogError(f"{self._file.path}: bytes {self._position} to {end_position} have no offsets")
        left = self._file.read(self._position, min(HEADER_BYTES, end_position - self._position))
        there = BatchHeader.parse(left, 0) if len(left) == HEADER_BYTES else None
        oldest, newest = self.leader_epoch, _NEWEST if epoch_behind is None else epoch_behind
        leader_epoch = self._history.at(self._offset)
        sure_up_to = self._offset
        if leader_epoch is not None:
            sure_up_to = min(self._history.end_of(leader_epoch), end_offset)
        elif epoch_behind is not None and epoch_behind == self.leader_epoch:
            # Terms only rise: the same one before and behind wrote all between.
            leader_epoch, sure_up_to = self.leader_epoch, end_offset
        elif there is not None and there.base_offset == self._offset and oldest <= there.leader_epoch <= newest:
            # The bytes that are left say which record it was, and of which term.
            leader_epoch, sure_up_to = LeaderEpoch(there.leader_epoch), Offset(self._offset + 1)
        return Hole(
            base_offset=self._base_offset,
            position=self._position,
            end_position=end_position,
            offset=self._offset,
            end_offset=end_offset,
            is_at_end=is_at_end,
            leader_epoch=LeaderEpoch(NONE) if leader_epoch is None else leader_epoch,
            sure_up_to=sure_up_to,
            oldest_epoch=oldest,
            newest_epoch=newest,
            stored_crc=None if there is None else there.crc,
        )


def copies(disk: Disk, directory: str, offset: Offset, leader_epoch: LeaderEpoch, max_bytes: int) -> bytes:
    """Return the sound batches of one term (-1: any) that a copy has from `offset` on, b"" if there are none."""
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
            if header.base_offset == offset and leader_epoch in (NONE, header.leader_epoch):
                leader_epoch = LeaderEpoch(header.leader_epoch)
                if found and len(found) + header.size_bytes > max_bytes:
                    break
                found += file.read(at, header.size_bytes)
                offset = Offset(header.next_offset)
            elif found:
                break
    finally:
        file.close()
    return bytes(found)


def fitting(hole: Hole, offered: Buffer) -> tuple[memoryview, Offset]:
    """Return the part of `offered` that belongs into the hole, and the offset behind it.

    Nothing of it is believed: each batch must be sound, follow the one before, and be of the term that wrote here. If
    that term is not sure, the first batch must be the one whose checksum is left.
    """
    view, end, offset = memoryview(offered), 0, hole.offset
    with contextlib.suppress(DecodeError):
        for at, header in iterate(view, 0, len(view)):
            is_next = header.base_offset == offset < header.next_offset
            is_inside = hole.is_at_end or header.next_offset <= hole.end_offset
            is_sure = header.leader_epoch == hole.leader_epoch and offset < hole.sure_up_to
            is_possible = hole.oldest_epoch <= header.leader_epoch <= hole.newest_epoch
            is_the_one = offset == hole.offset and header.crc == hole.stored_crc and is_possible
            if not (is_next and is_inside and (is_sure or is_the_one) and crc_matches(view, at, header)):
                break
            end, offset = at + header.size_bytes, Offset(header.next_offset)
    return view[:end], offset


def patch(disk: Disk, directory: str, hole: Hole, offered: Buffer) -> Patch | None:
    """Write the hole's segment anew with the batches of `offered` that fit; None if none does. Raises OSError."""
    data, offset = fitting(hole, offered)
    if not data:
        return None
    path = f"{directory}/{file_name(hole.base_offset, LOG_SUFFIX)}"
    # What is left of the hole stays, as bytes, for the next patch.
    behind = min(hole.end_position, hole.position + len(data))
    if offset == hole.end_offset and not hole.is_at_end:
        behind = hole.end_position
    source = disk.open(path)
    try:
        if disk.exists(path + MENDED_SUFFIX):
            disk.remove(path + MENDED_SUFFIX)
        target = disk.open(path + MENDED_SUFFIX, create=True)
        try:
            _copy(source, target, 0, hole.position)
            target.append([data])
            _copy(source, target, behind, source.size_bytes)
            target.sync()
        finally:
            target.close()
    finally:
        source.close()
    return Patch(directory, hole.base_offset, is_in_place=hole.position + len(data) == behind)


def _copy(source: File, target: File, start: int, end: int) -> None:
    while start < end:
        block = source.read(start, min(COPY_BLOCK_BYTES, end - start))
        assert block, f"{source.path} ends at {start}, before {end}"
        target.append([block])
        start += len(block)
