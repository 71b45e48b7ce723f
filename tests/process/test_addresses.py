"""Where brokers listen, and by which address they are found."""

import ipaddress

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from tests.cluster import LocalCluster

pytestmark = pytest.mark.process


def test_brokers_listen_at_and_advertise_the_same_ipv4_address(three_brokers: LocalCluster) -> None:
    """Never 0.0.0.0, which is no destination, and no name that may resolve to ::1, where no broker listens."""
    listening = {
        (connection.laddr.ip, connection.laddr.port)
        for pid in three_brokers.pids.values()
        for connection in psutil.Process(pid).net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }

    brokers = AdminClient({"bootstrap.servers": three_brokers.bootstrap}).list_topics(timeout=10).brokers

    assert {ip for ip, _ in listening} == {"127.0.0.1"}
    assert all(ipaddress.IPv4Address(broker.host).is_loopback for broker in brokers.values())
    assert {(broker.host, broker.port) for broker in brokers.values()} <= listening
