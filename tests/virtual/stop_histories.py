"""Random histories of stops and starts: all together or one by one, by force, with a lost disk, or an old one.

Each round starts some brokers, lets a producer write with acks=all, and stops what runs in one of several ways,
with or without a blow in the middle of it. While everything is down a power cut may strike (a clean stop has synced
all that it leaves), and one broker at a time may come back with nothing, or with an older copy of its disk. In the
end all brokers are started, and every acknowledged record must be there.
"""

import asyncio
import copy
import logging
from collections.abc import Callable

from syncline.model.ids import TopicPartition
from syncline.storage.errors import StorageError
from syncline.virtual.clients.workload import ProducerClient
from syncline.virtual.cluster import ClusterSettings, VirtualCluster
from syncline.virtual.determinism.sandbox import sealed
from syncline.virtual.determinism.streams import stream
from syncline.virtual.disk.medium import Directory, Inode
from syncline.virtual.host import Host
from syncline.virtual.simulation import Simulation
from syncline.virtual.time.durations import SECOND
from syncline.virtual.time.process import Process
from syncline.virtual.verdict import judge, unsettled

TOPIC = "kept"
PARTITIONS = 2
ROUNDS = 6
START_S = 15
STOP_S = 12
SETTLE_S = 60


class StopHistory(Simulation):
    """One history, from one seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rng = stream(seed, "stops")
        # Without eligible replicas, the last member of an in-sync set is trusted whatever happened to its disk.
        self._may_lose_disks = self._rng.random() < 0.7
        config = {"eligible.leader.replicas.enable": str(self._may_lose_disks).lower()}
        if self._rng.random() < 0.3:
            config["log.truncation.mode"] = "epoch-request"
        self._cluster = VirtualCluster(seed, ClusterSettings(config=config, is_shuffled=self._rng.random() < 0.5))
        self._cluster.loop.set_exception_handler(self._unhandled)
        self._topics = {TOPIC: True}
        self._partitions = PARTITIONS
        self._keys = tuple(TopicPartition(TOPIC, number) for number in range(PARTITIONS))
        self._producers: list[ProducerClient] = []
        self._copies: dict[int, Directory] = {}
        self.events: list[str] = []

    def check(self) -> list[str]:
        """Run it, and return what was wrong."""
        cluster = self._cluster
        logger = logging.getLogger("syncline")
        level, logger.propagate = logger.level, False
        logger.setLevel(logging.CRITICAL)
        try:
            with sealed(cluster.loop, self._seed):
                asyncio.set_event_loop(cluster.loop)
                cluster.loop.run_until_complete(self._main())
                self._take_apart()
        finally:
            asyncio.set_event_loop(None)
            logger.setLevel(level)
            logger.propagate = True
        return [*cluster.ghost.violations, *cluster.failures]

    @property
    def acknowledged(self) -> int:
        """How many records were acknowledged."""
        return sum(len(producer.history) - producer.in_doubt for producer in self._producers)

    async def _main(self) -> None:
        cluster, rng = self._cluster, self._rng
        self._start(list(cluster.hosts.values()))
        await self._up()
        admin = cluster.client_process("client-0").context.run(cluster.loop.create_task, self._make_topics())
        await asyncio.wait_for(admin, START_S)
        for number in range(ROUNDS):
            producer = ProducerClient(cluster, number + 1, TOPIC, PARTITIONS, is_idempotent=rng.random() < 0.5)
            self._producers.append(producer)
            await asyncio.sleep(rng.uniform(0.5, 3))
            await self._strike_a_little()
            if rng.random() < 0.3:
                producer.stop_sending()
                await asyncio.sleep(0.3)
            await self._stop_somehow()
            producer.stop_sending()
            self._while_down()
            down = [host for host in cluster.hosts.values() if host.process is None]
            rng.shuffle(down)
            # Some come back at once, others later, or not in this round.
            first = down[: rng.choice((1, 2, 2, 3))]
            for host in first:
                self._start([host])
                await asyncio.sleep(rng.choice((0, 0, 0.05, 0.5, 2)))
            await asyncio.sleep(rng.choice((0.2, 1, 3)))
        self._start([host for host in cluster.hosts.values() if host.process is None])
        last = ProducerClient(cluster, ROUNDS + 1, TOPIC, PARTITIONS, is_idempotent=True)
        self._producers.append(last)
        await asyncio.sleep(2)
        last.stop_sending()
        end_ns = cluster.loop.now_ns + SETTLE_S * SECOND
        while (what := unsettled(cluster, self._keys, self._producers, ())) is not None:
            if cluster.loop.now_ns > end_ns:
                cluster.failures.append(f"not settled {SETTLE_S} s after the last start: {what}")
                break
            await asyncio.sleep(0.2)
        cluster.failures.extend(judge(cluster, self._keys, self._producers, ()).violations)
        await cluster.stop()

    def _note(self, *words: object) -> None:
        self.events.append(f"{self._cluster.loop.now_ns / SECOND:.3f} " + " ".join(map(str, words)))

    def _start(self, hosts: list[Host]) -> None:
        for host in hosts:
            if host.process is None:
                self._note("start", host.broker_id)
                self._cluster.start(host)

    async def _up(self) -> None:
        await self._until(
            lambda: all(host.starting and host.starting.done() for host in self._cluster.hosts.values()), START_S
        )

    async def _strike_a_little(self) -> None:
        """Have one broker miss something now and then, so that in-sync sets are not always whole."""
        if self._rng.random() < 0.5:
            return
        hosts = [host for host in self._cluster.hosts.values() if host.process is not None]
        if not hosts:
            return
        host = self._rng.choice(hosts)
        if self._rng.random() < 0.3:
            self._copies[host.broker_id] = copied(host.medium.root)
            self._note("copy in use", host.broker_id)
        if self._rng.random() < 0.5:
            self._note("kill", host.broker_id)
            self._cluster.kill(host)
        else:
            self._note("pause", host.broker_id)
            self._cluster.pause(host)
            await asyncio.sleep(self._rng.choice((0.5, 2.5, 4)))
            self._cluster.resume(host)
        await asyncio.sleep(self._rng.choice((0, 0.01, 1)))

    # Stopping

    async def _stop_somehow(self) -> None:
        cluster, rng = self._cluster, self._rng
        way = rng.choice(("together", "together", "together", "together", "in turn", "by force"))
        hosts = [host for host in cluster.hosts.values() if host.process is not None]
        rng.shuffle(hosts)
        self._note("stop", way, *(host.broker_id for host in hosts))
        if way == "by force":
            for host in hosts:
                cluster.kill(host)
        elif way == "in turn":
            for host in hosts:
                await self._stop_one(host, with_all=False)
        else:
            blow = cluster.loop.create_task(self._blow(rng.choice(hosts))) if hosts and rng.random() < 0.5 else None
            pause_s = rng.choice((0, 0, 0.002, 0.03))
            stopping = []
            for host in hosts:
                stopping.append(cluster.loop.create_task(self._stop_one(host, with_all=True)))
                await asyncio.sleep(pause_s)
            await asyncio.gather(*stopping)
            if blow is not None:
                await blow
        for host in hosts:
            cluster.kill(host)

    async def _stop_one(self, host: Host, *, with_all: bool) -> None:
        process, node = host.process, host.node
        if process is None or node is None or host.starting is None or not host.starting.done():
            self._cluster.kill(host)
            return
        stopping = process.context.run(self._cluster.loop.create_task, node.stop(with_all=with_all))
        end_ns = self._cluster.loop.now_ns + STOP_S * SECOND
        while not stopping.done() and process.alive and self._cluster.loop.now_ns < end_ns:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.001)
        if host.process is process:
            self._note("stopped" if stopping.done() else "did not stop", host.broker_id)
            self._end(host, process, stopping)

    def _end(self, host: Host, process: Process, stopping: "asyncio.Task[None]") -> None:
        if stopping.done() and not stopping.cancelled() and (error := stopping.exception()) is not None:
            assert isinstance(error, StorageError), error
        self._cluster.kill(host)

    async def _blow(self, host: Host) -> None:
        """Hit one broker in the middle of the stop."""
        cluster, rng = self._cluster, self._rng
        await asyncio.sleep(rng.choice((0, rng.uniform(0, 0.02), rng.uniform(0, 0.1))))
        if host.process is None:
            return
        kind = rng.choice(("kill", "power cut", "pause", "lease", "kill the controller", "again"))
        self._note(kind, host.broker_id)
        if kind == "lease":
            cluster.store.lose_lease()
        elif kind == "pause":
            cluster.pause(host)
            await asyncio.sleep(rng.choice((0.05, 1, 3, 20)))
            cluster.resume(host)
        elif kind == "power cut" and self._may_lose_disks and cluster.may_lose_power():
            cluster.kill(host, is_power_cut=True)
        elif kind == "kill the controller" and cluster.store.holder is not None:
            cluster.kill(cluster.hosts[cluster.store.holder.broker_id])
        else:
            cluster.kill(host)
        if kind == "again":
            # Its supervisor restarted it before it stopped all brokers.
            self._start([host])
            await asyncio.sleep(rng.choice((0.01, 0.3, 2)))
            cluster.kill(host)

    # What may happen to disks between two lives

    def _while_down(self) -> None:
        cluster, rng = self._cluster, self._rng
        down = [host for host in cluster.hosts.values() if host.process is None]
        if not down:
            return
        is_spared = not self._may_lose_disks or not cluster.may_lose_power()
        if rng.random() < 0.3:
            self._cut_power(down, is_spared=is_spared)
        if rng.random() < 0.5:
            host = rng.choice(down)
            self._copies[host.broker_id] = copied(host.medium.root)
            self._note("copy", host.broker_id)
        if is_spared or not cluster.may_lose_power() or rng.random() < 0.4:
            return
        host = rng.choice(down)
        kept = self._copies.get(host.broker_id)
        self._replace(host, copied(kept) if kept is not None and rng.random() < 0.6 else Directory())

    def _cut_power(self, down: list[Host], *, is_spared: bool) -> None:
        """Cut the power of those that left a clean mark; any other loses what it had not synced."""
        for host in down:
            data = host.medium.root.names.get("data")
            is_clean = isinstance(data, Directory) and ".kafka_cleanshutdown" in data.names
            if not is_clean and (is_spared or not self._cluster.may_lose_power()):
                continue
            self._note("power cut after the stop", host.broker_id, "clean" if is_clean else "")
            host.medium.lose_power()
            host.is_dirty = host.is_dirty or not is_clean

    def _replace(self, host: Host, root: Directory) -> None:
        self._note("other disk", host.broker_id, "old copy" if root.names else "empty")
        host.medium.root = root
        host.is_dirty = True


def copied(directory: Directory) -> Directory:
    """Return a copy of a tree, all of it synced."""
    result = Directory()
    for name, node in directory.names.items():
        if isinstance(node, Directory):
            result.names[name] = copied(node)
        else:
            file = Inode()
            file.data, file.durable = bytearray(node.data), bytearray(node.data)
            result.names[name] = file
    result.durable = copy.copy(result.names)
    return result


def check_seed(seed: int, tell: Callable[[str], object] | None = None) -> list[str]:
    """Return what was wrong in the history of a seed; `tell` gets what happened in it."""
    history = StopHistory(seed)
    found = history.check()
    for event in history.events:
        if tell is not None:
            tell(event)
    if history.acknowledged < 10:
        found.append(f"only {history.acknowledged} records were acknowledged: this proves nothing")
    return found
