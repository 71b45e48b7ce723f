"""The table of the lag modes side by side, as text and picture: when each rule puts a follower out of the ISR."""

from collections.abc import Sequence
from typing import Any, Final

from syncline.lab.lag_modes import LAG_MS, LAST_MS, MESSAGES_MAX, TICK_MS, Outcome, Row, rows
from syncline.lab.scenario import command_line
from syncline.lab.style import PATTERNS, STYLE
from syncline.pictures import legend, svg
from syncline.pictures.labels import wrapped
from syncline.pictures.scales import Linear

NAME: Final = "lag-modes"
TITLE: Final = "The three lag modes side by side"
ABOUT: Final = (
    "The same events, judged by each rule. This starts no brokers: it calls the rules that brokers call. "
    f"Window {LAG_MS // 1_000} s, a tick every {TICK_MS // 1_000} s, at most {MESSAGES_MAX:,} records behind."
)
MODES: Final = {
    "messages": "a member too many messages behind is out of sync (Kafka 0.8.2)",
    "lag-begin": "a member whose lag began too long ago is out of sync (KIP-16 as written)",
    "time": "a member that was not caught up for too long is out of sync (Kafka since 0.10.2)",
}

WIDTH: Final = 1280.0
_LEFT: Final = 500.0
_RIGHT: Final = WIDTH - 214.0
_x: Final = Linear(0, LAST_MS, _LEFT, _RIGHT)
_BAR: Final = 15.0
_GAP: Final = 22.0


def table(modes: Sequence[str]) -> list[str]:
    """Return the table as lines."""
    found = rows()
    width = max(len(row.situation) for row in found)
    cell = max(len(str(outcome)) for row in found for outcome in row.outcomes.values())
    lines = [f"{'':<{width}}  {'  '.join(f'{mode:<{cell}}' for mode in modes)}".rstrip()]
    for row in found:
        cells = "  ".join(f"{row.outcomes[mode]!s:<{cell}}" for mode in modes)
        lines.append(f"{row.situation:<{width}}  {cells}".rstrip())
    return lines


def as_json(modes: Sequence[str]) -> list[dict[str, Any]]:
    """Return the table for scripts."""
    return [
        {
            "situation": row.situation,
            "outcomes": {
                mode: {
                    "evicted_ms": row.outcomes[mode].evicted_ms,
                    "returned_ms": row.outcomes[mode].returned_ms,
                    "in_sync_at_end": row.outcomes[mode].is_in,
                }
                for mode in modes
            },
        }
        for row in rows()
    ]


def draw(modes: Sequence[str]) -> str:
    """Return the table as a picture: a bar for each rule, with the times in and out of sync."""
    y = 140.0
    parts = [
        svg.text(24, 38, TITLE, class_="title"),
        svg.text(24, 60, command_line(NAME, MODES, modes), class_="muted"),
        *legend.row((legend.box("in sync", "in-sync"), legend.box("out of the ISR", "out")), 24, 88, right=300),
        svg.text(300, 88, ABOUT.partition("brokers call. ")[2], class_="muted"),
    ]
    top = y - 18
    body: list[str] = []
    for row in rows():
        body += _situation(row, modes, y)
        y += len(modes) * _BAR + _GAP
    for tick_ms in range(0, LAST_MS + 1, TICK_MS):
        x = _x(tick_ms)
        parts.append(svg.line(x, top, x, y - 12, class_="grid"))
        parts.append(svg.text(x, y + 4, f"{tick_ms // 1_000} s", class_="tick mid"))
    y += 28
    ground = svg.rect(0, 0, WIDTH, y, class_="page")
    return svg.drawing(WIDTH, y, TITLE, STYLE, PATTERNS, ground, *parts, *body)


def _situation(row: Row, modes: Sequence[str], y: float) -> list[str]:
    parts = [svg.line(24, y - 10, WIDTH - 24, y - 10, class_="grid")]
    lines = wrapped(row.situation, 53)
    parts += [svg.text(24, y + 12 + 16 * number, line) for number, line in enumerate(lines)]
    for number, mode in enumerate(modes):
        at = y + number * _BAR
        parts.append(svg.text(_LEFT - 10, at + 10.5, mode, class_="tick end-anchor"))
        parts += _bar(row.outcomes[mode], at)
        parts.append(svg.text(_RIGHT + 10, at + 10.5, str(row.outcomes[mode]), class_="tick"))
    return parts


def _bar(outcome: Outcome, y: float) -> list[str]:
    parts = [svg.rect(_LEFT, y, _RIGHT - _LEFT, _BAR - 4, class_="in-sync")]
    if outcome.evicted_ms is not None:
        x = _x(outcome.evicted_ms)
        end = _x(LAST_MS if outcome.returned_ms is None else outcome.returned_ms)
        parts.append(svg.rect(x, y, max(end - x, 3.0), _BAR - 4, class_="out"))
    return parts
