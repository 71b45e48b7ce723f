"""The report in a terminal: the curve of misses as a chart of characters, and a few lines around it.

A column of the chart is a memory size, its height the share of what is read that comes from the disk. The present
memory is a line through it, with its name below; so is the memory that is advised.
"""

from typing import Final, NamedTuple

from syncline.core.lag.miss_ratio import curve
from syncline.lag_report import words
from syncline.lag_report.advice import WANTED, Advice
from syncline.lag_report.facts import CacheFacts
from syncline.lag_report.memory_axis import MemoryAxis, axis_of
from syncline.model.shown_names import columns_of, shown_name
from syncline.pictures.scales import nice_ticks
from syncline.reassign.amounts import rate_words, size_words

WIDTH_MIN: Final = 80
_HEIGHT: Final = 10
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
# What stands left of the chart: a share and the axis.
_LEFT: Final = 8
# Room that the name of a tick and a blank take.
_TICK: Final = 9
_READERS_MAX: Final = 8


class _Mark(NamedTuple):
    """A column with a line through it, and what is written below it."""

    column: int
    line: str
    label: str


def lines_of(facts: CacheFacts, advice: Advice, width: int) -> list[str]:
    """Return what is to be said of one broker, at least `WIDTH_MIN` wide."""
    said = [words.verdict(facts, advice), words.need(facts, advice)]
    if not facts.read_bytes:
        return said
    said += [words.residence(facts, advice), words.blame(facts, advice)]
    return [*filter(None, said), "", *chart(facts, advice, max(width, WIDTH_MIN)), *_readers(advice)]


def chart(facts: CacheFacts, advice: Advice, width: int) -> list[str]:
    """Return the curve, `width` characters wide."""
    axis, columns = axis_of(facts, advice), width - _LEFT
    points = curve(facts.demand, [axis.at(column / (columns - 1)) for column in range(columns)])
    misses = [1 - point.hit_ratio for point in points]
    ticks = nice_ticks(max(0.01, *misses) * 100, 5)
    marks = _marks(facts, advice, axis, columns)
    lines = ["from disk"]
    for row in reversed(range(_HEIGHT)):
        cells = [_cell(miss * 100 / ticks[-1] * _HEIGHT - row) for miss in misses]
        for mark in marks:
            # The line shows where the chart is empty, and as a gap in what is filled.
            cells[mark.column] = mark.line if cells[mark.column] == " " else "▒"
        lines.append(_left(row, ticks) + "".join(cells).rstrip())
    lines.append(" " * (_LEFT - 1) + "└" + "─" * columns)
    lines.append(
        " " * _LEFT + _placed([(axis.share(tick), size_words(tick)) for tick in _ticks(axis, columns)], columns)
    )
    return [*lines, *(" " * _LEFT + _pointing(mark, columns) for mark in marks)]


def _left(row: int, ticks: list[float]) -> str:
    """Return the share at the top of a row, if a tick lies there, and the axis."""
    for tick in ticks[1:]:
        if round(tick / ticks[-1] * _HEIGHT) == row + 1:
            return f"{tick:g} %".rjust(_LEFT - 2) + " ┤"
    return " " * (_LEFT - 1) + "│"


def _cell(filled: float) -> str:
    """Return a character of which the lower part is filled; what is more than nothing shows."""
    if filled <= 0:
        return " "
    return _EIGHTHS[min(8, max(1, round(filled * 8)))]


def _marks(facts: CacheFacts, advice: Advice, axis: MemoryAxis, columns: int) -> list[_Mark]:
    def column(memory_bytes: float) -> int:
        return round(axis.share(memory_bytes) * (columns - 1))

    found = [_Mark(column(facts.memory_bytes), "│", words.mark(facts, advice))]
    wanted_bytes = advice.wanted_bytes
    if wanted_bytes is not None and axis.low_bytes <= wanted_bytes <= axis.high_bytes:
        wanted = _Mark(column(wanted_bytes), "┊", f"{size_words(wanted_bytes)}: {words.percent(1 - WANTED)} from disk")
        if wanted.column != found[0].column:
            found.append(wanted)
    return found


def _ticks(axis: MemoryAxis, columns: int) -> list[float]:
    return axis.ticks(columns // _TICK)


def _placed(labels: list[tuple[float, str]], columns: int) -> str:
    """Return labels on one line, each around its place; one that would touch the one before is left out."""
    line = ""
    for share, label in labels:
        start = min(max(0, round(share * (columns - 1)) - len(label) // 2), columns - len(label))
        if not line or start > len(line):
            line = line.ljust(start) + label
    return line


def _pointing(mark: _Mark, columns: int) -> str:
    """Return a mark's label beside an arrow to its column."""
    if mark.column + 2 + len(mark.label) <= columns:
        return " " * mark.column + f"▲ {mark.label}"
    return f"{mark.label} ▲".rjust(mark.column + 1)


def _readers(advice: Advice) -> list[str]:
    """Return a table of who misses, the worst first."""
    rows = [
        (
            shown_name(each.reader),
            words.percent(each.hit_ratio),
            rate_words(each.disk_bytes_per_s),
            words.percent(each.share),
        )
        for each in advice.misses[:_READERS_MAX]
    ]
    table = [("READER", "FROM MEMORY", "FROM DISK", "OF ALL MISSES"), *rows]
    widths = [max(columns_of(row[column]) for row in table) for column in range(4)]
    lines = [
        "  ".join(cell + " " * (width - columns_of(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    hidden = len(advice.misses) - len(rows)
    return ["", *lines, *([f"and {hidden} more"] if hidden else [])]
