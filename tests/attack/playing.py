"""Playing a stream: one loop over all its connections, none of which waits for another.

The attacker competes with the brokers for the processor, so the loop does little: it sends views of bytes built
beforehand, reads into one buffer, and counts answers by their sizes alone.
"""

import errno
import heapq
import itertools
import selectors
import socket
import struct
import time
from collections.abc import Callable
from typing import Final

from tests.attack.stream import Leaving, Outcome, Stream

# More connections at once would overflow the brokers' backlog, and the kernel would try again a second later.
OPENING_MAX: Final = 80
READ_BYTES: Final = 1 << 20
# What is kept for a judge: no answer that is judged is longer.
JUDGED_BYTES_MAX: Final = 1 << 20
FINDINGS_MAX: Final = 5
_SIZE: Final = struct.Struct(">i")


class AnswerCounter:
    """Counts frames by their sizes; keeps whole frames only for a judge."""

    def __init__(self, judge: Callable[[bytes], str] | None) -> None:
        self.count = 0
        self.findings: list[str] = []
        self._judge = judge
        self._head = bytearray()
        self._missing_bytes = 0
        self._kept = bytearray()

    def feed(self, received: memoryview) -> None:
        """Count the frames that end in these bytes."""
        while received:
            if not self._missing_bytes:
                missing = _SIZE.size - len(self._head)
                self._head += received[:missing]
                received = received[missing:]
                if len(self._head) < _SIZE.size:
                    return
                (self._missing_bytes,) = _SIZE.unpack(self._head)
                self._head.clear()
                if self._missing_bytes <= 0:
                    self._end_frame()
                    continue
            part = received[: self._missing_bytes]
            if self._judge is not None and len(self._kept) < JUDGED_BYTES_MAX:
                self._kept += part
            self._missing_bytes -= len(part)
            received = received[len(part) :]
            if not self._missing_bytes:
                self._end_frame()

    def _end_frame(self) -> None:
        self._missing_bytes = 0
        self.count += 1
        if self._judge is not None:
            finding = self._judge(bytes(self._kept))
            if finding and len(self.findings) < FINDINGS_MAX:
                self.findings.append(finding)
            self._kept.clear()


