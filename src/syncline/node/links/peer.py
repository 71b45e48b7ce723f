"""A connection to another broker: requests out, answers in, matched by correlation id.

Used by fetchers, the channel to the controller and internal produce. Each answer
is delivered inside the callback that received it; a frame is valid only during
that call, so records can be written to disk without being copied.

Every request ends with its answer, or with `PeerLost` when the connection
breaks. Only connecting has a time-out here; a caller that wants one for a request
closes the connection.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.unix_sockets.names import connect_beside
from syncline.records.buffers import Buffer
from syncline.wire.api import response_header_version
from syncline.wire.codec import decode_response, encode_request
from syncline.wire.errors import DecodeError
from syncline.wire.frames import FrameParser, frame_request
from syncline.wire.response_header import BEAT, correlation_id_of, response_body_position

ANSWER_BYTES_MAX: Final = 128 << 20
# Kafka's socket.connection.setup.timeout.ms: a host behind a cut connection answers nothing at all.
CONNECT_TIMEOUT_S: Final = 10.0

# Called with (frame, position of the body), or (None, 0) when the connection broke first. Raises DecodeError if the
# answer is malformed: then the connection breaks, and the callback gets (None, 0), too.
OnAnswer = Callable[[memoryview | None, int], None]


class PeerLost(ConnectionError):
    """The connection to another broker broke, or could not be made."""


class PeerConnection(asyncio.BufferedProtocol):
    """One connection to another broker's inter-broker listener."""

    def __init__(
        self, client_id: str, on_lost: Callable[[], None] | None = None, holds: LoopHolds | None = None
    ) -> None:
        self._client_id = client_id
        self._on_lost = on_lost
        # Counts how long answers hold the loop.
        self._holds = holds
        self._frames = FrameParser(ANSWER_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, tuple[int, OnAnswer]] = {}
        self._next_correlation_id = 0
        # Beats that the other broker sent, because one of the two misses the other.
        self.beats_heard = 0

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        client_id: str,
        on_lost: Callable[[], None] | None = None,
        holds: LoopHolds | None = None,
        *,
        beside: bool = False,
    ) -> "PeerConnection":
        """Return an open connection; `beside`: over the socket beside the port, if both brokers are on one machine.

        Raises `PeerLost` when the port refuses, or does not answer in time.
        """
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                loop, peer = asyncio.get_running_loop(), cls(client_id, on_lost, holds)
                connected = connect_beside(host, port) if beside else None
                if connected is None:
                    await loop.create_connection(lambda: peer, host, port)
                else:
                    await loop.create_unix_connection(lambda: peer, sock=connected)
        except OSError as error:
            raise PeerLost(f"cannot connect to {host}:{port}: {error}") from error
        return peer

    @property
    def is_open(self) -> bool:
        """Return whether requests can be sent."""
        return self._transport is not None

    @property
    def is_idle(self) -> bool:
        """Return whether it is open, and no request waits for its answer."""
        return self._transport is not None and not self._waiting

    @property
    def transport(self) -> asyncio.Transport | None:
        """The transport, None when the connection is closed."""
        return self._transport

    def send(self, key: int, version: int, parts: Sequence[Buffer], on_answer: OnAnswer) -> None:
        """Send an encoded body; `on_answer` is called once with the answer or its loss, never from inside this call."""
        transport = self._transport
        if transport is None:
            raise PeerLost("the connection is closed")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        self._waiting[correlation_id] = (response_header_version(key, version), on_answer)
        transport.writelines(frame_request(key, version, correlation_id, self._client_id, parts))

    def send_without_answer(self, key: int, version: int, parts: Sequence[Buffer]) -> None:
        """Send an encoded body that has no answer."""
        if self._transport is not None:
            correlation_id = self._next_correlation_id
            self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
            self._transport.writelines(frame_request(key, version, correlation_id, self._client_id, parts))

    async def request_raw(self, key: int, version: int, parts: Sequence[Buffer]) -> bytes:
        """Return the body of the answer, copied; raises `PeerLost`."""
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def on_answer(frame: memoryview | None, position: int) -> None:
            if answered.done():
                return
            if frame is None:
                answered.set_exception(PeerLost("the connection broke before the answer came"))
            else:
                answered.set_result(bytes(frame[position:]))

        self.send(key, version, parts, on_answer)
        try:
            return await answered
        finally:
            # If this coroutine was closed, nobody will look at what comes later.
            answered.cancel()

    async def request(self, key: int, version: int, entity: Any) -> Any:
        """Return the answer to a kio entity as a kio entity; raises `PeerLost`."""
        body = await self.request_raw(key, version, (encode_request(entity),))
        try:
            return decode_response(key, version, body)
        except DecodeError as error:
            self.close()
            raise PeerLost(f"malformed answer: {error}") from error

    def close(self) -> None:
        """Close; requests without an answer end with `PeerLost`."""
        transport = self._transport
        if transport is not None:
            transport.abort()
            self._lose()

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of a new connection."""
        # uvloop's transports have the interface, not the base class.
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._frames.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Handle every complete frame received so far."""
        frames, holds = self._frames, self._holds
        if not frames.buffer_updated(nbytes):
            return
        began_ms = holds.now_ms() if holds is not None else 0
        try:
            while (frame := frames.next_frame()) is not None:
                correlation_id = correlation_id_of(frame)
                waiting = self._waiting.pop(correlation_id, None)
                if waiting is None:
                    if correlation_id != BEAT:
                        raise DecodeError("an answer to no request")
                    self.beats_heard += 1
                    continue
                header_version, on_answer = waiting
                try:
                    on_answer(frame, response_body_position(frame, header_version))
                except DecodeError:
                    self._unanswered(correlation_id, waiting)
                    raise
            frames.keep()
        except DecodeError:
            self.close()
        if holds is not None:
            holds.ended(began_ms, "answers of brokers")

    def _unanswered(self, correlation_id: int, waiting: tuple[int, OnAnswer]) -> None:
        """End a request whose answer cannot be read: with the connection, as those behind it do."""
        if self._transport is None:
            waiting[1](None, 0)
        else:
            self._waiting = {correlation_id: waiting, **self._waiting}

    def connection_lost(self, exc: Exception | None) -> None:
        """End the pending requests with `PeerLost`."""
        self._lose()

    def _lose(self) -> None:
        if self._transport is None:
            return
        self._transport = None
        waiting, self._waiting = self._waiting, {}
        for _, on_answer in waiting.values():
            on_answer(None, 0)
        if self._on_lost is not None:
            self._on_lost()
