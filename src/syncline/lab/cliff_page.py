"""The page of `cache-cliff`: the recorded curve with the cliff itself, and the waits of three readers."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Final, NamedTuple

from syncline.lab.cliff_facts import CliffFacts, Round, hit_ratio, waits
from syncline.lag_report.words import percent
from syncline.pictures import legend, svg
from syncline.pictures.labels import seconds, size
from syncline.pictures.page import PAGE_ROLES, PAGE_RULES, cards, document, figure
from syncline.pictures.palette import sheet
from syncline.pictures.scales import Linear, Logarithmic, nice_ticks

WIDE: Final = 1180.0
NARROW: Final = 346.0
_LEFT: Final = 54.0
_RIGHT: Final = 16.0
_PANEL: Final = 260.0
_ROW: Final = 18.0
# Room for dots at the upper edge of a panel.
_TO_LABELS: Final = 12.0
_STEPS: Final = 160
_DOT: Final = 4.5
_TICK_PX: Final = 84.0
# The average width of a bold character at 12 px.
_BOLD_PX: Final = 7.1
_HALF_TICK_PX: Final = 3.6
_MB: Final = 1e6

# Each colour has one meaning on the page: blue is the curve and what it says, red the late reader, orange and green
# are the others. Lines differ in their dashes, too.
_OWN: Final = {
    **PAGE_ROLES,
    "curve": ("#0b4f8a", "#7cbcf0"),
    "curve-soft": ("#c3dcef", "#23486a"),
    "late": ("#b3261e", "#ff8f86"),
    "large": ("#b4510a", "#f0a35a"),
    "small": ("#00755a", "#3fcf9f"),
}
_RULES: Final = """
.picture.both .narrow svg{max-width:520px}
svg .panel{fill:none;stroke:var(--edge);stroke-width:1}
svg .curve-area{fill:var(--curve-soft);stroke:none} svg .curve-line{stroke:var(--curve);stroke-width:2}
svg .memory-line{stroke:var(--ink);stroke-width:2} svg .memory-label{fill:var(--ink);font-weight:650}
svg .said-line{stroke:var(--curve);stroke-width:2;stroke-dasharray:7 4}
svg .said-label{fill:var(--curve);font-weight:650}
svg .fell-line{stroke:var(--late);stroke-width:2} svg .fell-label{fill:var(--late);font-weight:650}
svg .late-dot{fill:var(--late);stroke:var(--card);stroke-width:1.5}
svg .late-line{stroke:var(--late);stroke-width:2.2;fill:none}
svg .large-line{stroke:var(--large);stroke-width:2.2;stroke-dasharray:8 4;fill:none}
svg .small-line{stroke:var(--small);stroke-width:2.2;stroke-dasharray:2 3;stroke-linecap:round;fill:none}
"""
STYLE: Final = sheet(_OWN, PAGE_RULES + _RULES)


class _Mark(NamedTuple):
    """A line across a panel, with its label in a row of its own above it."""

    at: float
    label: str
    style: str


class _Frame(NamedTuple):
    """A panel and its scales."""

    across: Linear
    up: Linear | Logarithmic
    top: float
    bottom: float
    width: float


class _Series(NamedTuple):
    """The waits of one reader."""

    name: str
    style: str
    wait_ms: Callable[[Round], float]


_SERIES: Final = (
    _Series("the late reader", "late-line", lambda each: each.late_ms),
    _Series("at the tail, 4 MB at once", "large-line", lambda each: each.large_ms),
    _Series("at the tail, 1 MB at once", "small-line", lambda each: each.small_ms),
)


def page(title: str, about: str, facts: CliffFacts) -> str:
    """Return the page."""
    before, after = waits(facts.before), waits(facts.after)
    said, fell = size(facts.predicted_written_bytes), size(facts.measured_written_bytes)
    return document(
        title,
        STYLE,
        "<header>",
        '<p class="eyebrow">syncline lab run cache-cliff</p>',
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(about)}</p>',
        "</header>",
        cards(
            [
                (said, "written when the reader falls off, by the curve"),
                (fell, "written when it fell off"),
                (
                    f"{percent(hit_ratio(facts.before))} → {percent(hit_ratio(facts.after))}",
                    "of its reads come from memory, before and after",
                ),
                (_change(before.large_ms, after.large_ms), "for 4 MB at the tail, before and after"),
                (_change(before.small_ms, after.small_ms), "for 1 MB at the tail, before and after"),
            ]
        ),
        figure(
            "1",
            "The curve, and the cliff",
            f"When {size(facts.kept_round.written_bytes)} were written, the late reader had read everything "
            "from memory. Its curve said that this would not last: half of the memory would have served "
            f"{percent(_within_half(facts))} of its reads.",
            draw_curve(facts, WIDE),
            "The area is the curve recorded then: the share of all its reads that would have come from "
            "disk if this much of each log stayed in memory. Each dot is a round: how far the reader was "
            "behind, and the share of that round that came from disk, as the broker measured it. Pages leave "
            "memory in steps of 8.4 MB of a log, so the reader got a little further than its share.",
            narrow=draw_curve(facts, NARROW),
        ),
        figure(
            "2",
            "What the other readers feel",
            f"Since then, a fetch of the late reader takes {seconds(after.late_ms)}. A fetch of 4 MB at the "
            "tail takes as long, because it waits for the same threads. A fetch of 1 MB needs none of them.",
            draw_waits(facts, WIDE),
            f"The slowest fetch of each round. The disk takes {facts.delay_ms} ms longer for what is not in "
            "memory. Both readers at the tail find everything in memory. Of each fetch, the broker's event "
            "loop reads 4 MB, and its four threads read the rest, unless all of them are waiting for the "
            "late reader's four logs. Before, the loop answered both readers at the tail in one go, so the "
            "small fetches took longer than they do now.",
            narrow=draw_waits(facts, NARROW),
        ),
    )


def _change(before_ms: float, after_ms: float) -> str:
    return f"{before_ms:.0f} → {after_ms:.0f} ms"


def _within_half(facts: CliffFacts) -> float:
    return facts.kept.distances.share_within(facts.memory_bytes / 2, by_bytes=True)


def draw_curve(facts: CliffFacts, width: float) -> str:
    """Return the curve with the late reader's rounds."""
    dots = [
        legend.stroke("from disk, by the recorded curve", "curve-line", width=26),
        legend.Entry("as measured, by round", 2 * _DOT, lambda x, y: _dot(x + _DOT, y - 4)),
    ]
    marks = [
        _Mark(facts.kept_round.distance_bytes, f"recorded at {size(facts.kept_round.distance_bytes)} behind", "said"),
        _Mark(facts.memory_bytes, f"in memory {size(facts.memory_bytes)}", "memory"),
        _Mark(facts.after[0].distance_bytes, f"fell off at {size(facts.after[0].distance_bytes)}", "fell"),
    ]
    furthest = max(each.distance_bytes for each in facts.rounds)
    ticks = nice_ticks(furthest / _MB, _tick_count(width))
    top, drawn = _legend(dots, width, len(marks))
    bottom = top + _PANEL
    frame = _Frame(Linear(0, _MB * ticks[-1], _LEFT, width - _RIGHT), Linear(0, 100, bottom, top), top, bottom, width)
    drawn += _grid(frame, ticks, [(each, f"{each} %") for each in range(0, 101, 25)], "distance to the end of each log")
    line = [_curve_point(facts, frame, ticks[-1] * _MB * step / _STEPS) for step in range(_STEPS + 1)]
    outline = [(line[0][0], bottom), *line, (line[-1][0], bottom)]
    area = "M" + "L".join(f"{x:.2f},{y:.2f}" for x, y in outline) + "Z"
    drawn += [svg.element("path", d=area, class_="curve-area"), svg.path(line, class_="curve-line")]
    drawn += _marks(frame, marks)
    drawn += [
        _dot(
            frame.across(each.distance_bytes),
            frame.up(100 * each.missed_share),
            svg.tip(f"{size(each.distance_bytes)} behind: {percent(each.missed_share)} from disk"),
        )
        for each in facts.rounds
    ]
    return svg.drawing(width, bottom + 46, "Share read from disk, over memory and distance", *drawn)


