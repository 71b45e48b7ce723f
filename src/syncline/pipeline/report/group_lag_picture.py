"""Picture 4: how far the group of consumers was behind, in records, in bytes and in time, with the injected faults.

Three panels over one time axis, each with its own linear scale from 0: the same moments look different in each, because
a record of a slow partition waits longer than one of a busy one. The strong line is the whole group (sums of records
and bytes, and the longest waiting time); the faint ones are its partitions. A line ends where complete samples are
missing: the group's coordinator, or the leader of a partition, was gone.

Drawn twice, for wide and for narrow screens. Units: offsets, bytes, ms.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from syncline.pictures import legend, svg
from syncline.pictures.axis import TimeAxis
from syncline.pictures.labels import CHARACTER_PX, seconds, short, size
from syncline.pictures.scales import Linear, nice_ticks
from syncline.pipeline.report import fault_marks
from syncline.pipeline.report.facts import Facts, GroupLagSample

WIDE: Final = 1280.0
NARROW: Final = 346.0
_LEFT: Final = 76.0
_LEFT_NARROW: Final = 62.0
_RIGHT: Final = 18.0
_PANEL: Final = 150.0
_BETWEEN: Final = 46.0
_STYLES: Final = 6
_TICK_PX: Final = 60.0
_TICKS_MAX: Final = 12
# The place of faults' names above the panels.
_FAULTS: Final = 62.0
_LEGEND_ROW: Final = 24.0
# A line is broken where samples are missing for this many usual distances.
_GAP_INTERVALS: Final = 3.5

Series = list[tuple[int, int]]


class Moment(NamedTuple):
    """A whole group at one moment."""

    at_ms: int
    lag_records: int
    lag_bytes: int
    staleness_ms: int


class _Panel(NamedTuple):
    title: str
    of_group: Callable[[Moment], int]
    of_partition: Callable[[GroupLagSample], int | None]
    unit: float
    """What one step of the axis' round numbers is made of."""
    label: Callable[[float], str]


_PANELS: Final = (
    _Panel("Unread records", lambda m: m.lag_records, lambda s: s.lag_records, 1, lambda n: short(n) if n else "0"),
    _Panel("Unread bytes", lambda m: m.lag_bytes, lambda s: s.lag_bytes, 1e6, lambda n: size(n) if n else "0"),
    _Panel(
        "How long the next record has waited",
        lambda m: m.staleness_ms,
        lambda s: s.staleness_ms,
        1_000,
        lambda n: f"{n / 1_000:g} s" if n else "0",
    ),
)


def groups(facts: Facts) -> list[str]:
    """Return the groups that were sampled."""
    return sorted({sample.group for sample in facts.group_lag})


def moments(facts: Facts, group: str) -> list[Moment]:
    """Return a group over time: sums over its partitions, and the longest waiting time."""
    together: defaultdict[int, list[GroupLagSample]] = defaultdict(list)
    for sample in facts.group_lag:
        if sample.group == group:
            together[sample.at_ms].append(sample)
    return [
        Moment(
            at_ms,
            sum(each.lag_records for each in samples),
            sum(each.lag_bytes or 0 for each in samples),
            max(each.staleness_ms or 0 for each in samples),
        )
        for at_ms, samples in sorted(together.items())
    ]


def draw(facts: Facts, width: float) -> str:
    """Return the picture."""
    is_wide = width > WIDE / 2
    axis = TimeAxis(facts.journal_start_ms, facts.journal_end_ms, _LEFT if is_wide else _LEFT_NARROW, width - _RIGHT)
    rows, entries = _legend(groups(facts), axis, is_wide=is_wide)
    top = 10 + _LEGEND_ROW * rows + _FAULTS
    bottom = top + len(_PANELS) * _PANEL + (len(_PANELS) - 1) * _BETWEEN
    parts = [
        *entries,
        *fault_marks.bands(axis, facts.faults, top - 26, bottom),
        *axis.grid(
            top, bottom, fault_marks.AXIS_TITLE, ticks=min(_TICKS_MAX, int((axis.right - axis.left) / _TICK_PX))
        ),
        *fault_marks.marks(axis, facts.faults, top - 32),
    ]
    for number, panel in enumerate(_PANELS):
        parts += _panel(facts, axis, panel, top + number * (_PANEL + _BETWEEN))
    return svg.drawing(width, bottom + 46, "How far consumers were behind over time", *parts)


