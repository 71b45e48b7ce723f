"""Time axes: an even one, and one in steps.

The even axis suits a long history in which only a few moments matter. The stepped one suits a story: each step is wide
enough to read and longer steps are wider, so that both a wait of a second and a change within milliseconds stay
visible; within a step it is even.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncline.pictures import svg
from syncline.pictures.labels import clock
from syncline.pictures.scales import Linear, time_ticks_ms

_TICKS: Final = 12
_STEP_MIN_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Places of instants, in milliseconds, between `left` and `right`."""

    start_ms: int
    end_ms: int
    left: float
    right: float

    def x(self, at_ms: int) -> float:
        """Return the place of an instant."""
        return Linear(self.start_ms, max(self.end_ms, self.start_ms + 1), self.left, self.right)(at_ms)

    def grid(self, top: float, bottom: float, title: str, *, ticks: int = _TICKS) -> list[str]:
        """Return lines at about so many round seconds, with their labels and the axis' title below."""
        parts = []
        for tick_ms in time_ticks_ms(self.end_ms - self.start_ms, ticks):
            x = self.x(self.start_ms + tick_ms)
            parts.append(svg.line(x, top, x, bottom, class_="grid"))
            parts.append(svg.text(x, bottom + 17, clock(tick_ms), class_="tick mid"))
        parts.append(svg.text((self.left + self.right) / 2, bottom + 36, title, class_="muted mid"))
        return parts


class StepAxis:
    """Places of moments, in seconds: even within each step, and each step at least `step_px_min` wide if that fits."""

    def __init__(self, edges_s: Sequence[float], left: float, right: float, *, step_px_min: float) -> None:
        assert edges_s, "an axis without steps still has its beginning"
        assert all(start <= end for start, end in itertools.pairwise(edges_s)), f"steps overlap: {list(edges_s)}"
        self.edges_s = tuple(edges_s)
        lengths = [max(end - start, _STEP_MIN_S) for start, end in itertools.pairwise(edges_s)] or [1.0]
        least = min(step_px_min, (right - left) / len(lengths))
        free = max(0.0, right - left - least * len(lengths))
        # Square roots, so that a step a hundred times longer is ten times wider and leaves the others some room.
        total = sum(length**0.5 for length in lengths)
        self.places = [left]
        for length in lengths:
            self.places.append(self.places[-1] + least + free * length**0.5 / total)
        assert abs(self.places[-1] - right) < 1, f"the steps end at {self.places[-1]:.1f}, not at {right:.1f}"

    def x(self, at_s: float) -> float:
        """Return the place of a moment; moments outside land on the nearer end."""
        for (start_s, end_s), (start, end) in zip(
            itertools.pairwise(self.edges_s), itertools.pairwise(self.places), strict=False
        ):
            if at_s <= end_s:
                return Linear(start_s, max(end_s, start_s + _STEP_MIN_S), start, end)(at_s)
        return self.places[-1]
