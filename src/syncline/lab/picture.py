"""Pictures of runs: one lane per replica, epochs as bands, log end and high watermark as lines, faults as marks.

Time runs from left to right in the run's steps, each wide enough to read; the seconds at the bottom are real. A band
is the part of a log that one leader epoch wrote; it ends when the log is cut. The strip at the top of a lane shows
whether the replica leads, is in sync, or is out of the ISR. No meaning depends on colour alone: the log end is solid,
the high watermark dashed, a dead replica hatched, a paused one dotted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from syncline.lab.scenario import Scenario, command_line
from syncline.lab.stage import Mark, Replica, Story
from syncline.lab.style import EPOCH_COLOURS, PATTERNS, STYLE
from syncline.pictures import legend, svg
from syncline.pictures.axis import StepAxis
from syncline.pictures.labels import CHARACTER_PX, Rows, wrapped

WIDTH: Final = 1280.0
_LEFT: Final = 128.0
_RIGHT: Final = WIDTH - 150.0
_LANE: Final = 96.0
_LANE_GAP: Final = 50.0
_STEP_MIN: Final = 96.0
_BAND_LABEL_MIN: Final = 54.0
_TEXT_LINE: Final = 18.0
IN_SYNC: Final = "in sync"
OUT: Final = "out of the ISR"

Place = Callable[[float], float]
Height = Callable[[Replica], int]
Key = Callable[[Replica], object]


@dataclass(frozen=True)
class Span:
    """An interval in which a replica did not change."""

    start_s: float
    end_s: float
    replica: Replica


def _axis(story: Story) -> StepAxis:
    return StepAxis([story.first_s, *(step.end_s for step in story.steps)], _LEFT, _RIGHT, step_px_min=_STEP_MIN)


def draw(scenario: Scenario, runs: Sequence[Story]) -> str:
    """Return the picture of a scenario, with a panel for each mode."""
    command = command_line(scenario.name, scenario.modes, [story.mode for story in runs])
    parts = [
        svg.text(24, 38, scenario.title, class_="title"),
        svg.text(24, 60, command, class_="muted"),
        *_legend(),
    ]
    y = 140.0
    for story in runs:
        panel, y = _panel(scenario, story, y)
        parts += panel
    ground = svg.rect(0, 0, WIDTH, y, class_="page")
    label = f"{scenario.title}: logs and high watermarks of all replicas over time"
    return svg.drawing(WIDTH, y, label, STYLE, PATTERNS, ground, *parts)


def _legend() -> list[str]:
    def epochs(x: float, y: float) -> str:
        return svg.rect(x, y - 11, 26, 14, class_="epoch0") + svg.rect(x + 26, y - 11, 26, 14, class_="epoch1")

    def fault(x: float, y: float) -> str:
        return svg.line(x + 2, y - 12, x + 2, y + 4, class_="fault-line")

    contents = (
        legend.Entry("records, a colour per leader epoch", 52, epochs),
        legend.stroke("log end (LEO)", "log-end"),
        legend.stroke("high watermark (HW)", "watermark"),
    )
    standings = (
        legend.box("leads", "leads", height=8),
        legend.box("in sync", "in-sync", height=8),
        legend.box("out of the ISR", "out", height=8),
        legend.box("no process", "dead", height=16),
        legend.box("paused, or silent", "paused", height=16),
        legend.Entry("action", 4, fault, "fault-label"),
    )
    return legend.row(contents, 24, 86, right=WIDTH) + legend.row(standings, 24, 110, right=WIDTH)


def _panel(scenario: Scenario, story: Story, top: float) -> tuple[list[str], float]:
    axis = _axis(story)
    parts = [svg.line(24, top, WIDTH - 24, top, class_="grid")]
    y = top + 26
    parts.append(svg.text(24, y, story.mode, class_="heading"))
    parts.append(svg.text(24 + 9.0 * len(story.mode) + 14, y, scenario.modes[story.mode], class_="muted"))
    y += 22
    mark = "✓ as expected" if story.outcome.is_expected else "✗ not as expected"
    parts.append(svg.text(24, y, mark, class_="good" if story.outcome.is_expected else "bad"))
    for line in wrapped(story.outcome.text, 150):
        parts.append(svg.text(150, y, line, class_="strong"))
        y += _TEXT_LINE
    y += 18
    number_y = y
    y += 34
    highest = max([1, *(sample.replica.log_end for sample in story.samples)])
    first = y
    for broker_id in story.lanes:
        parts += _lane(axis, story, broker_id, y, highest)
        y += _LANE + _LANE_GAP
    bottom = y - _LANE_GAP + 8
    marks = [part for step in story.steps for part in _step_mark(axis, step.number, step.end_s, number_y, bottom)]
    # Drawn below everything except the background.
    parts = [parts[0], *marks, *parts[1:]]
    for index, edge in enumerate(axis.edges_s):
        parts.append(svg.text(axis.places[index], bottom + 34, f"{edge - axis.edges_s[0]:.2f} s", class_="tick mid"))
    for broker_id, lane_y in zip(story.lanes, (first + n * (_LANE + _LANE_GAP) for n in range(9)), strict=False):
        parts += _marks(axis, [mark for mark in story.marks if mark.broker_id == broker_id], lane_y)
    parts += _marks(axis, [mark for mark in story.marks if mark.broker_id is None], first - 22)
    y = bottom + 66
    for step in story.steps:
        parts.append(svg.element("circle", cx=34, cy=y - 4, r=8.5, class_="step-dot"))
        parts.append(svg.text(34, y, str(step.number), class_="step-number mid"))
        for line in wrapped(step.text, 180):
            parts.append(svg.text(52, y, line))
            y += _TEXT_LINE
        for note in step.notes:
            parts.append(svg.text(52, y, note, class_="muted"))
            y += _TEXT_LINE
        y += 4
    return parts, y + 14


def _step_mark(axis: StepAxis, number: int, end_s: float, y: float, bottom: float) -> list[str]:
    x = axis.x(end_s)
    middle = (axis.places[number - 1] + axis.places[number]) / 2
    return [
        svg.line(x, y - 8, x, bottom, class_="step"),
        svg.element("circle", cx=middle, cy=y - 4, r=8.5, class_="step-dot"),
        svg.text(middle, y, str(number), class_="step-number mid"),
    ]


def _spans(story: Story, broker_id: int) -> list[Span]:
    """Return the states of a replica, each with its interval."""
    mine = [sample for sample in story.samples if sample.broker_id == broker_id]
    ends = [*(sample.at_s for sample in mine[1:]), story.lasted_s][: len(mine)]
    return [Span(sample.at_s, end, sample.replica) for sample, end in zip(mine, ends, strict=True)]


def _lane(axis: StepAxis, story: Story, broker_id: int, y: float, highest: int) -> list[str]:
    end_x = axis.places[-1]
    parts = [svg.rect(_LEFT, y, end_x - _LEFT, _LANE, class_="lane")]
    name = story.lanes[broker_id]
    parts.append(svg.text(24, y + 20, name or f"broker {broker_id}", class_="heading"))
    if name:
        parts.append(svg.text(24, y + 38, f"broker {broker_id}", class_="muted"))

    def place(offset: float) -> float:
        return y + _LANE - offset / highest * (_LANE - 10)

    for offset in _ticks(highest):
        parts.append(svg.text(_LEFT - 8, place(offset) + 4, f"{offset:,}", class_="tick end-anchor"))
        parts.append(svg.line(_LEFT, place(offset), end_x, place(offset), class_="grid"))
    spans = _spans(story, broker_id)
    colours = _colours(story)
    parts += _bands(axis, spans, place, colours)
    for span in _merged(spans, lambda replica: replica.state):
        if span.replica.state != "running":
            x = axis.x(span.start_s)
            pattern = "dead" if span.replica.state == "dead" else "paused"
            parts.append(svg.rect(x, y, axis.x(span.end_s) - x, _LANE, class_=pattern))
    for start_s, end_s, standing in _standings(story, broker_id, spans):
        parts += _strip(axis, start_s, end_s, standing, y)
    parts.append(svg.path(_outline(axis, spans, place, lambda replica: replica.log_end), class_="log-end"))
    parts.append(svg.path(_outline(axis, spans, place, lambda replica: replica.high_watermark), class_="watermark"))
    parts += _band_labels(axis, spans, place)
    return parts + _final(story, broker_id, spans, end_x, y)


def _colours(story: Story) -> dict[int, int]:
    """Return the colour number of each epoch that wrote records; consecutive epochs differ."""
    epochs = sorted({epoch for sample in story.samples for epoch, _, _ in _parts_of(sample.replica)})
    return {epoch: number % len(EPOCH_COLOURS) for number, epoch in enumerate(epochs)}


def _standings(story: Story, broker_id: int, spans: Sequence[Span]) -> list[tuple[float, float, str]]:
    """Return (from, to, standing) of a replica: leader if it believes so, otherwise by the newest ISR."""
    changes: list[tuple[float, str]] = []
    own, newest = "", -1
    isr: tuple[int, ...] = ()
    begun = {broker_id: spans[0].start_s} if spans else {}
    for sample in story.samples:
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
    ends = [*(at_s for at_s, _ in changes[1:]), story.lasted_s][: len(changes)]
    return [(at_s, end_s, standing) for (at_s, standing), end_s in zip(changes, ends, strict=True)]


def _strip(axis: StepAxis, start_s: float, end_s: float, standing: str, y: float) -> list[str]:
    x, end = axis.x(start_s), axis.x(end_s)
    style = {IN_SYNC: "in-sync", OUT: "out"}.get(standing, "leads")
    height = 14.0 if style == "leads" else 7.0
    parts = [svg.rect(x, y - height, max(end - x, 2.0), height, svg.tip(standing), class_=style)]
    if style == "leads" and end - x > len(standing) * 6.2:
        parts.append(svg.text(x + 6, y - 3.5, standing, class_="on-lead"))
    return parts


def _bands(axis: StepAxis, spans: Sequence[Span], place: Place, colours: dict[int, int]) -> list[str]:
    parts = []
    for span in _merged(spans, lambda replica: (replica.epochs, replica.log_end)):
        x, end_x = axis.x(span.start_s), axis.x(span.end_s)
        for epoch, low, high in _parts_of(span.replica):
            tip = svg.tip(f"epoch {epoch}: offsets {low:,} to {high - 1:,}")
            top, height = place(high), place(low) - place(high)
            parts.append(svg.rect(x, top, end_x - x, height, tip, class_=f"epoch{colours[epoch]}"))
    return parts


def _band_labels(axis: StepAxis, spans: Sequence[Span], place: Place) -> list[str]:
    """Return a label for each uninterrupted stretch of an epoch."""
    parts = []
    for epoch, low, high, start_s, end_s in _stretches(spans):
        x, end_x = axis.x(start_s), axis.x(end_s)
        if end_x - x >= _BAND_LABEL_MIN and place(low) - place(high) >= 13:
            parts.append(
                svg.text(x + 6, (place(low) + place(high)) / 2 + 4, f"epoch {epoch}", class_="epoch-label halo")
            )
    return parts


def _parts_of(replica: Replica) -> list[tuple[int, int, int]]:
    """Return (epoch, first offset, end) of each epoch that wrote records."""
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


def _outline(axis: StepAxis, spans: Sequence[Span], place: Place, height: Height) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for span in spans:
        y = place(height(span.replica))
        points += [(axis.x(span.start_s), y), (axis.x(span.end_s), y)]
    return points or [(_LEFT, place(0))]


def _final(story: Story, broker_id: int, spans: Sequence[Span], x: float, y: float) -> list[str]:
    """Return the final state of a replica, at the right of its lane."""
    if not spans:
        return []
    last = spans[-1].replica
    parts = [
        svg.text(x + 12, y + 12, f"LEO {last.log_end:,}", class_="strong"),
        svg.text(x + 12, y + 28, f"HW {last.high_watermark:,}", class_="strong"),
    ]
    y += 44
    for line in wrapped(f"epochs {last.history}", 17)[:2]:
        parts.append(svg.text(x + 12, y, line, class_="muted"))
        y += 16
    values = story.contents.get(broker_id)
    if values is not None and len(values) <= 8:
        words = " ".join(values) or "(no records)"
        for number, line in enumerate(wrapped(words, 16)[:2]):
            parts.append(svg.text(x + 12, y + 4 + 16 * number, line, class_="value"))
    return parts


def _marks(axis: StepAxis, marks: Sequence[Mark], y: float) -> list[str]:
    """Return the actions on one broker, labelled below its lane."""
    parts: list[str] = []
    rows = Rows()
    for mark in marks:
        x = axis.x(mark.at_s)
        baseline = y + _LANE + 13 + 13 * rows.row(x, len(mark.label) * CHARACTER_PX + 14)
        parts.append(svg.line(x, y, x, baseline - 2, class_="fault-line"))
        parts.append(svg.element("circle", cx=x, cy=y, r=3.2, class_="fault-dot"))
        parts.append(svg.text(x + 5, baseline, mark.label, class_="fault-label halo"))
    return parts


def _merged(spans: Sequence[Span], key: Key) -> list[Span]:
    """Return the spans, with consecutive ones of the same `key` merged."""
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
