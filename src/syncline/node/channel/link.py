"""The two connections of a broker to the controller, and their state.

A poll on the *stream* waits for new metadata; all other requests use the *control* connection. There are two because
the answers on one connection come in the order of the requests. When one of them breaks, both are closed.

Invariants: before a search has found a controller there is no connection; a registered link has both connections and
a broker epoch.
"""

from collections.abc import Callable

from syncline.coordination.port import Holder
from syncline.model.ids import NONE, BrokerEpoch, BrokerId
from syncline.node.channel.states import LINK, LinkEvent, LinkState, Machine
from syncline.node.clock import Clock
from syncline.node.links.links import Links, client_id_of
from syncline.node.links.peer import PeerConnection, PeerLost


class ControllerLink:
    """The connections to the current controller."""

    def __init__(self, broker_id: BrokerId, clock: Clock, links: Links, *, wake: Callable[[], None]) -> None:
        self.broker_id = broker_id
        self.broker_epoch = BrokerEpoch(NONE)
        # Since when the controller has not answered a heartbeat, or could not be reached; None while it answers.
        self.unanswered_since_ms: int | None = None
        self.lease_epoch = 0
        self._clock = clock
        self._links = links
        # Wakes the search for a controller, and the heartbeats.
        self._wake = wake
        self._machine = Machine(LINK, LinkState.NEW)
        self._control: PeerConnection | None = None
        self._stream: PeerConnection | None = None

    def __repr__(self) -> str:
        return (
            f"<link of broker {self.broker_id} (epoch {self.broker_epoch}): {self.state.value},"
            f" lease {self.lease_epoch}{', open' if self.is_open else ''}>"
        )

    @property
    def state(self) -> LinkState:
        """The state of the connections."""
        return self._machine.state

    @property
    def is_open(self) -> bool:
        """Return whether both connections are open."""
        control, stream = self._control, self._stream
        return control is not None and stream is not None and control.is_open and stream.is_open

    @property
    def connections(self) -> tuple[PeerConnection | None, PeerConnection | None]:
        """The control connection and the stream."""
        return self._control, self._stream

    @property
    def control(self) -> PeerConnection | None:
        """The control connection if the broker is registered over it, otherwise None.

        The controller refuses other requests on a connection without a registration, and its NOT_CONTROLLER would
        make the broker close the connection.
        """
        control = self._control
        return control if control is not None and control.is_open and self.state is LinkState.REGISTERED else None

    @property
    def stream(self) -> PeerConnection | None:
        """The connection for metadata, None if it is closed."""
        stream = self._stream
        return stream if stream is not None and stream.is_open else None

    def start(self) -> None:
        """Start the search for the controller."""
        self._machine.happened(LinkEvent.START)

    async def open(self, holder: Holder) -> PeerConnection | None:
        """Connect to the lease holder; return the control connection for the registration, None if that failed."""
        self._machine.happened(LinkEvent.HOLDER_FOUND)
        # Known before the first connection is there: `follow_lease` compares as soon as it is.
        self.lease_epoch = holder.lease_epoch
        where = (holder.broker_id, holder.host, holder.port, client_id_of(self.broker_id), self._wake)
        try:
            self._control = await self._connection(where)
            self._stream = await self._connection(where)
        except PeerLost:
            self.close()
            return None
        if self._control is None or not self._control.is_open:
            self.close()
            return None
        self._machine.happened(LinkEvent.CONNECTED)
        return self._control

    async def _connection(self, where: tuple[int, str, int, str, Callable[[], None]]) -> PeerConnection:
        peer = await self._links.connect(*where)
        if self.state is not LinkState.CONNECTING:
            peer.close()
            raise PeerLost("the controller was given up before it could be reached")
        return peer

    def granted(self, broker_epoch: BrokerEpoch) -> bool:
        """Record a granted registration; return False if its connections were closed meanwhile."""
        assert broker_epoch >= self.broker_epoch, f"broker epoch {broker_epoch} was granted after {self.broker_epoch}"
        self.broker_epoch = broker_epoch
        if self.state is not LinkState.REGISTERING:
            return False
        self._machine.happened(LinkEvent.GRANTED)
        return True

    def close(self) -> None:
        """Close both connections; search again unless the broker stops."""
        control, self._control = self._control, None
        stream, self._stream = self._stream, None
        if control is not None:
            self.wait_for_answer()
        self._machine.happened(LinkEvent.LOST)
        for peer in (control, stream):
            if peer is not None:
                peer.close()
        self._wake()

    def follow_lease(self, holder: Holder | None) -> None:
        """Close the connections if the store names another lease holder: the old one was deposed or does not renew."""
        if holder is not None and holder.lease_epoch != self.lease_epoch:
            self.close()

    def stop(self) -> None:
        """Search no longer; `close` closes the connections."""
        self._machine.happened(LinkEvent.STOP)

    def wait_for_answer(self) -> None:
        """Record since when the controller has not answered, unless that is recorded already."""
        if self.unanswered_since_ms is None:
            self.unanswered_since_ms = self._clock.mono_ms()

    def answered(self) -> None:
        """Record that the controller answers."""
        self.unanswered_since_ms = None

    def check_invariants(self) -> None:
        """Assert that state and connections agree."""
        control, stream = self._control, self._stream
        state = self.state
        if state in {LinkState.NEW, LinkState.SEARCHING}:
            assert control is stream is None, f"{state.name} with connections"
        elif state is LinkState.CONNECTING:
            assert stream is None, "CONNECTING with a stream"
        elif state in {LinkState.REGISTERING, LinkState.REGISTERED}:
            assert control is not None, f"{state.name} without a control connection"
            assert stream is not None, f"{state.name} without a stream"
            assert control is not stream, "one connection for both"
        if state is LinkState.REGISTERED:
            assert self.broker_epoch != NONE, "registered without a broker epoch"
            assert self.lease_epoch > 0, "registered with a controller that never held the lease"
