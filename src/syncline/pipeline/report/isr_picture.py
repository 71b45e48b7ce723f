"""Picture 2: when each replica was in the ISR, which one led, and the effects of the injected faults.

A partition is a group of lanes, one for each replica. Thick dark is the leader, lighter is a follower in the ISR,
hatched is out of it. A line from one lane to another is a change of leaders. No meaning depends on colour alone: the
three states also differ in height, in lightness and in hatching.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from syncline.pictures import legend, svg
from syncline.pictures.axis import TimeAxis
from syncline.pictures.labels import seconds
from syncline.pictures.palette import HATCHING
from syncline.pipeline.report import fault_marks
from syncline.pipeline.report.facts import Facts, IsrInterval, LeaderChange

WIDTH: Final = 1280.0
_LEFT: Final = 136.0
_TOP: Final = 88.0
_LANE: Final = 17.0
_GROUP_GAP: Final = 13.0
_LEADER_LABEL_MIN: Final = 92.0
# The states of a replica, by class in the style sheet: the inset of the bar in its lane, and the words.
_INSET: Final = {"leads": 1.5, "in-sync": 3.5, "out": 3.5}
_WORDS: Final = {"leads": "leads", "in-sync": "in the ISR", "out": "out of the ISR"}


def draw(facts: Facts) -> str:
    """Return the picture."""
    axis = TimeAxis(facts.journal_start_ms, facts.journal_end_ms, _LEFT, WIDTH - 14)
    lanes = _lanes(facts.intervals)
    bottom = max(lanes.values(), default=_TOP) + _LANE + 4
    parts = [
        svg.element("defs", HATCHING),
        *_legend(),
        *fault_marks.bands(axis, facts.faults, _TOP - 8, bottom),
        *axis.grid(_TOP - 8, bottom, fault_marks.AXIS_TITLE),
        *fault_marks.marks(axis, facts.faults, _TOP - 16),
        *_lane_labels(facts.topic, lanes),
    ]
    parts += [_bar(axis, facts, lanes[item.partition, item.replica], item) for item in facts.intervals]
    parts += [mark for change in facts.leader_changes for mark in _change(axis, lanes, change)]
    label = f"Timeline of the in-sync replicas of {facts.topic}, with leaders and injected faults"
    return svg.drawing(WIDTH, bottom + 46, label, *parts)


def _lanes(intervals: Sequence[IsrInterval]) -> dict[tuple[int, int], float]:
    """Return the upper edge of the lane of each partition and replica."""
    lanes, y = {}, _TOP
    places = sorted({(item.partition, item.replica) for item in intervals})
    for _, group in groupby(places, key=lambda place: place[0]):
        for place in group:
            lanes[place] = y
            y += _LANE
        y += _GROUP_GAP
    return lanes


def _legend() -> list[str]:
    def handover(x: float, y: float) -> str:
        return svg.line(x + 6, y - 11, x + 6, y + 1, class_="handover") + svg.element(
            "circle", cx=x + 6, cy=y + 1, r=4, class_="handover-dot"
        )

    def fault(x: float, y: float) -> str:
        return svg.rect(x, y - 12, 22.0, 15.0, class_="fault-band") + svg.line(
            x, y - 12, x, y + 3, class_="fault-line fault-edge"
        )

    entries = (
        legend.box("leader", "leads", width=30, height=_LANE - 2 * _INSET["leads"], rx=2),
        legend.box("follower, in sync", "in-sync", width=30, height=_LANE - 2 * _INSET["in-sync"], rx=2),
        legend.box("out of the ISR", "out", width=30, height=_LANE - 2 * _INSET["out"], rx=2),
        legend.Entry("leadership moves to this replica", 12, handover),
        legend.Entry("injected fault", 22, fault),
    )
    return legend.row(entries, _LEFT, 21, right=WIDTH - 14)


def _lane_labels(topic: str, lanes: dict[tuple[int, int], float]) -> list[str]:
    parts = []
    first = {partition: min(y for (p, _), y in lanes.items() if p == partition) for partition, _ in lanes}
    for partition, y in first.items():
        name = f"{topic}-{partition}"
        parts.append(svg.text(8, y + 13, name if len(name) < 11 else f"…-{partition}", class_="ink strong"))
        parts.append(svg.line(8, y - _GROUP_GAP / 2, WIDTH - 14, y - _GROUP_GAP / 2, class_="grid"))
    for (_, replica), y in lanes.items():
        parts.append(svg.text(_LEFT - 8, y + 12.5, f"broker {replica}", class_="tick end-anchor"))
    return parts


def _bar(axis: TimeAxis, facts: Facts, y: float, item: IsrInterval) -> str:
    x = axis.x(item.start_ms)
    end_ms = facts.journal_end_ms if item.end_ms is None else item.end_ms
    width = max(axis.x(end_ms) - x - 0.8, 0.8)
    style = "leads" if item.is_leader else "in-sync" if item.in_isr else "out"
    inset = _INSET[style]
    why = f"\nbecause of {item.cause.replace('_', ' ')}: {item.rule}" if item.rule else ""
    evidence = f"\n{item.evidence}" if item.evidence not in {None, "{}"} else ""
    tip = (
        f"{facts.topic}-{item.partition}, broker {item.replica} {_WORDS[style]} for {seconds(end_ms - item.start_ms)}, "
        f"leader epoch {item.leader_epoch}{why}{evidence}"
    )
    bar = svg.rect(x, y + inset, width, _LANE - 2 * inset, svg.tip(tip), class_=style, rx=2)
    if item.is_leader and width >= _LEADER_LABEL_MIN:
        bar += svg.text(x + 7, y + 12.3, f"leader, epoch {item.leader_epoch}", class_="on-lead")
    return bar


def _change(axis: TimeAxis, lanes: dict[tuple[int, int], float], change: LeaderChange) -> list[str]:
    from_y, to_y = lanes.get((change.partition, change.before)), lanes.get((change.partition, change.after))
    if from_y is None or to_y is None:
        return []
    x, middle = axis.x(change.at_ms), _LANE / 2
    tip = svg.tip(
        f"leadership moves from broker {change.before} to broker {change.after}, "
        f"leader epoch {change.leader_epoch} ({change.reason.replace('-', ' ')})"
    )
    return [
        svg.line(x, from_y + middle, x, to_y + middle, class_="handover"),
        svg.element("circle", tip, cx=x, cy=to_y + middle, r=4.5, class_="handover-dot"),
    ]
