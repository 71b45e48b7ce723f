"""Outgoing: the answers that one callback makes ready leave together, in one write per connection.

One hard idea: one fetch of a follower may move the high watermark over the records of many requests. Each of their
answers would be a system call of its own, which takes longer than all else that is done for it. So while a callback
handles requests, connections keep what they would write, and write it when the callback ends, no later.

    handling begins ──collects──> answers stay with their connections
        └── a connection has 64 KiB of them: it writes at once
        └── a follower's fetch has committed records ──leave──> their answers, before that fetch parks
    handling ends ──leave──> one write per connection, in the order of their first answers

After that, when woken fetches are answered, and outside of such callbacks, in timers or results of threads, each answer
is written when it is made.
Invariant: between two callbacks no answer is left behind.
"""

import logging
from typing import Final, Protocol

log = logging.getLogger("syncline.node")

# A connection with more than this to write does not wait for the end of the callback. Units: bytes.
TOGETHER_BYTES_MAX: Final = 64 << 10


class Sender(Protocol):
    """A connection with answers that have not been written."""

    def send(self) -> None:
        """Write them."""


class Outgoing:
    """The connections of one broker that have answers to write when the current callback ends."""

    __slots__ = ("collects", "senders")

    def __init__(self) -> None:
        # Whether the current callback ends with `leave`.
        self.collects = False
        self.senders: list[Sender] = []

    def leave(self) -> None:
        """Have every connection write its answers."""
        while self.senders:
            senders, self.senders = self.senders, []
            for sender in senders:
                try:
                    sender.send()
                except Exception:
                    # A failure must not keep the answers of other connections back.
                    log.exception("responses could not be written")
