"""The Unix domain socket that stands beside the TCP port of a broker for other brokers.

It has an abstract name (unix(7)), made from that port: there is no file to leave behind, a name lives as long as its
socket, and it exists in one network namespace only, as the port does. So a broker at the loopback address of a port is
the one that the name leads to. Abstract names are Linux's.

Anybody on the machine may take a name that is free, or connect to it. So a broker talks to a socket only if its own
user listens there, and otherwise over TCP; and it refuses connections of other users.
"""

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

HOST: Final = "127.0.0.1"
IS_POSSIBLE: Final = sys.platform == "linux"
# struct ucred: process, user, group.
_CREDENTIALS: Final = struct.Struct("3i")


def name_of(port: int) -> str:
    """Return the name of the socket that stands beside a port."""
    return f"\0syncline-broker-{port}"


def listen_beside(port: int, backlog: int) -> socket.socket | None:
    """Return a socket that listens beside a port; None where there are no such names.

    Raises OSError if the system refuses one, or the name is taken.
    """
    if not IS_POSSIBLE:
        return None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(name_of(port))
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def connect_beside(host: str, port: int) -> socket.socket | None:
    """Return a connection to the broker at a port of this machine; None if there is none but over TCP.

    It does not wait: the kernel connects Unix domain sockets at once, or refuses.
    """
    if not IS_POSSIBLE or host != HOST:
        return None
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        if error.errno in {errno.EMFILE, errno.ENFILE}:
            # TCP would fail for the same reason.
            raise
        return None
    connection.setblocking(False)
    try:
        connection.connect(name_of(port))
        if is_of_own_user(connection.fileno()):
            return connection
    except OSError:
        # Nobody listens, or too many wait already.
        pass
    connection.close()
    return None


@contextmanager
def socket_of(descriptor: int) -> Iterator[socket.socket]:
    """Give a socket's options: the event loop's own object for it may have none."""
    same = socket.socket(fileno=descriptor)
    try:
        yield same
    finally:
        same.detach()


def is_of_own_user(descriptor: int) -> bool:
    """Return whether this process's user has the other end of a Unix domain socket."""
    with socket_of(descriptor) as connection:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return int(user) == os.geteuid()
