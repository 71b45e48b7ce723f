"""The configurations of a topic: one row each, in the order of their names.

Each gives its broker-wide default in `synonyms`, by which a broker's
configuration applies to the topics that do not override it.
Source: Kafka's topic configurations; the rows without an effect here are kept
because clients and tools set them, and their documentation says so.
"""

from typing import Final

from syncline.model.config_types import (
    LONG_MAX,
    Check,
    ConfigDefinition,
    ConfigType,
    UpdateMode,
    at_least,
    between,
    between_or,
    one_of,
    throttled_replicas,
)

BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST

NOT_ACTED_ON: Final = "Accepted and stored for compatibility; Syncline does not act on it."
NOT_YET: Final = "Accepted and stored; Syncline does not act on it yet."
COMPRESSIONS: Final = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES: Final = one_of("compact", "delete")
TIMESTAMP_TYPES: Final = one_of("CreateTime", "LogAppendTime")
GZIP_LEVELS: Final = between_or(1, 9, -1)
LZ4_LEVELS: Final = between(1, 17)
ZSTD_LEVELS: Final = between(-131072, 22)
SEGMENT_BYTES_MIN: Final = 1 << 20

FOLLOWER_THROTTLED: Final = "follower.replication.throttled.replicas"
LEADER_THROTTLED: Final = "leader.replication.throttled.replicas"


def _row(
    name: str, kind: ConfigType, default: str | None, check: Check | None, synonyms: str, documentation: str
) -> ConfigDefinition:
    return ConfigDefinition(
        name, kind, default, check, UpdateMode.CLUSTER_WIDE, documentation, tuple(synonyms.split()), hidden=False
    )


_FOREVER: Final = str(LONG_MAX)

_ROWS: Final = (
    _row("cleanup.policy", LIST, "delete", CLEANUP_POLICIES, "log.cleanup.policy",
         "What happens to old segments: they are deleted, or kept. Compaction is not done yet: it keeps all."),
    _row("compression.gzip.level", INT, "-1", GZIP_LEVELS, "compression.gzip.level", NOT_ACTED_ON),
    _row("compression.lz4.level", INT, "9", LZ4_LEVELS, "compression.lz4.level", NOT_ACTED_ON),
    _row("compression.type", STRING, "producer", COMPRESSIONS, "compression.type",
         "The compression of stored batches. Batches are opaque to Syncline: they stay as the producer made them."),
    _row("compression.zstd.level", INT, "3", ZSTD_LEVELS, "compression.zstd.level", NOT_ACTED_ON),
    _row("delete.retention.ms", LONG, "86400000", at_least(0), "log.cleaner.delete.retention.ms",
         NOT_YET),
    _row("file.delete.delay.ms", LONG, "60000", at_least(0), "log.segment.delete.delay.ms",
         "How long the files of a deleted segment stay on disk under another name."),
    _row("flush.messages", LONG, _FOREVER, at_least(1), "log.flush.interval.messages",
         "After so many records the log is forced to disk; replication makes it unnecessary."),
    _row("flush.ms", LONG, _FOREVER, at_least(0), "log.flush.interval.ms log.flush.scheduler.interval.ms",
         NOT_YET),
    _row(FOLLOWER_THROTTLED, LIST, "", throttled_replicas(FOLLOWER_THROTTLED), "",
         NOT_YET),
    _row("index.interval.bytes", INT, "4096", at_least(0), "log.index.interval.bytes",
         "How many bytes of log lie between two entries of the offset index."),
    _row(LEADER_THROTTLED, LIST, "", throttled_replicas(LEADER_THROTTLED), "",
         NOT_YET),
    _row("local.retention.bytes", LONG, "-2", at_least(-2), "log.local.retention.bytes", NOT_ACTED_ON),
    _row("local.retention.ms", LONG, "-2", at_least(-2), "log.local.retention.ms", NOT_ACTED_ON),
    _row("max.compaction.lag.ms", LONG, _FOREVER, at_least(1), "log.cleaner.max.compaction.lag.ms",
         NOT_YET),
    _row("max.message.bytes", INT, "1048588", at_least(0), "message.max.bytes",
         "The largest batch, compressed as sent, that the topic accepts."),
    _row("message.timestamp.after.max.ms", LONG, "3600000", at_least(0), "log.message.timestamp.after.max.ms",
         "How far a record's timestamp may be ahead of the broker's clock."),
    _row("message.timestamp.before.max.ms", LONG, _FOREVER, at_least(0), "log.message.timestamp.before.max.ms",
         "How far a record's timestamp may be behind the broker's clock."),
    _row("message.timestamp.type", STRING, "CreateTime", TIMESTAMP_TYPES, "log.message.timestamp.type",
         "Whether a record's time is when the producer made it or when the broker appended it."),
    _row("min.cleanable.dirty.ratio", DOUBLE, "0.5", between(0, 1), "log.cleaner.min.cleanable.ratio",
         NOT_YET),
    _row("min.compaction.lag.ms", LONG, "0", at_least(0), "log.cleaner.min.compaction.lag.ms",
         NOT_YET),
    _row("min.insync.replicas", INT, "1", at_least(1), "min.insync.replicas",
         "How many replicas must be in sync for acks=all to be accepted and the high watermark to move."),
    _row("preallocate", BOOLEAN, "false", None, "log.preallocate", NOT_ACTED_ON),
    _row("remote.log.copy.disable", BOOLEAN, "false", None, "", NOT_ACTED_ON),
    _row("remote.log.delete.on.disable", BOOLEAN, "false", None, "", NOT_ACTED_ON),
    _row("remote.storage.enable", BOOLEAN, "false", None, "", NOT_ACTED_ON),
    _row("retention.bytes", LONG, "-1", None, "log.retention.bytes",
         "How large a partition may grow before its oldest segments go; -1 is without limit."),
    _row("retention.ms", LONG, "604800000", at_least(-1), "log.retention.ms log.retention.minutes log.retention.hours",
         "How old a segment may grow before it goes; -1 is for ever."),
    _row("segment.bytes", INT, "1073741824", at_least(SEGMENT_BYTES_MIN), "log.segment.bytes",
         "How large a segment grows before the next one is begun."),
    _row("segment.index.bytes", INT, "10485760", at_least(4), "log.index.size.max.bytes",
         "How large the index of a segment grows before the next segment is begun."),
    _row("segment.jitter.ms", LONG, "0", at_least(0), "log.roll.jitter.ms log.roll.jitter.hours",
         NOT_ACTED_ON),
    _row("segment.ms", LONG, "604800000", at_least(1), "log.roll.ms log.roll.hours",
         "How old a segment grows before the next one is begun."),
    _row("unclean.leader.election.enable", BOOLEAN, "false", None, "unclean.leader.election.enable",
         "Whether a replica that is not in sync may lead when no other can: available, but records may be lost."),
)  # fmt: skip

# Smaller segments than Kafka allows, for tests.
INTERNAL_SEGMENT_BYTES: Final = ConfigDefinition(
    "internal.segment.bytes", INT, None, at_least(1), UpdateMode.CLUSTER_WIDE, hidden=True
)

TOPIC_CONFIGS: Final[dict[str, ConfigDefinition]] = {row.name: row for row in (*_ROWS, INTERNAL_SEGMENT_BYTES)}
