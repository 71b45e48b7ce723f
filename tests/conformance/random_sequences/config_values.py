"""Names and values of configurations, as users write and mistype them."""

import random
from typing import Any

from tests.conformance.random_sequences.drawing import usually, weighted
from tests.conformance.requests import APPEND, DELETE, SET, SUBTRACT

# `retention.ms` is set by the suite itself, `remote.*` would need storage that there is not.
NUMBERS = (
    "retention.ms", "retention.bytes", "segment.bytes", "segment.ms", "segment.index.bytes", "segment.jitter.ms",
    "max.message.bytes", "min.insync.replicas", "index.interval.bytes", "file.delete.delay.ms", "flush.messages",
    "flush.ms", "delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms", "local.retention.ms",
    "local.retention.bytes", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
    "compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "min.cleanable.dirty.ratio",
)  # fmt: skip
LISTS = ("cleanup.policy", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
THROTTLED = LISTS[1:]
POLICIES = ("compact", "delete", "compact,delete", "delete, compact", "Compact", "none")
REPLICAS = ("*", "0:0", "0:0,1:1", "1:1", "0:a", "0:0,*")
BOOLEANS = ("unclean.leader.election.enable", "preallocate", "remote.log.copy.disable")
WORDS = ("compression.type", "message.timestamp.type")
ODD_NAMES = ("no.such", "", " retention.ms", "Retention.ms", "log.retention.ms", "remote.storage.enable")
NUMBER_VALUES = (
    "1", "0", "-1", "-2", "100", "1048576", "1048575", "13", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "-2147483649", "1.0", "0.5", "1.5", "1e3", "0x10", "010", "+5", " 7 ", "1_000", "abc", "",
    "NaN", "Infinity", "1d", "1L", "٣", "--1", "-0",
)  # fmt: skip
LIST_VALUES = (
    "compact", "delete", "compact,delete", "delete, compact", "delete,delete", "", " ", ",", "delete,", ",compact",
    "Compact", "none", "*", " * ", "0:0", "0:0,1:1", " 0:0 , 1:1 ", "0:0,*", "0:a", "0", "0:0,0:0", "-1:0",
)  # fmt: skip
BOOLEAN_VALUES = ("true", "false", "TRUE", " False ", "yes", "1", "", "tru e")
WORD_VALUES = (
    "gzip", "producer", "uncompressed", "zstd", "GZIP", "none", "CreateTime", "LogAppendTime", "", " lz4 ",
)  # fmt: skip


VALID = (
    ("segment.ms", "100000"), ("retention.ms", "-1"), ("cleanup.policy", "delete"), ("flush.messages", "7"),
    ("unclean.leader.election.enable", "TRUE"), ("compression.type", "zstd"), ("min.cleanable.dirty.ratio", "1e-1"),
    ("leader.replication.throttled.replicas", "0:0, 1:1"), ("min.compaction.lag.ms", "5"),
    ("max.compaction.lag.ms", "10"), ("min.insync.replicas", "2"), ("segment.jitter.ms", " 3 "),
)  # fmt: skip


def setting(dice: random.Random) -> tuple[str, Any]:
    """Return a configuration and a value for it, rarely null."""
    kind = weighted(dice, {"number": 5, "list": 3, "boolean": 1, "word": 1.5, "odd": 0.6})
    names, values = {
        "number": (NUMBERS, NUMBER_VALUES),
        "list": (LISTS, LIST_VALUES),
        "boolean": (BOOLEANS, BOOLEAN_VALUES),
        "word": (WORDS, WORD_VALUES),
        "odd": (ODD_NAMES, NUMBER_VALUES),
    }[kind]
    # Numbers are few kinds of mistakes and many names; the names that interact come more often.
    name = usually(dice, dice.choice(names), names[:3], 0.3)
    value = dice.choice(values)
    if name in LISTS:
        # Empty items are dropped on purpose, or refused in other words.
        value = ",".join(filter(None, value.replace(" ", "").split(",")))
    return name, usually(dice, value, (None,), 0.03)


def settings(dice: random.Random, least: int = 0) -> list[tuple[str, Any]]:
    """Return some settings, of which one at most may be wrong: of several, Kafka names any."""
    chosen = [dice.choice(VALID) for _ in range(dice.choice((0, 0, 1, 2)))]
    if len(chosen) < least or dice.random() < 0.8:
        chosen.insert(dice.randrange(len(chosen) + 1), setting(dice))
    return chosen


def change(dice: random.Random) -> tuple[str, int, Any]:
    """Return a change of a configuration: name, operation, value."""
    name, value = setting(dice)
    operation = weighted(dice, {SET: 5, DELETE: 2, APPEND: 1.5, SUBTRACT: 1.5})
    if operation in {APPEND, SUBTRACT} and dice.random() < 0.6:
        name = dice.choice(LISTS)
        value = dice.choice(POLICIES if name not in THROTTLED else REPLICAS)
    return name, operation, usually(dice, value, (None,), 0.5) if operation == DELETE else value


def changes(dice: random.Random, least: int = 0) -> list[tuple[str, int, Any]]:
    """Return some changes, of which one at most may be wrong."""
    chosen: list[tuple[str, int, Any]] = [
        (name, usually(dice, SET, (DELETE,), 0.3), value)
        for name, value in settings(dice)[:2]
        if (name, value) in VALID
    ]
    if len(chosen) < least or dice.random() < 0.8:
        chosen.insert(dice.randrange(len(chosen) + 1), change(dice))
    return chosen
