"""Which topics a query reads: exactly one of the options `subscribe`, `subscribePattern` and `assign` says so."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.pipeline.errors import OptionError
from syncline.pipeline.options.values import json_object, partition_number, refuse
from syncline.pipeline.source.patterns import TopicPattern, compiled

_ASSIGN_EXAMPLE: Final = '{"flights": [0, 1]}'


@dataclass(frozen=True, slots=True)
class Topics:
    """Which topics to read: `names`, all with a name that matches `pattern`, or exactly the `assigned` partitions."""

    names: tuple[str, ...] = ()
    pattern: TopicPattern | None = None
    assigned: tuple[TopicPartition, ...] = ()

    def chooses(self, place: TopicPartition) -> bool:
        """Return whether a partition is one of these, if it exists."""
        if self.pattern is not None:
            return self.pattern.matches(place.topic)
        return place in self.assigned if self.assigned else place.topic in self.names

    def read(self, name: str) -> bool:
        """Return whether a topic of this name would be read, at least one partition of it."""
        is_matched = self.pattern is not None and self.pattern.matches(name)
        return is_matched or name in self.names or any(place.topic == name for place in self.assigned)


def topics_of(options: Mapping[str, str]) -> Topics:
    """Return which topics to read; raise `OptionError` unless one option says so in a way that makes sense."""
    given = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(given) != 1:
        found = f"found {' and '.join(given)}" if given else "found none"
        raise OptionError(f"exactly one of the options subscribe, subscribePattern and assign is needed: {found}")
    written = options[given[0]].strip()
    if given == ["subscribe"]:
        names = tuple(sorted({name.strip() for name in written.split(",") if name.strip()}))
        if not names:
            refuse("subscribe", written, "write one or more topic names, with commas")
        return Topics(names=names)
    if given == ["subscribePattern"]:
        if not written:
            refuse("subscribePattern", written, "write a regular expression for whole names, such as flights-.*")
        compiled(written)
        return Topics(pattern=TopicPattern(written))
    return Topics(assigned=_assigned(written))


def _assigned(written: str) -> tuple[TopicPartition, ...]:
    content = json_object("assign", written, _ASSIGN_EXAMPLE)
    try:
        assigned = {
            TopicPartition(topic, partition_number(index))
            for topic, indexes in content.items()
            for index in _listed(indexes)
        }
    except (TypeError, ValueError):
        refuse("assign", written, f"write topics with lists of partition numbers, such as {_ASSIGN_EXAMPLE}")
    if not assigned:
        refuse("assign", written, f"name at least one partition, such as {_ASSIGN_EXAMPLE}")
    return tuple(sorted(assigned))


def _listed(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value
