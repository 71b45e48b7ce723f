"""What the pictures of a report share: their width, the time axis, and what happened to the move, as marks across them.

A picture is drawn twice, for wide and for narrow screens. Instants are Unix milliseconds; the axis counts from the
move's beginning, so what lies before has a minus.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncline.move_report.facts import Facts, Mark
from syncline.pictures import svg
from syncline.pictures.axis import TimeAxis
from syncline.pictures.labels import clock
from syncline.pictures.scales import time_ticks_ms

WIDE: Final = 1180.0
NARROW: Final = 346.0
_LEFT: Final = 74.0
_LEFT_NARROW: Final = 58.0
_RIGHT: Final = 14.0
_ROW: Final = 17.0
# The average width of a bold character at 12 px.
BOLD_PX: Final = 7.1
_TICK_PX: Final = 88.0
_LABEL_GAP: Final = 10.0


@dataclass(frozen=True, slots=True)
class Frame:
    """A drawing's width, and its places in time."""

    width: float
    axis: TimeAxis
    started_ms: int

    @property
    def is_narrow(self) -> bool:
        """Whether it is made for a small screen."""
        return self.width < WIDE / 2

    @property
    def left(self) -> float:
        """Return where panels begin."""
        return self.axis.left

    @property
    def right(self) -> float:
        """Return where panels end."""
        return self.axis.right

    def grid(self, top: float, bottom: float) -> list[str]:
        """Return lines at round times, with their labels and the axis' title below."""
        span_ms = self.axis.end_ms - self.axis.start_ms
        count = max(2, int((self.right - self.left) / _TICK_PX))
        step_ms = time_ticks_ms(span_ms, count)[1:2] or [span_ms]
        first = -((self.started_ms - self.axis.start_ms) // step_ms[0])
        parts = []
        for index in range(first, (self.axis.end_ms - self.started_ms) // step_ms[0] + 1):
            at_ms = index * step_ms[0]
            x = self.axis.x(self.started_ms + at_ms)
            parts.append(svg.line(x, top, x, bottom, class_="grid"))
            parts.append(svg.text(x, bottom + 16, since(at_ms), class_="tick mid"))
        title = "minutes:seconds since the move began"
        parts.append(svg.text((self.left + self.right) / 2, bottom + 35, title, class_="muted mid"))
        return parts


def frame_of(facts: Facts, width: float) -> Frame:
    """Return the frame of a drawing of this width."""
    left = _LEFT if width > WIDE / 2 else _LEFT_NARROW
    return Frame(width, TimeAxis(facts.start_ms, facts.end_ms, left, width - _RIGHT), facts.started_ms)


def since(at_ms: int) -> str:
    """Return a time since the move began as m:ss."""
    return f"-{clock(-at_ms)}" if at_ms < 0 else clock(at_ms)


class MarkRows:
    """The labels of marks above a picture, in as many rows as they need."""

    def __init__(self, frame: Frame, marks: Sequence[Mark]) -> None:
        self._frame = frame
        self._placed: list[tuple[Mark, float, int]] = []
        ends: list[float] = []
        for mark in marks:
            width = len(mark.label) * BOLD_PX + _LABEL_GAP
            x = max(frame.left, min(frame.axis.x(mark.at_ms), frame.right - width))
            row = next((index for index, end in enumerate(ends) if end <= x), len(ends))
            ends[row:] = [x + width] if row == len(ends) else [x + width, *ends[row + 1 :]]
            self._placed.append((mark, x, row))
        self.height = _ROW * len(ends)

    def draw(self, top: float, first_panel: float, bottom: float) -> list[str]:
        """Return the labels below `top`, each with a line down to `bottom`; the last row is next to the panels."""
        lines, words = [], []
        for mark, x, row in self._placed:
            baseline = top + self.height - row * _ROW - 4
            at = self._frame.axis.x(mark.at_ms)
            lines.append(svg.line(at, baseline + 4 if at >= x else first_panel, at, bottom, class_="mark-line"))
            words.append(svg.text(x + (4 if at <= x + 1 else 0), baseline, mark.label, class_="mark-label halo"))
        # Words cover the lines of other marks.
        return [*lines, *words]
