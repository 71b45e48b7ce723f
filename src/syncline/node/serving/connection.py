"""One connection of a client or of another broker: frames in, answers out, in order.

Large answers are not copied: the buffers that a handler passes on belong to
the transport from then on. Memory is bounded per connection: this broker does
not read from a peer that does not read its answers, nor from a producer with
much unacknowledged data, nor from a client with many answers queued behind a
parked request, until half of it is acknowledged or sent. What all connections
hold together is bounded by `node/clients/memory.py`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, cast

from syncline.node.clients.clients import Clients
from syncline.node.clients.idle import Activity
from syncline.node.clients.memory import Holding
from syncline.node.clients.places import reset
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.serving.outgoing import TOGETHER_BYTES_MAX, Outgoing
from syncline.node.serving.received import Received
from syncline.node.serving.request import NOTHING, Request, Steps
from syncline.node.unix_sockets.names import is_of_own_user
from syncline.node.unix_sockets.sending import FileSender, file_sender_of, unix_descriptor_of
from syncline.records.buffers import Buffer, Part
from syncline.wire.api import is_too_large, response_header_version
from syncline.wire.errors import DecodeError
from syncline.wire.frames import JOIN_BYTES_MAX, FrameParser, frame_response
from syncline.wire.request_header import parse_request_header
from syncline.wire.response_header import BEAT_FRAME

log = logging.getLogger("syncline.node")

UNACKNOWLEDGED_BYTES_MAX: Final = 16 << 20
# Unanswered requests of one connection, at which it is not read until some are answered.
PENDING_REQUESTS_MAX: Final = 4096


class Woken(Protocol):
    """The parked requests that a callback has made answerable."""

    # Whether the current callback ends with `Serves.callback_ended`.
    will_settle: bool


class Serves(Protocol):
    """What serves the requests of connections."""

    @property
    def woken(self) -> Woken:
        """Return the parked requests that a callback has made answerable."""

    @property
    def outgoing(self) -> Outgoing:
        """Return the connections that have answers to write when the current callback ends."""

    @property
    def connections(self) -> dict["Connection", None]:
        """Return the open connections, in the order in which they were made."""

    @property
    def clients(self) -> Clients:
        """Return what the connections share."""

    @property
    def take_up(self) -> Callable[[Request], None]:
        """Return what each request goes to."""

    def step(self, request: Request, steps: Steps, /) -> None:
        """Work on a request in steps, now and between other work."""

    @property
    def holds(self) -> LoopHolds:
        """Return what counts how long callbacks take."""

    @property
    def received(self) -> Received:
        """Return where connections wait that have read more requests than they may handle at once."""

    def callback_ended(self, began_ms: int, /) -> int:
        """Answer the parked requests that the requests of this callback have made answerable; count its duration.

        Returns the duration in ms.
        """

    def connection_lost(self, connection: "Connection", /) -> None:
        """Forget a connection."""


class Connection(asyncio.BufferedProtocol):
    """The server side of one connection."""

    __slots__ = (
        "_dispatcher",
        "_frames",
        "_is_out_of_time",
        "_is_reading",
        "_is_writable",
        "_out_of_turn",
        "_outgoing",
        "_pending",
        "_reads",
        "_transport",
        "_unwritten",
        "_unwritten_bytes",
        "_waits_for",
        "client_host",
        "client_id",
        "files",
        "has_place",
        "holding",
        "last_read",
        "listener",
    )

    def __init__(self, dispatcher: Serves, listener: str, request_bytes_max: int) -> None:
        self._dispatcher = dispatcher
        self.listener = listener
        clients = dispatcher.clients
        self.holding: Holding = clients.memory_of(listener).open(self)
        self._frames = FrameParser(
            request_bytes_max, clients.scratch, admit=clients.admission(listener), count=self.holding.receive
        )
        self.holding.free_unused = self._frames.release
        self._transport: asyncio.Transport | None = None
        # Sends what lies in files; only over a Unix domain socket.
        self.files: FileSender | None = None
        self._pending: deque[Request] = deque()
        # Whole answers that are written when the current callback ends.
        self._outgoing = dispatcher.outgoing
        self._unwritten: list[Part] = []
        self._unwritten_bytes = 0
        self._is_reading = True
        self._is_writable = True
        # Unanswered requests that are served in steps: later ones are not handled before all of these are answered.
        # An earlier one may join them, which was parked when the first was received.
        self._waits_for: dict[Request, None] = {}
        # Unanswered requests of another broker that are answered as soon as they can be, whatever came before.
        self._out_of_turn: dict[Request, None] = {}
        # Whether the received requests took so long that the others wait for the next turn of the loop.
        self._is_out_of_time = False
        self.client_host = "/127.0.0.1"
        # Numbers of the reads of this broker: the connection with the lowest is silent for longest.
        self._reads = clients.reads
        self.last_read = 0
        # Whether the broker has a place for this connection (`max.connections`); without one it is not read.
        self.has_place = False
        # Client id of the last request; brokers identify themselves by it.
        self.client_id: str | None = None

    @property
    def transport(self) -> asyncio.Transport | None:
        """The transport, None when the connection is closed or closing."""
        return self._transport

    @property
    def is_reading(self) -> bool:
        """Whether requests are read from this connection; False while too many of its bytes or requests wait."""
        return self._is_reading

    @property
    def activity(self) -> Activity | None:
        """Return what changes if bytes move; None while a request waits for its answer, or while nothing is read."""
        transport = self._transport
        if transport is None or self._pending or self.holding.is_held_back or not self.has_place:
            return None
        return Activity(self.last_read, 0 if self._is_writable else transport.get_write_buffer_size())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of a new connection."""
        # uvloop's transports have the interface, not the base class.
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.client_host = f"/{peer[0]}"
        descriptor = unix_descriptor_of(self._transport)
        is_foreign = descriptor >= 0 and not is_of_own_user(descriptor)
        if is_foreign:
            log.warning("refusing another user's connection to this broker's Unix domain socket")
        else:
            self.files = file_sender_of(self._transport, descriptor)
        clients = self._dispatcher.clients
        self.last_read = next(self._reads)
        self._dispatcher.connections[self] = None
        if is_foreign or not clients.places.arrived(self):
            del self._dispatcher.connections[self]
            self._transport = None
            reset(cast("asyncio.Transport", transport))
        elif not self.has_place:
            # Later, because transports begin to read after this call.
            asyncio.get_running_loop().call_soon(self.update_reading)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._frames.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Handle every complete frame received so far."""
        self.last_read = next(self._reads)
        if self._frames.buffer_updated(nbytes):
            self._handle_frames()

    def go_on(self, limit_ms: int) -> None:
        """Handle received requests for so long; if there are more then, wait in line."""
        self._is_out_of_time = False
        self.update_reading()
        self._handle_frames(limit_ms)

    def _handle_frames(self, quantum_ms: int | None = None) -> None:
        """Handle received requests for so long; None: as a callback, for what is left of this turn's slice.

        Most reads bring one request. Then there is no limit to ask for, and the clock is read twice.
        """
        dispatcher, limit_ms = self._dispatcher, quantum_ms
        holds, look_ms = dispatcher.holds, dispatcher.holds.look_ms
        # Within a turn, it is the turn that begins and ends.
        began_ms = holds.now_ms() if quantum_ms is None else look_ms()
        count = 0
        self._outgoing.collects = True
        if quantum_ms is None:
            dispatcher.woken.will_settle = True
        try:
            # A paused connection also leaves received frames unhandled: one read may hold thousands of requests.
            while self._is_reading and self._transport is not None and (frame := self._frames.next_frame()) is not None:
                self._handle(frame)
                count += 1
                if count == 1:
                    continue
                if limit_ms is None:
                    limit_ms = dispatcher.received.limit_ms(self.listener)
                if look_ms() - began_ms >= limit_ms:
                    self._is_out_of_time = True
                    self.update_reading()
                    dispatcher.received.wait(self)
                    break
            if self._waits_for:
                self._frames.lend()
            else:
                self._frames.keep()
        except DecodeError as error:
            self.close(f"malformed frame: {error}")
        finally:
            if quantum_ms is not None:
                self._outgoing.collects = False
                self._outgoing.leave()
            elif duration_ms := dispatcher.callback_ended(began_ms):
                dispatcher.received.spent(self.listener, duration_ms)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the pending requests: the peer no longer waits for them."""
        self._transport = None
        self._let_go()
        self._dispatcher.connection_lost(self)

    def _handle(self, frame: memoryview) -> None:
        key, version, correlation_id, client_id, position = parse_request_header(frame)
        if is_too_large(key, len(frame)):
            raise DecodeError(f"a request of {len(frame)} bytes, API key {key}")
        request = Request(self, key, version, correlation_id, client_id, frame, position)
        self._pending.append(request)
        self.client_id = client_id
        self._dispatcher.take_up(request)
        if request not in self._waits_for and request not in self._out_of_turn:
            # A parked request that kept its body would pin the receive buffer, and soon see bytes of another frame.
            request.body = NOTHING
        if len(self._pending) > PENDING_REQUESTS_MAX:
            self.update_reading()

    def answered(self, request: Request) -> None:
        """Send the answers that are ready and next in order."""
        pending = self._pending
        if self._out_of_turn and request in self._out_of_turn:
            del self._out_of_turn[request]
            self._collect(request)
            if not self._outgoing.collects:
                self.send()
            return
        if self._transport is None or not pending:
            return
        if self._waits_for and request in self._waits_for:
            del self._waits_for[request]
            if request.line is not None:
                request.line.ended(request)
            request.body = NOTHING
            self.update_reading()
        if pending[0] is not request:
            if self.files is not None:
                request.read_answer()
            # Answers behind a parked request may add up to many bytes.
            request.held_bytes = request.answer_bytes
            self.hold(request.held_bytes)
            return
        while pending and pending[0].is_done:
            self._collect(pending.popleft())
        if not self._outgoing.collects:
            self.send()
        if not self._is_reading:
            self.update_reading()

    def step(self, request: Request, steps: Steps) -> None:
        """Work on a request in steps, now and between other work."""
        self._dispatcher.step(request, steps)

    def wait_for(self, request: Request) -> None:
        """Handle no later request before this one is answered, as Kafka does with every request.

        The receive buffer, in which the body lies, stays as it is meanwhile. Other brokers' requests do not depend on
        each other, and a heartbeat must not wait: they go on, and the answer to this one comes out of turn, which
        brokers understand. Its body is a copy.
        """
        if request.is_done or self._transport is None:
            return
        if self.listener == "client":
            self._waits_for[request] = None
            self.update_reading()
        elif request in self._pending:
            self._pending.remove(request)
            self._out_of_turn[request] = None
            # What was answered behind it waited for it alone.
            while self._pending and self._pending[0].is_done:
                self._collect(self._pending.popleft())
            if not self._outgoing.collects:
                self.send()

    def _collect(self, request: Request) -> None:
        """Put an answer to those that are written next; the caller sends them, unless the end of the callback does."""
        parts = request.take_answer()
        if request.held_bytes:
            self.holding.wait(-request.held_bytes)
        transport = self._transport
        if parts is None or transport is None:
            return
        header_version = response_header_version(request.key, request.version)
        framed = frame_response(request.correlation_id, header_version, parts)
        unwritten, outgoing = self._unwritten, self._outgoing
        if not unwritten and outgoing.collects:
            outgoing.senders.append(self)
        unwritten += framed
        for part in framed:
            self._unwritten_bytes += len(part)
        if self._unwritten_bytes > TOGETHER_BYTES_MAX:
            self.send()

    def send(self) -> None:
        """Write the answers that were collected, in one piece; nothing if there are none."""
        parts, self._unwritten = self._unwritten, []
        size_bytes, self._unwritten_bytes = self._unwritten_bytes, 0
        transport, files = self._transport, self.files
        if transport is None or not parts:
            return
        if files is None or size_bytes < JOIN_BYTES_MAX:
            buffers = cast("list[Buffer]", parts)
        else:
            try:
                buffers = files.send(parts)
            except (EOFError, OSError) as error:
                self.close(f"a log cannot be read: {error}")
                return
            if not buffers:
                return
            size_bytes = sum(map(len, buffers))
        if len(buffers) == 1:
            transport.write(buffers[0])
        elif size_bytes < JOIN_BYTES_MAX:
            transport.write(b"".join(buffers))
        else:
            transport.writelines(buffers)
        if not self._is_writable:
            # The transport frees nothing of an answer before all of it is sent.
            self.holding.set_unsent(self.holding.unsent_bytes + size_bytes)

    def beat(self) -> None:
        """Send a beat, which no request asked for."""
        if self._transport is not None and self._is_writable:
            self._transport.write(BEAT_FRAME)

    def close(self, reason: str | None) -> None:
        """Close after the answers already written, unless the peer does not read them; drop pending requests.

        Without a reason nothing is logged: the caller does so, once for many.
        """
        self.send()
        transport, self._transport = self._transport, None
        self._let_go()
        if transport is not None:
            if reason is not None:
                log.info("closing the connection from %s: %s", self.client_host, reason)
            if self._is_writable:
                transport.close()
            else:
                transport.abort()

    def _let_go(self) -> None:
        """Free what is held, and drop unanswered requests; parked ones would otherwise stay until their deadline."""
        self._unwritten, self._unwritten_bytes = [], 0
        pending, self._pending = self._pending, deque()
        waits_for, self._waits_for = self._waits_for, {}
        for request in waits_for:
            if request.line is not None:
                request.line.ended(request)
        out_of_turn, self._out_of_turn = self._out_of_turn, {}
        for request in (*pending, *out_of_turn):
            # Break the reference cycle between request and callback: garbage collections are rare.
            give_up, request.on_lost = request.on_lost, None
            if give_up is not None:
                give_up()
        self._frames.clear()
        self.holding.end()

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read its answers."""
        self._is_writable = False
        self.update_reading()

    def resume_writing(self) -> None:
        """Resume reading."""
        self._is_writable = True
        self.holding.set_unsent(0)
        self.update_reading()

    def hold(self, size_bytes: int) -> None:
        """Count produced bytes that wait for acknowledgement, and answers that wait for their turn."""
        holding = self.holding
        holding.wait(size_bytes)
        if holding.waiting_bytes > UNACKNOWLEDGED_BYTES_MAX:
            self.update_reading()

    def release(self, size_bytes: int) -> None:
        """Subtract what `hold` counted."""
        self.holding.wait(-size_bytes)
        if not self._is_reading:
            self.update_reading()

    def check_invariants(self) -> None:
        """Assert that answers wait only behind an unanswered request, and that what is held is counted."""
        assert not self._unwritten, f"{len(self._unwritten)} answers were left behind when their callback ended"
        if self._transport is None:
            assert not self._pending, f"{len(self._pending)} requests of a closed connection wait"
            return
        self._frames.check_invariants()
        assert not self._pending or not self._pending[0].is_done, f"{self._pending[0]} is answered, but not sent"
        behind_bytes = sum(request.held_bytes for request in self._pending)
        assert 0 <= behind_bytes <= self.holding.waiting_bytes, (
            f"{behind_bytes} bytes of answers wait, {self.holding.waiting_bytes} are held"
        )

    def update_reading(self) -> None:
        """Start or stop reading, as the limits say."""
        transport = self._transport
        if transport is None:
            return
        limit = UNACKNOWLEDGED_BYTES_MAX if self._is_reading else UNACKNOWLEDGED_BYTES_MAX // 2
        should_read = (
            self._is_writable
            and self.has_place
            and not self.holding.is_held_back
            and self.holding.waiting_bytes <= limit
            and not self._waits_for
            and not self._is_out_of_time
            and len(self._pending) <= PENDING_REQUESTS_MAX
        )
        if should_read == self._is_reading:
            return
        self._is_reading = should_read
        if should_read:
            transport.resume_reading()
            if self._frames.pending_bytes:
                # Frames received before the pause need no further bytes to be handled.
                asyncio.get_running_loop().call_soon(self._handle_frames)
        else:
            transport.pause_reading()
