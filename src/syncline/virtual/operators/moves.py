"""An operator who moves replicas about while faults strike, changes its mind, and cancels.

Each request goes to whichever broker the plan names, once: its answer may be lost, and nobody asks again. Whatever was
committed of it must be complete at the end: no reassignment waits, no move is left, and no broker has a copy, or a
directory, that the metadata does not give it (`leftovers()`).

A run that has such an operator has one broker more than replicas.
"""

import random
from collections.abc import Sequence
from typing import Final

from syncline.model.ids import OFFSETS_TOPIC, TopicPartition
from syncline.virtual.cluster import LOG_DIRECTORY, VirtualCluster
from syncline.virtual.determinism.streams import stream
from syncline.virtual.disk.medium import Directory
from syncline.virtual.faults import Fault
from syncline.virtual.host import Host
from syncline.virtual.operators.sending import send_once
from syncline.virtual.time.durations import MS
from syncline.virtual.verdict import Held, nothing_held
from syncline.wire.api import ApiKey

HOST: Final = "operator"
BROKERS: Final = 4
# Deleted copies leave the disk before a run is judged.
CONFIG: Final = {"log.segment.delete.delay.ms": "1000"}
_INTERVAL_NS_MEAN: Final = 2_000 * MS
_TIMEOUT_MS: Final = 5_000
_KINDS: Final = ("move", "move", "move", "cancel")
# Two copies at least, so that the loss of one replica's data does no harm.
_FACTORS: Final = (2, 3, 3, 3)
_THROTTLES: Final = (-1, -1, 100_000, 10_000_000)


def draw_moves(rng: random.Random, begin_ns: int, end_ns: int) -> tuple[Fault, ...]:
    """Return the operator's requests between two instants, as part of a plan of faults; `amount` seeds the choices."""
    plan: list[Fault] = []
    at_ns = begin_ns
    while True:
        at_ns += int(rng.expovariate(1 / _INTERVAL_NS_MEAN))
        if at_ns >= end_ns:
            return tuple(plan)
        plan.append(Fault(at_ns, rng.choice(_KINDS), "any", "", 0, rng.getrandbits(32)))


class Operator:
    """Sends the requests of a plan."""

    def __init__(self, cluster: VirtualCluster, partitions: Sequence[TopicPartition], *, rate_factor: int = 1) -> None:
        """`rate_factor`: moves may be so much faster, as there is more to copy."""
        self._cluster = cluster
        self._rate_factor = rate_factor
        self._partitions = (*partitions, TopicPartition(OFFSETS_TOPIC, 0))
        self._process = cluster.client_process(HOST)

    def request(self, fault: Fault, host: Host) -> None:
        """Send one request to a broker."""
        rng = stream(self._cluster.seed, "request", fault.amount)
        key = rng.choice(self._partitions)
        replicas: tuple[int, ...] | None = None
        throttle = -1
        if fault.kind == "move":
            replicas = tuple(rng.sample(sorted(self._cluster.hosts), rng.choice(_FACTORS)))
            throttle = rng.choice(_THROTTLES)
            throttle *= self._rate_factor if throttle > 0 else 1
        fields = {
            "timeout": _TIMEOUT_MS,
            "topics": [{"name": key.topic, "partitions": [{"partition_index": key.partition, "replicas": replicas}]}],
            "throttle": throttle,
        }
        sending = send_once(HOST, host.name, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, fields)
        self._process.context.run(self._cluster.loop.create_task, sending)


def leftovers(cluster: VirtualCluster, held: Held = nothing_held) -> str | None:
    """Return what a move has left undone, or behind; None if there is nothing.

    A move ends when all its new replicas are in sync, so not before those that `held` names may copy.
    """
    image = cluster.store.image
    waiting = set()
    for topic in image.topics.values():
        for record in topic.partitions:
            key = TopicPartition(topic.name, record.partition)
            if record.is_reassigned and held(key):
                waiting.add(record.move)
            elif record.is_reassigned:
                return f"T55 {key} is still being reassigned: {record}"
            for host in cluster.hosts.values():
                if host.broker_id not in record.replicas and (names := _directories(host, key)):
                    return f"T53 {host.name} is no replica of {key} ({record.replicas}), and has {names}"
    if image.moves.keys() - waiting:
        return f"T57 moves are left: {dict(image.moves)}"
    return None


def _directories(host: Host, key: TopicPartition) -> list[str]:
    node: object = host.medium.root
    for name in LOG_DIRECTORY.strip("/").split("/"):
        assert isinstance(node, Directory), f"{host.name} has no {LOG_DIRECTORY}"
        node = node.names[name]
    assert isinstance(node, Directory), f"{host.name} has no {LOG_DIRECTORY}"
    return sorted(name for name in node.names if name == str(key) or name.startswith(f"{key}."))


def every_partition_has_two(cluster: VirtualCluster) -> bool:
    """Return whether a copy may be lost: each in-sync set has two members, not counting those that are being added.

    A request that is on its way may drop those, and what only they and the lost copy have.
    """
    topics = cluster.store.image.topics.values()
    return all(
        sum(member not in record.adding for member in record.isr) > 1 for topic in topics for record in topic.partitions
    )
