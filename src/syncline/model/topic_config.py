"""The configuration of a topic: what Syncline reads, each setting declared once, as a field.

A topic's configuration is its own overrides over the broker's: `of_broker` names
the broker's configurations that apply where the topic has none, the most specific
first. It is resolved again when either changes; the object itself is immutable.
Names that are stored without effect are in `kept_configs`.

Source: Kafka's topic configurations, as of 4.3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from syncline.model.broker_config import BrokerConfig
from syncline.model.config_types import (
    BOOLEAN,
    CLEANUP_POLICIES,
    CLUSTER_WIDE,
    COMPRESSIONS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    NOT_ACTED_ON,
    NOT_YET,
    SEGMENT_BYTES,
    STRING,
    TIMESTAMP_TYPES,
    Check,
    ConfigDefinition,
    ConfigError,
    ConfigType,
    V,
    Value,
    as_fields,
    at_least,
    between,
    check_numbers,
    definitions_of,
    parse_all,
    scale_to_ms,
    setting,
    throttled_replicas,
)
from syncline.model.immutable import Immutable
from syncline.model.kept_configs import INTERNAL_SEGMENT_BYTES, KEPT_TOPIC_CONFIGS

FOLLOWER_THROTTLED: Final = "follower.replication.throttled.replicas"
LEADER_THROTTLED: Final = "leader.replication.throttled.replicas"
# The longest list of throttled replicas. Every broker reads it without a break: some 14,000 replicas take 4 ms.
LIST_CHARS_MAX: Final = 98_304


def _setting(kind: ConfigType, default: V, documentation: str, *, check: Check | None = None, of_broker: str = "") -> V:
    return setting(kind, default, CLUSTER_WIDE, documentation, check=check, synonyms=of_broker)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TopicConfig(Immutable):
    """The configuration of one topic's partitions. Without arguments: the defaults."""

    # fmt: off
    cleanup_policy: tuple[str, ...] = _setting(LIST, ("delete",),
        "What happens to old segments: they are deleted or kept. Compaction is not implemented yet: compact "
        "keeps all segments.",
        check=CLEANUP_POLICIES, of_broker="log.cleanup.policy")
    compression_type: str = _setting(STRING, "producer",
        "The compression of stored batches. Syncline does not open batches: they stay as the producer "
        "compressed them.",
        check=COMPRESSIONS, of_broker="compression.type")
    delete_retention_ms: int = _setting(LONG, 86_400_000,
        NOT_YET, check=at_least(0), of_broker="log.cleaner.delete.retention.ms")
    file_delete_delay_ms: int = _setting(LONG, 60_000,
        "How long the files of a deleted segment stay on disk under another name.",
        check=at_least(0), of_broker="log.segment.delete.delay.ms")
    flush_messages: int = _setting(LONG, LONG_MAX,
        "How many records are appended before the log is forced to disk; replication makes this unnecessary.",
        check=at_least(1), of_broker="log.flush.interval.messages")
    flush_ms: int = _setting(LONG, LONG_MAX,
        NOT_YET, check=at_least(0), of_broker="log.flush.interval.ms log.flush.scheduler.interval.ms")
    follower_replication_throttled_replicas: tuple[str, ...] = _setting(LIST, (),
        "Replicas that their brokers fetch no faster than follower.replication.throttled.rate while they "
        "catch up: partition:broker items, or * for all (KIP-73). See `throttling.md`.",
        check=throttled_replicas(FOLLOWER_THROTTLED))
    index_interval_bytes: int = _setting(INT, 4_096,
        "How many bytes of the log lie between two entries of the offset index.",
        check=at_least(0), of_broker="log.index.interval.bytes")
    leader_replication_throttled_replicas: tuple[str, ...] = _setting(LIST, (),
        "Replicas whose brokers, as leaders, send no more than leader.replication.throttled.rate to "
        "followers that catch up: partition:broker items, or * for all (KIP-73). See `throttling.md`.",
        check=throttled_replicas(LEADER_THROTTLED))
    max_compaction_lag_ms: int = _setting(LONG, LONG_MAX,
        NOT_YET, check=at_least(1), of_broker="log.cleaner.max.compaction.lag.ms")
    max_message_bytes: int = _setting(INT, 1_048_588,
        "The largest batch, compressed as sent, that the topic accepts.",
        check=at_least(0), of_broker="message.max.bytes")
    message_timestamp_after_max_ms: int = _setting(LONG, 3_600_000,
        "How far a record's timestamp may be ahead of the broker's clock.",
        check=at_least(0), of_broker="log.message.timestamp.after.max.ms")
    message_timestamp_before_max_ms: int = _setting(LONG, LONG_MAX,
        "How far a record's timestamp may be behind the broker's clock.",
        check=at_least(0), of_broker="log.message.timestamp.before.max.ms")
    message_timestamp_type: str = _setting(STRING, "CreateTime",
        "Whether a record's timestamp is the time when the producer created it or when the broker appended it.",
        check=TIMESTAMP_TYPES, of_broker="log.message.timestamp.type")
    min_cleanable_dirty_ratio: float = _setting(DOUBLE, 0.5,
        NOT_YET, check=between(0, 1), of_broker="log.cleaner.min.cleanable.ratio")
    min_compaction_lag_ms: int = _setting(LONG, 0,
        NOT_YET, check=at_least(0), of_broker="log.cleaner.min.compaction.lag.ms")
    min_insync_replicas: int = _setting(INT, 1,
        "How many replicas must be in sync for acks=all to be accepted and the high watermark to move.",
        check=at_least(1), of_broker="min.insync.replicas")
    retention_bytes: int = _setting(LONG, -1,
        "How large a partition may grow before its oldest segments are deleted; -1 sets no limit.",
        of_broker="log.retention.bytes")
    retention_ms: int = _setting(LONG, 604_800_000,
        "How old a segment may become before it is deleted; -1 keeps it forever.",
        check=at_least(-1), of_broker="log.retention.ms log.retention.minutes log.retention.hours")
    segment_bytes: int = _setting(INT, 1_073_741_824,
        "How large a segment grows before the next one is started.",
        check=SEGMENT_BYTES, of_broker="log.segment.bytes")
    segment_index_bytes: int = _setting(INT, 10_485_760,
        "How large the index of a segment grows before the next segment is started.",
        check=at_least(4), of_broker="log.index.size.max.bytes")
    segment_jitter_ms: int = _setting(LONG, 0,
        NOT_ACTED_ON, check=at_least(0), of_broker="log.roll.jitter.ms log.roll.jitter.hours")
    segment_ms: int = _setting(LONG, 604_800_000,
        "How old a segment becomes before the next one is started.",
        check=at_least(1), of_broker="log.roll.ms log.roll.hours")
    unclean_leader_election_enable: bool = _setting(BOOLEAN, False,
        "Whether a replica that is not in sync may lead when no other can: available, but records may be lost.",
        of_broker="unclean.leader.election.enable")
    # fmt: on

    def without_lists(self) -> "TopicConfig":
        """Return the configuration as if no list of throttled replicas were set."""
        return replace(self, follower_replication_throttled_replicas=(), leader_replication_throttled_replicas=())

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> "TopicConfig":
        """Return the configuration of a topic with these overrides on this broker; raises `ConfigError`."""
        values = _inherited(broker)
        values.update(as_fields(_SETTINGS, parse_all(TOPIC_CONFIGS, overrides)))
        small = overrides.get(INTERNAL_SEGMENT_BYTES.name)
        if small is not None:
            values["segment_bytes"] = INTERNAL_SEGMENT_BYTES.parse(small)
        return cls(**values)


