"""Brokers of one machine replicate over Unix domain sockets, from the start on and after restarts, or over TCP."""

import hashlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from syncline.node.unix_sockets.names import connect_beside, name_of
from tests.cli.terminal import ENVIRONMENT, command
from tests.cluster import LocalCluster, start_cluster
from tests.patience import until
from tests.process.load import QUIET, await_full_isr, create_topic
from tests.process.processes import free_port_range, stored_metadata

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="abstract names are Linux's"),
]

TOPIC = "t"
PARTITIONS = 3
# /proc/net/unix: the state of a connection that is made, SS_CONNECTED.
CONNECTED = "03"


def internal_ports(cluster: LocalCluster) -> dict[int, int]:
    """Return the port of each broker for the others."""
    return {broker_id: each.internal_port for broker_id, each in stored_metadata(cluster.directory).brokers.items()}


def connections_beside(port: int) -> int:
    """Return how many connections were made to the socket beside a port."""
    name = f"@{name_of(port)[1:]}"
    rows = (line.split() for line in Path("/proc/net/unix").read_text(encoding="ascii").splitlines()[1:])
    return sum(row[5] == CONNECTED and row[7:] == [name] for row in rows)


def is_beside(port: int) -> bool:
    """Return whether a socket listens beside a port."""
    connection = connect_beside("127.0.0.1", port)
    if connection is None:
        return False
    connection.close()
    return True


def is_closed_to(user: int, port: int) -> bool:
    """Return whether a broker ends a connection of this user to the socket beside its port, instead of waiting."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        own = os.geteuid()
        # The kernel notes the user who connects.
        os.seteuid(user)
        try:
            connection.connect(name_of(port))
        finally:
            os.seteuid(own)
        try:
            return connection.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False


def produce(cluster: LocalCluster, size_bytes: int, record_bytes: int) -> None:
    """Have all replicas acknowledge so many bytes, in large batches."""
    settings = {"acks": "all", "linger.ms": 5, "batch.size": 1_000_000}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **QUIET, **settings})
    for number in range(size_bytes // record_bytes):
        producer.produce(TOPIC, number.to_bytes(4) * (record_bytes // 4), partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(30) == 0


def digests(cluster: LocalCluster) -> list[set[tuple[int, bytes]]]:
    """Return, of each partition, the different logs that its replicas have: how long they are, and a digest."""
    found: list[set[tuple[int, bytes]]] = []
    for partition in range(PARTITIONS):
        found.append(set())
        for broker_id in (1, 2, 3):
            (path,) = (cluster.directory / f"broker-{broker_id}" / f"{TOPIC}-{partition}").glob("*.log")
            data = path.read_bytes()
            found[-1].add((len(data), hashlib.sha256(data).digest()))
    return found


def test_brokers_replicate_over_unix_domain_sockets_from_their_start_on_and_after_a_restart() -> None:
    """Each broker has connections of both others; the three logs of each partition are the same bytes."""
    cluster = start_cluster(3)
    try:
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
        produce(cluster, 40_000_000, 10_000)
        ports = internal_ports(cluster)
        assert all(connections_beside(port) >= 2 for port in ports.values())

        cluster.kill(2)
        until(lambda: not is_beside(ports[2]), 5, otherwise="a killed broker's name stays")
        until(lambda: internal_ports(cluster)[2] != ports[2], 20, otherwise="broker 2 has not come back")
        await_full_isr(cluster.bootstrap, [TOPIC])
        produce(cluster, 40_000_000, 10_000)
        # They lead everything now, and the broker that has come back fetches from both.
        assert all(connections_beside(ports[broker_id]) >= 2 for broker_id in (1, 3))
        until(lambda: [len(each) for each in digests(cluster)] == [1] * PARTITIONS, 10, otherwise="the replicas differ")
    finally:
        cluster.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user can be taken by root alone")
def test_connections_of_other_users_are_refused() -> None:
    """Rules for the loopback, such as a firewall's, do not hold for these sockets."""
    cluster = start_cluster(1)
    try:
        (port,) = internal_ports(cluster).values()
        assert is_closed_to(65_534, port)
        assert not is_closed_to(os.geteuid(), port)
    finally:
        cluster.stop()


def test_brokers_replicate_over_tcp_where_unix_domain_sockets_are_off() -> None:
    """`inter.broker.unix.socket.enable=false`: there is nothing beside the ports, and the logs are the same."""
    cluster = start_cluster(3, {"inter.broker.unix.socket.enable": "false"})
    try:
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
        produce(cluster, 10_000_000, 10_000)
        for port in internal_ports(cluster).values():
            assert connections_beside(port) == 0
            assert not is_beside(port)
        until(lambda: [len(each) for each in digests(cluster)] == [1] * PARTITIONS, 10, otherwise="the replicas differ")
    finally:
        cluster.stop()


def test_broker_whose_name_is_taken_says_so_once_and_serves(tmp_path: Path) -> None:
    """Guards: it replicated over TCP, which takes more of the processor, and no log said why."""
    port = free_port_range(1)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(name_of(port))
        at = ("--data", str(tmp_path), "--port", "0", "--internal-port", str(port))
        with subprocess.Popen(
            command("broker", "1", *at), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as broker:
            assert broker.stdout is not None
            assert "serves" in broker.stdout.readline()
            broker.terminate()
            _, lines = broker.communicate(timeout=20)

    (line,) = [each for each in lines.splitlines() if "Unix domain socket" in each]
    assert "WARNING broker-1" in line
    assert line.endswith(f"beside port {port}: its name is taken")
