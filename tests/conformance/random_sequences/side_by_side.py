"""An Apache Kafka and a Syncline of the same world, and one sequence at a time played on both."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.cluster import LocalCluster, start_cluster, tracebacks_in
from tests.conformance import apache_kafka
from tests.conformance.compare import Difference, differences
from tests.conformance.live import START_S, wait_for_listener
from tests.conformance.player import Cluster, Running
from tests.conformance.random_sequences.expected import unexpected
from tests.conformance.record import parse_bootstrap, ready_cluster
from tests.conformance.settings import WORLDS
from tests.conformance.steps import Sequence

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """What both answered to a sequence, and which of the differences nothing explains."""

    sequence: Sequence
    kafka: Rows
    syncline: Rows
    left: list[Difference]
    tracebacks: list[str]

    @property
    def is_good(self) -> bool:
        """Whether both answered alike, and no broker of Syncline failed inside."""
        return not self.left and not self.tracebacks


@dataclass
class SideBySide:
    """Both clusters. Every play has names of its own, so that one cluster serves for all of them."""

    kafka: list[tuple[str, int]]
    syncline: list[tuple[str, int]]
    local: LocalCluster
    run: str
    _played: int = 0
    _seen: set[str] = field(default_factory=set)

    def play(self, sequence: Sequence) -> Outcome:
        """Play a sequence on both at once, and compare."""
        self._played += 1
        run = f"{self.run}{self._played}"
        pool = ThreadPoolExecutor(2)
        try:
            both = [pool.submit(_play, bootstrap, sequence, run) for bootstrap in (self.kafka, self.syncline)]
            kafka, syncline = (each.result() for each in both)
        finally:
            # A play that goes on ends with its cluster, which is stopped after a failure.
            pool.shutdown(wait=False)
        left = unexpected(differences(sequence.name, kafka, syncline))
        return Outcome(sequence, kafka, syncline, left, self._new_tracebacks())

    def _new_tracebacks(self) -> list[str]:
        found = [each for path in sorted(self.local.directory.glob("logs/*.log")) for each in tracebacks_in(path)]
        new = [each for each in found if each not in self._seen]
        self._seen.update(new)
        return new


def _play(bootstrap: list[tuple[str, int]], sequence: Sequence, run: str) -> Rows:
    cluster = Cluster(bootstrap, run=run)
    try:
        cluster.find_brokers(WORLDS[sequence.world].brokers)
        cluster.make_topics([sequence])
        rows: Rows = json.loads(json.dumps(Running(cluster, sequence).finish()))
        cluster.remove_topics(sequence)
    finally:
        cluster.close()
    return rows


@contextmanager
def side_by_side(kafka: str | None, name: str) -> Iterator[SideBySide]:
    """Yield both clusters of the world of this name, ready; `kafka` names a running one, else one is started."""
    world = WORLDS[name]
    with ExitStack() as stack:
        if kafka is None:
            bootstrap = stack.enter_context(apache_kafka.running(world)).bootstrap
        else:
            bootstrap = parse_bootstrap(kafka)
        local = start_cluster(world.brokers, world.configs, restart=False, racks=",".join(world.racks))
        stack.callback(local.stop)
        deadline = time.monotonic() + START_S
        for host, port in bootstrap:
            wait_for_listener(host, port, deadline)
        own = parse_bootstrap(local.bootstrap)
        # A cluster that is used again must not know the names of this run.
        run = f"r{time.time_ns() // 1_000_000 % 10_000_000}x"
        for each in (bootstrap, own):
            ready_cluster(each, [], run=run, world=name).close()
        yield SideBySide(bootstrap, own, local, run)
