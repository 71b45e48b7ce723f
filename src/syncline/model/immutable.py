"""What immutable records have in common: equality, hash and text.

`dataclasses` writes these anew for each class, as source that it compiles whenever a process starts, and that took a
tenth of the start of a broker. So records that brokers load take them from here:

    @dataclass(frozen=True, slots=True, eq=False, repr=False)
    class Place(Immutable): ...

They mean the same as those of `dataclasses`: two values are equal if their classes and all their compared fields are.
"""

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from syncline.model.compiled import mypyc_attr

_COMPARED: Final[dict[type, Callable[[Any], object]]] = {}


@mypyc_attr(allow_interpreted_subclasses=True)
class Immutable:
    """A record whose fields say everything about it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Return whether the other one is of the same class, and has equal fields."""
        if other.__class__ is not self.__class__:
            return False
        compared = _compared(self.__class__)
        return compared(self) == compared(other)

    def __hash__(self) -> int:
        """Return the hash of the fields."""
        return hash(_compared(self.__class__)(self))

    def __repr__(self) -> str:
        """Return the class and its fields, as `dataclasses` does."""
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)  # type: ignore[arg-type]
        return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _compared(of: type) -> Callable[[Any], object]:
    """Return what reads the compared fields of a class."""
    found = _COMPARED.get(of)
    if found is None:
        names = [each.name for each in fields(of) if each.compare]
        found = _COMPARED[of] = attrgetter(*names) if names else _nothing
    return found


def _nothing(_: object) -> tuple[()]:
    return ()