def _curve_point(facts: CliffFacts, frame: _Frame, memory_bytes: float) -> tuple[float, float]:
    missed = 1 - facts.kept.distances.share_within(memory_bytes, by_bytes=True)
    return frame.across(memory_bytes), frame.up(100 * missed)


def draw_waits(facts: CliffFacts, width: float) -> str:
    """Return how long fetches took while the log grew."""
    entries = [legend.stroke(each.name, each.style, width=26) for each in _SERIES]
    marks = [
        _Mark(facts.predicted_written_bytes, f"predicted: {size(facts.predicted_written_bytes)}", "said"),
        _Mark(facts.measured_written_bytes, f"fell off: {size(facts.measured_written_bytes)}", "fell"),
    ]
    ticks = nice_ticks(facts.rounds[-1].written_bytes / _MB, _tick_count(width))
    top, drawn = _legend(entries, width, len(marks))
    bottom = top + _PANEL
    slowest_ms = max(each.wait_ms(one) for each in _SERIES for one in facts.rounds)
    up = Logarithmic(max(100.0, slowest_ms), bottom, top)
    frame = _Frame(Linear(0, _MB * ticks[-1], _LEFT, width - _RIGHT), up, top, bottom, width)
    rows = [(each, seconds(each) if each else "0") for each in (0, 1, 3, 10, 30, 100, 300, 1_000) if each <= up.high]
    drawn += _grid(frame, ticks, rows, "written to all logs together")
    drawn += _marks(frame, marks)
    for each in _SERIES:
        places = [(frame.across(one.written_bytes), up(each.wait_ms(one))) for one in facts.rounds]
        drawn.append(svg.path(places, class_=each.style))
    return svg.drawing(width, bottom + 46, "How long fetches took while the log grew", *drawn)


