"""What produce requests use of a broker; all requests share one."""

from collections.abc import Mapping
from typing import NamedTuple

from syncline.core.refused_heads import RefusedHeads
from syncline.model.ids import TopicPartition
from syncline.node.clock import Clock
from syncline.node.counting.counters import Counters
from syncline.node.loop.deadlines import Deadlines
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.partitions.partition import Partition
from syncline.node.producing.opening import Opening
from syncline.node.producing.unanswered_refusals import UnansweredRefusals


class Producing(NamedTuple):
    """The parts of one broker that produce requests use."""

    clock: Clock
    cluster: ClusterView
    partitions: Mapping[TopicPartition, Partition]
    counters: Counters
    deadlines: Deadlines
    unanswered: UnansweredRefusals
    opening: Opening
    refused_heads: RefusedHeads
