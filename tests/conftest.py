"""What tests with real broker processes share."""

from collections.abc import Iterator

import pytest

from tests.cluster import LocalCluster, start_cluster

# Groups rebalance at once, and a killed member is missed after a moment instead of six seconds.
QUICK_GROUPS = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="session")
def three_brokers() -> Iterator[LocalCluster]:
    """Three broker processes that all tests of the run share: make topics of your own, leave the brokers well."""
    started = start_cluster(brokers=3, configs=QUICK_GROUPS)
    try:
        yield started
    finally:
        started.stop()
