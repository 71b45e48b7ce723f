"""Picture 1: what each broker sent and received for the move per second, against the throttle.

A panel per broker and role, all with the same scales. The area is what was copied; the dashed line is the throttle, the
dotted one what only keeps up with clients' writes: a copy makes progress while the area is above that. Numbered bands
are the times in which something held the move back.
"""

from collections.abc import Sequence
from typing import Final

from syncline.move_report.facts import Facts, PartFacts
from syncline.move_report.frame import Frame, MarkRows, frame_of
from syncline.pictures import legend, svg
from syncline.pictures.labels import CHARACTER_PX
from syncline.pictures.scales import Linear, nice_ticks
from syncline.reassign.amounts import rate_words

PARTS_MAX: Final = 12
_PANEL: Final = 132.0
_BETWEEN: Final = 40.0
_LEGEND: Final = 26.0
# A throttle that is so many times what moved lies above the panels: nothing was near it.
_FAR: Final = 2.0
# Lines this near share the place of their labels.
_NEAR: Final = 24.0


def shown(facts: Facts) -> list[PartFacts]:
    """Return the parts that have a panel: those that copied most, in order of roles and brokers."""
    most = sorted(facts.parts, key=lambda each: -sum(each.rates))[:PARTS_MAX]
    return [each for each in facts.parts if each in most]


def draw(facts: Facts, width: float) -> str:
    """Return the picture."""
    frame = frame_of(facts, width)
    parts = shown(facts)
    legends = _legend(facts, frame)
    marks = MarkRows(frame, facts.marks)
    top = 18 + _LEGEND * legends[1] + marks.height + 32
    bottom = top + len(parts) * _PANEL + (len(parts) - 1) * _BETWEEN
    # A throttle at the top of a panel still has room for its label.
    high = max([1.0, *_heights(parts)]) * 1.08
    ticks = nice_ticks(high, 5)
    drawn = [*legends[0], *frame.grid(top, bottom)]
    drawn += marks.draw(18 + _LEGEND * legends[1] - 8, top - 26, bottom)
    for index, each in enumerate(parts):
        drawn += _panel(facts, frame, each, top + index * (_PANEL + _BETWEEN), ticks)
    label = "Bytes per second that brokers sent and received for the move, against its throttle"
    return svg.drawing(width, bottom + 46, label, *drawn)


def _heights(parts: Sequence[PartFacts]) -> list[float]:
    """Return what has to fit into a panel: all that moved, and throttles unless they are far above it."""
    moved = [value for each in parts for value in (*each.rates, *each.keep_up)]
    most = _FAR * max(moved, default=0.0)
    return [*moved, *(bound for each in parts for bound in each.quotas if bound is not None and bound <= most)]


def _legend(facts: Facts, frame: Frame) -> tuple[list[str], int]:
    """Return the legend, and how many rows it has."""

    def copied(x: float, y: float) -> str:
        return svg.rect(x, y - 10, 34, 12, class_="copied-area") + svg.line(
            x, y - 10, x + 34, y - 10, class_="copied-line"
        )

    entries = [
        legend.Entry("copied", 34, copied),
        legend.stroke("throttle", "throttle"),
        legend.stroke("needed to keep up with writes", "keep-up"),
        *([legend.box("held back", "held-band", height=14)] if facts.held_back else []),
    ]
    drawn = legend.row(entries, frame.left if not frame.is_narrow else 4, 14, right=frame.width)
    rows = len({line.partition(' y="')[2].partition('"')[0] for line in drawn if line.startswith("<text")})
    return drawn, rows


def _bands(frame: Frame, facts: Facts, part: PartFacts, top: float) -> list[str]:
    """Return when something held this part back, each time with its number."""
    drawn = []
    free_from = float("-inf")
    for number, stretch in enumerate(facts.held_back, 1):
        if not stretch.concerns(part.part):
            continue
        x, end = frame.axis.x(stretch.start_ms), frame.axis.x(stretch.end_ms)
        drawn.append(svg.rect(x, top, end - x, _PANEL, svg.tip(stretch.sentence), class_="held-band"))
        # Numbers of stretches that begin together stand side by side.
        center = max(x + 12, free_from)
        free_from = center + 20
        drawn.append(svg.element("circle", cx=center, cy=top + 13, r=8.0, class_="held-dot"))
        drawn.append(svg.text(center, top + 17, str(number), class_="held-number mid"))
    return drawn


