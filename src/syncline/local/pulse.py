"""When this process did not run: stopped by a signal, frozen by a container's or a machine's pause.

A write that takes three seconds may have waited for the disk, or its process was stopped in the middle of it; the clock
shows the same. A second thread tells them apart: the disk keeps one thread waiting, a stop keeps all. This thread beats
twice per second, and one beat that is late by more than a busy machine makes it shows a stop.

Units: ms of the monotonic clock.
"""

import threading
import time
from collections import deque
from typing import Final

# Each beat wakes an idle broker. A stop seems longer by at most as much: it is taken to begin with the beat before it.
BEAT_MS: Final = 500
# What a beat may be late although the process ran: it waited for a processor, or for the interpreter.
LATE_MS: Final = 500
# Stops that are remembered. Callers ask as soon as the operation ends that a stop made long.
_STOPS_MAX: Final = 16


class Pulse:
    """The last stops of this process, by the beats of a thread."""

    def __init__(self) -> None:
        # From the last beat before to the first after each stop.
        self._stops: deque[tuple[int, int]] = deque(maxlen=_STOPS_MAX)
        self._beat_ms = _now_ms()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._beat_ms = _now_ms()
        self._thread.start()

    def close(self) -> None:
        """Stop beating."""
        self._is_closed = True

    def stopped_ms(self, since_ms: int, until_ms: int) -> int:
        """Return for how much of a time that has just ended this process did not run."""
        beat_ms = self._beat_ms
        spans = list(self._stops)
        # The stop may have ended so recently that the thread has not beaten since, or has just noted the stop alone.
        if until_ms - beat_ms > BEAT_MS + LATE_MS and (not spans or spans[-1][0] < beat_ms):
            spans.append((beat_ms, until_ms))
        return sum(max(0, min(end_ms, until_ms) - max(begin_ms, since_ms)) for begin_ms, end_ms in spans)

    def beat(self, now_ms: int) -> None:
        """Record that this process runs."""
        if now_ms - self._beat_ms > BEAT_MS + LATE_MS:
            self._stops.append((self._beat_ms, now_ms))
        self._beat_ms = now_ms

    def _run(self) -> None:
        while not self._is_closed:
            # Cheaper than to wait for an event.
            time.sleep(BEAT_MS / 1_000)
            self.beat(_now_ms())


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
