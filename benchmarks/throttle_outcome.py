"""The outcome of a throttled move, what a strict quota promises for it, and the table of all moves.

Figures are multiples of the quota. `unmet` compares a move with the promises: a sentence for each that was not kept.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.flows import Flow
from benchmarks.pages import replace_table
from benchmarks.steady_producer import Felt

# The moving batches are at most this large; a batch is sent whole, however little of the quota is left.
BATCH_BYTES: Final = 100_000
# The name of the table on its page.
TABLE: Final = "throttle table"

# What a strict quota promises, as multiples of the quota.
MEAN: Final = (0.90, 1.02)
# Of two brokers on one side, each gets about half.
PART_MAX: Final = 0.65
WORST_10_S_MAX: Final = 1.05
WORST_SECOND_MAX: Final = 2.0
# What clients are promised, and how long data may stop flowing.
ACK_MS_MAX: Final = 500
PRODUCED_MIN: Final = 0.98
PAUSE_S_MAX: Final = 1.5


@dataclass(frozen=True)
class Layout:
    """Which partitions go where: (source, destination) of each, as places in the list of brokers."""

    name: str
    moves: tuple[tuple[int, int], ...]
    # The sides on which all data passes one broker, so that its quota limits the move.
    limits: frozenset[str]

    @property
    def broker_count(self) -> int:
        """Return how many brokers take part."""
        return 1 + max(max(move) for move in self.moves)

    def side(self, name: str) -> tuple[int, ...]:
        """Return the broker of each partition on one side."""
        return tuple(move[name == "received"] for move in self.moves)


LAYOUTS: Final = (
    Layout("one to one", ((0, 1),) * 8, frozenset({"sent", "received"})),
    Layout("one to two", ((0, 1), (0, 2)) * 4, frozenset({"sent"})),
    Layout("two to one", ((0, 2), (1, 2)) * 4, frozenset({"received"})),
)


@dataclass(frozen=True)
class Outcome:
    """One move of one cluster."""

    peer: str
    layout: Layout
    quota_bytes_s: int
    flows: Mapping[str, Flow]
    # None if it was given up.
    taken_s: float | None
    # A producer's results on the moving topic, and on one that does not move; None without producers.
    felt: Felt | None = None
    felt_elsewhere: Felt | None = None

    @property
    def title(self) -> str:
        """Return which move it was."""
        producer = "without" if self.felt is None else "with"
        return f"{self.peer}, {self.layout.name}, {producer} a producer, {self.quota_bytes_s / 1e6:g} MB/s"

    def row(self) -> str:
        """Return the row of the table."""
        cells = [self.peer, self.layout.name, f"{self.quota_bytes_s / 1e6:g}", "no" if self.felt is None else "yes"]
        for flow in self.flows.values():
            cells += [f"{rate / self.quota_bytes_s:.2f}" for rate in (flow.mean(), flow.worst(10), flow.worst(1))]
        cells += [
            f"{self.flows['received'].longest_pause_s():.1f} s",
            "no end" if self.taken_s is None else f"{self.taken_s:.0f} s",
        ]
        cells.append("" if self.felt is None else f"{self.felt.share:.2f}")
        cells += ["" if felt is None else f"{felt.slowest_ms:.0f} ms" for felt in (self.felt, self.felt_elsewhere)]
        return f"| {' | '.join(cells)} |"

    def unmet(self) -> Iterator[str]:
        """Iterate over the promises that were not kept, one sentence each."""
        if self.taken_s is None:
            yield f"{self.title}: the move did not end"
        for name, flow in self.flows.items():
            mean, worst_10_s, worst_second = (
                rate / self.quota_bytes_s for rate in (flow.mean(), flow.worst(10), flow.worst(1))
            )
            least, most = MEAN if name in self.layout.limits else (0.0, PART_MAX)
            if not least <= mean <= most:
                yield f"{self.title}: the mean {name} is {mean:.3f} of the quota, not {least:.2f} to {most:.2f}"
            if worst_10_s > WORST_10_S_MAX:
                yield f"{self.title}: {worst_10_s:.3f} of the quota {name} in 10 s, more than {WORST_10_S_MAX:.2f}"
            if worst_second > (most := max(WORST_SECOND_MAX, BATCH_BYTES / self.quota_bytes_s)):
                yield f"{self.title}: {worst_second:.2f} of the quota {name} in one second, more than {most:.2f}"
        if (pause_s := self.flows["received"].longest_pause_s()) > PAUSE_S_MAX:
            yield f"{self.title}: nothing arrived for {pause_s:.1f} s, longer than {PAUSE_S_MAX} s"
        if self.felt is None:
            return
        if self.felt.failed_count:
            yield f"{self.title}: {self.felt.failed_count} records were not acknowledged"
        if self.felt.share < PRODUCED_MIN:
            yield f"{self.title}: producers got {self.felt.share:.3f} of their rate, less than {PRODUCED_MIN:.2f}"
        if (slowest_ms := self.felt.slowest_ms) > ACK_MS_MAX:
            elsewhere = "" if self.felt_elsewhere is None else f" ({self.felt_elsewhere.slowest_ms:.0f} ms elsewhere)"
            yield f"{self.title}: an acknowledgement took {slowest_ms:.0f} ms, more than {ACK_MS_MAX}{elsewhere}"


HEADINGS: Final = (
    "| | layout | MB/s | producer | sent: mean | worst 10 s | worst 1 s | received: mean | worst 10 s | worst 1 s "
    "| longest pause | took | produced | slowest ack | elsewhere |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Iterate over one line for each side: the ranges of its figures."""
    for peer in dict.fromkeys(outcome.peer for outcome in outcomes):
        chosen = [each for each in outcomes if each.peer == peer]
        limiting = [(each, each.flows[side]) for each in chosen for side in sorted(each.layout.limits)]
        means = [flow.mean() / each.quota_bytes_s for each, flow in limiting]
        worst = {
            window_s: max(flow.worst(window_s) / each.quota_bytes_s for each, flow in limiting) for window_s in (10, 1)
        }
        pause_s = max(each.flows["received"].longest_pause_s() for each in chosen)
        felt = [each.felt for each in chosen if each.felt is not None]
        slowest = f", slowest acknowledgement {max(each.slowest_ms for each in felt):.0f} ms" if felt else ""
        yield (
            f"{peer}: mean {min(means):.2f} to {max(means):.2f} of the quota (median {statistics.median(means):.2f}), "
            f"worst 10 s {worst[10]:.2f}, worst second {worst[1]:.2f}, longest pause {pause_s:.1f} s{slowest}"
        )


def write(outcomes: Sequence[Outcome], when: str) -> None:
    """Replace the table in docs/performance.md."""
    lines = [when, "", *(f"- {line}." for line in summary(outcomes)), "", HEADINGS, *(each.row() for each in outcomes)]
    replace_table(TABLE, lines)
