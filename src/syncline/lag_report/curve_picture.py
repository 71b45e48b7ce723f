"""The picture: which share of what is read comes from the disk, over the size of the page cache.

The area is the model with what misses push out; the dotted line is the model without that. A line stands at the memory
of now, a dashed one at what is advised, and a dot at what was measured.
"""

from typing import Final

from syncline.core.lag.miss_ratio import curve
from syncline.lag_report import words
from syncline.lag_report.advice import WANTED, Advice
from syncline.lag_report.facts import CacheFacts
from syncline.lag_report.memory_axis import MemoryAxis, axis_of
from syncline.pictures import legend, svg
from syncline.pictures.scales import Linear, nice_ticks
from syncline.reassign.amounts import size_words

WIDE: Final = 1180.0
NARROW: Final = 346.0
_LEFT: Final = 58.0
_RIGHT: Final = 14.0
_PANEL: Final = 260.0
_ROW: Final = 18.0
_TICK_PX: Final = 84.0
# The average width of a bold character at 12 px.
_BOLD_PX: Final = 7.1
# Half the average width of a character of a tick's label.
_HALF_TICK_PX: Final = 3.6
_STEPS: Final = 160
_DOT: Final = 5.0


def draw(facts: CacheFacts, advice: Advice, width: float) -> str:
    """Return the picture."""
    axis = axis_of(facts, advice)
    sizes = [axis.at(step / _STEPS) for step in range(_STEPS + 1)]
    misses = [1 - point.hit_ratio for point in curve(facts.demand, sizes)]
    plain = [1 - point.hit_ratio for point in curve(facts.demand, sizes, with_pollution=False)]
    # Measured with the memory that the broker has, which may lie outside if another one is supposed.
    is_inside = axis.low_bytes <= facts.measured_at_bytes <= axis.high_bytes
    measured = facts.measured_hit_ratio if is_inside else None
    legend_rows, entries = _legend(width, with_dot=measured is not None)
    top = 16 + legend_rows * 24 + 2 * _ROW
    bottom = top + _PANEL
    ticks = nice_ticks(100 * max(0.01, *misses, 0.0 if measured is None else 1 - measured), 5)
    across, up = Linear(0, 1, _LEFT, width - _RIGHT), Linear(0, ticks[-1], bottom, top)
    drawn = [*entries, *_grid(axis, across, up, ticks, width)]
    line = [(across(step / _STEPS), up(100 * miss)) for step, miss in enumerate(misses)]
    outline = [(line[0][0], bottom), *line, (line[-1][0], bottom)]
    area = "M" + "L".join(f"{x:.2f},{y:.2f}" for x, y in outline) + "Z"
    drawn.append(svg.element("path", d=area, class_="curve-area"))
    drawn.append(
        svg.path([(across(step / _STEPS), up(100 * miss)) for step, miss in enumerate(plain)], class_="plain-line")
    )
    drawn.append(svg.path(line, class_="curve-line"))
    drawn += _lines(facts, advice, axis, across, (top, bottom))
    if measured is not None:
        tip = svg.tip(f"measured: {words.percent(1 - measured)} from disk")
        place = across(axis.share(facts.measured_at_bytes)), up(100 * (1 - measured))
        drawn.append(svg.element("circle", tip, cx=place[0], cy=place[1], r=_DOT, class_="measured-dot"))
    label = f"Share of what is read from {facts.title} that comes from disk, over the size of its page cache"
    return svg.drawing(width, bottom + 46, label, *drawn)


def _legend(width: float, *, with_dot: bool) -> tuple[int, list[str]]:
    """Return how many rows the legend has, and its shapes."""

    def dot(x: float, y: float) -> str:
        return svg.element("circle", cx=x + _DOT, cy=y - 4, r=_DOT, class_="measured-dot")

    entries = [
        legend.stroke("from disk, by the model", "curve-line", width=26),
        legend.stroke("if misses took no room", "plain-line", width=26),
        *([legend.Entry("as measured", 2 * _DOT, dot)] if with_dot else []),
    ]
    is_narrow = width < WIDE / 2
    return (2 if is_narrow else 1), legend.row(entries, 4 if is_narrow else _LEFT, 14, right=width)


def _grid(axis: MemoryAxis, across: Linear, up: Linear, ticks: list[float], width: float) -> list[str]:
    """Return lines at round shares and sizes, with their labels."""
    drawn = []
    for tick in ticks:
        drawn.append(svg.line(_LEFT, up(tick), width - _RIGHT, up(tick), class_="grid"))
        drawn.append(svg.text(_LEFT - 8, up(tick) + 4, f"{tick:g} %" if tick else "0", class_="tick end-anchor"))
    for size_bytes in axis.ticks(int((width - _LEFT - _RIGHT) / _TICK_PX)):
        x = across(axis.share(size_bytes))
        drawn.append(svg.line(x, up(ticks[-1]), x, up(0), class_="grid"))
        label = size_words(size_bytes)
        if x + len(label) * _HALF_TICK_PX <= width:
            drawn.append(svg.text(x, up(0) + 16, label, class_="tick mid"))
    title = "page cache for the logs of this broker"
    drawn.append(svg.text((_LEFT + width - _RIGHT) / 2, up(0) + 36, title, class_="muted mid"))
    return drawn


def _lines(facts: CacheFacts, advice: Advice, axis: MemoryAxis, across: Linear, ends: tuple[float, float]) -> list[str]:
    """Return the memory of now and the one that is advised, each with its label in a row of its own above the panel."""
    top, bottom = ends
    marks = [("now", facts.memory_bytes, words.mark(facts, advice))]
    wanted_bytes = advice.wanted_bytes
    if wanted_bytes is not None and axis.low_bytes <= wanted_bytes <= axis.high_bytes:
        marks.append(
            ("advised", round(wanted_bytes), f"{words.percent(WANTED)} from memory: {size_words(wanted_bytes)}")
        )
    drawn = []
    for row, (style, memory_bytes, label) in enumerate(marks):
        x, baseline = across(axis.share(memory_bytes)), top - 6 - _ROW * (1 - row)
        drawn.append(svg.line(x, baseline - 10, x, bottom, class_=f"{style}-line"))
        drawn.append(_beside(x, baseline, label, f"{style}-label halo", across.end))
    return drawn


def _beside(x: float, baseline: float, label: str, style: str, right: float) -> str:
    """Return a label on the side of a line that has room for it, or else from the drawing's left edge on."""
    length = len(label) * _BOLD_PX
    if x + 6 + length <= right:
        return svg.text(x + 6, baseline, label, class_=style)
    if length <= x - 8:
        return svg.text(x - 6, baseline, label, class_=f"{style} end-anchor")
    return svg.text(2, baseline, label, class_=style)