class Caller:
    """One connection of a stream, in its place; each round is a new one."""

    def __init__(self, stream: Stream, number: int) -> None:
        self.number = number
        self.rest = memoryview(stream.data[number % len(stream.data)])
        self.answers = AnswerCounter(stream.judge)
        self.is_connected = False
        self.is_waiting = False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not stream.reads:
            # The kernel would otherwise take several megabytes for a reader that does not read.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def leave(self, leaving: Leaving) -> None:
        """Close the socket."""
        if leaving is Leaving.RESET:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Player:
    """Plays one stream."""

    def __init__(self, stream: Stream, limit_s: float) -> None:
        self.outcome = Outcome()
        self._stream = stream
        self._limit_s = limit_s
        self._selector = selectors.DefaultSelector()
        self._scratch = memoryview(bytearray(READ_BYTES))
        self._places = iter(range(stream.connections))
        # What is to be done later: (when, tie-breaker, what).
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._ties = itertools.count()
        self._live: dict[Caller, int] = {}
        self._opening = 0
        # Connections that are over and are to be followed by another one.
        self._reopening = 0

    def play(self) -> Outcome:
        """Play until every connection is over or the time is up."""
        began_s = time.monotonic()
        until_s = began_s + self._limit_s
        self._open_more()
        while (self._live or self._reopening) and time.monotonic() < until_s:
            for key, mask in self._selector.select(self._nap_s(until_s)):
                caller = key.data
                if mask & selectors.EVENT_WRITE:
                    self._send(caller)
                if mask & selectors.EVENT_READ and caller in self._live:
                    self._receive(caller)
            self._run_timers()
            self._open_more()
        for caller in list(self._live):
            self.outcome.unfinished += caller.is_waiting or bool(caller.rest)
            self._end(caller, goes_on=False)
        self._selector.close()
        self.outcome.took_s = time.monotonic() - began_s
        return self.outcome

    def _nap_s(self, until_s: float) -> float:
        due_s = self._timers[0][0] if self._timers else until_s
        return max(0.0, min(due_s, until_s) - time.monotonic())

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._ties), action))

    def _run_timers(self) -> None:
        now_s = time.monotonic()
        while self._timers and self._timers[0][0] <= now_s:
            heapq.heappop(self._timers)[2]()

    # Opening.

    def _open_more(self) -> None:
        while self._opening < OPENING_MAX and (place := next(self._places, None)) is not None:
            self._open(place, self._stream.rounds)

    def _open(self, place: int, rounds_left: int) -> None:
        caller = Caller(self._stream, place)
        caller.is_waiting = self._stream.answers > 0
        result = caller.socket.connect_ex(("127.0.0.1", self._stream.port))
        if result not in (0, errno.EINPROGRESS):
            self.outcome.refused += 1
            caller.socket.close()
            return
        self._live[caller] = rounds_left
        self._opening += 1
        self._selector.register(caller.socket, selectors.EVENT_WRITE, caller)

    def _reopen(self, place: int, rounds_left: int) -> None:
        self._reopening -= 1
        self._open(place, rounds_left)

    def _watch(self, caller: Caller, *, writes: bool) -> None:
        events = (selectors.EVENT_READ if self._stream.reads else 0) | (selectors.EVENT_WRITE if writes else 0)
        registered = caller.socket in self._selector.get_map()
        if events and registered:
            self._selector.modify(caller.socket, events, caller)
        elif events:
            self._selector.register(caller.socket, events, caller)
        elif registered:
            self._selector.unregister(caller.socket)

    # Sending.

    def _send(self, caller: Caller) -> None:
        if not caller.is_connected:
            caller.is_connected = True
            self._opening -= 1
            if caller.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self.outcome.refused += 1
                self._end(caller)
                return
            self.outcome.opened += 1
        chunk = caller.rest[: self._stream.chunk_bytes or READ_BYTES]
        try:
            sent = caller.socket.send(chunk) if chunk else 0
        except BlockingIOError:
            return
        except OSError:
            self.outcome.closed += 1
            self._end(caller)
            return
        self.outcome.sent_bytes += sent
        caller.rest = caller.rest[sent:]
        if not caller.rest:
            self._sent_all(caller)
        elif self._stream.pause_s:
            self._watch(caller, writes=False)
            self._later(self._stream.pause_s, lambda: self._resume(caller))
        else:
            self._watch(caller, writes=True)

    def _resume(self, caller: Caller) -> None:
        if caller in self._live:
            self._watch(caller, writes=True)

    def _sent_all(self, caller: Caller) -> None:
        stream = self._stream
        self._watch(caller, writes=False)
        if stream.half_closes:
            try:
                caller.socket.shutdown(socket.SHUT_WR)
            except OSError:
                self.outcome.closed += 1
                self._end(caller)
                return
        if not stream.answers:
            if stream.hold_s:
                self._later(stream.hold_s, lambda: self._end(caller))
            else:
                self._end(caller)

    # Receiving.

    def _receive(self, caller: Caller) -> None:
        try:
            received = caller.socket.recv_into(self._scratch)
        except BlockingIOError:
            return
        except OSError:
            received = 0
        if not received:
            self.outcome.closed += 1
            self._end(caller)
            return
        self.outcome.received_bytes += received
        caller.answers.feed(self._scratch[:received])
        if self._stream.answers and caller.answers.count >= self._stream.answers:
            caller.is_waiting = False
            self._end(caller)

    def _end(self, caller: Caller, *, goes_on: bool = True) -> None:
        rounds_left = self._live.pop(caller, 0)
        if not rounds_left:
            return
        self._opening -= not caller.is_connected
        if caller.socket in self._selector.get_map():
            self._selector.unregister(caller.socket)
        caller.leave(self._stream.leaving)
        self.outcome.answers += caller.answers.count
        room = FINDINGS_MAX - len(self.outcome.findings)
        self.outcome.findings += caller.answers.findings[:room]
        if goes_on and rounds_left > 1:
            self._reopening += 1
            self._later(self._stream.pause_s, lambda: self._reopen(caller.number, rounds_left - 1))
