"""Watching brokers' memory from outside, and ending a broker that would take the machine's.

Sizes are bytes of resident memory.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LOOK_S: Final = 0.02
# Beyond this a case has failed in any event, and other processes need the memory.
KILL_BYTES: Final = 1_500_000_000
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process, 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def run_queue_wait_ms(pid: int) -> float:
    """Return how long the loop's thread of a process was ready to run while others had the processors; 0 if unknown.

    Holds are measured by the clock, so they include this time: on a busy machine it explains most of a long one.
    """
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e6
    except (OSError, IndexError, ValueError):
        return 0.0


class MemoryWatch:
    """The memory of some processes, looked at fifty times a second by a thread."""

    def __init__(self, pids: Mapping[int, int]) -> None:
        self._pids = dict(pids)
        self._peaks = dict.fromkeys(pids, 0)
        self.killed: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    def waits_ms(self) -> dict[int, float]:
        """Return how long each broker's loop has waited for a processor since it began."""
        return {broker: run_queue_wait_ms(pid) for broker, pid in self._pids.items()}

    def now(self) -> dict[int, int]:
        """Return the memory of each broker."""
        return {broker: resident_bytes(pid) for broker, pid in self._pids.items()}

    def take_peaks(self) -> dict[int, int]:
        """Return each broker's peak since the last call."""
        peaks, self._peaks = self._peaks, dict.fromkeys(self._pids, 0)
        return {broker: max(peak, now) for (broker, peak), now in zip(peaks.items(), self.now().values(), strict=True)}

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            for broker, size_bytes in self.now().items():
                self._peaks[broker] = max(self._peaks[broker], size_bytes)
                if size_bytes > KILL_BYTES and broker not in self.killed:
                    self.killed.append(broker)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._pids[broker], signal.SIGKILL)
