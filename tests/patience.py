"""Waiting for other processes: as long as they take, up to a limit."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 20.0
PAUSE_S = 0.02


def eventually(look: Callable[[], T], wanted: Callable[[T], bool], *, within_s: float = PATIENCE_S) -> T:
    """Look until the value is as wanted; after the limit return the last value, for the test to judge."""
    deadline_s = time.monotonic() + within_s
    while not wanted(seen := look()) and time.monotonic() < deadline_s:
        time.sleep(PAUSE_S)
    return seen


def until(
    condition: Callable[[], object], within_s: float = PATIENCE_S, *, otherwise: object = "", pause_s: float = PAUSE_S
) -> float:
    """Return after how many seconds something held; fail with `otherwise` after the limit."""
    began_s = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - began_s
        assert waited_s < within_s, f"{otherwise() if callable(otherwise) else otherwise} within {within_s} s".strip()
        time.sleep(pause_s)
    return time.monotonic() - began_s