def stored_topic_config(name: str, value: str) -> str:
    """Return a value as it is stored: without blanks around it, and a throttle list without empty items.

    Kafka stores empty items, and its brokers then throttle nothing.
    """
    if name in {FOLLOWER_THROTTLED, LEADER_THROTTLED}:
        return ",".join(item for each in value.split(",") if (item := each.strip()))
    return value.strip()


def check_length(name: str, value: str) -> None:
    """Raise `ConfigError` when a list of throttled replicas is longer than every broker can read in one go."""
    if len(value) > LIST_CHARS_MAX and name in {FOLLOWER_THROTTLED, LEADER_THROTTLED}:
        raise ConfigError(
            f"{name} would have {len(value)} characters, and may have {LIST_CHARS_MAX}:"
            " throttle all replicas of the topic with '*', or fewer of them at a time"
        )


def validate_topic_config(name: str, value: str) -> Value:
    """Return the value that a topic is given by a text; raise `ConfigError` when it cannot be."""
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        raise ConfigError(f"Unknown topic config name: {name}")
    check_length(name, value)
    if name in {FOLLOWER_THROTTLED, LEADER_THROTTLED}:
        check_numbers(name, value)
    return definition.parse(value)


def validate_topic_configs(overrides: Mapping[str, str]) -> None:
    """Raise `ConfigError` if one of a topic's overrides is invalid, or two contradict each other."""
    parsed = {name: validate_topic_config(name, value) for name, value in overrides.items()}
    if parsed.get("remote.storage.enable"):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log"
            " storage."
        )
    low, high = (
        parsed.get(name, TOPIC_CONFIGS[name].default_value())
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    assert isinstance(low, int), "a lag in milliseconds"
    assert isinstance(high, int), "a lag in milliseconds"
    if low > high:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )


_SETTINGS: Final = {definition.name: definition for definition in definitions_of(TopicConfig)}

# Every configuration of a topic, in the order of the names; the hidden one comes last.
TOPIC_CONFIGS: Final[dict[str, ConfigDefinition]] = {
    **dict(sorted((_SETTINGS | KEPT_TOPIC_CONFIGS).items())),
    INTERNAL_SEGMENT_BYTES.name: INTERNAL_SEGMENT_BYTES,
}

# For each field of a topic's configuration: fields of the broker's, each with a factor for its value.
_BROKER_FIELDS: Final = tuple(
    (
        definition.name.replace(".", "_"),
        tuple((name.replace(".", "_"), scale_to_ms(name)) for name in definition.synonyms),
    )
    for definition in _SETTINGS.values()
)


def _inherited(broker: BrokerConfig) -> dict[str, Any]:
    values = {}
    for name, sources in _BROKER_FIELDS:
        for source, scale in sources:
            value = getattr(broker, source)
            if value is not None:
                values[name] = value if scale == 1 else value * scale
                break
    if broker.internal_log_segment_bytes is not None:
        values["segment_bytes"] = broker.internal_log_segment_bytes
    return values
