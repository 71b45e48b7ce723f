"""Waiting fetches: the rules of C05, C20 and C23-C26."""

import pytest

from syncline.core.fetching.delayed import FetchLook, fetch_ready, must_answer_now


def at_once(**given: object) -> bool:
    """Judge a fetch that waits up to 500 ms for one byte of one idle partition."""
    usual = {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1000,
        "partition_count": 1,
        "readable_bytes": 0,
        "has_urgent": False,
    }
    return must_answer_now(**(usual | given))


ANSWERED_AT_ONCE = [
    pytest.param({"max_wait_ms": 0}, id="no-wait"),
    pytest.param({"max_wait_ms": -1}, id="negative-wait"),
    pytest.param({"min_bytes": 0}, id="no-minimum"),
    pytest.param({"partition_count": 0}, id="no-partitions"),
    pytest.param({"readable_bytes": 1}, id="enough"),
    pytest.param({"has_urgent": True}, id="urgent"),
    pytest.param({"min_bytes": 5000, "readable_bytes": 1000}, id="minimum-capped-by-maximum"),
]


@pytest.mark.parametrize("given", ANSWERED_AT_ONCE)
def test_fetch_is_answered_at_once(given: dict[str, object]) -> None:
    """The fetch has an answer, or nothing to wait for."""
    assert at_once(**given)


def test_fetch_is_parked_when_nothing_is_there() -> None:
    """Or too little of it."""
    assert not at_once()
    assert not at_once(min_bytes=100, readable_bytes=99)


def test_c05_a_parked_fetch_completes_with_the_next_record() -> None:
    """One byte is enough."""
    assert not fetch_ready([FetchLook(1, 1, 0)], 1)

    assert fetch_ready([FetchLook(1, 2, 68)], 1)


def test_c20_a_reader_between_bound_and_end_is_answered_empty() -> None:
    """Its offset is above what it may see."""
    assert fetch_ready([FetchLook(9, 7, 0)], 100)


def test_c23_a_parked_fetch_waits_for_its_minimum() -> None:
    """60 bytes are not 100; 120 are."""
    assert not fetch_ready([FetchLook(10, 11, 60)], 100)

    assert fetch_ready([FetchLook(10, 12, 120)], 100)


def test_c25_a_rolled_segment_is_no_data() -> None:
    """Equal offsets never count, whatever segment they are on."""
    assert not fetch_ready([FetchLook(10, 10, 0, is_on_older_segment=True)], 1)

    assert fetch_ready([FetchLook(10, 11, 0, is_on_older_segment=True)], 1000)


def test_c26_a_partition_that_is_not_served_any_more_ends_the_wait() -> None:
    """Leadership lost, deleted, failed, fenced or diverging."""
    assert fetch_ready([FetchLook(10, 10, 0), FetchLook(5, 5, 0, is_broken=True)], 1)


def test_parked_fetch_does_not_count_throttled_partitions() -> None:
    """Neither their bytes nor their older segments."""
    assert not fetch_ready([FetchLook(10, 12, 500, is_on_older_segment=True, is_throttled=True)], 1)
