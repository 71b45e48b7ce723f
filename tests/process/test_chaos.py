"""SIGKILL of random brokers under acks=all load, in the short version of `make chaos`."""

import logging
from pathlib import Path

import pytest

from tests.cluster import start_cluster
from tests.process import chaos, processes

log = logging.getLogger(__name__)

pytestmark = pytest.mark.process


def test_acknowledged_records_survive_kills_of_random_brokers(tmp_path: Path) -> None:
    """Every acknowledged record is read once and in order, and the three logs of each partition are identical."""
    cluster = start_cluster(3, directory=tmp_path)
    try:
        outcome = chaos.run(cluster, seconds=16, seed=3, pause_s=(1.0, 4.0))
    finally:
        cluster.stop()
    processes.await_none(tmp_path)
    log.info("%s", outcome)
    assert outcome.kills >= 4