def _panel(facts: Facts, frame: Frame, part: PartFacts, top: float, ticks: Sequence[float]) -> list[str]:
    bottom = top + _PANEL
    scale = Linear(0, ticks[-1], bottom, top)
    drawn = [*_bands(frame, facts, part, top), svg.text(frame.left, top - 9, part.title, class_="heading halo")]
    for tick in ticks:
        y = scale(tick)
        drawn.append(svg.line(frame.left, y, frame.right, y, class_="grid"))
        drawn.append(svg.text(frame.left - 8, y + 4, rate_words(tick) if tick else "0", class_="tick end-anchor"))
    drawn += _copied(facts, frame, part, scale)
    drawn += _line(facts, frame, part, part.keep_up, scale, "keep-up")
    drawn += _throttle(frame, part, scale)
    return drawn


def _edges(facts: Facts, frame: Frame, index: int) -> tuple[float, float]:
    """Return the places of a bin's begin and end; the one in which the move ends is cut there."""
    begin_ms = facts.start_ms + index * facts.bin_ms
    end_ms = begin_ms + facts.bin_ms
    if facts.ended_ms is not None and begin_ms < facts.ended_ms < end_ms:
        end_ms = facts.ended_ms
    return frame.axis.x(begin_ms), frame.axis.x(end_ms)


def _runs(part: PartFacts) -> list[list[int]]:
    """Return the bins in which the part copied, those in a row together."""
    runs: list[list[int]] = []
    for index, is_copying in enumerate(part.is_copying):
        if is_copying:
            if not runs or runs[-1][-1] != index - 1:
                runs.append([])
            runs[-1].append(index)
    return runs


def _copied(facts: Facts, frame: Frame, part: PartFacts, scale: Linear) -> list[str]:
    drawn = []
    for run in _runs(part):
        steps = [(x, scale(part.rates[index])) for index in run for x in _edges(facts, frame, index)]
        floor = scale(0)
        outline = [(steps[0][0], floor), *steps, (steps[-1][0], floor)]
        area = "M" + "L".join(f"{x:.2f},{y:.2f}" for x, y in outline) + "Z"
        drawn.append(svg.element("path", d=area, class_="copied-area"))
        drawn.append(svg.path(outline, class_="copied-line"))
    return drawn


def _line(facts: Facts, frame: Frame, part: PartFacts, values: Sequence[float], scale: Linear, style: str) -> list[str]:
    """Return a line through the middles of the bins in which the part copied."""
    drawn = []
    for run in _runs(part):
        if any(values[index] for index in run):
            points = [(sum(_edges(facts, frame, index)) / 2, scale(values[index])) for index in run]
            points = [
                (_edges(facts, frame, run[0])[0], points[0][1]),
                *points,
                (_edges(facts, frame, run[-1])[1], points[-1][1]),
            ]
            drawn.append(svg.path(points, class_=style))
    return drawn


def _throttle(frame: Frame, part: PartFacts, scale: Linear) -> list[str]:
    """Return the throttle as steps, each with its rate; where it is too low, also with what keeping up takes."""
    drawn = []
    free_from = 0.0
    for level in part.levels:
        if level.bound is None:
            continue
        x, until = frame.axis.x(level.start_ms), frame.axis.x(level.end_ms)
        y = scale(level.bound)
        if level.bound <= scale.high:
            drawn.append(svg.line(x, y, until, y, class_="throttle"))
        is_above = level.bound > scale.high
        label = f"throttle {rate_words(level.bound)}{' ↑' if is_above else ''}"
        width = len(label) * CHARACTER_PX + 12
        at = min(x + 6, frame.right - width)
        # A step that is too short for its label shows its height alone; the first one needs a name.
        if at < free_from or (free_from > 0 and until - x < width and at == x + 6):
            continue
        # Above the line of what keeps up, too, if that is near.
        keep_up_y = scale(level.keep_up)
        baseline = min(y, keep_up_y) - 7 if abs(y - keep_up_y) < _NEAR else y - 7
        drawn.append(svg.text(at, y + 15 if is_above else baseline, label, class_="throttle-label halo"))
        free_from = at + width
        needed = f"keep-up {rate_words(level.keep_up)}"
        if level.is_too_low and until - free_from > len(needed) * CHARACTER_PX + 8:
            drawn.append(svg.text(until - 6, keep_up_y - 7, needed, class_="keep-up-label end-anchor halo"))
    return drawn
