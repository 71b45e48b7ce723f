"""Tick index: which partitions the next ISR tick has to look at.

One hard idea: a tick must cost in proportion to activity, not to the number of partitions. Where every member has
everything and nothing waits above the watermark, passing time cannot change the ISR, so ticks skip the partition.
Any event that unsettles a partition (above all an append) adds it here, once; a tick takes all partitions that were
added, and keeps those that are not settled yet. `active` tells others where something happened.

Under the historic lag modes silence alone evicts, so every partition with followers in its ISR stays here.

Invariant: a partition that is not in the index is settled.
"""

from collections.abc import Iterable
from typing import Protocol


class Ticked(Protocol):
    """A partition, as the index sees it."""

    is_ticked: bool

    @property
    def is_settled(self) -> bool:
        """Whether time alone changes nothing here."""


class TickIndex:
    """The unsettled partitions of one node."""

    __slots__ = ("_settled", "_unsettled")

    def __init__(self) -> None:
        self._unsettled: list[Ticked] = []
        # Those that were settled since `active` was called; None before its first call.
        self._settled: dict[Ticked, None] | None = None

    def __len__(self) -> int:
        return len(self._unsettled)

    def add(self, partition: Ticked) -> None:
        """Have the next tick look at `partition`; call it only if `is_ticked` is false."""
        assert not partition.is_ticked, f"{partition!r} is in the index already"
        partition.is_ticked = True
        self._unsettled.append(partition)

    def take(self) -> list[Ticked]:
        """Return all partitions to look at, in the order in which they were added; the caller gives each back."""
        taken, self._unsettled = self._unsettled, []
        return taken

    def give_back(self, partition: Ticked, *, is_over: bool = False) -> None:
        """Keep a partition after a tick, unless it is settled or its leadership is over."""
        assert partition.is_ticked, f"{partition!r} was not taken from the index"
        if is_over or partition.is_settled:
            partition.is_ticked = False
            if self._settled is not None and not is_over:
                self._settled[partition] = None
        else:
            self._unsettled.append(partition)

    def keep(self, partition: Ticked) -> None:
        """Keep a partition, settled or not."""
        assert partition.is_ticked, f"{partition!r} was not taken from the index"
        self._unsettled.append(partition)

    def active(self, taken: Iterable[Ticked]) -> list[Ticked]:
        """Return each partition that was unsettled at any time since the last call, or is now at the first call.

        `taken` are those that a tick has taken and not given back.
        """
        settled, self._settled = self._settled or (), {}
        return list(dict.fromkeys((*settled, *taken, *self._unsettled)))

    def check_invariants(self) -> None:
        """Assert that each partition here knows that a tick will look at it."""
        for partition in self._unsettled:
            assert partition.is_ticked, f"{partition!r} is in the index and does not know it"
