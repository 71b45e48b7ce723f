"""Partitions move while SIGKILL strikes, in the short version of `make chaos-moves`."""

import logging
from pathlib import Path

import pytest

from tests.cluster import start_cluster
from tests.process import moves_chaos, processes

log = logging.getLogger(__name__)

pytestmark = pytest.mark.process


def test_moves_end_and_leave_nothing_whatever_is_killed(tmp_path: Path) -> None:
    """Two moves, one cancelled; both commands, a destination, a source and a controller are killed."""
    data, scratch = tmp_path / "data", tmp_path / "plans"
    scratch.mkdir()
    cluster = start_cluster(len(moves_chaos.BROKERS), moves_chaos.CONFIG, directory=data)
    try:
        outcome = moves_chaos.run(cluster, moves=2, seed=143, scratch=scratch, say=log.info)
    finally:
        cluster.stop()
    processes.await_none(data)
    log.info("%s", outcome)
    assert outcome.kills["command"]
    assert sum(outcome.kills.values()) >= 3
