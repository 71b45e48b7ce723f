"""Who holds what so that all hold equally many, at the lowest price: a minimum-cost flow.

One hard idea: fewest bytes moved is not a matter of taste, so this module computes the optimum. Partitions send a unit
for each replica through their racks to brokers; a broker's k-th unit costs more than its (k-1)-th, which makes equal
counts cheapest. A flow is optimal when its residual graph has no cycle of negative cost. So it begins with what is
there, and carries out such cycles ("broker 1 gives a to 3, 3 gives b to 2") until there is none.

The residual graph is small: its nodes are brokers, and of all partitions that could go from one to another only the
cheapest counts. Costs are one integer, in which racks outweigh counts and counts outweigh prices; a holder that may
not hold outweighs all. Ties go to the first row, so equal input has equal output.
"""

import heapq
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from syncline.reassign.errors import PlanError

# One partition moves from one broker to another.
_Step = tuple[int, int, int]


class Row(NamedTuple):
    """One thing with several holders: who holds it, and what each allowed holder costs."""

    holders: tuple[int, ...]
    prices: Mapping[int, int]


class _Bounds(NamedTuple):
    """How many holders of one row a rack should have."""

    min: int
    max: int


def balanced(
    rows: Sequence[Row],
    brokers: Sequence[int],
    *,
    racks: Mapping[int, str] | None = None,
    counts_elsewhere: Mapping[int, int] | None = None,
) -> list[frozenset[int]]:
    """Return the holders of each row: as many as before, all among `brokers` and those with a price.

    First, each row has its holders in as many racks as possible, then all brokers have as equal counts as possible
    (with what they hold elsewhere), then the sum of prices is lowest. Raises PlanError if a row has more holders than
    brokers that may hold it.
    """
    for row in rows:
        if len(row.holders) > len(row.prices):
            raise PlanError(f"Replication factor: {len(row.holders)} larger than available brokers: {len(row.prices)}.")
        assert row.prices.keys() <= set(brokers), "a price is for a broker that takes part"
    flow = _Flow(rows, brokers, racks or {}, counts_elsewhere or {})
    while True:
        cycle = flow.negative_cycle()
        if cycle is None:
            return flow.holders
        flow.carry_out(cycle)


