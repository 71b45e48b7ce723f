"""Carries out a fault plan on a cluster, and ends all faults at the end.

Targets are resolved when a fault strikes: "leader" is the leader of a random
partition, "controller" the holder of the lease. A power cut strikes only if all
other replicas have recovered from theirs (the budget: at most
`min.insync.replicas` - 1 replicas at a time); otherwise it is a plain kill.
"""

import errno
from collections.abc import Callable
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.virtual.clients.costs import CostlyClient
from syncline.virtual.cluster import VirtualCluster
from syncline.virtual.disk.medium import ROOM_BYTES
from syncline.virtual.faults import Fault
from syncline.virtual.host import Host
from syncline.virtual.liveness.episodes import Episode
from syncline.virtual.operators.moves import Operator, every_partition_has_two
from syncline.virtual.operators.throttles import Throttler

# The room that a "full" disk still has, so that it may fail in the middle of an operation.
ROOM_LEFT_BYTES_MAX: Final = 4096


class Injector:
    """The faults of one run."""

    def __init__(
        self,
        cluster: VirtualCluster,
        clients: tuple[str, ...],
        partitions: tuple[TopicPartition, ...],
        costly: CostlyClient | None = None,
        operator: Operator | None = None,
        throttler: Throttler | None = None,
    ) -> None:
        self._cluster = cluster
        self._clients = clients
        self._partitions = partitions
        self._costly = costly
        self._operator = operator
        self._throttler = throttler
        self._rng = cluster.rng("targets")
        self._undo: dict[int, Callable[[], None]] = {}
        # By the number of the strike.
        self._episodes: dict[int, Episode] = {}
        self.counts: dict[str, int] = {}

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """What struck so far."""
        return tuple(self._episodes.values())

    def schedule(self, plan: tuple[Fault, ...]) -> None:
        """Let each fault strike at its time."""
        for fault in plan:
            self._cluster.loop.call_at_ns(fault.at_ns, self.strike, fault)

    def heal_all(self) -> None:
        """End every fault now; start every broker that is down, and restart those with offline logs."""
        for number in list(self._undo):
            self._end(number)
        for host in self._cluster.hosts.values():
            if host.has_offline_logs():
                self.counts["offline"] = self.counts.get("offline", 0) + 1
                self._cluster.kill(host)
            if not host.is_up:
                self._cluster.start(host)

    def strike(self, fault: Fault) -> None:
        """Begin one fault and schedule its end."""
        host = self._find(fault.target)
        undo = None if host is None else self._begin(fault, host)
        if host is None or undo is None:
            return
        self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        cluster = self._cluster
        cluster.trace.record(cluster.loop.now_ns, "fault", fault.kind, host.name, fault.other)
        number = len(self._episodes)
        peers = tuple(self._others(fault, host)) if fault.other else ()
        self._episodes[number] = Episode(fault.kind, host.name, peers, cluster.loop.now_ns)
        self._undo[number] = undo
        cluster.loop.call_at_ns(cluster.loop.now_ns + max(1, fault.duration_ns), self._end, number)

    def _end(self, number: int) -> None:
        undo = self._undo.pop(number, None)
        if undo is not None:
            undo()
            self._episodes[number] = self._episodes[number]._replace(end_ns=self._cluster.loop.now_ns)

    def _find(self, target: str) -> Host | None:
        cluster = self._cluster
        hosts = list(cluster.hosts.values())
        if target.startswith("broker-"):
            return next(host for host in hosts if host.name == target)
        if target == "controller":
            holder = cluster.store.holder
            return None if holder is None else cluster.hosts[holder.broker_id]
        if target in {"leader", "follower"}:
            leader = cluster.leader_of(self._rng.choice(self._partitions))
            if target == "leader":
                return leader
            hosts = [host for host in hosts if host is not leader]
        return self._rng.choice(hosts)

    def _begin(self, fault: Fault, host: Host) -> Callable[[], None] | None:
        """Begin a fault; return what ends it, or None if it cannot strike now."""
        match fault.kind:
            case "kill" | "power_cut":
                return self._kill(fault, host)
            case "pause":
                return self._pause(host)
            case "cut" | "one_way_cut":
                return self._cut(fault, host)
            case "delay":
                return self._delay(fault, host)
            case "slow_disk":
                return self._slow_disk(fault, host)
            case "full_disk":
                return self._fill_disk(host)
            case "refusing_disk":
                return self._refuse(fault, host)
            case "costly_request":
                assert self._costly is not None, "no client sends costly requests"
                self._costly.send(host.broker_id, host.name, fault.amount)
                return _nothing
            case "move" | "cancel":
                assert self._operator is not None, "nobody moves replicas"
                self._operator.request(fault, host)
                return _nothing
            case "throttle":
                assert self._throttler is not None, "nobody throttles"
                self._throttler.request(fault, host)
                return _nothing
            case "reset":
                return self._reset(host)
            case "lose_lease":
                self._cluster.store.lose_lease()
                return _nothing
            case _:
                raise AssertionError(f"unknown fault {fault.kind}")

    def _kill(self, fault: Fault, host: Host) -> Callable[[], None] | None:
        if not host.is_up:
            return None
        is_power_cut = fault.kind == "power_cut" and self._cluster.may_lose_power()
        if self._operator is not None:
            is_power_cut = is_power_cut and every_partition_has_two(self._cluster)
        self._cluster.kill(host, is_power_cut=is_power_cut)

        def restart() -> None:
            if not host.is_up:
                self._cluster.start(host)

        return restart

    def _pause(self, host: Host) -> Callable[[], None] | None:
        if host.process is None or host.process.paused:
            return None
        self._cluster.pause(host)
        process = host.process

        def resume() -> None:
            if host.process is process:
                self._cluster.resume(host)

        return resume

    def _others(self, fault: Fault, host: Host) -> list[str]:
        if fault.other == "client":
            return list(self._clients)
        names = [other.name for other in self._cluster.hosts.values() if other is not host]
        return names if fault.other in {"all", host.name} else [fault.other]

    def _cut(self, fault: Fault, host: Host) -> Callable[[], None]:
        network = self._cluster.network
        links = []
        for other in self._others(fault, host):
            if fault.kind == "cut" or fault.amount == 0:
                links.append((host.name, other))
            if fault.kind == "cut" or fault.amount == 1:
                links.append((other, host.name))
        for link in links:
            network.cut(*link)

        def heal() -> None:
            for link in links:
                network.heal(*link)

        return heal

    def _delay(self, fault: Fault, host: Host) -> Callable[[], None]:
        network = self._cluster.network
        others = self._others(fault, host)
        for other in others:
            network.delay(host.name, other, fault.amount)
            network.delay(other, host.name, fault.amount)

        def end() -> None:
            for other in others:
                network.delay(host.name, other, 0)
                network.delay(other, host.name, 0)

        return end

    def _slow_disk(self, fault: Fault, host: Host) -> Callable[[], None] | None:
        disk = host.disk
        if disk is None:
            return None
        disk.slow_ns_max = fault.amount

        def end() -> None:
            disk.slow_ns_max = 0

        return end

    def _fill_disk(self, host: Host) -> Callable[[], None] | None:
        medium = host.medium
        if medium.room_bytes < ROOM_BYTES:
            return None
        medium.room_bytes = medium.used_bytes() + self._rng.randint(0, ROOM_LEFT_BYTES_MAX)

        def end() -> None:
            medium.room_bytes = ROOM_BYTES

        return end

    def _refuse(self, fault: Fault, host: Host) -> Callable[[], None] | None:
        medium = host.medium
        if medium.refusing:
            return None
        medium.refusing = fault.amount

        def end() -> None:
            medium.refusing = 0
            # Nothing is wrong with the logs when descriptors have run out; otherwise the operator restarts the broker.
            if fault.amount != errno.EMFILE and host.is_up:
                self._cluster.kill(host)
                self._cluster.start(host)

        return end

    def _reset(self, host: Host) -> Callable[[], None]:
        for other in [*self._clients, *(each.name for each in self._cluster.hosts.values() if each is not host)]:
            self._cluster.network.reset_connections(host.name, other)
        return _nothing


def _nothing() -> None:
    """Do nothing: the fault was over at once."""
