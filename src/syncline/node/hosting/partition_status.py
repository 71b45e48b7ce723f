"""How far the followers of this broker's partitions are: the verb `status.partitions` of the control API.

Times in ms; -1 means unknown, null means none. `left_ms` is how long a follower in the ISR may remain without proving
that it has everything, before the next tick evicts it. `trouble` is what keeps a replica from leading although its
broker is active: no-room, no-descriptors, damaged or failed.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from syncline.model.ids import Offset

if TYPE_CHECKING:
    from syncline.core.replication.follower_state import FollowerState
    from syncline.core.replication.leader import LeaderPartition
    from syncline.node.hosting.replicas import HostedReplicas
    from syncline.node.observing.observer import Observer
    from syncline.node.partitions.partition import Partition
    from syncline.node.views.parts import HasPartitions
    from syncline.node.views.values import HasBrokerId, HasClock, HasConfig, HasImage

    class Host(HasBrokerId, HasClock, HasConfig, HasImage, HasPartitions, Protocol):
        """What these verbs use of their broker."""

        @property
        def observer(self) -> Observer:
            """Return the observer of other brokers."""

        @property
        def replicas(self) -> HostedReplicas:
            """Return the hosted replicas and their fetchers."""


def show(broker: "Host", fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the partitions that this broker leads, of one topic and partition if those are given.

    `partition_count` says how many partitions the given topic has, 0 if there is no such topic.
    """
    topic, number = fields.get("topic"), fields.get("partition")
    record = None if topic is None else broker.image.topics.get(topic)
    return {
        "broker": broker.broker_id,
        "partition_count": 0 if record is None else len(record.partitions),
        "replica_lag_time_max_ms": broker.config.replica_lag_time_max_ms,
        "partitions": [
            _row(broker, partition, partition.leader)
            for key, partition in broker.partitions.items()
            if partition.leader is not None and topic in (None, key.topic) and number in (None, key.partition)
        ],
    }


def peers(broker: "Host", _fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what this broker knows about its peers: the verb `replication.views`."""
    by_leader = broker.replicas.fetchers.by_leader
    return {
        "broker": broker.broker_id,
        "followers": broker.observer.followers.views(broker.clock.mono_ms()),
        "leaders": [{"broker": leader, **fetcher.describe()} for leader, fetcher in sorted(by_leader.items())],
    }


def _row(broker: "Host", partition: "Partition", leader: "LeaderPartition") -> dict[str, Any]:
    now_ms = broker.clock.mono_ms()
    return {
        "topic": partition.key.topic,
        "partition": partition.key.partition,
        "leader": broker.broker_id,
        "leader_epoch": leader.leader_epoch,
        "partition_epoch": leader.partition_epoch,
        "isr": list(leader.isr),
        "maximal_isr": sorted(leader.in_sync.maximal),
        "replicas": list(leader.in_sync.replicas),
        **_reassignment(partition),
        "is_change_pending": leader.in_sync.pending is not None,
        "is_under_min_isr": leader.is_under_min_isr,
        "log_start": partition.log.log_start,
        "log_end": partition.log.log_end,
        "high_watermark": partition.high_watermark,
        "trouble": broker.image.trouble(broker.broker_id, partition.topic_id, partition.key.partition),
        "lag_mode": leader.settings.lag.name,
        "followers": [_follower(broker, partition, leader, each, now_ms) for each in leader.followers],
    }


def _reassignment(partition: "Partition") -> dict[str, Any]:
    record = partition.record
    assert record is not None, "a leader has the record that made it one"
    return {"adding": list(record.adding), "removing": list(record.removing), "move": record.move}


def _follower(
    broker: "Host", partition: "Partition", leader: "LeaderPartition", follower: "FollowerState", now_ms: int
) -> dict[str, Any]:
    view = follower.view()
    log_end = partition.log.log_end
    is_even = view.log_end == log_end
    caught_up_ms, fetch_ms = view.last_caught_up_ms, view.last_fetch_ms
    asked_ms, is_answer_pending = broker.observer.followers.last_fetch(view.broker_id)
    in_sync = view.broker_id in leader.isr
    return {
        "broker": view.broker_id,
        "in_isr": in_sync,
        "log_end": view.log_end,
        "lag_records": log_end - max(0, view.log_end),
        "lag_bytes": partition.log.bytes_from(Offset(max(0, view.log_end))),
        "lag_ms": 0 if is_even else None if caught_up_ms is None else now_ms - caught_up_ms,
        "left_ms": _left_ms(broker, leader, view.last_caught_up_ms, fetch_ms, now_ms, is_even=is_even)
        if in_sync
        else None,
        "is_protected": leader.slow_leader is not None and view.broker_id in leader.slow_leader.spared,
        "trouble": broker.image.trouble(view.broker_id, partition.topic_id, partition.key.partition),
        "last_fetch_ago_ms": None if asked_ms is None else now_ms - asked_ms,
        "is_answer_owed": is_answer_pending,
    }


def _left_ms(
    broker: "Host",
    leader: "LeaderPartition",
    caught_up_ms: int | None,
    fetch_ms: int | None,
    now_ms: int,
    *,
    is_even: bool,
) -> int | None:
    """Return how long a member may stay without a new proof; None if there is no limit."""
    proof_ms = caught_up_ms
    if leader.settings.lag.name == "time":
        if is_even:
            return None
    else:
        # In the older modes silence counts even for a follower that has everything.
        proof_ms = fetch_ms if is_even or leader.settings.lag.name == "messages" else caught_up_ms
    if proof_ms is None:
        return None
    return broker.config.replica_lag_time_max_ms - (now_ms - proof_ms)
