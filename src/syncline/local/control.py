"""The client of the control API: requests to a running broker beside Kafka's protocol.

    for broker_id, control in controls("syncline-data").items():
        print(broker_id, control.call("broker.describe")["is_controller"])

Plain blocking sockets, one connection per call: it works in tests, in scripts and in threads alike. A broker takes
calls that carry the secret of its data directory (`control_secret`), which only the directory's user can read.
`syncline.node.control.verbs` lists the verbs; a refusal raises `ControlError`.
"""

import json
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from syncline.local.layout import Layout, LocalClusterError
from syncline.local.ports import HOST
from syncline.wire.api import ApiKey, response_header_version
from syncline.wire.frames import frame_request
from syncline.wire.response_header import response_body_position

TIMEOUT_S: Final = 10.0
_T = TypeVar("_T")
_VERSION: Final = 0


class ControlError(LocalClusterError):
    """A broker cannot be reached, or refuses; the message says why and what to do."""


class Control:
    """The control API of one broker."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        secret: str | None = None,
        broker_id: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.host = host
        self.port = port
        self.broker_id = broker_id
        self._secret = secret
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"Control({self.host}:{self.port}, broker {self.broker_id})"

    def call(self, verb: str, *, timeout_s: float | None = None, **fields: Any) -> dict[str, Any]:
        """Return the answer's fields without `error`; raises `ControlError` with the broker's message or our own."""
        patience_s = timeout_s or self._timeout_s
        until_ms = time.time_ns() // 1_000_000 + round(patience_s * 1_000)
        known = {} if self._secret is None else {"secret": self._secret}
        body = json.dumps({"verb": verb, "until_ms": until_ms, **known, **fields}).encode()
        parts = frame_request(ApiKey.CONTROL, _VERSION, 0, "control", [body])
        try:
            with socket.create_connection((self.host, self.port), patience_s) as line:
                line.sendall(b"".join(parts))
                frame = _receive(line, struct.unpack(">i", _receive(line, 4))[0])
        except TimeoutError:
            raise ControlError(
                f"{self._who} does not answer within {patience_s:g} s. It may be paused, or its disk may be "
                "stuck: `syncline status` shows its process."
            ) from None
        except OSError as error:
            raise ControlError(
                f"{self._who} cannot be reached ({error.strerror or error}). Its process may have ended just now: "
                "`syncline status` shows it."
            ) from None
        position = response_body_position(frame, response_header_version(ApiKey.CONTROL, _VERSION))
        answer: dict[str, Any] = json.loads(frame[position:])
        error_text = answer.pop("error", None)
        if error_text is not None:
            raise ControlError(error_text)
        return answer

    @property
    def _who(self) -> str:
        where = f"{self.host}:{self.port}"
        return f"the broker at {where}" if self.broker_id is None else f"broker {self.broker_id} at {where}"


def controls(directory: str | Path, *, timeout_s: float = TIMEOUT_S) -> dict[int, Control]:
    """Return the control API of each broker of the cluster that runs in a data directory, by broker id."""
    layout = Layout(Path(directory).absolute())
    running = layout.running()
    if running is None:
        raise ControlError(
            f"no cluster is running in {directory}. Start one with `syncline up`, or name its data directory."
        )
    if not running.internal_ports:
        raise ControlError(f"the cluster in {directory} was started by an older Syncline. Restart it.")
    secret = layout.control_secret()
    return {
        broker_id: Control(HOST, port, secret=secret, broker_id=broker_id, timeout_s=timeout_s)
        for broker_id, port in sorted(running.internal_ports.items())
    }


def ask_all(
    brokers: Mapping[int, Control], question: Callable[[Control], _T]
) -> Iterator[tuple[int, _T | ControlError]]:
    """Yield what each broker answers, or why it does not, as it comes: one that is silent delays no other.

    Who has enough need not wait for the rest.
    """
    results: queue.SimpleQueue[tuple[int, _T | BaseException]] = queue.SimpleQueue()

    def ask(broker_id: int, control: Control) -> None:
        try:
            results.put((broker_id, question(control)))
        except BaseException as error:  # noqa: BLE001 - the thread that waits for the answer raises it
            results.put((broker_id, error))

    for broker_id, control in brokers.items():
        # A daemon: a command ends without waiting for a broker that is silent.
        threading.Thread(target=ask, args=(broker_id, control), daemon=True).start()
    for _ in brokers:
        broker_id, result = results.get()
        if isinstance(result, BaseException) and not isinstance(result, ControlError):
            raise result
        yield broker_id, result


def answers_of_all(
    brokers: Mapping[int, Control], question: Callable[[Control], _T]
) -> tuple[dict[int, _T], dict[int, str]]:
    """Return the answers of all brokers that give one, and an error message for each that does not, by broker id."""
    answers: dict[int, _T] = {}
    silent: dict[int, str] = {}
    for broker_id, result in ask_all(brokers, question):
        if isinstance(result, ControlError):
            silent[broker_id] = str(result)
        else:
            answers[broker_id] = result
    return dict(sorted(answers.items())), dict(sorted(silent.items()))


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionError("the connection was closed before the answer")
        received += part
    return bytes(received)
