"""Asking brokers without the client library."""

import socket
import threading
import time
from typing import Any

import pytest

from syncline.cli import direct
from syncline.cli.direct import BrokerSilentError, Direct
from syncline.cli.reassign.cluster_reading import read_cluster
from syncline.local.layout import LocalClusterError
from syncline.model.ids import TopicPartition
from syncline.reassign.log_dir_states import Place
from syncline.wire.api import ApiKey
from tests.cli.scripted_kafka import ScriptedKafka, Serve
from tests.patience import until

MOVES = {"timeout": 1_000, "topics": None}


def test_next_broker_is_asked_if_one_does_not_answer(serve: Serve) -> None:
    """The first address refuses connections."""
    kafka = serve()

    with Direct(f"127.0.0.1:1,{kafka.bootstrap}") as cluster:
        assert cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, MOVES).topics == ()


def test_reason_is_named_in_words() -> None:
    """As other commands do, and without the number that the system has for it."""
    with pytest.raises(LocalClusterError, match="the connection is refused"):
        Direct("127.0.0.1:1").ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, MOVES)


def test_broker_that_is_paused_is_waited_for_briefly_and_asked_last_from_then_on(serve: Serve) -> None:
    """Guards: `reassign status` waited for 15 s at the first address; a paused broker there was down by then."""
    kafka = serve()
    with socket.create_server(("127.0.0.1", 0)) as paused:
        paused.settimeout(5)
        with Direct(f"127.0.0.1:{paused.getsockname()[1]},{kafka.bootstrap}", patience_s=0.5) as cluster:
            for _ in range(3):
                assert cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, MOVES).topics == ()
        connection, _ = paused.accept()
        connection.close()
        paused.settimeout(0)
        with pytest.raises(BlockingIOError):
            paused.accept()


def test_paused_brokers_cost_one_wait_together_and_nothing_until_they_answer(serve: Serve) -> None:
    """Guards: each of them was waited for in turn, and again for each request that followed."""
    kafka = serve()
    kafka.paused = {1, 3, 5}
    with Direct(kafka.bootstrap, patience_s=0.5) as cluster:
        cluster.learn({broker: ("127.0.0.1", port) for broker, port in kafka.ports.items()})
        began_s = time.monotonic()
        moves = cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, MOVES)
        looks = [cluster.ask_brokers(kafka.brokers, ApiKey.DESCRIBE_LOG_DIRS, {"topics": ()}) for _ in range(3)]
        took_s = time.monotonic() - began_s
        kafka.paused.clear()
        until(
            lambda: len(cluster.ask_brokers(kafka.brokers, ApiKey.DESCRIBE_LOG_DIRS, {"topics": ()})) == 5,
            5,
            otherwise="a broker that was resumed is not asked again",
        )

    assert moves.topics == ()
    assert [sorted(look) for look in looks] == [[2, 4]] * 3
    # The first address is waited for alone, as any broker may answer; then those whose sizes are wanted, at once. In
    # turn it took 8.5 s.
    assert 1.0 <= took_s < 4


