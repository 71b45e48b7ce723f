"""Pages: which partitions one answer about many topics describes, and where the next one goes on.

Topics are described in the order of their names. A page is full when it has as many partitions as it may have; topics
that do not exist take no room. A topic may be created or deleted between two pages: the next one goes on at the first
name that is not smaller.
Source: KIP-966 (DescribeTopicPartitions).
"""

import heapq
from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from syncline.model.metadata import Topic

# Names that are put in order in one step, which takes less than a millisecond.
_ORDERED_AT_ONCE: Final = 1_000


class Place(NamedTuple):
    """Where a page begins: a partition of a topic, of which neither has to exist."""

    topic: str
    partition: int


class Span(NamedTuple):
    """The partitions of one topic from `start` up to `end`, exclusive; None for a topic that does not exist."""

    name: str
    topic: Topic | None
    start: int
    end: int


class Page(NamedTuple):
    """One answer; `next` is None after the last page."""

    spans: list[Span]
    next: Place | None


def page(
    topics: Mapping[str, Topic], names: Iterable[str], *, first: Place | None, partitions_max: int
) -> Generator[None, None, Page]:
    """Return the page of these topics that begins at `first`, in a step per name; smaller names are left out.

    With `partitions_max` below 1, a page has one partition.
    """
    wanted = yield from _in_order(name for name in names if first is None or name >= first.topic)
    spans: list[Span] = []
    left = max(1, partitions_max)
    for name in wanted:
        if not left:
            return Page(spans, Place(name, 0))
        topic = topics.get(name)
        count = 0 if topic is None else len(topic.partitions)
        start = min(count, first.partition) if first is not None and name == first.topic else 0
        end = min(count, start + left)
        spans.append(Span(name, topic, start, end))
        if end < count:
            return Page(spans, Place(name, end))
        left -= end - start
        yield
    return Page(spans, None)


def _in_order(names: Iterable[str]) -> Generator[None, None, Iterator[str]]:
    """Return names in order, each once: a hundred thousand at once would take tens of milliseconds."""
    parts: list[list[str]] = []
    part: list[str] = []
    for name in names:
        part.append(name)
        if len(part) == _ORDERED_AT_ONCE:
            parts.append(sorted(part))
            part = []
        yield
    return (name for name, _ in groupby(heapq.merge(*parts, sorted(part))))
