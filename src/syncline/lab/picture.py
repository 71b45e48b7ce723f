"""Pictures of runs: one lane per replica, epochs as bands, log end and high watermark as lines, deeds as marks.

Time runs from left to right in steps: each step is as wide as it needs to be read, and longer ones are wider, so that
neither a wait of a second nor a change within milliseconds hides the rest. The seconds at the bottom are real ones.
A band is the part of a log that one leader epoch wrote; it ends when the log is cut. The strip on top of a lane says
whether the replica leads, is in sync, or is out of the ISR. Meaning never hangs on colour alone: the log end is solid,
the high watermark dashed, a dead replica hatched, a paused one dotted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from syncline.lab.scenario import Scenario
from syncline.lab.stage import Mark, Replica, Told
from syncline.pipeline.report import svg

WIDTH: Final = 1280.0
_LEFT: Final = 128.0
_RIGHT: Final = WIDTH - 150.0
_LANE: Final = 96.0
_LANE_GAP: Final = 50.0
_STEP_MIN: Final = 96.0
_CHARACTER: Final = 6.4
_BAND_LABEL_MIN: Final = 54.0
_TEXT_LINE: Final = 18.0
_COLOURS: Final = 6
IN_SYNC: Final = "in sync"
OUT: Final = "out of the ISR"

_LIGHT: Final = (
    "--page:#fff;--ink:#1d2126;--muted:#5c6570;--grid:#e3e1da;--edge:#c9c5bb;--void:#f6f5f1;--end:#12344d;"
    "--mark:#b3261e;--good:#0b6b4f;--bad:#b3261e;--deed:#7d4c90;--dead:#8a8577;--lead:#0b4f8a;"
    "--sync:#9fc7e6;--out:#fdeee2;--out-line:#d4691e;"
    "--e0:#d3e4f1;--e1:#f6d9b0;--e2:#cfe8d8;--e3:#ecd3e6;--e4:#f3eaa9;--e5:#d6d6f2;"
)
_DARK: Final = (
    "--page:#1c2026;--ink:#e8e6e1;--muted:#a0a8b2;--grid:#2e343c;--edge:#454c56;--void:#22272e;--end:#d9ecfb;"
    "--mark:#ff8f86;--good:#5fd0a5;--bad:#ff8f86;--deed:#cfa3dd;--dead:#7a828c;--lead:#7cbcf0;"
    "--sync:#2f5878;--out:#3a2a1e;--out-line:#f0913d;"
    "--e0:#26405a;--e1:#5c4522;--e2:#244a3a;--e3:#4d3049;--e4:#4f4a1c;--e5:#35356a;"
)
_RULES: Final = (
    'text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif;'
    "fill:var(--ink)}"
    ".page{fill:var(--page)}.title{font-size:20px;font-weight:650}.heading{font-size:15px;font-weight:650}"
    ".muted{fill:var(--muted)}.tick{fill:var(--muted);font-size:11px}.strong{font-weight:650}.mid{text-anchor:middle}"
    ".end-anchor{text-anchor:end}.good{fill:var(--good);font-weight:650}.bad{fill:var(--bad);font-weight:650}"
    ".lane{fill:var(--void);stroke:var(--edge)}.grid{stroke:var(--grid)}.step{stroke:var(--edge);stroke-dasharray:2 4}"
    ".step-dot{fill:var(--ink)}.step-number{fill:var(--page);font-weight:700;font-size:11px}"
    ".log-end{stroke:var(--end);stroke-width:2.6;stroke-linejoin:round}"
    ".watermark{stroke:var(--mark);stroke-width:2.2;stroke-dasharray:6 4}"
    ".deed{stroke:var(--deed);stroke-width:1.6}.deed-label{fill:var(--deed);font-weight:650;font-size:11.5px}"
    ".deed-dot{fill:var(--deed)}.leads{fill:var(--lead)}.on-lead{fill:var(--page);font-size:10.5px;font-weight:650}"
    ".in-sync{fill:var(--sync)}.out{fill:url(#out);stroke:var(--out-line)}.out-ground{fill:var(--out)}"
    ".out-stripe{stroke:var(--out-line);stroke-width:2}.on-out{fill:var(--ink);font-size:10.5px;font-weight:650}"
    ".hatch-line{stroke:var(--dead);stroke-width:1.6}.dot-mark{fill:var(--dead)}"
    ".dead{fill:url(#dead)}.paused{fill:url(#paused)}"
    ".halo{paint-order:stroke;stroke:var(--page);stroke-width:4px;stroke-linejoin:round}"
    ".value{font:12px ui-monospace,Menlo,'DejaVu Sans Mono',monospace;fill:var(--ink)}"
    ".epoch-label{font-size:11px;fill:var(--ink)}" + "".join(f".epoch{n}{{fill:var(--e{n})}}" for n in range(_COLOURS))
)

Place = Callable[[float], float]
Height = Callable[[Replica], int]
Key = Callable[[Replica], object]

STYLE: Final = f":root{{{_LIGHT}}}{_RULES}@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"


def _patterns() -> str:
    stripe = svg.line(0, 0, 0, 8, class_="hatch-line")
    dots = svg.element("circle", cx=3, cy=3, r=1.1, class_="dot-mark")
    common = {"patternUnits": "userSpaceOnUse"}
    return svg.element(
        "defs",
        svg.element("pattern", stripe, id="dead", width=8, height=8, patternTransform="rotate(45)", **common),
        svg.element(
            "pattern",
            svg.rect(0, 0, 7, 7, class_="out-ground"),
            svg.line(0, 0, 0, 7, class_="out-stripe"),
            id="out",
            width=7,
            height=7,
            patternTransform="rotate(45)",
            **common,
        ),
        svg.element("pattern", dots, id="paused", width=7, height=7, **common),
    )


PATTERNS: Final = _patterns()


@dataclass(frozen=True)
class Span:
    """A replica that stayed as it was for some time."""

    start_s: float
    end_s: float
    replica: Replica


class Axis:
    """Places of moments: linear within each step, and each step wide enough."""

    def __init__(self, told: Told) -> None:
        first_s = told.steps[0].start_s if told.steps else 0.0
        self.edges = [first_s, *(step.end_s for step in told.steps)]
        lengths = [max(end - start, 0.001) for start, end in zip(self.edges, self.edges[1:], strict=False)] or [1.0]
        free = max(0.0, (_RIGHT - _LEFT) - _STEP_MIN * len(lengths))
        least = min(_STEP_MIN, (_RIGHT - _LEFT) / len(lengths))
        total = sum(length**0.5 for length in lengths)
        self.places = [_LEFT]
        for length in lengths:
            self.places.append(self.places[-1] + least + free * length**0.5 / total)

    def x(self, at_s: float) -> float:
        """Return the place of a moment."""
        for index in range(len(self.edges) - 1):
            start, end = self.edges[index], self.edges[index + 1]
            if at_s <= end:
                share = (max(at_s, start) - start) / max(end - start, 0.001)
                return self.places[index] + share * (self.places[index + 1] - self.places[index])
        return self.places[-1]


def draw(scenario: Scenario, runs: Sequence[Told]) -> str:
    """Return the picture of a scenario, with a panel for each mode."""
    parts = [
        svg.text(24, 38, scenario.title, class_="title"),
        svg.text(24, 60, f"syncline lab run {scenario.name}", class_="muted"),
        *_legend(24, 86),
    ]
    y = 140.0
    for told in runs:
        panel, y = _panel(scenario, told, y)
        parts += panel
    ground = svg.rect(0, 0, WIDTH, y, class_="page")
    style = svg.element("style", STYLE)
    label = f"{scenario.title}: logs and high watermarks of all replicas over time"
    return svg.drawing(WIDTH, y, label, style, PATTERNS, ground, *parts)


def _legend(x: float, y: float) -> list[str]:
    parts = [svg.rect(x, y - 11, 26, 14, class_="epoch0"), svg.rect(x + 26, y - 11, 26, 14, class_="epoch1")]
    parts += [svg.text(x + 60, y, "records, a colour per leader epoch")]
    x += 286
    parts += [svg.line(x, y - 4, x + 34, y - 4, class_="log-end"), svg.text(x + 42, y, "log end (LEO)")]
    x += 142
    parts += [svg.line(x, y - 4, x + 34, y - 4, class_="watermark"), svg.text(x + 42, y, "high watermark (HW)")]
    y, x = y + 24, 24
    parts += [svg.rect(x, y - 10, 34, 8, class_="leads"), svg.text(x + 42, y, "leads")]
    x += 88
    parts += [svg.rect(x, y - 10, 34, 8, class_="in-sync"), svg.text(x + 42, y, "in sync")]
    x += 98
    parts += [svg.rect(x, y - 10, 34, 8, class_="out"), svg.text(x + 42, y, "out of the ISR")]
    x += 138
    parts += [svg.rect(x, y - 12, 34, 16, class_="dead"), svg.text(x + 42, y, "no process")]
    x += 116
    parts += [svg.rect(x, y - 12, 34, 16, class_="paused"), svg.text(x + 42, y, "paused, or silent")]
    x += 160
    parts += [svg.line(x, y - 12, x, y + 4, class_="deed"), svg.text(x + 10, y, "what was done", class_="deed-label")]
    return parts


def _panel(scenario: Scenario, told: Told, top: float) -> tuple[list[str], float]:
    axis = Axis(told)
    parts = [svg.line(24, top, WIDTH - 24, top, class_="grid")]
    y = top + 26
    parts.append(svg.text(24, y, told.mode, class_="heading"))
    parts.append(svg.text(24 + 9.2 * len(told.mode) + 14, y, scenario.modes[told.mode], class_="muted"))
    y += 22
    mark = "✓ as expected" if told.outcome.is_expected else "✗ not as expected"
    parts.append(svg.text(24, y, mark, class_="good" if told.outcome.is_expected else "bad"))
    for line in _wrapped(told.outcome.text, 150):
        parts.append(svg.text(150, y, line, class_="strong"))
        y += _TEXT_LINE
    y += 18
    number_y = y
    y += 34
    highest = max([1, *(sample.replica.log_end for sample in told.samples)])
    first = y
    for broker_id in told.lanes:
        parts += _lane(axis, told, broker_id, y, highest)
        y += _LANE + _LANE_GAP
    bottom = y - _LANE_GAP + 8
    marks = [part for step in told.steps for part in _step_mark(axis, step.number, step.end_s, number_y, bottom)]
    # Under everything but the ground.
    parts = [parts[0], *marks, *parts[1:]]
    for index, edge in enumerate(axis.edges):
        parts.append(svg.text(axis.places[index], bottom + 34, f"{edge - axis.edges[0]:.2f} s", class_="tick mid"))
    for broker_id, lane_y in zip(told.lanes, (first + n * (_LANE + _LANE_GAP) for n in range(9)), strict=False):
        parts += _deeds(axis, [mark for mark in told.marks if mark.broker_id == broker_id], lane_y)
    parts += _deeds(axis, [mark for mark in told.marks if mark.broker_id is None], first - 22)
    y = bottom + 66
    for step in told.steps:
        parts.append(svg.element("circle", cx=34, cy=y - 4, r=8.5, class_="step-dot"))
        parts.append(svg.text(34, y, str(step.number), class_="step-number mid"))
        for line in _wrapped(step.text, 180):
            parts.append(svg.text(52, y, line))
            y += _TEXT_LINE
        for note in step.notes:
            parts.append(svg.text(52, y, note, class_="muted"))
            y += _TEXT_LINE
        y += 4
    return parts, y + 14


def _step_mark(axis: Axis, number: int, end_s: float, y: float, bottom: float) -> list[str]:
    x = axis.x(end_s)
    middle = (axis.places[number - 1] + axis.places[number]) / 2
    return [
        svg.line(x, y - 8, x, bottom, class_="step"),
        svg.element("circle", cx=middle, cy=y - 4, r=8.5, class_="step-dot"),
        svg.text(middle, y, str(number), class_="step-number mid"),
    ]


def _spans(told: Told, broker_id: int) -> list[Span]:
    """Return what a replica was, from when to when."""
    mine = [sample for sample in told.samples if sample.broker_id == broker_id]
    ends = [*(sample.at_s for sample in mine[1:]), told.lasted_s][: len(mine)]
    return [Span(sample.at_s, end, sample.replica) for sample, end in zip(mine, ends, strict=True)]


def _lane(axis: Axis, told: Told, broker_id: int, y: float, highest: int) -> list[str]:
    end_x = axis.places[-1]
    parts = [svg.rect(_LEFT, y, end_x - _LEFT, _LANE, class_="lane")]
    name = told.lanes[broker_id]
    parts.append(svg.text(24, y + 20, name or f"broker {broker_id}", class_="heading"))
    if name:
        parts.append(svg.text(24, y + 38, f"broker {broker_id}", class_="muted"))

    def place(offset: float) -> float:
        return y + _LANE - offset / highest * (_LANE - 10)

    for offset in _ticks(highest):
        parts.append(svg.text(_LEFT - 8, place(offset) + 4, str(offset), class_="tick end-anchor"))
        parts.append(svg.line(_LEFT, place(offset), end_x, place(offset), class_="grid"))
    spans = _spans(told, broker_id)
    colours = _colours(told)
    parts += _bands(axis, spans, place, colours)
    for span in _merged(spans, lambda replica: replica.state):
        if span.replica.state != "running":
            x = axis.x(span.start_s)
            pattern = "dead" if span.replica.state == "dead" else "paused"
            parts.append(svg.rect(x, y, axis.x(span.end_s) - x, _LANE, class_=pattern))
    for start_s, end_s, standing in _standings(told, broker_id, spans):
        parts += _strip(axis, start_s, end_s, standing, y)
    parts.append(svg.path(_outline(axis, spans, place, lambda replica: replica.log_end), class_="log-end"))
    parts.append(svg.path(_outline(axis, spans, place, lambda replica: replica.high_watermark), class_="watermark"))
    parts += _band_labels(axis, spans, place)
    return parts + _final(told, broker_id, spans, end_x, y)


def _colours(told: Told) -> dict[int, int]:
    """Return the number of the colour of each epoch that wrote something; neighbours in time differ."""
    epochs = sorted({epoch for sample in told.samples for epoch, _, _ in _parts_of(sample.replica)})
    return {epoch: number % _COLOURS for number, epoch in enumerate(epochs)}


def _standings(told: Told, broker_id: int, spans: Sequence[Span]) -> list[tuple[float, float, str]]:
    """Return (from, to, standing) of a replica: what it leads by its own belief, else what the newest ISR says."""
    changes: list[tuple[float, str]] = []
    own, newest = "", -1
    isr: tuple[int, ...] = ()
    begun = {broker_id: spans[0].start_s} if spans else {}
    for sample in told.samples:
        replica = sample.replica
        if replica.partition_epoch > newest:
            newest, isr = replica.partition_epoch, replica.isr
        if sample.broker_id == broker_id:
            leads = replica.role == "leader" and replica.state in {"running", "paused"}
            own = f"leader, epoch {replica.leader_epoch}" if leads else ""
        if broker_id not in begun or sample.at_s < begun[broker_id] or newest < 0:
            continue
        standing = own or (IN_SYNC if broker_id in isr else OUT)
        if not changes or changes[-1][1] != standing:
            changes.append((sample.at_s, standing))
    ends = [*(at_s for at_s, _ in changes[1:]), told.lasted_s][: len(changes)]
    return [(at_s, end_s, standing) for (at_s, standing), end_s in zip(changes, ends, strict=True)]


def _strip(axis: Axis, start_s: float, end_s: float, standing: str, y: float) -> list[str]:
    x, end = axis.x(start_s), axis.x(end_s)
    style = {IN_SYNC: "in-sync", OUT: "out"}.get(standing, "leads")
    height = 14.0 if style == "leads" else 7.0
    parts = [svg.rect(x, y - height, max(end - x, 2.0), height, svg.tip(standing), class_=style)]
    if style == "leads" and end - x > len(standing) * 6.2:
        parts.append(svg.text(x + 6, y - 3.5, standing, class_="on-lead"))
    return parts


def _bands(axis: Axis, spans: Sequence[Span], place: Place, colours: dict[int, int]) -> list[str]:
    parts = []
    for span in _merged(spans, lambda replica: (replica.epochs, replica.log_end)):
        x, end_x = axis.x(span.start_s), axis.x(span.end_s)
        for epoch, low, high in _parts_of(span.replica):
            tip = svg.tip(f"epoch {epoch}: offsets {low} to {high - 1}")
            top, height = place(high), place(low) - place(high)
            parts.append(svg.rect(x, top, end_x - x, height, tip, class_=f"epoch{colours[epoch]}"))
    return parts


def _band_labels(axis: Axis, spans: Sequence[Span], place: Place) -> list[str]:
    """Return one label for each stretch of one epoch at one place."""
    parts = []
    for epoch, low, high, start_s, end_s in _stretches(spans):
        x, end_x = axis.x(start_s), axis.x(end_s)
        if end_x - x >= _BAND_LABEL_MIN and place(low) - place(high) >= 13:
            parts.append(
                svg.text(x + 6, (place(low) + place(high)) / 2 + 4, f"epoch {epoch}", class_="epoch-label halo")
            )
    return parts


def _parts_of(replica: Replica) -> list[tuple[int, int, int]]:
    """Return (epoch, first offset, end) of what each epoch wrote, without epochs that wrote nothing."""
    ends = [*(start for _, start in replica.epochs[1:]), replica.log_end]
    rows = [(epoch, start, end) for (epoch, start), end in zip(replica.epochs, ends, strict=False)]
    return [row for row in rows if row[2] > row[1]]


def _stretches(spans: Sequence[Span]) -> list[tuple[int, int, int, float, float]]:
    """Return (epoch, first offset, end, from, to) of each part of a log, for as long as it stayed the same."""
    found: list[tuple[int, int, int, float, float]] = []
    open_since: dict[tuple[int, int, int], float] = {}
    last_s = 0.0
    for span in spans:
        present = _parts_of(span.replica)
        ended = [part for part in open_since if part not in present]
        found += [(*part, open_since.pop(part), span.start_s) for part in ended]
        for part in present:
            open_since.setdefault(part, span.start_s)
        last_s = span.end_s
    return [*found, *((*part, start_s, last_s) for part, start_s in open_since.items())]


def _outline(axis: Axis, spans: Sequence[Span], place: Place, height: Height) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for span in spans:
        y = place(height(span.replica))
        points += [(axis.x(span.start_s), y), (axis.x(span.end_s), y)]
    return points or [(_LEFT, place(0))]


def _final(told: Told, broker_id: int, spans: Sequence[Span], x: float, y: float) -> list[str]:
    """Return, at the right of a lane, how it ended."""
    if not spans:
        return []
    last = spans[-1].replica
    parts = [
        svg.text(x + 12, y + 12, f"LEO {last.log_end:,}", class_="strong"),
        svg.text(x + 12, y + 28, f"HW {last.high_watermark:,}", class_="strong"),
    ]
    y += 44
    for line in _wrapped(f"epochs {last.history}", 17)[:2]:
        parts.append(svg.text(x + 12, y, line, class_="muted"))
        y += 16
    values = told.contents.get(broker_id)
    if values is not None and len(values) <= 8:
        words = " ".join(values) or "(no records)"
        for number, line in enumerate(_wrapped(words, 16)[:2]):
            parts.append(svg.text(x + 12, y + 4 + 16 * number, line, class_="value"))
    return parts


def _deeds(axis: Axis, marks: Sequence[Mark], y: float) -> list[str]:
    """Return what was done to one broker, with the words below its lane, in two rows where they would touch."""
    parts: list[str] = []
    taken = [float("-inf"), float("-inf")]
    for mark in marks:
        x = axis.x(mark.at_s)
        row = 0 if x > taken[0] else 1
        taken[row] = x + len(mark.label) * _CHARACTER + 14
        at = y + _LANE + 13 + 13 * row
        parts.append(svg.line(x, y, x, at - 2, class_="deed"))
        parts.append(svg.element("circle", cx=x, cy=y, r=3.2, class_="deed-dot"))
        parts.append(svg.text(x + 5, at, mark.label, class_="deed-label halo"))
    return parts


def _merged(spans: Sequence[Span], key: Key) -> list[Span]:
    """Return spans in which `key` stays the same as one."""
    merged: list[Span] = []
    for span in spans:
        if merged and key(merged[-1].replica) == key(span.replica):
            merged[-1] = replace(merged[-1], end_s=span.end_s)
        else:
            merged.append(span)
    return merged


def _ticks(highest: int) -> list[int]:
    if highest <= 8:
        return list(range(highest + 1))
    return sorted({0, highest // 2, highest})


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of at most so many characters."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
