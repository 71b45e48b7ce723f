"""What a case is: one row of the catalogue."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.attack.scene import Scene
from tests.attack.stream import Stream


@dataclass(frozen=True)
class Size:
    """How much of it: `count` of what the case repeats, on how many connections.

    Connections that are not answered stay for `hold_s`; all is over after `limit_s`.
    """

    count: int
    connections: int = 1
    hold_s: float = 5.0
    limit_s: float = 20.0


def small(count: int, connections: int = 1) -> Size:
    """Return a size for the short form."""
    return Size(count, connections, hold_s=0.2)


Play = Callable[[Scene, Size], Sequence[Stream]]


@dataclass(frozen=True)
class Case:
    """One attack: its streams are played one after the other. `short` is its form in `make test`, None for none."""

    name: str
    sends: str
    play: Play
    whole: Size
    short: Size | None = None
