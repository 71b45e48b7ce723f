"""The clusters that are judged: broker processes of Syncline, or a cluster named by the environment."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import LocalCluster, start_cluster
from tests.conformance.catalogue import collect
from tests.conformance.player import Cluster, Running
from tests.conformance.record import begin_all, parse_bootstrap, ready_cluster
from tests.conformance.settings import WORLDS
from tests.conformance.steps import Sequence

BOOTSTRAP_VARIABLE = "SYNCLINE_CONFORMANCE_BOOTSTRAP"
RUN_VARIABLE = "SYNCLINE_CONFORMANCE_RUN"


class Clusters:
    """The clusters of all worlds, each started when its first sequence is played."""

    def __init__(self) -> None:
        self._begun: dict[str, dict[str, Running]] = {}
        self._played: dict[str, list[dict[str, Any]]] = {}
        self._prepared: list[Cluster] = []
        self._started: list[LocalCluster] = []

    def play(self, sequence: Sequence) -> list[dict[str, Any]]:
        """Return the recorded form of a sequence, as JSON would give it back.

        Each is played once, after all that are declared before it, as they were recorded: some names, like that of
        the empty group, are the same for all.
        """
        if sequence.world not in self._begun:
            self._begun[sequence.world] = self._begin(sequence.world)
        for name, running in self._begun[sequence.world].items():
            if name not in self._played:
                self._played[name] = json.loads(json.dumps(running.finish()))
            if name == sequence.name:
                break
        return self._played[sequence.name]

    def stop(self) -> None:
        """Stop all of them."""
        for prepared in self._prepared:
            prepared.close()
        for started in self._started:
            started.stop()

    def _begin(self, name: str) -> dict[str, Running]:
        world = WORLDS[name]
        own = [each for each in collect() if each.world == name]
        bootstrap = os.environ.get(BOOTSTRAP_VARIABLE)
        if bootstrap and world.leaves is not None:
            pytest.skip("a broker of a cluster that others started is not stopped")

        def stop(rank: int) -> None:
            broker_id = sorted(running.pids)[rank]
            os.kill(running.pids[broker_id], signal.SIGTERM)

        if not bootstrap:
            running = start_cluster(world.brokers, world.configs, restart=False, racks=",".join(world.racks))
            self._started.append(running)
            bootstrap = running.bootstrap
        run = os.environ.get(RUN_VARIABLE, "c")
        prepared = ready_cluster(parse_bootstrap(bootstrap), own, run=run, world=name)
        self._prepared.append(prepared)
        return begin_all(prepared, own, name, stop)


@pytest.fixture(scope="package")
def clusters() -> Iterator[Clusters]:
    """Return fresh clusters that are prepared for every sequence."""
    found = Clusters()
    try:
        yield found
    finally:
        found.stop()
