"""Sequences about configurations of brokers: of one, of all, and what topics inherit from them.

Every sequence ends with the brokers as it found them, since all share them. Left alone are listeners, limits of
connections that would shut out the clients, threads of the network, with some of which Kafka closes connections, and
names that only Kafka knows. Not drawn, since Syncline means to answer
otherwise: throttle rates at another broker than theirs, and values of configurations without effect that contradict
others (docs/divergences.md, Administration).
"""

import random
from typing import Any

from tests.conformance.apis import ALTER_CONFIGS, CREATE_TOPICS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from tests.conformance.random_sequences.barriers import Barriers
from tests.conformance.random_sequences.config_values import BOOLEAN_VALUES, WORD_VALUES
from tests.conformance.random_sequences.drawing import some, usually, version_of, weighted
from tests.conformance.requests import (
    APPEND,
    BROKER_RESOURCE,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC_RESOURCE,
    alter_configs,
    change_configs,
    create_topics,
    describe_configs,
    new_topic,
)
from tests.conformance.steps import Action, BrokerNumber, Topic, broker, exact, topic

ME, OTHER, ALL = BrokerNumber(0, as_text=True), BrokerNumber(1, as_text=True), exact("")
INHERITED = {
    "log.segment.bytes": "segment.bytes", "log.retention.ms": "retention.ms", "log.retention.bytes": "retention.bytes",
    "log.cleanup.policy": "cleanup.policy", "log.roll.ms": "segment.ms", "log.roll.jitter.ms": "segment.jitter.ms",
    "log.flush.interval.messages": "flush.messages", "log.flush.interval.ms": "flush.ms",
    "log.index.interval.bytes": "index.interval.bytes", "log.index.size.max.bytes": "segment.index.bytes",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio", "log.preallocate": "preallocate",
    "log.cleaner.delete.retention.ms": "delete.retention.ms", "message.max.bytes": "max.message.bytes",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms", "compression.type": "compression.type",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms", "log.segment.delete.delay.ms": "file.delete.delay.ms",
    "log.message.timestamp.type": "message.timestamp.type", "log.local.retention.ms": "local.retention.ms",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "log.local.retention.bytes": "local.retention.bytes", "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level", "compression.zstd.level": "compression.zstd.level",
    "unclean.leader.election.enable": "unclean.leader.election.enable", "min.insync.replicas": "min.insync.replicas",
}  # fmt: skip
# With their defaults.
THREADS = {
    "background.threads": 10, "num.io.threads": 8, "num.recovery.threads.per.data.dir": 2, "num.replica.fetchers": 1,
    "log.cleaner.threads": 1,
}  # fmt: skip
REFUSED_COUNTS = ("0", "-1", "x", "100")
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate",
         "replica.alter.log.dirs.io.max.bytes.per.second")  # fmt: skip
NUMBERS = (
    "log.cleaner.backoff.ms", "log.cleaner.io.max.bytes.per.second", "log.cleaner.io.buffer.size",
    "log.cleaner.io.buffer.load.factor", "producer.id.expiration.ms", "group.coordinator.cached.buffer.max.bytes",
    *(name for name in INHERITED if name not in {"log.cleanup.policy", "compression.type", "log.message.timestamp.type",
      "unclean.leader.election.enable", "log.preallocate", "log.local.retention.ms", "log.local.retention.bytes"}),
)  # fmt: skip
BOOLEANS = ("unclean.leader.election.enable", "log.preallocate", "transaction.partition.verification.enable")
WORDS = ("compression.type", "log.message.timestamp.type")
FIXED = ("num.partitions", "node.id", "log.retention.hours", "auto.create.topics.enable", "log.roll.hours",
         "default.replication.factor", "fetch.max.bytes", "log.retention.minutes", "group.max.size")  # fmt: skip
