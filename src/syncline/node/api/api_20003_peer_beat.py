"""PeerBeat (key 20003), between brokers only: a follower that misses its leader reports that it is alive.

The body is the follower's id (i32). There is no answer, but the leader sends a beat of its own (`Connection.beat`).
"""

from typing import TYPE_CHECKING, Protocol

from syncline.wire.api import ApiKey
from syncline.wire.errors import DecodeError
from syncline.wire.primitives import INT32

if TYPE_CHECKING:
    from syncline.node.observing.observer import Observer
    from syncline.node.serving.request import Request

    class Host(Protocol):
        """What this handler uses of its broker."""

        @property
        def observer(self) -> Observer:
            """Return the observer of other brokers."""


KEY = ApiKey.PEER_BEAT


def handle(broker: "Host", request: "Request") -> None:
    """Record the beat, and send one back."""
    if len(request.body) - request.position != INT32.size:
        raise DecodeError("a beat holds a broker id and nothing else")
    (replica,) = INT32.unpack_from(request.body, request.position)
    broker.observer.followers.beat_came(int(replica), request.connection)
    request.reply_nothing()
