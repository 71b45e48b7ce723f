"""Sending answers that lie partly in files.

One hard idea: over a Unix domain socket, `sendfile` gives the receiver the pages of the page cache themselves. So the
records that a leader has just appended reach its followers with one copy, the receiver's, instead of three: those of
`pread` and `send` are saved. (Over TCP's loopback it saves nothing: see docs/performance.md.)

What is sent here goes past the transport. So nothing may wait in the transport, and what the socket does not take at
once is read, and left to the transport, like any answer.

Until the receiver has read them, they are pages of the file, not copies. If the log is cut meanwhile and written anew,
it finds other records, or a mixture. So the answer says the leader epoch and a sum over the batches, and the follower
checks both (`records/unread.py`).
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final

from syncline.model.ids import NONE
from syncline.node.unix_sockets.names import socket_of
from syncline.records.buffers import Buffer, FileRange, Part

# How much the kernel takes of what the receiver has not read yet, unless net.core.wmem_max says less.
SEND_BUFFER_BYTES: Final = 4 << 20


def file_sender_of(transport: asyncio.Transport, descriptor: int) -> "FileSender | None":
    """Return what sends files over a connection, None if `unix_descriptor_of` says -1."""
    # A simulated connection brings its own.
    sender: FileSender | None = transport.get_extra_info("file_sender")
    if descriptor < 0:
        return sender
    with contextlib.suppress(OSError), socket_of(descriptor) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    return FileSender(transport, descriptor, os.write)


def unix_descriptor_of(transport: asyncio.Transport) -> int:
    """Return the descriptor of a connection over a Unix domain socket, -1 for others."""
    # The address of a TCP connection's other end has a host and a port. The look spares most connections an object.
    connection = None if isinstance(transport.get_extra_info("peername"), tuple) else transport.get_extra_info("socket")
    return connection.fileno() if connection is not None and connection.family == socket.AF_UNIX else NONE


class FileSender:
    """Sends over one connection."""

    __slots__ = ("_descriptor", "_transport", "_write")

    def __init__(self, transport: asyncio.Transport, descriptor: int, write: Callable[[int, memoryview], int]) -> None:
        """`write`: as `os.write`."""
        self._transport = transport
        self._descriptor = descriptor
        self._write = write

    def send(self, parts: Sequence[Part]) -> list[Buffer]:
        """Send parts as far as the socket takes them, if some lie in files; return what is left to the transport.

        EOFError or OSError if a file cannot be read.
        """
        transport = self._transport
        # A transport that is closing may have closed the descriptor already.
        if transport.is_closing() or transport.get_write_buffer_size() or not any(map(_is_in_file, parts)):
            return read_files(parts)
        for index, part in enumerate(parts):
            sent = self._send_part(part)
            if sent < len(part):
                rest = part.read(sent) if isinstance(part, FileRange) else memoryview(part)[sent:]
                return [rest, *read_files(parts[index + 1 :])]
        return []

    def _send_part(self, part: Part) -> int:
        """Send one part; return how much of it the socket took."""
        descriptor, size, sent = self._descriptor, len(part), 0
        try:
            while sent < size:
                if isinstance(part, FileRange):
                    count = part.send(descriptor, sent)
                else:
                    count = self._write(descriptor, memoryview(part)[sent:])
                if not count:
                    break
                sent += count
        except OSError:
            # The socket is full, or broken, which the transport finds, or the file cannot be read, as reading it says.
            pass
        return sent


def _is_in_file(part: Part) -> bool:
    return isinstance(part, FileRange)


def read_files(parts: Sequence[Part]) -> list[Buffer]:
    """Return parts with all that lies in files read; EOFError or OSError if that fails."""
    return [part.read() if isinstance(part, FileRange) else part for part in parts]
