"""The ground of an attack: three brokers, their topics, the neighbour, and the watch over them."""

import contextlib
import time
from typing import Final

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from syncline.model.ids import INTERNAL_TOPICS, JOURNAL_TOPIC
from tests.attack.catalogue import WARM_UP
from tests.attack.children import Attacker, ChildLost, Neighbour
from tests.attack.holds import Holds, scrape
from tests.attack.ledger import Ledger, scene_of
from tests.attack.scene import COMPACTED, NEIGHBOUR, TARGET, Scene
from tests.attack.watch import MemoryWatch
from tests.cluster import LocalCluster, start_cluster
from tests.patience import until
from tests.process.load import QUIET, await_full_isr

BROKERS: Final = 3
# The default, a quarter of the machine's memory, is above what a broker may take here.
BUDGET_BYTES: Final = 150_000_000
# Groups of one member start at once.
CONFIGS: Final = {"group.initial.rebalance.delay.ms": "0", "queued.max.request.bytes": str(BUDGET_BYTES)}
OWN_TOPICS: Final = (NEIGHBOUR, TARGET, COMPACTED)
KEPT_TOPICS: Final = frozenset({*OWN_TOPICS, *INTERNAL_TOPICS, JOURNAL_TOPIC})
PARTITIONS: Final = 6
RATE_PER_S: Final = 200.0
# A broker serves the same page of metrics for a second.
PAGE_LIFE_S: Final = 1.05


class Ground:
    """A cluster that is being attacked."""

    def __init__(self, attacker: Attacker, *, short: bool, settles_s: float) -> None:
        self._attacker = attacker
        self._short = short
        self._scraped_s = 0.0
        with contextlib.ExitStack() as closing:
            self.cluster: LocalCluster = start_cluster(BROKERS, CONFIGS)
            closing.callback(self._stop_cluster)
            self.watch = MemoryWatch(self.cluster.pids)
            closing.callback(self.watch.close)
            self._create_topics()
            self.neighbour = Neighbour(self.cluster.bootstrap, PARTITIONS, RATE_PER_S)
            closing.callback(self.neighbour.close)
            self._warm_up(settles_s)
            self._closing = closing.pop_all()
        # The first look at the metrics loads the code that makes them.
        self.first_holds = self.holds()
        # What it takes to be there, without an attack; and when that was.
        self.start_bytes = self.watch.now()
        self.began_s = time.monotonic()

    def close(self) -> None:
        """End everything, whatever state it is in."""
        self._closing.close()

    def _stop_cluster(self) -> None:
        # A Process knows when it began, so that no other one with its number is ended.
        brokers = []
        for pid in self.cluster.pids.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                brokers.append(psutil.Process(pid))
        # It complains of tracebacks, which the ledger has counted.
        with contextlib.suppress(AssertionError):
            self.cluster.stop()
        for broker in brokers:
            with contextlib.suppress(psutil.NoSuchProcess):
                broker.kill()

    def scene(self) -> Scene:
        """Return where to attack now."""
        return scene_of(self.cluster)

    def ledger(self) -> Ledger:
        """Return the state of the cluster now."""
        return Ledger.read(self.cluster)

    def holds(self) -> dict[int, Holds]:
        """Return each broker's holds of its loop so far; a broker without an answer is left out."""
        time.sleep(max(0.0, self._scraped_s + PAGE_LIFE_S - time.monotonic()))
        found = {}
        for broker, port in self.cluster.running.metrics_ports.items():
            with contextlib.suppress(OSError):
                found[broker] = scrape(port)
        self._scraped_s = time.monotonic()
        return found

    def tidy(self) -> None:
        """Delete the topics that cases have left: what a cluster was told to keep is no leftover of an attack."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, **QUIET})
        names = [name for name in admin.list_topics(timeout=20).topics if name not in KEPT_TOPICS]
        if names:
            for deleted in admin.delete_topics(names).values():
                deleted.result(20)

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, **QUIET})
        topics = [
            NewTopic(NEIGHBOUR, PARTITIONS, BROKERS, config={"min.insync.replicas": "2"}),
            NewTopic(TARGET, 3, BROKERS),
            NewTopic(COMPACTED, 1, BROKERS, config={"cleanup.policy": "compact"}),
        ]
        for created in admin.create_topics(topics).values():
            created.result(20)
        await_full_isr(self.cluster.bootstrap, OWN_TOPICS)

    def _warm_up(self, settles_s: float) -> None:
        def is_served() -> bool:
            self.neighbour.listen()
            return len(self.neighbour.acks) > RATE_PER_S / 2

        until(is_served, otherwise="the neighbour is not served")
        try:
            self._attacker.prepare(WARM_UP.name, short=self._short, scene=self.scene())
            self._attacker.attack(WARM_UP.whole.limit_s)
        except ChildLost as error:
            raise AssertionError(f"the brokers could not be warmed up: {error}") from error
        time.sleep(settles_s)
