"""One end of a simulated connection, with the interface of an asyncio transport.

The bytes travel through two pipes (`pipe.py`), one per direction. Bytes in flight
that exceed the kernels' buffers count as this transport's write buffer, and the
protocol has to pause.

Invariants: `connection_made` comes first, `connection_lost` last and once;
nothing is delivered while reading is paused or before the protocol started.
"""

import asyncio
import contextvars
import errno
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol, cast

from syncline.virtual.network.links import Link, NetworkSettings
from syncline.virtual.network.pipe import Data, Pipe
from syncline.virtual.time.loop import VirtualLoop
from syncline.virtual.time.process import Process, current_process

HIGH_WATER_BYTES: Final = 64 << 10
RECEIVE_BYTES_MAX: Final = 256 << 10

Buffer = bytes | bytearray | memoryview


class Carrier(Protocol):
    """The network, as the ends of its connections need it."""

    loop: VirtualLoop
    settings: NetworkSettings

    def delivered(self, link: Link, connection: int, data: bytes) -> None:
        """Record bytes that reached a program."""

    def forget(self, transport: "VirtualTransport") -> None:
        """Drop an end that is closed."""


class VirtualSocket:
    """What `get_extra_info("socket")` returns: it accepts options and ignores them."""

    family = 2
    type = 1
    proto = 6

    def __init__(self, name: tuple[str, int], peer: tuple[str, int] | None) -> None:
        self._name = name
        self._peer = peer

    def fileno(self) -> int:
        """Return -1: there is no descriptor."""
        return -1

    def setsockopt(self, *_option: object) -> None:
        """Accept any option."""

    def getsockopt(self, *_option: object) -> int:
        """Return 0 for any option."""
        return 0

    def getsockname(self) -> tuple[str, int]:
        """Return the local address."""
        return self._name

    def getpeername(self) -> tuple[str, int]:
        """Return the other side's address."""
        if self._peer is None:
            raise OSError(errno.ENOTCONN, "not connected")
        return self._peer


def _read(data: Data) -> bytes:
    return data if isinstance(data, bytes) else data.read()


def connected_pair(
    network: Carrier, number: int, client_name: tuple[str, int], server_name: tuple[str, int], links: tuple[Link, Link]
) -> tuple["VirtualTransport", "VirtualTransport"]:
    """Return the two ends of a new connection: client, server."""
    there, back = links
    client = VirtualTransport(network, client_name, server_name)
    server = VirtualTransport(network, server_name, client_name)
    client.outgoing = Pipe(network.loop, network.settings, there, number, client, server)
    server.outgoing = Pipe(network.loop, network.settings, back, number, server, client)
    client.peer, server.peer = server, client
    return client, server


