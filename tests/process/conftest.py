"""What tests of broker processes share, if they need no cluster of their own."""

from collections.abc import Iterator

import pytest

from tests.cluster import QUICK_GROUPS, LocalCluster, cluster


@pytest.fixture(scope="package")
def three_brokers() -> Iterator[LocalCluster]:
    """Three brokers, shared by tests that do not harm them: each test makes its own topics."""
    with cluster(brokers=3, configs=QUICK_GROUPS) as started:
        yield started
