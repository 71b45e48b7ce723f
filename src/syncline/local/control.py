"""The client of the control API: requests to a running broker beside Kafka's protocol.

    for broker_id, control in controls("syncline-data").items():
        print(broker_id, control.call("broker.describe")["is_controller"])

Plain blocking sockets, one connection per call: it works in tests, in scripts and in threads alike. A broker takes
calls that carry the secret of its data directory (`control_secret`), which only the directory's user can read.
`syncline.node.control.verbs` lists the verbs; a refusal raises `ControlError`.
"""

import json
import math
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
# How long a silent broker is waited for at least. After that only if it may know what the others do not.
PROMPT_S: Final = 1.0
_T = TypeVar("_T")
_VERSION: Final = 0
_PERHAPS: Final = "It may be paused, or its disk may be stuck: `syncline status` shows its process."


class ControlError(LocalClusterError):
    """A broker cannot be reached, or refuses; the message says why and what to do."""


class LeftOutError(ControlError):
    """A broker is silent, and the cluster runs without it: it leads no partition and coordinates no group."""


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
            raise ControlError(f"{self._who} does not answer within {patience_s:g} s. {_PERHAPS}") from None
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

    def late(self) -> ControlError:
        """Return the error of a broker that is not waited for: the other brokers have answered enough."""
        return ControlError(f"{self._who} does not answer within {PROMPT_S:g} s. {_PERHAPS}")

    def left_out(self) -> LeftOutError:
        """Return that this broker is silent, and fenced."""
        return LeftOutError(f"{self._who} does not answer, and the cluster goes on without it. {_PERHAPS}")

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
    brokers: Mapping[int, Control],
    question: Callable[[Control], _T],
    *,
    has_enough: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[int, _T | ControlError]]:
    """Yield what each broker answers, or why it does not, as it comes: one that is silent delays no other.

    Who has enough need not wait for the rest. A broker that is silent for `PROMPT_S` is given up if the caller says
    that it has enough, or if a broker that answers says that the cluster has fenced it.
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
    prompt_until_s = time.monotonic() + PROMPT_S
    silent = dict(brokers)
    # One that has answered, and knows whom the cluster has fenced.
    witness: Control | None = None
    while silent:
        try:
            left_s = None if witness is None else max(0.0, prompt_until_s - time.monotonic())
            broker_id, result = results.get(timeout=left_s)
        except queue.Empty:
            assert witness is not None, "without one, results are waited for without a limit"
            yield from _given_up(silent, witness, has_enough)
            # Asked once: who is silent now has the rest of its time.
            witness, prompt_until_s = None, math.inf
            continue
        if broker_id not in silent:
            continue
        control = silent.pop(broker_id)
        if isinstance(result, BaseException) and not isinstance(result, ControlError):
            raise result
        if not isinstance(result, ControlError) and prompt_until_s < math.inf:
            witness = control
        yield broker_id, result


def _given_up(
    silent: dict[int, Control], witness: Control, has_enough: Callable[[], bool]
) -> Iterator[tuple[int, ControlError]]:
    """Take out of `silent` the brokers that are not waited for any longer, and yield why."""
    if has_enough():
        for broker_id in list(silent):
            yield broker_id, silent.pop(broker_id).late()
        return
    try:
        # No topic has this name: only the brokers are wanted.
        unfenced = witness.call("replicas.show", timeout_s=PROMPT_S, topic="")["unfenced"]
    except ControlError:
        return
    for broker_id in [each for each in silent if each not in unfenced]:
        yield broker_id, silent.pop(broker_id).left_out()


def answers_of_all(
    brokers: Mapping[int, Control],
    question: Callable[[Control], _T],
    *,
    is_enough: Callable[[Mapping[int, _T]], bool] = lambda _: False,
) -> tuple[dict[int, _T], dict[int, str]]:
    """Return the answers of all brokers that give one, and an error message for each that does not, by broker id.

    `is_enough` says whether these answers hold all that could be told.
    """
    answers: dict[int, _T] = {}
    silent: dict[int, str] = {}
    for broker_id, result in ask_all(brokers, question, has_enough=lambda: is_enough(answers)):
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
