"""The events of a run, as lines and as one hash.

Each event (bytes delivered on a link, a disk operation, a commit, a fault, a
step of a broker, an answer to a client) is one tuple of integers and strings.
Two runs are the same if their hashes are the same; if not, the first line that
differs shows where to look. Nothing in an event may come from the process that
runs the simulation: no addresses, no real time.
"""

import hashlib
import zlib
from collections import deque
from typing import Final, TextIO

Event = tuple[int | str, ...]

FLUSH_AT_EVENTS: Final = 512
LAST_EVENTS_KEPT: Final = 400


class Trace:
    """The events of one run, hashed as they happen; also written to `lines` if given."""

    def __init__(self, lines: TextIO | None = None) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._pending: list[Event] = []
        self._lines = lines
        self.events = 0
        self.last: deque[Event] = deque(maxlen=LAST_EVENTS_KEPT)

    def record(self, *event: int | str) -> None:
        """Add an event; its first item is the time in ns."""
        self._pending.append(event)
        if len(self._pending) >= FLUSH_AT_EVENTS:
            self._flush()

    def digest(self) -> str:
        """Return the hash of all events so far, in hexadecimal."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        events, self._pending = self._pending, []
        self.events += len(events)
        self.last.extend(events)
        self._hash.update(repr(events).encode())
        if self._lines is not None:
            for event in events:
                self._lines.write(" ".join(map(str, event)) + "\n")


def fingerprint(data: bytes) -> int:
    """Return a number that represents `data` in an event."""
    return zlib.crc32(data)
