"""Picture 2: which replica was in the ISR when, who led, and what the injected faults did.

A partition is a group of lanes, one for each replica. Thick dark is the leader, lighter is a follower in the ISR,
hatched is out of it. A line from one lane to another is a change of leaders. Meaning never hangs on colour alone:
the three states also differ in height, in lightness and by the hatching.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from syncline.pipeline.report import svg
from syncline.pipeline.report.facts import Facts, IsrInterval, LeaderChange
from syncline.pipeline.report.scales import seconds
from syncline.pipeline.report.time_axis import TimeAxis

WIDTH: Final = 1280.0
_LEFT: Final = 136.0
_TOP: Final = 88.0
_LANE: Final = 17.0
_GROUP_GAP: Final = 13.0
_LEADER_LABEL_MIN: Final = 92.0


def draw(facts: Facts) -> str:
    """Return the picture."""
    axis = TimeAxis(facts.journal_start_ms, facts.journal_end_ms, _LEFT, WIDTH - 14)
    lanes = _lanes(facts.intervals)
    bottom = max(lanes.values(), default=_TOP) + _LANE + 4
    parts = [
        _hatching(),
        *_legend(),
        *axis.bands(facts.faults, _TOP - 8, bottom),
        *axis.grid(_TOP - 8, bottom),
        *axis.marks(facts.faults, _TOP - 16),
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


def _hatching() -> str:
    stripe = svg.line(0, 0, 0, 7, class_="hatch-line")
    ground = svg.rect(0, 0, 7, 7, class_="hatch-ground")
    pattern = svg.element(
        "pattern",
        ground,
        stripe,
        id="hatch",
        width=7,
        height=7,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )
    return svg.element("defs", pattern)


def _legend() -> list[str]:
    parts, x = [], _LEFT
    for style, inset, name in (
        ("leader", 1.5, "leader"),
        ("in-sync", 3.5, "follower, in sync"),
        ("out", 3.5, "out of the ISR"),
    ):
        parts.append(svg.rect(x, 8 + inset, 30.0, _LANE - 2 * inset, class_=f"lane-{style}", rx=2))
        parts.append(svg.text(x + 38, 21, name, class_="ink"))
        x += 62 + 7.0 * len(name)
    parts.append(svg.line(x + 6, 10, x + 6, 22, class_="handover"))
    parts.append(svg.element("circle", cx=x + 6, cy=22, r=4, class_="handover-dot"))
    parts.append(svg.text(x + 20, 21, "leadership moves to this replica", class_="ink"))
    x += 250
    parts.append(svg.rect(x, 9, 22.0, 15.0, class_="fault-band"))
    parts.append(svg.line(x, 9, x, 24, class_="fault-edge"))
    parts.append(svg.text(x + 30, 21, "injected fault", class_="ink"))
    return parts


def _lane_labels(topic: str, lanes: dict[tuple[int, int], float]) -> list[str]:
    parts = []
    first = {partition: min(y for (p, _), y in lanes.items() if p == partition) for partition, _ in lanes}
    for partition, y in first.items():
        name = f"{topic}-{partition}"
        parts.append(svg.text(8, y + 13, name if len(name) < 11 else f"…-{partition}", class_="ink strong"))
        parts.append(svg.line(8, y - _GROUP_GAP / 2, WIDTH - 14, y - _GROUP_GAP / 2, class_="grid"))
    for (_, replica), y in lanes.items():
        parts.append(svg.text(_LEFT - 8, y + 12.5, f"broker {replica}", class_="tick", text_anchor="end"))
    return parts


def _bar(axis: TimeAxis, facts: Facts, y: float, item: IsrInterval) -> str:
    x = axis.x(item.start_ms)
    end_ms = facts.journal_end_ms if item.end_ms is None else item.end_ms
    width = max(axis.x(end_ms) - x - 0.8, 0.8)
    style, inset = ("leader", 1.5) if item.is_leader else ("in-sync", 3.5) if item.in_isr else ("out", 3.5)
    state = {"leader": "leads", "in-sync": "in the ISR", "out": "out of the ISR"}[style]
    why = f"\nbecause of {item.cause.replace('_', ' ')}: {item.rule}" if item.rule else ""
    evidence = f"\n{item.evidence}" if item.evidence not in {None, "{}"} else ""
    tip = (
        f"{facts.topic}-{item.partition}, broker {item.replica} {state} for {seconds(end_ms - item.start_ms)}, "
        f"leader epoch {item.leader_epoch}{why}{evidence}"
    )
    bar = svg.rect(x, y + inset, width, _LANE - 2 * inset, svg.tip(tip), class_=f"lane-{style}", rx=2)
    if item.is_leader and width >= _LEADER_LABEL_MIN:
        bar += svg.text(x + 7, y + 12.3, f"leader, epoch {item.leader_epoch}", class_="on-leader")
    return bar


def _change(axis: TimeAxis, lanes: dict[tuple[int, int], float], change: LeaderChange) -> list[str]:
    from_y, to_y = lanes.get((change.partition, change.before)), lanes.get((change.partition, change.after))
    if from_y is None or to_y is None:
        return []
    x, middle = axis.x(change.at_ms), _LANE / 2
    tip = svg.tip(
        f"leadership moves from broker {change.before} to broker {change.after}, "
        f"leader epoch {change.leader_epoch} ({change.reason.replace('_', ' ')})"
    )
    return [
        svg.line(x, from_y + middle, x, to_y + middle, class_="handover"),
        svg.element("circle", tip, cx=x, cy=to_y + middle, r=4.5, class_="handover-dot"),
    ]
