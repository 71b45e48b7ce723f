"""Options of the Spark source: the arguments of `.option(`, checked before anything is read.

Names and meanings are those of Spark's own Kafka connector, so that a query moves between the two by changing its
format. Planning a query detects a mistake, and the message names the option and what to write instead; a misspelled
option is a mistake too, because the connector ignores it, which costs users hours.

Units: offsets count records, ending offsets are exclusive; timestamps are Unix milliseconds; -2 stands for the
earliest and -1 for the latest offset, in JSON as in the connector.
"""

import difflib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, TypeAlias

from syncline.model.ids import TopicPartition
from syncline.pipeline.broker_client import EARLIEST, LATEST, ClientSettings

log = logging.getLogger(__name__)

_ASSIGN_EXAMPLE: Final = '{"flights": [0, 1]}'
_OFFSETS_EXAMPLE: Final = '{"flights": {"0": 23, "1": -2}}'
_TIMES_EXAMPLE: Final = '{"flights": {"0": 1356998400000}}'

_NAMES: Final = (
    "kafka.bootstrap.servers",
    "bootstrap",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "failOnDataLoss",
    "fetchBytes",
    "kafkaConsumer.pollTimeoutMs",
    "groupIdPrefix",
)
_BY_LOWER_NAME: Final = {name.lower(): name for name in _NAMES}
_STREAM_ONLY: Final = ("maxOffsetsPerTrigger",)
_BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")

# The connector refuses these, too: obeying them would break the source.
_FORBIDDEN: Final = {
    "kafka.auto.offset.reset": "use startingOffsets to say where to begin",
    "kafka.key.deserializer": "keys arrive as binary; cast them in the query",
    "kafka.value.deserializer": "values arrive as binary; cast them in the query",
    "kafka.enable.auto.commit": "Spark keeps the offsets in the checkpoint; remove it",
    "kafka.interceptor.classes": "the source runs no Java classes; remove it",
}
_SECURITY: Final = ("kafka.sasl.", "kafka.ssl.")


class OptionError(ValueError):
    """An option is missing, misspelled or invalid; the message names it and what to write instead."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Which topics to read: `names`, all with a name that matches `pattern`, or exactly the `assigned` partitions."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


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


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of one query, checked and typed."""

    client: ClientSettings
    topics: Topics
    starting: Place
    ending: Place
    when_no_time_matches: Literal["error", "latest"]
    offsets_per_trigger_max: int | None
    partitions_min: int | None
    records_per_partition_max: int | None
    include_headers: bool
    fail_on_data_loss: bool

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> "SourceOptions":
        """Return the options that a user gave; raise `OptionError` for the first that is wrong."""
        options = {_BY_LOWER_NAME.get(name.lower(), name.lower()): str(value) for name, value in given.items()}
        _check_names(options, streaming=streaming)
        starting = _place(options, "starting", EveryPartition(LATEST if streaming else EARLIEST))
        ending = _place(options, "ending", EveryPartition(LATEST))
        _check_places(starting, ending, streaming=streaming)
        strategy = options.get("startingOffsetsByTimestampStrategy", "error").lower()
        if strategy not in {"error", "latest"}:
            _refuse("startingOffsetsByTimestampStrategy", strategy, "write error or latest")
        return cls(
            client=_client(options),
            topics=_topics(options),
            starting=starting,
            ending=ending,
            when_no_time_matches="latest" if strategy == "latest" else "error",
            offsets_per_trigger_max=_count(options, "maxOffsetsPerTrigger"),
            partitions_min=_count(options, "minPartitions"),
            records_per_partition_max=_count(options, "maxRecordsPerPartition"),
            include_headers=_flag(options, "includeHeaders", default=False),
            fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
        )


def includes_headers(given: Mapping[str, str]) -> bool:
    """Return whether the default schema has the column `headers`; called before the query's kind is known."""
    lowered = {name.lower(): str(value) for name, value in given.items()}
    return _flag({"includeHeaders": lowered.get("includeheaders", "false")}, "includeHeaders", default=False)


def _refuse(name: str, value: str, advice: str) -> NoReturn:
    raise OptionError(f"option {name} cannot be {value!r}: {advice}")


def _check_names(options: Mapping[str, str], *, streaming: bool) -> None:
    for name in options:
        if name in _FORBIDDEN:
            raise OptionError(f"option {name} is not supported: {_FORBIDDEN[name]}")
        if name.startswith(_SECURITY):
            raise OptionError(f"option {name} is not supported: this source speaks plain TCP; use a PLAINTEXT listener")
        if name == "kafka.security.protocol" and options[name].upper() != "PLAINTEXT":
            _refuse(name, options[name], "this source speaks plain TCP; use a PLAINTEXT listener")
        if name not in _NAMES and not name.startswith("kafka."):
            close = difflib.get_close_matches(name, _BY_LOWER_NAME, n=1)
            hint = f"; did you mean {_BY_LOWER_NAME[close[0]]}?" if close else f"; known are {', '.join(_NAMES)}"
            raise OptionError(f"option {name} does not exist{hint}")
        if streaming and name in _BATCH_ONLY:
            raise OptionError(
                f"option {name} is for batch queries: a stream has no end; "
                "use trigger(availableNow=True) to stop at the latest offset"
            )
        if not streaming and name in _STREAM_ONLY:
            log.warning("option %s is ignored: it limits a streaming trigger and this is a batch query", name)


