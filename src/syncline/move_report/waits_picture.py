"""Picture 3: how long clients waited for acknowledgements before, during and after the move.

Per interval, the broker whose clients waited longest: half of its requests (dotted), 99 of 100 (line), and the slowest
one (dot). Where the line is interrupted, no client waited for acknowledgements.
"""

from collections.abc import Sequence
from typing import Final

from syncline.move_report.facts import Facts, Wait
from syncline.move_report.frame import Frame, MarkRows, frame_of
from syncline.pictures import legend, svg
from syncline.pictures.labels import CHARACTER_PX, seconds
from syncline.pictures.scales import Linear, nice_ticks

_PANEL: Final = 190.0
_GAP_BINS: Final = 2.5


def draw(facts: Facts, width: float) -> str:
    """Return the picture."""
    frame = frame_of(facts, width)
    marks = MarkRows(frame, facts.marks)
    rows = 2 if frame.is_narrow else 1
    top = 18 + 24 * rows + marks.height
    bottom = top + _PANEL
    ticks = nice_ticks(max(10.0, *(float(each.max_ms) for each in facts.waits)), 5)
    scale = Linear(0, ticks[-1], bottom, top)
    drawn = [*_legend(frame), *frame.grid(top, bottom)]
    for tick in ticks:
        y = scale(tick)
        drawn.append(svg.line(frame.left, y, frame.right, y, class_="grid"))
        drawn.append(svg.text(frame.left - 8, y + 4, f"{tick:,.0f} ms" if tick else "0", class_="tick end-anchor"))
    drawn += marks.draw(6 + 24 * rows, top, bottom)
    for run in _runs(facts):
        for style, values in (("p50", [each.p50_ms for each in run]), ("p99", [each.p99_ms for each in run])):
            points = [(frame.axis.x(each.at_ms), scale(value)) for each, value in zip(run, values, strict=True)]
            if len(points) == 1:
                points = [(points[0][0] - 2, points[0][1]), (points[0][0] + 2, points[0][1])]
            drawn.append(svg.path(points, class_=style))
    for each in facts.waits:
        tip = f"broker {each.broker}: {each.answered} requests, 99 % within {each.p99_ms} ms, slowest {each.max_ms} ms"
        drawn.append(
            svg.element(
                "circle", svg.tip(tip), cx=frame.axis.x(each.at_ms), cy=scale(each.max_ms), r=2.6, class_="longest"
            )
        )
    drawn += _peak(facts, frame, scale)
    return svg.drawing(width, bottom + 46, "How long clients waited for acknowledgements, in milliseconds", *drawn)


def _legend(frame: Frame) -> list[str]:
    def dot(x: float, y: float) -> str:
        return svg.element("circle", cx=x + 5, cy=y - 4, r=2.6, class_="longest")

    entries = [
        legend.stroke("99 of 100 requests", "p99"),
        legend.stroke("half of them", "p50"),
        legend.Entry("the slowest", 10, dot),
    ]
    return legend.row(entries, frame.left if not frame.is_narrow else 4, 14, right=frame.width)


def _runs(facts: Facts) -> list[list[Wait]]:
    """Return the intervals, those without a gap together."""
    runs: list[list[Wait]] = []
    for each in facts.waits:
        if not runs or each.at_ms - runs[-1][-1].at_ms > _GAP_BINS * facts.bin_ms:
            runs.append([])
        runs[-1].append(each)
    return runs


def _peak(facts: Facts, frame: Frame, scale: Linear) -> Sequence[str]:
    """Return a number at the slowest request of all."""
    worst = max(facts.waits, key=lambda each: each.max_ms)
    label = seconds(worst.max_ms)
    width = len(label) * CHARACTER_PX + 10
    x, y = frame.axis.x(worst.at_ms), scale(worst.max_ms)
    at = x + 7 if x + width < frame.right else x - width
    return [svg.text(at, y - 6, label, class_="peak halo")]
