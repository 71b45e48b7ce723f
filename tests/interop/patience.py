"""Waiting for what other processes do in their own time, with a limit."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 20.0
PAUSE_S = 0.02


def eventually(look: Callable[[], T], wanted: Callable[[T], bool], *, within_s: float = PATIENCE_S) -> T:
    """Look until what is seen is as wanted; after the limit return what was seen last, for the test to judge."""
    deadline_s = time.monotonic() + within_s
    while not wanted(seen := look()) and time.monotonic() < deadline_s:
        time.sleep(PAUSE_S)
    return seen
