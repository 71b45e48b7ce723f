"""Injected faults on a time axis: a band over the whole height, with a numbered mark at its top.

All replication pictures show the faults at the same places, so that a reader can look straight down from a cause to
its effects.
"""

from collections.abc import Sequence
from typing import Final

from syncline.pictures import svg
from syncline.pictures.axis import TimeAxis
from syncline.pictures.labels import CHARACTER_PX, Rows, seconds
from syncline.pipeline.report.facts import FaultMark

AXIS_TITLE: Final = "minutes:seconds since the journal began"
_ROW: Final = 18.0


def bands(axis: TimeAxis, faults: Sequence[FaultMark], top: float, bottom: float) -> list[str]:
    """Return the faults' bands; they are drawn first, under everything."""
    parts = []
    for fault in faults:
        x, end = axis.x(fault.start_ms), axis.x(axis.end_ms if fault.end_ms is None else fault.end_ms)
        tip = svg.tip(f"{fault.label}{f' ({fault.note})' if fault.note else ''}")
        parts.append(svg.rect(x, top, max(end - x, 2.0), bottom - top, tip, class_="fault-band"))
        parts.append(svg.line(x, top, x, bottom, class_="fault-line fault-edge"))
        if fault.end_ms is not None:
            parts.append(svg.line(end, top, end, bottom, class_="fault-line fault-edge soft"))
    return parts


def marks(axis: TimeAxis, faults: Sequence[FaultMark], baseline: float) -> list[str]:
    """Return the faults' numbers and names above their bands."""
    parts: list[str] = []
    rows = Rows()
    for number, fault in enumerate(faults, 1):
        lasted = "until the end" if fault.end_ms is None else f"for {seconds(fault.end_ms - fault.start_ms)}"
        label = f"{fault.label}, {lasted}"
        width = len(label) * CHARACTER_PX
        x = min(axis.x(fault.start_ms), axis.right - width - 18)
        y = baseline - _ROW * rows.row(x, width + 30)
        parts.append(svg.element("circle", cx=x + 8, cy=y - 4, r=8.0, class_="fault-dot"))
        parts.append(svg.text(x + 8, y, str(number), class_="fault-number mid"))
        parts.append(svg.text(x + 21, y, label, class_="fault-label"))
    return parts
