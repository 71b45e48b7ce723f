"""The cheapest way to hold equally many, against trying everything."""

import itertools
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.reassign.balance import Row, balanced, bounds_in_racks
from syncline.reassign.errors import PlanError

RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}


def rows_of(holders: Sequence[tuple[int, ...]], sizes: Sequence[int], brokers: Sequence[int]) -> list[Row]:
    """Return rows whose new holders cost their size."""
    return [
        Row(each, {broker: 0 if broker in each else size for broker in brokers})
        for each, size in zip(holders, sizes, strict=True)
    ]


def judged(
    rows: Sequence[Row], chosen: Sequence[frozenset[int]], brokers: Sequence[int], racks: dict[int, str]
) -> tuple[int, int, int]:
    """Return violations of racks, imbalance and price of a choice."""
    violations = 0
    for holders in chosen:
        in_racks = Counter(racks[broker] for broker in holders if broker in racks)
        sizes = Counter(racks[broker] for broker in brokers if broker in racks)
        if racks:
            violations += sum(
                max(least - in_racks[rack], in_racks[rack] - most, 0)
                for rack, (least, most) in bounds_in_racks(len(holders), sizes).items()
            )
    counts = Counter(broker for holders in chosen for broker in holders)
    price = sum(row.prices[broker] for row, holders in zip(rows, chosen, strict=True) for broker in holders)
    return violations, sum(counts[broker] ** 2 for broker in brokers), price


def best(rows: Sequence[Row], brokers: Sequence[int], racks: dict[int, str]) -> tuple[int, int, int]:
    """Return the judgement of the best choice of all."""
    choices = [[frozenset(each) for each in itertools.combinations(brokers, len(row.holders))] for row in rows]
    return min(judged(rows, chosen, brokers, racks) for chosen in itertools.product(*choices))


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Row], list[int], dict[int, str]]:
    """Up to four rows on up to four brokers, some of which leave, with or without racks."""
    everyone = [1, 2, 3, 4]
    brokers = sorted(draw(st.sets(st.sampled_from(everyone), min_size=2)))
    width = st.integers(1, min(3, len(brokers)))
    holders = [
        tuple(draw(st.lists(st.sampled_from(everyone), min_size=(n := draw(width)), max_size=n, unique=True)))
        for _ in range(draw(st.integers(1, 4)))
    ]
    sizes = draw(st.lists(st.integers(1, 9), min_size=len(holders), max_size=len(holders)))
    racks = draw(st.sampled_from([{}, RACKS, {1: "a", 2: "b", 3: "b", 4: "b"}, {1: "a", 2: "b", 3: "c", 4: "c"}]))
    return rows_of(holders, sizes, brokers), brokers, racks


@given(problems())
def test_no_choice_is_better(problem: tuple[list[Row], list[int], dict[int, str]]) -> None:
    """Racks first, then counts, then the price: as good as the best of all choices, and the same each time."""
    rows, brokers, racks = problem

    chosen = balanced(rows, brokers, racks=racks)

    assert [len(each) for each in chosen] == [len(row.holders) for row in rows]
    assert judged(rows, chosen, brokers, racks) == best(rows, brokers, racks)
    assert chosen == balanced(rows, brokers, racks=racks)


def test_what_is_balanced_stays() -> None:
    """Nothing moves, although other choices are equally balanced."""
    holders = [(1, 2), (2, 3), (3, 1)]
    rows = rows_of(holders, [5, 5, 5], [1, 2, 3])

    assert balanced(rows, [1, 2, 3]) == [frozenset(each) for each in holders]


def test_smallest_rows_move_to_a_new_broker() -> None:
    """Broker 4 is new: of nine replicas it gets two, and the smallest ones."""
    rows = rows_of([(1, 2, 3)] * 3, [1, 70, 5], [1, 2, 3, 4])

    chosen = balanced(rows, [1, 2, 3, 4])

    assert [4 in each for each in chosen] == [True, False, True]


def test_chain_of_moves_is_found_where_no_direct_move_helps() -> None:
    """Broker 3 may only get what 2 has, and 2 only what 1 has: two moves together balance the counts."""
    rows = [
        Row((1,), {1: 0, 2: 1}),
        Row((1,), {1: 0, 2: 1}),
        Row((2,), {2: 0, 3: 1}),
    ]

    chosen = balanced(rows, [1, 2, 3])

    assert Counter(broker for each in chosen for broker in each) == {1: 1, 2: 1, 3: 1}


def test_counts_elsewhere_take_part() -> None:
    """Broker 1 holds much of other topics, so it gets nothing of these."""
    rows = rows_of([(1,), (1,)], [1, 1], [1, 2])

    assert balanced(rows, [1, 2], counts_elsewhere={1: 5}) == [frozenset({2}), frozenset({2})]


def test_too_few_brokers_are_refused() -> None:
    """In the tool's words."""
    with pytest.raises(PlanError, match=r"^Replication factor: 3 larger than available brokers: 2\.$"):
        balanced(rows_of([(1, 2, 3)], [1], [1, 2]), [1, 2])


def test_thousands_of_replicas_are_balanced_quickly() -> None:
    """A sixth broker joins five that hold 2,000 partitions: a sixth of the replicas move, each once."""
    brokers = [1, 2, 3, 4, 5, 6]
    holders = [tuple(sorted({p % 5 + 1, (p + 1) % 5 + 1, (p + 2) % 5 + 1})) for p in range(600)]

    chosen = balanced(rows_of(holders, [p % 17 + 1 for p in range(600)], brokers), brokers)

    moved = sum(len(after - set(before)) for before, after in zip(holders, chosen, strict=True))
    assert Counter(broker for each in chosen for broker in each) == dict.fromkeys(brokers, 300)
    assert moved == 300
