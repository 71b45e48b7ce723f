"""Configurations: tables, typed objects, and Kafka's error messages."""

import time
from dataclasses import fields
from typing import get_type_hints

import pytest

from syncline.model.broker_config import BROKER_CONFIGS, BrokerConfig
from syncline.model.config_types import ConfigDefinition, ConfigError, ConfigType, UpdateMode, address_counts, show
from syncline.model.topic_config import TOPIC_CONFIGS, TopicConfig, validate_topic_config

PYTHON_TYPES = {
    ConfigType.BOOLEAN: bool,
    ConfigType.STRING: str,
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.LIST: tuple[str, ...],
}


@pytest.mark.parametrize(("config", "table"), [(BrokerConfig, BROKER_CONFIGS), (TopicConfig, TOPIC_CONFIGS)])
def test_fields_are_annotated_with_what_their_configuration_parses_to(
    config: type, table: dict[str, ConfigDefinition]
) -> None:
    """The type in DescribeConfigs and the type that code relies on are given beside each other and agree."""
    hints = get_type_hints(config)
    settings = {each.name: table[each.name.replace("_", ".")] for each in fields(config) if each.metadata}
    expected = {
        name: PYTHON_TYPES[row.kind] | None if row.default is None else PYTHON_TYPES[row.kind]
        for name, row in settings.items()
    }

    assert {name: hints[name] for name in settings} == expected


@pytest.mark.parametrize("table", [BROKER_CONFIGS, TOPIC_CONFIGS])
def test_defaults_keep_their_own_rules(table: dict[str, ConfigDefinition]) -> None:
    """A value that an operator reads back may be set again."""
    given = {name: row for name, row in table.items() if row.default is not None}

    assert {name: show(row.parse(str(row.default))) for name, row in given.items()} == {
        name: row.default for name, row in given.items()
    }


@pytest.mark.parametrize("name", [name for row in TOPIC_CONFIGS.values() for name in row.synonyms])
def test_topics_take_over_configurations_that_brokers_have(name: str) -> None:
    """A synonym that is no configuration of a broker would be found out by the first topic that needs it."""
    assert name in BROKER_CONFIGS


def test_there_are_kafkas_33_topic_configurations() -> None:
    """Tools list exactly these; each has a sentence about it."""
    shown = [definition for definition in TOPIC_CONFIGS.values() if not definition.hidden]

    assert len(shown) == 33
    assert all(definition.documentation for definition in shown)


def test_dynamic_broker_configurations_are_kafkas() -> None:
    """97 of Kafka 4.3's 99 are changeable at run time, not those about listeners; Syncline's own come on top."""
    dynamic = [d for d in BROKER_CONFIGS.values() if d.update_mode is not UpdateMode.READ_ONLY and not d.hidden]

    assert len([d for d in dynamic if not d.own]) == 99 - len({"listeners", "listener.security.protocol.map"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("127.0.0.1:200, hostName:100", [("127.0.0.1", 200), ("hostName", 100)]),
        ("::1:5,[fe80::1]:6", [("::1", 5), ("fe80::1", 6)]),
    ],
)
def test_counts_per_address_are_read_up_to_the_last_colon(text: str, expected: list[tuple[str, int]]) -> None:
    """Addresses of version 6 have colons of their own."""
    assert address_counts(text) == expected


def test_topic_without_overrides_follows_the_broker() -> None:
    """Defaults are the broker's; the broker's names differ."""
    broker = BrokerConfig.resolve({"log.retention.minutes": "2", "log.roll.hours": "3", "message.max.bytes": "77"})

    topic = TopicConfig.resolve({}, broker)

    assert (topic.retention_ms, topic.segment_ms, topic.max_message_bytes) == (120_000, 10_800_000, 77)


def test_override_wins_over_the_broker() -> None:
    """A topic's own value counts."""
    topic = TopicConfig.resolve({"retention.ms": "5", "cleanup.policy": "compact,delete"}, BrokerConfig())

    assert (topic.retention_ms, topic.cleanup_policy) == (5, ("compact", "delete"))


def test_layers_of_a_broker_in_their_order() -> None:
    """A broker's own dynamic value, then everybody's, then the file's."""
    config = BrokerConfig.resolve(
        {"num.io.threads": "1", "message.max.bytes": "1", "log.retention.bytes": "1", "fetch.max.bytes": "5000"},
        {"message.max.bytes": "2", "log.retention.bytes": "2", "unknown.to.us": "x"},
        {"log.retention.bytes": "3"},
    )

    assert (config.fetch_max_bytes, config.message_max_bytes, config.log_retention_bytes) == (5_000, 2, 3)


def test_broker_configuration_prints_what_differs_from_the_defaults() -> None:
    """A hundred defaults would hide it."""
    config = BrokerConfig.resolve({"broker.rack": "a", "min.insync.replicas": "2", "num.partitions": "1"})

    assert repr(config) == "BrokerConfig(broker_rack='a', min_insync_replicas=2)"


