"""Leader epoch cache: which term of leadership wrote which part of a log.

One hard idea: the (epoch, offset) histories of two logs show exactly where they
part, which the high watermark cannot, since a follower's watermark trails the
truth by a round trip. Everything that repairs a log rests on this list.

Units: a start offset is inclusive, an end offset exclusive; `log_end` is where
the next record goes. -1 stands for "no such epoch" or "no such offset".
Invariants: both columns rise strictly (I9). A later assignment that contradicts
an entry removes it: the log is right, the entry is not.
Source: KIP-101, KIP-279.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from syncline.model.ids import NONE, LeaderEpoch, Offset


class EpochEntry(NamedTuple):
    """A term of leadership and the first offset that it wrote or could have written."""

    leader_epoch: LeaderEpoch
    start_offset: Offset


class EpochEnd(NamedTuple):
    """The greatest known epoch up to a queried one, and the end of its records (exclusive)."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


NO_SUCH_EPOCH: Final = EpochEnd(LeaderEpoch(NONE), Offset(NONE))


class EpochCache:
    """The epochs of one log, oldest first.

    Every method that may change the list returns whether it did, so that the
    owner of the checkpoint file knows when to write. `assign` must be durable
    before anything rests on it; the truncations may be written lazily, because
    a file that holds too much is trimmed on load.
    """

    __slots__ = ("_epochs", "_starts", "latest_epoch")

    def __init__(self, entries: Iterable[tuple[LeaderEpoch, Offset]] = ()) -> None:
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[Offset] = []
        # The newest epoch, -1 when the cache is empty: read several times per append, and so no property.
        self.latest_epoch = LeaderEpoch(NONE)
        for leader_epoch, start_offset in entries:
            self.assign(leader_epoch, start_offset)

    def __repr__(self) -> str:
        return f"EpochCache({[tuple(entry) for entry in self.entries]})"

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(map(EpochEntry, self._epochs, self._starts))

    def assign(self, leader_epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Record that `leader_epoch` writes from `start_offset` on, and drop entries that contradict it.

        Return whether that changed anything.
        """
        epochs, starts = self._epochs, self._starts
        if epochs and leader_epoch == epochs[-1] and start_offset >= starts[-1]:
            return False
        assert leader_epoch >= 0, f"epoch {leader_epoch} cannot lead"
        assert start_offset >= 0, f"epoch {leader_epoch} cannot start at {start_offset}"
        while epochs and (epochs[-1] >= leader_epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(leader_epoch)
        starts.append(start_offset)
        self.latest_epoch = leader_epoch
        return True

    def end_offset_for(self, leader_epoch: LeaderEpoch, log_end: Offset) -> EpochEnd:
        """Return where the records of `leader_epoch` end, or of the greatest epoch below it.

        An epoch newer than all entries, -1 and an empty cache give (-1, -1). An epoch older than all entries gives
        itself with the first known start: none of its records are left.
        """
        epochs = self._epochs
        if leader_epoch == NONE or not epochs or leader_epoch > epochs[-1]:
            return NO_SUCH_EPOCH
        if leader_epoch == epochs[-1]:
            return EpochEnd(leader_epoch, log_end)
        higher = bisect_right(epochs, leader_epoch)
        if higher == 0:
            return EpochEnd(leader_epoch, self._starts[0])
        return EpochEnd(epochs[higher - 1], self._starts[higher])

    def entry_for_offset(self, offset: Offset) -> EpochEntry | None:
        """Return the entry whose records include `offset`, None when it is older than all."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0:
            return None
        return EpochEntry(self._epochs[index], self._starts[index])

    def holds(self, leader_epoch: LeaderEpoch, end_offset: Offset, log_end: Offset) -> bool:
        """Return whether this log has the record of `leader_epoch` below `end_offset`, and so all before it.

        A term of leadership writes each offset once: two logs that agree on one record agree on all below it.
        """
        known = self.end_offset_for(leader_epoch, log_end)
        entry = self.entry_for_offset(Offset(end_offset - 1))
        return known.leader_epoch == leader_epoch and end_offset <= known.end_offset and entry is not None

    def truncate_from_end(self, log_end: Offset) -> bool:
        """Forget epochs that start at or above `log_end`, after the log was cut there; return whether any did."""
        if log_end < 0:
            return False
        keep = bisect_left(self._starts, log_end)
        if keep == len(self._starts):
            return False
        del self._epochs[keep:], self._starts[keep:]
        self.latest_epoch = self._epochs[-1] if self._epochs else LeaderEpoch(NONE)
        return True

    def truncate_from_start(self, log_start: Offset) -> bool:
        """Forget everything below `log_start`; the epoch that reaches across it now starts there."""
        crossing = bisect_right(self._starts, log_start) - 1
        if crossing < 0 or (crossing == 0 and self._starts[0] == log_start):
            return False
        del self._epochs[:crossing], self._starts[:crossing]
        self._starts[0] = log_start
        assert len(self._starts) == 1 or log_start < self._starts[1], f"epochs out of order from {log_start}: {self!r}"
        return True

    def clear(self) -> bool:
        """Forget everything, after the whole log was dropped; return whether there was anything."""
        had_entries = bool(self._epochs)
        self._epochs.clear()
        self._starts.clear()
        self.latest_epoch = LeaderEpoch(NONE)
        return had_entries

    def check_invariants(self) -> None:
        """Assert that both columns rise strictly (I9)."""
        assert len(self._epochs) == len(self._starts), f"{len(self._epochs)} epochs, {len(self._starts)} starts"
        newest = self._epochs[-1] if self._epochs else NONE
        assert self.latest_epoch == newest, f"{self!r} says that its newest epoch is {self.latest_epoch}"
        assert not self._starts or min(self._epochs[0], self._starts[0]) >= 0, f"epoch or offset below 0: {self!r}"
        for column in (self._epochs, self._starts):
            rises = all(low < high for low, high in pairwise(column))
            assert rises, f"epoch cache does not rise: {self!r}"
