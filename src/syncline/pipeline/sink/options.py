"""Options of the Spark sink: the arguments of `.option(` of a writer, checked before anything is written.

Names and meanings are those of Spark's own Kafka connector; `deliveryGuarantee` is ours. A name that does not exist is
a mistake that the message names.

Units: milliseconds, bytes.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from syncline.pipeline.client.security_options import OWN_NAMES, is_security_option, security
from syncline.pipeline.client.settings import ClientSettings
from syncline.pipeline.errors import OptionError
from syncline.pipeline.options import kafka_names
from syncline.pipeline.options.bootstrap import bootstrap
from syncline.pipeline.options.names import KAFKA, check_kafka, refuse_unknown
from syncline.pipeline.options.values import INT_MAX, count, refuse
from syncline.pipeline.sink.configs import PRODUCER, REFUSED, USED, WITHOUT_MEANING
from syncline.records.compression import Codec

log = logging.getLogger(__name__)

# Spark adds the last ones by itself; the connector accepts includeHeaders, and it means nothing to a writer.
_NAMES: Final = ("bootstrap", "topic", "deliveryGuarantee", "includeHeaders")
_SPARKS: Final = ("checkpointlocation", "queryname", "path")
_ALL_NAMES: Final = (*_NAMES, *(KAFKA + name for name in USED), *OWN_NAMES)
# What a reader needs.
_INSTEAD: Final = dict.fromkeys(
    ("subscribe", "subscribepattern", "assign", "topics"), "name the topic to write to in the option topic"
)
_BY_LOWER_NAME: Final = {name.lower(): name for name in _ALL_NAMES}

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All options of one query's sink, checked and typed; `topic` is None where the column `topic` decides."""

    client: ClientSettings
    topic: str | None
    codec: int
    request_bytes_max: int
    transaction_timeout_ms: int
    exactly_once: bool

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> "SinkOptions":
        """Return the options that a user gave; raise `OptionError` for the first that is wrong."""
        options = {_BY_LOWER_NAME.get(name.lower(), name.lower()): str(value) for name, value in given.items()}
        _check_names(options)
        topic = options.get("topic")
        if topic is not None and not topic.strip():
            refuse("topic", topic, "write the name of a topic")
        codec = options.get("kafka.compression.type", "none").strip().upper()
        if codec not in Codec.__members__:
            refuse("kafka.compression.type", codec.lower(), "write none, gzip, snappy, lz4 or zstd")
        return cls(
            client=_client(options),
            topic=topic.strip() if topic else None,
            codec=Codec[codec],
            request_bytes_max=_count(options, "kafka.max.request.size", 1 << 20),
            transaction_timeout_ms=_count(options, "kafka.transaction.timeout.ms", 300_000),
            exactly_once=_is_exact(options, streaming=streaming),
        )


def _check_names(options: Mapping[str, str]) -> None:
    for name in options:
        if name in _NAMES or name in _SPARKS or is_security_option(name):
            # `security_options` judges those of its own.
            continue
        if not name.startswith(KAFKA):
            refuse_unknown(name, _ALL_NAMES, PRODUCER, _INSTEAD)
        config = name.removeprefix(KAFKA)
        if config in REFUSED:
            raise OptionError(f"option {name} is not supported: {REFUSED[config]}")
        check_kafka(name, "producers", PRODUCER, kafka_names.CONSUMER)
        if config in WITHOUT_MEANING:
            _mention(name)


@cache
def _mention(name: str) -> None:
    """Log once in this process: a stream parses its options in every micro-batch."""
    log.warning("option %s is ignored: the sink is not Kafka's own producer", name)


def _client(options: Mapping[str, str]) -> ClientSettings:
    return ClientSettings(
        bootstrap=bootstrap(options),
        client_id=options.get("kafka.client.id", "syncline-sink"),
        request_timeout_ms=_count(options, "kafka.request.timeout.ms", 30_000),
        patience_ms=_count(options, "kafka.delivery.timeout.ms", 120_000),
        security=security(options),
    )


def _is_exact(options: Mapping[str, str], *, streaming: bool) -> bool:
    written = options.get("deliveryGuarantee", EXACTLY_ONCE if streaming else AT_LEAST_ONCE).strip().lower()
    if written not in {EXACTLY_ONCE, AT_LEAST_ONCE}:
        refuse("deliveryGuarantee", written, f"write {EXACTLY_ONCE} or {AT_LEAST_ONCE}")
    if written == EXACTLY_ONCE and not streaming:
        refuse("deliveryGuarantee", written, "a batch query has no checkpoint that says what was written; remove it")
    return written == EXACTLY_ONCE


def _count(options: Mapping[str, str], name: str, default: int) -> int:
    return count(options, name, most=INT_MAX) or default
