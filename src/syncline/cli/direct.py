"""Requests that the client library does not have, to any broker or to a certain one, over connections of our own.

confluent-kafka knows neither reassignments (45, 46) nor log directories (34, 35), and cannot name the configurations
of all brokers. Each broker gets one blocking connection when it is first asked. It says which versions it serves, and
the newest one that both sides know is used. A connection that fails is opened once more, for a broker that restarted.
A broker that did not answer in time gets less time until it answers.
"""

import socket
import struct
from collections.abc import Mapping
from typing import Any, Final, Self

from syncline.cli.target import CONNECT_TIMEOUT_S, PORT_DEFAULT, REQUEST_TIMEOUT_S
from syncline.local.layout import LocalClusterError
from syncline.wire.api import ApiKey

CLIENT_ID: Final = "syncline-cli"
# The newest version of each message that this command understands.
_NEWEST: Final = {
    ApiKey.METADATA: 12,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 4,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
}
# How long to wait for a broker that did not answer in time before.
LATE_AGAIN_S: Final = 1.0
_OLDEST: Final = {ApiKey.METADATA: 9, ApiKey.DESCRIBE_CONFIGS: 1, ApiKey.DESCRIBE_LOG_DIRS: 1}


class BrokerSilentError(LocalClusterError):
    """A broker cannot be reached, or closed the connection."""


class Direct:
    """Connections to the brokers of a cluster, and the way to ask them.

    `patience_s` is how long a broker may take to answer. If any broker may answer, the last one gets the usual time.
    """

    def __init__(self, bootstrap: str, patience_s: float = REQUEST_TIMEOUT_S) -> None:
        self._patience_s = patience_s
        self._bootstrap = [_address(each) for each in bootstrap.split(",")]
        self._places: dict[int, tuple[str, int]] = {}
        self._lines: dict[tuple[str, int], _Line] = {}
        self._late: set[tuple[str, int]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines.values():
            line.close()
        self._lines.clear()

    def learn(self, places: Mapping[int, tuple[str, int]]) -> None:
        """Remember where brokers are."""
        self._places = dict(places)

    def ask(self, key: ApiKey, fields: Mapping[str, Any]) -> Any:
        """Return the answer of the first broker that gives one. Raises LocalClusterError."""
        known = list(dict.fromkeys([*self._lines, *self._bootstrap, *self._places.values()]))
        problem: Exception | None = None
        for place in known:
            try:
                return self._ask(place, key, fields, REQUEST_TIMEOUT_S if place == known[-1] else self._patience_s)
            except BrokerSilentError as error:
                problem = error
        servers = ",".join(f"{host}:{port}" for host, port in self._bootstrap)
        raise LocalClusterError(f"no broker answers at {servers} ({problem}). Is the cluster up?")

    def ask_broker(self, broker: int, key: ApiKey, fields: Mapping[str, Any]) -> Any:
        """Return the answer of one broker. Raises BrokerSilentError, also if nobody knows where it is."""
        place = self._places.get(broker)
        if place is None:
            raise BrokerSilentError(f"broker {broker} is not among the brokers that run")
        return self._ask(place, key, fields, LATE_AGAIN_S if place in self._late else self._patience_s)

    def _ask(self, place: tuple[str, int], key: ApiKey, fields: Mapping[str, Any], patience_s: float) -> Any:
        for is_last in (place not in self._lines, True):
            try:
                line = self._lines.get(place)
                if line is None:
                    line = self._lines[place] = _Line(place)
                answer = line.exchange(key, fields, patience_s)
            except (OSError, EOFError) as error:
                stale = self._lines.pop(place, None)
                if stale is not None:
                    stale.close()
                if isinstance(error, TimeoutError):
                    self._late.add(place)
                if is_last or isinstance(error, TimeoutError):
                    why = "it does not answer in time" if isinstance(error, TimeoutError) else str(error)
                    raise BrokerSilentError(f"{place[0]}:{place[1]}: {why}") from None
            else:
                self._late.discard(place)
                return answer
        raise AssertionError("the second try is the last one")


class _Line:
    """One connection."""

    def __init__(self, place: tuple[str, int]) -> None:
        self._place = place
        try:
            self._socket = socket.create_connection(place, CONNECT_TIMEOUT_S)
        except UnicodeError:
            raise OSError("there is no such host") from None
        self._correlation_id = 0
        self._served: dict[int, tuple[int, int]] = {}

    def close(self) -> None:
        self._socket.close()

    def exchange(self, key: ApiKey, fields: Mapping[str, Any], patience_s: float) -> Any:
        """Return the answer to a request in the newest version that both sides know. Raises LocalClusterError."""
        from syncline.wire.codec import decode_response, encode_request, request_type
        from syncline.wire.entities import build
        from syncline.wire.errors import DecodeError

        self._socket.settimeout(patience_s)
        version = self._version(key)
        body = encode_request(build(request_type(key, version), fields))
        try:
            return decode_response(key, version, self._answer(key, version, body))
        except DecodeError as error:
            host, port = self._place
            raise LocalClusterError(
                f"the broker at {host}:{port} sends an answer that makes no sense: {error}"
            ) from None

    def _version(self, key: ApiKey) -> int:
        if not self._served:
            from syncline.wire.codec import decode_response

            answer = decode_response(ApiKey.API_VERSIONS, 0, self._answer(ApiKey.API_VERSIONS, 0, b""))
            self._served = {int(row.api_key): (int(row.min_version), int(row.max_version)) for row in answer.api_keys}
        oldest, newest = self._served.get(key, (0, -1))
        version = min(newest, _NEWEST[key])
        if version < max(oldest, _OLDEST.get(key, 0)):
            host, port = self._place
            raise LocalClusterError(
                f"the broker at {host}:{port} does not serve {key.name} in a version that this command knows."
            )
        return version

    def _answer(self, key: ApiKey, version: int, body: bytes) -> memoryview:
        from syncline.wire.api import response_header_version
        from syncline.wire.frames import frame_request
        from syncline.wire.response_header import response_body_position

        self._correlation_id += 1
        self._socket.sendall(b"".join(frame_request(key, version, self._correlation_id, CLIENT_ID, [body])))
        (size,) = struct.unpack(">i", self._receive(4))
        frame = memoryview(self._receive(size))
        (correlation_id,) = struct.unpack_from(">i", frame)
        if correlation_id != self._correlation_id:
            raise EOFError("an answer belongs to another request")
        return frame[response_body_position(frame, response_header_version(key, version)) :]

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise EOFError("the connection was closed")
            data += part
        return bytes(data)


def refuse_errors(what: str, code: int, message: str | None) -> None:
    """Raise `LocalClusterError` if an answer has an error code: what failed, why, and Kafka's name for it."""
    if code:
        raise LocalClusterError(f"{what}: {error_text(code, message)}")


def error_text(code: int, message: str | None) -> str:
    """Return an error of an answer as text: the broker's message and Kafka's name for the code."""
    from syncline.model.errors import ErrorCode

    known = next((each.name for each in ErrorCode if each == code), f"error {code}")
    return f"{message} ({known})" if message else known


def _address(text: str) -> tuple[str, int]:
    server = text.strip().rpartition("://")[2]
    if server.endswith("]") or ":" not in server:
        return server.strip("[]"), int(PORT_DEFAULT)
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)
