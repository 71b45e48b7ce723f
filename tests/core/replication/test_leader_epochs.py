"""Epoch cache: E01, E15 and the tables of the epoch cache's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.core.replication.leader_epochs import EpochCache

THREE = [(2, 6), (3, 8), (4, 11)]

CUT_END = [
    pytest.param(8, [(2, 6)], id="at-a-start"),
    pytest.param(9, [(2, 6), (3, 8)], id="inside"),
    pytest.param(11, [(2, 6), (3, 8)], id="at-the-last-start"),
    pytest.param(12, THREE, id="above"),
    pytest.param(-1, THREE, id="negative"),
]


@pytest.mark.parametrize(("log_end", "left"), CUT_END)
def test_e01_truncating_the_end_forgets_what_starts_there(log_end: int, left: list[tuple[int, int]]) -> None:
    """An epoch that would start at or above the new log end wrote nothing that is left."""
    cache = EpochCache(THREE)

    changed = cache.truncate_from_end(log_end)

    assert list(cache.entries) == left
    assert changed == (left != THREE)


CUT_START = [
    pytest.param(8, [(3, 8), (4, 11)], id="at-a-start"),
    pytest.param(9, [(3, 9), (4, 11)], id="inside"),
    pytest.param(15, [(4, 15)], id="above-all"),
    pytest.param(1, THREE, id="below-all"),
    pytest.param(6, THREE, id="at-the-first-start"),
    pytest.param(-1, THREE, id="negative"),
]


@pytest.mark.parametrize(("log_start", "left"), CUT_START)
def test_e01_truncating_the_start_keeps_the_epoch_that_crosses_it(log_start: int, left: list[tuple[int, int]]) -> None:
    """It now starts at the log start."""
    cache = EpochCache(THREE)

    changed = cache.truncate_from_start(log_start)

    assert list(cache.entries) == left
    assert changed == (left != THREE)


ASSIGNED = [
    pytest.param([(2, 9), (3, 9)], [(3, 9)], id="same-offset"),
    pytest.param([(2, 6), (3, 5)], [(3, 5)], id="lower-offset"),
    pytest.param([(1, 5), (2, 6), (1, 7)], [(1, 7)], id="lower-epoch"),
    pytest.param([(2, 6), (2, 9)], [(2, 6)], id="same-epoch-again"),
    pytest.param([(0, 0), (3, 4)], [(0, 0), (3, 4)], id="rising"),
]


@pytest.mark.parametrize(("calls", "left"), ASSIGNED)
def test_e01_an_assignment_overwrites_what_contradicts_it(
    calls: list[tuple[int, int]], left: list[tuple[int, int]]
) -> None:
    """The log prevails over the cache."""
    assert list(EpochCache(calls).entries) == left


ENDS = [
    pytest.param([(5, 11), (6, 12), (7, 13)], 25, 4, (4, 11), id="older-than-all"),
    pytest.param([(5, 11), (6, 12), (7, 13)], 25, 5, (5, 12), id="known"),
    pytest.param([(5, 11), (6, 12), (7, 13)], 25, 8, (-1, -1), id="newer-than-all"),
    pytest.param([(0, 10), (2, 13), (4, 17)], 25, 1, (0, 13), id="between-0-and-2"),
    pytest.param([(0, 10), (2, 13), (4, 17)], 25, 2, (2, 17), id="known-2"),
    pytest.param([(0, 10), (2, 13), (4, 17)], 25, 3, (2, 17), id="between-2-and-4"),
    pytest.param([(0, 10), (2, 13), (4, 17)], 25, 4, (4, 25), id="latest"),
    pytest.param([(0, 10)], 25, -1, (-1, -1), id="none-asked"),
    pytest.param([(0, 0), (2, 2), (3, 3)], 4, -2, (-2, 0), id="below-none"),
    pytest.param([], 25, 0, (-1, -1), id="empty"),
    pytest.param([(0, 0)], 0, 0, (0, 0), id="epoch-without-records"),
]


@pytest.mark.parametrize(("entries", "log_end", "asked", "answer"), ENDS)
def test_e01_end_offsets(entries: list[tuple[int, int]], log_end: int, asked: int, answer: tuple[int, int]) -> None:
    """The greatest epoch up to the one asked, and where its records end."""
    assert EpochCache(entries).end_offset_for(asked, log_end) == answer


def test_e01_entries_are_found_by_offset() -> None:
    """The greatest start at or below the offset."""
    cache = EpochCache(THREE)

    assert cache.entry_for_offset(5) is None
    assert cache.entry_for_offset(6) == (2, 6)
    assert cache.entry_for_offset(10) == (3, 8)
    assert cache.entry_for_offset(99) == (4, 11)
    assert (cache.latest_epoch, EpochCache().latest_epoch) == (4, -1)


@pytest.mark.parametrize(
    ("epoch", "end", "expected"),
    [(2, 8, True), (2, 9, False), (3, 11, True), (4, 15, True), (4, 16, False), (1, 7, False), (5, 15, False)],
)
def test_record_is_held_if_its_term_reaches_so_far(epoch: int, end: int, expected: bool) -> None:
    """The log ends at 15. The record below `end` was written in `epoch`; a term writes each offset once."""
    assert EpochCache(THREE).holds(epoch, end, 15) == expected


def test_e01_nonsense_is_an_error() -> None:
    """Neither an epoch nor an offset below zero can be assigned."""
    with pytest.raises(AssertionError):
        EpochCache([(-1, 3)])
    with pytest.raises(AssertionError):
        EpochCache([(1, -3)])


def test_e15_a_leader_without_writes_is_replaced_by_the_next() -> None:
    """Epoch 7 started at 30 and wrote nothing, so epoch 8 starts there."""
    cache = EpochCache([(6, 10)])

    cache.assign(7, 30)
    assert cache.entries[-1] == (7, 30)
    cache.assign(8, 30)

    assert cache.entries == ((6, 10), (8, 30))


CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("assign"), st.integers(0, 9), st.integers(0, 30)),
        st.tuples(st.just("end"), st.integers(-1, 30), st.just(0)),
        st.tuples(st.just("start"), st.integers(-1, 30), st.just(0)),
    ),
    max_size=20,
)


@given(CALLS)
def test_e01_both_columns_always_rise(calls: list[tuple[str, int, int]]) -> None:
    """Both columns rise after any sequence of calls (I9)."""
    cache = EpochCache()
    for name, first, second in calls:
        before = cache.entries
        if name == "assign":
            changed = cache.assign(first, second)
        elif name == "end":
            changed = cache.truncate_from_end(first)
        else:
            changed = cache.truncate_from_start(first)

        cache.check_invariants()
        assert changed == (cache.entries != before)
