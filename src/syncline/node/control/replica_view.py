"""The state of this broker's replicas, for tools that watch several brokers at once.

The verb `replicas.show` of the control API: role, log end, high watermark and epoch history of each hosted partition.
It runs between two callbacks of the loop, so its numbers are consistent.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from syncline.node.partitions.partition import Partition
    from syncline.node.views.parts import HasPartitions
    from syncline.node.views.values import HasBrokerId, HasImage

    class Host(HasBrokerId, HasImage, HasPartitions, Protocol):
        """What the verb uses of its broker."""


def show(broker: "Host", fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the replicas that this broker hosts, of one topic if `topic` is given."""
    topic = fields.get("topic")
    return {
        "broker": broker.broker_id,
        "version": broker.image.version,
        "controller": broker.image.controller_id,
        "unfenced": [broker_id for broker_id, record in broker.image.brokers.items() if not record.fenced],
        "replicas": [
            _row(partition) for key, partition in broker.partitions.items() if topic is None or key.topic == topic
        ],
    }


def _row(partition: "Partition") -> dict[str, Any]:
    log, leader, follower, record = partition.log, partition.leader, partition.follower, partition.record
    return {
        "topic": partition.key.topic,
        "partition": partition.key.partition,
        "role": "leader" if leader is not None else "follower",
        "leader": None if record is None else record.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": None if record is None else record.partition_epoch,
        "isr": None if record is None else list(record.isr),
        "elr": None if record is None else list(record.elr),
        "log_start": log.log_start,
        "log_end": log.log_end,
        "high_watermark": partition.high_watermark,
        "epochs": [list(entry) for entry in log.epochs.entries],
        "phase": None if follower is None else follower.phase.value,
        "known_log_ends": {} if leader is None else {each.broker_id: each.log_end for each in leader.followers},
    }
