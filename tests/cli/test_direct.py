"""Asking brokers without the client library."""

import pytest

from syncline.cli.direct import BrokerSilentError, Direct
from syncline.cli.reassign.cluster_reading import read_cluster
from syncline.local.layout import LocalClusterError
from syncline.wire.api import ApiKey
from tests.cli.scripted_kafka import Serve

MOVES = {"timeout": 1_000, "topics": None}


def test_next_broker_is_asked_if_one_does_not_answer(serve: Serve) -> None:
    """The first address refuses connections."""
    kafka = serve()

    with Direct(f"127.0.0.1:1,{kafka.bootstrap}") as cluster:
        assert cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, MOVES).topics == ()


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
    with Direct(serve().bootstrap) as cluster, pytest.raises(BrokerSilentError, match="broker 9 is not among"):
        cluster.ask_broker(9, ApiKey.DESCRIBE_LOG_DIRS, {"topics": None})


def test_message_that_a_cluster_does_not_serve_is_named(serve: Serve) -> None:
    """As in clusters before KIP-455."""
    kafka = serve()
    del kafka.versions[ApiKey.LIST_PARTITION_REASSIGNMENTS]

    with Direct(kafka.bootstrap) as cluster, pytest.raises(LocalClusterError) as caught:
        cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, MOVES)

    assert "does not serve LIST_PARTITION_REASSIGNMENTS" in str(caught.value)


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
