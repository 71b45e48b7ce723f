"""Links between brokers that lose or delay what is sent.

One hard idea: the transport of a struck connection gets another protocol, which receives the bytes in place of the
connection. So other connections cost nothing, and a cut drops everything at the receiving end, as if it had never
arrived: bytes, the end of the stream, a reset.

Both brokers of a link have the rule, and each applies it at its own end:

- bytes that arrive over a cut link are dropped; those sent over a link that is cut only the other way arrive;
- a new connection needs both directions: while either is cut, connecting fails after its time-out;
- when the cut ends, connections that lost something break. The others continue.

The receiving end applies delays, too; both ends together delay both directions.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from syncline.node.faults.names import LINK_CUT, LINK_CUT_ONE_WAY, LINK_DELAY
from syncline.node.faults.rules import Rule
from syncline.node.links.links import Links, broker_of
from syncline.node.links.peer import CONNECT_TIMEOUT_S, PeerConnection
from syncline.records.buffers import Buffer

if TYPE_CHECKING:
    from syncline.node.serving.connection import Connection
    from syncline.node.serving.dispatch import Dispatcher
    from syncline.node.serving.request import Request

BUFFER_BYTES: Final = 1 << 18


class LinkFaults:
    """The faulty links of one broker, at its end."""

    def __init__(
        self, broker_id: int, loop: asyncio.AbstractEventLoop, links: Links, dispatcher: "Dispatcher[Any]"
    ) -> None:
        self._broker_id = broker_id
        self._loop = loop
        self._links = links
        self._dispatcher = dispatcher
        # By the broker at the other end: the rule that drops or delays what arrives, or prevents connections.
        self._cuts: dict[int, Rule] = {}
        self._delays: dict[int, Rule] = {}
        self._barred: dict[int, Rule] = {}
        self._ends: dict[PeerConnection | Connection, FaultyEnd] = {}
        # Connections that were open before a link was cut.
        self._open_before: dict[Connection, None] = {}
        self._waiting: list[asyncio.Future[None]] = []
        # Bytes stay in it only while one connection at a time receives them.
        self._buffer = memoryview(bytearray(BUFFER_BYTES))

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """Apply these rules from now on."""
        self._cuts, self._delays, self._barred = {}, {}, {}
        for rule in rules:
            for source, target in rule.links:
                if rule.kind == LINK_DELAY:
                    if target == self._broker_id:
                        self._delays[source] = rule
                    continue
                assert rule.kind in {LINK_CUT, LINK_CUT_ONE_WAY}, f"faults of kind {rule.kind} have no effect on links"
                if target == self._broker_id:
                    self._cuts[source] = self._barred[source] = rule
                elif source == self._broker_id:
                    self._barred[target] = rule
        assert self._cuts.keys() <= self._barred.keys(), "a new connection over a cut link needs both ways"
        is_faulty = bool(self._cuts or self._delays or self._barred)
        self._links.gate = self._gate if is_faulty else None
        self._links.on_connected = self._connected if is_faulty else None
        self._open_before = {}
        if is_faulty:
            self._open_before = {each: None for each in self._dispatcher.connections if not self._is_cut(each)}
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        for peer, broker_id in self._links.connections():
            self._strike(peer, broker_id)
        for connection, broker_id in self._accepted():
            self._strike(connection, broker_id)
        self._ends = {victim: end for victim, end in self._ends.items() if not end.is_gone}

    def close(self) -> None:
        """End all waits: the broker is stopping."""
        self.set_rules(())

    def loses(self, request: "Request") -> bool:
        """Return whether a cut drops this request of another broker; its connection may be new."""
        # Requests come from connections of our own kind: the protocol is there to keep the two modules apart.
        connection = cast("Connection", request.connection)
        if connection.listener != "internal":
            return False
        broker_id = broker_of(request.client_id)
        if broker_id is None:
            return False
        end = self._ends.get(connection)
        if end is None:
            end = self._strike(connection, broker_id)
            if broker_id in self._barred and connection not in self._open_before:
                end = self._end_of(connection)
                end.cut(self._barred[broker_id])
            if end is not None and end.is_cut:
                # It delivered no request, so its end needs no report here.
                end.has_delivered_nothing = True
        if end is None or not end.is_cut:
            return False
        # Drop the bytes received before, too: they arrived with the lost ones.
        end.lost_bytes += len(request.body)
        return True

    def _connected(self, peer: PeerConnection, broker_id: int) -> None:
        self._strike(peer, broker_id)

    def _accepted(self) -> list[tuple["Connection", int]]:
        found = []
        for connection in self._dispatcher.connections:
            broker_id = broker_of(connection.client_id) if connection.listener == "internal" else None
            if broker_id is not None and connection.transport is not None:
                found.append((connection, broker_id))
        return found

    def _is_cut(self, connection: "Connection") -> bool:
        end = self._ends.get(connection)
        return end is not None and end.is_cut

    def _strike(self, victim: "PeerConnection | Connection", broker_id: int) -> "FaultyEnd | None":
        """Apply the current rules of its link to a connection; return its faulty end, if it has rules."""
        cut, delay = self._cuts.get(broker_id), self._delays.get(broker_id)
        end = self._ends.get(victim)
        if cut is None and delay is None:
            if end is not None and not (end.is_cut and broker_id in self._barred):
                end.heal()
            return None
        end = self._end_of(victim)
        if cut is not None:
            end.cut(cut)
        else:
            if end.is_cut:
                end.heal()
                end = self._end_of(victim)
            if delay is not None:
                end.delay(delay)
        return end

    def _end_of(self, victim: "PeerConnection | Connection") -> "FaultyEnd":
        end = self._ends.get(victim)
        if end is None or end.is_gone:
            self._ends = {each: known for each, known in self._ends.items() if not known.is_gone}
            end = self._ends[victim] = FaultyEnd(self._loop, victim, self._buffer)
        return end

    async def _gate(self, broker_id: int) -> None:
        """Wait as if packets were retransmitted: until the link works again, or the time-out passes."""
        rule = self._barred.get(broker_id)
        if rule is None:
            return
        rule.strikes()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            while broker_id in self._barred:
                future: asyncio.Future[None] = self._loop.create_future()
                self._waiting.append(future)
                try:
                    await future
                finally:
                    if future in self._waiting:
                        self._waiting.remove(future)


class FaultyEnd(asyncio.BufferedProtocol):
    """The receiving end of one connection while its link is faulty."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, victim: "PeerConnection | Connection", buffer: memoryview
    ) -> None:
        self._loop = loop
        self._victim = victim
        transport = victim.transport
        assert transport is not None, "only an open connection is struck"
        self._transport = transport
        self._buffer = buffer
        self._late: deque[tuple[float, bytes | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.rule: Rule | None = None
        self.is_cut = False
        self.has_delivered_nothing = False
        self.lost_bytes = 0
        # The end of the stream or of the connection, which a cut hides from the victim.
        self._has_ended = False
        self._lost: tuple[Exception | None] | None = None
        self.is_gone = False
        transport.set_protocol(self)

    def cut(self, rule: Rule) -> None:
        """Drop everything that arrives from now on."""
        self.rule = rule
        self.is_cut = True

    def delay(self, rule: Rule) -> None:
        """Delay everything that arrives from now on."""
        self.rule = rule

    def heal(self) -> None:
        """End the fault; break the connection if it lost something."""
        was_cut, self.is_cut, self.rule = self.is_cut, False, None
        if self._lost is not None:
            self._end(self._lost[0])
        elif was_cut and (self.lost_bytes or self._has_ended):
            self._transport.abort()
        else:
            self._restore()

    def _restore(self) -> None:
        """Restore the connection's own protocol once all delayed bytes are delivered."""
        if self.rule is None and not self._late and not self.is_gone:
            self.is_gone = True
            self._transport.set_protocol(self._victim)

    def _end(self, error: Exception | None) -> None:
        if self.is_gone:
            return
        self.is_gone = True
        self._late.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._victim.connection_lost(error)

    def _keep(self, data: bytes | None) -> None:
        assert self.rule is not None, "only a delayed end keeps anything"
        self.rule.strikes()
        self._late.append((self._loop.time() + self.rule.delay_ms / 1_000, data))
        if self._timer is None:
            self._timer = self._loop.call_later(self.rule.delay_ms / 1_000, self._hand_over)

    def _hand_over(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        # Half a millisecond: timers may fire a little early.
        while self._late and self._late[0][0] <= now_s + 0.0005 and not self.is_gone:
            _, data = self._late.popleft()
            if data is None:
                self._transport.abort()
                return
            self._give(memoryview(data))
        if self._late and not self.is_gone:
            self._timer = self._loop.call_later(max(0.0, self._late[0][0] - now_s), self._hand_over)
        else:
            self._restore()

    def _give(self, data: memoryview) -> None:
        while data:
            room = self._victim.get_buffer(len(data))
            size = min(len(room), len(data))
            room[:size] = data[:size]
            self._victim.buffer_updated(size)
            data = data[size:]

    # asyncio.BufferedProtocol

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Drop or hold what arrived."""
        if self.is_cut:
            assert self.rule is not None, "a rule cut this end"
            self.rule.strikes()
            self.lost_bytes += nbytes
        elif self.rule is not None or self._late:
            self._keep_or_queue(bytes(self._buffer[:nbytes]))
        else:
            self._give(self._buffer[:nbytes])

    def _keep_or_queue(self, data: bytes) -> None:
        if self.rule is None:
            # The delay has ended, and earlier bytes are still held.
            self._late.append((self._late[-1][0], data))
        else:
            self._keep(data)

    def eof_received(self) -> bool:
        """Keep the connection open when its end is lost or late."""
        if self.is_cut:
            self._has_ended = True
            return not self.has_delivered_nothing
        if self.rule is not None or self._late:
            self._late.append((self._late[-1][0] if self._late else self._loop.time(), None))
            if self._timer is None:
                self._timer = self._loop.call_later(0, self._hand_over)
            return True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end to the victim, unless the cut hides it."""
        if self.is_cut and not self.has_delivered_nothing and self._victim.transport is not None:
            self._lost = (exc,)
            # The victim continues to write, which the closed transport would refuse.
            self._victim.connection_made(_Nowhere(self._loop, self._end))
        else:
            self._end(exc)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._victim.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._victim.resume_writing()


class _Nowhere(asyncio.Transport):
    """The transport of a connection whose end a cut hides from its owner: it accepts writes and receives nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Callable[[Exception | None], None]) -> None:
        super().__init__()
        self._loop = loop
        self._ended = ended
        self._is_closing = False

    def write(self, data: Buffer) -> None:
        """Drop it."""

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Drop them."""

    def is_closing(self) -> bool:
        """Return whether the owner has closed this transport."""
        return self._is_closing

    def pause_reading(self) -> None:
        """There is nothing to read."""

    def resume_reading(self) -> None:
        """There is nothing to read."""

    def close(self) -> None:
        """Report the end to the owner, in a turn of its own as other transports do."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._ended, None)

    def abort(self) -> None:
        """Close."""
        self.close()
