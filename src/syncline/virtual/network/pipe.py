"""One direction of a simulated connection: bytes arrive in order, late, split, or not at all.

Bytes written in the same instant travel together, and some are split on the
way, as TCP may do at any byte. Bytes are in flight until the receiving program
has read them. A cut link stalls the pipe; if the cut lasts too long, the
sender's connection breaks.

Invariants: bytes arrive in the order in which they were sent; `in_flight_bytes`
is what was sent minus what was read, never negative.
"""

import asyncio
import contextvars
import errno
from collections import deque
from typing import Any, Protocol, TypeAlias

from syncline.virtual.network.links import Link, NetworkSettings
from syncline.virtual.time.loop import VirtualLoop
from syncline.virtual.time.process import KERNEL


class Late(Protocol):
    """Bytes that are known when they arrive."""

    def __len__(self) -> int: ...

    def __getitem__(self, places: slice, /) -> "Late": ...

    def read(self) -> bytes:
        """Return them."""


Data: TypeAlias = bytes | Late


class End(Protocol):
    """One end of a connection, as a pipe needs it."""

    context: contextvars.Context
    # This end no longer exists: its kernel answers everything that arrives with a reset.
    is_gone: bool
    # Gone with its host: nothing answers.
    is_silent: bool

    def arrived(self, item: list[Data] | None) -> None:
        """Receive what came out of the pipe; None is the end of the stream."""

    def drained(self) -> None:
        """Check the bytes in flight again: the other program has read some."""

    def reset_arrived(self) -> None:
        """Handle a reset: the connection no longer exists on the other side."""

    def broke_later(self, error: OSError) -> None:
        """Lose the connection soon, because the kernel gave up."""


class Pipe:
    """One direction of a connection."""

    __slots__ = (
        "_arrivals",
        "_batch",
        "_batch_sent_ns",
        "_is_closed",
        "_last_arrival_ns",
        "_link",
        "_loop",
        "_number",
        "_receiver",
        "_sender",
        "_settings",
        "_stalled",
        "_stalled_timer",
        "in_flight_bytes",
    )

    def __init__(
        self, loop: VirtualLoop, settings: NetworkSettings, link: Link, number: int, sender: End, receiver: End
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._link = link
        self._number = number
        self._sender = sender
        self._receiver = receiver
        self._last_arrival_ns = 0
        self._batch: list[Data] = []
        self._batch_sent_ns = -1
        self._stalled: deque[list[Data] | None] = deque()
        self._stalled_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.in_flight_bytes = 0

    @property
    def number(self) -> int:
        """Return the number of the connection."""
        return self._number

    @property
    def link(self) -> Link:
        """Return the link it runs over."""
        return self._link

    def send(self, data: Data) -> None:
        """Send bytes."""
        self.in_flight_bytes += len(data)
        now_ns = self._loop.now_ns
        if self._batch_sent_ns == now_ns:
            self._batch.append(data)
            return
        rng = self._link.rng
        if rng.random() < self._settings.split_probability and len(data) > 1:
            place = rng.randrange(1, len(data))
            self._transmit([data[:place]])
            data = data[place:]
        self._batch = [data]
        self._batch_sent_ns = now_ns
        self._transmit(self._batch)

    def send_end(self) -> None:
        """Send the end of the stream (FIN)."""
        self._batch_sent_ns = -1
        self._transmit(None)

    def send_reset(self) -> None:
        """Send a reset; it is lost if the link is cut."""
        self._is_closed = True
        if not self._link.cuts:
            self._arrive_later(self._receiver.reset_arrived)

    def send_again(self) -> None:
        """Send what has waited for the cut to heal."""
        if self._stalled_timer is not None:
            self._stalled_timer.cancel()
            self._stalled_timer = None
        now_ns = self._loop.now_ns
        self._last_arrival_ns = max(
            self._last_arrival_ns, now_ns + int(self._link.rng.random() * self._settings.retransmission_ns_max)
        )
        stalled, self._stalled = self._stalled, deque()
        for item in stalled:
            self._transmit(item)

    def close(self) -> None:
        """Drop what waits: the sender's end has vanished."""
        self._is_closed = True
        self._stalled.clear()
        self._link.stalled.pop(self, None)
        if self._stalled_timer is not None:
            self._stalled_timer.cancel()
            self._stalled_timer = None

    def taken(self, size_bytes: int) -> None:
        """Count bytes that the receiving program has read."""
        self.in_flight_bytes -= size_bytes
        assert self.in_flight_bytes >= 0, f"connection {self._number}: {-self.in_flight_bytes} bytes were never sent"
        self._sender.drained()

    def _transmit(self, item: list[Data] | None) -> None:
        if self._is_closed:
            return
        receiver = self._receiver
        if receiver.is_gone and not receiver.is_silent:
            # No process has this connection any more: the receiving kernel answers with a reset.
            self._bounce_later()
        elif self._link.cuts or receiver.is_silent:
            self._batch_sent_ns = -1
            self._stalled.append(item)
            self._link.stalled[self] = None
            if self._stalled_timer is None:
                when_ns = self._loop.now_ns + self._settings.unacknowledged_ns_max
                self._stalled_timer = self._loop.call_at_ns(when_ns, self._timed_out, context=KERNEL)
        else:
            self._arrive_later(receiver.arrived, item)

    def _arrive_later(self, callback: Any, *args: Any) -> None:
        when_ns = max(self._last_arrival_ns, self._loop.now_ns + self._link.latency_ns())
        self._last_arrival_ns = when_ns
        # In the receiver's context: a paused program reads its bytes when it resumes, a dead one never.
        self._loop.call_at_ns(when_ns, callback, *args, context=self._receiver.context)

    def _bounce_later(self) -> None:
        self._is_closed = True
        if self._link.cuts == 0:
            when_ns = self._loop.now_ns + 2 * self._link.latency_ns()
            self._loop.call_at_ns(when_ns, self._sender.reset_arrived, context=self._sender.context)

    def bounce_stalled(self) -> None:
        """Answer stalled bytes with a reset: the host has come back without this connection."""
        if self._stalled or self.in_flight_bytes:
            self.close()
            self._bounce_later()

    def _timed_out(self) -> None:
        self._stalled_timer = None
        self._sender.broke_later(TimeoutError(errno.ETIMEDOUT, "connection timed out"))
