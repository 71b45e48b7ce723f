"""The limits, which of them a case broke, and the table.

Durations are ms, sizes bytes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.attack.holds import Holds

MB: Final = 1_000_000
# The neighbour's process woke up so late by itself: the machine was short of processors, whatever the brokers did.
LATE_MS: Final = 50.0
# The same of the brokers, in all of a case: a hold may be one such wait, which is not the broker's doing.
WAITED_MS: Final = 100.0
# One in a thousand is judged where that is a hundred: of all cases together. The longest is judged in each.
HOLDS_FOR_P999: Final = 100_000
# Likewise: one pause of a tenth of a second is felt by one in a hundred of fewer acknowledgements.
ACKS_FOR_P99: Final = 1_000


@dataclass(frozen=True)
class Limits:
    """What the neighbour and the brokers must keep to."""

    slowest_ack_ms: float = 500.0
    p99_ack_ms: float = 100.0
    longest_hold_ms: float = 50.0
    p999_hold_ms: float = 10.0
    resident_bytes: int = 400 * MB
    # After the rest, compared with the start.
    rested_share: float = 1.2


@dataclass
class Figures:
    """What was measured during one case."""

    name: str
    acks_ms: Sequence[float]
    holds: Holds
    # Highest and last resident memory, by broker.
    peaks: Mapping[int, int]
    after: Mapping[int, int] = field(default_factory=dict)
    # How late the neighbour's own process woke up.
    late_ms: float = 0.0
    # Broken promises that are no figures.
    harm: Sequence[str] = ()
    # For the reader: what came of the attack.
    note: str = ""
    # How long the loop of one broker waited for a processor, at most, in all.
    waited_ms: float = 0.0

    @property
    def slowest_ack_ms(self) -> float:
        """The slowest acknowledgement; infinite if there was none."""
        return max(self.acks_ms, default=math.inf)

    @property
    def p99_ack_ms(self) -> float:
        """The acknowledgement that one in a hundred exceeds."""
        ordered = sorted(self.acks_ms)
        return ordered[max(0, math.ceil(0.99 * len(ordered)) - 1)] if ordered else math.inf

    @property
    def own_hold_ms(self) -> float:
        """The longest hold without its wait for a processor; what that does not explain may be a wait for the disk."""
        own_ms = self.holds.own.longest_ms if self.holds.own is not None else self.holds.longest_ms
        return max(own_ms, self.holds.longest_ms - self.waited_ms)

    def broken(self, limits: Limits) -> list[str]:
        """Return which limits were broken, in a few words each."""
        peak = max(self.peaks.values(), default=0)
        p99_ack_ms = self.p99_ack_ms if len(self.acks_ms) >= ACKS_FOR_P99 or not self.acks_ms else 0.0
        p999_hold_ms = self.holds.quantile_ms(0.999) if self.holds.count >= HOLDS_FOR_P999 else 0.0
        found = [
            f"{name} {value:.0f} > {limit:.0f} {unit}"
            for name, value, limit, unit in (
                ("slowest ack", self.slowest_ack_ms, limits.slowest_ack_ms, "ms"),
                ("p99", p99_ack_ms, limits.p99_ack_ms, "ms"),
                ("hold", self.own_hold_ms, limits.longest_hold_ms, "ms"),
                ("p99.9 of holds", p999_hold_ms, limits.p999_hold_ms, "ms"),
                ("memory", peak / MB, limits.resident_bytes / MB, "MB"),
            )
            if value > limit
        ]
        return [*self.harm, *found]


def not_rested(before: Mapping[int, int], after: Mapping[int, int], limits: Limits) -> list[str]:
    """Return which brokers kept more memory than they may after the rest."""
    return [
        f"broker {broker} keeps {after[broker] / MB:.0f} MB of {start / MB:.0f} at its start"
        for broker, start in before.items()
        if after.get(broker, 0) > limits.rested_share * start
    ]


HEADER: Final = (
    f"{'case':<34}{'slowest ack':>12}{'p99':>8}{'hold':>8}{'p99.9':>8}{'peak':>8}{'after':>8}   verdict\n"
    f"{'':<34}{'ms':>12}{'ms':>8}{'ms':>8}{'ms':>8}{'MB':>8}{'MB':>8}"
)


def row(figures: Figures, broken: Sequence[str]) -> str:
    """Return the line of a case."""
    late = f" (this machine was {figures.late_ms:.0f} ms late)" if figures.late_ms > LATE_MS else ""
    waited = f" (a broker waited {figures.waited_ms:.0f} ms for a processor)" if figures.waited_ms > WAITED_MS else ""
    return (
        f"{figures.name:<34}{figures.slowest_ack_ms:>12.0f}{figures.p99_ack_ms:>8.0f}{figures.holds.longest_ms:>8.0f}"
        f"{figures.holds.quantile_ms(0.999):>8.0f}{max(figures.peaks.values(), default=0) / MB:>8.0f}"
        f"{max(figures.after.values(), default=0) / MB:>8.0f}   "
        f"{'BROKEN: ' + '; '.join(broken) if broken else 'ok'}{late}{waited}"
    )
