"""Tick index: which partitions the next ISR tick has to look at.

One hard idea: the cost of a tick must follow what happens, not what exists. A partition where every member has
everything and nothing waits above the watermark cannot change its ISR by the passing of time, so ticks skip it. What
unsettles a partition (an append, above all) adds it here, once; a tick takes all that were added, and keeps those
that are not settled yet.

Under the historic lag modes silence alone evicts, so there every partition with followers in sync stays here.

Invariant: a partition that is not in the index is settled.
"""

from typing import Protocol


class Ticked(Protocol):
    """A partition, as the index sees it."""

    is_ticked: bool

    @property
    def is_settled(self) -> bool:
        """Whether time alone changes nothing here."""


class TickIndex:
    """The unsettled partitions of one node."""

    __slots__ = ("_unsettled",)

    def __init__(self) -> None:
        self._unsettled: list[Ticked] = []

    def __len__(self) -> int:
        return len(self._unsettled)

    def add(self, partition: Ticked) -> None:
        """Have the next tick look at `partition`; call it only if `is_ticked` is false."""
        assert not partition.is_ticked, f"{partition!r} is in the index already"
        partition.is_ticked = True
        self._unsettled.append(partition)

    def take(self) -> list[Ticked]:
        """Return all partitions to look at, in the order in which they were added; each is to be given back."""
        taken, self._unsettled = self._unsettled, []
        return taken

    def give_back(self, partition: Ticked, *, is_over: bool = False) -> None:
        """Keep a partition that was looked at, unless it is settled or its leadership is over."""
        assert partition.is_ticked, f"{partition!r} was not taken from the index"
        if is_over or partition.is_settled:
            partition.is_ticked = False
        else:
            self._unsettled.append(partition)

    def keep(self, partition: Ticked) -> None:
        """Keep a partition that may be settled or not."""
        assert partition.is_ticked, f"{partition!r} was not taken from the index"
        self._unsettled.append(partition)

    def check_invariants(self) -> None:
        """Assert that each partition here knows that a tick will look at it."""
        for partition in self._unsettled:
            assert partition.is_ticked, f"{partition!r} is in the index and does not know it"