LIMITS = ("max.connections", "max.connections.per.ip", "max.connection.creation.rate")
ODD_NAMES = ("no.such", "retention.ms", "leader.replication.throttled.replicas", "Log.segment.bytes", "a b")
NUMBER_VALUES = (
    "1", "0", "-1", "-2", "100", "1048576", "1048575", "13", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "1.0", "0.5", "1.5", "1e3", "010", "+5", " 7 ", "abc", "", "NaN", "1000000",
)  # fmt: skip
POLICIES = ("compact", "delete", "compact,delete", "delete, compact", "Compact", "delete,delete")
EVERY_NAME = tuple(dict.fromkeys((*NUMBERS, *THREADS, *RATES, *BOOLEANS, *WORDS, *LIMITS, *ODD_NAMES,
                                  "log.cleanup.policy", "max.connections.per.ip.overrides")))  # fmt: skip
VALID = (
    ("log.segment.bytes", "2000000"), ("log.retention.ms", "-1"), ("log.cleanup.policy", "compact,delete"),
    ("message.max.bytes", "500000"), ("min.insync.replicas", "1"), ("log.roll.ms", "100000"), ("no.such", "7"),
    ("background.threads", "12"), ("log.cleaner.threads", "2"), ("unclean.leader.election.enable", "TRUE"),
    ("log.flush.interval.ms", "1000"), ("log.index.interval.bytes", " 5000 "), ("compression.type", "zstd"),
    ("leader.replication.throttled.rate", "1000000000"), ("max.connections", "1000"),
)  # fmt: skip


def draw(dice: random.Random) -> tuple[dict[str, Topic], list[Action]]:
    """Return the topics and actions of one sequence."""
    return {"t": topic((0,)), "u": topic((0,), segment_bytes="3000000")}, _Brokers(dice).actions(dice.randint(4, 10))


