"""The states of a broker's membership in the cluster, as tables.

Two machines, because a broker may lose the controller in any phase of its departure:

- `LinkState`: the state of the connections to the current controller.
- `DepartureState`: whether the broker wants to stay, and if not, how it leaves. A broker that leaves alone hands its
  leaderships over and asks with each heartbeat whether it may stop. One that stops with all others, or is allowed to
  stop, sends no heartbeats: a late one would put it back into service.

`Machine.happened()` makes all transitions. An event that the table does not have for the current state is our bug and
fails an assertion. docs/controller-channel.md shows the tables as diagrams.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, Generic, TypeVar


class LinkState(Enum):
    """The state of a broker's connections to the controller."""

    NEW = "new"
    SEARCHING = "searching"
    CONNECTING = "connecting"
    REGISTERING = "registering"
    REGISTERED = "registered"
    STOPPED = "stopped"


class LinkEvent(Enum):
    """An event that changes the state of a link."""

    START = "the broker starts"
    HOLDER_FOUND = "the store names a lease holder"
    CONNECTED = "both connections are open"
    GRANTED = "the controller grants the registration"
    LOST = "refused, no answer in time, or a connection broke"
    STOP = "the broker stops"


class DepartureState(Enum):
    """Whether a broker wants to leave, and how."""

    STAYING = "staying"
    LEAVING = "leaving"
    STOPPING_WITH_ALL = "stopping with all"
    RELEASED = "released"


class DepartureEvent(Enum):
    """An event that changes the state of a departure."""

    LEAVE = "the broker is asked to stop alone"
    STOP_WITH_ALL = "the broker is asked to stop with all others"
    NOT_ALL_READY = "some brokers are not ready in time"
    PERMITTED = "the controller says that it may stop"


State = TypeVar("State", bound=Enum)
Event = TypeVar("Event", bound=Enum)
Table = Mapping[State, Mapping[Event, State]]

LINK: Final[Table[LinkState, LinkEvent]] = {
    LinkState.NEW: {
        LinkEvent.START: LinkState.SEARCHING,
        LinkEvent.STOP: LinkState.STOPPED,
    },
    LinkState.SEARCHING: {
        LinkEvent.HOLDER_FOUND: LinkState.CONNECTING,
        LinkEvent.LOST: LinkState.SEARCHING,
        LinkEvent.STOP: LinkState.STOPPED,
    },
    LinkState.CONNECTING: {
        LinkEvent.CONNECTED: LinkState.REGISTERING,
        LinkEvent.LOST: LinkState.SEARCHING,
        LinkEvent.STOP: LinkState.STOPPED,
    },
    LinkState.REGISTERING: {
        LinkEvent.GRANTED: LinkState.REGISTERED,
        LinkEvent.LOST: LinkState.SEARCHING,
        LinkEvent.STOP: LinkState.STOPPED,
    },
    LinkState.REGISTERED: {
        LinkEvent.LOST: LinkState.SEARCHING,
        LinkEvent.STOP: LinkState.STOPPED,
    },
    LinkState.STOPPED: {
        LinkEvent.LOST: LinkState.STOPPED,
        LinkEvent.STOP: LinkState.STOPPED,
    },
}

DEPARTURE: Final[Table[DepartureState, DepartureEvent]] = {
    DepartureState.STAYING: {
        DepartureEvent.LEAVE: DepartureState.LEAVING,
        DepartureEvent.STOP_WITH_ALL: DepartureState.STOPPING_WITH_ALL,
    },
    DepartureState.STOPPING_WITH_ALL: {
        DepartureEvent.NOT_ALL_READY: DepartureState.STAYING,
        DepartureEvent.PERMITTED: DepartureState.RELEASED,
    },
    DepartureState.LEAVING: {
        DepartureEvent.LEAVE: DepartureState.LEAVING,
        DepartureEvent.PERMITTED: DepartureState.RELEASED,
    },
    DepartureState.RELEASED: {
        DepartureEvent.LEAVE: DepartureState.RELEASED,
    },
}


class Machine(Generic[State, Event]):
    """One state, which changes only as its table says."""

    __slots__ = ("_table", "state")

    def __init__(self, table: Table[State, Event], state: State) -> None:
        self._table = table
        self.state = state

    def happened(self, event: Event) -> None:
        """Change to the state that follows this event."""
        following = self._table[self.state].get(event)
        assert following is not None, f"{event.name} in state {self.state.name}: the table has no such transition"
        self.state = following

    def __repr__(self) -> str:
        return self.state.name
