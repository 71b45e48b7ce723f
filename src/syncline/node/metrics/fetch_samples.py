"""How far back consumers read, as histograms: KIP-489's two, and ours by topic and by client.

Of topics and clients the first 50 that appear have samples of their own, and the rest share one: a counter that moved
from one of these to the other would look like a burst. Samples of a topic go with it, and a new one may have its place.
"""

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final

from syncline.core.lag.buckets import Weighted
from syncline.node.counting.counters import Histogram
from syncline.node.lag.fetch_lag import OTHER, Cell, FetchLag
from syncline.node.metrics import lag_table, table
from syncline.node.metrics.table import Family
from syncline.node.metrics.text import Page, labels_text

CELLS_PER_SLICE: Final = 40
NAMES_MAX: Final = 50
# No topic can have this name, and few clients do.
OTHERS: Final = "(others)"
# How many of the histogram's units make one of the metric's.
_MS_PER_S: Final = 1_000


class _Names:
    """Which names have samples of their own, and which share one, for good."""

    def __init__(self) -> None:
        self._own: dict[str, None] = {}
        self._sharing: dict[str, None] = {OTHER: None}

    def shown(self, name: str) -> str:
        """Return under which name it is counted."""
        if name not in self._own:
            if name in self._sharing or len(self._own) >= NAMES_MAX:
                self._sharing[name] = None
                return OTHERS
            self._own[name] = None
        return name

    def shown_of_gone(self, name: str) -> str | None:
        """Return under which name it is counted still: None if it had samples of its own, which go with it."""
        self._own.pop(name, None)
        return OTHERS if name in self._sharing else None


class FetchSamples:
    """Writes what the consumers of one broker read."""

    def __init__(self, lag: FetchLag) -> None:
        self._lag = lag
        self._topics = _Names()
        self._clients = _Names()

    async def write(self, page: Page, existing: Container[str], *, is_detailed: bool) -> None:
        """Write the sums of all cells, and with `is_detailed` those of clients and of topics that are `existing`."""
        total = Cell()
        topics: dict[str, Cell] = {}
        clients: dict[str, Cell] = {}
        number = 0
        for reader in list(self._lag.readers()):
            for topic, cell in list(reader.by_topic()):
                total.add(cell)
                if is_detailed:
                    is_gone = topic != OTHER and topic not in existing
                    name = self._topics.shown_of_gone(topic) if is_gone else self._topics.shown(topic)
                    if name is not None:
                        topics.setdefault(name, Cell()).add(cell)
                    clients.setdefault(self._clients.shown(reader.client_id), Cell()).add(cell)
                number += 1
                if number % CELLS_PER_SLICE == 0:
                    await asyncio.sleep(0)
        empty = self._lag.empty_fetches
        page.add_histogram(table.FETCH_LAG_TIME, _by_fetches(total.event_ms, empty))
        page.add_histogram(table.FETCH_LAG_BYTES, _by_fetches(total.behind_bytes, empty))
        page.add(lag_table.EMPTY_FETCHES, empty)
        _add(page, lag_table.FETCH_LAG, total.behind_bytes)
        _add(page, lag_table.FETCH_AGE, total.age_ms, per_unit=_MS_PER_S)
        _add(page, lag_table.FETCH_DISTANCE, total.distance_bytes)
        await _add_all(page, lag_table.TOPIC_FETCH_LAG, topics, lambda cell: cell.behind_bytes)
        await _add_all(page, lag_table.TOPIC_FETCH_EVENT_LAG, topics, lambda cell: cell.event_ms, per_unit=_MS_PER_S)
        await _add_all(page, lag_table.CLIENT_FETCH_LAG, clients, lambda cell: cell.behind_bytes)
        await _add_all(page, lag_table.CLIENT_FETCH_EVENT_LAG, clients, lambda cell: cell.event_ms, per_unit=_MS_PER_S)


async def _add_all(
    page: Page, family: Family, cells: Mapping[str, Cell], of: Callable[[Cell], Weighted], *, per_unit: int = 1
) -> None:
    for name, cell in cells.items():
        _add(page, family, of(cell), ((family.labels[0], name),), per_unit=per_unit)
        await asyncio.sleep(0)


def _add(
    page: Page, family: Family, counted: Weighted, labels: Iterable[tuple[str, str]] = (), *, per_unit: int = 1
) -> None:
    """Write a histogram twice: by fetches, and by the bytes that they returned."""
    bounds = [counted.scale.bound(index) for index in range(counted.scale.bound_count)]
    edges = [str(bound if per_unit == 1 else bound / per_unit) for bound in bounds]
    weights = (
        ("fetch", counted.fetches, counted.sum_by_fetches),
        ("bytes", counted.bytes, counted.sum_by_bytes),
    )
    lines = page.lines(family)
    for weight, buckets, total in weights:
        names, values = zip(*labels, ("weight", weight), strict=True)
        text = labels_text(names, values)
        lines.append("".join(_buckets(family.name, text[:-1], edges, buckets)))
        shown = total if per_unit == 1 else total / per_unit
        lines.append(f"{family.name}_sum{text} {shown}\n{family.name}_count{text} {sum(buckets)}\n")


def _buckets(name: str, labels: str, edges: Sequence[str], buckets: Sequence[int]) -> Iterable[str]:
    count = 0
    for edge, in_bucket in zip((*edges, "+Inf"), buckets, strict=True):
        count += in_bucket
        yield f'{name}_bucket{labels},le="{edge}"}} {count}\n'


def _by_fetches(counted: Weighted, zeros: int) -> Histogram:
    """Return how many fetches found which lag, with so many more that found none."""
    histogram = Histogram([counted.scale.bound(index) for index in range(counted.scale.bound_count)])
    histogram.buckets = list(counted.fetches)
    histogram.buckets[0] += zeros
    histogram.total = counted.sum_by_fetches
    return histogram
