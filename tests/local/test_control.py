"""The control API's client: one call, one answer, and a sentence for everything else."""

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from syncline.local.control import Control, ControlError, controls
from syncline.wire.api import ApiKey
from syncline.wire.request_header import parse_request_header

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
