"""One simulated machine: what outlives its brokers, and the broker that runs on it now.

The medium and the clock belong to the machine and outlive every process. The
process, its node and its view of the disk exist while a broker runs; otherwise
they are None.
"""

import asyncio

from syncline.model.ids import TopicPartition
from syncline.node.node import Node
from syncline.node.partitions.partition import Partition
from syncline.virtual.disk.disk import SimDisk
from syncline.virtual.disk.medium import Medium
from syncline.virtual.time.clock import VirtualClock
from syncline.virtual.time.process import Process


class Host:
    """One machine with one broker."""

    def __init__(self, broker_id: int, medium: Medium, clock: VirtualClock) -> None:
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.medium = medium
        self.clock = clock
        self.lives = 0
        self.process: Process | None = None
        self.node: Node | None = None
        self.disk: SimDisk | None = None
        self.starting: asyncio.Task[None] | None = None
        # Its disk lost unsynced data, and it is not yet back in all in-sync sets.
        self.is_dirty = False

    @property
    def is_up(self) -> bool:
        """Whether the machine has a broker process, running or paused."""
        return self.process is not None

    def partition(self, key: TopicPartition) -> Partition | None:
        """Return the running broker's replica of a partition, None if it has none."""
        broker = getattr(self.node, "broker", None)
        return None if broker is None else broker.partitions.get(key)

    def has_offline_logs(self) -> bool:
        """Return whether the broker has logs that are offline until its next start."""
        broker = getattr(self.node, "broker", None)
        return broker is not None and any(partition.is_offline for partition in broker.partitions.values())
