"""What `--max-client-impact` measures clients with, on real brokers."""

import math
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from syncline.cli.reassign.client_probe import PER_S, TOPIC_PREFIX, Probe
from syncline.local.layout import LocalClusterError
from tests.cli.terminal import ENVIRONMENT
from tests.cluster import LocalCluster
from tests.patience import until

pytestmark = pytest.mark.process


def of_probes(admin: AdminClient) -> dict[str, Any]:
    """Return the topics of probes by name."""
    topics = admin.list_topics(timeout=5).topics
    return {name: topic for name, topic in topics.items() if name.startswith(TOPIC_PREFIX)}


def test_probe_measures_at_its_rate_and_removes_its_topic(three_brokers: LocalCluster, admin: AdminClient) -> None:
    """Each record is answered within a second, none is counted twice, and at last the topic is gone."""
    with Probe(three_brokers.bootstrap, 3) as probe:
        (topic,) = of_probes(admin).values()
        partitions = topic.partitions
        waits_ms: list[float] = []
        took_s = until(lambda: waits_ms.extend(probe.waits_ms()) or len(waits_ms) >= PER_S)
        rest_ms = probe.waits_ms()

    assert 0.5 < took_s < 5
    assert all(0 < wait < 1000 for wait in waits_ms)
    assert len(rest_ms) < PER_S
    assert sorted(partitions[number].leader for number in partitions) == [1, 2, 3]
    until(lambda: not of_probes(admin))


def test_topic_of_a_killed_command_is_removed(three_brokers: LocalCluster, admin: AdminClient) -> None:
    """Its probe notices that nobody asks any more; that of another command goes on."""
    first = subprocess.Popen(
        [sys.executable, "-m", "syncline.cli.reassign.client_probe", three_brokers.bootstrap, "3"],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert first.stdin is not None
    assert first.stdout is not None
    assert first.stdout.readline() == "[]\n"
    with Probe(three_brokers.bootstrap, 3) as probe:
        assert len(of_probes(admin)) == 2
        # As after SIGKILL: both pipes are closed, whatever was asked.
        first.stdin.write("more\n")
        first.stdout.close()
        first.stdin.close()
        assert first.wait(20) == 0
        assert first.stderr is not None
        assert first.stderr.read() == ""
        first.stderr.close()
        until(lambda: len(of_probes(admin)) == 1)
        probe.waits_ms()
        waits_ms: list[float] = []
        until(lambda: waits_ms.extend(probe.waits_ms()) or len(waits_ms) >= 50)

        assert math.inf not in waits_ms
    until(lambda: not of_probes(admin))


def test_probe_of_a_cluster_that_is_down_says_so() -> None:
    """In the words of any command."""
    with pytest.raises(LocalClusterError, match=r"no broker answers at 127\.0\.0\.1:1"):
        Probe("127.0.0.1:1", 3)
