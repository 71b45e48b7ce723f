"""Requests that the controller answers: those of clients, forwarded, and those of this broker itself.

A request waits here until the broker is registered. It is sent again, to the controller of that moment, until it is
answered or its deadline passes. It may thus be carried out twice; as with any client that retries, the second attempt
finds the work done.

Invariant: each request is answered exactly once; None means that its deadline has passed or the broker stops.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.node.channel.link import ControllerLink
from syncline.node.clock import Clock
from syncline.node.controller.private_messages import decode_forward_answer, encode_forward
from syncline.node.links.peer import PeerConnection
from syncline.node.serving.request import Request
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_response, encode_request
from syncline.wire.errors import DecodeError


class _Forward(NamedTuple):
    """A request; `answered` gets the body of the reply, or None when its deadline has passed."""

    key: int
    version: int
    body: bytes
    deadline_ms: int
    answered: Callable[[bytes | None], None]


class Forwards:
    """The requests of one broker that wait to be sent to the controller."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        link: ControllerLink,
        *,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._link = link
        self._config = config
        self._unsent: deque[_Forward] = deque()
        self._is_stopped = False

    def forward(self, request: Request) -> None:
        """Forward a client's request to the controller; the client waits for the answer."""

        def answered(body: bytes | None) -> None:
            if body is None:
                request.close()
            else:
                request.reply_parts((body,))

        self._submit(request.key, request.version, bytes(request.body[request.position :]), answered)

    async def ask(self, key: ApiKey, version: int, entity: Any) -> Any:
        """Return the controller's reply to a request of this broker itself; None if it did not come in time."""
        replied: asyncio.Future[bytes | None] = self._loop.create_future()

        def answered(body: bytes | None) -> None:
            if not replied.done():
                replied.set_result(body)

        self._submit(key, version, encode_request(entity), answered)
        body = await replied
        return None if body is None else decode_response(key, version, body)

    def _submit(self, key: int, version: int, body: bytes, answered: Callable[[bytes | None], None]) -> None:
        deadline_ms = self._clock.mono_ms() + self._config().request_timeout_ms
        self._unsent.append(_Forward(key, version, body, deadline_ms, answered))
        self.send()

    def send(self) -> None:
        """Send the waiting requests, if the broker is registered."""
        control = self._link.control
        if control is None:
            return
        unsent, self._unsent = self._unsent, deque()
        for forward in unsent:
            self._send(control, forward)

    def _send(self, control: PeerConnection, forward: _Forward) -> None:
        def on_answer(frame: memoryview | None, position: int) -> None:
            error, body = (ErrorCode.NETWORK_EXCEPTION, b"")
            if frame is not None:
                with contextlib.suppress(DecodeError):
                    error, body = decode_forward_answer(frame, position)
            if error is ErrorCode.NONE:
                forward.answered(body)
            elif error is ErrorCode.INVALID_REQUEST or self._is_stopped:
                forward.answered(None)
            else:
                self._unsent.append(forward)
                if frame is not None:
                    self._link.close()

        head = encode_forward(forward.key, forward.version, self._link.broker_id)
        control.send(ApiKey.FORWARD, 0, (head, forward.body), on_answer)

    def drop_overdue(self) -> None:
        """Answer the unsent requests whose deadline has passed."""
        now_ms = self._clock.mono_ms()
        overdue = [forward for forward in self._unsent if forward.deadline_ms < now_ms]
        if overdue:
            self._unsent = deque(forward for forward in self._unsent if forward.deadline_ms >= now_ms)
            for forward in overdue:
                forward.answered(None)

    def stop(self) -> None:
        """Retry nothing from now on; `answer_unsent` ends the waiting requests."""
        self._is_stopped = True

    def answer_unsent(self) -> None:
        """End the waiting requests: no controller will answer them."""
        unsent, self._unsent = self._unsent, deque()
        for forward in unsent:
            forward.answered(None)
