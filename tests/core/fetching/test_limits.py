"""Byte limits of a fetch: H04 and H05 of the scenario catalogue."""

from syncline.core.fetching.limits import FetchBudget


def read(budget: FetchBudget, partition_max_bytes: int, batches: list[int]) -> int:
    """Read whole batches as a log does under a grant; return the bytes."""
    grant = budget.grant(partition_max_bytes)
    size = 0
    for index, batch in enumerate(batches):
        is_forced = index == 0 and grant.whole_first_batch
        if size + batch > grant.max_bytes and not is_forced:
            break
        size += batch
    budget.spend(size)
    return size


def test_h04_the_first_batch_comes_whole_and_leaves_nothing_for_others() -> None:
    """max_bytes 1000: t-0's batch of 1500 is returned, t-1 gets nothing."""
    budget = FetchBudget(1000)

    assert [read(budget, 1000, [1500]), read(budget, 1000, [300])] == [1500, 0]


def test_h04_a_partition_at_its_end_leaves_the_room_to_others() -> None:
    """t-0 has nothing, t-1 gets its 300."""
    budget = FetchBudget(1000)

    assert [read(budget, 1000, []), read(budget, 1000, [300])] == [0, 300]


def test_h05_a_partition_limit_does_not_block_the_first_batch() -> None:
    """Limit 100, batch 200."""
    budget = FetchBudget(1000)

    assert read(budget, 100, [200, 200]) == 200


def test_limits_of_zero_return_the_first_batch_only() -> None:
    """It is whichever partition has data first."""
    budget = FetchBudget(0)

    assert [read(budget, 0, []), read(budget, 50, [94]), read(budget, 50, [94])] == [0, 94, 0]


def test_limits_count_down_over_partitions() -> None:
    """Later partitions share what is left."""
    budget = FetchBudget(250)

    assert [read(budget, 1000, [100]), read(budget, 1000, [100, 100]), read(budget, 1000, [100])] == [100, 100, 0]
    assert budget.grant(1000).max_bytes == 50


def test_partitions_with_records_count_and_others_do_not() -> None:
    """A follower's next request lists so many; of what it does not list it would get the same records again."""
    budget = FetchBudget(1000, rows_max=2)

    assert [read(budget, 1000, each) for each in ([], [100], [], [100], [100], [])] == [0, 100, 0, 100, 0, 0]
    assert budget.is_spent


def test_budget_is_spent_when_no_partition_can_return_records() -> None:
    """Not before the first batch, which comes whole."""
    budget = FetchBudget(0)
    states = [budget.is_spent]
    read(budget, 50, [94])
    states.append(budget.is_spent)

    assert states == [False, True]
    assert FetchBudget(0, has_room=False).is_spent


def test_negative_limit_is_the_error_of_the_first_partition_only() -> None:
    """Later partitions have no budget left; their limit is zero."""
    budget = FetchBudget(-1)

    assert budget.grant(1000).max_bytes < 0
    assert [read(budget, 1000, []), read(budget, 1000, [100, 100]), read(budget, 1000, [100])] == [0, 100, 0]
