"""ISR ticks: judging followers periodically, without blocking the loop for long.

A tick judges only the unsettled partitions (`core.replication.tick_index`), a limited number in each turn of the loop.
So even if tens of thousands of followers lag at once, requests are answered in between.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final

from syncline.core.replication.leader import LeaderPartition
from syncline.core.replication.tick_index import Ticked, TickIndex
from syncline.node.clock import Clock
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.partitions.partition import Partition

log = logging.getLogger("syncline.node")

# Partitions judged in one turn of the loop: takes 1 to 5 ms.
SLICE: Final = 200


class IsrTicks:
    """The timer that judges the followers of one broker."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        configs: LiveConfigs,
        ticks: TickIndex,
        look_at_reads: Callable[[], None],
        settle: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._configs = configs
        # The partitions that a tick judges.
        self.unsettled = ticks
        # Called with each tick: reads that hang are looked for as often as followers are judged.
        self._look_at_reads = look_at_reads
        self._settle = settle
        self._timer: asyncio.TimerHandle | None = None
        self._interval_ms = 0
        # The partitions that the current tick has yet to judge, last first.
        self._left: list[Ticked] = []
        self._is_closed = False

    def start(self) -> None:
        """Judge the followers now and at every tick."""
        self._arm()
        self.tick()

    def configure(self) -> None:
        """Apply a changed interval at once."""
        if self._timer is not None and self._wanted_ms() != self._interval_ms:
            self._timer.cancel()
            self._arm()

    def close(self) -> None:
        """Stop ticking."""
        self._is_closed = True
        self._left = []
        if self._timer is not None:
            self._timer.cancel()

    def _wanted_ms(self) -> int:
        config = self._configs.broker
        return config.replica_lag_check_interval_ms or max(1, config.replica_lag_time_max_ms // 2)

    def _arm(self) -> None:
        self._interval_ms = self._wanted_ms()
        self._timer = self._loop.call_later(self._interval_ms / 1000, self._due)

    def _due(self) -> None:
        if self._is_closed:
            return
        self._arm()
        self.tick()

    def active(self) -> Iterator[Partition]:
        """Return each led partition to which something happened since the last call; see `TickIndex.active`."""
        return self._led(self.unsettled.active(self._left))

    def _led(self, ticked: list[Ticked]) -> Iterator[Partition]:
        for each in ticked:
            leader, partition = _of(each)
            # Of a past leadership, the partition comes again with the present one, if there is one.
            if partition.leader is leader:
                yield partition

    def tick(self) -> None:
        """Begin a tick; skip it if the last one has not finished."""
        self._look_at_reads()
        if not self._left:
            self._left = self.unsettled.take()
            self._left.reverse()
            self._go_on()

    def _go_on(self) -> None:
        left = self._left
        now_ms = self._clock.mono_ms()
        for _ in range(min(SLICE, len(left))):
            self._judge(left.pop(), now_ms)
        if self._left:
            self._loop.call_soon(self._go_on)
        self._settle()

    def _judge(self, ticked: Ticked, now_ms: int) -> None:
        leader, partition = _of(ticked)
        ticks = self.unsettled
        if partition.leader is not leader or partition.is_offline:
            ticks.give_back(ticked, is_over=True)
            return
        try:
            effects = leader.tick(now_ms)
            if effects:
                partition.perform(effects)
            ticks.give_back(ticked)
        except Exception:
            # A failure must not keep the remaining partitions from being judged.
            log.exception("%s: the periodic check of its ISR failed", partition.key)
            ticks.keep(ticked)


def _of(ticked: Ticked) -> tuple[LeaderPartition, Partition]:
    assert isinstance(ticked, LeaderPartition), "nothing else is in the index"
    partition = ticked.owner
    assert isinstance(partition, Partition), "a broker's leaders belong to its partitions"
    return ticked, partition
