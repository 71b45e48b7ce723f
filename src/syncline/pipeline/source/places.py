"""Places: where a query starts and ends in each partition, by offset or by time.

One timestamp for all goes before timestamps by partition, and both go before offsets, as in the connector.

Units: offsets count records, ending offsets are exclusive; timestamps are Unix milliseconds; -2 stands for the
earliest and -1 for the latest offset, in JSON as in the connector.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.offsets import EARLIEST, LATEST
from syncline.pipeline.options.values import integer, json_object, number, partition_number, refuse

Side: TypeAlias = Literal["starting", "ending"]

_OFFSETS_EXAMPLE: Final = 'earliest, latest or {"flights": {"0": 23, "1": -2}}'
_TIMES_EXAMPLE: Final = '{"flights": {"0": 1356998400000}}'


@dataclass(frozen=True, slots=True)
class EveryPartition:
    """One place for all partitions: an offset such as EARLIEST, or, with `by_time`, a timestamp."""

    value: int
    by_time: bool = False


@dataclass(frozen=True, slots=True)
class PerPartition:
    """A place for each partition: offsets, or timestamps."""

    values: Mapping[TopicPartition, int]
    by_time: bool = False


Place: TypeAlias = EveryPartition | PerPartition


def written(place: Place) -> dict[TopicPartition, int]:
    """Return the offsets that the user wrote as such."""
    if isinstance(place, EveryPartition) or place.by_time:
        return {}
    return {partition: offset for partition, offset in place.values.items() if offset >= 0}


def without(place: Place, topics: Container[str]) -> Place:
    """Return the place without those of some topics."""
    if isinstance(place, EveryPartition):
        return place
    return replace(place, values={key: value for key, value in place.values.items() if key.topic not in topics})


def place_of(options: Mapping[str, str], side: Side, default: EveryPartition) -> Place:
    """Return where to start or end; raise `OptionError` for a value that makes no sense."""
    name = f"{side}Timestamp"
    if name in options:
        time_ms = number(options[name])
        if time_ms is None:
            refuse(name, options[name], "write Unix milliseconds, such as 1356998400000")
        return EveryPartition(time_ms, by_time=True)
    name = f"{side}OffsetsByTimestamp"
    if name in options:
        return PerPartition(_per_partition(name, options[name], _TIMES_EXAMPLE, lambda value: value >= 0), by_time=True)
    name = f"{side}Offsets"
    if name not in options:
        return default
    written = options[name].strip()
    if written.lower() == "earliest":
        return EveryPartition(EARLIEST)
    if written.lower() == "latest":
        return EveryPartition(LATEST)
    return PerPartition(_per_partition(name, written, _OFFSETS_EXAMPLE, lambda value: value >= EARLIEST))


def check_places(starting: Place, ending: Place, *, streaming: bool) -> None:
    """Raise `OptionError` for places between which there can be nothing."""
    if not streaming and not starting.by_time and LATEST in _values(starting):
        refuse("startingOffsets", "latest", "a batch query would read nothing; use earliest, offsets or a timestamp")
    if not ending.by_time and EARLIEST in _values(ending):
        refuse("endingOffsets", "earliest", "the query would read nothing; use latest, offsets or a timestamp")


def _values(place: Place) -> Iterable[int]:
    return (place.value,) if isinstance(place, EveryPartition) else place.values.values()


def _per_partition(name: str, written: str, example: str, accept: Callable[[int], bool]) -> dict[TopicPartition, int]:
    content = json_object(name, written, example)
    found: dict[TopicPartition, int] = {}
    try:
        for topic, values in content.items():
            for index, value in values.items():
                found[TopicPartition(topic, partition_number(index))] = integer(value)
    except (AttributeError, TypeError, ValueError):
        refuse(name, written, f"write topics with partitions and numbers: {example}")
    if not found or not all(accept(value) for value in found.values()):
        refuse(name, written, f"each partition needs a valid number: {example}")
    return found
