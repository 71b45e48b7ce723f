"""Options of the Spark source: the arguments of `.option(`, checked before anything is read.

Names and meanings are those of Spark's own Kafka connector, so that a query moves between the two by changing its
format. Planning a query detects errors, and the message names the option and what to write instead.

Each subject has a module of its own: `names`, `reaching` (the brokers), `topics`, `places` (where to start and end) and
`values` (text as numbers).

Units: offsets count records; durations are milliseconds; sizes are bytes of record batches as the log stores them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from syncline.pipeline.client.offsets import EARLIEST, LATEST
from syncline.pipeline.client.settings import ClientSettings
from syncline.pipeline.errors import OptionError
from syncline.pipeline.options.values import count, duration_ms, flag, json_object, refuse
from syncline.pipeline.source import names
from syncline.pipeline.source.places import EveryPartition, Place, check_places, place_of
from syncline.pipeline.source.reaching import client_settings
from syncline.pipeline.source.topics import Topics, topics_of

_TRIGGER_DELAY_MS: Final = 15 * 60_000
_IDS_EXAMPLE: Final = '{"flights": "u8VbQ0aLTq6yDYbRrGw4Bw"}'


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """What bounds one micro-batch: `None` is no bound.

    A batch waits until `offsets_min` have arrived, but no longer than `delay_ms_max` after the batch before it.
    """

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_ms_max: int = _TRIGGER_DELAY_MS
    bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of one query, checked and typed; `ignored` are those without effect on it."""

    client: ClientSettings
    topics: Topics
    starting: Place
    ending: Place
    when_no_time_matches: Literal["error", "latest"]
    trigger: TriggerLimits
    partitions_min: int | None
    records_per_partition_max: int | None
    slots: int | None
    include_headers: bool
    include_gaps: bool
    include_vacancies: bool
    fail_on_data_loss: bool
    # By topic: read no other topic that has its name.
    topic_ids: Mapping[str, str]
    commit_group: str | None
    ignored: tuple[str, ...]

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> "SourceOptions":
        """Return the options that a user gave; raise `OptionError` for the first that is wrong."""
        options = names.known(given)
        names.check(options, streaming=streaming)
        starting = place_of(options, "starting", EveryPartition(LATEST if streaming else EARLIEST))
        ending = place_of(options, "ending", EveryPartition(LATEST))
        check_places(starting, ending, streaming=streaming)
        include_gaps = _has_gaps(options)
        fail_on_data_loss = flag(options, "failOnDataLoss", default=not include_gaps)
        if include_gaps and fail_on_data_loss:
            raise OptionError(
                "option includeGaps returns rows for lost records, but with failOnDataLoss=true the query fails "
                "instead: remove one of the two"
            )
        strategy = options.get("startingOffsetsByTimestampStrategy", "error").strip().lower()
        if strategy not in {"error", "latest"}:
            refuse("startingOffsetsByTimestampStrategy", strategy, "write error or latest")
        return cls(
            client=client_settings(options),
            topics=topics_of(options),
            starting=starting,
            ending=ending,
            when_no_time_matches="latest" if strategy == "latest" else "error",
            trigger=_trigger(options),
            partitions_min=count(options, "minPartitions"),
            records_per_partition_max=count(options, "maxRecordsPerPartition"),
            slots=count(options, "slots"),
            include_headers=flag(options, "includeHeaders", default=False),
            include_gaps=include_gaps,
            include_vacancies=_has_vacancies(options),
            fail_on_data_loss=fail_on_data_loss,
            topic_ids=_topic_ids(options),
            commit_group=_commit_group(options),
            ignored=names.without_effect(options, streaming=streaming),
        )


def optional_columns(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns that options add to the default schema; called before the query's kind is known."""
    options = names.known(given)
    headers = ("headers",) if flag(options, "includeHeaders", default=False) else ()
    return (*headers, "gap") if _has_gaps(options) else headers


def _has_gaps(options: Mapping[str, str]) -> bool:
    """Return whether there are rows for what is gone."""
    written = options.get("includeGaps", "false").strip().lower()
    if written not in {"true", "false", "all"}:
        refuse("includeGaps", options["includeGaps"], "write true, false or all")
    return written != "false"


def _has_vacancies(options: Mapping[str, str]) -> bool:
    """Return whether there are rows for offsets without a record, too."""
    return options.get("includeGaps", "").strip().lower() == "all"


def _trigger(options: Mapping[str, str]) -> TriggerLimits:
    limits = TriggerLimits(
        offsets_max=count(options, "maxOffsetsPerTrigger"),
        offsets_min=count(options, "minOffsetsPerTrigger"),
        delay_ms_max=_TRIGGER_DELAY_MS if (delay := duration_ms(options, "maxTriggerDelay")) is None else delay,
        bytes_max=count(options, "maxBytesPerTrigger"),
    )
    if limits.offsets_min and limits.offsets_max and limits.offsets_min > limits.offsets_max:
        raise OptionError(
            f"option minOffsetsPerTrigger, {limits.offsets_min}, is above maxOffsetsPerTrigger, "
            f"{limits.offsets_max}: no batch can satisfy both"
        )
    return limits


def _topic_ids(options: Mapping[str, str]) -> Mapping[str, str]:
    written = options.get("topicIds")
    if written is None:
        return {}
    found = json_object("topicIds", written, _IDS_EXAMPLE)
    if not all(isinstance(id_, str) and id_ for id_ in found.values()):
        refuse("topicIds", written, f"write topics with their ids: {_IDS_EXAMPLE}")
    return found


def _commit_group(options: Mapping[str, str]) -> str | None:
    """Return the consumer group whose offsets follow the query, `None` for none."""
    if not flag(options, "commitOffsetsToGroup", default=False):
        return None
    group = options.get("kafka.group.id", "").strip()
    if not group:
        raise OptionError("option commitOffsetsToGroup needs a group: name it in the option kafka.group.id")
    return group
