"""Names of options: which exist, and which belong to streams or to batches.

A `kafka.*` name must be one of Kafka's client configurations. Of those, few concern this source: the others are
accepted, because the same options serve the connector, and `without_effect` lists them for one line in the log.
"""

from collections.abc import Mapping
from typing import Final

from syncline.pipeline.client.security_options import OWN_NAMES, is_security_option
from syncline.pipeline.errors import OptionError
from syncline.pipeline.options import kafka_names
from syncline.pipeline.options.names import KAFKA, check_kafka, refuse_unknown

_NAMES: Final = (
    "kafka.bootstrap.servers",
    "bootstrap",
    "bootstrapTimeoutMs",
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
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "slots",
    "includeHeaders",
    "includeGaps",
    "topicIds",
    "failOnDataLoss",
    "fetchBytes",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "commitOffsetsToGroup",
    *OWN_NAMES,
)
_BY_LOWER_NAME: Final = {name.lower(): name for name in _NAMES}
_STREAM_ONLY: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "commitOffsetsToGroup",
)
_BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "topicIds")

# The Kafka configurations that the source uses; all others have no effect.
_EFFECTIVE: Final = frozenset(
    {
        "kafka.bootstrap.servers",
        "kafka.client.id",
        "kafka.group.id",
        "kafka.isolation.level",
        "kafka.max.partition.fetch.bytes",
        "kafka.request.timeout.ms",
    }
)

# The connector refuses these, too: they would break the source.
_FORBIDDEN: Final = {
    "kafka.auto.offset.reset": "use startingOffsets to say where to begin",
    "kafka.key.deserializer": "keys arrive as binary; cast them in the query",
    "kafka.value.deserializer": "values arrive as binary; cast them in the query",
    "kafka.enable.auto.commit": "Spark keeps the offsets in the checkpoint; remove it",
    "kafka.interceptor.classes": "the source runs no Java classes; remove it",
}

# What a writer needs, and what `load("flights")` sets.
_INSTEAD: Final = dict.fromkeys(("topic", "topics", "path"), "name the topics to read in the option subscribe")


def known(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options under the names of this page, whatever their case: Spark lowers it on some of its ways."""
    return {_BY_LOWER_NAME.get(name.lower(), name.lower()): str(value) for name, value in given.items()}


def check(options: Mapping[str, str], *, streaming: bool) -> None:
    """Raise `OptionError` for the first option that does not exist or cannot be used in this kind of query."""
    for name in options:
        if name in _FORBIDDEN:
            raise OptionError(f"option {name} is not supported: {_FORBIDDEN[name]}")
        if is_security_option(name):
            # `security_options` judges it.
            continue
        if name.startswith(KAFKA):
            check_kafka(name, "consumers", kafka_names.READER, kafka_names.PRODUCER)
        elif name not in _NAMES:
            refuse_unknown(name, _NAMES, kafka_names.READER, _INSTEAD)
        if streaming and name in _BATCH_ONLY:
            raise OptionError(
                f"option {name} is for batch queries: a stream has no end; "
                "use trigger(availableNow=True) to stop at the latest offset"
            )


def without_effect(options: Mapping[str, str], *, streaming: bool) -> tuple[str, ...]:
    """Return the options that this query ignores although they exist, sorted."""
    is_committing = streaming and options.get("commitOffsetsToGroup", "").strip().lower() == "true"
    ignored = {
        name for name in options if name.startswith(KAFKA) and name not in _EFFECTIVE and not is_security_option(name)
    }
    ignored |= set() if streaming else options.keys() & set(_STREAM_ONLY)
    # There is no consumer group, except to commit to.
    ignored |= options.keys() & ({"groupIdPrefix"} if is_committing else {"groupIdPrefix", "kafka.group.id"})
    return tuple(sorted(ignored))
