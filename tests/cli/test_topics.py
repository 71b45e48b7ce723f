"""`topics` and `configs`: text for users, JSON for scripts, and one sentence for every refusal."""

import pytest

from tests.cli.terminal import as_json, call, refusal, refused, run, succeed
from tests.cluster import LocalCluster

pytestmark = pytest.mark.process


def test_topic_is_created_listed_described_altered_and_deleted(at: tuple[str, str]) -> None:
    """The life of a topic, as text and as JSON."""
    name = "cli-life"
    options = ("-p", "3", "-r", "3", "-c", "retention.ms=60000")
    assert as_json("topics", "create", name, *options, *at) == {"created": name}
    assert {"topic": name, "partitions": 3, "replicas": 3} in as_json("topics", "list", *at)
    described = as_json("topics", "describe", name, *at)
    assert [row["partition"] for row in described["partitions"]] == [0, 1, 2]
    assert all(row["isr"] == [1, 2, 3] for row in described["partitions"])
    assert described["configs"] == {"retention.ms": "60000"}
    assert f"topic {name}: 3 partitions, 3 replicas" in succeed("topics", "describe", name, *at)
    succeed("topics", "alter", name, "-p", "4", "-c", "cleanup.policy=compact", *at)
    described = as_json("topics", "describe", name, *at)
    assert len(described["partitions"]) == 4
    assert described["configs"]["cleanup.policy"] == "compact"
    assert as_json("topics", "delete", name, *at) == {"deleted": [name]}
    assert name not in succeed("topics", "list", *at)


def test_internal_topics_are_shown_when_asked_for(at: tuple[str, str]) -> None:
    """The list omits the journal and other internal topics."""
    assert "__syncline_journal" not in succeed("topics", "list", *at)
    assert "__syncline_journal" in succeed("topics", "list", "--internal", *at)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("bad name!",), "contains one or more characters other than ASCII"),
        (("",), "the empty string is not allowed"),
        (("x" * 250,), "longer than the max allowed length"),
        (("many", "-r", "5"), "only 3 broker(s) are registered"),
        (("none", "-p", "0"), "INVALID_PARTITIONS"),
        (("odd", "-c", "foo=1"), "Unknown topic config name: foo"),
        (("odd", "-c", "retention.ms=soon"), "Invalid value soon for configuration retention.ms"),
        (("odd", "-c", "foo"), "--config takes NAME=VALUE, not 'foo'"),
    ],
    ids=lambda value: str(value[-1])[:12],
)
def test_create_refuses_in_a_sentence(at: tuple[str, str], arguments: tuple[str, ...], complaint: str) -> None:
    """The message names the invalid name, number or configuration."""
    assert complaint in refusal("topics", "create", *arguments, *at)


def test_create_refuses_a_name_that_is_taken(any_topic: str, at: tuple[str, str]) -> None:
    """The message has Kafka's own name of the error, so that users can search for it."""
    assert "TOPIC_ALREADY_EXISTS" in refused("topics", "create", any_topic, *at)


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "describe", "nope"),
        ("topics", "alter", "nope", "-p", "9"),
        ("topics", "delete", "nope"),
        ("consume", "nope"),
        ("groups", "reset-offsets", "g", "--topic", "nope", "--to", "earliest"),
        ("configs", "describe", "topic", "nope"),
        ("configs", "alter", "topic", "nope", "--set", "retention.ms=1"),
    ],
    ids=lambda arguments: "-".join(arguments[:2]),
)
def test_unknown_topic_is_named_and_not_created(at: tuple[str, str], arguments: tuple[str, ...]) -> None:
    """Describing a topic does not create it, although the cluster creates topics for producers."""
    assert "there is no topic 'nope'" in refusal(*arguments, *at)
    assert "nope" not in call("topics", "list", *at)


def test_topics_of_the_brokers_are_not_deleted_by_mistake(topic: str, at: tuple[str, str]) -> None:
    """Guards: one command, without a word, took all committed offsets, or all that `why` reads."""
    assert "the committed offsets of all groups" in refusal("topics", "delete", topic, "__consumer_offsets", *at)
    assert "syncline why" in refusal("topics", "delete", "__syncline_journal", *at)

    left = {each["topic"] for each in as_json("topics", "list", "--internal", *at)}
    assert {topic, "__syncline_journal"} <= left


def test_deleting_some_unknown_topics_deletes_the_others(topic: str, at: tuple[str, str]) -> None:
    """One wrong name does not hide the results of the others."""
    ran = run("topics", "delete", "nope", topic, *at)
    assert ran.returncode == 1
    assert f"deleted topic {topic}" in ran.stdout
    assert "there is no topic 'nope'" in ran.stderr


def test_fewer_partitions_are_refused(any_topic: str, at: tuple[str, str]) -> None:
    """The number of partitions cannot decrease."""
    assert "would not be an increase" in refused("topics", "alter", any_topic, "-p", "1", *at)
    assert "nothing to alter" in refused("topics", "alter", any_topic, *at)