class VirtualTransport(asyncio.Transport):
    """One end of a connection, for asyncio's protocols and streams."""

    outgoing: Pipe
    peer: "VirtualTransport"

    def __init__(self, network: Carrier, name: tuple[str, int], peer_name: tuple[str, int]) -> None:
        self._known: dict[str, object] = {
            "peername": peer_name,
            "sockname": name,
            "socket": VirtualSocket(name, peer_name),
        }
        super().__init__(self._known)
        self._network = network
        self.host = name[0]
        self.peer_host = peer_name[0]
        self.process: Process | None = None
        self.context = contextvars.Context()
        self._protocol: asyncio.BaseProtocol | None = None
        self._received: deque[Data | None] = deque()  # None is the end of the stream
        self._is_reading = True
        self._is_delivering = False
        self._is_writing_paused = False
        self._end_is_sent = False
        self._is_closing = False
        self._is_lost = False
        self._high_bytes = HIGH_WATER_BYTES
        self._low_bytes = HIGH_WATER_BYTES // 4
        self.is_gone = False  # this end no longer exists: everything that arrives is answered with a reset
        self.is_silent = False  # gone with its host: nothing that arrives is answered

    def __repr__(self) -> str:
        return f"<VirtualTransport {self.outgoing.number} {self.host}>{self.peer_host}>"

    def send_files_with(self, sender: object) -> None:
        """Give the protocol something that sends files: `get_extra_info("file_sender")`."""
        self._known["file_sender"] = sender

    def adopt(self, context: contextvars.Context) -> None:
        """Assign this end to the process of `context`."""
        self.context = context
        self.process = context.get(current_process)

    def accept(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        """Start the server's side, in its process."""
        if not self.is_gone:
            self.start(factory())

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Give the connection its protocol; what has arrived is delivered after `connection_made`."""
        self._protocol = protocol
        protocol.connection_made(self)
        if self._received and self._protocol is not None:
            self._network.loop.call_soon(self._deliver, context=self.context)

    def arrived(self, item: list[Data] | None) -> None:
        """Receive what came out of the peer's pipe."""
        if self.is_gone:
            if not self.is_silent:
                self.outgoing.send_reset()
            return
        if item is None:
            self._received.append(None)
        else:
            self._received.extend(item)
        self._deliver()

    def reset_arrived(self) -> None:
        """Handle a reset: the connection no longer exists on the other side."""
        self._received.clear()
        self._lose(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def _deliver(self) -> None:
        if self._is_delivering:
            return
        self._is_delivering = True
        received = self._received
        try:
            while received and self._is_reading and not self._is_closing and self._protocol is not None:
                data = received.popleft()
                if data is None:
                    self._deliver_end()
                else:
                    found = _read(data)
                    while received and len(found) < RECEIVE_BYTES_MAX and (more := received[0]) is not None:
                        found += _read(more)
                        received.popleft()
                    self._deliver_bytes(found)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio's transports: a protocol that raises loses its connection
            self._network.loop.call_exception_handler(
                {"message": "a protocol raised while it received", "exception": error, "transport": self}
            )
            self._abort(error if isinstance(error, Exception) else None)
        finally:
            self._is_delivering = False

    def _deliver_bytes(self, data: bytes) -> None:
        pipe = self.peer.outgoing
        self._network.delivered(pipe.link, pipe.number, data)
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            rest = memoryview(data)
            while rest and self._is_reading and not self._is_closing:
                buffer = memoryview(protocol.get_buffer(len(rest)))
                size = min(len(buffer), len(rest))
                if size == 0:
                    raise RuntimeError("get_buffer() returned an empty buffer")
                buffer[:size] = rest[:size]
                buffer.release()
                rest = rest[size:]
                pipe.taken(size)
                protocol.buffer_updated(size)
            if rest:
                self._received.appendleft(bytes(rest))
        else:
            pipe.taken(len(data))
            cast("asyncio.Protocol", protocol).data_received(data)

    def _deliver_end(self) -> None:
        keep_open = cast("asyncio.Protocol", self._protocol).eof_received()
        if not keep_open:
            self.close()

    def is_reading(self) -> bool:
        """Return whether bytes are delivered."""
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        """Deliver nothing until `resume_reading`."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Deliver again."""
        if not self._is_reading:
            self._is_reading = True
            if self._received:
                self._network.loop.call_soon(self._deliver, context=self.context)

    def write(self, data: Buffer) -> None:
        """Send bytes; they are copied, so the buffer may be used again at once."""
        if self._is_closing or self._is_lost or not data:
            return
        if self._end_is_sent:
            raise RuntimeError("Cannot call write() after write_eof()")
        self.outgoing.send(bytes(data))
        if not self._is_writing_paused and self.get_write_buffer_size() > self._high_bytes:
            self._is_writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Send several buffers as one."""
        self.write(b"".join(list_of_data))

    def drained(self) -> None:
        """Check the bytes in flight again: the other side has read some."""
        if self._is_writing_paused and self.get_write_buffer_size() <= self._low_bytes:
            self._is_writing_paused = False
            self._network.loop.call_soon(self._resume_writing, context=self.context)

    def _resume_writing(self) -> None:
        if self._protocol is not None and not self._is_lost:
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the kernels have no room for."""
        return max(0, self.outgoing.in_flight_bytes - self._network.settings.window_bytes)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the low and the high mark."""
        return self._low_bytes, self._high_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the marks at which the protocol has to pause and may resume."""
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high_bytes, self._low_bytes = high, low

    def can_write_eof(self) -> bool:
        """Return True: one direction can be closed alone."""
        return True

    def write_eof(self) -> None:
        """Close the sending direction after what was written."""
        if not self._end_is_sent and not self._is_closing:
            self._end_is_sent = True
            self.outgoing.send_end()

    def is_closing(self) -> bool:
        """Return whether it is closed or will be."""
        return self._is_closing

    def close(self) -> None:
        """Close after what was written."""
        if self._is_closing:
            return
        self._is_closing = True
        if not self._end_is_sent:
            self._end_is_sent = True
            self.outgoing.send_end()
        self._network.loop.call_soon(self._lost, None, context=self.context)

    def abort(self) -> None:
        """Close at once; the other side sees a reset."""
        self._abort(None)

    def _abort(self, error: Exception | None) -> None:
        if not self.is_gone:
            self.outgoing.close()
            self.outgoing.send_reset()
        self._lose(error)

    def broke_later(self, error: OSError) -> None:
        """Lose the connection because the kernel gave up."""
        self._network.loop.call_soon(self._abort, error, context=self.context)

    def break_both(self, error: OSError) -> None:
        """Lose the connection on both sides at once."""
        for end in (self, self.peer):
            self._network.loop.call_soon(end._lose, error, context=end.context)  # noqa: SLF001 - another of its class

    def _lose(self, error: Exception | None) -> None:
        self._is_closing = True
        self.outgoing.close()
        if not self._is_lost:
            self._network.loop.call_soon(self._lost, error, context=self.context)

    def _lost(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._gone()
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

    def _gone(self) -> None:
        self.is_gone = True
        self._received.clear()
        self._network.forget(self)

    def process_died(self, *, is_silent: bool) -> None:
        """Close as the kernel does, or vanish with the host."""
        if self.is_gone:
            return
        has_unread = bool(self._received)
        self._is_closing = True
        if is_silent:
            self.is_silent = True
            self.outgoing.close()
        elif has_unread:
            self.outgoing.send_reset()
        else:
            self.outgoing.send_end()
        self._gone()
        self._protocol = None

    def peer_is_back(self) -> None:
        """Handle the return of the other host, which may have lost this connection."""
        if self.peer.is_silent:
            self.peer.is_silent = False
            self.outgoing.bounce_stalled()

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Change the protocol."""
        self._protocol = protocol
