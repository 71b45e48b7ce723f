"""One request to one certain broker, without a client library's own choice of whom to ask."""

from typing import Any

from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_response, encode_request, request_type
from syncline.wire.entities import build
from tests.conformance.wire_client import Answer, Connection, request_frame


def ask(port: int, key: ApiKey, version: int, fields: dict[str, Any], within_ms: int = 10_000) -> Any:
    """Return the answer of the broker at `port` as an entity."""
    connection = Connection("127.0.0.1", port)
    try:
        body = encode_request(build(request_type(key, version), fields))
        connection.send(request_frame(key, version, connection.next_correlation_id(), body, client_id="raw"))
        answer = connection.receive(key, version, within_ms)
    finally:
        connection.close()
    assert isinstance(answer, Answer), f"{key.name} v{version} at port {port}: {answer}"
    return decode_response(key, version, answer.body)


def metadata(port: int) -> Any:
    """Return what the broker at `port` knows of all topics."""
    fields = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    return ask(port, ApiKey.METADATA, 12, fields)
