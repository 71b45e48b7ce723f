"""`why` and `isr`: a partition's past in sentences, its present in a table, and one sentence per refusal."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from syncline.cli import why
from syncline.cli.journal_reader import JournalSilentError
from syncline.local.control_secret import ensure_secret
from syncline.local.layout import Layout
from tests.cli.terminal import as_json, call, refusal, refused, succeed
from tests.cluster import LocalCluster
from tests.patience import eventually

pytestmark = pytest.mark.process


def test_why_says_that_nothing_happened(any_topic: str, at: tuple[str, str]) -> None:
    """Nothing has happened to a new topic."""
    result = succeed("why", f"{any_topic}:0", *at)

    assert f"Nothing happened to {any_topic}-0" in result
    assert "since it was created at" in result
    fields = as_json("why", f"{any_topic}:1", "--since", "1h", *at)
    assert (fields["topic"], fields["partition"], fields["cause"], fields["findings"]) == (any_topic, 1, None, [])
    assert fields["created_ms"] <= fields["until_ms"]


def test_why_looks_back_to_the_beginning_of_the_journal_at_most(any_topic: str, at: tuple[str, str]) -> None:
    """The output begins where the journal begins, however far back `--since` goes."""
    ages = [as_json("why", f"{any_topic}:1", "--since", since, *at)["since_ms"] for since in ("9" * 30 + "d", "5000d")]

    assert ages[0] == ages[1] > 1_600_000_000_000


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("{topic}",), "name a partition as TOPIC:PARTITION"),
        (("no-such-topic:0",), "there is no topic 'no-such-topic'"),
        (("{topic}:7",), "has partitions 0 to 1, not 7"),
        (("{topic}:0", "--since", "yesterday"), "--since takes a span"),
        (("{topic}:0", "--since", "0"), "--since takes a span"),
        (("{topic}:0", "--since", "0001-01-01"), "--since takes a span"),
        (("{topic}:0", "--since", "2099-01-01"), "--since 2099-01-01 is in the future"),
        (("{topic}:0", "--replica", "9"), "broker 9 holds no replica of"),
    ],
    ids=lambda value: str(value[-1])[:12],
)
def test_why_refuses_in_a_sentence(
    any_topic: str, at: tuple[str, str], arguments: tuple[str, ...], complaint: str
) -> None:
    """The message names the invalid argument."""
    asked = [each.format(topic=any_topic) for each in arguments]

    assert complaint in refused("why", *asked, *at)


def test_why_tells_of_a_topic_that_was_deleted(make_topic: Callable[..., str], at: tuple[str, str]) -> None:
    """It says when, as long as it looks back so far, and knows which partitions there were."""
    topic = make_topic(2)
    succeed("topics", "delete", topic, *at)
    told = eventually(lambda: call("why", f"{topic}:1", *at), lambda text: "was deleted at" in text)

    assert told.startswith(f"{topic}-1: deleted at ")
    assert [each["effect"] for each in as_json("why", f"{topic}:0", *at)["findings"]] == ["topic-deleted"]
    assert "has partitions 0 to 1, not 2" in refused("why", f"{topic}:2", *at)
    # Since then, too.
    assert "was deleted at" in call("why", f"{topic}:0", "--since", "1ms", *at)


def test_why_without_the_journal_says_what_is_missing(
    any_topic: str, at: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells what brokers know, does not claim that nothing happened, and fails; elsewhere it has nothing to tell."""

    def silent(*_: object) -> None:
        raise JournalSilentError("cannot read the journal: no answer.")

    monkeypatch.setattr(why, "read_journal", silent)
    facts = json.loads(call("why", f"{any_topic}:0", "--json", *at))

    assert facts["missing"] == "cannot read the journal: no answer."
    assert bool(facts["words"]) is bool(facts["findings"])
    sentence = refusal("why", f"{any_topic}:0", *at)
    assert sentence.startswith("cannot read the journal: no answer. ")
    assert sentence.endswith(("No broker knows more.", "what brokers have not written to it yet."))


def test_isr_shows_each_partition_with_its_leader(any_topic: str, at: tuple[str, str]) -> None:
    """As a table and as JSON; only one partition if it is named."""
    result = succeed("isr", any_topic, *at)

    assert "PARTITION" in result
    assert f"{any_topic}-0" in result
    assert f"{any_topic}-1" in result
    (row,) = as_json("isr", f"{any_topic}:1", *at)["partitions"]
    assert (row["partition"], row["isr"], row["followers"]) == (1, [row["leader"]], [])


def test_isr_of_what_does_not_exist_is_refused(any_topic: str, at: tuple[str, str]) -> None:
    """Guards: scripts took the exit code 0 for a partition without a leader."""
    assert "there is no topic 'no-such-topic'" in refused("isr", "no-such-topic", *at)
    assert "there is no topic 'no-such-topic'" in refusal("isr", "no-such-topic:0", *at)
    assert f"topic '{any_topic}' has partitions 0 to 1, not 9" in refusal("isr", f"{any_topic}:9", "--json", *at)
    assert "name a topic or TOPIC:PARTITION" in refused("isr", "t:x", *at)


@pytest.fixture
def at_a_stranger(three_brokers: LocalCluster, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The options that point a command at the shared cluster, but with another secret than its own."""
    found = Layout(tmp_path)
    found.state_file.write_text(Layout(three_brokers.directory).state_file.read_text())
    ensure_secret(tmp_path)
    with found.lock():
        yield "--data", str(tmp_path)


@pytest.mark.parametrize(
    "arguments", [("isr",), ("isr", "--json"), ("fault", "list"), ("fault", "clear")], ids=" ".join
)
def test_refusal_of_all_brokers_is_an_error(at_a_stranger: tuple[str, str], arguments: tuple[str, ...]) -> None:
    """Guards: "no faults" and an empty table, with exit code 0, when no broker had told. Each reason is given once."""
    assert refusal(*arguments, *at_a_stranger).count("carries a wrong secret") == 1


def test_isr_needs_a_cluster_that_runs(tmp_path: object) -> None:
    """Other clusters have no such control API."""
    assert "no cluster is running" in refusal("isr", "--data", str(tmp_path))
