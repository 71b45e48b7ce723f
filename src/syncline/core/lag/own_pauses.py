"""When this broker itself did not run: stopped by a signal or by its machine, or held for long.

One hard idea: a coordinator dates a commit by when it hears it. One that was stopped hears all that was committed
meanwhile at once, in two milliseconds, and so ten commits of seven seconds look like a burst with silence behind it. It
cannot know when they were made, so it has to be as much more patient as it was stopped (`excused_ms`), with windows
that begin before it had heard them all.

A broker finds its pauses by beats: one that comes much too late came after a pause.
Units: monotonic ms for how long, Unix ms for when.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

BEAT_MS: Final = 1_000
# What a beat may be late without a pause: a busy machine is no stopped one.
_LATE_MS: Final = 1_000
# In this time after a pause a broker hears what was sent during it.
_HEARING_MS: Final = 2_000
# Pauses that are remembered. Windows of commits are short.
_PAUSES_MAX: Final = 16


class Pause(NamedTuple):
    """From when to when a broker did not run."""

    begin_ms: int
    end_ms: int


class OwnPauses:
    """The last pauses of one broker."""

    def __init__(self) -> None:
        self._beat_ms: int | None = None
        self.last: deque[Pause] = deque(maxlen=_PAUSES_MAX)

    def beat(self, mono_ms: int, wall_ms: int) -> None:
        """Record that this broker runs; to be called every `BEAT_MS`."""
        if self._beat_ms is not None:
            since_ms = mono_ms - self._beat_ms
            assert since_ms >= 0, f"a beat at {mono_ms} follows one at {self._beat_ms}"
            if since_ms > BEAT_MS + _LATE_MS:
                self.last.append(Pause(wall_ms - since_ms, wall_ms))
        self._beat_ms = mono_ms


def excused_ms(pauses: Iterable[Pause], first_ms: int) -> int:
    """Return how much longer than its window a group may be silent, if its window begins at `first_ms`."""
    return sum(each.end_ms - each.begin_ms for each in pauses if each.end_ms + _HEARING_MS >= first_ms)
