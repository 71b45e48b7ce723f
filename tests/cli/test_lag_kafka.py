"""`lag`, `groups describe` and `groups reset-offsets` of any cluster that speaks Kafka's protocol."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from syncline.cli import groups
from syncline.cli.lag import kafka_api as lag_kafka
from syncline.cli.lag import reset_effects
from tests.cli.kafka_admin import NO_LEADER, KafkaAdmin, member
from tests.cli.terminal import call, refusal
from tests.cli.test_lag import cells
from tests.patience import PATIENCE_S

AT = ("-b", "h:1")
Serve = Callable[[KafkaAdmin], KafkaAdmin]


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Let commands find this cluster."""

    def serve(admin: KafkaAdmin) -> KafkaAdmin:
        for module in (groups, lag_kafka):
            monkeypatch.setattr(module, "admin_client", lambda _: admin)
            monkeypatch.setattr(module, "list_groups", lambda _: admin.listed())
        for module in (reset_effects, lag_kafka):
            monkeypatch.setattr(module, "times_at_commits", lambda *_: {})
        return admin

    return serve


def test_end_that_kafkas_api_does_not_tell_is_unknown(kafka: Serve) -> None:
    """Guards: the lag up to the log end was said to be 0 in all."""
    kafka(KafkaAdmin({"t": [1, 1]}, {"g": {("t", 0): 4, ("t", 1): 10}}))

    shown, found = call("lag", "g", "--end", "leo", *AT), json.loads(call("lag", "g", "--end", "leo", "--json", *AT))
    assert "lag up to leo: unknown" in shown
    assert (found["total"], found["max"], found["lag_unknown"]) == (None, None, 2)
    assert "lag up to hw: total 6, at most 6 in one partition" in call("lag", "g", *AT)
    assert [each["lag"] for each in json.loads(call("lag", "--end", "leo", "--json", *AT))["groups"]] == [None]


def test_group_without_commits_has_no_lag(kafka: Serve) -> None:
    """Guards: it was said to be 0. Members alone make it a group."""
    kafka(KafkaAdmin({"t": [1]}, {"g": {}, "on-deleted": {}}, members={"g": [member("app", ("t", 0))]}))

    assert "lag up to hw: none (the group has no committed offsets)" in call("lag", "g", *AT)
    assert call("groups", "describe", "on-deleted", *AT).splitlines()[1].startswith("it has no committed offsets in")
    header, line = call("lag", *AT).splitlines()[:2]
    assert cells(header, line, "GROUP", "MEMBERS", "LAG") == ["g", "1", "-"]


