"""What a controller reports about brokers that it does not fence, or not yet.

A broker whose heartbeats are late may be paused, or its connection may be cut.
One that sends heartbeats but applies metadata late acts on old metadata. The
controller only journals both: only the session timeout decides about fencing.

Times in ms of the node's monotonic clock.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final

from syncline.core.cluster.broker_sessions import BrokerSessions, Session
from syncline.model.events import Event, Json
from syncline.model.ids import BrokerId
from syncline.node.clock import Clock
from syncline.node.counting.episodes import Episodes

# Beyond the heartbeat interval.
GAP_MS: Final = 1_000
LATE_MS: Final = 1_000
COMMITS_MAX: Final = 1_000


class BrokerWatch:
    """Watches the heartbeats and the metadata versions of the brokers."""

    def __init__(self, broker_id: BrokerId, clock: Clock, note: Callable[[Event], None]) -> None:
        self._clock = clock
        self._episodes = Episodes(broker_id, clock, note)
        # Versions, and the times of their commits. Arrays, because two thousand numbers that are objects of their own,
        # made while a large request was decided on, would keep much of its memory from being given back.
        self._versions = array("q")
        self._times = array("q")

    def committed(self, version: int) -> None:
        """Record that the controller has sent the metadata up to `version` to the brokers."""
        self._versions.append(version)
        self._times.append(self._clock.mono_ms())
        if len(self._versions) > COMMITS_MAX:
            del self._versions[0], self._times[0]

    def look(
        self, brokers: Iterable[BrokerId], sessions: BrokerSessions, version: int, heartbeat_interval_ms: int
    ) -> None:
        """Report which unfenced brokers heartbeat late or lag behind in metadata."""
        now_ms = self._clock.mono_ms()
        present: dict[BrokerId, None] = {}
        for broker in brokers:
            session = sessions.of(broker)
            if session is None:
                continue
            present[broker] = None
            self._look_at_contact(broker, session, now_ms, heartbeat_interval_ms, sessions.session_timeout_ms)
            self._look_at_metadata(broker, session, now_ms, version)
        if self._episodes:
            for name in self._episodes.names():
                if isinstance(name, tuple) and name[1] not in present:
                    self._episodes.end(name, lambda: {"reason": "fenced"})

    def _look_at_contact(
        self, broker: BrokerId, session: Session, now_ms: int, heartbeat_interval_ms: int, session_timeout_ms: int
    ) -> None:
        name = ("heartbeat-gap", broker)
        if now_ms - session.last_contact_ms <= heartbeat_interval_ms + GAP_MS:
            self._episodes.end(name)
            return
        self._episodes.hold(
            name, "heartbeat-gap", broker, session.last_contact_ms, lambda: {"session_timeout_ms": session_timeout_ms}
        )

    def _look_at_metadata(self, broker: BrokerId, session: Session, now_ms: int, version: int) -> None:
        name = ("metadata-late", broker)
        numbers: dict[str, Json] = {
            "applied_version": session.metadata_version,
            "committed_version": version,
            "last_contact_ago_ms": now_ms - session.last_contact_ms,
        }
        if session.metadata_version >= version or session.metadata_version < 0 or not self._versions:
            self._episodes.end(name, lambda: numbers)
            return
        missing = min(bisect_right(self._versions, session.metadata_version), len(self._times) - 1)
        since_ms = self._times[missing]
        if now_ms - since_ms <= LATE_MS:
            self._episodes.end(name, lambda: numbers)
            return
        self._episodes.hold(name, "metadata-late", broker, since_ms, lambda: numbers)