def bounds_in_racks(holders_count: int, rack_sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return how few and how many of so many holders each rack should have, if they are spread evenly.

    A rack with fewer brokers than its share is full, and the others share the rest.
    """
    assert holders_count <= sum(rack_sizes.values()), "each holder is another broker"
    level = 0
    while sum(min(size, level + 1) for size in rack_sizes.values()) <= holders_count and level < holders_count:
        level += 1
    has_rest = sum(min(size, level) for size in rack_sizes.values()) < holders_count
    return {rack: (min(size, level), min(size, level + has_rest)) for rack, size in rack_sizes.items()}


class _Flow:
    """The holders of all rows, and the cheapest row for each step from one broker to another."""

    def __init__(
        self,
        rows: Sequence[Row],
        brokers: Sequence[int],
        racks: Mapping[int, str],
        counts_elsewhere: Mapping[int, int],
    ) -> None:
        self._rows = rows
        self._brokers = sorted(brokers)
        self._racks = racks
        self.holders = [frozenset(row.holders) for row in rows]
        everyone = sorted({*self._brokers, *(broker for row in rows for broker in row.holders)})
        self._everyone = everyone
        self._counts = {broker: counts_elsewhere.get(broker, 0) for broker in everyone}
        for holders in self.holders:
            for broker in holders:
                self._counts[broker] += 1
        prices = sum(sum(row.prices.values()) for row in rows) + 1
        units = sum(self._counts.values()) + 1
        self._count_price = prices
        self._rack_price = prices * 2 * units * units
        self._refusal_price = self._rack_price * 2 * units
        self._sizes: dict[str, int] = {}
        for broker in self._brokers:
            if broker in racks:
                self._sizes[racks[broker]] = self._sizes.get(racks[broker], 0) + 1
        self._bounds: dict[int, dict[str, _Bounds]] = {}
        self._versions = [0] * len(rows)
        self._steps: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for index in range(len(rows)):
            self._offer(index)

    def negative_cycle(self) -> list[_Step] | None:
        """Return steps that together lower the cost, each of another row; None at the optimum."""
        # None is the place where counts are paid: from it to a broker that gives one, to it from one that gets one.
        nodes: list[int | None] = [*self._everyone, None]
        edges = self._edges()
        costs: dict[int | None, int] = dict.fromkeys(nodes, 0)
        parents: dict[int | None, int | None] = {}
        for _ in nodes:
            changed = False
            for (source, goal), (cost, _row) in edges.items():
                if costs[source] + cost < costs[goal]:
                    costs[goal] = costs[source] + cost
                    parents[goal] = source
                    changed = True
            if not changed:
                return None
            cycle = _cycle_among(parents, nodes)
            if cycle is not None:
                if None in cycle:
                    # Where counts are paid, the chain of steps begins and ends.
                    cycle = [*cycle[cycle.index(None) :], *cycle[: cycle.index(None)]]
                steps = [
                    (source, goal, edges[source, goal][1])
                    for source, goal in pairwise([*cycle, cycle[0]])
                    if source is not None and goal is not None
                ]
                return self._of_different_rows(steps, is_open=None in cycle)
        raise AssertionError("costs that still fall after as many rounds as nodes have a cycle among their parents")

    def carry_out(self, steps: Sequence[_Step]) -> None:
        """Let each step's row change its holder."""
        for source, goal, index in steps:
            holders = self.holders[index]
            assert source in holders, "who gives holds"
            assert goal not in holders, "who gets does not hold yet"
            self.holders[index] = (holders - {source}) | {goal}
            self._counts[source] -= 1
            self._counts[goal] += 1
        for _, _, index in steps:
            self._offer(index)

    def _edges(self) -> dict[tuple[int | None, int | None], tuple[int, int]]:
        """Return cost and row of the cheapest step between any two nodes."""
        edges: dict[tuple[int | None, int | None], tuple[int, int]] = {}
        for pair in sorted(self._steps):
            heap = self._steps[pair]
            while heap and heap[0][2] != self._versions[heap[0][1]]:
                heapq.heappop(heap)
            if heap:
                edges[pair] = heap[0][:2]
        allowed = set(self._brokers)
        for broker in self._everyone:
            count = self._counts[broker]
            is_allowed = broker in allowed
            edges[None, broker] = (-self._count_price * (2 * count - 1) if is_allowed else 0, -1)
            if is_allowed:
                edges[broker, None] = (self._count_price * (2 * count + 1), -1)
        return edges

    def _of_different_rows(self, steps: list[_Step], *, is_open: bool) -> list[_Step]:
        """Return a part of a cycle that still lowers the cost and has each row once.

        If a row goes from a to b and from c to d, going from a to d and from c to b splits the cycle in two that
        together cost no more.
        """
        while True:
            twice = next(
                (
                    (first, second)
                    for second in range(len(steps))
                    for first in range(second)
                    if steps[first][2] == steps[second][2]
                ),
                None,
            )
            if twice is None:
                return steps
            first, second = twice
            (from_a, to_b, index), (from_c, to_d, _) = steps[first], steps[second]
            inner = [(from_c, to_b, index), *steps[first + 1 : second]]
            outer = [*steps[:first], (from_a, to_d, index), *steps[second + 1 :]]
            if self._cost(inner, is_open=False) < 0:
                steps, is_open = inner, False
            else:
                steps = outer
            assert self._cost(steps, is_open=is_open) < 0, "one part of a negative cycle is negative"

    def _cost(self, steps: Sequence[_Step], *, is_open: bool) -> int:
        cost = sum(self._step_cost(*step) for step in steps)
        if not is_open:
            return cost
        # An open chain begins where a count falls and ends where one rises.
        given = {source for source, _, _ in steps} - {goal for _, goal, _ in steps}
        gained = {goal for _, goal, _ in steps} - {source for source, _, _ in steps}
        allowed = set(self._brokers)
        cost -= sum(self._count_price * (2 * self._counts[each] - 1) for each in given if each in allowed)
        return cost + sum(self._count_price * (2 * self._counts[each] + 1) for each in gained)

    def _offer(self, index: int) -> None:
        """Let a row's possible steps take part, in place of its earlier ones."""
        self._versions[index] += 1
        holders = self.holders[index]
        for source in sorted(holders):
            for goal in self._brokers:
                if goal not in holders and goal in self._rows[index].prices:
                    entry = (self._step_cost(source, goal, index), index, self._versions[index])
                    heapq.heappush(self._steps.setdefault((source, goal), []), entry)

    def _step_cost(self, source: int, goal: int, index: int) -> int:
        prices = self._rows[index].prices
        cost = prices[goal] - prices.get(source, self._refusal_price)
        rack_before, rack_after = self._racks.get(source), self._racks.get(goal)
        if rack_before == rack_after:
            return cost
        return cost + self._rack_price * (self._excess(index, rack_before, -1) + self._excess(index, rack_after, 1))

    def _excess(self, index: int, rack: str | None, change: int) -> int:
        """Return by how much the number of holders in a rack is farther from its bounds after the change."""
        count = len(self._rows[index].holders)
        if count not in self._bounds:
            self._bounds[count] = (
                {each: _Bounds(*both) for each, both in bounds_in_racks(count, self._sizes).items()}
                if sum(self._sizes.values()) >= count
                else {}
            )
        bounds = self._bounds[count].get(rack or "")
        if bounds is None:
            return 0
        here = sum(self._racks.get(broker) == rack for broker in self.holders[index])
        before, after = (max(bounds.min - each, each - bounds.max, 0) for each in (here, here + change))
        return after - before


def _cycle_among(parents: Mapping[int | None, int | None], nodes: Sequence[int | None]) -> list[int | None] | None:
    """Return a cycle of parents, in the direction of its edges; None if there is none."""
    done: set[int | None] = set()
    for start in nodes:
        path: list[int | None] = []
        node = start
        while node not in done and node in parents:
            done.add(node)
            path.append(node)
            node = parents[node]
        if node in path:
            return path[path.index(node) :][::-1]
    return None
