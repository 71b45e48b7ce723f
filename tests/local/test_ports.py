"""Ports of a local cluster: asked for, remembered, or free."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from syncline.local.layout import LocalClusterError
from syncline.local.ports import listen, listen_all, listen_for_metrics, port_of
from tests.process.processes import backlog_of, free_port_range


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which another process listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def ports_of(port: int | None, remembered: dict[int, int], brokers: int = 2) -> list[int]:
    """Return the ports that brokers get when the first one's is asked for."""
    return listed_ports_of(() if port is None else (port,), remembered, brokers)


def listed_ports_of(ports: tuple[int, ...], remembered: dict[int, int], brokers: int = 2) -> list[int]:
    """Return the ports that brokers get."""
    listeners = listen_all(list(range(1, brokers + 1)), ports, remembered)
    with contextlib.ExitStack() as stack:
        return [port_of(stack.enter_context(each)) for each in listeners.values()]


def test_taken_port_is_named_with_the_option_that_changes_it(taken: int) -> None:
    """Client and internal ports have an option each."""
    with pytest.raises(LocalClusterError, match=rf"port {taken} is already in use. Choose another with --port"):
        ports_of(taken, {})
    with pytest.raises(LocalClusterError, match=r"another with --internal-port"):
        listen(taken, "--internal-port")


def test_listeners_keep_as_many_connections_as_configured() -> None:
    """Also before their brokers serve."""
    listeners = [
        listen(0, backlog=77),
        *listen_all([1], (0,), {}, backlog=77).values(),
        *listen_all([1], (), {}, backlog=77).values(),
    ]
    with contextlib.ExitStack() as stack:
        assert {backlog_of(stack.enter_context(each)) for each in listeners} == {77}


def test_taken_second_port_gives_the_first_back() -> None:
    """A refused start leaves no socket behind."""
    first = free_port_range(2)
    with socket.create_server(("127.0.0.1", first + 1)):
        with pytest.raises(LocalClusterError, match=f"port {first + 1} "):
            ports_of(first, {})
        listen(first).close()


def test_remembered_port_that_is_taken_gives_way(taken: int) -> None:
    """A cluster comes back where its clients look for it, as far as it can."""
    free = ports_of(0, {}, 1)[0]
    first, second = ports_of(None, {1: free, 2: taken})
    assert first == free
    assert second not in (taken, 0)


def test_ports_beyond_the_last_one_are_refused() -> None:
    """Three brokers from 65534 on would need a port that does not exist."""
    with pytest.raises(LocalClusterError, match=r"3 brokers need ports 65534 to 65536, but ports end at 65535"):
        ports_of(65_534, {}, 3)


def test_each_broker_gets_the_port_that_is_listed_for_it() -> None:
    """The ports need not follow each other, and 0 stands for a free one."""
    first = free_port_range(2)
    assert listed_ports_of((first + 1, first), {1: 1, 2: 2}) == [first + 1, first]
    assert listed_ports_of((first, 0), {})[1] not in (0, first)


def test_list_of_ports_is_as_long_as_there_are_brokers() -> None:
    """Neither is a port left over nor a broker without one."""
    with pytest.raises(LocalClusterError, match=r"--port names 2 ports for 3 brokers. Name one for each broker"):
        listed_ports_of((9092, 9093), {}, 3)


def metrics_ports_of(port: int, remembered: dict[int, int], brokers: int = 2) -> list[int]:
    """Return the ports that the metrics of brokers get."""
    listeners = listen_for_metrics(list(range(1, brokers + 1)), port, remembered)
    with contextlib.ExitStack() as stack:
        return [port_of(stack.enter_context(each)) for each in listeners.values()]


def test_metrics_are_at_free_ports_or_where_they_were(taken: int) -> None:
    """Metrics move when another process has taken their port: they keep no cluster from starting."""
    free = metrics_ports_of(0, {}, 1)[0]
    first, second = metrics_ports_of(0, {1: free, 2: taken})
    assert first == free
    assert second not in (taken, 0)


def test_metrics_are_at_the_port_asked_for_and_those_behind_it() -> None:
    """A port that was asked for goes before remembered ones, as with client ports."""
    first = free_port_range(2)
    assert metrics_ports_of(first, {1: 1, 2: 2}) == [first, first + 1]


def test_metrics_can_be_nowhere() -> None:
    """-1 takes no port."""
    assert metrics_ports_of(-1, {1: 9404}) == []


def test_taken_port_for_metrics_is_named_with_its_configuration(taken: int) -> None:
    """A port that was asked for by number is refused when it is taken, and not exchanged for another."""
    with pytest.raises(LocalClusterError, match=rf"port {taken} is already in use.*--config metrics.port"):
        metrics_ports_of(taken, {})
    with pytest.raises(LocalClusterError, match=r"3 brokers need ports 65534 to 65536.*lower metrics.port"):
        metrics_ports_of(65_534, {}, 3)