def test_configs_are_set_shown_and_unset(topic: str, at: tuple[str, str]) -> None:
    """A value that was set shows with its source; unset, it returns to the default."""
    succeed("configs", "alter", "topic", topic, "--set", "retention.ms=1000", *at)
    rows = {row["name"]: row for row in as_json("configs", "describe", "topic", topic, *at)}
    assert (rows["retention.ms"]["value"], rows["retention.ms"]["source"]) == ("1000", "topic")
    assert as_json("configs", "alter", "topic", topic, "--unset", "retention.ms", *at) == {"altered": topic}
    assert "retention.ms" not in succeed("configs", "describe", "topic", topic, *at)
    assert "segment.bytes" in succeed("configs", "describe", "topic", topic, "--all", *at)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("describe", "broker", "9"), "broker '9' does not exist or is down. Brokers that are up: 1, 2, 3."),
        (("describe", "broker", "first"), "broker 'first' does not exist"),
        (("describe", "cluster", "x"), "KIND is `topic` or `broker`"),
        (("alter", "broker", "1", "--set", "num.partitions=3"), "Cannot update these configs dynamically"),
        (("alter", "broker", "1"), "nothing to alter"),
        (("alter", "broker", "1", "--set", "x"), "--set takes NAME=VALUE"),
    ],
    ids=lambda value: "-".join(value)[:24],
)
def test_configs_refuse_in_a_sentence(at: tuple[str, str], arguments: tuple[str, ...], complaint: str) -> None:
    """The command does not wait for a missing broker, and names a configuration that is fixed at start."""
    assert complaint in refusal("configs", *arguments, *at)


@pytest.mark.parametrize(
    ("bootstrap", "complaint"),
    [
        ("", "--bootstrap takes HOST:PORT"),
        ("a b", "--bootstrap takes HOST:PORT"),
        ("\udcff:1", "--bootstrap takes HOST:PORT"),
        ("localhost:70000", "with ports up to 65535"),
        ("localhost:0", "with ports up to 65535"),
        ("localhost:1", "the connection is refused"),
    ],
)
def test_bootstrap_that_cannot_be_reached_is_named(bootstrap: str, complaint: str) -> None:
    """An invalid address, and a port without a listener."""
    assert complaint in refusal("topics", "list", "--bootstrap", bootstrap)


def test_bootstrap_points_elsewhere(three_brokers: LocalCluster, topic: str) -> None:
    """`--bootstrap` selects any cluster instead of a data directory."""
    bootstrap = three_brokers.bootstrap
    assert topic in succeed("topics", "list", "--bootstrap", bootstrap.replace(",", ", "))


def test_elections_are_held_for_what_is_asked(at: tuple[str, str]) -> None:
    """If all leaders are the preferred ones, no election takes place for one partition, a topic or all."""
    name = "cli-elect"
    succeed("topics", "create", name, "-p", "2", "-r", "3", *at)

    rows = as_json("topics", "elect-leaders", "--topic", name, *at)
    assert rows == [{"topic": name, "partition": each, "elected": False, "error": None} for each in (0, 1)]
    one = ("topics", "elect-leaders", "--type", "unclean", "--topic", name, "--partition", "1", *at)
    assert succeed(*one) == f"{name}-1: no election was needed\n"
    # Replicas of other tests' topics may have moved, and their preferred leaders changed.
    succeed("topics", "elect-leaders", *at)
    assert "no election was needed" in succeed("topics", "elect-leaders", *at)


def test_elections_are_refused_in_a_sentence(any_topic: str, at: tuple[str, str]) -> None:
    """The message names the wrong name or number."""
    assert "there is no topic 'nope'" in refusal("topics", "elect-leaders", "--topic", "nope", *at)
    assert "--partition needs --topic" in refusal("topics", "elect-leaders", "--partition", "0", *at)
    done = run("topics", "elect-leaders", "--topic", any_topic, "--partition", "99", *at)
    assert done.returncode == 1
    assert f"{any_topic}-99: " in done.stdout
    assert "UNKNOWN_TOPIC_OR_PART" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "vast", "--partitions", "2147483648"),
        ("create", "vast", "--replication-factor", "32768"),
        ("alter", "vast", "--partitions", "99999999999"),
        ("elect-leaders", "--topic", "vast", "--partition", "99999999999"),
        ("elect-leaders", "--topic", "vast", "--partition", "-1"),
    ],
)
def test_numbers_that_the_protocol_cannot_hold_are_refused(arguments: tuple[str, ...], at: tuple[str, str]) -> None:
    """The message names the option and its values; the command contacts no broker."""
    done = run("topics", *arguments, *at)

    assert done.returncode == 2
    assert "Invalid value for" in done.stderr
    assert "range" in done.stderr