def _tick_count(width: float) -> int:
    return int((width - _LEFT - _RIGHT) / _TICK_PX) + 1


def _legend(entries: Sequence[legend.Entry], width: float, mark_rows: int) -> tuple[float, list[str]]:
    """Return where the panel begins below the legend and the rows of marks, and the legend."""
    is_narrow = width < WIDE / 2
    legend_rows = len(entries) if is_narrow else 1
    # On a narrow picture, each entry has a row of its own.
    drawn = [
        shape
        for row in range(legend_rows)
        for shape in legend.row(
            entries[row : row + 1] if is_narrow else entries, 4 if is_narrow else _LEFT, 14 + 24 * row, right=width
        )
    ]
    return 10 + _TO_LABELS + 24 * legend_rows + _ROW * mark_rows, drawn


def _grid(frame: _Frame, columns: Sequence[float], rows: Sequence[tuple[float, str]], title: str) -> list[str]:
    """Return lines at round numbers with their labels; columns are in MB."""
    drawn = []
    for value, label in rows:
        y = frame.up(value)
        drawn.append(svg.line(_LEFT, y, frame.across.end, y, class_="grid"))
        drawn.append(svg.text(_LEFT - 8, y + 4, label, class_="tick end-anchor"))
    for value in columns:
        x = frame.across(value * _MB)
        drawn.append(svg.line(x, frame.top, x, frame.bottom, class_="grid"))
        label = f"{value:g} MB" if value else "0"
        is_inside = x + len(label) * _HALF_TICK_PX <= frame.width
        drawn.append(
            svg.text(
                x if is_inside else frame.width, frame.bottom + 16, label, class_="tick " + _anchor(is_inside=is_inside)
            )
        )
    drawn.append(svg.text((_LEFT + frame.across.end) / 2, frame.bottom + 36, title, class_="muted mid"))
    return drawn


def _anchor(*, is_inside: bool) -> str:
    return "mid" if is_inside else "end-anchor"


def _marks(frame: _Frame, marks: Sequence[_Mark]) -> list[str]:
    lines, labels = [], []
    for row, mark in enumerate(marks):
        x, baseline = frame.across(mark.at), frame.top - _TO_LABELS - _ROW * (len(marks) - 1 - row)
        lines.append(svg.line(x, baseline - 10, x, frame.bottom, class_=f"{mark.style}-line"))
        has_room = x + 6 + len(mark.label) * _BOLD_PX <= frame.across.end
        style = f"{mark.style}-label halo" if has_room else f"{mark.style}-label halo end-anchor"
        labels.append(svg.text(x + 6 if has_room else x - 6, baseline, mark.label, class_=style))
    # A label may lie across another one's line.
    return lines + labels


def _dot(x: float, y: float, *children: str) -> str:
    return svg.element("circle", *children, cx=x, cy=y, r=_DOT, class_="late-dot")
