"""Which rates end a move in time and leave clients their share, or why none does and what would.

A deadline bounds the rate from below: what is to copy in the time, plus keep-up. The clients' share bounds it from
above: what the link carries, less their share, less other replication. If the two leave no rate, there are two ways
out, and both are computed: more time at this share, or a smaller share in this time.
Source: KIP-73, "how to set a throttle"; one rate holds for all brokers of a move, in both roles.
"""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from syncline.reassign.amounts import rate_words, seconds_words
from syncline.reassign.formulas import Load, Part, Role, bottleneck

# The lowest rate for a deadline leaves no room for a pause, so a tenth is added where there is room.
MARGIN: Final = 1.1
_VERBS: Final = {Role.SENDING: "send", Role.RECEIVING: "receive"}


class Link(NamedTuple):
    """What one broker can carry in one direction, and what other replication takes of it."""

    capacity_bytes_per_s: float = math.inf
    other_bytes_per_s: float = 0.0


class Bound(NamedTuple):
    """The rates of one part: from `min_bytes_per_s` on in time, up to `max_bytes_per_s` harmless."""

    part: Part
    min_bytes_per_s: float
    max_bytes_per_s: float


class Verdict(NamedTuple):
    """The rates that suit all parts, the chosen one, and the ways out if there is none."""

    bounds: tuple[Bound, ...]
    min_bytes_per_s: float
    max_bytes_per_s: float
    rate_bytes_per_s: float | None
    time_s: float
    # If there is no rate: the least time at this share, the largest share at this time; None if there is none either.
    time_s_min: float | None = None
    keep_percent_max: float | None = None

    @property
    def is_feasible(self) -> bool:
        """Return whether some rate does it."""
        return self.rate_bytes_per_s is not None


def judge(
    parts: Mapping[Part, Load],
    links: Mapping[Part, Link],
    *,
    keep_percent: float = 0.0,
    time_s: float | None = None,
) -> Verdict:
    """Return which rates suit, for a share that clients keep and a time, if there is one.

    Without a time the fastest harmless rate is chosen, with one the most harmless that is in time.
    """
    assert 0 <= keep_percent <= 100, "a percentage"
    bounds = tuple(
        Bound(
            part,
            load.keep_up_bytes_per_s if time_s is None else load.quota_for(time_s),
            _highest(links.get(part, Link()), keep_percent),
        )
        for part, load in parts.items()
    )
    lowest = max((each.min_bytes_per_s for each in bounds), default=0.0)
    highest = min((each.max_bytes_per_s for each in bounds), default=math.inf)
    # At the keep-up alone nothing is copied, so without a time the lowest rate is not one of those that suit.
    suits = lowest <= highest if time_s is not None else lowest < highest or not bounds
    if suits:
        rate = highest if time_s is None else min(lowest * MARGIN, highest)
        slowest = bottleneck(parts, rate)
        return Verdict(bounds, lowest, highest, rate, slowest.time_s if slowest else 0.0)
    slowest = bottleneck(parts, highest)
    least_s = slowest.time_s if slowest else 0.0
    return Verdict(
        bounds,
        lowest,
        highest,
        None,
        math.inf,
        time_s_min=None if math.isinf(least_s) else least_s,
        keep_percent_max=_largest_share(links, parts, lowest),
    )


def reasons(verdict: Verdict, *, keep_percent: float, time_s: float | None) -> list[str]:
    """Return why no rate suits, and what would make one: sentences."""
    if verdict.is_feasible:
        return []
    low = max(verdict.bounds, key=lambda each: each.min_bytes_per_s)
    high = min(verdict.bounds, key=lambda each: each.max_bytes_per_s)
    needs = f"broker {low.part.broker} would have to {_VERBS[low.part.role]} {rate_words(low.min_bytes_per_s)}"
    if time_s is None:
        needs += " just to keep up"
    may = "may use" if high.part == low.part else f"broker {high.part.broker} may {_VERBS[high.part.role]}"
    leaves = f"only {rate_words(max(high.max_bytes_per_s, 0.0))}"
    share = f"clients keep {keep_percent:g} %"
    if keep_percent:
        leaves += f" if {share}"
    sentences = [f"No rate meets both goals: {needs}, but {may} {leaves}."]
    if verdict.time_s_min is not None:
        least = seconds_words(math.ceil(verdict.time_s_min))
        sentences.append(f"The move is possible in {least} or more{f' while {share}' if keep_percent else ''}.")
    if verdict.keep_percent_max is not None:
        most = math.floor(verdict.keep_percent_max * 10) / 10
        within = "" if time_s is None else f" in {time_s:,.0f} s"
        sentences.append(f"If clients keep at most {most:g} %, the move is possible{within}.")
    if len(sentences) == 1:
        sentences.append("Move less at once: no other time or share would make this move possible.")
    return sentences


def _highest(link: Link, keep_percent: float) -> float:
    if math.isinf(link.capacity_bytes_per_s):
        return math.inf
    return link.capacity_bytes_per_s * (1 - keep_percent / 100) - link.other_bytes_per_s


def _largest_share(links: Mapping[Part, Link], parts: Mapping[Part, Load], rate: float) -> float | None:
    """Return the largest share of clients at which every part may take this rate; None if there is none."""
    shares = [
        100 * (link.capacity_bytes_per_s - link.other_bytes_per_s - rate) / link.capacity_bytes_per_s
        for part in parts
        if not math.isinf((link := links.get(part, Link())).capacity_bytes_per_s)
    ]
    share = min(shares, default=100.0)
    return share if share >= 0 else None
