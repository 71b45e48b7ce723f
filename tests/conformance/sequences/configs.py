"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: topics, brokers, what is refused."""

from typing import Any

from tests.conformance.apis import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, edges, every
from tests.conformance.requests import (
    APPEND,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    DELETE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    SET,
    SUBTRACT,
    TOPIC_RESOURCE,
    alter_configs,
    change_configs,
    describe_configs,
)
from tests.conformance.steps import Action, BrokerNumber, Pause, broker, exact, sequence, topic

ME, OTHER = BrokerNumber(0, as_text=True), BrokerNumber(1, as_text=True)
SOME_BROKER_CONFIGS = (
    "auto.create.topics.enable",
    "broker.session.timeout.ms",
    "default.replication.factor",
    "group.max.session.timeout.ms",
    "group.min.session.timeout.ms",
    "log.retention.ms",
    "log.retention.hours",
    "log.segment.bytes",
    "log.cleanup.policy",
    "message.max.bytes",
    "min.insync.replicas",
    "num.partitions",
    "offset.metadata.max.bytes",
    "offsets.retention.minutes",
    "unclean.leader.election.enable",
    "producer.id.expiration.ms",
    "log.message.timestamp.type",
    "log.message.timestamp.after.max.ms",
    "replica.fetch.max.bytes",
    "replica.fetch.wait.max.ms",
    "max.connections",
    "fetch.max.bytes",
)


def _topic_configs(*keys: str) -> Action:
    return describe_configs(4, (TOPIC_RESOURCE, "t", keys))


def _shows(key: str, value: str | None) -> Action:
    """Describe one config until every broker's view has caught up with the change."""
    return describe_configs(4, (TOPIC_RESOURCE, "t", [key]), settle={"results.0.configs.0.value": value})


@sequence(*every(DESCRIBE_CONFIGS), t=topic((0,)))
def topic_defaults(version: int) -> list[Action]:
    """All configs of a topic."""
    return [describe_configs(version, (TOPIC_RESOURCE, "t", None))]


@sequence(4, t=topic((0,)))
def topic_synonyms(version: int) -> list[Action]:
    """Where each value comes from, and what it would be otherwise."""
    return [describe_configs(version, (TOPIC_RESOURCE, "t", None), synonyms=True)]


@sequence(*edges(DESCRIBE_CONFIGS), t=topic((0,)))
def topic_keys(version: int) -> list[Action]:
    """Some keys, unknown keys, an empty list of keys, duplicates."""
    return [
        describe_configs(version, (TOPIC_RESOURCE, "t", ["retention.ms", "no.such", "cleanup.policy"])),
        describe_configs(version, (TOPIC_RESOURCE, "t", ["no.such"])),
        describe_configs(version, (TOPIC_RESOURCE, "t", ["retention.ms", "retention.ms"])),
        describe_configs(version, (TOPIC_RESOURCE, "t", ["retention.ms"]), (TOPIC_RESOURCE, "t", ["segment.ms"])),
        describe_configs(version),
    ]


@sequence(*edges(DESCRIBE_CONFIGS))
def describing_refused(version: int) -> list[Action]:
    """Unknown topics 3, bad names 17, other brokers, bad numbers and unknown types 42."""
    return [
        describe_configs(version, (TOPIC_RESOURCE, "nope", None)),
        describe_configs(version, (TOPIC_RESOURCE, exact("a b"), None)),
        describe_configs(version, (TOPIC_RESOURCE, exact(""), None)),
        describe_configs(version, (BROKER_RESOURCE, OTHER, ["num.partitions"])),
        describe_configs(version, (BROKER_RESOURCE, exact("abc"), None)),
        describe_configs(version, (BROKER_RESOURCE, exact("99"), None)),
        *(describe_configs(version, (kind, exact("x"), None)) for kind in (0, 1, 3, 5, 99, -1)),
    ]


@sequence(*edges(DESCRIBE_CONFIGS))
def broker_configs(version: int) -> list[Action]:
    """Configs of the broker that is asked, by name."""
    return [
        *(describe_configs(version, (BROKER_RESOURCE, ME, [key])) for key in SOME_BROKER_CONFIGS),
        describe_configs(version, (BROKER_RESOURCE, ME, ["no.such"])),
        describe_configs(version, (BROKER_RESOURCE, exact(""), None)),
    ]


