"""Requests: from a frame to its answer.

A request is a slot in its connection's queue: Kafka answers the requests of
one connection in the order in which they arrived, so an answer that is ready
before its turn waits in its slot. There is no task per request: a handler runs
inside the callback that received the frame, and answers now, or keeps the
request and answers later.

Ownership: `Request.body` lies in the receive buffer and is valid only while
the handler runs. A handler decodes or copies what it keeps before it returns; one
that works in steps may use the body until its last step.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from syncline.node.clients.memory import Holding
from syncline.node.unix_sockets.sending import FileSender, read_files
from syncline.records.buffers import Part
from syncline.wire.codec import (
    decode_request,
    decode_request_in_steps,
    encode_fields,
    encode_response,
)

# The work on a request that takes long: each step takes a fraction of a millisecond (`node.serving.stepping`).
Steps: TypeAlias = Generator[None, None, None]

# A body of at most this size is decoded in one call; it takes less than 5 ms.
DECODED_AT_ONCE_BYTES: Final = 32_768
# Items with what is in them, which take a quarter to half a microsecond each.
FREED_PER_STEP: Final = 64
# The body of a request that needs it no longer.
NOTHING: Final = memoryview(b"")


class RequestConnection(Protocol):
    """The connection of a request, as the request and its handler use it."""

    @property
    def listener(self) -> str:
        """Return the listener that accepted it: "client" or "internal"."""

    @property
    def client_host(self) -> str:
        """Return the peer's address, as group descriptions show it."""

    def answered(self, request: "Request", /) -> None:
        """Send the answers that are ready and next in order."""

    def close(self, reason: str, /) -> None:
        """Close after the answers already written; drop pending requests."""

    def hold(self, size_bytes: int, /) -> None:
        """Count bytes of this connection that wait."""

    def release(self, size_bytes: int, /) -> None:
        """Subtract what `hold` counted."""

    @property
    def holding(self) -> Holding:
        """Return the memory that the connection holds."""

    def beat(self) -> None:
        """Send a beat, which no request asked for."""

    @property
    def files(self) -> FileSender | None:
        """Return what sends parts of answers that lie in files, None if they have to be read."""

    @property
    def transport(self) -> object | None:
        """Return the transport, None when the connection is closed or closing."""

    def step(self, request: "Request", steps: Steps, /) -> None:
        """Work on a request in steps, now and between other work."""

    def wait_for(self, request: "Request", /) -> None:
        """Handle no later request before this one is answered."""


class Line(Protocol):
    """Where long requests are counted (`node.serving.long_requests`)."""

    def parked(self, request: "Request", kept_bytes: int, /) -> None:
        """Count so many bytes for a request that waits for an event, and serve the next ones."""

    def ended(self, request: "Request", /) -> None:
        """Count a request no longer, and serve the next ones."""


class Request:
    """One request of one connection, and the place for its answer."""

    __slots__ = (
        "_answer",
        "body",
        "client_id",
        "connection",
        "correlation_id",
        "held_bytes",
        "is_done",
        "key",
        "line",
        "listener",
        "named",
        "on_lost",
        "position",
        "version",
    )

    def __init__(
        self,
        connection: RequestConnection,
        key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        body: memoryview,
        position: int,
    ) -> None:
        self.connection = connection
        # The listener that received it: "client" or "internal".
        self.listener = connection.listener
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body
        # The body starts here: what lies before it in the buffer is the header.
        self.position = position
        self._answer: Sequence[Part] | None = None
        # Bytes that its connection counts while the answer waits for its turn.
        self.held_bytes = 0
        self.is_done = False
        # Where it is counted if it is long, and the items that it names: they are freed some at a time.
        self.line: Line | None = None
        self.named: list[Any] | None = None
        # Called if the connection ends before the answer: a handler that keeps this request can drop it.
        self.on_lost: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"<request {self.key} v{self.version} (correlation {self.correlation_id})>"

    @property
    def client_host(self) -> str:
        """Return the peer's address, as group descriptions show it."""
        return self.connection.client_host

    def decode(self) -> Any:
        """Return the body as a kio entity; raises `DecodeError`."""
        return decode_request(self.key, self.version, self.body, self.position)

    def decode_in_steps(self, kept_max: Mapping[str, int] | None = None) -> Generator[None, None, Any]:
        """Return the body as a kio entity, a long one in steps; raises `DecodeError`.

        Of a long one's lists named in `kept_max`, only so many items are kept.
        """
        if len(self.body) - self.position > DECODED_AT_ONCE_BYTES:
            self.named = []
        return (
            yield from decode_request_in_steps(
                self.key,
                self.version,
                self.body,
                self.position,
                kept_max,
                at_once_bytes_max=DECODED_AT_ONCE_BYTES,
                named=self.named,
            )
        )

    def free_named(self) -> Steps:
        """Free the items that the request names, some in each step: its handler needs them no longer."""
        named, self.named = self.named, None
        while named:
            del named[-FREED_PER_STEP:]
            yield

    def answer(self, fields: Mapping[str, Any]) -> None:
        """Answer with these fields (see `wire.entities.build`); a long answer is written in steps."""
        encoded = encode_fields(self.key, self.version, fields)
        if isinstance(encoded, bytes):
            self.reply_parts((encoded,))
        else:
            self.connection.step(self, self._answer_in_steps(encoded))

    def _answer_in_steps(self, encoding: Generator[None, None, bytes]) -> Steps:
        self.reply_parts(((yield from encoding),))

    def step(self, steps: Steps) -> None:
        """Go on in steps that do not need the body."""
        self.body = NOTHING
        self.connection.step(self, steps)

    def reply(self, response: Any) -> None:
        """Answer with a kio entity."""
        self.reply_parts((encode_response(response, self.key, self.version),))

    def reply_parts(self, parts: Sequence[Part]) -> None:
        """Answer with an encoded body; large parts are sent without being copied.

        Parts may lie in files if the connection sends them; it is closed if they cannot be read.
        """
        assert not self.is_done, f"a second answer to request {self.key} (correlation {self.correlation_id})"
        self.is_done = True
        self.on_lost = None
        self._answer = parts
        self.connection.answered(self)
        if self.named:
            # Its steps may have ended before: this has what it named freed in turns of the loop.
            self.connection.step(self, _no_steps())

    def reply_nothing(self) -> None:
        """Leave the slot without an answer: acks=0."""
        self.is_done = True
        self.connection.answered(self)

    def park(self, kept_bytes: int) -> None:
        """Wait for an event, for as long as the client likes; a long request is counted with so many bytes."""
        if self.line is not None and not self.is_done:
            self.line.parked(self, kept_bytes)

    def close(self) -> None:
        """Close the connection instead of answering: the only way to report some errors."""
        self.is_done = True
        self.connection.close(f"request {self.key} v{self.version} has no other way to fail")

    @property
    def answer_bytes(self) -> int:
        """Return how large the answer is; 0 when there is nothing to send."""
        return sum(map(len, self._answer or ()))

    def read_answer(self) -> None:
        """Read the parts of the answer that lie in files, because it is not sent now; close if that fails."""
        if self._answer is None:
            return
        try:
            self._answer = read_files(self._answer)
        except (EOFError, OSError) as error:
            self._answer = None
            self.connection.close(f"a log cannot be read: {error}")

    def take_answer(self) -> Sequence[Part] | None:
        """Return the encoded answer for the connection that writes it; None when there is nothing to send."""
        return self._answer


def _no_steps() -> Steps:
    yield from ()
