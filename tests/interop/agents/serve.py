"""The Python side of an agent: commands in, one JSON line each, answers out.

What a client library prints must not end up among the answers, so standard
output is kept for them alone and everything else goes to standard error.
"""

import base64
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

Headers = list[tuple[str, bytes | None]]


def encode(data: bytes | None) -> str | None:
    """Return bytes as text that JSON can carry; null stays null."""
    return None if data is None else base64.b64encode(bytes(data)).decode()


def decode(text: str | None) -> bytes | None:
    """Return the bytes behind such a text."""
    return None if text is None else base64.b64decode(text)


def headers_of(record: dict[str, Any]) -> Headers:
    """Return a command's record headers in the form that Python clients take."""
    return [(name, decode(value)) for name, value in record["headers"]]


def received(
    partition: int, offset: int, key: bytes | None, value: bytes | None, headers: Any, timestamp_ms: int
) -> dict[str, Any]:
    """Return a record that a client has read, as the answer to a command."""
    return {
        "partition": partition,
        "offset": offset,
        "key": encode(key),
        "value": encode(value),
        "headers": [[name, encode(content)] for name, content in headers or ()],
        "timestamp_ms": timestamp_ms,
    }


def serve(perform: Callable[[str, dict[str, Any]], Any]) -> None:
    """Answer every command from standard input until it closes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = {"id": command["id"], "answer": perform(command["do"], command["with"])}
        except Exception as error:  # noqa: BLE001 (the test decides what a failure means)
            traceback.print_exc()
            answer = {"id": command["id"], "error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
