"""Configurations of all brokers at once: Kafka's "default" broker, which has no name.

The client library cannot name it, so this module encodes the one request by hand. Any broker accepts it and forwards it
to the controller.
"""

import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from syncline.cli.target import REQUEST_TIMEOUT_S
from syncline.local.layout import LocalClusterError

_VERSION: Final = 1
_BROKER: Final = 4
_SET: Final = 0
_DELETE: Final = 1


def alter_all_brokers(bootstrap: str, changes: Mapping[str, str], removals: Sequence[str]) -> None:
    """Change configurations of the whole cluster, all or none; raises `LocalClusterError` with the reason."""
    from syncline.wire.api import ApiKey
    from syncline.wire.codec import encode_request, request_type
    from syncline.wire.entities import build

    configs: list[dict[str, Any]] = [
        {"name": name, "config_operation": _SET, "value": value} for name, value in changes.items()
    ]
    configs += [{"name": name, "config_operation": _DELETE, "value": None} for name in removals]
    fields = {
        "resources": [{"resource_type": _BROKER, "resource_name": "", "configs": configs}],
        "validate_only": False,
    }
    body = encode_request(build(request_type(ApiKey.INCREMENTAL_ALTER_CONFIGS, _VERSION), fields))
    answer = _ask_any(bootstrap, ApiKey.INCREMENTAL_ALTER_CONFIGS, body)
    for result in answer.responses:
        if int(result.error_code):
            from syncline.model.errors import ErrorCode

            code = ErrorCode(int(result.error_code)).name
            raise LocalClusterError(f"cannot alter all brokers: {result.error_message or code} ({code})")


def _ask_any(bootstrap: str, key: int, body: bytes) -> Any:
    """Return the answer of the first broker that gives one."""
    from syncline.wire.codec import decode_response

    problem: Exception | None = None
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            return decode_response(key, _VERSION, _exchange(host.strip("[]"), int(port), key, body))
        except (OSError, ValueError, EOFError) as error:
            problem = error
    raise LocalClusterError(f"no broker of {bootstrap} answers ({problem}). Is the cluster up?")


def _exchange(host: str, port: int, key: int, body: bytes) -> memoryview:
    from syncline.wire.api import response_header_version
    from syncline.wire.frames import frame_request
    from syncline.wire.response_header import response_body_position

    with socket.create_connection((host, port), REQUEST_TIMEOUT_S) as connection:
        connection.sendall(b"".join(frame_request(key, _VERSION, 0, "syncline", [body])))
        (size,) = struct.unpack(">i", _receive(connection, 4))
        frame = memoryview(_receive(connection, size))
    return frame[response_body_position(frame, response_header_version(key, _VERSION)) :]


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError("the connection was closed")
        data += part
    return bytes(data)
