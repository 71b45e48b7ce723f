"""Sending answers that lie partly in files.

One hard idea: over a Unix domain socket, `sendfile` gives the receiver the pages of the page cache themselves. So the
records that a leader has just appended reach its followers with one copy, the receiver's, instead of three: those of
`pread` and `send` are saved. (Over TCP's loopback it saves nothing: see docs/performance.md.)

What is sent here goes past the transport. So nothing may wait in the transport, and what the socket does not take at
once is read, and left to the transport, like any answer.

Until the receiver has read them, they are pages of the file, not copies. If the log is cut meanwhile and written anew,
it finds other records. So the answer says of which leader epoch all of them are (`FetchedPartition.records_epoch`), and
the follower checks it: the same epoch at the same offset is the same record.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from typing import Final

from syncline.records.buffers import Buffer, FileRange, Part

# How much the kernel takes of what the receiver has not read yet, unless net.core.wmem_max says less.
SEND_BUFFER_BYTES: Final = 4 << 20


def file_sender_of(transport: asyncio.Transport) -> "FileSender | None":
    """Return what sends files over a connection, None if it is none over a Unix domain socket."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    descriptor = connection.fileno()
    # The event loop's object for a socket may have no options.
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    return FileSender(transport, descriptor)


class FileSender:
    """Sends over one connection."""

    __slots__ = ("_descriptor", "_transport")

    def __init__(self, transport: asyncio.Transport, descriptor: int) -> None:
        self._transport = transport
        self._descriptor = descriptor

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
                    count = os.write(descriptor, memoryview(part)[sent:])
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
