"""The picture of sustained produce: megabytes per second over time, and below it what a gigabyte costs the brokers.

Both panels have the same time axis, so a side that is done ends where it is done. A point is the mean of some seconds
around it, as single ones jump. The drawing brings its style sheet, for light and dark grounds: it is a file of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from benchmarks.sustained_outcome import BARE, KEPT, OURS, THEIRS, Outcome, Sample
from syncline.pictures import legend, svg
from syncline.pictures.axis import TimeAxis
from syncline.pictures.palette import sheet
from syncline.pictures.scales import Linear, nice_ticks

_WIDTH: Final = 1180.0
_LEFT: Final = 58.0
_RIGHT: Final = 20.0
_TOP: Final = 64.0
_PANEL: Final = 210.0
_GAP: Final = 46.0
# Samples that a point is the mean of.
_SMOOTHED: Final = 3
_STYLES: Final = {OURS: "ours", KEPT: "kept", BARE: "bare", THEIRS: "theirs"}
_RULES: Final = """
svg .ground{fill:var(--card)}
svg .ours{stroke:var(--lead);stroke-width:2.4} svg .kept{stroke:var(--lead);stroke-width:1.8;stroke-dasharray:6 4}
svg .theirs{stroke:var(--out-line);stroke-width:2.4}
svg .bare{stroke:var(--muted);stroke-width:1.8;stroke-dasharray:2 4}
"""


class _Panel(NamedTuple):
    title: str
    top: float
    value: Callable[[Sample, Sample], float]


def draw(outcomes: Mapping[str, Outcome]) -> str:
    """Return the drawing."""
    end_s = max(outcome.samples[-1].at_s for outcome in outcomes.values())
    axis = TimeAxis(0, round(end_s * 1000), _LEFT, _WIDTH - _RIGHT)
    panels = [
        _Panel("MB/s acknowledged", _TOP, _mb_s),
        _Panel("broker CPU, seconds per GB", _TOP + _PANEL + _GAP, _cpu_s_gb),
    ]
    bottom = panels[-1].top + _PANEL
    entries = [legend.stroke(side, _STYLES[side], width=30) for side in outcomes]
    drawn = [
        svg.rect(0, 0, _WIDTH, bottom + 46, class_="ground"),
        *legend.row(entries, _LEFT, 20, right=_WIDTH),
        *axis.grid(_TOP, bottom, "minutes:seconds since the first record"),
    ]
    for panel in panels:
        drawn += _panel(panel, axis, outcomes)
    label = "Produce without a pause: megabytes per second and broker CPU per gigabyte, of each side over time"
    style = svg.element("style", sheet({}, _RULES))
    return svg.drawing(_WIDTH, bottom + 46, label, style, *drawn) + "\n"


def _panel(panel: _Panel, axis: TimeAxis, outcomes: Mapping[str, Outcome]) -> list[str]:
    curves = {side: _points(outcome.samples, panel.value) for side, outcome in outcomes.items()}
    ticks = nice_ticks(max(value for points in curves.values() for _, value in points), 5)
    up = Linear(0, ticks[-1], panel.top + _PANEL, panel.top)
    drawn = [svg.text(_LEFT, panel.top - 10, panel.title, class_="strong")]
    for tick in ticks:
        drawn.append(svg.line(_LEFT, up(tick), _WIDTH - _RIGHT, up(tick), class_="grid"))
        drawn.append(svg.text(_LEFT - 8, up(tick) + 4, f"{tick:g}", class_="tick end-anchor"))
    for side, points in curves.items():
        line = [(axis.x(round(at_s * 1000)), up(value)) for at_s, value in points]
        drawn.append(svg.path(line, class_=_STYLES[side]))
    return drawn


def _points(samples: Sequence[Sample], value: Callable[[Sample, Sample], float]) -> list[tuple[float, float]]:
    """Return (seconds, mean of the samples around)."""
    found = []
    for index in range(len(samples) - 1):
        before = samples[max(0, index - _SMOOTHED // 2)]
        after = samples[min(len(samples) - 1, index + 1 + _SMOOTHED // 2)]
        if after.acknowledged_bytes > before.acknowledged_bytes:
            found.append(((samples[index].at_s + samples[index + 1].at_s) / 2, value(before, after)))
    return found


def _mb_s(before: Sample, after: Sample) -> float:
    return (after.acknowledged_bytes - before.acknowledged_bytes) / 1e6 / (after.at_s - before.at_s)


def _cpu_s_gb(before: Sample, after: Sample) -> float:
    return (after.cpu_s - before.cpu_s) / ((after.acknowledged_bytes - before.acknowledged_bytes) / 1e9)
