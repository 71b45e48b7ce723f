"""What producing takes of a broker; all produce requests share one."""

from collections.abc import Mapping
from dataclasses import dataclass

from syncline.model.ids import TopicPartition
from syncline.node.clock import Clock
from syncline.node.cluster_view import ClusterView
from syncline.node.counters import Counters
from syncline.node.deadlines import Deadlines
from syncline.node.partition import Partition


@dataclass(frozen=True, kw_only=True, slots=True)
class Producing:
    """The parts of one broker that take produce requests."""

    clock: Clock
    cluster: ClusterView
    partitions: Mapping[TopicPartition, Partition]
    counters: Counters
    deadlines: Deadlines
