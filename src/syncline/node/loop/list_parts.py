"""Parts: a request whose list is too long for one decision is decided part by part, and answered once.

A decision about a list takes the loop for as long as the list is. The parts are decided in order, each after the
answer to the one before; so other decisions may come between two parts, which is why only lists of independent items
may be divided.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

# Freeing one takes a quarter of a microsecond for each object in it.
DROPPED_AT_ONCE: Final = 500

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
_Reply = TypeVar("_Reply")


class CallsSoon(Protocol):
    """What parts use of the event loop."""

    def call_soon(self, callback: Callable[..., object], /, *args: Any) -> object:
        """Call `callback` in the next turn of the loop."""


def made_in_steps(items: Iterable[_Item], make: Callable[[_Item], _Made]) -> Generator[None, None, list[_Made]]:
    """Return what `make` makes of each item."""
    made: list[_Made] = []
    for item in items:
        made.append(make(item))
        yield
    return made


def dropped_in_steps(items: list[_Item]) -> Generator[None, None, None]:
    """Empty a list: a hundred thousand objects that are freed at once hold the event loop for fifty milliseconds."""
    while items:
        del items[-DROPPED_AT_ONCE:]
        yield


def in_parts(items: Sequence[_Item], size: int) -> list[Sequence[_Item]]:
    """Return `items` in parts of at most `size`; one empty part if there are none."""
    assert size > 0, f"parts of {size} items"
    return [items[start : start + size] for start in range(0, len(items), size)] or [items]


def in_independent_parts(
    items: Sequence[_Item],
    size: int,
    *,
    subject: Callable[[_Item], Hashable],
    weight: Callable[[_Item], int] = lambda _item: 1,
) -> Generator[None, None, list[Sequence[_Item]]]:
    """Return `items` in parts of a weight of at most `size`, so that items with one subject are in one part.

    Of those, two are kept: a repetition is refused, however often it is repeated. Items that fit into one part stay as
    they are, repetitions included.
    """
    total = 0
    for item in items:
        total += weight(item)
        if total > size:
            break
        yield
    else:
        return [items]
    by_subject: dict[Hashable, list[_Item]] = {}
    for item in items:
        kept = by_subject.setdefault(subject(item), [])
        if len(kept) < 2:
            kept.append(item)
        yield
    parts: list[Sequence[_Item]] = []
    part: list[_Item] = []
    part_weight = 0
    for kept in by_subject.values():
        kept_weight = sum(weight(item) for item in kept)
        if part and part_weight + kept_weight > size:
            parts.append(part)
            part, part_weight = [], 0
        part.extend(kept)
        part_weight += kept_weight
        yield
    parts.append(part)
    assert all(parts), "a part is empty"
    return parts


def decide_parts(
    loop: CallsSoon,
    parts: Sequence[Sequence[_Item]],
    decide: Callable[[Sequence[_Item], Callable[[_Reply], None]], None],
    answered: Callable[[list[_Reply]], None],
    *,
    goes_on: Callable[[_Reply], bool] = lambda _reply: True,
) -> None:
    """Have each part decided, and call `answered` with all replies; after one that ends it all, with those up to it.

    `decide` gets a part and the function that takes its reply, now or later. Each part but the first is decided in a
    turn of the loop of its own.
    """
    assert parts, "a request without parts would never be answered"
    decide(parts[0], _Replies(loop, parts, decide, answered, goes_on).take)


class _Replies(Generic[_Item, _Reply]):
    """The replies so far. A function that names itself would keep all of this until a full garbage collection."""

    __slots__ = ("_answered", "_decide", "_goes_on", "_loop", "_parts", "_replies")

    def __init__(
        self,
        loop: CallsSoon,
        parts: Sequence[Sequence[_Item]],
        decide: Callable[[Sequence[_Item], Callable[[_Reply], None]], None],
        answered: Callable[[list[_Reply]], None],
        goes_on: Callable[[_Reply], bool],
    ) -> None:
        self._loop = loop
        self._parts = parts
        self._decide = decide
        self._answered = answered
        self._goes_on = goes_on
        self._replies: list[_Reply] = []

    def take(self, reply: _Reply) -> None:
        """Have the next part decided, or answer."""
        replies = self._replies
        replies.append(reply)
        if len(replies) == len(self._parts) or not self._goes_on(reply):
            self._answered(replies)
        else:
            self._loop.call_soon(self._decide, self._parts[len(replies)], self.take)
