"""Picture 3: how far the followers were behind, in time and in records, with the faults that caused it.

Each follower broker has a colour, a dash and a name at its line. The strong line is the worst of its partitions at
each moment, the faint ones are the single partitions. Time is linear; records are logarithmic, because a
healthy follower is a handful behind and a dead one tens of thousands. A line ends where no leader took samples.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from syncline.pictures import legend, svg
from syncline.pictures.axis import TimeAxis
from syncline.pictures.labels import seconds, short
from syncline.pictures.scales import Linear, Logarithmic, nice_ticks
from syncline.pipeline.report import fault_marks
from syncline.pipeline.report.facts import Facts, LagSample

WIDTH: Final = 1280.0
_LEFT: Final = 76.0
_RIGHT: Final = 92.0
_TOP: Final = 112.0
_PANEL: Final = 190.0
_BETWEEN: Final = 54.0
_STYLES: Final = 6
# A peak below this share of the highest one is noise at the bottom of the panel; a number there only hides lines.
_PEAK_SHARE_MIN: Final = 0.1
# A line is broken where samples are missing for this many usual distances.
_GAP_INTERVALS: Final = 3.5

Series = list[tuple[int, int]]


def draw(facts: Facts) -> str:
    """Return the picture."""
    axis = TimeAxis(facts.journal_start_ms, facts.journal_end_ms, _LEFT, WIDTH - _RIGHT)
    second = _TOP + _PANEL + _BETWEEN
    bottom = second + _PANEL
    followers = sorted({sample.follower for sample in facts.lag})
    parts = [
        *_legend(followers),
        *fault_marks.bands(axis, facts.faults, _TOP - 36, bottom),
        *axis.grid(_TOP, bottom, fault_marks.AXIS_TITLE),
        *fault_marks.marks(axis, facts.faults, _TOP - 44),
        *_panel(facts, axis, followers, _TOP, in_time=True),
        *_panel(facts, axis, followers, second, in_time=False),
    ]
    return svg.drawing(WIDTH, bottom + 46, "Lag of each follower over time, in seconds and in records", *parts)


def _legend(followers: Sequence[int]) -> list[str]:
    entries = [
        legend.stroke(f"broker {follower} as follower, worst partition", f"series series{order % _STYLES}")
        for order, follower in enumerate(followers)
    ]
    return legend.row([*entries, legend.stroke("single partitions", "faint series0")], _LEFT, 21, right=WIDTH)


def _panel(facts: Facts, axis: TimeAxis, followers: Sequence[int], top: float, *, in_time: bool) -> list[str]:
    value: Callable[[LagSample], int | None] = (lambda s: s.lag_ms) if in_time else (lambda s: s.lag_records)
    high = max((value(sample) or 0 for sample in facts.lag), default=0)
    limit = facts.replica_lag_time_max_ms if in_time else None
    bottom = top + _PANEL
    scale: Callable[[float], float]
    if in_time:
        ticks_s = nice_ticks(max(high, limit or 0, 1000) / 1000, 5)
        scale = Linear(0, ticks_s[-1] * 1000, bottom, top)
        ticks = [(tick * 1000, f"{tick:g} s") for tick in ticks_s]
    else:
        logarithmic = Logarithmic(max(high, 10) * 1.15, bottom, top)
        scale = logarithmic
        ticks = [(float(tick), short(tick)) for tick in logarithmic.ticks()]
    title = "Behind in time" if in_time else "Behind in records (logarithmic)"
    parts = [svg.text(_LEFT, top - 12, title, class_="heading halo")]
    for number, name in ticks:
        y = scale(number)
        parts.append(svg.line(_LEFT, y, WIDTH - _RIGHT, y, class_="grid"))
        parts.append(svg.text(_LEFT - 8, y + 4, name, class_="tick end-anchor"))
    if limit is not None:
        y = scale(limit)
        parts.append(svg.line(_LEFT, y, WIDTH - _RIGHT, y, class_="limit"))
        parts.append(svg.text(WIDTH - _RIGHT + 6, y + 4, f"max {seconds(limit)}", class_="limit-label"))
    for order, follower in enumerate(followers):
        style = f"series{order % _STYLES}"
        mine = [sample for sample in facts.lag if sample.follower == follower]
        for series in _by_partition(mine, value):
            parts += _lines(axis, scale, series, f"faint {style}")
        worst = _worst(mine, value)
        parts += _lines(axis, scale, worst, f"series {style}")
        if high and max((lag for _, lag in worst), default=0) >= _PEAK_SHARE_MIN * high:
            parts += _peak(axis, scale, worst, style, in_time=in_time)
    return parts


def _by_partition(samples: Sequence[LagSample], value: Callable[[LagSample], int | None]) -> Iterator[Series]:
    by_partition: defaultdict[int, Series] = defaultdict(list)
    for sample in sorted(samples, key=lambda item: item.at_ms):
        lag = value(sample)
        if lag is not None:
            by_partition[sample.partition].append((sample.at_ms, lag))
    yield from (by_partition[partition] for partition in sorted(by_partition))


def _worst(samples: Sequence[LagSample], value: Callable[[LagSample], int | None]) -> Series:
    """Return the largest lag over all partitions, one point for each usual distance between samples."""
    step = _usual_distance_ms(list(_by_partition(samples, value)))
    buckets: dict[int, tuple[int, int]] = {}
    for sample in samples:
        lag = value(sample)
        if lag is not None:
            bucket = sample.at_ms // step
            buckets[bucket] = max(buckets.get(bucket, (-1, 0)), (lag, sample.at_ms))
    return [(at, lag) for _, (lag, at) in sorted(buckets.items())]


def _usual_distance_ms(all_series: Sequence[Series]) -> int:
    """Return the median distance between neighbouring samples of one partition."""
    distances = sorted(after[0] - before[0] for series in all_series for before, after in itertools.pairwise(series))
    return max(distances[len(distances) // 2], 1) if distances else 1000


def _lines(axis: TimeAxis, scale: Callable[[float], float], series: Series, style: str) -> list[str]:
    """Return the series as lines, broken where samples are missing."""
    gap_ms = _GAP_INTERVALS * _usual_distance_ms([series])
    runs: list[Series] = []
    for at, lag in series:
        if not runs or at - runs[-1][-1][0] > gap_ms:
            runs.append([])
        runs[-1].append((at, lag))
    return [svg.path(((axis.x(at), scale(lag)) for at, lag in run), class_=style) for run in runs if len(run) > 1]


def _peak(axis: TimeAxis, scale: Callable[[float], float], series: Series, style: str, *, in_time: bool) -> list[str]:
    """Return a dot and a number at the series' highest point."""
    if not series:
        return []
    at, lag = max(series, key=lambda point: point[1])
    x, y = axis.x(at), scale(lag)
    label = seconds(lag) if in_time else f"{lag:,}"
    return [
        svg.element("circle", svg.tip(label), cx=x, cy=y, r=3.6, class_=f"dot {style}"),
        svg.text(x + 8, y + 4, label, class_=f"peak halo text-{style}"),
    ]
