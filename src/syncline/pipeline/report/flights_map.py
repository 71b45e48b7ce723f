"""Picture 1: flights and delays per carrier and hour, as two heat maps that share their rows.

Left, how many flights were scheduled; right, how late they left on average. Colours come in a few named steps, so
that a reader can find a cell's step in the legend, and every cell also shows its number. The delay colours run from
blue (early) over grey to orange (late), which all common kinds of colour vision tell apart.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from syncline.pictures import svg
from syncline.pictures.labels import short
from syncline.pipeline.report.facts import Facts, FlightCell

_CELL: Final = (25.0, 23.0)
_GAP: Final = 2.0
_LEFT: Final = 136.0
_TOP: Final = 128.0
_COLUMN_BAR: Final = 46.0
_ROW_BAR: Final = 58.0
_BETWEEN: Final = 26.0
# As wide as the legend above it.
_COLUMNS_MIN: Final = 17

COUNT_STEPS: Final = (50, 200, 500, 1000, 2000, 3000)
DELAY_STEPS: Final = (0, 5, 10, 15, 20, 30)
# Below this many departures an average depends more on one bad day than on the hour.
DEPARTURES_MIN: Final = 20
# An hour with fewer flights in the whole year would be an almost empty column.
HOUR_FLIGHTS_MIN: Final = 30


@dataclass(frozen=True, slots=True)
class _Panel:
    """One heat map: its texts, and how a group of flights becomes a colour step and a number."""

    left: float
    title: str
    unit: str
    value: Callable[[Sequence[FlightCell]], float | None]
    steps: tuple[int, ...]
    style: str
    label: Callable[[float], str]


def draw(facts: Facts) -> str:
    """Return the picture."""
    hours = shown_hours(facts.cells)
    carriers = by_size(facts.cells)
    grid = {(cell.carrier, cell.hour): cell for cell in facts.cells}
    width = max(len(hours), _COLUMNS_MIN) * _CELL[0]
    second = _LEFT + width + _ROW_BAR + _BETWEEN
    panels = (
        _Panel(_LEFT, "Flights scheduled", "flights in the year", _count, COUNT_STEPS, "count", short),
        _Panel(second, "Mean departure delay", "minutes late", _delay, DELAY_STEPS, "delay", _minutes),
    )
    height = _TOP + len(carriers) * _CELL[1] + 52
    parts = [
        svg.text(_LEFT - 8, _row_y(row) + 15.5, f"{facts.carrier_names.get(code, '')} ", class_="ink end-anchor")
        + svg.text(8, _row_y(row) + 15.5, code, class_="mono muted")
        for row, code in enumerate(carriers)
    ]
    for panel in panels:
        parts += _panel(panel, carriers, hours, grid, facts.carrier_names)
    label = "Heat maps of scheduled flights and mean departure delay by carrier and local hour"
    return svg.drawing(second + width + _ROW_BAR + 4, height, label, *parts)


def shown_hours(cells: Sequence[FlightCell]) -> list[int]:
    """Return the hours that get a column, without gaps."""
    totals: dict[int, int] = {}
    for cell in cells:
        totals[cell.hour] = totals.get(cell.hour, 0) + cell.flight_count
    busy = [hour for hour, total in totals.items() if total >= HOUR_FLIGHTS_MIN]
    return list(range(min(busy), max(busy) + 1)) if busy else []


def by_size(cells: Sequence[FlightCell]) -> list[str]:
    """Return the carriers, the one with the most flights first."""
    totals: dict[str, int] = {}
    for cell in cells:
        totals[cell.carrier] = totals.get(cell.carrier, 0) + cell.flight_count
    return sorted(totals, key=lambda carrier: (-totals[carrier], carrier))


def _count(cells: Sequence[FlightCell]) -> float | None:
    return float(sum(cell.flight_count for cell in cells)) or None


def _delay(cells: Sequence[FlightCell]) -> float | None:
    departed = sum(cell.departed_count for cell in cells)
    return sum(cell.delay_sum_min for cell in cells) / departed if departed >= DEPARTURES_MIN else None


def _minutes(late: float) -> str:
    """Return whole minutes; a value that rounds to zero has no sign."""
    return str(round(late))


def _row_y(row: int) -> float:
    return _TOP + row * _CELL[1]


def _panel(
    panel: _Panel,
    carriers: Sequence[str],
    hours: Sequence[int],
    grid: Mapping[tuple[str, int], FlightCell],
    names: Mapping[str, str],
) -> list[str]:
    bottom = _row_y(len(carriers))
    parts = [
        svg.text(panel.left, 20, panel.title, class_="heading"),
        *_legend(panel),
        *_column_bars(panel, hours, grid),
        *_row_bars(panel, carriers, hours, grid),
        svg.text(
            panel.left + len(hours) * _CELL[0] / 2, bottom + 36, "scheduled local hour of departure", class_="muted mid"
        ),
    ]
    for column, hour in enumerate(hours):
        x = panel.left + column * _CELL[0]
        parts.append(svg.text(x + _CELL[0] / 2 - 1, bottom + 16, f"{hour}", class_="tick mid"))
        for row, carrier in enumerate(carriers):
            cell = grid.get((carrier, hour))
            name = f"{names.get(carrier, carrier)}, {hour}:00"
            parts.append(_cell(panel, x, _row_y(row), cell, name))
    return parts


def _cell(panel: _Panel, x: float, y: float, cell: FlightCell | None, name: str) -> str:
    width, height = _CELL[0] - _GAP, _CELL[1] - _GAP
    value = panel.value([cell]) if cell else None
    if cell is None or value is None:
        why = "no flights" if cell is None else f"{cell.departed_count} departures, too few for an average"
        return svg.rect(x, y, width, height, svg.tip(f"{name}: {why}"), class_="void", rx=3)
    step = bisect_right(panel.steps, value)
    late = cell.mean_delay_min
    tip = f"{name}: {cell.flight_count:,} flights" + ("" if late is None else f", left {late:.1f} min late on average")
    return svg.rect(x, y, width, height, svg.tip(tip), class_=f"{panel.style}{step}", rx=3) + svg.text(
        x + width / 2, y + 14.5, panel.label(value), class_=f"cell mid on-{panel.style}{step}"
    )


def _legend(panel: _Panel) -> list[str]:
    """Return the colour steps under the title, each named by its lower bound."""
    parts, x, y, width = [], panel.left, 31.0, 44.0
    for step in range(len(panel.steps) + 1):
        below = f"<{panel.steps[0]:,}" if step == 0 else None
        above = f"{panel.steps[-1]:,}+" if step == len(panel.steps) else None
        name = below or above or f"{panel.steps[step - 1]:,}–"
        parts.append(svg.rect(x + step * width, y, width - 2, 13, class_=f"{panel.style}{step}", rx=2))
        shown = name if not name[0].isdigit() or "+" in name else name[:-1] + "+"
        parts.append(svg.text(x + step * width + (width - 2) / 2, y + 26, shown, class_="tick mid"))
    parts.append(svg.text(x + (len(panel.steps) + 1) * width + 6, y + 11, panel.unit, class_="tick"))
    return parts


def _column_bars(panel: _Panel, hours: Sequence[int], grid: Mapping[tuple[str, int], FlightCell]) -> list[str]:
    """Return a bar above each hour for all carriers together."""
    totals = [panel.value([cell for (_, at), cell in grid.items() if at == hour]) or 0.0 for hour in hours]
    high, base = max(totals, default=1.0) or 1.0, _TOP - 6
    parts = []
    for column, total in enumerate(totals):
        height = max(total, 0.0) / high * (_COLUMN_BAR - 12)
        x = panel.left + column * _CELL[0]
        tip = svg.tip(f"{hours[column]}:00, all carriers: {panel.label(total)} {panel.unit}")
        parts.append(
            svg.rect(x + 3, base - height, _CELL[0] - _GAP - 6, height, tip, class_=f"{panel.style}-bar", rx=1.5)
        )
        parts.append(svg.text(x + _CELL[0] / 2 - 1, base - height - 3, panel.label(total), class_="tick mid tiny"))
    return parts


def _row_bars(
    panel: _Panel, carriers: Sequence[str], hours: Sequence[int], grid: Mapping[tuple[str, int], FlightCell]
) -> list[str]:
    """Return a bar behind each carrier for all its hours together."""
    totals = [panel.value([cell for (code, _), cell in grid.items() if code == carrier]) or 0.0 for carrier in carriers]
    high, x = max(totals, default=1.0) or 1.0, panel.left + len(hours) * _CELL[0] + 4
    parts = []
    for row, total in enumerate(totals):
        width = max(total, 0.0) / high * (_ROW_BAR - 30)
        parts.append(
            svg.rect(x, _row_y(row) + 5, max(width, 1.0), _CELL[1] - _GAP - 10, class_=f"{panel.style}-bar", rx=1.5)
        )
        parts.append(svg.text(x + max(width, 1.0) + 4, _row_y(row) + 15, panel.label(total), class_="tick"))
    return parts
