"""`groups`: members and lag of a group, and how to move it."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer

from syncline.cli import groups
from syncline.cli.coordinators import Described
from tests.cli.terminal import as_json, call, refusal, run, succeed
from tests.cluster import LocalCluster
from tests.patience import eventually

pytestmark = pytest.mark.process


def committed(group: str, at: tuple[str, str]) -> list[tuple[int | None, int | None, int | None]]:
    """Return (committed, end, lag) of each partition of a group."""
    rows = as_json("groups", "describe", group, *at)["partitions"]
    return [(row["committed"], row["end"], row["lag"]) for row in rows]


def test_groups_are_listed_and_described(read: tuple[str, str], at: tuple[str, str]) -> None:
    """Committed offset, end and lag, as text and as JSON."""
    _, group = read
    assert {"group": group, "state": "empty"} in as_json("groups", "list", *at)
    assert group in succeed("groups", "list", *at)
    assert committed(group, at) == [(4, 10, 6)]
    assert f"group {group}: empty, 0 members" in succeed("groups", "describe", group, *at)


def test_description_writes_numbers_and_states_as_the_lag_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: it had 1038 and preparing_rebalancing, and `syncline lag` 1,038 and preparing rebalance."""
    row = {"topic": "orders", "partition": 0, "committed": 1_038, "end": 25_000, "lag": 23_962}
    described = SimpleNamespace(state=SimpleNamespace(name="PREPARING_REBALANCING"), members=[])
    monkeypatch.setattr(groups, "admin_client", lambda _: None)
    monkeypatch.setattr(groups, "describe_group", lambda *_: Described(described, {}))
    monkeypatch.setattr(groups, "_lag_rows", lambda *_: [{**row, "member": None, "unknown": None}])

    said = call("groups", "describe", "readers", "-b", "localhost:1")

    state, _, numbers = said.splitlines()
    assert state == "group readers: preparing rebalance, 0 members"
    assert numbers.split() == ["orders", "0", "1,038", "25,000", "23,962", "-"]


@pytest.mark.parametrize(
    ("to", "offset"),
    [
        ("earliest", 0),
        ("latest", 10),
        ("7", 7),
        ("99999999999999999999", 10),
        ("+2", 6),
        ("-3", 1),
        ("-99", 0),
        ("1970-01-02T00:00:00", 0),
        ("2999-01-01T00:00:00Z", 10),
    ],
)
def test_reset_names_the_new_offset_within_what_exists(
    read: tuple[str, str], at: tuple[str, str], to: str, offset: int
) -> None:
    """Without --execute the command changes nothing."""
    topic, group = read
    result = json.loads(call("groups", "reset-offsets", group, "-t", topic, "--to", to, "--json", *at))
    (effect,) = result.pop("effects")
    assert result == {
        "group": group,
        "topic": topic,
        "offsets": {"0": offset},
        "executed": False,
        "members": 0,
        "is_new_group": False,
        "unknown": [],
        "warning": None,
    }
    assert (effect["committed"], effect["records"]) == (4, offset - 4)


def test_effect_of_a_reset_is_told_by_brokers_and_as_far_as_kafkas_api_knows(
    read: tuple[str, str], at: tuple[str, str], three_brokers: Any
) -> None:
    """Ten records, of which the group has read four."""
    topic, group = read
    reset = ("groups", "reset-offsets", group, "-t", topic, "--to", "earliest", "--dry-run", "--json")
    (by_brokers,) = json.loads(call(*reset, *at))["effects"]
    by_kafka = json.loads(call(*reset, "--bootstrap", three_brokers.bootstrap))

    assert by_brokers["size_bytes"] <= 0
    assert by_brokers["duration_ms"] <= 0
    (effect,) = by_kafka["effects"]
    assert (effect["records"], effect["size_bytes"]) == (by_brokers["records"], None) == (-4, None)
    assert effect["duration_ms"] <= 0
    assert "Kafka's API does not report" in by_kafka["unknown"][0]


