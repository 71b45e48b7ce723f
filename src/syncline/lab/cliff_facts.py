"""What a run of `cache-cliff` measured, round by round, and what follows from it.

One hard idea: a reader that falls behind steadily was at every distance up to its present one for the same time. So the
share of its reads that some memory would have served says how far behind it is now: if half of the memory would have
served 60 % of them, it passed that distance after 60 % of the time, and passes the whole memory after 120 %.

Units: bytes of one log, unless a name says otherwise; milliseconds.
"""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from syncline.core.lag.buckets import Weighted


class Round(NamedTuple):
    """What one round wrote and read; waits are those of the slowest fetch of each reader."""

    written_bytes: int
    """Of all logs together, since the beginning."""
    distance_bytes: int
    """How much of each log lay behind the first bytes that the late reader got."""
    late_hit_bytes: int
    late_missed_bytes: int
    late_ms: float
    large_ms: float
    small_ms: float

    @property
    def missed_share(self) -> float:
        """The share of the late reader's bytes that came from disk."""
        return self.late_missed_bytes / max(1, self.late_hit_bytes + self.late_missed_bytes)


class Waits(NamedTuple):
    """How long the slowest fetch of a round took, in the median of some rounds."""

    late_ms: float
    large_ms: float
    small_ms: float


class Kept(NamedTuple):
    """The late reader's curve, kept before it fell off."""

    round_count: int
    distances: Weighted
    """Of all that the late reader had read until then."""


class CliffFacts(NamedTuple):
    """A whole run."""

    memory_bytes: int
    """How much of each log the broker keeps in memory."""
    delay_ms: int
    """The delay of a read that memory cannot serve."""
    kept: Kept
    rounds: Sequence[Round]

    @property
    def kept_round(self) -> Round:
        """The round after which the curve was kept."""
        return self.rounds[self.kept.round_count - 1]

    @property
    def fell_at(self) -> int:
        """The index of the first round in which something came from disk; without one, there is no story."""
        return next(index for index, each in enumerate(self.rounds) if each.late_missed_bytes)

    @property
    def predicted_written_bytes(self) -> float:
        """How much is written to all logs together when the late reader falls off, by the curve."""
        half_share = self.kept.distances.share_within(self.memory_bytes / 2, by_bytes=True)
        return self.kept_round.written_bytes * 2 * half_share

    @property
    def measured_written_bytes(self) -> int:
        """How much was written to all logs together when it fell off."""
        return self.rounds[self.fell_at].written_bytes

    @property
    def error(self) -> float:
        """How far the predicted amount is below the measured one, as a share; negative if it is above."""
        return 1 - self.predicted_written_bytes / self.measured_written_bytes

    @property
    def before(self) -> Sequence[Round]:
        """The rounds in which everything came from memory."""
        return self.rounds[: self.fell_at]

    @property
    def after(self) -> Sequence[Round]:
        """The rounds since the late reader fell off."""
        return self.rounds[self.fell_at :]


def hit_ratio(rounds: Sequence[Round]) -> float:
    """Return the share of the late reader's bytes that was in memory."""
    hit_bytes = sum(each.late_hit_bytes for each in rounds)
    return hit_bytes / max(1, hit_bytes + sum(each.late_missed_bytes for each in rounds))


def waits(rounds: Sequence[Round]) -> Waits:
    """Return how long fetches took."""
    return Waits(
        median(each.late_ms for each in rounds),
        median(each.large_ms for each in rounds),
        median(each.small_ms for each in rounds),
    )
