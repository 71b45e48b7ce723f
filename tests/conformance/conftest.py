"""The cluster that is judged: three broker processes of Syncline, or any cluster named by the environment."""

import os
from collections.abc import Iterator

import pytest

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
    running = None
    named = os.environ.get(BOOTSTRAP_VARIABLE)
    if named is None:
        from tests.cluster import start_cluster

        running = start_cluster(brokers=BROKER_COUNT, configs=CONFIGS)
    bootstrap = parse_bootstrap(named) if named else addresses(running.bootstrap)
    try:
        prepared = ready_cluster(bootstrap, collect(), run=os.environ.get(RUN_VARIABLE, "c"))
        yield prepared
        prepared.close()
    finally:
        if running is not None:
            running.stop()


def addresses(bootstrap: str | list[str] | list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return a cluster's addresses, however it names them."""
    if isinstance(bootstrap, str):
        return parse_bootstrap(bootstrap)
    return [address for each in bootstrap for address in (parse_bootstrap(each) if isinstance(each, str) else [each])]


@pytest.fixture(scope="session")
def seen() -> dict[str, set[Divergence]]:
    """Return which divergences were seen, by the sequences that were played."""
    return {}
