"""DescribeCluster, DescribeLogDirs and AlterReplicaLogDirs."""

from tests.conformance.apis import ALTER_REPLICA_LOG_DIRS, DESCRIBE_CLUSTER, DESCRIBE_LOG_DIRS, edges, every
from tests.conformance.batches import batch
from tests.conformance.requests import alter_log_dirs, describe_cluster, describe_log_dirs, produce
from tests.conformance.steps import Action, Saved, broker, exact, leader, sequence, topic


@sequence(*every(DESCRIBE_CLUSTER))
def description(version: int) -> list[Action]:
    """Brokers, cluster id, some live broker as the controller."""
    return [describe_cluster(version, to=broker(rank)) for rank in range(3)]


@sequence(*every(DESCRIBE_CLUSTER))
def authorized_operations(version: int) -> list[Action]:
    """Operations on the cluster, when asked for."""
    return [describe_cluster(version, authorized=True)]


@sequence(1)
def endpoint_types(version: int) -> list[Action]:
    """Brokers do not describe controllers; unknown types are refused."""
    return [describe_cluster(version, endpoint_type=kind) for kind in (2, 3, 0, -1)]


@sequence(*every(DESCRIBE_LOG_DIRS), t=topic((0,), (0,), (1,)))
def one_topic(version: int) -> list[Action]:
    """Sizes and lags of the partitions that are on the broker asked."""
    return [
        produce(7, {"t": {0: batch("a", "b")}}),
        describe_log_dirs(version, {"t": [0, 1, 2]}, to=leader("t")),
        describe_log_dirs(version, {"t": [2]}, to=leader("t", 2)),
    ]


@sequence(*edges(DESCRIBE_LOG_DIRS), t=topic((0,)))
def all_topics(version: int) -> list[Action]:
    """Null asks for all topics, an empty list for none."""
    return [describe_log_dirs(version, None, to=leader("t")), describe_log_dirs(version, {}, to=leader("t"))]


@sequence(*edges(DESCRIBE_LOG_DIRS), t=topic((0,)))
def unknown_and_duplicates(version: int) -> list[Action]:
    """Unknown topics and partitions are left out, duplicates answered once."""
    return [
        describe_log_dirs(version, {"nope": [0]}, to=leader("t")),
        describe_log_dirs(version, {"t": [0, 9]}, to=leader("t")),
        describe_log_dirs(version, [("t", [0, 0]), ("t", [0])], to=leader("t")),
        describe_log_dirs(version, {exact("a b"): [0]}, to=leader("t")),
    ]


@sequence(4, t=topic((0, 1)))
def follower_copy(version: int) -> list[Action]:
    """A follower describes its own copy."""
    return [
        produce(7, {"t": {0: batch("a")}}),
        describe_log_dirs(version, {"t": [0]}, to=broker(1)),
        describe_log_dirs(version, {"t": [0]}, to=broker(2)),
    ]


@sequence(*every(ALTER_REPLICA_LOG_DIRS), t=topic((0,), (1,)))
def moves_to_the_only_directory(version: int) -> list[Action]:
    """A replica that is there already, one of another broker, and what does not exist."""
    own = Saved("own")
    return [
        describe_log_dirs(4, {"t": [0]}, save={"own": "results.0.log_dir"}),
        alter_log_dirs(version, (own, {"t": [0]})),
        alter_log_dirs(version, (own, {"t": [1]})),
        alter_log_dirs(version, (own, {"t": [9]})),
        alter_log_dirs(version, (own, {"t": [-1]})),
        alter_log_dirs(version, (own, {"nope": [0]})),
        alter_log_dirs(version, (own, {exact("a b"): [0]})),
        alter_log_dirs(version, (own, [("t", [0, 0]), ("t", [0])])),
    ]


@sequence(*every(ALTER_REPLICA_LOG_DIRS), t=topic((0,), (1,)))
def moves_to_another_directory(version: int) -> list[Action]:
    """Refused before anything else is looked at, whatever the replica; nothing at all is answered with nothing."""
    return [
        alter_log_dirs(version, (exact("/nowhere"), {"t": [0]})),
        alter_log_dirs(version, (exact("/nowhere"), {"t": [1]})),
        alter_log_dirs(version, (exact("/nowhere"), {"nope": [0]})),
        alter_log_dirs(version, (exact("nowhere"), {"t": [0]})),
        alter_log_dirs(version, (exact(""), {"t": [0]})),
        alter_log_dirs(version, (exact("/nowhere"), {"t": []})),
        alter_log_dirs(version),
    ]
