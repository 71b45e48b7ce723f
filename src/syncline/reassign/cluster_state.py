"""A cluster at one moment, as far as moves are concerned: what a command reads before it plans, and while it watches.

Sizes of replicas and room on disks come from the brokers themselves (DescribeLogDirs), so a broker that is down has
neither. Units: bytes; ms of one clock, for differences.
"""

from collections.abc import Mapping
from typing import NamedTuple

from syncline.model.ids import NONE, TopicPartition
from syncline.reassign.log_dir_states import Copies, Place
from syncline.reassign.move_map import Running


class BrokerState(NamedTuple):
    """A broker that runs: where it is, the room on its disk, -1 if it does not say, and its log directories.

    And for how long it has received and sent nothing for moves, None if it does not say; and whether it was asked for
    sizes and did not answer, so that nobody knows what it has.
    """

    host: str
    port: int
    rack: str | None = None
    usable_bytes: int = -1
    directories: tuple[str, ...] = ()
    nothing_received_s: float | None = None
    nothing_sent_s: float | None = None
    is_silent: bool = False


class PartitionState(NamedTuple):
    """A partition: its replicas in order, those in sync, and its leader, -1 for none."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int = NONE


class MoveState(NamedTuple):
    """A move that owns its throttle, and what its command controls; -1 and "" are none."""

    move_id: str
    name: str = ""
    throttle_bytes_per_s: int = NONE
    started_ms: int = 0
    control: str = ""
    deadline_ms: int = NONE
    impact_percent: int = NONE


class ClusterState(NamedTuple):
    """Brokers, partitions, what moves, and what each broker has of each partition.

    `owns_throttles` says that moves own their throttles here, as in Syncline; in Kafka they are configurations.
    `move_of` and `original` are known there only. `log_dirs` has replicas of brokers that answered.
    """

    at_ms: int
    brokers: Mapping[int, BrokerState]
    partitions: Mapping[TopicPartition, PartitionState]
    running: Mapping[TopicPartition, Running]
    sizes: Mapping[Place, int]
    owns_throttles: bool = False
    moves: Mapping[str, MoveState] = {}
    move_of: Mapping[TopicPartition, str] = {}
    log_dirs: Mapping[Place, Copies] = {}
    failed_directories: frozenset[int] = frozenset()

    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the replicas of each partition."""
        return {key: partition.replicas for key, partition in self.partitions.items()}

    def known_brokers(self) -> list[int]:
        """Return the brokers that run and those that have replicas, ascending."""
        return sorted({*self.brokers, *(broker for each in self.partitions.values() for broker in each.replicas)})

    def size_of(self, key: TopicPartition) -> int:
        """Return the bytes of a whole replica: the leader's, or the largest known."""
        partition = self.partitions[key]
        at_leader = self.sizes.get(Place(key, partition.leader))
        if at_leader is not None:
            return at_leader
        return max((self.sizes.get(Place(key, broker), 0) for broker in partition.replicas), default=0)

    def keys_of(self, move_id: str) -> list[TopicPartition]:
        """Return the partitions of a move, sorted."""
        return sorted(key for key, owner in self.move_of.items() if owner == move_id)
