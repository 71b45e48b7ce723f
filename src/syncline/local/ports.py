"""Listening sockets of a local cluster, bound before any broker starts.

A client that connects while its broker is still starting waits in the backlog
instead of being refused, and a port that is in use is found before any broker
starts. All sockets listen only on 127.0.0.1.
"""

import errno
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from syncline.local.layout import LocalClusterError
from syncline.node.unix_sockets.names import listen_beside

if TYPE_CHECKING:
    from syncline.model.broker_config import BrokerConfig

HOST = "127.0.0.1"
# Where the configuration of the brokers is not known.
BACKLOG = 1024
PORT_MAX = 65_535
METRICS_OPTION = "--config metrics.port"


def listen(port: int, option: str = "--port", *, backlog: int = BACKLOG) -> socket.socket:
    """Return a socket that listens on `port` (0: a free one); `LocalClusterError` names a port that is in use.

    `backlog` is how many connections it keeps until the broker serves: socket.listen.backlog.size.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        reason = "is already in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise LocalClusterError(f"port {port} {reason}. Choose another with {option}, or 0 for a free one.") from None
    listener.setblocking(False)
    return listener


class BetweenBrokers(NamedTuple):
    """Where a broker listens for the others: on a port, and on a Unix domain socket where there can be one."""

    tcp: socket.socket
    beside: socket.socket | None
    # Why there is none, if there should be one.
    trouble: str = ""

    @property
    def port(self) -> int:
        """The port."""
        return port_of(self.tcp)

    def close(self) -> None:
        """Close both. The name goes first: what listens at the port next takes it again."""
        if self.beside is not None:
            self.beside.close()
        self.tcp.close()


def listen_between(port: int, config: "BrokerConfig") -> BetweenBrokers:
    """Return the listeners of a broker for the others; `LocalClusterError` names a port that is in use."""
    backlog = config.socket_listen_backlog_size
    tcp = listen(port, "--internal-port", backlog=backlog)
    if not config.inter_broker_unix_socket_enable:
        return BetweenBrokers(tcp, None)
    try:
        return BetweenBrokers(tcp, listen_beside(port_of(tcp), backlog))
    except OSError as error:
        reason = "its name is taken" if error.errno == errno.EADDRINUSE else str(error.strerror)
        return BetweenBrokers(tcp, None, reason)


def listen_all(
    broker_ids: list[int], ports: Sequence[int], remembered: dict[int, int], *, backlog: int = BACKLOG
) -> dict[int, socket.socket]:
    """Return a client listener per broker: on `ports`, on those of last time, or from 9092 on.

    One port is the first broker's, and those after it are the others'; more are one for each broker. Port 0 asks for a
    free one. Without ports, a free port replaces a remembered or default one that is in use.
    """
    asked = _ports_asked(len(broker_ids), ports)
    listeners: dict[int, socket.socket] = {}
    try:
        for index, broker_id in enumerate(broker_ids):
            if asked:
                listeners[broker_id] = listen(asked[index], backlog=backlog)
                continue
            try:
                listeners[broker_id] = listen(remembered.get(broker_id, 9092 + index), backlog=backlog)
            except LocalClusterError:
                listeners[broker_id] = listen(0, backlog=backlog)
    except LocalClusterError:
        for listener in listeners.values():
            listener.close()
        raise
    return listeners


def _ports_asked(brokers: int, ports: Sequence[int]) -> list[int]:
    if len(ports) > 1:
        if len(ports) != brokers:
            raise LocalClusterError(
                f"--port names {len(ports)} ports for {brokers} brokers. Name one for each broker, or only the first."
            )
        return list(ports)
    if not ports or not ports[0]:
        return [0] * brokers if ports else []
    last = ports[0] + brokers - 1
    if last > PORT_MAX:
        raise LocalClusterError(
            f"{brokers} brokers need ports {ports[0]} to {last}, but ports end at {PORT_MAX}. "
            "Choose a lower one with --port."
        )
    return list(range(ports[0], last + 1))


def listen_for_metrics(broker_ids: list[int], port: int, remembered: dict[int, int]) -> dict[int, socket.socket]:
    """Return a listener for the metrics of each broker, none if `port` is -1.

    Port 0 takes the ports of the last run if they are free, and otherwise any free ones. Any other `port` is that of
    the first broker; the ports of the others follow it.
    """
    listeners: dict[int, socket.socket] = {}
    if port < 0:
        return listeners
    last = port + len(broker_ids) - 1
    if last > PORT_MAX:
        raise LocalClusterError(
            f"the metrics of {len(broker_ids)} brokers need ports {port} to {last}, but ports end at {PORT_MAX}. "
            "Choose a lower metrics.port."
        )
    try:
        for index, broker_id in enumerate(broker_ids):
            try:
                asked = port + index if port else remembered.get(broker_id, 0)
                listeners[broker_id] = listen(asked, METRICS_OPTION)
            except LocalClusterError:
                if port:
                    raise
                listeners[broker_id] = listen(0, METRICS_OPTION)
    except LocalClusterError:
        for listener in listeners.values():
            listener.close()
        raise
    return listeners


def close_all(*listeners: Mapping[int, socket.socket] | Mapping[int, BetweenBrokers], but: int = 0) -> None:
    """Close the listeners of all brokers, but for those of one."""
    for some in listeners:
        for broker_id, listener in some.items():
            if broker_id != but:
                listener.close()


def port_of(listener: socket.socket) -> int:
    """Return the port that a listener is bound to."""
    port: int = listener.getsockname()[1]
    return port
