"""ISR ticks: judging followers now and then, without blocking the loop for long.

A tick looks at the unsettled partitions only (`core.tick_index`), and at so many of them in one turn of the loop;
the rest follows in the next turns. With tens of thousands of followers all lagging at once, requests are still
answered in between.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from syncline.core.replication.leader import LeaderPartition
from syncline.core.replication.tick_index import Ticked, TickIndex
from syncline.node.clock import Clock
from syncline.node.live_configs import LiveConfigs
from syncline.node.partition import Partition

log = logging.getLogger("syncline.node")

# Partitions judged in one turn of the loop: 1 to 5 ms, by what is found.
SLICE: Final = 200


class IsrTicks:
    """The clockwork of one broker's ISRs."""

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
        # The partitions that a tick looks at.
        self.unsettled = ticks
        # Called with each tick: reads that do not end are looked for as often as followers are judged.
        self._look_at_reads = look_at_reads
        self._settle = settle
        self._timer: asyncio.TimerHandle | None = None
        self._interval_ms = 0
        # What the tick under way has still to look at, last first.
        self._left: list[Ticked] = []
        self._is_closed = False

    def start(self) -> None:
        """Judge all followers now, and with every tick."""
        self._arm()
        self.tick()

    def configure(self) -> None:
        """Take over another interval at once."""
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

    def tick(self) -> None:
        """Begin to judge; a tick that is due while the last one is under way is left out."""
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
        assert isinstance(ticked, LeaderPartition), "nothing else is in the index"
        partition = ticked.owner
        assert isinstance(partition, Partition), "brokers keep leaders in partitions"
        ticks = self.unsettled
        if partition.leader is not ticked or partition.is_offline:
            ticks.give_back(ticked, is_over=True)
            return
        try:
            effects = ticked.tick(now_ms)
            if effects:
                partition.perform(effects)
            ticks.give_back(ticked)
        except Exception:
            # The followers of the partitions behind this one must be judged, too.
            log.exception("%s: the tick of its ISR failed", partition.key)
            ticks.keep(ticked)
