"""A broker process as its supervisor sees it: whether it serves, how often it died, and when it is started again.

Times end in `_s` on the monotonic clock and in `_ms` since the Unix epoch.
"""

import socket
from dataclasses import dataclass, replace
from typing import Final

from syncline.local.layout import Deaths

RESTART_DELAY_S: Final = 0.2
RESTART_DELAY_S_MAX: Final = 5.0
# A broker that ran for this long before it died waits for its restart no longer than `RESTART_DELAY_S`.
STABLE_AFTER_S: Final = 10.0


@dataclass(kw_only=True)
class Child:
    """One broker process."""

    broker_id: int
    pid: int
    port: int
    internal_port: int
    metrics_port: int | None
    started_at_s: float
    # Where it reports that it serves, or why it cannot; None after that.
    ready: socket.socket | None
    restart_at_s: float | None = None
    restart_delay_s: float = RESTART_DELAY_S
    serving: bool = False
    failure: str = ""
    # Why it could not start while the cluster came up, kept for its next processes until one serves.
    start_failure: str = ""
    # How often its process ended by a signal, or after it had served, while the cluster came up.
    killed_count: int = 0
    # None: its processes have not ended since the cluster was up.
    deaths: Deaths | None = None

    def next_process(self, *, pid: int, internal_port: int, ready: socket.socket, now_s: float) -> "Child":
        """Return the same broker with a new process."""
        return replace(
            self,
            pid=pid,
            internal_port=internal_port,
            ready=ready,
            started_at_s=now_s,
            restart_at_s=None,
            serving=False,
            failure="",
        )

    def start_again_later(self, now_s: float) -> None:
        """Set when the next process is due: soon after one that was stable, later and later otherwise."""
        is_stable = now_s - self.started_at_s >= STABLE_AFTER_S
        self.restart_delay_s = RESTART_DELAY_S if is_stable else min(self.restart_delay_s * 2, RESTART_DELAY_S_MAX)
        self.restart_at_s = now_s + self.restart_delay_s

    def died(self, how: str, now_ms: int) -> None:
        """Count a process that ended while the cluster was up."""
        self.deaths = Deaths(1 + (self.deaths.times if self.deaths else 0), now_ms, how)
