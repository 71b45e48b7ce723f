"""What sustained produce came to: samples over time, what follows from them, and the bounds.

Units: seconds, bytes; MB/s and processor seconds per GB of what was acknowledged.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

OURS: Final = "Syncline"
KEPT: Final = "Syncline, page cache kept"
THEIRS: Final = "Apache Kafka"
# Three processes that write what they get and check nothing (`bare_cluster.py`); they keep their page cache.
BARE: Final = "only passes on, page cache kept"


class Sample(NamedTuple):
    """What was acknowledged, and what brokers had used, since the start."""

    at_s: float
    acknowledged_bytes: int
    cpu_s: float


@dataclass(frozen=True)
class Outcome:
    """One side."""

    side: str
    samples: Sequence[Sample]

    @property
    def mb_s(self) -> float:
        """Megabytes per second, over all."""
        last = self.samples[-1]
        return last.acknowledged_bytes / 1e6 / last.at_s

    @property
    def cpu_s_gb(self) -> float:
        """Processor seconds of all brokers per gigabyte, over all."""
        last = self.samples[-1]
        return last.cpu_s / (last.acknowledged_bytes / 1e9)

    def halves_mb_s(self) -> tuple[float, float]:
        """Return the megabytes per second of the first half of the bytes, and of the last."""
        last = self.samples[-1]
        half_bytes = last.acknowledged_bytes / 2
        middle_s = self._reached_s(half_bytes)
        return half_bytes / 1e6 / middle_s, half_bytes / 1e6 / (last.at_s - middle_s)

    @property
    def last_to_first(self) -> float:
        """The speed of the last half as a multiple of the first's."""
        first, last = self.halves_mb_s()
        return last / first

    def _reached_s(self, wanted_bytes: float) -> float:
        """Return when so much was acknowledged, evenly between samples."""
        index = bisect_left(self.samples, wanted_bytes, key=lambda sample: sample.acknowledged_bytes)
        before, after = self.samples[index - 1], self.samples[index]
        share = (wanted_bytes - before.acknowledged_bytes) / (after.acknowledged_bytes - before.acknowledged_bytes)
        return before.at_s + share * (after.at_s - before.at_s)

    def __str__(self) -> str:
        first, last = self.halves_mb_s()
        return (
            f"{self.side}: {self.mb_s:.0f} MB/s, first half {first:.0f}, last half {last:.0f}; "
            f"{self.cpu_s_gb:.2f} s/GB of broker CPU; {self.samples[-1].at_s:.0f} s"
        )


Outcomes = Mapping[str, Outcome]


class Bound(NamedTuple):
    """What Syncline must reach."""

    title: str
    value: Callable[[Outcomes], float]
    bound: float
    is_higher_better: bool

    def is_met(self, outcomes: Outcomes) -> bool:
        """Return whether it does."""
        value = self.value(outcomes)
        return value >= self.bound if self.is_higher_better else value <= self.bound

    @property
    def words(self) -> str:
        """The bound, as in the table."""
        return f"{'≥' if self.is_higher_better else '≤'} {self.bound:g}x"

    def sentence(self, outcomes: Outcomes) -> str:
        """Return what is missing."""
        return f"{self.title}: {self.value(outcomes):.2f}x, the bound is {self.words}"


BOUNDS: Final = (
    Bound("sustained, MB/s", lambda all_: all_[OURS].mb_s / all_[THEIRS].mb_s, 4, True),
    Bound("sustained, broker CPU per GB", lambda all_: all_[OURS].cpu_s_gb / all_[THEIRS].cpu_s_gb, 0.2, False),
    Bound("last half of the bytes to the first", lambda all_: all_[OURS].last_to_first, 0.85, True),
    Bound("page cache kept, MB/s", lambda all_: all_[KEPT].mb_s / all_[THEIRS].mb_s, 3, True),
)


def table(outcomes: Outcomes) -> list[str]:
    """Return the rows for the page."""
    lines = [
        "| 10 GB sustained, 1 KB, RF 3, acks=all | MB/s | first half | last half | broker CPU |",
        "|---|---|---|---|---|",
    ]
    for side, outcome in outcomes.items():
        first, last = outcome.halves_mb_s()
        lines.append(f"| {side} | {outcome.mb_s:.0f} | {first:.0f} | {last:.0f} | {outcome.cpu_s_gb:.2f} s/GB |")
    lines += ["", "| Syncline / Apache Kafka | | must | |", "|---|---|---|---|"]
    for bound in BOUNDS:
        verdict = "met" if bound.is_met(outcomes) else "**missed**"
        lines.append(f"| {bound.title} | {bound.value(outcomes):.2f}x | {bound.words} | {verdict} |")
    if BARE in outcomes:
        most = outcomes[BARE].mb_s / outcomes[THEIRS].mb_s
        lines.append(f"| only passes on, page cache kept, MB/s | {most:.2f}x | | |")
    return lines