def _legend(names: Sequence[str], axis: TimeAxis, *, is_wide: bool) -> tuple[int, list[str]]:
    """Return how many rows the legend has, and its shapes."""
    entries = [legend.stroke(f"group {name}", f"series {_style(order)}") for order, name in enumerate(names)]
    entries.append(legend.stroke("single partitions", "faint series0"))
    drawn = legend.row(entries, axis.left if is_wide else 4, 14, right=axis.right)
    rows = len({line.partition(' y="')[2].partition('"')[0] for line in drawn if line.startswith("<text")})
    return rows, drawn


def _style(order: int) -> str:
    return f"series{order % _STYLES}"


def _panel(facts: Facts, axis: TimeAxis, panel: _Panel, top: float) -> list[str]:
    whole = {group: [(each.at_ms, panel.of_group(each)) for each in moments(facts, group)] for group in groups(facts)}
    high = max((value for series in whole.values() for _, value in series), default=0)
    ticks = [tick * panel.unit for tick in nice_ticks(max(high, 1) / panel.unit, 4)]
    scale = Linear(0, ticks[-1], top + _PANEL, top)
    # On a small screen a title needs the whole width.
    left = axis.left if axis.left == _LEFT else 4
    parts = [svg.text(left, top - 10, panel.title, class_="heading halo")]
    for tick in ticks:
        parts.append(svg.line(axis.left, scale(tick), axis.right, scale(tick), class_="grid"))
        parts.append(svg.text(axis.left - 8, scale(tick) + 4, panel.label(tick), class_="tick end-anchor"))
    for order, group in enumerate(whole):
        for series in _by_partition(facts, group, panel):
            parts += _lines(axis, scale, series, f"faint {_style(order)}")
        parts += _lines(axis, scale, whole[group], f"series {_style(order)}")
        parts += _peak(axis, scale, whole[group], _style(order), panel)
    return parts


def _by_partition(facts: Facts, group: str, panel: _Panel) -> Iterator[Series]:
    by_partition: defaultdict[int, Series] = defaultdict(list)
    for sample in sorted(facts.group_lag, key=lambda each: each.at_ms):
        value = panel.of_partition(sample)
        if sample.group == group and value is not None:
            by_partition[sample.partition].append((sample.at_ms, value))
    yield from (by_partition[partition] for partition in sorted(by_partition))


def _lines(axis: TimeAxis, scale: Linear, series: Series, style: str) -> list[str]:
    """Return the series as lines, broken where samples are missing."""
    distances_ms = sorted(after[0] - before[0] for before, after in itertools.pairwise(series))
    runs: list[Series] = [series[:1]]
    for before, after in itertools.pairwise(series):
        # A group at rest is not sampled: what was 0 has stayed 0.
        if before[1] and after[0] - before[0] > _GAP_INTERVALS * distances_ms[len(distances_ms) // 2]:
            runs.append([])
        runs[-1].append(after)
    return [svg.path(((axis.x(at), scale(lag)) for at, lag in run), class_=style) for run in runs if len(run) > 1]


def _peak(axis: TimeAxis, scale: Linear, series: Series, style: str, panel: _Panel) -> list[str]:
    """Return a dot and a number at the series' highest point."""
    if not series:
        return []
    at, lag = max(series, key=lambda point: point[1])
    x, y = axis.x(at), scale(lag)
    label = seconds(lag) if panel.unit == _PANELS[-1].unit else panel.label(lag)
    is_at_end = x + 8 + len(label) * CHARACTER_PX > axis.right
    return [
        svg.element("circle", svg.tip(label), cx=x, cy=y, r=3.6, class_=f"dot {style}"),
        svg.text(
            x - 8 if is_at_end else x + 8,
            y + 4,
            label,
            class_=f"peak halo text-{style}{' end-anchor' if is_at_end else ''}",
        ),
    ]
