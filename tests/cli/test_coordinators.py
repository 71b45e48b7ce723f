"""Groups as their coordinators tell them: one that is silent, or still loads its groups, is named."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from syncline.cli import coordinators, direct
from syncline.cli.coordinators import describe_group, describe_groups, list_groups
from syncline.local.layout import LocalClusterError
from syncline.model.ids import OFFSETS_TOPIC, TopicPartition
from tests.cli.kafka_admin import KafkaAdmin, done
from tests.cli.scripted_kafka import ScriptedKafka, Serve


@pytest.fixture
def kafka(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> ScriptedKafka:
    """Three brokers, each of which coordinates a group."""
    monkeypatch.setattr(coordinators, "SILENT_S", 1.0)
    monkeypatch.setattr(direct, "LATE_AGAIN_S", 0.1)
    groups = {1: {"one": "Empty"}, 2: {"two": "PreparingRebalance"}, 3: {"three": "Stable"}}
    return serve(brokers=(1, 2, 3), groups=groups)


def test_groups_of_all_brokers_are_listed_with_their_states(kafka: ScriptedKafka) -> None:
    """States have the names of the client library, which programs read."""
    listed = list_groups(kafka.bootstrap)

    assert listed == ({"one": "empty", "three": "stable", "two": "preparing_rebalancing"}, frozenset(), [])


def test_groups_that_do_not_consume_are_left_out(kafka: ScriptedKafka) -> None:
    """Guards: share groups and Kafka Connect's were listed, and `lag` called them dead. One without members has ""."""
    kafka.protocols = {"one": "share", "two": "connect", "three": ""}

    assert list_groups(kafka.bootstrap).states == {"three": "stable"}


def test_broker_that_gives_no_groups_is_named(kafka: ScriptedKafka) -> None:
    """Guards: "Some groups may be missing: Timed out." did not say which broker was silent."""
    kafka.paused, kafka.loading = {2}, {3}

    listed = list_groups(kafka.bootstrap)

    assert listed.states == {"one": "empty"}
    assert listed.silent == {2}
    assert listed.missing == [
        "Some groups may be missing: broker 2 does not answer within 5 s.",
        "Some groups may be missing: broker 3 gives none: COORDINATOR_LOAD_IN_PROGRESS.",
    ]


def test_groups_that_no_broker_coordinates_are_missed(kafka: ScriptedKafka) -> None:
    """Guards: with a replication factor of 1, the groups of a broker that is down were missing without a word."""
    kafka.replicas = {TopicPartition(OFFSETS_TOPIC, index): (index + 1,) for index in range(3)}
    kafka.leaderless = {TopicPartition(OFFSETS_TOPIC, 1)}

    assert list_groups(kafka.bootstrap).missing == [
        "Some groups may be missing: __consumer_offsets has 1 partition without a leader."
    ]


class _Late(KafkaAdmin):
    """A cluster in which the coordinator of the group "two" is silent."""

    def _described(self, name: str) -> Any:
        return _timed_out() if name == "two" else super()._described(name)


def _timed_out() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_silent_coordinator_is_named_and_other_groups_are_described(kafka: ScriptedKafka) -> None:
    """Guards: `groups describe` took 11 s without a word, until another broker coordinated the group."""
    admin = _Late({}, {"one": {("t", 0): 4}, "two": {}})
    kafka.paused = {2}

    told, refused = describe_groups(kafka.bootstrap, admin, ["one", "two"], patience_s=2)

    assert told["one"].committed == {("t", 0): 4}
    assert list(refused) == ["two"]
    assert refused["two"].startswith(
        "cannot describe group 'two': broker 2 does not answer within 2 s, and only that broker, its coordinator, "
    )
    with pytest.raises(LocalClusterError, match="broker 2 does not answer"):
        describe_group(kafka.bootstrap, admin, "two", patience_s=2)


def test_coordinator_that_took_over_meanwhile_is_not_called_silent(kafka: ScriptedKafka) -> None:
    """Guards: the broker that had just taken over was blamed for the silence of the one before."""
    _, refused = describe_groups(kafka.bootstrap, _Late({}, {"two": {}}), ["two"], patience_s=5)

    assert refused == {
        "two": "cannot describe group 'two': its coordinator did not answer within 5 s. Broker 2, which coordinates "
        "the group now, answers: try again."
    }


def test_commits_that_do_not_come_are_missed_like_the_group(kafka: ScriptedKafka) -> None:
    """Both come from the coordinator: without commits there is nothing to show."""
    admin: Any = KafkaAdmin({}, {"three": {}})
    kafka.paused = {3}
    admin.list_consumer_group_offsets = lambda *_, **__: {"three": done(_timed_out())}

    with pytest.raises(LocalClusterError, match="broker 3 does not answer"):
        describe_group(kafka.bootstrap, admin, "three")


def test_group_that_is_refused_is_refused_at_once(kafka: ScriptedKafka) -> None:
    """Nobody asks who coordinates it."""
    admin = KafkaAdmin({}, {"secret": {}}, refused=["secret"])
    told, refused = describe_groups("127.0.0.1:1", admin, ["secret"])

    assert (told, list(refused)) == ({}, ["secret"])
    assert SimpleNamespace(**refused).secret.startswith("cannot describe group 'secret': ")
    assert kafka.connections == []