@pytest.mark.parametrize(
    ("static", "message"),
    [
        ({"no.such.thing": "1"}, "Unknown broker config name: no.such.thing"),
        (
            {"fetch.max.bytes": "1023"},
            "Invalid value 1023 for configuration fetch.max.bytes: Value must be at least 1024",
        ),
        ({"replica.fetch.wait.max.ms": "31000"}, "replica.socket.timeout.ms should always be at least"),
        (
            {"replica.fetch.wait.max.ms": "6000", "replica.lag.time.max.ms": "5000"},
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms",
        ),
        (
            {"high.watermark.min.isr.gate": "false"},
            "high.watermark.min.isr.gate should be false only if eligible.leader.replicas.enable is false",
        ),
        (
            {"queued.max.request.bytes": "1000"},
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            {"max.connections.per.ip": "0"},
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
        (
            {"max.connections.per.ip.overrides": "127.0.0.1:many"},
            "Invalid value 127.0.0.1:many for configuration max.connections.per.ip.overrides: Value must be a list of",
        ),
        ({"replica.selector.class": "x"}, r"one of: \S+RackAwareReplicaSelector, \S+LeaderSelector$"),
        ({"max.connections.per.ip.overrides": "a b:1"}, "Invalid value a b:1 for configuration max.connections.per.ip"),
        ({"max.connections.per.ip.overrides": "a:-1"}, "Invalid value a:-1 for configuration max.connections.per.ip"),
    ],
)
def test_start_with_a_bad_configuration_is_refused(static: dict[str, str], message: str) -> None:
    """Unknown names, values out of range, and values that do not go together."""
    with pytest.raises(ConfigError, match=message):
        BrokerConfig.resolve(static)


THROTTLE_FORM = (
    "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format:"
    " [partitionId]:[brokerId],[partitionId]:[brokerId],..."
)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("bogus", "1", "Unknown topic config name: bogus"),
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "1_000", "Invalid value 1_000 for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            "retention.ms",
            "9223372036854775808",
            "Invalid value 9223372036854775808 for configuration retention.ms: Not a number of type LONG",
        ),
        ("segment.bytes", "13", "Invalid value 13 for configuration segment.bytes: Value must be at least 1048576"),
        ("segment.bytes", "1.5", "Invalid value 1.5 for configuration segment.bytes: Not a number of type INT"),
        (
            "compression.gzip.level",
            "10",
            "Invalid value 10 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "compression.lz4.level",
            "18",
            "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17",
        ),
        (
            "cleanup.policy",
            "delete,foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "min.cleanable.dirty.ratio",
            "2",
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        *(
            (
                "min.cleanable.dirty.ratio",
                text,
                f"Invalid value {text} for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
            )
            for text in ("nan", "inf", "0_5", "0.5g", "1e", "0x1", ".", "\u00a00.5")
        ),
        (
            "retention.ms",
            "9" * 5_000,
            f"Invalid value {'9' * 5_000} for configuration retention.ms: Not a number of type LONG",
        ),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "leader.replication.throttled.replicas",
            "0:101,*",
            f"Invalid value [0:101, *] for configuration leader.replication.throttled.replicas: {THROTTLE_FORM}",
        ),
        (
            "leader.replication.throttled.replicas",
            "0:101:2",
            f"Invalid value [0:101:2] for configuration leader.replication.throttled.replicas: {THROTTLE_FORM}",
        ),
    ],
)
def test_bad_values_are_refused_in_kafkas_words(name: str, value: str, message: str) -> None:
    """The texts are those of Kafka 4.3."""
    with pytest.raises(ConfigError) as refused:
        validate_topic_config(name, value)

    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", " 5 "),
        ("retention.ms", "+5"),
        *(("min.cleanable.dirty.ratio", text) for text in ("0.5f", "0.5D", "0x1p-1", ".5", "1.", "5e-1", "\t0.5\n")),
        ("preallocate", " True "),
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,delete"),
        ("cleanup.policy", " delete , compact "),
        *(
            ("leader.replication.throttled.replicas", value)
            for value in ("0:0", "0:0,1:1", "*", " * ", "", " ", ",0:1", "0:1,", "0:1,,1:1", "99999999999:1")
        ),
    ],
)
def test_odd_values_that_kafka_accepts_are_accepted(name: str, value: str) -> None:
    """Blanks, signs, capitals and empty items."""
    validate_topic_config(name, value)


@pytest.mark.parametrize("name", ["cleanup.policy", "leader.replication.throttled.replicas"])
def test_blanks_within_a_list_are_read_in_linear_time(name: str) -> None:
    """A pattern that begins with blanks looks at 40,000 of them 40,000 times, for seconds."""
    begin_s = time.process_time()
    with pytest.raises(ConfigError):
        validate_topic_config(name, f"delete{' ' * 40_000}delete")

    assert time.process_time() - begin_s < 0.5


@pytest.mark.parametrize(
    "value", ["a:1", "0:", ":0", "**", "-1:0", "0:-1", "+1:0", "0 : 1", "0:0;1:1", "none", "[0:0]"]
)
def test_throttled_replicas_that_kafka_refuses_are_refused(value: str) -> None:
    """Only digits, a colon, digits."""
    with pytest.raises(ConfigError):
        validate_topic_config("follower.replication.throttled.replicas", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (1e10, "1.0E10"),
        (0.0001, "1.0E-4"),
        (123456789.5, "1.234567895E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (True, "true"),
        (("a", "b"), "a,b"),
        ((), ""),
        (None, None),
    ],
)
def test_values_are_shown_as_java_does(value: object, text: str | None) -> None:
    """DescribeConfigs gives Java's text of a value."""
    assert show(value) == text
