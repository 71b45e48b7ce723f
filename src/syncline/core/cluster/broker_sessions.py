"""Sessions of brokers: when each last made contact with this controller.

This is not metadata: it is lost with the controller, and a new controller gives every broker a whole session timeout to
make contact. A session also holds the metadata version that the broker has applied, which two rules need: the
controller unfences a broker only when it has seen its own registration, and lets a broker stop only when the others
have seen that it is leaving.

Units: monotonic milliseconds. A session is valid up to and including `session_timeout_ms` after the last contact.
Invariants: `check_invariants`; a contact never moves back, and neither does the version that a broker has seen.
Source: Kafka's BrokerHeartbeatManager, BrokerHeartbeatTracker.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from syncline.model.ids import NONE, BrokerEpoch, BrokerId


@dataclass(slots=True)
class Session:
    """One broker process: its last contact, and the metadata that it has seen."""

    broker_epoch: BrokerEpoch
    last_contact_ms: int
    metadata_version: int = -1
    # When the broker last had all metadata, as far as the controller knows.
    caught_up_ms: int | None = None
    # The version that all others must see before a leaving broker may stop; None while it is not leaving.
    shutdown_version: int | None = None


class BrokerSessions:
    """The sessions of all registered brokers."""

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._sessions: dict[BrokerId, Session] = {}

    def begin(self, broker: BrokerId, broker_epoch: BrokerEpoch, now_ms: int) -> Session:
        """Start the session of a new registration."""
        session = self._sessions[broker] = Session(broker_epoch, now_ms)
        return session

    def touch(self, broker: BrokerId, now_ms: int) -> None:
        """Record a contact of `broker`."""
        session = self._sessions.get(broker)
        if session is not None:
            session.last_contact_ms = max(session.last_contact_ms, now_ms)

    def saw_metadata(self, broker: BrokerId, broker_epoch: BrokerEpoch, version: int) -> None:
        """Record that `broker` has applied the metadata up to `version`."""
        session = self._sessions.get(broker)
        if session is not None and session.broker_epoch == broker_epoch:
            session.metadata_version = max(session.metadata_version, version)

    def of(self, broker: BrokerId) -> Session | None:
        """Return the session of `broker`, None if it never registered here."""
        return self._sessions.get(broker)

    def is_valid(self, broker: BrokerId, now_ms: int) -> bool:
        """Return whether `broker` made contact recently enough."""
        session = self._sessions.get(broker)
        return session is not None and now_ms <= session.last_contact_ms + self.session_timeout_ms

    def silent_ms(self, broker: BrokerId, now_ms: int) -> int:
        """Return how long ago `broker` last made contact, NONE if it never did."""
        session = self._sessions.get(broker)
        return NONE if session is None else now_ms - session.last_contact_ms

    def expired(self, brokers: Iterable[BrokerId], now_ms: int) -> BrokerId | None:
        """Return the broker of `brokers` that is overdue for longest, None if none is."""
        overdue = [broker for broker in brokers if not self.is_valid(broker, now_ms)]
        return min(overdue, key=self._last_contact_ms, default=None)

    def lowest_version(self, brokers: Iterable[BrokerId]) -> int | None:
        """Return the oldest metadata version among `brokers`, None if there are none."""
        sessions = (self._sessions.get(broker) for broker in brokers)
        return min((-1 if session is None else session.metadata_version for session in sessions), default=None)

    def check_invariants(self, now_ms: int) -> None:
        """Raise `AssertionError` when a session contradicts itself or the clock."""
        for broker, session in self._sessions.items():
            assert session.last_contact_ms <= now_ms, (
                f"broker {broker} made contact {session.last_contact_ms - now_ms} ms from now"
            )
            caught_up_ms = session.caught_up_ms
            assert caught_up_ms is None or caught_up_ms <= session.last_contact_ms, (
                f"broker {broker} caught up at {caught_up_ms}, after its last contact at {session.last_contact_ms}"
            )
            assert session.metadata_version >= NONE, f"broker {broker} is at version {session.metadata_version}"

    def _last_contact_ms(self, broker: BrokerId) -> tuple[int, BrokerId]:
        session = self._sessions.get(broker)
        return (-1 if session is None else session.last_contact_ms, broker)
