"""Three unmodified brokers on three simulated hosts, in one loop.

A host has a disk, a clock and a link to every other host; a broker process lives
on it until it is killed, and the next process finds what the disk kept. Nothing
here knows how a broker works: it gets its ports and starts.

A broker that could not start (its disk was full, it was already registered) is
started again a little later, as a supervisor would do.
"""

import asyncio
import random
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from syncline.model.errors import RequestError
from syncline.model.ids import TopicPartition
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.node import Listen, Node, NodeSpec
from syncline.node.unix_sockets.sending import FileSender
from syncline.storage.errors import StorageError
from syncline.virtual.coordination import ClusterStore, SimCoordination
from syncline.virtual.determinism.streams import stream
from syncline.virtual.determinism.trace import Trace
from syncline.virtual.disk.disk import DiskSettings, SimDisk
from syncline.virtual.disk.medium import Medium
from syncline.virtual.host import Host
from syncline.virtual.network.links import NetworkSettings
from syncline.virtual.network.network import Network
from syncline.virtual.observers.ghost import Ghost
from syncline.virtual.observers.invariants import Invariants
from syncline.virtual.observers.lag_watch import LagWatch
from syncline.virtual.time.clock import VirtualClock
from syncline.virtual.time.loop import VirtualLoop
from syncline.virtual.time.meter import MeteredClock
from syncline.virtual.time.process import KERNEL, Process

CLIENT_PORT: Final = 9092
INTERNAL_PORT: Final = 9093
LOG_DIRECTORY: Final = "/data"
CONTROL_SECRET: Final = "open sesame"  # noqa: S105 - of brokers that do not exist
START_AGAIN_S: Final = 0.5

# Scaled-down time-outs: a run of half a minute includes everything that happens in the life of a cluster.
CONFIG: Final = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.backoff.ms": "200",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
    # It would read the disks of long runs, and so change what happens in them.
    "log.scrub.bytes.per.second": "0",
}


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """The settings of a cluster."""

    brokers: int = 3
    config: dict[str, str] = field(default_factory=dict)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    disk: DiskSettings = field(default_factory=DiskSettings)
    is_shuffled: bool = True
    # Followers get large records unread, as over Unix domain sockets.
    sends_unread: bool = False
    check_invariants: bool = True


