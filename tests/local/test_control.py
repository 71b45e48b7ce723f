"""The control API's client: one call, one answer, and a sentence for everything else."""

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from syncline.local import control
from syncline.local.control import Control, ControlError, LeftOutError, answers_of_all, ask_all, controls
from syncline.wire.api import ApiKey
from syncline.wire.request_header import parse_request_header
from tests.patience import PATIENCE_S

Answer = Callable[[bytes], bytes]


@contextlib.contextmanager
def broker(answer: Answer) -> Iterator[Control]:
    """A listener that handles one call with `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            line, _ = listener.accept()
            with line:
                received = b""
                while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
                    received += line.recv(65_536)
                line.sendall(answer(received[4:]))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Control("127.0.0.1", listener.getsockname()[1], broker_id=7, timeout_s=2)
        thread.join(5)


def framed(answer: object) -> bytes:
    """Return an answer as a broker sends it."""
    body = b"\x00\x00\x00\x00\x00" + json.dumps(answer).encode()
    return struct.pack(">i", len(body)) + body


def test_call_sends_the_verb_with_its_fields_and_returns_the_answer() -> None:
    """The request is CONTROL version 0; the answer comes without its error."""
    asked: list[bytes] = []

    def answer(frame: bytes) -> bytes:
        asked.append(frame)
        return framed({"error": None, "n": 3})

    with broker(answer) as control:
        assert control.call("room.what", color="red") == {"n": 3}
    header = parse_request_header(asked[0])
    assert (header.key, header.version, header.client_id) == (ApiKey.CONTROL, 0, "control")
    fields = json.loads(asked[0][header.body_position :])
    # Until when the caller waits for the answer.
    assert 0 < fields.pop("until_ms") - time.time() * 1_000 <= 2_000
    assert fields == {"verb": "room.what", "color": "red"}


def test_refusal_is_raised_with_the_brokers_sentence() -> None:
    """What the broker says is what the caller sees."""
    with broker(lambda _: framed({"error": "no."})) as control, pytest.raises(ControlError, match=r"^no\.$"):
        control.call("x")


def test_broker_that_closes_or_refuses_is_named() -> None:
    """The process may have ended: the sentence says where to look."""
    with broker(lambda _: b"") as control, pytest.raises(ControlError, match=r"broker 7 at .* may have ended"):
        control.call("x")
    with pytest.raises(ControlError, match="`syncline status` shows it"):
        control.call("x")


def test_broker_that_is_silent_is_given_up() -> None:
    """A paused process accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        control = Control("127.0.0.1", listener.getsockname()[1])
        with pytest.raises(ControlError, match=r"does not answer within 0\.1 s\. It may be paused"):
            control.call("x", timeout_s=0.1)


def test_controls_need_a_cluster_that_runs(tmp_path: Path) -> None:
    """The directory is named."""
    with pytest.raises(ControlError, match=f"no cluster is running in {tmp_path}"):
        controls(tmp_path)


class _Broker(Control):
    """A broker that answers when it may, or refuses."""

    def __init__(self, broker_id: int, may_answer: threading.Event, *, refuses: bool = False) -> None:
        super().__init__("127.0.0.1", 1, broker_id=broker_id)
        self._may_answer = may_answer
        self._refuses = refuses

    def call(self, verb: str, *, timeout_s: float | None = None, **fields: Any) -> dict[str, Any]:
        """Return the verb."""
        assert self._may_answer.wait(timeout_s or PATIENCE_S)
        if self._refuses:
            raise ControlError("no")
        return {"verb": verb, **fields}


def test_all_are_asked_at_once_and_who_has_enough_waits_for_nobody() -> None:
    """Guards: brokers were asked one after the other, and each that was silent took its whole time."""
    never, at_once = threading.Event(), threading.Event()
    at_once.set()
    brokers = {1: _Broker(1, never), 2: _Broker(2, at_once), 3: _Broker(3, at_once, refuses=True)}
    answers = ask_all(brokers, lambda broker: broker.call("x"))

    first = dict([next(answers), next(answers)])

    assert first[2] == {"verb": "x"}
    assert isinstance(first[3], ControlError)
    never.set()
    assert next(answers) == (1, {"verb": "x"})


class _Witness(_Broker):
    """A broker that knows which ones the cluster has fenced."""

    def __init__(self, broker_id: int, may_answer: threading.Event, *unfenced: int) -> None:
        super().__init__(broker_id, may_answer)
        self._unfenced = unfenced

    def call(self, verb: str, *, timeout_s: float | None = None, **fields: Any) -> dict[str, Any]:
        """Return the verb, or which brokers are not fenced."""
        if verb == "replicas.show":
            return {"unfenced": list(self._unfenced)}
        return super().call(verb, timeout_s=timeout_s, **fields)


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "PROMPT_S", 0.1)


@pytest.mark.usefixtures("_soon")
def test_broker_that_the_cluster_has_fenced_is_not_waited_for() -> None:
    """Guards: `isr` and others took 5 s each while a broker was paused, long after the cluster went on without it."""
    never, at_once = threading.Event(), threading.Event()
    at_once.set()
    brokers = {1: _Broker(1, never), 2: _Witness(2, at_once, 2, 3), 3: _Witness(3, at_once, 2, 3)}

    found = dict(ask_all(brokers, lambda broker: broker.call("x")))

    assert found.keys() == {1, 2, 3}
    assert isinstance(found[1], LeftOutError)
    assert "broker 1" in str(found[1])
    assert "the cluster goes on without it" in str(found[1])


@pytest.mark.usefixtures("_soon")
def test_broker_that_is_not_fenced_is_waited_for() -> None:
    """It is as slow as the machine may be, and only it knows what it leads."""
    late, at_once = threading.Event(), threading.Event()
    at_once.set()
    brokers = {1: _Broker(1, late), 2: _Witness(2, at_once, 1, 2)}
    answers = ask_all(brokers, lambda broker: broker.call("x"))
    assert next(answers) == (2, {"verb": "x"})
    threading.Timer(0.5, late.set).start()

    assert next(answers) == (1, {"verb": "x"})


@pytest.mark.usefixtures("_soon")
def test_nobody_is_waited_for_by_who_has_enough() -> None:
    """The others have told all that was asked; the one that is silent is named nevertheless."""
    never, at_once = threading.Event(), threading.Event()
    at_once.set()
    brokers = {1: _Broker(1, never), 2: _Broker(2, at_once)}

    answers, silent = answers_of_all(
        brokers, lambda broker: broker.call("x"), is_enough=lambda known: known == {2: {"verb": "x"}}
    )

    assert answers == {2: {"verb": "x"}}
    assert "broker 1" in silent[1]
    assert "does not answer" in silent[1]


def test_answers_and_reasons_are_in_the_order_of_brokers() -> None:
    """Whoever was quickest."""
    at_once = threading.Event()
    at_once.set()
    brokers = {number: _Broker(number, at_once, refuses=number % 2 == 0) for number in (1, 2, 3, 4)}

    answers, silent = answers_of_all(brokers, lambda broker: broker.call("x"))

    assert list(answers) == [1, 3]
    assert silent == {2: "no", 4: "no"}
