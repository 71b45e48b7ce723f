"""The outcomes of controlled moves, the promises about them, and their tables.

A deadline: the command ends within a tenth of its time, or refuses the move with the true reason. A bound on clients:
their 99th percentile during the move is at most the bound above the one before and after it, because waits drift even
while nothing moves. A percentile is taken over windows of five seconds, a thousand responses each, and the median of
the windows counts: one pause of the machine affects one window.
"""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

WINDOW_ANSWERS: Final = 1_000
DEADLINE_TOLERANCE: Final = 0.10
BOUND_PERCENT: Final = 10
# This share of the moves with a bound must keep it.
KEPT_SHARE_MIN: Final = 0.9
# The announced end is right within this share, and this soon after the throttle was doubled.
ETA_TOLERANCE: Final = 0.20
AFTER_DOUBLING_S: Final = 15.0


@dataclass(frozen=True)
class Plan:
    """A move: partitions, their total size, the brokers before and after, and the produce load."""

    partitions: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_mb: int
    load_kb_s: int = 0
    deadline_s: int = 0
    # Options that make it impossible, and a part of the true reason.
    options: tuple[str, ...] = ()
    reason: str = ""
    # Whether the command is killed halfway and resumed.
    is_killed: bool = False

    @property
    def words(self) -> str:
        """Return what moves where."""
        replicas = " to ".join(",".join(map(str, brokers)) for brokers in (self.before, self.after))
        return f"{self.partitions} | {replicas} | {self.size_mb} | {self.load_kb_s or ''}"


@dataclass(frozen=True)
class Timed:
    """A move with a deadline: the seconds from the command's start to its end, or a refusal that changed nothing."""

    plan: Plan
    took_s: float
    refusal: str = ""
    # The exit codes of all commands were 0, and every replica is where it should be.
    is_complete: bool = True

    HEADINGS = (
        "| partitions | brokers | MB | load, kB/s | deadline | took | of the deadline | |\n"
        "|---|---|---|---|---|---|---|---|"
    )

    def row(self) -> str:
        """Return the row of the table."""
        if self.refusal:
            return f"| {self.plan.words} | {self.plan.deadline_s} s | | | refused: {self.refusal} |"
        notes = "the command was killed halfway and resumed" if self.plan.is_killed else ""
        share = self.took_s / self.plan.deadline_s
        return f"| {self.plan.words} | {self.plan.deadline_s} s | {self.took_s:.1f} s | {100 * share:.0f} % | {notes} |"

    def unmet(self) -> Iterator[str]:
        """Iterate over the promises that were not kept, one sentence each."""
        title = f"deadline of {self.plan.deadline_s} s for {self.plan.size_mb} MB"
        if self.plan.reason:
            if self.plan.reason not in self.refusal:
                yield f"{title}: refused with {self.refusal!r}, but the reason is {self.plan.reason!r}"
            return
        if self.refusal:
            yield f"{title}: refused: {self.refusal}"
        elif not self.is_complete:
            yield f"{title}: the move did not complete"
        elif abs(self.took_s / self.plan.deadline_s - 1) > DEADLINE_TOLERANCE:
            yield f"{title}: it took {self.took_s:.1f} s"


@dataclass(frozen=True)
class Bounded:
    """A move with a bound on clients: their waits before it, while it ran and after it, in order of time."""

    plan: Plan
    before_ms: Sequence[float]
    during_ms: Sequence[float]
    after_ms: Sequence[float]
    took_s: float
    moved_mb: float
    # CPU use of processes outside this run, in cores: before the move, while it ran and after it.
    others_cores: tuple[float, ...] = (0.0, 0.0, 0.0)

    HEADINGS = (
        "| partitions | brokers | MB | load, kB/s | took | MB/s | p99 before | during | after | change "
        "| of all responses |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )

    @property
    def without_ms(self) -> Sequence[float]:
        """Return the waits while nothing moved."""
        return [*self.before_ms, *self.after_ms]

    @property
    def change_percent(self) -> float:
        """Return how much longer clients waited, in per cent."""
        return 100 * (p99_ms(self.during_ms) / p99_ms(self.without_ms) - 1)

    @property
    def is_kept(self) -> bool:
        """Return whether the bound was kept."""
        return self.change_percent <= BOUND_PERCENT

    def row(self) -> str:
        """Return the row of the table."""
        pooled = 100 * (_percentile(self.during_ms) / _percentile(self.without_ms) - 1)
        return (
            f"| {self.plan.words} | {self.took_s:.0f} s | {self.moved_mb / self.took_s:.1f} "
            f"| {p99_ms(self.before_ms):.2f} ms | {p99_ms(self.during_ms):.2f} ms | {p99_ms(self.after_ms):.2f} ms "
            f"| {self.change_percent:+.0f} %{'' if self.is_kept else ' (above)'} | {pooled:+.0f} % |"
        )


def p99_ms(waits_ms: Sequence[float]) -> float:
    """Return the median of the percentiles of windows; less than half a window at the end joins the last one."""
    count = max(round(len(waits_ms) / WINDOW_ANSWERS), 1)
    edges = [number * WINDOW_ANSWERS for number in range(count)] + [len(waits_ms)]
    return statistics.median(_percentile(waits_ms[a:b]) for a, b in itertools.pairwise(edges))


def unkept(moves: Sequence[Bounded]) -> Iterator[str]:
    """Yield a sentence if too many moves were above their bound."""
    kept = sum(move.is_kept for move in moves)
    if kept < KEPT_SHARE_MIN * len(moves):
        yield f"{kept} of {len(moves)} moves kept clients within {BOUND_PERCENT} %, fewer than nine of ten"


@dataclass(frozen=True)
class Said:
    """The ends that `reassign status` announced: (when, in how many seconds), and the actual end, in seconds."""

    looks: Sequence[tuple[float, float]]
    ended_s: float
    # When its throttle was doubled, if it was.
    doubled_s: float | None = None

    def errors(self) -> list[tuple[str, float]]:
        """Return the relative errors: at each quarter, or the worst from 15 s after the doubling."""
        if self.doubled_s is None:
            return [
                (f"at {quarter} %", self._error(min(self.looks, key=lambda each: abs(each[0] - at_s))))
                for quarter in (25, 50, 75)
                for at_s in [self.ended_s * quarter / 100]
            ]
        # The end itself is noticed within a second, so the last seconds have no meaningful relative error.
        late = [each for each in self.looks if self.doubled_s + AFTER_DOUBLING_S <= each[0] <= self.ended_s - 3]
        return [("from 15 s after its throttle was doubled", max((self._error(each) for each in late), default=1.0))]

    def sentence(self) -> str:
        """Return all errors in words."""
        return ", ".join(f"off by {100 * error:.0f} % {when}" for when, error in self.errors())

    def unmet(self) -> Iterator[str]:
        """Iterate over the errors that were too large."""
        for when, error in self.errors():
            if error > ETA_TOLERANCE:
                yield f"the end that `reassign status` announced was off by {100 * error:.0f} % {when}"

    def _error(self, look: tuple[float, float]) -> float:
        at_s, left_s = look
        return abs(left_s / (self.ended_s - at_s) - 1)


def _percentile(waits_ms: Sequence[float]) -> float:
    ordered = sorted(waits_ms)
    return ordered[len(ordered) - 1 - len(ordered) // 100]
