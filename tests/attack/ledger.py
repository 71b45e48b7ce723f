"""What must not happen to a cluster under attack: a lease lost, an election, a fencing, a process gone, a traceback.

It is read from the brokers' files, so that looking costs them nothing.
"""

from dataclasses import dataclass
from typing import Any

from tests.attack.scene import NEIGHBOUR, Scene
from tests.cluster import LocalCluster, tracebacks_in
from tests.process import processes


@dataclass(frozen=True)
class Ledger:
    """The state of a cluster, as far as only harm changes it."""

    lease: tuple[int, int]
    pids: dict[int, int]
    # Epochs of registrations, and whether fenced.
    registrations: dict[int, tuple[int, bool]]
    leader_epochs: dict[int, int]
    tracebacks: tuple[str, ...]

    @classmethod
    def read(cls, cluster: LocalCluster) -> "Ledger":
        """Return the state of a cluster now."""
        image = processes.stored_metadata(cluster.directory)
        tracebacks = [each for path in sorted(cluster.directory.glob("logs/*.log")) for each in tracebacks_in(path)]
        return cls(
            processes.lease(cluster.directory),
            cluster.pids,
            {int(broker): (int(record.broker_epoch), record.fenced) for broker, record in image.brokers.items()},
            {index: int(record.leader_epoch) for index, record in enumerate(_partitions(image, NEIGHBOUR))},
            tuple(tracebacks),
        )

    def harm_since(self, before: "Ledger") -> list[str]:
        """Return what happened after `before`, in a few words each."""
        harm = []
        if gone := [broker for broker, pid in before.pids.items() if self.pids.get(broker) != pid]:
            harm.append(f"broker {gone} ended")
        if self.lease != before.lease:
            harm.append("lease lost")
        if self.registrations != before.registrations:
            harm.append("broker fenced")
        if self.leader_epochs != before.leader_epochs:
            harm.append("election")
        if fresh := len(self.tracebacks) - len(before.tracebacks):
            harm.append(f"{fresh} tracebacks")
        return harm


def scene_of(cluster: LocalCluster) -> Scene:
    """Return where to attack."""
    running = cluster.running
    image = processes.stored_metadata(cluster.directory)
    return Scene(
        running.client_ports,
        running.internal_ports,
        running.metrics_ports,
        processes.lease(cluster.directory)[0],
        {
            f"{name}-{index}": int(record.leader)
            for name in image.topics
            for index, record in enumerate(_partitions(image, name))
        },
        {str(name): topic.topic_id.hex for name, topic in image.topics.items()},
    )


def _partitions(image: Any, topic: str) -> Any:
    return image.topics[topic].partitions if topic in image.topics else ()
