"""The cluster that is judged: three broker processes of Syncline, or any cluster named by the environment."""

import os
from collections.abc import Iterator

import pytest

from tests.cluster import start_cluster
from tests.conformance.catalogue import collect
from tests.conformance.divergences import Divergence
from tests.conformance.player import Cluster
from tests.conformance.record import parse_bootstrap, ready_cluster
from tests.conformance.settings import BROKER_COUNT, CONFIGS

BOOTSTRAP_VARIABLE = "SYNCLINE_CONFORMANCE_BOOTSTRAP"
RUN_VARIABLE = "SYNCLINE_CONFORMANCE_RUN"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Return a fresh cluster that is prepared for every sequence."""
    named = os.environ.get(BOOTSTRAP_VARIABLE)
    running = None if named else start_cluster(brokers=BROKER_COUNT, configs=CONFIGS)
    bootstrap = named if running is None else running.bootstrap
    assert bootstrap is not None, "either a cluster is named or one was started"
    try:
        prepared = ready_cluster(parse_bootstrap(bootstrap), collect(), run=os.environ.get(RUN_VARIABLE, "c"))
        yield prepared
        prepared.close()
    finally:
        if running is not None:
            running.stop()


@pytest.fixture(scope="session")
def seen() -> dict[str, set[Divergence]]:
    """Return which divergences were seen, by the sequences that were played."""
    return {}