class VirtualCluster:
    """The loop, the network, the store and the hosts of one run."""

    def __init__(self, seed: int, settings: ClusterSettings | None = None, trace: Trace | None = None) -> None:
        self.seed = seed
        self.settings = settings or ClusterSettings()
        self.trace = trace or Trace()
        scheduling = stream(seed, "scheduling") if self.settings.is_shuffled else None
        self.loop = VirtualLoop(scheduling, on_wake=self._instant_is_over)
        self.network = Network(self.loop, seed, self.trace, self.settings.network)
        if self.settings.sends_unread:
            self.network.send_files_from(INTERNAL_PORT, FileSender)
        self.store = ClusterStore(self.loop, stream(seed, "coordination"), self.trace)
        self.hosts: dict[int, Host] = {}
        for broker_id in range(1, self.settings.brokers + 1):
            rng = stream(seed, "host", broker_id)
            clock = VirtualClock(self.loop, offset_ms=rng.randint(-50, 50), drift_ppm=rng.randint(-200, 200))
            self.hosts[broker_id] = Host(broker_id, Medium(f"broker-{broker_id}", rng), clock)
        self.ghost = Ghost(self.hosts, LOG_DIRECTORY, lambda: self.loop.now_ns, self.trace.record)
        self.store.on_commit = self.ghost.committed_metadata
        self.failures: list[str] = []
        self.invariants = Invariants(self.hosts if self.settings.check_invariants else {}, self.failures)
        self.lag_watch = LagWatch(
            self.hosts, LOG_DIRECTORY, stream(seed, "lag-watch"), self.failures, self.ghost.counts
        )
        self._all_processes: list[Process] = []
        self._graveyard: list[Node] = []
        self.is_ending = False

    def _instant_is_over(self, now_ns: int) -> None:
        if self.ghost.acknowledged:
            self.ghost.instant_is_over()
        if now_ns >= self.lag_watch.due_ns:
            self.lag_watch.sweep(now_ns)
        self.invariants.instant_is_over(now_ns)

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all client listeners."""
        return ",".join(f"{host.name}:{CLIENT_PORT}" for host in self.hosts.values())

    def rng(self, *names: object) -> random.Random:
        """Return a random stream of this run."""
        return stream(self.seed, *names)

    def client_process(self, host: str) -> Process:
        """Return a process on a client's host."""
        process = Process(host)
        self._all_processes.append(process)
        return process

    def start(self, host: Host) -> None:
        """Start a broker on a host that has none."""
        assert host.process is None, f"{host.name} runs already"
        host.lives += 1
        process = host.process = Process(host.name, host.lives)
        self._all_processes.append(process)
        self.network.host_is_back(host.name)
        self.trace.record(self.loop.now_ns, "start", host.broker_id, host.lives)
        process.context.run(self._build, host)

    def _build(self, host: Host) -> None:
        config = {**CONFIG, **self.settings.config}
        spec = NodeSpec(
            broker_id=host.broker_id,
            log_directory=LOG_DIRECTORY,
            client=Listen(host=host.name, port=CLIENT_PORT),
            internal=Listen(host=host.name, port=INTERNAL_PORT),
            config=config,
            cluster_size=self.settings.brokers,
            check_invariants=self.settings.check_invariants,
            control_secret=CONTROL_SECRET,
        )
        disk_rng = stream(self.seed, "disk", host.broker_id, host.lives)
        host.disk = SimDisk(self.loop, host.medium, disk_rng, self.trace, self.settings.disk)
        host.disk.on_append = partial(self.lag_watch.appended, host)
        host.node = Node(
            spec,
            disk=host.disk,
            coordination=SimCoordination(self.store),
            clock=host.clock,
            rng=stream(self.seed, "node", host.broker_id, host.lives),
            probe=self.ghost.probe_of(host, host.lives),
            holds=LoopHolds(MeteredClock(host.clock, self.loop)),
        )
        self._graveyard.append(host.node)
        host.starting = self.loop.create_task(host.node.start(), name=f"start {host.name}")
        process = host.process
        host.starting.add_done_callback(lambda task: self._started(host, process, task))

    def _started(self, host: Host, process: Process | None, task: "asyncio.Task[None]") -> None:
        if task.cancelled() or host.process is not process:
            return
        error = task.exception()
        if error is None:
            return
        self.trace.record(self.loop.now_ns, "start-failed", host.broker_id, type(error).__name__)
        if (
            not isinstance(error, OSError | StorageError | RequestError)
            and type(error).__name__ != "RegistrationRefused"
        ):
            self.failures.append(f"{host.name} could not start: {error!r}")
            return
        self.kill(host)
        self.loop.call_later(START_AGAIN_S, self._start_again, host, context=KERNEL)

    def _start_again(self, host: Host) -> None:
        if host.process is None and not self.is_ending:
            self.start(host)

    def kill(self, host: Host, *, is_power_cut: bool = False) -> None:
        """End a broker's process at once; with a power cut its disk loses what was not synced."""
        process = host.process
        if process is None:
            return
        if self.settings.check_invariants:
            self.invariants.check(host)
        self.trace.record(self.loop.now_ns, "power_cut" if is_power_cut else "kill", host.broker_id)
        process.die()
        host.process = None
        host.node = None
        host.disk = None
        self.network.process_died(process, is_silent=is_power_cut)
        self.store.process_died(process)
        host.medium.release_locks(process)
        if is_power_cut:
            host.is_dirty = True
            host.medium.lose_power()

    def pause(self, host: Host) -> None:
        """Pause a broker's process."""
        if host.process is not None:
            self.trace.record(self.loop.now_ns, "pause", host.broker_id)
            host.process.pause()

    def resume(self, host: Host) -> None:
        """Resume a paused process."""
        if host.process is not None and host.process.paused:
            self.trace.record(self.loop.now_ns, "resume", host.broker_id)
            self.loop.release(host.process.resume())

    def in_sync_everywhere(self, host: Host) -> bool:
        """Return whether the broker on this host is in the in-sync sets of all its partitions."""
        record = self.store.image.brokers.get(host.broker_id)  # type: ignore[call-overload]
        broker = getattr(host.node, "broker", None)
        if record is None or broker is None or record.fenced or record.broker_epoch != broker.broker_epoch:
            return False
        return all(
            host.broker_id in partition.isr
            for topic in self.store.image.topics.values()
            for partition in topic.partitions
            if host.broker_id in partition.replicas
        )

    def may_lose_power(self) -> bool:
        """Return whether another host may lose unsynced data: every host that lost some has recovered."""
        for host in self.hosts.values():
            if host.is_dirty and self.in_sync_everywhere(host):
                host.is_dirty = False
        return not any(host.is_dirty for host in self.hosts.values())

    def leader_of(self, key: TopicPartition) -> Host | None:
        """Return the host of a partition's leader, according to the controller."""
        record = self.store.image.partition(key.topic, key.partition)
        return None if record is None else self.hosts.get(record.leader)

    async def stop(self) -> None:
        """Stop all brokers one after the other, as an operator does."""
        self.is_ending = True
        for host in self.hosts.values():
            if host.process is None or host.node is None:
                continue
            stopping = host.process.context.run(self.loop.create_task, host.node.stop())
            await asyncio.wait_for(stopping, 30)
            left = [task.get_name() for task in host.process.pending_tasks()]
            if left:
                self.failures.append(f"L8 {host.name} left tasks behind after its stop: {left}")

    def take_apart(self) -> None:
        """Free what the run left behind; the loop is closed."""
        for process in self._all_processes:
            process.abandon()
        self._graveyard.clear()
        self.loop.close()
