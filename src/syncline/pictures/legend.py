"""Legends: a row of samples with their names, each as wide as its name needs."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from syncline.pictures import svg
from syncline.pictures.labels import CHARACTER_PX

_TO_NAME: Final = 8.0
_TO_NEXT: Final = 26.0
_ROW: Final = 24.0


class Entry(NamedTuple):
    """A sample of `width` pixels and its meaning; `draw` gets its left end and the text's baseline."""

    name: str
    width: float
    draw: Callable[[float, float], str]
    style: str = "ink"


def box(name: str, style: str, *, width: float = 34.0, height: float = 10.0, rx: float | None = None) -> Entry:
    """Return an entry for an area."""
    return Entry(name, width, lambda x, y: svg.rect(x, y - 4 - height / 2, width, height, class_=style, rx=rx))


def stroke(name: str, style: str, *, width: float = 34.0) -> Entry:
    """Return an entry for a line."""
    return Entry(name, width, lambda x, y: svg.line(x, y - 4, x + width, y - 4, class_=style))


def row(entries: Sequence[Entry], left: float, baseline: float, *, right: float) -> list[str]:
    """Return the legend; entries that would pass `right` begin another row below."""
    parts, x, y = [], left, baseline
    for entry in entries:
        width = entry.width + _TO_NAME + len(entry.name) * CHARACTER_PX
        if x > left and x + width > right:
            x, y = left, y + _ROW
        parts.append(entry.draw(x, y))
        parts.append(svg.text(x + entry.width + _TO_NAME, y, entry.name, class_=entry.style))
        x += width + _TO_NEXT
    return parts
