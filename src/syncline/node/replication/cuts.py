"""Cutting logs without blocking the loop.

One hard idea: planning a cut may need a read from the disk, and a slow disk may be
the reason for the cut: a slow leader has relinquished, and its log holds records
that its successor lacks. So a worker thread plans a cut that cannot be planned from
memory, and the loop performs it when the plan is ready. Until then the log is
unchanged, and the caller may cancel the cut, for instance because the broker leads
now.

Few cuts are planned at once: reads need worker threads, too.

Times in ms of the node's clock.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from syncline.model.ids import NONE, Offset, TopicPartition
from syncline.node.clock import Clock
from syncline.node.counting.disk_watch import NOTABLE_MS, DiskWatch
from syncline.node.partitions.partition import Partition
from syncline.storage.disk import Disk
from syncline.storage.errors import StorageError, is_refusal
from syncline.storage.removal.cutting import CutPlan, CutSearch

# Half of a broker's worker threads.
SEARCHES_MAX: Final = 2
# The pause after a cut, or the search for its plan, failed for a temporary reason.
RETRY_S: Final = 1.0


class Cut:
    """One requested cut."""

    __slots__ = ("done", "is_cancelled", "offset", "partition", "refused")

    def __init__(
        self,
        partition: Partition,
        offset: Offset,
        done: Callable[[StorageError | None], None],
        refused: Callable[[StorageError], None],
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.done = done
        self.refused = refused
        self.is_cancelled = False

    def cancel(self) -> None:
        """Leave the log as it is, and do not call `done`. Has no effect after the cut."""
        self.is_cancelled = True


class Cuts:
    """All pending cuts of one broker."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop, disk: Disk, watch: DiskWatch) -> None:
        self._clock = clock
        self._loop = loop
        self._disk = disk
        self._watch = watch
        self._search_count = 0
        self._waiting: deque[Cut] = deque()

    def order(
        self,
        partition: Partition,
        offset: Offset,
        done: Callable[[StorageError | None], None],
        refused: Callable[[StorageError], None],
    ) -> Cut:
        """Cut a log at `offset`: before this returns, if nothing has to be read.

        `done` is called once, with the error if one made the log unusable, unless the cut is cancelled. Each time that
        the disk refuses the cut, `refused` is called, and the cut is tried again: a follower that fetched on with what
        it had to cut would not always be told again that its history is another one.
        """
        cut = Cut(partition, offset, done, refused)
        self._go_on(cut)
        return cut

    @contextmanager
    def holding_loop(self, key: TopicPartition) -> Iterator[None]:
        """Report for how long the writes and syncs of a cut block the loop."""
        clock = self._clock
        began_ms = clock.mono_ms()
        yield
        took_ms = clock.mono_ms() - began_ms
        if took_ms >= NOTABLE_MS:
            self._watch.wrote(key, took_ms, "truncation")

    def _go_on(self, cut: Cut) -> None:
        if cut.is_cancelled:
            return
        log = cut.partition.log
        try:
            with self.holding_loop(cut.partition.key):
                plan = log.plan_cut(cut.offset)
                if isinstance(plan, CutPlan):
                    is_cut = log.cut(plan)
                    assert is_cut, "nothing came between the plan and the cut"
        except StorageError as error:
            self._failed(cut, error)
            return
        if isinstance(plan, CutPlan):
            cut.done(None)
        elif self._search_count < SEARCHES_MAX:
            self._search(cut, plan)
        else:
            # The cut is planned again when its turn comes.
            self._waiting.append(cut)

    def _failed(self, cut: Cut, error: StorageError) -> None:
        if is_refusal(error):
            cut.refused(error)
            self._loop.call_later(RETRY_S, self._go_on, cut)
        else:
            cut.done(error)

    def _search(self, cut: Cut, search: CutSearch) -> None:
        self._search_count += 1
        number = self._watch.read_began(cut.partition.key, NONE, self._clock.mono_ms(), "cut")

        def found(result: CutPlan | Exception) -> None:
            self._watch.read_ended(number)
            self._search_count -= 1
            assert 0 <= self._search_count < SEARCHES_MAX, f"{self._search_count} searches after one has ended"
            try:
                self._take(cut, search, result)
            finally:
                self._next()

        self._disk.run_later(search.run, found)

    def _take(self, cut: Cut, search: CutSearch, result: CutPlan | Exception) -> None:
        """Perform a worker's plan, if the cut was not cancelled and the log has not changed."""
        if cut.is_cancelled:
            return
        log = cut.partition.log
        try:
            if isinstance(result, Exception):
                log.search_failed(search, result)
                self._loop.call_later(RETRY_S, self._go_on, cut)
                return
            with self.holding_loop(cut.partition.key):
                is_cut = log.cut(result)
        except StorageError as error:
            self._failed(cut, error)
            return
        if is_cut:
            cut.done(None)
        else:
            self._go_on(cut)

    def _next(self) -> None:
        while self._waiting and self._search_count < SEARCHES_MAX:
            self._go_on(self._waiting.popleft())
