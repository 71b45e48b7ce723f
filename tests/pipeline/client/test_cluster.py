"""A cluster that cannot be read says which address failed, why, and what to check."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster, Whereabouts
from syncline.pipeline.client.settings import ClientSettings
from syncline.pipeline.errors import BrokerError, OptionError, TopicGoneError


@pytest.fixture
def stranger() -> Iterator[tuple[str, int]]:
    """A server that is no Kafka broker: it answers everything with HTTP."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_client_names_the_address_when_the_server_does_not_speak_kafka(stranger: tuple[str, int]) -> None:
    """The message holds the address, the reason and what to check."""
    settings = ClientSettings((stranger,), patience_ms=1)

    asks_what_is_there = pytest.raises(BrokerError, match=r"is this the port of a broker.*check that")
    with Cluster(settings) as cluster, asks_what_is_there:
        cluster.describe(None)


def test_client_refuses_what_is_no_host_name() -> None:
    """Neither a traceback about encodings nor two minutes of attempts."""
    with (
        Cluster(ClientSettings((("kafka..example", 9092),))) as cluster,
        pytest.raises(
            OptionError, match=r"kafka\.\.example is not a host name: correct the option kafka.bootstrap.servers"
        ),
    ):
        cluster.partitions(())


def test_client_names_the_address_when_the_connection_is_refused() -> None:
    """The error says that the connection was refused."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
    settings = ClientSettings((address,), patience_ms=1)

    with Cluster(settings) as cluster, pytest.raises(BrokerError, match=f"127.0.0.1:{address[1]}.*refused"):
        cluster.fetch(TopicPartition("flights", 0), 0)


@pytest.mark.parametrize("kind", ["refused", "silent", "unknown name"])
def test_client_gives_up_soon_on_a_bootstrap_that_never_answered(kind: str) -> None:
    """Guards: a wrong bootstrap fails in 10 s with the address in the sentence; here within its option, scaled down."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname() if kind != "unknown name" else ("no-such-host.invalid", 9092)
        if kind == "refused":
            taken.close()
        settings = ClientSettings((address,), patience_ms=120_000, bootstrap_timeout_ms=800)
        began = time.monotonic()

        with Cluster(settings) as cluster, pytest.raises(BrokerError, match=f"{address[0]}:{address[1]} within 800 ms"):
            cluster.describe(["flights"])

    assert time.monotonic() - began < 5


@pytest.mark.process
def test_client_reaches_the_cluster_by_the_brokers_it_was_told(bootstrap: str) -> None:
    """Guards: tasks know the configured bootstrap list only. Its broker may be gone when a task starts."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = taken.getsockname()
    live = tuple((host, int(port)) for host, port in (one.split(":") for one in bootstrap.split(",")))

    told = Whereabouts(dict(enumerate(live)), {})
    with Cluster.known(ClientSettings((gone,), patience_ms=5_000), told) as cluster:
        assert cluster.describe(None) is not None
        assert set(live) <= set(cluster.whereabouts([]).brokers.values())


@pytest.mark.process
def test_client_asks_without_ids_where_a_broker_hangs_up_on_them(broker, bootstrap: str) -> None:
    """Brokers close the connection on a version that they do not serve; ids are then unknown, and reading goes on."""
    topic = broker.topic(partitions=2)
    host, port = bootstrap.split(",", maxsplit=1)[0].split(":")
    with _older_broker((host, int(port))) as address, Cluster(ClientSettings((address,))) as cluster:
        found = cluster.describe([topic])[topic]

        assert sorted(found.leaders) == [0, 1]
        assert found.id == ""
    with Cluster(ClientSettings(((host, int(port)),))) as cluster:
        assert len(cluster.describe([topic])[topic].id) == 22


@pytest.mark.process
def test_client_notices_that_a_topic_is_another_than_expected(
    broker, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name the fetch succeeds; the id says that it is another topic, even before anything is out of range."""
    monkeypatch.setattr("syncline.pipeline.client.retrying._LATE_METADATA_MS_MAX", 200)
    topic = broker.topic()
    broker.produce(topic, [(0, None, b"old", 1, ())])
    addresses = tuple((host, int(port)) for host, port in (one.split(":") for one in bootstrap.split(",")))
    place = TopicPartition(topic, 0)
    with Cluster(ClientSettings(addresses)) as cluster:
        ids = {topic: cluster.describe([topic])[topic].id}
    with Cluster(ClientSettings(addresses), ids) as cluster:
        cluster.fetch(place, 0)
        cluster.confirm([place])
        broker.recreate(topic)
        broker.produce(topic, [(0, None, b"new", 1, ())])

        with pytest.raises(TopicGoneError, match=f"topic {topic} was deleted and created again"):
            cluster.confirm([place])
    with Cluster(ClientSettings(addresses), ids) as cluster, pytest.raises(TopicGoneError, match="created again"):
        cluster.fetch(place, 0)


@contextlib.contextmanager
def _older_broker(upstream: tuple[str, int]) -> Iterator[tuple[str, int]]:
    """A real broker behind a door that hangs up on Metadata above 9, and says so in ApiVersions."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pass_on(client: socket.socket) -> None:
        with client, socket.create_connection(upstream) as real:
            while len(size := client.recv(4, socket.MSG_WAITALL)) == 4:
                body = client.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
                key, version, number = struct.unpack_from(">hhi", body)
                if (key, version) == (18, 0):
                    client.sendall(struct.pack(">iihihhh", 16, number, 0, 1, 3, 0, 9))
                    continue
                if key == 3 and version > 9:
                    return
                real.sendall(size + body)
                size = real.recv(4, socket.MSG_WAITALL)
                client.sendall(size + real.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                pass_on(listener.accept()[0])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()
