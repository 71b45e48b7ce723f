"""PeerBeat (key 20003), between brokers only: a follower that misses its leader says that it is there.

The body is the follower's id (i32). It is not answered; the leader sends a beat of its own (`Connection.beat`).
"""

from typing import TYPE_CHECKING

from syncline.wire.api import ApiKey
from syncline.wire.errors import DecodeError
from syncline.wire.primitives import INT32

if TYPE_CHECKING:
    from syncline.node.broker import Broker
    from syncline.node.request import Request

KEY = ApiKey.PEER_BEAT


def handle(broker: "Broker", request: "Request") -> None:
    """Take note of the beat, and answer by one that no request asked for."""
    if len(request.body) - request.position != INT32.size:
        raise DecodeError("a beat holds a broker id and nothing else")
    (replica,) = INT32.unpack_from(request.body, request.position)
    broker.observer.followers.beat_came(int(replica), request.connection)
    request.reply_nothing()
