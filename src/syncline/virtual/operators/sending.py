"""Requests of operators: each is sent once, to whichever broker a plan names, and its answer may be lost."""

from collections.abc import Mapping
from typing import Any

from syncline.node.links.peer import PeerConnection, PeerLost
from syncline.virtual.cluster import CLIENT_PORT
from syncline.wire.api import ApiKey
from syncline.wire.codec import encode_request, request_type
from syncline.wire.entities import build


async def send_once(client: str, host: str, key: ApiKey, version: int, fields: Mapping[str, Any]) -> None:
    """Send a request from one host to a broker; a fault that strikes the broker meanwhile is no error."""
    try:
        peer = await PeerConnection.connect(host, CLIENT_PORT, client)
    except PeerLost:
        return
    try:
        await peer.request_raw(key, version, (encode_request(build(request_type(key, version), fields)),))
    except PeerLost:
        return
    finally:
        peer.close()