def _client(options: Mapping[str, str]) -> ClientSettings:
    written = options.get("kafka.bootstrap.servers") or options.get("bootstrap")
    if not written:
        raise OptionError(
            "option kafka.bootstrap.servers is missing: write host:port of one or more brokers, with commas"
        )
    isolation = options.get("kafka.isolation.level", "read_uncommitted").lower()
    if isolation not in {"read_uncommitted", "read_committed"}:
        _refuse("kafka.isolation.level", isolation, "write read_uncommitted or read_committed")
    return ClientSettings(
        bootstrap=tuple(_address(part.strip()) for part in written.split(",") if part.strip()),
        client_id=options.get("kafka.client.id", "syncline-source"),
        read_committed=isolation == "read_committed",
        request_timeout_ms=_count(options, "kafka.request.timeout.ms") or 30_000,
        timeout_ms=_count(options, "kafkaConsumer.pollTimeoutMs") or 120_000,
        fetch_bytes_max=_count(options, "fetchBytes") or _count(options, "kafka.max.partition.fetch.bytes") or 2 << 20,
    )


def _address(written: str) -> tuple[str, int]:
    host, colon, port = written.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        _refuse("kafka.bootstrap.servers", written, "write host:port, such as localhost:9092")
    return host.strip("[]"), int(port)


def _topics(options: Mapping[str, str]) -> Topics:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(given) != 1:
        found = f"found {' and '.join(given)}" if given else "found none"
        raise OptionError(f"exactly one of the options subscribe, subscribePattern and assign is needed: {found}")
    written = options[given[0]].strip()
    if given == ["subscribe"]:
        names = tuple(sorted({name.strip() for name in written.split(",") if name.strip()}))
        if not names:
            _refuse("subscribe", written, "write one or more topic names, with commas")
        return Topics(names=names)
    if given == ["subscribePattern"]:
        try:
            re.compile(written)
        except re.error as error:
            _refuse("subscribePattern", written, f"it is no regular expression: {error}")
        return Topics(pattern=written)
    content = _json("assign", written, _ASSIGN_EXAMPLE)
    try:
        assigned = {TopicPartition(topic, _integer(index)) for topic, indexes in content.items() for index in indexes}
    except (TypeError, ValueError):
        _refuse("assign", written, f"write topics with lists of partition numbers, such as {_ASSIGN_EXAMPLE}")
    if not assigned:
        _refuse("assign", written, f"name at least one partition, such as {_ASSIGN_EXAMPLE}")
    return Topics(assigned=tuple(sorted(assigned)))


def _place(options: Mapping[str, str], side: Literal["starting", "ending"], default: EveryPartition) -> Place:
    """Return where to start or end: one timestamp precedes timestamps by partition, and both precede offsets."""
    name = f"{side}Timestamp"
    if name in options:
        return EveryPartition(_non_negative(name, options[name]), by_time=True)
    name = f"{side}OffsetsByTimestamp"
    if name in options:
        return PerPartition(_per_partition(name, options[name], _TIMES_EXAMPLE, lambda value: value >= 0), by_time=True)
    name = f"{side}Offsets"
    written = options.get(name, "").strip()
    if not written:
        return default
    if written.lower() == "earliest":
        return EveryPartition(EARLIEST)
    if written.lower() == "latest":
        return EveryPartition(LATEST)
    return PerPartition(
        _per_partition(name, written, f"earliest, latest or {_OFFSETS_EXAMPLE}", lambda value: value >= EARLIEST)
    )


def _check_places(starting: Place, ending: Place, *, streaming: bool) -> None:
    if not streaming and not starting.by_time and LATEST in _values(starting):
        _refuse("startingOffsets", "latest", "a batch query would read nothing; use earliest, offsets or a timestamp")
    if not ending.by_time and EARLIEST in _values(ending):
        _refuse("endingOffsets", "earliest", "the query would read nothing; use latest, offsets or a timestamp")


def _values(place: Place) -> Iterable[int]:
    return (place.value,) if isinstance(place, EveryPartition) else place.values.values()


def _per_partition(name: str, written: str, example: str, accept: Callable[[int], bool]) -> dict[TopicPartition, int]:
    content = _json(name, written, example)
    found: dict[TopicPartition, int] = {}
    try:
        for topic, values in content.items():
            for index, value in values.items():
                found[TopicPartition(topic, int(index))] = _integer(value)
    except (AttributeError, TypeError, ValueError):
        _refuse(name, written, f"write topics with partitions and numbers: {example}")
    if not found or not all(accept(value) for value in found.values()):
        _refuse(name, written, f"each partition needs a number that makes sense: {example}")
    return found


def _json(name: str, written: str, example: str) -> dict[str, Any]:
    try:
        content = json.loads(written)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        _refuse(name, written, f"write {example}")
    return content


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _non_negative(name: str, written: str) -> int:
    if not written.strip().isdigit():
        _refuse(name, written, "write Unix milliseconds, such as 1356998400000")
    return int(written)


def _count(options: Mapping[str, str], name: str) -> int | None:
    written = options.get(name)
    if written is None:
        return None
    if not written.strip().isdigit() or int(written) == 0:
        _refuse(name, written, "write a whole number above 0")
    return int(written)


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    written = options.get(name, str(default)).strip().lower()
    if written not in {"true", "false"}:
        _refuse(name, written, "write true or false")
    return written == "true"
