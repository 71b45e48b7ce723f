"""The scrub: reading cold segments slowly, to find damage while another copy is still sound.

One hard idea: damage in a cold segment shows only when it is read, and by then the
other copies may be damaged, too. So every finished segment is read from time to
time, the log that was checked longest ago first, at a rate that nobody notices.
Progress is in memory: a new process begins again.

What a batch's checksum does not cover (its offset and its leader epoch) is
compared with the batches before it. A bad place is read twice, the second time
from the disk, before it counts.

Units: sizes and positions are bytes, times monotonic ms.
"""

import errno
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from syncline.model.ids import NONE, TopicPartition
from syncline.records.batch import BatchHeader
from syncline.records.buffers import Buffer
from syncline.storage.disk import Disk, File
from syncline.storage.errors import is_refusal
from syncline.storage.recovery.scan import scan

# What a pause in scrubbing may save up, in ms of the rate.
SAVED_MS_MAX: Final = 1_000


class Pace:
    """A budget of bytes that grows with time; one batch may overdraw it, and then the next has to wait."""

    def __init__(self) -> None:
        self._saved_bytes = 0.0
        self._since_ms: int | None = None

    def allowance(self, now_ms: int, bytes_per_s: int) -> int:
        """Return how many bytes may be read now; 0 or less: none."""
        if self._since_ms is not None:
            assert self._since_ms <= now_ms, f"time went back from {self._since_ms} to {now_ms}"
            self._saved_bytes += bytes_per_s * (now_ms - self._since_ms) / 1_000
        self._since_ms = now_ms
        self._saved_bytes = min(self._saved_bytes, bytes_per_s * SAVED_MS_MAX / 1_000)
        return int(self._saved_bytes)

    def spend(self, read_bytes: int) -> None:
        """Count bytes that were read."""
        assert read_bytes >= 0, f"{read_bytes} bytes were read"
        self._saved_bytes -= read_bytes


class ScrubQueue:
    """Which log is checked next: the one whose last check ended longest ago."""

    def __init__(self) -> None:
        self._checked_ms: dict[TopicPartition, int] = {}

    def next(self, keys: Iterable[TopicPartition], now_ms: int, interval_ms: int) -> TopicPartition | None:
        """Return the next of `keys`, None if each was checked within the interval. One never checked comes first."""
        oldest: TopicPartition | None = None
        oldest_ms = now_ms - interval_ms
        for key in keys:
            checked_ms = self._checked_ms.get(key)
            if checked_ms is None:
                return key
            if checked_ms < oldest_ms or (oldest is None and checked_ms == oldest_ms):
                oldest, oldest_ms = key, checked_ms
        return oldest

    def checked(self, key: TopicPartition, now_ms: int) -> None:
        """Record that the check of a log has ended."""
        assert now_ms >= self._checked_ms.get(key, now_ms), f"{key} was checked later than {now_ms}"
        self._checked_ms[key] = now_ms

    def keep(self, keys: Mapping[TopicPartition, object]) -> None:
        """Forget the logs that are not among `keys`."""
        self._checked_ms = {key: at_ms for key, at_ms in self._checked_ms.items() if key in keys}

    def checked_ms(self, key: TopicPartition) -> int | None:
        """Return when the last check of a log ended, None if it was never checked."""
        return self._checked_ms.get(key)


class SegmentCheck(NamedTuple):
    """The check of one segment, as far as it has come."""

    path: str
    size_bytes: int
    end_offset: int
    position: int
    # The next batch begins at this offset or behind it, and its leader is of this epoch or a later one.
    next_offset: int
    leader_epoch: int = NONE


class FoundDamage(NamedTuple):
    """The first bad place in a segment."""

    path: str
    position: int
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}, position {self.position}, offset {self.offset}: {self.reason}"


class Checked(NamedTuple):
    """What a slice of a check has found; `rest` is None when the segment is done."""

    rest: SegmentCheck | None
    read_bytes: int
    damage: FoundDamage | None = None


class _Cold:
    """A file that is read without leaving anything in the page cache that was not there before."""

    def __init__(self, file: File) -> None:
        self._file = file

    def read(self, position: int, size: int) -> Buffer:
        """Return up to `size` bytes."""
        size = max(0, min(size, self._file.size_bytes - position))
        data = self._file.read_resident(position, size)
        if data is None:
            data = self._file.read(position, size)
            self._file.drop_cached(position, size)
        return data


def check_some(disk: Disk, check: SegmentCheck, budget_bytes: int) -> Checked:
    """Check batches of a segment until the budget is spent, at least one; may wait for the disk.

    Raises FileNotFoundError if retention has removed the segment, and OSError if the process has too many open files.
    """
    file = disk.open(check.path)
    try:
        return _check(file, check, budget_bytes)
    except OSError as error:
        if is_refusal(error) or error.errno == errno.ENOENT:
            raise
        reason = f"the disk cannot read it: {error.strerror}"
        return Checked(None, 0, FoundDamage(check.path, check.position, check.next_offset, reason))
    finally:
        file.close()


def _check(file: File, check: SegmentCheck, budget_bytes: int) -> Checked:
    cold = _Cold(file)
    begin = check.position
    for position, found in scan(cold, check.size_bytes, start=check.position):
        if _fault(check, found) is not None:
            return _look_again(file, check, position - begin)
        check = _behind(check, found)
        if check.position - begin >= budget_bytes and check.position < check.size_bytes:
            return Checked(check, check.position - begin)
    assert check.position == check.size_bytes, f"the check of {check.path} ended at {check.position}"
    return Checked(None, check.position - begin)


def _look_again(file: File, check: SegmentCheck, read_bytes: int) -> Checked:
    """Read a bad place once more, from the disk: memory may have been at fault, or the way from the disk."""
    file.drop_cached(check.position, check.size_bytes - check.position)
    _, found = next(scan(file, check.size_bytes, start=check.position))
    reason = _fault(check, found)
    if reason is None:
        return Checked(_behind(check, found), read_bytes)
    return Checked(None, read_bytes, FoundDamage(check.path, check.position, check.next_offset, reason))


def _behind(check: SegmentCheck, found: BatchHeader | str) -> SegmentCheck:
    """Return the check when the next batch is sound."""
    assert isinstance(found, BatchHeader), f"{check.path} has no batch at {check.position}"
    return check._replace(
        position=check.position + found.size_bytes, next_offset=found.next_offset, leader_epoch=found.leader_epoch
    )


def _fault(check: SegmentCheck, found: BatchHeader | str) -> str | None:
    """Return what is wrong with the next batch, None if nothing is."""
    if isinstance(found, str):
        return found
    if not check.next_offset <= found.base_offset < found.next_offset <= check.end_offset:
        due = f"{check.next_offset} or more, and below {check.end_offset}"
        return f"offset {found.base_offset} where {due}, is due"
    if found.leader_epoch < check.leader_epoch:
        return f"leader epoch {found.leader_epoch} after {check.leader_epoch}"
    return None
