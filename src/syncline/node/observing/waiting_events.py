"""Events that wait to be written to the journal: bounded in number and in bytes, in their order.

When there are too many, the oldest samples are dropped first, then the oldest decisions. Samples and decisions wait
apart, so that what is dropped need not be looked for: a broker that samples thousands of partitions while the journal
cannot be written drops as many per interval.

One event may be a hundred times as large as another: a sample of a group has a row for each of many partitions. So
bytes count, too, as they are estimated from what an event holds.

Invariant: the numbers of the events rise in each of the two queues, and no two events have the same.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from heapq import merge
from itertools import count
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias, get_args, get_origin

from syncline.model.events import Event, Sample

# What an event takes that has nothing but numbers, and what a value in a list or a map of it takes.
EVENT_BYTES: Final = 600
VALUE_BYTES: Final = 64
# (Number, event, about how much memory it takes); by their numbers both queues are merged.
_Numbered: TypeAlias = tuple[int, Event, int]

_number: Final = itemgetter(0)


class _LongFields(NamedTuple):
    """The fields of one kind of event that may be long."""

    texts: tuple[str, ...]
    collections: tuple[str, ...]


def _long_fields(kind: type[Event]) -> _LongFields:
    declared = fields(kind)
    return _LongFields(
        tuple(each.name for each in declared if each.type is str),
        tuple(each.name for each in declared if get_origin(each.type) in {tuple, Mapping}),
    )


_LONG_FIELDS: Final[Mapping[type[Event], _LongFields]] = {kind: _long_fields(kind) for kind in get_args(Event)}


def held_bytes(event: Event) -> int:
    """Return about how much memory an event takes."""
    texts, collections = _LONG_FIELDS[type(event)]
    size_bytes = EVENT_BYTES
    for name in texts:
        size_bytes += len(getattr(event, name))
    for name in collections:
        size_bytes += _value_bytes(getattr(event, name))
    return size_bytes


def _value_bytes(value: object) -> int:
    if value is None or isinstance(value, (int, float)):
        return VALUE_BYTES
    if isinstance(value, str):
        return VALUE_BYTES + len(value)
    if isinstance(value, Mapping):
        return VALUE_BYTES + sum(map(_value_bytes, value.values()))
    assert isinstance(value, (tuple, list)), f"an event holds {value!r}"
    return VALUE_BYTES + sum(map(_value_bytes, value))


class WaitingEvents:
    """At most `events_max` events of one broker, which take `bytes_max` at most; one that is larger waits alone."""

    __slots__ = ("_bytes_max", "_decisions", "_events_max", "_first", "_numbers", "_samples", "_size_bytes")

    def __init__(self, events_max: int, bytes_max: int) -> None:
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._size_bytes = 0
        self._numbers = count()
        # Events that come back precede all others.
        self._first = 0
        self._samples: deque[_Numbered] = deque()
        self._decisions: deque[_Numbered] = deque()

    def __len__(self) -> int:
        return len(self._samples) + len(self._decisions)

    def __iter__(self) -> Iterator[Event]:
        """Iterate over the events in their order."""
        return (event for _, event, _ in merge(self._samples, self._decisions, key=_number))

    def append(self, event: Event) -> None:
        """Add an event as the last one; make room for it if there is none."""
        samples, decisions = self._samples, self._decisions
        size_bytes = held_bytes(event)
        while waiting := len(samples) + len(decisions):
            if waiting < self._events_max and self._size_bytes + size_bytes <= self._bytes_max:
                break
            _, _, dropped_bytes = (samples or decisions).popleft()
            self._size_bytes -= dropped_bytes
        self._size_bytes += size_bytes
        self._queue(event).append((next(self._numbers), event, size_bytes))

    def popleft(self) -> Event:
        """Remove and return the first event."""
        samples, decisions = self._samples, self._decisions
        is_sample = bool(samples) and (not decisions or samples[0][0] < decisions[0][0])
        _, event, size_bytes = (samples if is_sample else decisions).popleft()
        self._size_bytes -= size_bytes
        return event

    def put_back(self, events: Sequence[Event]) -> None:
        """Add the events that were removed last, in their order, before all others."""
        for event in reversed(events):
            self._first -= 1
            size_bytes = held_bytes(event)
            self._size_bytes += size_bytes
            self._queue(event).appendleft((self._first, event, size_bytes))
        for queue in (self._samples, self._decisions):
            assert len(queue) < 2 or queue[0][0] < queue[1][0], f"{queue[1]} comes before {queue[0]}"

    def _queue(self, event: Event) -> deque[_Numbered]:
        return self._samples if isinstance(event, Sample) else self._decisions
