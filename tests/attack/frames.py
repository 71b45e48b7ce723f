"""Whole request frames of an attacker: of any API, from fields as plain data."""

from collections.abc import Mapping
from typing import Any, Final

from syncline.wire.api import ApiKey
from syncline.wire.produce import encode_produce_request
from tests.conformance.kio_tree import encode_request, known_part
from tests.conformance.wire_client import request_frame

CLIENT_ID: Final = "attacker"
CORRELATION_ID: Final = 1
PRODUCE_VERSION: Final = 11
PRODUCE_TIMEOUT_MS: Final = 30_000


def frame(key: ApiKey, version: int, fields: Mapping[str, Any]) -> bytes:
    """Return a request; fields that are not given are empty or 0, those that this version lacks are left out."""
    return frame_of(key, version, encode_request(key, version, known_part(key, version, dict(fields))))


def frame_of(key: int, version: int, body: bytes) -> bytes:
    """Return a request with this body, which may be any bytes."""
    return request_frame(key, version, CORRELATION_ID, body, client_id=CLIENT_ID)


def produce_frame(topic: str, batch: bytes, *, acks: int = -1, partition: int = 0) -> bytes:
    """Return a Produce of one batch."""
    topics = [(topic, [(partition, batch)])]
    parts = encode_produce_request(PRODUCE_VERSION, acks=acks, timeout_ms=PRODUCE_TIMEOUT_MS, topics=topics)
    return frame_of(ApiKey.PRODUCE, PRODUCE_VERSION, b"".join(parts))