@sequence(4, t=topic((0,)))
def own_synonyms(version: int) -> list[Action]:
    """A topic's own value stands before the broker's."""
    return [
        change_configs(1, (TOPIC_RESOURCE, "t", [("segment.bytes", SET, "2000000"), ("retention.ms", SET, "5")])),
        _shows("segment.bytes", "2000000"),
        describe_configs(
            version, (TOPIC_RESOURCE, "t", ["segment.bytes", "retention.ms", "max.message.bytes"]), synonyms=True
        ),
    ]


@sequence(*every(INCREMENTAL_ALTER_CONFIGS), t=topic((0,)))
def incremental(version: int) -> list[Action]:
    """Set, change, delete."""
    return [
        change_configs(version, (TOPIC_RESOURCE, "t", [("flush.ms", SET, "1000"), ("max.message.bytes", SET, "2000")])),
        _shows("flush.ms", "1000"),
        _shows("max.message.bytes", "2000"),
        change_configs(version, (TOPIC_RESOURCE, "t", [("flush.ms", DELETE, None)])),
        _shows("flush.ms", "9223372036854775807"),
        change_configs(version, (TOPIC_RESOURCE, "t", [("flush.ms", DELETE, None)])),
        change_configs(version, (TOPIC_RESOURCE, "t", [])),
        change_configs(version),
    ]


@sequence(1, t=topic((0,)))
def lists(version: int) -> list[Action]:
    """Append starts from the default, present items change nothing, the last one leaves an empty list."""

    def change(operation: int, value: str) -> Action:
        return change_configs(version, (TOPIC_RESOURCE, "t", [("cleanup.policy", operation, value)]))

    return [
        change(APPEND, "compact"),
        _shows("cleanup.policy", "delete,compact"),
        change(APPEND, "compact"),
        change(SUBTRACT, "nothing"),
        change(SUBTRACT, "delete"),
        _shows("cleanup.policy", "compact"),
        change(SUBTRACT, "compact"),
        _shows("cleanup.policy", ""),
        change(APPEND, "delete"),
        _shows("cleanup.policy", "delete"),
        change(APPEND, "shrink"),
    ]


@sequence(1, t=topic((0,)))
def no_list(version: int) -> list[Action]:
    """Append and subtract need a list."""
    return [
        change_configs(version, (TOPIC_RESOURCE, "t", [("retention.ms", APPEND, "1")])),
        change_configs(version, (TOPIC_RESOURCE, "t", [("retention.ms", SUBTRACT, "1")])),
    ]


