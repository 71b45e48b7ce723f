"""Dashboards of other exporters against our pages, through a real Prometheus: every query returns data."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster import QUICK_GROUPS, LocalCluster, start_cluster
from tests.dashboards import EXPORTER_DASHBOARDS, ExporterDashboard
from tests.interop.toolchains import MissingError, prometheus
from tests.patience import eventually, until
from tests.process import processes
from tests.process.load import create_topic

pytestmark = pytest.mark.process

TOPIC, GROUP, JOB, NAMESPACE = "orders", "readers", "kafka", "test"
PARTITIONS = 3
BEHIND = 5
EXPORTERS = ("kafka_exporter", "kminion", "kafka-lag-exporter")
CONFIG = {
    **QUICK_GROUPS,
    "metrics.compatible": ",".join(EXPORTERS),
    # Of kafka-lag-exporter: its polls are as far apart as this.
    "lag.refresh.interval.ms": "300",
}


class Prometheus:
    """A Prometheus that scrapes one broker's pages."""

    def __init__(self, program: str, directory: Path, targets: dict[str, int]) -> None:
        self.port = processes.free_port_range(1)
        jobs = [
            {
                "job_name": f"{JOB}-{exporter}",
                "metrics_path": f"/metrics/{exporter}",
                "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": NAMESPACE, "job": JOB}}],
            }
            for exporter, port in targets.items()
        ]
        # JSON is YAML, too.
        configuration = {"global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"}, "scrape_configs": jobs}
        (directory / "prometheus.yml").write_text(json.dumps(configuration))
        with (directory / "prometheus.log").open("wb") as output:
            self._process = subprocess.Popen(
                [
                    program,
                    f"--config.file={directory / 'prometheus.yml'}",
                    f"--storage.tsdb.path={directory / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def query(self, query: str) -> list[Any]:
        """Return the result of a query, empty also while Prometheus starts."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from None
        except OSError:
            return []
        found: list[Any] = answer["data"]["result"]
        return found

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(10)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, Prometheus]]:
    """Two brokers with a group that reads while records come, and a Prometheus that scrapes one of them."""
    try:
        program = prometheus()
    except MissingError as error:
        pytest.skip(f"prometheus: {error}")
    directory = tmp_path_factory.mktemp("scraped")
    cluster = start_cluster(2, CONFIG, directory=directory, restart=False)
    try:
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS, replicas=2)
        server = Prometheus(program, directory, dict.fromkeys(EXPORTERS, cluster.running.metrics_ports[1]))
        try:
            yield cluster, server
        finally:
            server.stop()
    finally:
        cluster.stop()
        processes.await_none(directory)


@pytest.fixture(scope="module")
def reading(scraped: tuple[LocalCluster, Prometheus]) -> Iterator[tuple[LocalCluster, Prometheus]]:
    """The same, once a member has read and committed, and more records have come."""
    cluster, server = scraped
    produce(cluster, 20)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        until(lambda: consumer.poll(0.1) is not None)
        until(consumer.assignment)
        for offset in (10, 20 - BEHIND):
            consumer.commit(
                offsets=[TopicPartition(TOPIC, number, offset) for number in range(PARTITIONS)], asynchronous=False
            )
            # Two points of it, so that a rate is one.
            seen = f'kafka_consumergroup_current_offset{{consumergroup="{GROUP}"}} == {offset}'
            eventually(lambda: server.query(seen), lambda found: len(found) == PARTITIONS)  # noqa: B023
        yield cluster, server
    finally:
        consumer.close()


def produce(cluster: LocalCluster, count: int) -> None:
    """Append so many records to each partition."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(count * PARTITIONS):
        producer.produce(TOPIC, b"record", partition=number % PARTITIONS)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("dashboard", EXPORTER_DASHBOARDS, ids=lambda dashboard: dashboard.exporter)
def test_every_query_of_a_dashboard_returns_data(
    reading: tuple[LocalCluster, Prometheus], dashboard: ExporterDashboard
) -> None:
    """Its variables replaced as Grafana replaces them."""
    cluster, server = reading
    port = cluster.running.metrics_ports[1]
    values = {
        "instance": f"127.0.0.1:{port}",
        "job": JOB,
        "topic": f"({TOPIC}|__consumer_offsets)",
        "namespace": NAMESPACE,
        "cluster_name": eventually(lambda: server.query("kafka_consumergroup_group_lag"), bool)[0]["metric"][
            "cluster_name"
        ],
        "group": GROUP,
    }

    def unanswered() -> list[str]:
        return [title for title, query in dashboard.queries.items() if not server.query(_filled(query, values))]

    assert eventually(unanswered, lambda titles: not titles) == []


def test_lag_is_the_same_by_all_names(reading: tuple[LocalCluster, Prometheus]) -> None:
    """What a panel shows is what was left unread."""
    _, server = reading
    for query in (
        f'sum(kafka_consumergroup_lag{{consumergroup="{GROUP}"}})',
        f'sum(kminion_kafka_consumer_group_topic_partition_lag{{group_id="{GROUP}"}})',
        f'kafka_consumergroup_group_sum_lag{{group="{GROUP}"}}',
    ):
        found = eventually(
            lambda: server.query(query),  # noqa: B023
            lambda found: [each["value"][1] for each in found] == [str(BEHIND * PARTITIONS)],
        )
        assert len(found) == 1, query


def _filled(query: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        query = query.replace(f"${name}", value)
    return query
