"""Picture 2: how much of its leader's log each new replica had, from empty to in sync.

A lane per copy, those that took longest first. The area is its share in percent, which may stand still or fall while
clients write more than is copied; the line at its end says when the copy came into the ISR.
"""

from typing import Final

from syncline.move_report.facts import Copy, Ending, Facts
from syncline.move_report.frame import BOLD_PX, Frame, MarkRows, frame_of
from syncline.pictures import svg
from syncline.pictures.labels import CHARACTER_PX, seconds
from syncline.pictures.scales import Linear
from syncline.reassign.amounts import size_words

LANES_MAX: Final = 16
# The height of a lane, if there are at most so many, and what lies between two of them.
_LANES: Final = ((2, 96.0), (6, 60.0), (LANES_MAX, 36.0))
_BETWEEN: Final = 34.0


def shown(facts: Facts) -> list[Copy]:
    """Return the copies that have a lane: those that took longest, sorted by partition and broker."""
    longest = sorted(facts.copies, key=lambda copy: -_until_ms(facts, copy) + copy.started_ms)[:LANES_MAX]
    return [copy for copy in facts.copies if copy in longest]


def draw(facts: Facts, width: float) -> str:
    """Return the picture."""
    frame = frame_of(facts, width)
    copies = shown(facts)
    marks = MarkRows(frame, facts.marks)
    top = marks.height + 30
    height = next(each for most, each in _LANES if len(copies) <= most)
    bottom = top + (len(copies) - 1) * (height + _BETWEEN) + height
    drawn = [*frame.grid(top, bottom), *marks.draw(0, top - 24, bottom)]
    for index, copy in enumerate(copies):
        drawn += _lane(facts, frame, copy, top + index * (height + _BETWEEN), height)
    return svg.drawing(width, bottom + 46, "How much of its leader's log each new replica had, in percent", *drawn)


def _until_ms(facts: Facts, copy: Copy) -> int:
    until_ms = copy.joined_ms if copy.joined_ms is not None else copy.ended_ms
    return facts.end_ms if until_ms is None else until_ms


def _lane(facts: Facts, frame: Frame, copy: Copy, top: float, height: float) -> list[str]:
    bottom = top + height
    scale = Linear(0, 100, bottom, top)
    name, end = copy.name, _end(facts, copy)
    name_px = len(name) * BOLD_PX + 10
    if name_px + len(end) * CHARACTER_PX > frame.right - frame.left:
        name = name.replace("broker ", "")
        name_px = len(name) * BOLD_PX + 8
    drawn = [
        svg.rect(frame.left, top - 20, name_px + len(end) * CHARACTER_PX, 17, class_="ground"),
        svg.text(frame.left, top - 8, name, class_="strong halo"),
        svg.text(frame.left + name_px, top - 8, end, class_="muted halo"),
        svg.text(frame.left - 8, top + 9, "100 %", class_="tick end-anchor"),
        svg.text(frame.left - 8, bottom, "0", class_="tick end-anchor"),
        svg.rect(frame.left, top, frame.right - frame.left, height, class_="panel"),
    ]
    shares = [(row.at_ms, 100 * row.done_bytes / row.total_bytes if row.total_bytes else 0.0) for row in copy.progress]
    if copy.joined_ms is not None:
        shares = (
            [*shares[:-1], (copy.joined_ms, 100.0)] if shares else [(copy.started_ms, 0.0), (copy.joined_ms, 100.0)]
        )
    points = [(frame.axis.x(at_ms), scale(share)) for at_ms, share in shares]
    if points:
        outline = [(points[0][0], bottom), *points, (points[-1][0], bottom)]
        area = "M" + "L".join(f"{x:.2f},{y:.2f}" for x, y in outline) + "Z"
        drawn.append(svg.element("path", d=area, class_="copied-area"))
        drawn.append(svg.path(points, class_="copied-line"))
    if copy.joined_ms is not None:
        x = frame.axis.x(copy.joined_ms)
        drawn.append(svg.line(x, top, x, bottom, class_="joined-line"))
        drawn.append(svg.element("circle", cx=x, cy=top, r=4.0, class_="joined-dot"))
    return drawn


def _end(facts: Facts, copy: Copy) -> str:
    """Return how the copy ended, and how much it was."""
    size = "" if copy.copied_bytes is None else f"{size_words(copy.copied_bytes)}, "
    if copy.joined_ms is not None:
        return f"{size}in sync after {seconds(copy.joined_ms - copy.started_ms)}"
    if copy.ending is Ending.RUNNING:
        share = 100 * copy.progress[-1].done_bytes / max(copy.progress[-1].total_bytes, 1) if copy.progress else 0.0
        return f"{size}{share:.0f} % after {seconds(facts.end_ms - copy.started_ms)}"
    return f"{size}{copy.ending}"