def test_reset_is_done_with_execute_only(ten_read_to_four: Callable[[], tuple[str, str]], at: tuple[str, str]) -> None:
    """The group continues from its new offset."""
    topic, group = ten_read_to_four()
    reset = ("groups", "reset-offsets", group, "-t", topic, "--to", "8", *at)
    assert "nothing was changed" in succeed(*reset)
    assert committed(group, at) == [(4, 10, 6)]
    succeed(*reset, "--execute")
    assert committed(group, at) == [(8, 10, 2)]
    assert succeed("consume", topic, "-g", group, "--until", "end", *at) == "8\n9\n"


def test_group_of_a_deleted_topic_can_still_be_described(
    ten_read_to_four: Callable[[], tuple[str, str]], at: tuple[str, str]
) -> None:
    """Either the group's offsets are gone with the topic, or they show without an end."""
    topic, group = ten_read_to_four()
    succeed("topics", "delete", topic, *at)
    rows = as_json("groups", "describe", group, *at)["partitions"] if group in succeed("groups", "list", *at) else []
    assert all(row["end"] is None for row in rows)


def test_groups_are_deleted_with_their_offsets(
    ten_read_to_four: Callable[[], tuple[str, str]], at: tuple[str, str]
) -> None:
    """Several at once, each once; as text and as JSON."""
    (_, first), (_, second), (_, third) = ten_read_to_four(), ten_read_to_four(), ten_read_to_four()

    assert succeed("groups", "delete", first, second, first, *at) == f"deleted group {first}\ndeleted group {second}\n"
    assert json.loads(call("groups", "delete", third, "--json", *at)) == {"deleted": [third]}

    left = {row["group"] for row in as_json("groups", "list", *at)}
    assert not {first, second, third} & left
    assert f"there is no group '{first}'" in refusal("groups", "describe", first, *at)
    assert first not in call("lag", *at)


def test_group_with_members_is_not_deleted_but_others_are(
    ten_read_to_four: Callable[[], tuple[str, str]], at: tuple[str, str], three_brokers: LocalCluster
) -> None:
    """One refusal hides no result; each says what to do."""
    (topic, busy), (_, idle) = ten_read_to_four(), ten_read_to_four()
    reader = Consumer(
        {"bootstrap.servers": three_brokers.bootstrap, "group.id": busy, "enable.auto.commit": False, "log_level": 0}
    )
    try:
        reader.subscribe([topic])
        eventually(lambda: (reader.poll(0.1), reader.assignment())[1], bool)
        ran = run("groups", "delete", busy, "nobody", idle, "--json", *at)
    finally:
        reader.close()

    assert ran.returncode == 1
    assert json.loads(ran.stdout) == {"deleted": [idle]}
    assert f"group '{busy}' has 1 member: stop it first. Only a group without members can be deleted." in ran.stderr
    assert "there is no group 'nobody'. `syncline groups list` lists all groups." in ran.stderr
    assert committed(busy, at) == [(4, 10, 6)]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("describe", "nobody"), "there is no group 'nobody'"),
        (("delete", "nobody"), "there is no group 'nobody'. `syncline groups list` lists all groups."),
        (("delete", "no\x1b[2Jbody"), r"there is no group 'no\x1b[2Jbody'"),
        (("reset-offsets", "g", "-t", "TOPIC", "--to", "soon"), "--to takes earliest, latest"),
        (("reset-offsets", "nobody", "-t", "TOPIC", "--to", "+1"), "has no committed offsets in topic"),
        (("reset-offsets", "g", "-t", "TOPIC", "--to", "1900-01-01"), "a time in or after 1970"),
        (("reset-offsets", "g", "-t", "TOPIC", "--to", "1970-01-01T00:00:00+14:00"), "a time in or after 1970"),
        (("reset-offsets", "g", "-t", "TOPIC", "--to", "9" * 5_000), "(5,000 characters)"),
        (("reset-offsets", "g", "-t", "TOPIC", "--to", "1", "--dry-run", "--execute"), "give one of them"),
    ],
    ids=lambda value: "-".join(value)[:24],
)
def test_groups_refuse_in_a_sentence(
    read: tuple[str, str], at: tuple[str, str], arguments: tuple[str, ...], complaint: str
) -> None:
    """Unknown groups and invalid targets."""
    named = [read[0] if argument == "TOPIC" else argument for argument in arguments]
    assert complaint in refusal("groups", *named, *at)