@sequence(*edges(INCREMENTAL_ALTER_CONFIGS), t=topic((0,)))
def incremental_refused(version: int) -> list[Action]:
    """Unknown names, bad values, nulls, unknown operations, duplicates."""
    changes: list[list[tuple[str, int, Any]]] = [
        [("no.such", SET, "1")],
        [("no.such", DELETE, None)],
        [("retention.ms", SET, "abc")],
        [("retention.ms", SET, "-2")],
        [("retention.ms", SET, None)],
        [("cleanup.policy", APPEND, None)],
        [("cleanup.policy", SUBTRACT, None)],
        [("retention.ms", 9, "1")],
        [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
        [("retention.ms", SET, "77"), ("segment.bytes", SET, "1")],
    ]
    return [
        *(change_configs(version, (TOPIC_RESOURCE, "t", each)) for each in changes),
        _topic_configs("retention.ms", "segment.bytes"),
    ]


@sequence(*edges(INCREMENTAL_ALTER_CONFIGS), t=topic((0,)), u=topic((0,)))
def incremental_resources(version: int) -> list[Action]:
    """Resources for themselves; the same one twice; unknown topics and types."""
    good = [("flush.ms", SET, "1")]
    return [
        change_configs(version, (TOPIC_RESOURCE, "t", [("flush.ms", SET, "x")]), (TOPIC_RESOURCE, "u", good)),
        describe_configs(4, (TOPIC_RESOURCE, "u", ["flush.ms"]), settle={"results.0.configs.0.value": "1"}),
        change_configs(version, (TOPIC_RESOURCE, "t", good), (TOPIC_RESOURCE, "t", good)),
        change_configs(version, (TOPIC_RESOURCE, "nope", good)),
        change_configs(version, (TOPIC_RESOURCE, exact(""), good)),
        change_configs(version, (TOPIC_RESOURCE, exact("a b"), good)),
        *(change_configs(version, (kind, exact("x"), good)) for kind in (0, 3, 99)),
    ]


@sequence(1, t=topic((0,)))
def incremental_validating(version: int) -> list[Action]:
    """validate_only checks everything and changes nothing."""
    return [
        change_configs(version, (TOPIC_RESOURCE, "t", [("flush.ms", SET, "5")]), validate_only=True),
        change_configs(version, (TOPIC_RESOURCE, "t", [("flush.ms", SET, "x")]), validate_only=True),
        _topic_configs("flush.ms"),
    ]


@sequence(1, t=topic((0,)))
def throttle_lists(version: int) -> list[Action]:
    """What a list of throttled replicas may look like."""
    key = "follower.replication.throttled.replicas"
    good = ("0:0", "0:0,1:1", "*", "", "0:0 , 1:1", ",0:1", "0:1,", "99999999999:1")
    bad = ("0-101", "0:101,*", "a:1", "0:", ":0", "**", "0:101:2", "-1:0", "+1:0", "0 : 1", "none")
    return [change_configs(version, (TOPIC_RESOURCE, "t", [(key, SET, value)])) for value in (*good, *bad)]


@sequence(1)
def brokers_refused(version: int) -> list[Action]:
    """Read-only configs, bad values, other brokers, no numbers."""
    return [
        change_configs(version, (BROKER_RESOURCE, ME, [("node.id", SET, "1")])),
        change_configs(version, (BROKER_RESOURCE, ME, [("leader.replication.throttled.rate", SET, "-1")])),
        change_configs(version, (BROKER_RESOURCE, ME, [("leader.replication.throttled.rate", SET, "abc")])),
        # Only validated: Syncline accepts it, and it would stay.
        change_configs(
            version, (BROKER_RESOURCE, OTHER, [("leader.replication.throttled.rate", SET, "1000")]), validate_only=True
        ),
        change_configs(version, (BROKER_RESOURCE, exact("abc"), [("leader.replication.throttled.rate", SET, "1000")])),
        change_configs(version, (BROKER_RESOURCE, ME, [("min.insync.replicas", SET, "1")])),
        change_configs(
            version, (BROKER_RESOURCE, ME, [("leader.replication.throttled.rate", SET, "1000")]), validate_only=True
        ),
    ]


@sequence(*every(INCREMENTAL_ALTER_CONFIGS))
def values_that_no_broker_takes(version: int) -> list[Action]:
    """Values are judged before the place, and the place before what only the controller knows."""
    everywhere: list[list[tuple[str, int, Any]]] = [
        [("log.retention.ms", SET, "0")],
        [("log.retention.ms", SET, "-2")],
        [("log.roll.ms", SET, "0")],
        [("log.roll.jitter.ms", SET, "-1")],
        [("max.connections", SET, "0")],
        [("max.connection.creation.rate", SET, "0")],
        [("log.cleaner.threads", SET, "3")],
        [("log.cleaner.threads", SET, "0")],
        [("remote.log.reader.threads", SET, "4")],
        [("remote.log.reader.threads", SET, "20")],
        [("remote.log.manager.copier.thread.pool.size", SET, "4")],
        [("remote.log.manager.expiration.thread.pool.size", SET, "4")],
        [("remote.log.manager.follower.thread.pool.size", SET, "1")],
        [("sasl.kerberos.ticket.renew.jitter", SET, "abc")],
        [("sasl.kerberos.ticket.renew.jitter", SET, "0.5")],
        [("ssl.keystore.type", SET, "x"), ("log.roll.ms", SET, "abc")],
        [("ssl.keystore.type", SET, "x"), ("node.id", SET, "x")],
        [("min.insync.replicas", DELETE, None), ("log.roll.ms", SET, "0")],
        [("min.insync.replicas", DELETE, None)],
    ]
    here: list[list[tuple[str, int, Any]]] = [
        [("ssl.keystore.type", SET, "x")],
        [("ssl.truststore.password", SET, "x")],
        [("ssl.client.auth", SET, "x")],
        [("min.insync.replicas", SET, "1"), ("log.roll.ms", SET, "0")],
        [("min.insync.replicas", DELETE, None)],
        [("compression.type", APPEND, "gzip")],
        [("compression.type", SUBTRACT, "gzip")],
        [("no.such", APPEND, "1")],
        [("no.such", SUBTRACT, "1"), ("node.id", SET, "1")],
    ]
    asked = [*((exact(""), changes) for changes in everywhere), *((ME, changes) for changes in here)]
    return [change_configs(version, (BROKER_RESOURCE, *each), validate_only=True) for each in asked]


@sequence(*edges(ALTER_CONFIGS))
def replacing_refused_by_a_broker(version: int) -> list[Action]:
    """The broker refuses what it cannot take before the controller misses the minimum of in-sync replicas."""
    return [
        alter_configs(version, (BROKER_RESOURCE, exact(""), configs), validate_only=True)
        for configs in ({"default.replication.factor": "2"}, {"log.roll.ms": "0"}, {})
    ]


@sequence(1)
def threads_are_set_and_reset_in_steps(version: int) -> list[Action]:
    """What counts is the number in force before and after, whoever has set it."""
    key = "background.threads"
    everywhere, here = (BROKER_RESOURCE, exact("")), (BROKER_RESOURCE, ME)

    def shown(value: str) -> Action:
        return describe_configs(4, (*here, [key]), settle={"results.0.configs.0.value": value})

    return [
        change_configs(version, (*here, [(key, SET, "5")])),
        shown("5"),
        change_configs(version, (*here, [(key, SET, "4")])),
        shown("4"),
        change_configs(version, (*here, [(key, DELETE, None)])),
        change_configs(version, (*everywhere, [(key, SET, "21")]), validate_only=True),
        change_configs(version, (*here, [(key, SET, "5")])),
        shown("5"),
        change_configs(version, (*here, [(key, DELETE, None)])),
        shown("10"),
        change_configs(version, (*everywhere, [(key, SET, "21")]), validate_only=True),
    ]


@sequence(1)
def unknown_names_have_no_documentation(version: int) -> list[Action]:
    """What nobody knows, nobody explains."""
    key = "no.such.thing"
    return [
        change_configs(version, (BROKER_RESOURCE, ME, [(key, SET, "1")])),
        describe_configs(4, (BROKER_RESOURCE, ME, [key]), documentation=True, settle={"results.0.configs.0.name": key}),
        change_configs(version, (BROKER_RESOURCE, ME, [(key, DELETE, None)])),
        describe_configs(4, (BROKER_RESOURCE, ME, [key]), settle={"results.0.configs": []}),
    ]


@sequence(1)
def shown_as_set(version: int) -> list[Action]:
    """What is set for brokers is shown as it was written, but for the value in force."""
    key = "log.cleaner.backoff.ms"
    return [
        change_configs(version, (BROKER_RESOURCE, exact(""), [(key, SET, " +16000 ")])),
        describe_configs(
            4, (BROKER_RESOURCE, exact(""), [key]), synonyms=True, settle={"results.0.configs.0.value": " +16000 "}
        ),
        describe_configs(4, (BROKER_RESOURCE, ME, [key]), synonyms=True, settle={"results.0.configs.0.value": "16000"}),
        change_configs(version, (BROKER_RESOURCE, exact(""), [(key, DELETE, None)])),
        describe_configs(4, (BROKER_RESOURCE, ME, [key]), settle={"results.0.configs.0.value": "15000"}),
    ]


@sequence(1)
def broker_rates(version: int) -> list[Action]:
    """A rate appears while it is set."""
    key = "follower.replication.throttled.rate"
    return [
        describe_configs(4, (BROKER_RESOURCE, ME, [key])),
        change_configs(version, (BROKER_RESOURCE, ME, [(key, SET, "1000000000")])),
        describe_configs(4, (BROKER_RESOURCE, ME, [key]), settle={"results.0.configs.0.value": "1000000000"}),
        change_configs(version, (BROKER_RESOURCE, ME, [(key, DELETE, None)])),
        describe_configs(4, (BROKER_RESOURCE, ME, [key]), settle={"results.0.configs": []}),
    ]


@sequence(1)
def cluster_default(version: int) -> list[Action]:
    """The empty name is the default of all brokers."""
    key = "background.threads"
    return [
        change_configs(version, (BROKER_RESOURCE, exact(""), [(key, SET, "11")])),
        describe_configs(4, (BROKER_RESOURCE, exact(""), [key]), settle={"results.0.configs.0.value": "11"}),
        describe_configs(4, (BROKER_RESOURCE, ME, [key]), synonyms=True, settle={"results.0.configs.0.value": "11"}),
        change_configs(version, (BROKER_RESOURCE, exact(""), [(key, DELETE, None)])),
        describe_configs(4, (BROKER_RESOURCE, ME, [key]), settle={"results.0.configs.0.value": "10"}),
    ]


@sequence(*every(ALTER_CONFIGS), t=topic((0,)))
def replacing(version: int) -> list[Action]:
    """AlterConfigs replaces everything that was set; nothing clears."""
    return [
        alter_configs(version, (TOPIC_RESOURCE, "t", {"flush.ms": "1000", "max.message.bytes": "2000"})),
        _shows("flush.ms", "1000"),
        alter_configs(version, (TOPIC_RESOURCE, "t", {"max.message.bytes": "3000"})),
        _shows("max.message.bytes", "3000"),
        _shows("flush.ms", "9223372036854775807"),
        _topic_configs("retention.ms"),
        alter_configs(version, (TOPIC_RESOURCE, "t", {})),
        _shows("max.message.bytes", "1048588"),
        alter_configs(version),
    ]


@sequence(*edges(ALTER_CONFIGS), t=topic((0,)), u=topic((0,)))
def replacing_refused(version: int) -> list[Action]:
    """The same refusals as of single changes."""
    return [
        alter_configs(version, (TOPIC_RESOURCE, "t", {"no.such": "1"})),
        alter_configs(version, (TOPIC_RESOURCE, "t", {"flush.ms": "abc"})),
        alter_configs(version, (TOPIC_RESOURCE, "t", {"flush.ms": None})),
        alter_configs(version, (TOPIC_RESOURCE, "t", [("flush.ms", "1"), ("flush.ms", "2")])),
        alter_configs(version, (TOPIC_RESOURCE, "t", {"flush.ms": "x"}), (TOPIC_RESOURCE, "u", {"flush.ms": "5"})),
        alter_configs(version, (TOPIC_RESOURCE, "nope", {"flush.ms": "1"})),
        alter_configs(version, (TOPIC_RESOURCE, exact(""), {"flush.ms": "1"})),
        alter_configs(version, (LOGGER_RESOURCE, ME, {"root": "INFO"})),
        alter_configs(version, (99, exact("x"), {"flush.ms": "1"})),
        alter_configs(version, (TOPIC_RESOURCE, "t", {"flush.ms": "5"}), validate_only=True),
        _topic_configs("flush.ms"),
    ]


@sequence(4)
def at_every_broker(version: int) -> list[Action]:
    """Each broker describes itself."""
    return [
        describe_configs(
            version, (BROKER_RESOURCE, BrokerNumber(rank, as_text=True), ["num.partitions"]), to=broker(rank)
        )
        for rank in range(3)
    ]


OTHER_KINDS = (LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


@sequence(*edges(DESCRIBE_CONFIGS))
def other_kinds(version: int) -> list[Action]:
    """Loggers, client metrics and groups: names that are empty, unknown, or of another broker; unknown keys."""
    return [
        *(describe_configs(version, (kind, exact(""), None)) for kind in OTHER_KINDS),
        *(describe_configs(version, (LOGGER_RESOURCE, who, ["root"])) for who in (OTHER, exact("abc"), exact("99"))),
        describe_configs(version, (LOGGER_RESOURCE, ME, ["no.such"])),
        describe_configs(version, (LOGGER_RESOURCE, ME, ["root"])),
        *(
            describe_configs(version, (kind, "nope", keys))
            for kind in (CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)
            for keys in (None, ["no.such"], ["interval.ms", "consumer.session.timeout.ms"])
        ),
    ]


@sequence(4)
def other_kinds_synonyms(version: int) -> list[Action]:
    """Where values of loggers, client metrics and groups come from."""
    return [
        describe_configs(version, (LOGGER_RESOURCE, ME, ["root"]), synonyms=True),
        describe_configs(version, (CLIENT_METRICS_RESOURCE, "nope", None), synonyms=True),
        describe_configs(version, (GROUP_RESOURCE, "nope", None), synonyms=True),
    ]


OWN_FACTS = ("node.id", "broker.id", "listeners", "advertised.listeners", "log.dirs", "broker.rack", "process.roles")


@sequence(4)
def own_facts(version: int) -> list[Action]:
    """What a broker is: its number, where it listens, where its logs are."""
    return [
        describe_configs(version, (BROKER_RESOURCE, BrokerNumber(rank, as_text=True), [key]), to=broker(rank))
        for rank in (0, 1)
        for key in OWN_FACTS
    ]


@sequence(1, t=topic((0,)))
def list_edges(version: int) -> list[Action]:
    """Empty items of a list, and subtracting what is not there."""
    key = "leader.replication.throttled.replicas"

    def change(operation: int, value: str) -> list[Action]:
        return [
            change_configs(version, (TOPIC_RESOURCE, "t", [(key, operation, value)])),
            Pause(50),
            _topic_configs(key),
        ]

    return [
        *change(SUBTRACT, "0:1"),
        *change(SET, "0:1,"),
        *change(SUBTRACT, "9:9"),
        *change(SET, ",0:1"),
        *change(SUBTRACT, "9:9"),
        *change(SET, "0:1,,1:1"),
        *change(SUBTRACT, "1:1"),
        *change(SET, "0:1"),
        *change(SUBTRACT, ""),
        *change(APPEND, ""),
        *change(SUBTRACT, "9:9"),
        *change(APPEND, "1:1"),
        *change(SUBTRACT, "0:1,1:1"),
        *change(SUBTRACT, "9:9"),
        *change(APPEND, "0:1,,1:1"),
    ]


@sequence(1, t=topic((0,)))
def no_remote_storage(version: int) -> list[Action]:
    """A topic cannot be tiered by brokers that have nothing to tier to."""
    changes: list[list[tuple[str, int, Any]]] = [
        [("remote.storage.enable", SET, "true")],
        [("remote.storage.enable", SET, "false")],
        [("remote.log.copy.disable", SET, "true")],
        [("remote.log.copy.disable", DELETE, None)],
        [("remote.log.delete.on.disable", SET, "true")],
        [("local.retention.ms", SET, "5"), ("retention.ms", SET, "1")],
    ]
    return [
        *(change_configs(version, (TOPIC_RESOURCE, "t", each)) for each in changes),
        alter_configs(1, (TOPIC_RESOURCE, "t", {"remote.storage.enable": "true"})),
        change_configs(version, (TOPIC_RESOURCE, "t", changes[0]), validate_only=True),
    ]


@sequence(*every(INCREMENTAL_ALTER_CONFIGS))
def values_of_no_topic(version: int) -> list[Action]:
    """Values are looked at before the topic that they are for."""
    changes = [
        ("retention.ms", SET, "abc"),
        ("retention.ms", APPEND, "1"),
        ("no.such", SET, "1"),
        ("retention.ms", SET, "1"),
    ]
    return [
        *(change_configs(version, (TOPIC_RESOURCE, "nope", [each])) for each in changes),
        change_configs(version, (TOPIC_RESOURCE, exact("a b"), [("retention.ms", APPEND, "1")])),
        change_configs(version, (TOPIC_RESOURCE, exact(""), [("retention.ms", SET, "abc")])),
        alter_configs(min(version, 2), (TOPIC_RESOURCE, "nope", [("retention.ms", "abc")])),
    ]


@sequence(*edges(DESCRIBE_CONFIGS), t=topic((0,)))
def unknown_kind_beside_a_topic(version: int) -> list[Action]:
    """One resource of a kind that does not exist refuses the request."""
    return [describe_configs(version, (TOPIC_RESOURCE, "t", ["retention.ms"]), (3, exact(""), None))]
