"""What connections of an attacker do, as data, and what came of it.

A stream is a number of connections to one port that all do the same: send bytes at some pace, read the answers or
not, and leave in some way. Times are seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum


class Leaving(Enum):
    """How a connection ends from the attacker's side."""

    CLOSE = "close"
    RESET = "reset"


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What each of `connections` connections to `port` does.

    A connection is over when the broker closes it, when it has `answers` answers, or, if it expects none, `hold_s`
    after its last byte. `rounds` connections follow each other in each place.
    """

    port: int
    # Connection number N sends data[N % len(data)].
    data: Sequence[bytes]
    connections: int = 1
    rounds: int = 1
    # Sent at a time, with a pause after each; 0 means as much as the socket takes.
    chunk_bytes: int = 0
    pause_s: float = 0.0
    reads: bool = True
    answers: int = 0
    hold_s: float = 0.0
    # Whether it closes its sending side after the last byte.
    half_closes: bool = False
    leaving: Leaving = Leaving.CLOSE
    # Judges each whole answer (behind its size): "" if it is what a broker should say, else what is wrong with it.
    judge: Callable[[bytes], str] | None = None


@dataclass
class Outcome:
    """What came of streams, as numbers of connections, answers and bytes."""

    opened: int = 0
    # No connection was made, or it was reset at once.
    refused: int = 0
    # The broker closed before the attacker would have.
    closed: int = 0
    # Still waiting for an answer, or for the rest of its bytes to be taken, at the time limit.
    unfinished: int = 0
    answers: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    took_s: float = 0.0
    findings: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        """Add what another stream came to."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def __str__(self) -> str:
        parts = [
            f"{self.sent_bytes / 1e6:.1f} MB sent",
            f"{self.answers} answers of {self.received_bytes / 1e6:.1f} MB",
        ]
        parts += [
            f"{count} {name}"
            for name, count in (("closed", self.closed), ("refused", self.refused), ("unfinished", self.unfinished))
            if count
        ]
        return f"{', '.join(parts)} in {self.took_s:.1f} s"
