"""Arriving partitions: those of an image that have no role yet, if there are many; they get it in slices.

To create a replica takes some 50 µs, and to change its role 25. So a topic of ten thousand partitions, or the loss of a
broker that leads a third of them, would hold the loop for a third of a second. Until its turn comes, such a partition
is what it was before: clients and followers that have newer metadata try again.

A slice ends by the clock, and by the number of partitions that were hosted: where no time passes within a callback
(simulated runs), many partitions are hosted in slices, too, the same ones in every run.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.node.loop.loop_holds import LoopHolds

# How long one callback hosts partitions, and how many at most; as many are hosted at once with their image.
SLICE_MS: Final = 3
PARTITIONS_PER_SLICE: Final = 64


class ArrivingPartitions:
    """The partitions of an image that one broker has not looked at yet."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        holds: LoopHolds,
        host: Callable[[TopicPartition], bool],
        *,
        on_hosted: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._holds = holds
        # Gives a partition its role, and returns whether the broker has a replica of it, or had one.
        self._host = host
        # Called after each slice.
        self._on_hosted = on_hosted
        self._waiting: dict[TopicPartition, None] = {}
        self._finished: Callable[[], None] | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: object) -> bool:
        return key in self._waiting

    def in_turn(self, work: Callable[[], None]) -> None:
        """Apply an image with many partitions in the next turn of the loop, unless the broker stops before."""
        self._loop.call_soon(self._turn, work)

    def _turn(self, work: Callable[[], None]) -> None:
        if self._is_closed:
            return
        began_ms = self._holds.now_ms()
        work()
        self._holds.ended(began_ms, "new metadata")

    def host(self, keys: Iterable[TopicPartition], finished: Callable[[], None]) -> None:
        """Host partitions in the next turns of the loop, then call `finished`."""
        assert self._finished is None, f"{len(self)} partitions of an earlier image are not hosted yet"
        self._waiting = dict.fromkeys(keys)
        self._finished = finished
        self._loop.call_soon(self._slice)

    def close(self) -> None:
        """Stop: the broker is stopping."""
        self._is_closed = True

    def _slice(self) -> None:
        if self._is_closed:
            return
        began_ms = self._holds.now_ms()
        count = 0
        while self._waiting and count < PARTITIONS_PER_SLICE and self._holds.look_ms() - began_ms < SLICE_MS:
            # The first one that came.
            key = next(iter(self._waiting))
            del self._waiting[key]
            count += self._host(key)
        self._on_hosted()
        if self._waiting:
            self._loop.call_soon(self._slice)
        else:
            finished, self._finished = self._finished, None
            assert finished is not None, "it is called once, at the end"
            finished()
        self._holds.ended(began_ms, "new partitions")
