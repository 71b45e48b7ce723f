"""The content of a report as plain data: what the journal tells of one move.

Instants are Unix milliseconds, waits milliseconds, rates bytes per second. Time is cut into *bins* of one length, from
`start_ms` on; series have one value for each. A `None` for an end means "still so when the journal ended".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from syncline.model.ids import TopicPartition
from syncline.reassign.formulas import Part, Role


class Ending(StrEnum):
    """How a move, or one copy of it, ended; MIXED are partitions that ended in different ways."""

    COMPLETED = "completed"
    MIXED = "partly completed"
    CANCELLED = "cancelled"
    OVERTAKEN = "taken over by another request"
    RUNNING = "still running"


class Copied(NamedTuple):
    """What a new replica has of what its leader has, at one moment."""

    at_ms: int
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Copy:
    """One new replica: `joined_ms` is when it came into the ISR, `ended_ms` when its reassignment ended.

    `copied_bytes` is what it got meanwhile, None if it was done between two samples.
    """

    key: TopicPartition
    destination: int
    started_ms: int
    joined_ms: int | None
    ended_ms: int | None
    ending: Ending
    progress: tuple[Copied, ...]
    copied_bytes: int | None

    @property
    def name(self) -> str:
        """Return it in words: flights-3 → broker 4."""
        return f"{self.key} → broker {self.destination}"


class Level(NamedTuple):
    """A part's time under one throttle (None: without one): what it copied, and what only kept up with writes."""

    start_ms: int
    end_ms: int
    bound: float | None
    copied_bytes: float
    added_bytes: float

    @property
    def length_ms(self) -> int:
        """Return how long it lasted."""
        return self.end_ms - self.start_ms

    @property
    def rate(self) -> float:
        """Return the bytes per second that were copied."""
        return self.copied_bytes * 1_000 / self.length_ms

    @property
    def keep_up(self) -> float:
        """Return the bytes per second that keeping up took."""
        return self.added_bytes * 1_000 / self.length_ms

    @property
    def is_too_low(self) -> bool:
        """Whether keeping up took all of the throttle, so that the copy could not end."""
        return self.bound is not None and self.keep_up >= self.bound


@dataclass(frozen=True, slots=True)
class PartFacts:
    """What one broker did in one role, per bin: new replicas' bytes, and what only kept up with writes.

    `quotas` has None where nothing bounds, `remaining_bytes` is what its copies lack at
    the bin's end, and `held_share` in which part of the time something waited for a quota (None: no broker said so).
    """

    part: Part
    rates: tuple[float, ...]
    keep_up: tuple[float, ...]
    quotas: tuple[float | None, ...]
    remaining_bytes: tuple[int, ...]
    is_copying: tuple[bool, ...]
    levels: tuple[Level, ...]
    held_share: float | None

    @property
    def title(self) -> str:
        """Return it in words: broker 3 sends."""
        return f"broker {self.part.broker} {'sends' if self.part.role is Role.SENDING else 'receives'}"

    @property
    def did(self) -> str:
        """Return it in words, as of the past: broker 3 sent."""
        return f"broker {self.part.broker} {'sent' if self.part.role is Role.SENDING else 'received'}"


class Wait(NamedTuple):
    """How long the clients of the leader who waited longest waited for acknowledgements, in an interval's end."""

    at_ms: int
    broker: int
    answered: int
    p50_ms: int
    p99_ms: int
    max_ms: int


class Step(NamedTuple):
    """The throttle of the move from a moment on; None for no bound."""

    at_ms: int
    bytes_per_s: int | None


class Mark(NamedTuple):
    """Something that happened to the move, or to a broker of it."""

    at_ms: int
    label: str


class Stretch(NamedTuple):
    """What held the move back from one moment to another, in the doctor's words.

    `broker` is whom it concerned (None: everyone), `role` in which role (None: in both).
    """

    start_ms: int
    end_ms: int
    broker: int | None
    role: Role | None
    sentence: str

    def concerns(self, part: Part) -> bool:
        """Return whether it held back what a broker does in a role."""
        return self.broker in {None, part.broker} and self.role in {None, part.role}


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything on the page."""

    move_id: str
    name: str
    goal: str
    ending: Ending
    started_ms: int
    ended_ms: int | None
    start_ms: int
    end_ms: int
    bin_ms: int
    copies: tuple[Copy, ...]
    parts: tuple[PartFacts, ...]
    steps: tuple[Step, ...]
    waits: tuple[Wait, ...]
    marks: tuple[Mark, ...]
    held_back: tuple[Stretch, ...]
    reassigned: Mapping[TopicPartition, Ending]

    @property
    def took_ms(self) -> int:
        """Return how long the move lasted, up to the journal's end if it still runs."""
        return (self.end_ms if self.ended_ms is None else self.ended_ms) - self.started_ms

    @property
    def copied_bytes(self) -> int:
        """Return how much new replicas got, as far as samples show."""
        return sum(copy.copied_bytes or 0 for copy in self.copies)

    @property
    def title(self) -> str:
        """Return what the move is called."""
        if not self.move_id:
            return "the reassignment"
        return f"move {self.move_id}" + (f" ({self.name})" if self.name else "")
