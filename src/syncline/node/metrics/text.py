"""The page that Prometheus reads, in its text format 0.0.4.

The samples of a metric follow a line with its meaning and one with its type, so they
are collected by name and written at the end. No library is used, because a sample
must cost only a fraction of a microsecond: there are ten for each partition.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from syncline.node.counting.counters import Histogram
from syncline.node.metrics.families import FAMILIES
from syncline.node.metrics.table import Family

SECTION_CHARS: Final = 500_000
# Of sections that are written in one turn of the loop.
BYTES_PER_SLICE: Final = 200_000
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_MEANING_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def header(family: Family) -> str:
    """Return the lines before the samples."""
    meaning = family.meaning.translate(_MEANING_ESCAPES)
    if family.unit not in ("1", "0 or 1"):
        meaning = f"{meaning} Unit: {family.unit}."
    return f"# HELP {family.name} {meaning}\n# TYPE {family.name} {family.kind}\n"


def labels_text(names: Sequence[str], values: Sequence[object]) -> str:
    """Return the labels as written after a metric's name."""
    assert len(names) == len(values), f"{len(values)} values for the labels {names}"
    pairs = (f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}" if names else ""


class Page:
    """The samples of one scrape. `lowercase` spells labels of several words as `lowercaseOutputLabelNames` does."""

    def __init__(self, families: Iterable[Family] = FAMILIES, *, lowercase: bool = True) -> None:
        self._families = tuple(families)
        self._lines: dict[str, list[str]] = {family.name: [] for family in self._families}
        self._lowercase = lowercase

    def lines(self, family: Family) -> list[str]:
        """Return the list of a metric's lines; a caller with thousands of samples appends to it directly."""
        return self._lines[family.name]

    def label_names(self, family: Family) -> tuple[str, ...]:
        """Return the names of a metric's labels, as this page spells them."""
        return tuple(label.lower() for label in family.labels) if self._lowercase else family.labels

    def add(self, family: Family, value: float, *labels: object) -> None:
        """Add one sample."""
        names = self.label_names(family) if labels else ()
        self._lines[family.name].append(f"{family.name}{labels_text(names, labels)} {value}\n")

    def add_histogram(self, family: Family, histogram: Histogram, *, per_unit: int = 1) -> None:
        """Add a histogram: the number of values up to each bound, their sum and their count.

        `per_unit` is how many of the histogram's units make one of the metric's: 1000 from ms to s.
        """
        lines = self._lines[family.name]
        count = 0
        for bound, in_bucket in zip((*histogram.bounds, "+Inf"), histogram.buckets, strict=True):
            count += in_bucket
            le = bound / per_unit if isinstance(bound, int) and per_unit != 1 else bound
            lines.append(f'{family.name}_bucket{{le="{le}"}} {count}\n')
        total = histogram.total if per_unit == 1 else histogram.total / per_unit
        lines.append(f"{family.name}_sum {total}\n{family.name}_count {count}\n")

    def sections(self) -> Iterator[bytes]:
        """Yield the page, one metric after the other, without metrics that have no samples, and empty it.

        A metric with very many samples comes in parts, each of which takes a millisecond or less. Its lines are freed
        with it: a hundred thousand that go at once hold the loop for ten milliseconds.
        """
        for family in self._families:
            lines = self._lines[family.name]
            if not lines:
                continue
            self._lines[family.name] = []
            part = [header(family)]
            size = 0
            for line in lines:
                part.append(line)
                size += len(line)
                if size >= SECTION_CHARS:
                    yield "".join(part).encode()
                    part, size = [], 0
            yield "".join(part).encode()


async def collected(page: Page) -> Sequence[bytes]:
    """Return the sections of a page; the loop is freed between some of them."""
    sections: list[bytes] = []
    unpaid_bytes = 0
    for section in page.sections():
        sections.append(section)
        unpaid_bytes += len(section)
        if unpaid_bytes > BYTES_PER_SLICE:
            unpaid_bytes = 0
            await asyncio.sleep(0)
    return sections