def test_ends_are_asked_for_at_once(kafka: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: three questions, one after the other, each waited for a leader that was silent."""
    admin = kafka(KafkaAdmin({"t": [1]}, {"g": {("t", 0): 4}}))
    asked, ask = threading.Barrier(3), admin.list_offsets

    def together(*arguments: Any, **options: Any) -> Any:
        asked.wait(PATIENCE_S)
        return ask(*arguments, **options)

    monkeypatch.setattr(admin, "list_offsets", together)

    assert [each["lag"] for each in json.loads(call("lag", "--json", *AT))["groups"]] == [6]


def test_partition_that_nobody_answers_for_is_unknown_and_the_others_are_shown(kafka: Serve) -> None:
    """Guards: one partition without a leader made the command fail as a whole, after the time limit."""
    committed = {("t", index): 4 for index in range(3)}
    kafka(KafkaAdmin({"t": [1, NO_LEADER, 1]}, {"g": committed, "h": {("t", 1): 4}}, silent=[("t", 2)]))

    shown = call("lag", "g", *AT)
    header, *lines = shown.splitlines()[1:5]
    assert [cells(header, line, "PARTITION", "COMMITTED", "END", "LAG") for line in lines] == [
        ["0", "4", "10", "6"],
        ["1", "4", "-", "-"],
        ["2", "4", "-", "-"],
    ]
    assert "lag up to hw: total 6, at most 6 in one partition; unknown in 2 partitions" in shown
    assert "t-1: its leader reports nothing (LEADER_NOT_AVAILABLE)" in shown
    assert "t-2: its leader reports nothing (Not leader for partition (NOT_LEADER_OR_FOLLOWER))" in shown
    header, *lines = call("lag", *AT).splitlines()[:3]
    assert [cells(header, line, "GROUP", "LAG", "NOTE") for line in lines] == [
        ["g", "6", "2 partitions unknown"],
        ["h", "-", "2 partitions unknown"],
    ]
    described = call("groups", "describe", "g", *AT)
    assert "t-1: the end is unknown (LEADER_NOT_AVAILABLE)" in described
    assert [each["lag"] for each in json.loads(call("groups", "describe", "g", "--json", *AT))["partitions"]] == [
        6,
        None,
        None,
    ]


def test_group_that_may_not_be_seen_hides_no_other(kafka: Serve) -> None:
    """Guards: one group that the cluster refuses to describe made the list fail."""
    kafka(KafkaAdmin({"t": [1]}, {"g": {("t", 0): 4}, "secret": {("t", 0): 4}}, refused=["secret"]))

    shown = call("lag", *AT)
    assert [line.split()[0] for line in shown.splitlines()[1:2]] == ["g"]
    assert "cannot describe group 'secret': " in shown
    assert "cannot describe group 'secret': " in refusal("lag", "secret", *AT)


def test_commits_in_what_does_not_exist_any_more_fail_nothing(kafka: Serve) -> None:
    """A topic that was deleted, and one that was made again with fewer partitions."""
    kafka(KafkaAdmin({"t": [1]}, {"g": {("gone", 0): 4, ("t", 0): 4, ("t", 7): 4}}))

    assert [each["partition"] for each in json.loads(call("lag", "g", "--json", *AT))["rows"]] == [0]
    assert "t-7: the end is unknown (UNKNOWN_TOPIC_OR_PARTITION)" in call("groups", "describe", "g", *AT)


RESET = ("groups", "reset-offsets", "g", "-t", "t", "--to", "8")


def test_reset_of_a_group_with_members_is_refused_and_a_dry_run_says_so(kafka: Serve) -> None:
    """Guards: the dry run said to add --execute, which was then refused."""
    admin = kafka(KafkaAdmin({"t": [1]}, {"g": {("t", 0): 4}}, members={"g": [member("app", ("t", 0))]}))

    shown = call(*RESET, *AT).splitlines()
    assert shown[-2:] == [
        "group 'g' has 1 member: --execute is refused until it has none",
        "nothing was changed",
    ]
    assert json.loads(call(*RESET, "--json", *AT))["members"] == 1
    assert "group 'g' has 1 member: stop it first" in refusal(*RESET, "--execute", *AT)
    assert admin.altered == []


def test_reset_says_that_there_is_no_such_group(kafka: Serve) -> None:
    """Guards: a group with a letter too few was reset, which made a group that nobody reads with."""
    admin = kafka(KafkaAdmin({"t": [1]}, {"readers": {("t", 0): 4}}))

    shown = call(*RESET, *AT).splitlines()
    assert shown[-2].startswith("there is no group 'g': --execute would create it.")
    assert json.loads(call(*RESET, "--json", *AT))["is_new_group"] is True
    assert "there was no group 'g'" in call(*RESET, "--execute", *AT)
    assert admin.altered == [("t", 0, 8)]


def test_reset_waits_for_a_leader_of_each_partition(kafka: Serve) -> None:
    """Half a reset is none; the sentence names the partitions."""
    kafka(KafkaAdmin({"t": [1, NO_LEADER]}, {"g": {("t", 0): 4}}))

    assert "while these partitions have no leader: 1. Syncline's brokers know why" in refusal(*RESET, *AT)


@pytest.mark.parametrize(
    ("committed", "to", "effect"),
    [(4, "4", "stays"), (25, "10", "only moves"), (4, "7", "skips"), (4, "2", "reads again")],
)
def test_effect_names_what_happens_to_the_offset(kafka: Serve, committed: int, to: str, effect: str) -> None:
    """Guards: an offset that moved over no record was said to stay."""
    kafka(KafkaAdmin({"t": [1]}, {"g": {("t", 0): committed}}))

    found: Any = json.loads(call(*RESET[:-1], to, "--json", *AT))
    assert [each["effect"] for each in found["effects"]] == [effect]


MISSING = "Some groups may be missing: broker 2 does not answer within 5 s."


def test_list_of_groups_is_json_although_a_broker_gave_none(kafka: Serve, capfd: pytest.CaptureFixture[str]) -> None:
    """The sentence about it stands beside the result."""
    kafka(KafkaAdmin({"t": [1]}, {"g": {}}, unlisted=[MISSING]))

    groups.list_all(bootstrap="h:1", as_json=True)
    result, beside = capfd.readouterr()
    assert json.loads(result) == [{"group": "g", "state": "empty"}]
    assert MISSING in beside
    assert MISSING in call("lag", *AT)


def test_list_does_not_say_that_there_are_no_groups_if_a_broker_gave_none(
    kafka: Serve, capfd: pytest.CaptureFixture[str]
) -> None:
    """There may be some."""
    kafka(KafkaAdmin({}, {}, unlisted=[MISSING]))

    groups.list_all(bootstrap="h:1")
    result, beside = capfd.readouterr()
    assert result == ""
    assert MISSING in beside


def test_lag_of_a_group_without_commits_is_unknown_by_kafkas_api_too(kafka: Serve) -> None:
    """It is no 0: brokers say the same."""
    kafka(KafkaAdmin({"t": [1]}, {"g": {}}))
    (row,) = json.loads(call("lag", "--json", *AT))["groups"]

    assert (row["lag_records"], row["readable"]) == (None, None)
