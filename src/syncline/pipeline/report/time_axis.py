"""The time axis that the replication pictures share: the same seconds, the same faults, at the same places.

Times are drawn from the journal's first event on. A fault is a band over the whole height with a numbered mark at
its top, so that eyes can go straight down from the cause to what it did.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncline.pipeline.report import svg
from syncline.pipeline.report.facts import FaultMark
from syncline.pipeline.report.scales import Linear, clock, seconds, time_ticks_ms

_TICKS: Final = 12
_LABEL_CHARACTER: Final = 6.3


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Places of instants between `left` and `right`."""

    start_ms: int
    end_ms: int
    left: float
    right: float

    def x(self, at_ms: int) -> float:
        """Return the place of an instant."""
        return Linear(self.start_ms, max(self.end_ms, self.start_ms + 1), self.left, self.right)(at_ms)

    def grid(self, top: float, bottom: float) -> list[str]:
        """Return lines at round seconds, with their labels below."""
        parts = []
        for tick in time_ticks_ms(self.end_ms - self.start_ms, _TICKS):
            x = self.x(self.start_ms + tick)
            parts.append(svg.line(x, top, x, bottom, class_="grid"))
            parts.append(svg.text(x, bottom + 17, clock(tick), class_="tick mid"))
        parts.append(
            svg.text(
                (self.left + self.right) / 2, bottom + 36, "minutes:seconds since the journal began", class_="muted mid"
            )
        )
        return parts

    def bands(self, faults: Sequence[FaultMark], top: float, bottom: float) -> list[str]:
        """Return the faults' bands: drawn first, under everything."""
        parts = []
        for fault in faults:
            x, end = self.x(fault.start_ms), self.x(self.end_ms if fault.end_ms is None else fault.end_ms)
            tip = svg.tip(f"{fault.label}{f' ({fault.note})' if fault.note else ''}")
            parts.append(svg.rect(x, top, max(end - x, 2.0), bottom - top, tip, class_="fault-band"))
            parts.append(svg.line(x, top, x, bottom, class_="fault-edge"))
            if fault.end_ms is not None:
                parts.append(svg.line(end, top, end, bottom, class_="fault-edge soft"))
        return parts

    def marks(self, faults: Sequence[FaultMark], y: float) -> list[str]:
        """Return the faults' numbers and names above their bands, in two rows where they would touch."""
        parts: list[str] = []
        taken = [float("-inf"), float("-inf")]
        for number, fault in enumerate(faults, 1):
            lasted = "until the end" if fault.end_ms is None else f"for {seconds(fault.end_ms - fault.start_ms)}"
            label = f"{fault.label}, {lasted}"
            x = min(self.x(fault.start_ms), self.right - len(label) * _LABEL_CHARACTER - 18)
            row = 0 if x > taken[0] else 1
            taken[row] = x + len(label) * _LABEL_CHARACTER + 30
            at = y - 18 * row
            parts.append(svg.element("circle", cx=x + 8, cy=at - 4, r=8.0, class_="fault-dot"))
            parts.append(svg.text(x + 8, at, str(number), class_="fault-number mid"))
            parts.append(svg.text(x + 21, at, label, class_="fault-label"))
        return parts
