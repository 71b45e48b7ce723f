"""The connections of one broker: their memory, their places, their idleness, and the buffer that they share."""

import asyncio
import itertools
from collections.abc import Callable, Collection, Coroutine, Iterator
from typing import Any, Final

from syncline.model.broker_config import BrokerConfig
from syncline.model.config_types import LONG_MAX
from syncline.node.clients.admission import ADMISSIONS
from syncline.node.clients.idle import IdleConnections, MayIdle
from syncline.node.clients.limits import connection_limits
from syncline.node.clients.memory import MemoryBudget, limit_bytes
from syncline.node.clients.places import CLIENT, Places
from syncline.node.clock import Clock
from syncline.wire.frames import Admit, Scratch

SWEEP_MS_MAX: Final = 10_000
# A sweep notices an idle connection at most a quarter of the allowed time late.
SWEEPS_PER_IDLE: Final = 4


class Clients:
    """What the connections of one broker share."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        config: BrokerConfig,
        memory_bytes: int,
        connections: Callable[[], Collection[MayIdle]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._clock = clock
        self._config = config
        self.memory = MemoryBudget(loop, limit_bytes(config.queued_max_request_bytes, memory_bytes))
        # Other brokers' connections are never held back.
        self.brokers_memory = MemoryBudget(loop, LONG_MAX, unsent_bytes_max=LONG_MAX)
        self.places = Places(loop, clock, connection_limits(config), spawn)
        self.idle = IdleConnections(loop, connections)
        self.scratch = Scratch()
        # Numbers all reads of this broker, so that the connection whose last read is oldest can be found.
        self.reads: Iterator[int] = itertools.count(1)

    def memory_of(self, listener: str) -> MemoryBudget:
        """Return the budget of a listener's connections."""
        return self.memory if listener == CLIENT else self.brokers_memory

    @staticmethod
    def admission(listener: str) -> Admit:
        """Return what decides whether a large request may be received on a listener."""
        return ADMISSIONS[listener]

    def configure(self, config: BrokerConfig) -> None:
        """Apply a changed configuration."""
        before, self._config = self._config, config
        limits = connection_limits(config)
        if limits != connection_limits(before):
            self.places.configure(limits)

    @property
    def sweep_interval_ms(self) -> int:
        """How often `sweep` is due."""
        idle_ms_max = self._config.connections_max_idle_ms
        return max(1, min(SWEEP_MS_MAX, idle_ms_max // SWEEPS_PER_IDLE)) if idle_ms_max >= 0 else SWEEP_MS_MAX

    def sweep(self) -> None:
        """Close idle connections, and free receive buffers that are not used."""
        self.idle.sweep(self._clock.mono_ms(), self._config.connections_max_idle_ms)

    def close(self) -> None:
        """Stop all timers: the broker is stopping."""
        self.places.close()
        self.memory.close()

    def check_invariants(self) -> None:
        """Assert what must hold between two callbacks of the loop."""
        self.places.check_invariants()
        self.memory.check_invariants()