def _resettable(default: int) -> tuple[str, ...]:
    """Return some counts of threads from which a broker can go back to the default in one step."""
    counts = (1, 2, 3, 4, 5, 8, 11, 16, 20)
    return tuple(str(each) for each in counts if each // 2 <= default <= 2 * each)


class _Brokers:
    """One sequence being drawn."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.barriers = Barriers()

    def actions(self, count: int) -> list[Action]:
        steps = {self._change: 5, self._alter: 2, self._describe: 5, self._topics: 2, self._create: 0.7}
        found: list[Action] = []
        for _ in range(count):
            found += weighted(self.dice, steps)()
        return [*found, *self._restored()]

    def _restored(self) -> list[Action]:
        everything = [(name, DELETE, None) for name in EVERY_NAME if name != "min.insync.replicas"]
        everywhere = (BROKER_RESOURCE, ALL, [*everything, ("min.insync.replicas", SET, "1")])
        # One after the other: a broker judges both as if there were only one.
        return [
            action
            for each in (everywhere, (BROKER_RESOURCE, ME, everything))
            for action in self.barriers.after(change_configs(1, each, quiet=True))
        ]

    def _resource(self) -> Any:
        odd = (OTHER, exact("abc"), exact("99"), exact("-1"), exact(" "))
        return usually(self.dice, usually(self.dice, ALL, (ME,), 0.5), odd, 0.08)

    def _setting(self) -> tuple[str, Any]:
        dice = self.dice
        kind = weighted(dice, {"number": 6, "threads": 1.5, "rate": 1, "list": 2, "boolean": 0.7, "word": 1,
                               "fixed": 0.7, "limit": 0.5, "odd": 0.5, "hosts": 0.3})  # fmt: skip
        thread_name = dice.choice(tuple(THREADS))
        names, values = {
            "number": (NUMBERS, NUMBER_VALUES),
            "threads": ((thread_name,), (*_resettable(THREADS[thread_name]), *REFUSED_COUNTS)),
            "rate": (RATES, ("1000000000", "0", "-1", "abc", "9223372036854775808", "1000000000.5")),
            "list": (("log.cleanup.policy",), POLICIES),
            "boolean": (BOOLEANS, BOOLEAN_VALUES),
            "word": (WORDS, WORD_VALUES),
            "fixed": (FIXED, ("1", "2", "true", "abc")),
            "limit": (LIMITS, ("1000", "2000000", "-1", "abc")),
            "odd": (ODD_NAMES, ("1", "", "abc", " x ")),
            "hosts": (("max.connections.per.ip.overrides",), ("127.0.0.1:500", "")),
        }[kind]
        return dice.choice(names), usually(dice, dice.choice(values), (None,), 0.03)

    def _settings(self, resource: Any, least: int) -> list[tuple[str, Any]]:
        """Return some settings, of which one at most may be wrong."""
        dice = self.dice
        chosen = [dice.choice(VALID) for _ in range(dice.choice((0, 0, 1, 2)))]
        if resource is not ALL:
            chosen = [each for each in chosen if each[0] != "min.insync.replicas"]
        if len(chosen) < least or dice.random() < 0.8:
            chosen.insert(dice.randrange(len(chosen) + 1), self._setting())
        return chosen

    def _change(self) -> list[Action]:
        dice = self.dice

        def one() -> tuple[int, Any, Any]:
            resource = self._resource()
            rows = [(key, SET, value) for key, value in self._settings(resource, 1)]
            place = dice.randrange(len(rows))
            key, _, value = rows[place]
            # What is appended to a rate is refused in other words.
            lists = {} if key in RATES else {APPEND: 0.5, SUBTRACT: 0.5}
            operation = weighted(dice, {SET: 5, DELETE: 2, **lists})
            if key == "log.cleanup.policy" and dice.random() < 0.6:
                operation = dice.choice((APPEND, SUBTRACT))
            rows[place] = (key, operation, usually(dice, value, (None,), 0.5) if operation == DELETE else value)
            if resource is OTHER and all(each[0] in RATES for each in rows):
                rows.append(("log.segment.bytes", SET, "2000000"))
            return BROKER_RESOURCE, resource, rows

        rows = some(dice, one, 2, repeat=0.05)
        version, only = version_of(dice, INCREMENTAL_ALTER_CONFIGS), dice.random() < 0.25
        return self.barriers.after(change_configs(version, *rows, validate_only=only, to=broker(0)))

    def _alter(self) -> list[Action]:
        dice = self.dice

        def one() -> tuple[int, Any, Any]:
            resource = self._resource()
            rows = self._settings(resource, usually(dice, 1, (0,), 0.2))
            if resource is ALL and dice.random() < 0.7:
                rows = [*(each for each in rows if each[0] != "min.insync.replicas"), ("min.insync.replicas", "1")]
            return BROKER_RESOURCE, resource, rows

        # Kafka never answers a request that names a resource twice.
        rows = list({str(row[1]): row for row in some(dice, one, 2, repeat=0)}.values())
        version, only = version_of(dice, ALTER_CONFIGS), dice.random() < 0.25
        return self.barriers.after(alter_configs(version, *rows, validate_only=only, to=broker(0)))

    def _describe(self) -> list[Action]:
        dice = self.dice

        def one() -> tuple[int, Any, Any]:
            resource = self._resource()
            names = some(dice, lambda: dice.choice(usually(dice, EVERY_NAME, (FIXED,), 0.1)), 6)
            return BROKER_RESOURCE, resource, usually(dice, names, (None,), 0.3) if resource is ALL else names

        return [self._described(some(dice, one, 2))]

    def _topics(self) -> list[Action]:
        dice = self.dice

        def one() -> tuple[int, Any, Any]:
            names = some(dice, lambda: dice.choice(list(INHERITED.values())), 6)
            return TOPIC_RESOURCE, dice.choice("tu"), usually(dice, names, (None,), 0.3)

        return [self._described(some(dice, one, 2))]

    def _described(self, rows: list[tuple[int, Any, Any]]) -> Action:
        dice = self.dice
        version = version_of(dice, DESCRIBE_CONFIGS)
        synonyms, documented = dice.random() < 0.7, dice.random() < 0.3
        return describe_configs(version, *rows, synonyms=synonyms, documentation=documented, to=broker(0))

    def _create(self) -> list[Action]:
        """The answer shows the configurations that a new topic has."""
        version = version_of(self.dice, CREATE_TOPICS)
        own = usually(self.dice, {}, ({"segment.bytes": "4000000"}, {"cleanup.policy": "delete"}), 0.4)
        return [create_topics(version, new_topic("v", configs=own), validate_only=True, to=broker(0))]
