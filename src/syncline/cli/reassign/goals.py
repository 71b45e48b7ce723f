"""What a command adapts the rate of a move to: a deadline, or what clients feel. Each look brings the next rate.

The rules are pure (`syncline.reassign.control`, `syncline.reassign.impact`); here they meet the clock and the probe.
Units: bytes per second, ms, s.
"""

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from syncline.cli.reassign.client_probe import ANSWERS_MIN, Probe
from syncline.reassign.amounts import rate_words, span_words
from syncline.reassign.control import Pace, Passing, Range, for_deadline
from syncline.reassign.formulas import Load, Part
from syncline.reassign.impact import Baseline, Impact, percentile_99

# Lateness is reported from here on.
LATE_S: Final = 1.0


class Decided(NamedTuple):
    """The next rate, and facts by name, which the command prints."""

    bytes_per_s: int
    facts: dict[str, Any]


class Adapts(Protocol):
    """A goal that is pursued."""

    def next_rate(self, parts: Mapping[Part, Load], bytes_per_s: int) -> Decided:
        """Return the rate after a look: what remains of each part, under the present rate."""

    def judged(self, ends_in_s: float | None) -> dict[str, Any]:
        """Return what there is to say of when the move ends."""


class ToDeadline:
    """Ends a move at a deadline, Unix ms."""

    def __init__(self, deadline_ms: int, allowed: Range) -> None:
        self._deadline_ms = deadline_ms
        self._allowed = allowed
        self._passing = Passing()

    def next_rate(self, parts: Mapping[Part, Load], bytes_per_s: int) -> Decided:
        """Return the rate that suffices for what remains."""
        now_ms = wall_ms()
        self._passing = self._passing.seen(now_ms, parts, bytes_per_s)
        chosen = for_deadline(
            parts,
            now_ms=now_ms,
            deadline_ms=self._deadline_ms,
            allowed=self._allowed,
            rate_bytes_per_s=max(bytes_per_s, 0),
            passing=self._passing,
        )
        facts: dict[str, Any] = {"deadline_in_s": round(self._left_s, 1)}
        if chosen.pace is Pace.AT_HIGHEST:
            facts["needed_bytes_per_s"] = round(chosen.needed_bytes_per_s)
        return Decided(chosen.rate_bytes_per_s, facts)

    def judged(self, ends_in_s: float | None) -> dict[str, Any]:
        """Return by how much the move is late, if it is not even copied at the rate that it may have."""
        late_s = 0.0 if ends_in_s is None else ends_in_s - self._left_s
        return {"late_by_s": round(late_s, 1)} if late_s > max(LATE_S, 0.1 * self._left_s) else {}

    @property
    def _left_s(self) -> float:
        return (self._deadline_ms - wall_ms()) / 1000


class ToClients:
    """Keeps what clients feel within a bound."""

    def __init__(self, probe: Probe, search: Impact) -> None:
        self._probe = probe
        self._search = search

    @property
    def rate(self) -> int:
        """Return the rate to begin with."""
        return self._search.rate_bytes_per_s

    def next_rate(self, _parts: Mapping[Part, Load], _bytes_per_s: int) -> Decided:
        """Return the rate that clients bear, as far as their answers show."""
        # A look without any answer is one in which clients waited all the time.
        waits_ms = self._probe.waits_ms() or [float("inf")] * ANSWERS_MIN
        self._search = search = self._search.answered(waits_ms)
        facts: dict[str, Any] = {
            "clients_p99_ms": round(min(percentile_99(waits_ms), 1e6), 2),
            "bound_used_percent": round(100 * search.used),
        }
        if search.anew is not None:
            facts["p99_ms_without_the_move"] = round(search.anew.p99_ms, 2)
        return Decided(search.rate_bytes_per_s, facts)

    def judged(self, _ends_in_s: float | None) -> dict[str, Any]:
        """Return nothing: clients come before speed."""
        return {}


def search_from(probe: Probe, bound_percent: int, allowed: Range, bytes_per_s: int, for_s: float) -> Impact:
    """Return the search after clients were measured without the move. Raises LocalClusterError."""
    first = Baseline.of(probe.baseline_ms(for_s), float(bound_percent))
    return Impact(float(bound_percent), allowed, bytes_per_s, first)


def fact_words(facts: Mapping[str, Any]) -> list[str]:
    """Return facts of a decision as a person would say them."""
    words = []
    if "clients_p99_ms" in facts:
        without = facts.get("p99_ms_without_the_move")
        compared = "" if without is None else f" ({wait_words(without)} without the move)"
        words.append(f"clients' p99 {wait_words(facts['clients_p99_ms'])}{compared}")
    if "bound_used_percent" in facts:
        words.append(f"{facts['bound_used_percent']} % of the bound")
    if "deadline_in_s" in facts:
        left_s = facts["deadline_in_s"]
        words.append(f"deadline in {span_words(left_s)}" if left_s > 0 else f"{span_words(-left_s)} after the deadline")
    if "needed_bytes_per_s" in facts:
        words.append(f"the deadline needs {rate_words(facts['needed_bytes_per_s'])}")
    if "late_by_s" in facts:
        words.append(f"late by {span_words(facts['late_by_s'])}")
    return words


def wait_words(wait_ms: float) -> str:
    """Return 2.35 ms, or 141 ms: three digits."""
    return f"{wait_ms:,.0f} ms" if wait_ms >= 100 else f"{wait_ms:.3g} ms"


def wall_ms() -> int:
    """Return Unix time."""
    return time.time_ns() // 1_000_000
