"""The connection to one leader: made, watched, and made again when it breaks.

One request is in flight at a time, and its answer is delivered inside the callback that received it, unless the
connection was dropped meanwhile. If the leader does not answer in time (`replica.socket.timeout.ms`), the follower
connects again.

Times in ms of the node's clock.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from syncline.model.events import Json
from syncline.node.links.links import client_id_of
from syncline.node.links.peer import PeerConnection, PeerLost
from syncline.node.replication.doubts import Doubt
from syncline.node.replication.surroundings import FetcherSurroundings
from syncline.records.buffers import Buffer
from syncline.wire.api import ApiKey
from syncline.wire.primitives import INT32

log = logging.getLogger("syncline.node")

RECONNECT_MS: Final = 2
RECONNECT_MS_MAX: Final = 500


class LeaderConnection:
    """One follower's connection to one leader."""

    def __init__(
        self,
        leader_id: int,
        surroundings: FetcherSurroundings,
        *,
        is_wanted: Callable[[], bool],
        on_open: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.leader_id = leader_id
        self._surroundings = surroundings
        self._is_wanted = is_wanted
        self._on_open = on_open
        self._on_lost = on_lost
        self._peer: PeerConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        # The pause before the next attempt; it doubles until the leader answers.
        self.reconnect_ms = RECONNECT_MS
        self._is_in_flight = False
        # Counts requests, so that a late answer to an earlier request is recognised.
        self._request_number = 0
        self._sent_at_ms = 0
        self._watchdog: asyncio.TimerHandle | None = None
        self._is_closed = False
        # Since when the leader has not answered, or cannot be reached; None while it answers. A leader from which no
        # partition is fetched is not asked, so this may lie far in the past; `wanted_again` counts anew.
        self._unanswered_since_ms: int | None = surroundings.clock.mono_ms()
        self._beats_sent = 0
        # Beats of the leader over earlier connections.
        self._beats_heard = 0

    def __repr__(self) -> str:
        flight = ", a request in flight" if self._is_in_flight else ""
        return f"<connection to broker {self.leader_id}: {self.state}{flight}>"

    @property
    def state(self) -> str:
        """Return "open", "lost" (not yet noticed) or "none"."""
        return "none" if self._peer is None else "open" if self._peer.is_open else "lost"

    @property
    def peer(self) -> PeerConnection | None:
        """Return the connection, None while there is none."""
        return self._peer

    @property
    def is_free(self) -> bool:
        """Return whether no request is in flight."""
        return not self._is_in_flight and not self._is_closed

    @property
    def unanswered_since_ms(self) -> int | None:
        """Return since when the leader has not answered, or could not be reached; None while it answers."""
        return None if self._is_closed else self._unanswered_since_ms

    def wanted_again(self) -> None:
        """Count silence from now on: the leader was not asked while no partition was fetched from it."""
        if self._unanswered_since_ms is not None and not self._is_in_flight:
            self._unanswered_since_ms = self._surroundings.clock.mono_ms()

    def open_or_connect(self) -> bool:
        """Return whether a request can be sent now; if not, connect, if a connection is wanted."""
        if self._peer is None:
            if self._connecting is None and self._is_wanted():
                self._connecting = self._surroundings.tasks.spawn(self._connect())
            return False
        if not self._peer.is_open:
            # The connection broke while no request was in flight, so no answer reported it.
            self._broke()
            return False
        return True

    def send(
        self,
        key: ApiKey,
        version: int,
        parts: Sequence[Buffer],
        answered: Callable[[memoryview, int], None],
        now_ms: int,
    ) -> None:
        """Send a request; `answered(frame, position of the body)` is called unless the connection is lost before."""
        assert self._peer is not None, f"{self} cannot send"
        assert not self._is_in_flight, f"{self} sends a second request"
        self._is_in_flight = True
        self._request_number += 1
        number = self._request_number
        self._sent_at_ms = now_ms
        if self._unanswered_since_ms is None:
            self._unanswered_since_ms = now_ms
        self._watch()
        self._peer.send(key, version, parts, lambda frame, position: self._answered(number, answered, frame, position))

    async def request(self, key: ApiKey, version: int, entity: Any) -> Any:
        """Return the answer to a request beside the one in flight; raises `PeerLost`."""
        if self._peer is None:
            raise PeerLost(f"there is no connection to broker {self.leader_id}")
        return await self._peer.request(key, version, entity)

    async def ask_append_times(self, body: bytes) -> bytes:
        """Return the body of the answer to a question about append times; raises `PeerLost`."""
        if self._peer is None:
            raise PeerLost(f"there is no connection to broker {self.leader_id}")
        return await self._peer.request_raw(ApiKey.APPEND_TIMES, 0, (body,))

    def _answered(
        self, number: int, answered: Callable[[memoryview, int], None], frame: memoryview | None, position: int
    ) -> None:
        if number != self._request_number or self._is_closed:
            return
        assert self._is_in_flight, f"{self}: an answer to request {number}, which was not in flight"
        self._is_in_flight = False
        if frame is None:
            self._broke()
            return
        self._unanswered_since_ms = None
        self.reconnect_ms = RECONNECT_MS
        self._surroundings.departures.answered(self.leader_id)
        answered(frame, position)

    def _watch(self) -> None:
        """Watch for late answers with one timer, which is re-armed when it fires, not cancelled for each request."""
        if self._watchdog is None:
            timeout_ms = self._surroundings.configs.broker.replica_socket_timeout_ms
            self._watchdog = self._surroundings.loop.call_later(timeout_ms / 1000, self._check_answer)

    def _check_answer(self) -> None:
        self._watchdog = None
        if not self._is_in_flight or self._is_closed:
            return
        timeout_ms = self._surroundings.configs.broker.replica_socket_timeout_ms
        if self._surroundings.clock.mono_ms() - self._sent_at_ms >= timeout_ms:
            log.warning("broker %s did not answer a fetch in time; reconnecting", self.leader_id)
            self.drop()
        else:
            self._watch()

    async def _connect(self) -> None:
        surroundings = self._surroundings
        try:
            while not self._is_closed and self._is_wanted():
                record = surroundings.cluster.image.brokers.get(self.leader_id)  # type: ignore[call-overload]
                if record is not None:
                    try:
                        self._peer = await surroundings.links.connect(
                            self.leader_id,
                            record.internal_host,
                            record.internal_port,
                            client_id_of(surroundings.broker_id, "fetcher"),
                        )
                    except PeerLost:
                        pass
                    else:
                        # The leader can be reached, and has no request to answer yet.
                        self._unanswered_since_ms = None
                        break
                await asyncio.sleep(self.reconnect_ms / 1000)
                self.reconnect_ms = min(self.reconnect_ms * 2, RECONNECT_MS_MAX)
        finally:
            self._connecting = None
        self._on_open()

    def _broke(self) -> None:
        self._surroundings.departures.connection_broke(self.leader_id)
        self._lost()

    def _lost(self) -> None:
        if self._peer is not None:
            self._beats_heard += self._peer.beats_heard
            self._peer = None
        if self._unanswered_since_ms is None:
            self._unanswered_since_ms = self._surroundings.clock.mono_ms()
        self._on_lost()

    def drop(self) -> None:
        """Close the connection, to be made again: the leader has a new process, or its answers make no sense."""
        peer, self._peer = self._peer, None
        if peer is not None:
            self._request_number += 1
            self._is_in_flight = False
            self._beats_heard += peer.beats_heard
            peer.close()
            self._lost()

    def close(self) -> None:
        """Close the connection for good: the broker is stopping."""
        self._is_closed = True
        if self._watchdog is not None:
            self._watchdog.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    def beat(self) -> None:
        """Send the leader a beat: this follower is alive and misses it."""
        if self._peer is not None and self._peer.is_open:
            self._beats_sent += 1
            self._peer.send_without_answer(ApiKey.PEER_BEAT, 0, (INT32.pack(self._surroundings.broker_id),))

    def send_doubt(self, doubt: Doubt) -> None:
        """Ask the leader to check its log at a place that this follower cannot copy."""
        if self._peer is not None and self._peer.is_open:
            self._peer.send_without_answer(ApiKey.DOUBT, 0, (doubt.encode(),))

    def forget_beats(self) -> None:
        """Restart the counts of beats at 0."""
        self._beats_sent = self._beats_heard = 0
        if self._peer is not None:
            self._peer.beats_heard = 0

    def describe(self) -> dict[str, Json]:
        """Return the state of the connection, as events carry it."""
        return {
            "connection": self.state,
            "beats_heard": self._beats_heard + (0 if self._peer is None else self._peer.beats_heard),
            "beats_sent": self._beats_sent,
        }
