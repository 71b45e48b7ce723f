"""What Prometheus reads from three brokers: against their state and their files, under load, and after a kill."""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from syncline.local.layout import Layout
from syncline.node.metrics.families import FAMILIES
from syncline.node.metrics.lag_table import GROUP_FAMILIES
from tests.cluster import LocalCluster, start_cluster
from tests.interop.toolchains import MissingError, promtool
from tests.patience import eventually, until
from tests.process import processes
from tests.process.load import Load, await_full_isr, create_topic, read_all

pytestmark = pytest.mark.process

TOPIC = "measured"
PARTITIONS = 6
CONFIG = {"replica.lag.time.max.ms": "1500", "broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "400"}
TRAFFIC = "kafka_server_brokertopicmetrics"
MANAGER = "kafka_server_replicamanager"
# They appear with the first thing that is counted or limited.
WITH_THE_FIRST = {
    "syncline_fault_hits_total",
    "syncline_event_loop_longest_hold_by_work_seconds",
    "syncline_event_loop_longest_own_hold_by_work_seconds",
    "syncline_throttle_limit_bytes_per_second",
    *(family.name for family in GROUP_FAMILIES),
    "syncline_topic_fetch_lag_bytes",
    "syncline_topic_fetch_event_lag_seconds",
    "syncline_client_fetch_lag_bytes",
    "syncline_client_fetch_event_lag_seconds",
}


class Page:
    """One scrape of one broker."""

    def __init__(self, port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            assert response.status == 200
            assert response.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
            self.text = response.read().decode()
        self.families = {family.name: family for family in text_string_to_metric_families(self.text)}

    def all_of(self, name: str, **labels: Any) -> dict[tuple[str, ...], float]:
        """Return the values of a name by the values of its labels, of those that have `labels`."""
        return {
            tuple(sample.labels.values()): sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and all(sample.labels.get(key) == str(value) for key, value in labels.items())
        }

    def value(self, name: str, **labels: Any) -> float:
        """Return the value of the one sample that has just these labels."""
        found = [value for key, value in self.all_of(name, **labels).items() if len(key) == len(labels)]
        assert len(found) == 1, f"{name}{labels}: {found}"
        return found[0]


def scrape(cluster: LocalCluster, *without: int) -> dict[int, Page]:
    """Return a page per broker, fresh: within a second a broker serves the same page again."""
    time.sleep(1.05)
    return {broker: Page(port) for broker, port in cluster.running.metrics_ports.items() if broker not in without}


def total(pages: dict[int, Page], name: str, **labels: Any) -> float:
    """Return the sum over all brokers of a sample."""
    return sum(page.value(name, **labels) for page in pages.values())


def partitions_of(cluster: LocalCluster, topic: str) -> dict[int, Any]:
    """Return the topic's partitions as clients see them."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    return dict(admin.list_topics(topic, timeout=10).topics[topic].partitions)


def log_files(cluster: LocalCluster, broker: int, partition: int) -> list[Path]:
    """Return the segments of a partition."""
    return sorted((cluster.directory / f"broker-{broker}" / f"{TOPIC}-{partition}").glob("*.log"))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers with a topic."""
    directory = tmp_path_factory.mktemp("measured")
    cluster = start_cluster(3, CONFIG, directory=directory, restart=False)
    try:
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS, config={"min.insync.replicas": "2"})
        yield cluster
    finally:
        cluster.stop()
        processes.await_none(directory)


def test_metrics_agree_with_the_cluster_under_load_and_after_a_kill(measured: LocalCluster) -> None:
    """Names, types and values: while records flow, when they are all there, and when a broker is gone."""
    with Load(measured.bootstrap, TOPIC, PARTITIONS, rate_per_s=3_000) as load:
        load.wait_for_more(2_000)
        early = scrape(measured)
        load.wait_for_more(2_000)
        late = scrape(measured)
        _check_names_and_types(late)
        _check_that_counters_rise(early, late)
        for pages in (early, late):
            assert total(pages, "kafka_controller_kafkacontroller_activecontrollercount") == 1
            assert total(pages, f"{MANAGER}_underreplicatedpartitions") == 0
    log_ends = {number: max(each.offsets.values()) + 1 for number, each in enumerate(load.acknowledged)}
    # Followers learn the last watermark with an answer that comes after the last acknowledgement.
    pages = eventually(lambda: scrape(measured), lambda seen: _have_everything(seen, log_ends))
    _check_logs_and_roles(measured, pages, log_ends)
    _check_traffic(measured, pages, sum(load.sent))
    victim = next(broker for broker, page in pages.items() if not _is_controller(page))
    measured.kill(victim)
    until(lambda: all(len(each.isrs) == 2 for each in partitions_of(measured, TOPIC).values()))
    _check_what_is_left(measured, scrape(measured, victim))


def _is_controller(page: Page) -> bool:
    return page.value("kafka_controller_kafkacontroller_activecontrollercount") == 1


def _check_names_and_types(pages: dict[int, Page]) -> None:
    """Every metric of the table is on every page, with its type; the parser writes counters without _total."""
    expected = {family.name.removesuffix("_total"): family.kind for family in FAMILIES}
    missing = {family.name.removesuffix("_total") for family in FAMILIES if family.name in WITH_THE_FIRST}
    for page in pages.values():
        there = {name: family.type for name, family in page.families.items() if name not in missing}
        assert {name: kind for name, kind in expected.items() if name not in missing} == there
        assert all(family.documentation.endswith(".") for family in page.families.values())


def _check_that_counters_rise(early: dict[int, Page], late: dict[int, Page]) -> None:
    rose = 0
    for broker, page in late.items():
        for family in page.families.values():
            if family.type != "counter":
                continue
            for sample in family.samples:
                before = early[broker].all_of(sample.name).get(tuple(sample.labels.values()))
                assert before is None or before <= sample.value, f"{sample} was {before}"
                rose += before is not None and before < sample.value
    assert rose > 20


def _have_everything(pages: dict[int, Page], log_ends: dict[int, int]) -> bool:
    """Return whether every replica has everything, and knows that it is committed."""
    name = "syncline_partition_high_watermark"
    return all(
        page.value(name, topic=TOPIC, partition=number) == log_end
        for page in pages.values()
        for number, log_end in log_ends.items()
    )


def _check_logs_and_roles(cluster: LocalCluster, pages: dict[int, Page], log_ends: dict[int, int]) -> None:
    described = partitions_of(cluster, TOPIC)
    for number, partition in described.items():
        labels = {"topic": TOPIC, "partition": number}
        for broker, page in pages.items():
            files = log_files(cluster, broker, number)
            leads = partition.leader == broker
            assert page.value("kafka_log_log_logendoffset", **labels) == log_ends[number]
            assert page.value("kafka_log_log_logstartoffset", **labels) == 0
            assert page.value("kafka_log_log_size", **labels) == sum(file.stat().st_size for file in files)
            assert page.value("kafka_log_log_numlogsegments", **labels) == len(files)
            assert page.value("kafka_cluster_partition_insyncreplicascount", **labels) == (3 if leads else 0)
            assert page.value("kafka_cluster_partition_replicascount", **labels) == (3 if leads else 0)
            assert page.value("syncline_partition_high_watermark", **labels) == log_ends[number]
            lags = page.all_of("syncline_follower_lag_records", **labels)
            assert list(lags.values()) == ([0, 0] if leads else [])
    assert total(pages, f"{MANAGER}_partitioncount") == 3 * (PARTITIONS + 1)  # and the journal's
    assert total(pages, f"{MANAGER}_leadercount") == PARTITIONS + 1
    assert total(pages, "kafka_controller_kafkacontroller_globalpartitioncount") == PARTITIONS + 1
    assert total(pages, "kafka_controller_kafkacontroller_activebrokercount") == 3


def _check_traffic(cluster: LocalCluster, pages: dict[int, Page], sent: int) -> None:
    stored_bytes = sum(file.stat().st_size for number in range(PARTITIONS) for file in log_files(cluster, 1, number))
    assert total(pages, f"{TRAFFIC}_messagesin_total", topic=TOPIC) == sent
    assert total(pages, f"{TRAFFIC}_bytesin_total", topic=TOPIC) == stored_bytes
    assert total(pages, f"{TRAFFIC}_failedproducerequests_total", topic=TOPIC) == 0
    # The journal's batches are replicated, too, and are on their way while this is read.
    all_in = total(pages, f"{TRAFFIC}_bytesin_total")
    assert total(pages, f"{TRAFFIC}_replicationbytesin_total") == pytest.approx(2 * all_in, rel=0.05)
    assert total(pages, f"{TRAFFIC}_replicationbytesout_total") == pytest.approx(2 * all_in, rel=0.05)
    before = total(pages, f"{TRAFFIC}_bytesout_total", topic=TOPIC)
    read_all(cluster.bootstrap, TOPIC, PARTITIONS)
    read = scrape(cluster)
    assert total(read, f"{TRAFFIC}_bytesout_total", topic=TOPIC) - before >= stored_bytes
    assert total(read, f"{TRAFFIC}_consumerfetchlagbytes_count") >= PARTITIONS


def _check_what_is_left(cluster: LocalCluster, pages: dict[int, Page]) -> None:
    """Two brokers lead everything, with one replica missing in each partition."""
    described = partitions_of(cluster, TOPIC)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    everything = [each for topic in admin.list_topics(timeout=10).topics.values() for each in topic.partitions.values()]
    assert {(len(each.replicas), len(each.isrs)) for each in everything} == {(3, 2)}
    assert total(pages, f"{MANAGER}_underreplicatedpartitions") == len(everything)
    assert total(pages, f"{MANAGER}_atminisrpartitioncount") == PARTITIONS
    assert total(pages, f"{MANAGER}_underminisrpartitioncount") == 0
    assert total(pages, f"{MANAGER}_leadercount") == len(everything)
    for number, partition in described.items():
        page = pages[partition.leader]
        labels = {"topic": TOPIC, "partition": number}
        assert page.value("kafka_cluster_partition_underreplicated", **labels) == 1
        assert page.value("kafka_cluster_partition_insyncreplicascount", **labels) == len(partition.isrs) == 2
    prefix = "kafka_controller_kafkacontroller"
    assert total(pages, f"{prefix}_activecontrollercount") == 1
    assert total(pages, f"{prefix}_fencedbrokercount") == 1
    assert total(pages, f"{prefix}_offlinepartitionscount") == 0
    assert total(pages, f"{prefix}_preferredreplicaimbalancecount") > 0


def test_promtool_finds_nothing_to_say(three_brokers: LocalCluster) -> None:
    """Prometheus's own linter accepts every line of brokers that have been used."""
    try:
        tool = promtool()
    except MissingError as error:
        pytest.skip(f"promtool: {error}")
    create_topic(three_brokers.bootstrap, "linted", 3)
    with Load(three_brokers.bootstrap, "linted", 3) as load:
        load.wait_for_more(300)
    await_full_isr(three_brokers.bootstrap, ["linted"])
    for page in scrape(three_brokers).values():
        checked = subprocess.run(
            [tool, "check", "metrics"], input=page.text, capture_output=True, text=True, timeout=30, check=False
        )
        assert (checked.returncode, checked.stdout.strip(), checked.stderr.strip()) == (0, "", "")


def exchange(port: int, data: bytes, *, hangs_up: bool = False) -> bytes:
    """Send bytes to a port and return all that comes back until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(data)
        if hangs_up:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := connection.recv(1 << 16):
            received += chunk
    return received


def test_endpoint_answers_whole_on_real_sockets(three_brokers: LocalCluster) -> None:
    """What tests on the simulated network show in detail holds on real sockets: answers are whole, errors arrive."""
    port = three_brokers.running.metrics_ports[1]
    last = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    head, _, body = exchange(port, last).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert exchange(port, b"GET /metrics HTTP/1.0\r\n\r\n", hangs_up=True).startswith(b"HTTP/1.1 200")
    assert exchange(port, b"HEAD /metrics HTTP/1.0\r\n\r\n").endswith(b"Connection: close\r\n\r\n")
    assert exchange(port, b"GET /metrics HTTP/1.1\r\nHost: b\r\n\r\n").startswith(b"HTTP/1.1 421 ")
    assert exchange(port, b"GET /wrong HTTP/1.1\r\nHost: b\r\n\r\n").startswith(b"HTTP/1.1 404")
    assert exchange(port, b"GET / HTTP/1.1\r\nHost: b\r\nX: " + b"x" * 200_000).startswith(b"HTTP/1.1 431")
    assert exchange(port, b"POST /metrics HTTP/1.1\r\nHost: b\r\n\r\n" + b"x" * 100_000).startswith(b"HTTP/1.1 405")
    assert exchange(port, b"\x16\x03\x01\x02\x00\x01\x00\n\n").startswith(b"HTTP/1.1 400")
    first = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert exchange(port, 50 * first + last).count(b"HTTP/1.1 200") == 51


def test_crowd_of_silent_clients_harms_nobody(three_brokers: LocalCluster) -> None:
    """Beyond the limit the endpoint refuses them; clients of the broker notice nothing; soon there is room again."""
    port = three_brokers.running.metrics_ports[2]
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)) for _ in range(100)
        ]
        # The last one is beyond the limit: when it has its answer, all are there.
        assert connections[-1].recv(12) == b"HTTP/1.1 503"
        create_topic(three_brokers.bootstrap, "unharmed", 3)
        answers = [b"HTTP/1.1 503"]
        for connection in connections[:-1]:
            connection.settimeout(20)
            answers.append(connection.recv(4_096)[:12])
    assert answers.count(b"HTTP/1.1 503") == 68
    assert answers.count(b"") == 32
    assert exchange(port, b"GET /metrics HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")


def status(directory: Path) -> Any:
    """Return what `syncline status --json` says."""
    command = [sys.executable, "-m", "syncline", "status", "--json", "--data", str(directory)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout)


def test_addresses_of_the_metrics_are_shown_and_stay(tmp_path: Path) -> None:
    """In cluster.json and `status`; a broker that comes back, and a cluster that does, have theirs where they were."""
    cluster = start_cluster(2, directory=tmp_path)
    try:
        ports = cluster.running.metrics_ports
        assert sorted(ports) == [1, 2]
        assert json.loads((tmp_path / "cluster.json").read_text())["metrics_ports"] == {"1": ports[1], "2": ports[2]}
        shown = {row["broker"]: row["metrics"] for row in status(tmp_path)["brokers"]}
        assert shown == {broker: f"http://127.0.0.1:{port}/metrics" for broker, port in ports.items()}
        pid = cluster.pids[1]
        cluster.kill(1)
        until(lambda: cluster.pids[1] != pid)
        assert cluster.running.metrics_ports == ports
        assert Page(ports[1]).value("syncline_broker_epoch") > 0
    finally:
        cluster.stop()
    again = start_cluster(2, directory=tmp_path)
    try:
        assert again.running.metrics_ports == ports
    finally:
        again.stop()
        processes.await_none(tmp_path)


def test_metrics_can_be_elsewhere_or_nowhere(tmp_path: Path) -> None:
    """`metrics.port` names the first broker's port, or -1 for none; brokers serve all the same."""
    first = processes.free_port_range(2)
    cluster = start_cluster(2, {"metrics.port": str(first)}, directory=tmp_path)
    try:
        assert cluster.running.metrics_ports == {1: first, 2: first + 1}
    finally:
        cluster.stop()
    cluster = start_cluster(2, {"metrics.port": "-1"}, directory=tmp_path)
    try:
        assert cluster.running.metrics_ports == {}
        assert [row["metrics"] for row in status(tmp_path)["brokers"]] == [None, None]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", first), timeout=5)
        assert Layout(tmp_path).remembered_metrics_ports() == {}
    finally:
        cluster.stop()
        processes.await_none(tmp_path)
