"""The figures of `make bench-throttle`, and what it says of a quota that is not kept."""

import pytest

from benchmarks.flows import Flow
from benchmarks.pages import PAGE
from benchmarks.steady_producer import Felt
from benchmarks.throttle_outcome import HEADINGS, LAYOUTS, TABLE, Outcome

MB = 1_000_000
QUIET = Felt(share=1.0, slowest_ms=120, failed_count=0)


def flow(*arrivals: int, every_s: float = 0.5) -> Flow:
    """Return a flow of samples at equal intervals, in each of which so much arrived; the first one has nothing."""
    so_far = [sum(arrivals[:number]) for number in range(len(arrivals) + 1)]
    return Flow(tuple(number * every_s for number in range(len(so_far))), tuple(so_far))


def outcome(sent: Flow, received: Flow, felt: Felt | None = None, *, layout: int = 0) -> Outcome:
    """Return a move of Syncline at 1 MB/s."""
    return Outcome("Syncline", LAYOUTS[layout], MB, {"sent": sent, "received": received}, 30.0, felt, felt and QUIET)


STEADY = flow(0, 0, *[MB // 2] * 40, 0, 0)


def test_mean_is_of_the_time_in_which_something_passed() -> None:
    """Waiting for the first byte does not count, nor what comes after the last."""
    assert STEADY.mean() == MB
    assert STEADY.total_bytes == 20 * MB


def test_burst_shows_in_short_windows_more_than_in_long_ones() -> None:
    """5 MB at once, and steady before and after."""
    burst = flow(*[MB // 2] * 40, 5 * MB, *[MB // 2] * 40)

    assert burst.worst(1) == 5.5 * MB
    assert burst.worst(10) == 1.45 * MB


def test_pause_is_between_two_arrivals() -> None:
    """Three empty samples make a pause of two seconds."""
    assert flow(0, 0, MB, 0, 0, 0, MB, 0, 0, 0, 0, 0).longest_pause_s() == 2.0
    assert flow(0, 0, 0).longest_pause_s() == 0.0
    assert flow(0, 0, 0).mean() == 0.0


def test_quota_that_is_kept_needs_no_sentence() -> None:
    """With and without a producer, and where the quota of one side is not reached."""
    half = flow(*[MB // 4] * 40)

    assert list(outcome(STEADY, STEADY).unmet()) == []
    assert list(outcome(STEADY, STEADY, QUIET).unmet()) == []
    assert list(outcome(STEADY, half, layout=1).unmet()) == []
    assert list(outcome(STEADY, flow(*[MB * 4 // 10] * 40), layout=1).unmet()) == [
        "Syncline, one to two, without a producer, 1 MB/s: the mean received is 0.800 of the quota, not 0.00 to 0.65"
    ]


@pytest.mark.parametrize(
    ("received", "sentence"),
    [
        (flow(*[MB // 4] * 40), "the mean received is 0.500 of the quota, not 0.90 to 1.02"),
        (flow(*[520_000] * 40), "the mean received is 1.040 of the quota, not 0.90 to 1.02"),
        (flow(*[MB // 2] * 40, MB * 11 // 10, *[MB // 2] * 40), "1.060 of the quota received in 10 s, more than 1.05"),
        (
            flow(*[MB // 2] * 60, MB, MB * 3 // 2, 0, 0, 0, *[MB // 2] * 60),
            "2.50 of the quota received in one second, more than 2.00",
        ),
        (flow(*[MB // 2] * 60, 0, 0, 0, *[MB // 2] * 60), "nothing arrived for 2.0 s, longer than 1.5 s"),
    ],
)
def test_quota_that_is_not_kept_is_named_with_its_number(received: Flow, sentence: str) -> None:
    """One sentence each, with the move that it is about."""
    found = list(outcome(STEADY, received).unmet())

    assert f"Syncline, one to one, without a producer, 1 MB/s: {sentence}" in found


@pytest.mark.parametrize(
    ("felt", "sentence"),
    [
        (
            Felt(share=1.0, slowest_ms=501, failed_count=0),
            "an acknowledgement took 501 ms, more than 500 (120 ms elsewhere)",
        ),
        (Felt(share=0.9, slowest_ms=10, failed_count=0), "producers got 0.900 of their rate, less than 0.98"),
        (Felt(share=1.0, slowest_ms=10, failed_count=2), "2 records were not acknowledged"),
    ],
)
def test_producer_that_is_harmed_is_named_with_its_number(felt: Felt, sentence: str) -> None:
    """What a producer on the moving topic feels."""
    assert list(outcome(STEADY, STEADY, felt).unmet()) == [f"Syncline, one to one, with a producer, 1 MB/s: {sentence}"]


def test_page_has_the_table_between_its_marks() -> None:
    """Once, with the headings that are written today."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"<!-- {TABLE} -->")
    table, _, rest = rest.partition(f"<!-- end of {TABLE} -->")

    assert HEADINGS in table
    assert HEADINGS not in rest
