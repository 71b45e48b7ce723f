"""DescribeConfigs: values, sources and synonyms."""

from syncline.core.cluster.config_description import (
    BrokerLayers,
    ConfigEntry,
    ConfigSource,
    describe_broker,
    describe_cluster_defaults,
    describe_topic,
)

ELR = BrokerLayers(cluster={"min.insync.replicas": "1"})


def one(entries: tuple[ConfigEntry, ...]) -> ConfigEntry:
    """Return the only entry."""
    (entry,) = entries
    return entry


def test_topic_has_33_entries_in_order() -> None:
    """All configurations, none read-only or sensitive."""
    entries = describe_topic({}, ELR)

    assert len(entries) == 33
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)
    assert not any(entry.read_only or entry.is_sensitive for entry in entries)


def test_topic_value_and_its_synonyms_in_order() -> None:
    """The topic's value, this broker's, the cluster's, the file's, the default; the broker's name where it differs."""
    layers = BrokerLayers({"log.segment.bytes": "3"}, {"log.segment.bytes": "4"}, {"log.segment.bytes": "5"})

    entry = one(describe_topic({"segment.bytes": "2000000"}, layers, ["segment.bytes"]))

    assert (entry.value, entry.source, entry.kind) == ("2000000", ConfigSource.TOPIC, 3)
    assert entry.synonyms == (
        ("segment.bytes", "2000000", ConfigSource.TOPIC),
        ("log.segment.bytes", "3", ConfigSource.DYNAMIC_BROKER),
        ("log.segment.bytes", "4", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.segment.bytes", "5", ConfigSource.STATIC_BROKER),
        ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    )


def test_retention_has_no_synonyms_while_the_milliseconds_are_unset() -> None:
    """The hours set the value, and the answer does not mention them."""
    entry = one(describe_topic({}, BrokerLayers(), ["retention.ms"]))

    assert (entry.value, entry.source, entry.synonyms) == ("604800000", ConfigSource.DEFAULT, ())


def test_retention_synonyms_once_the_milliseconds_are_set() -> None:
    """Then both names appear."""
    entry = one(describe_topic({}, BrokerLayers(static={"log.retention.ms": "9"}), ["retention.ms"]))

    assert entry.value == "9"
    assert entry.synonyms == (
        ("log.retention.ms", "9", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    )


def test_minimum_isr_comes_from_the_cluster() -> None:
    """With ELR on it has a cluster-wide value: source 3."""
    entry = one(describe_topic({}, ELR, ["min.insync.replicas"]))

    assert (entry.value, entry.source) == ("1", ConfigSource.DYNAMIC_DEFAULT_BROKER)


def test_empty_list_of_names_means_all_and_unknown_names_are_left_out() -> None:
    """As Kafka does."""
    assert len(describe_topic({}, ELR, [])) == 33
    assert describe_topic({}, ELR, ["bogus"]) == ()


def test_broker_entries_hide_secrets() -> None:
    """Passwords and unknown names have no value."""
    layers = BrokerLayers({"ssl.key.password": "s", "what.is.this": "s"})
    entries = {entry.name: entry for entry in describe_broker(layers)}

    for name in ("ssl.key.password", "what.is.this"):
        assert (entries[name].value, entries[name].is_sensitive) == (None, True)
        assert all(synonym.value is None for synonym in entries[name].synonyms)


def test_throttle_rates_are_listed_only_while_set() -> None:
    """They have no default."""
    name = "leader.replication.throttled.rate"

    assert describe_broker(BrokerLayers(), [name]) == ()
    assert one(describe_broker(BrokerLayers(cluster={name: "5"}), [name])).value == "5"


def test_read_only_entries_say_so() -> None:
    """What may not change at run time is read-only."""
    entries = {entry.name: entry for entry in describe_broker(BrokerLayers(static={"node.id": "1"}))}

    assert (entries["node.id"].read_only, entries["node.id"].value) == (True, "1")
    assert not entries["num.io.threads"].read_only


def test_cluster_defaults_are_only_what_is_set() -> None:
    """The resource "" has the dynamic values for all brokers."""
    entry = one(describe_cluster_defaults({"min.insync.replicas": "2"}))

    assert (entry.name, entry.value, entry.source) == ("min.insync.replicas", "2", 3)
    assert [synonym.source for synonym in entry.synonyms] == [ConfigSource.DYNAMIC_DEFAULT_BROKER]


def test_value_that_an_older_syncline_took_is_shown() -> None:
    """It is refused now, and whoever takes it back must see it."""
    layers = BrokerLayers({"ssl.client.auth": "anything"})

    assert one(describe_broker(layers, ["ssl.client.auth"])).value == "anything"