def test_broker_that_answers_late_answers_although_the_next_one_was_asked(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for a controller that was gone; the next one, asked meanwhile, is paused."""
    monkeypatch.setattr(direct, "LATE_AGAIN_S", 0.3)
    kafka = serve()
    kafka.paused = set(kafka.brokers)
    with Direct(f"{kafka.bootstrap},127.0.0.1:{kafka.ports[2]}", patience_s=0.8) as cluster:
        threading.Timer(1.5, kafka.paused.discard, [1]).start()
        began_s = time.monotonic()
        assert cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, MOVES).topics == ()
        answered_s = time.monotonic()
        cluster.learn({2: ("127.0.0.1", kafka.ports[2])})
        with pytest.raises(BrokerSilentError, match="in time"):
            cluster.ask_broker(2, ApiKey.DESCRIBE_LOG_DIRS, {"topics": ()})
        ended_s = time.monotonic()

    # The next one has not answered what any may, and so has a moment for what it alone can answer, not 0.8 s.
    assert ended_s - began_s >= 1.6
    assert ended_s - answered_s < 0.8


def test_broker_that_waits_for_the_controller_is_not_called_silent(serve: Serve) -> None:
    """Guards: `reassign generate` said so of a broker that runs: it had been asked what moves, and waited itself."""
    kafka = serve()
    asked = threading.Event()
    resumes = threading.Event()

    def forward(_: ScriptedKafka) -> None:
        if not asked.is_set():
            asked.set()
            resumes.wait(10)

    kafka.on_list, kafka.lets_others_in = forward, True
    with Direct(f"{kafka.bootstrap},127.0.0.1:{kafka.ports[2]}", patience_s=1) as cluster:
        cluster.learn({broker: ("127.0.0.1", port) for broker, port in kafka.ports.items()})
        cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, MOVES)
        answers = cluster.ask_brokers(kafka.brokers, ApiKey.DESCRIBE_LOG_DIRS, {"topics": ()})
        resumes.set()

    assert sorted(answers) == list(kafka.brokers)


def test_cluster_whose_controller_is_silent_is_not_called_down(serve: Serve) -> None:
    """Guards: "no broker answers. Is the cluster up?", right after one had said where the others are."""
    kafka = serve()
    resumes = threading.Event()
    kafka.on_list, kafka.lets_others_in = lambda _: resumes.wait(10), True
    with Direct(kafka.bootstrap, patience_s=5) as cluster:
        cluster.learn_brokers()
        # One to ask is enough.
        cluster.learn({})
        with pytest.raises(LocalClusterError, match="They may be waiting for the controller, which may be silent"):
            cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, MOVES, last_s=0.5)
        resumes.set()


def test_brokers_are_looked_for_no_longer_than_one_is_waited_for(serve: Serve) -> None:
    """Guards: `groups list` took 15 s, not 5, to say that nobody answers at an address."""
    kafka = serve()
    kafka.paused = set(kafka.brokers)
    began_s = time.monotonic()
    with (
        Direct(kafka.bootstrap, patience_s=0.5) as cluster,
        pytest.raises(LocalClusterError, match="no broker answers"),
    ):
        cluster.learn_brokers()

    assert time.monotonic() - began_s < 10


def test_broker_that_answers_late_is_waited_for_when_the_last_address_refuses(serve: Serve) -> None:
    """Guards: with a dead broker at the end of the list, those that run had a second, as while they elect."""
    kafka = serve()
    kafka.paused = {1}
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = f"127.0.0.1:{closed.getsockname()[1]}"
    with Direct(f"127.0.0.1:{kafka.ports[1]},{dead}", patience_s=0.3) as cluster:
        resumes = threading.Timer(1.5, kafka.paused.clear)
        resumes.start()
        assert cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, MOVES).topics == ()
        resumes.join()


def test_change_that_was_given_up_is_not_made_later(serve: Serve) -> None:
    """It waited behind a question that a paused broker had not answered; by then another change may have followed."""
    kafka = serve(owns_throttles=True)
    kafka.paused = {1}
    change = [{"name": "follower.replication.throttled.rate", "config_operation": 0, "value": "1"}]
    resource = {"resource_type": 4, "resource_name": "1", "configs": change}
    with Direct(kafka.bootstrap, patience_s=1) as cluster:
        cluster.learn({1: ("127.0.0.1", kafka.ports[1])})
        threading.Thread(target=_ask_in_vain, args=(cluster, ApiKey.DESCRIBE_LOG_DIRS, {"topics": ()})).start()
        until(lambda: kafka.connections, 1, otherwise="nobody connects")
        _ask_in_vain(cluster, ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": False})
        kafka.paused.clear()
        until(lambda: cluster.ask_brokers([1], ApiKey.DESCRIBE_LOG_DIRS, {"topics": ()}), 5, otherwise="it is silent")

    assert kafka.changes == []


def _ask_in_vain(cluster: Direct, key: ApiKey, fields: dict[str, Any]) -> None:
    with pytest.raises(BrokerSilentError, match="in time"):
        cluster.ask_broker(1, key, fields)


def test_sizes_are_of_one_moment_although_a_broker_is_waited_for(serve: Serve) -> None:
    """Guards: 1.5 MB/s at a throttle of 500 kB/s, as what came during the wait seemed to come between two looks."""
    key = TopicPartition("foo", 0)
    kafka = serve(sizes={(key, 1): 100})
    kafka.silent = {2}

    def grow(kafka: ScriptedKafka) -> None:
        kafka.sizes[key, 1] = 200

    kafka.on_silence = grow
    with Direct(kafka.bootstrap, patience_s=0.5) as cluster:
        state = read_cluster(cluster, with_sizes=True)

    assert state.sizes[Place(key, 1)] == 200
    assert [broker for broker, known in state.brokers.items() if known.is_silent] == [2]


def test_broker_that_restarted_is_asked_again(serve: Serve) -> None:
    """Its old connection is closed; the caller does not notice."""
    kafka = serve()

    with Direct(kafka.bootstrap) as cluster:
        before = read_cluster(cluster, with_sizes=True)
        kafka.hang_up()
        after = read_cluster(cluster, with_sizes=True)

    assert before.partitions == after.partitions
    assert after.sizes.keys() == before.sizes.keys()


def test_nobody_answers_in_one_sentence() -> None:
    """With the address, and a question that helps."""
    with Direct("127.0.0.1:1") as cluster, pytest.raises(LocalClusterError) as caught:
        cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, MOVES)

    assert str(caught.value).startswith("no broker answers at 127.0.0.1:1 (")
    assert str(caught.value).endswith("Is the cluster up?")


def test_broker_that_is_not_known_is_silent(serve: Serve) -> None:
    """It may have died; its sizes are unknown then."""
    with Direct(serve().bootstrap) as cluster, pytest.raises(BrokerSilentError, match="broker 9 is not running"):
        cluster.ask_broker(9, ApiKey.DESCRIBE_LOG_DIRS, {"topics": None})


def test_message_that_a_cluster_does_not_serve_is_named(serve: Serve) -> None:
    """As in clusters before KIP-455."""
    kafka = serve()
    del kafka.versions[ApiKey.LIST_PARTITION_REASSIGNMENTS]

    with Direct(kafka.bootstrap) as cluster, pytest.raises(LocalClusterError) as caught:
        cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, MOVES)

    assert "does not support LIST_PARTITION_REASSIGNMENTS" in str(caught.value)


def test_old_version_is_spoken_where_the_new_one_is_not_known(serve: Serve) -> None:
    """Version 0 of request 45 has no fields of ours; the move starts nevertheless."""
    kafka = serve()
    kafka.versions[ApiKey.ALTER_PARTITION_REASSIGNMENTS] = (0, 0)
    key = next(iter(kafka.replicas))
    rows = [{"partition_index": key.partition, "replicas": (1, 2, 5)}]

    with Direct(kafka.bootstrap) as cluster:
        cluster.ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            {"timeout": 1_000, "topics": [{"name": key.topic, "partitions": rows}], "throttle": 5},
        )

    assert kafka.moving.keys() == {key}
