"""`syncline throttle set` and `clear`: what they say of what was there."""

import json
from collections.abc import Callable

import pytest

from syncline.cli import direct
from syncline.cli.reassign import plan as plan_command
from syncline.cli.reassign import throttle
from syncline.model.ids import TopicPartition
from syncline.reassign.throttle_state import FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from tests.cli.scripted_kafka import BROKER, TOPIC, Serve, at, refuses

CLEAR = ("throttle", "clear", "--topic", "foo", "--brokers", "1,2")


def test_clear_tells_what_was_set_and_nothing_else(serve: Serve) -> None:
    """A list of one role and a rate of another; the second time there is nothing."""
    kafka = serve()
    kafka.configs = {(BROKER, "2"): {FOLLOWER_RATE: "1000"}, (TOPIC, "foo"): {LEADER_LIST: "0:1"}}
    there = {
        "lists": {"foo": {LEADER_LIST: "0:1"}},
        "rates": {"1": {}, "2": {FOLLOWER_RATE: 1000}},
        "unread_brokers": [],
    }

    would = json.loads(at(kafka, *CLEAR, "--dry-run", "--json"))
    shown = at(kafka, *CLEAR, "--dry-run").splitlines()
    assert kafka.changes == []
    first = at(kafka, *CLEAR).splitlines()
    second = at(kafka, *CLEAR).splitlines()

    assert would["was_set"] == there
    assert [line.split(" would")[0] for line in shown] == [f"topic foo: {LEADER_LIST}", f"broker 2: {FOLLOWER_RATE}"]
    assert [line.split(" removed")[0] for line in first] == [f"topic foo: {LEADER_LIST}", f"broker 2: {FOLLOWER_RATE}"]
    assert second == ["nothing was set"]
    assert not any(kafka.configs.values())


def test_clear_says_that_a_rate_for_all_brokers_stays(serve: Serve) -> None:
    """Guards: "nothing was set", while that rate went on to hold replicas back."""
    kafka = serve()
    kafka.configs = {(BROKER, ""): {LEADER_RATE: "1000"}, (BROKER, "2"): {FOLLOWER_RATE: "500"}}
    stays = f"{LEADER_RATE}=1000 is set for all brokers and stays: `syncline configs alter broker all --unset"

    first = at(kafka, "throttle", "clear", "--brokers", "1,2").splitlines()
    second = at(kafka, "throttle", "clear", "--brokers", "all").splitlines()
    as_json = json.loads(at(kafka, "throttle", "clear", "--brokers", "all", "--json"))

    assert first[0] == f"broker 2: {FOLLOWER_RATE} removed"
    assert [line.split(f" {LEADER_RATE}`")[0] for line in first[1:]] == [stays]
    assert second == first[1:]
    assert as_json["stays_for_all_brokers"] == {LEADER_RATE: 1000}
    assert at(kafka, "throttle", "clear", "--brokers", "1", "--role", "receiving") == "nothing was set\n"


def test_clear_says_that_nobody_tells_the_rates_of_a_broker_that_is_down(serve: Serve) -> None:
    """Syncline removes them all the same."""
    kafka = serve(brokers=(1, 2, 4), owns_throttles=True)
    kafka.configs = {(BROKER, "3"): {LEADER_RATE: "1000"}}

    shown = at(kafka, "throttle", "clear", "--brokers", "3")

    assert shown.startswith("broker 3: removed if")
    assert kafka.settings(LEADER_RATE) == {}


def test_topic_that_is_deleted_meanwhile_has_no_lists(serve: Serve) -> None:
    """The other topics are shown."""
    kafka = serve()
    kafka.replicas[TopicPartition("bar", 0)] = (1, 2)
    kafka.configs = {(TOPIC, "foo"): {LEADER_LIST: "0:1"}}
    kafka.deleted = {"bar"}

    shown = json.loads(at(kafka, "throttle", "show", "--json"))

    assert [each["topic"] for each in shown["lists"]] == ["foo"]


def test_list_of_replicas_that_there_are_not_is_refused(serve: Serve) -> None:
    """A partition that the topic has not, a broker that the cluster has not; one that is down has a replica."""
    kafka = serve(brokers=(1, 2, 4))
    assert TopicPartition("foo", 2) not in kafka.replicas

    for wrong, named in (("0:9", "broker 9"), ("99:2", "partition 99"), ("0:1, 2:1", "partition 2")):
        assert named in refuses(kafka, "throttle", "set", "--topic", "foo", "--replicas", wrong)
    assert kafka.changes == []
    at(kafka, "throttle", "set", "--topic", "foo", "--replicas", "0:1,1:3")
    assert kafka.settings(LEADER_LIST) == {"foo": "0:1,1:3"}


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (throttle, plan_command):
        monkeypatch.setattr(module, "SILENT_S", 1.0)
    monkeypatch.setattr(direct, "LATE_AGAIN_S", 0.1)


@pytest.mark.usefixtures("_soon")
def test_rates_of_a_silent_broker_are_reported_by_the_others(serve: Serve) -> None:
    """Guards: it was called down, its rate was unknown, and each command took 17 s."""
    kafka = serve(owns_throttles=True, describes_others=True)
    kafka.configs = {(BROKER, "3"): {LEADER_RATE: "1000"}}
    kafka.paused = {3}

    facts = json.loads(at(kafka, "throttle", "show", "--json"))

    assert "broker 3 does not answer, so nobody knows how it enforces rates" in at(kafka, "throttle", "show")
    assert facts["unread_brokers"] == []
    assert facts["rates"] == [{"broker": 3, "name": LEADER_RATE, "bytes_per_s": 1000, "source": "broker"}]


@pytest.mark.usefixtures("_soon")
def test_silent_broker_whose_rates_nobody_reports_is_named(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards: `throttle explain` did not say that it lacks them. In Apache Kafka only the broker itself knows."""
    kafka = serve()
    kafka.paused = {3}
    sentence = "broker 3 does not answer, and no other broker reports its rates"

    assert sentence in at(kafka, "throttle", "show")
    at(kafka, "throttle", "explain", "foo", "--json")
    assert sentence in capsys.readouterr().err


@pytest.mark.usefixtures("_soon")
def test_plan_says_which_broker_gave_no_sizes(
    serve: Serve, plan: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards: it took the sizes of other copies, without a word."""
    kafka = serve(owns_throttles=True)
    kafka.silent = {2}

    shown = at(kafka, "reassign", "plan", "-f", plan({TopicPartition("foo", 0): (1, 2, 5)}), "--measure", "0.1")

    assert "1 partition, 1 new replica" in shown
    assert "broker 2 does not answer: its free space is unknown" in capsys.readouterr().err
