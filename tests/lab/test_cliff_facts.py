"""What a run of `cache-cliff` says: from rounds and a curve to amounts and waits."""

import pytest

from syncline.core.lag.buckets import BYTES, Weighted
from syncline.lab.cliff_facts import CliffFacts, Kept, Round, Waits, hit_ratio, waits

MB = 1 << 20
MEMORY_BYTES = 16 * MB


def rounds_until(last: int, fell_at: int) -> list[Round]:
    """Return rounds that write 4 MB each, of a reader that falls back by 1 MB in each."""
    return [
        Round(
            written_bytes=4 * MB * number,
            distance_bytes=number * MB,
            late_hit_bytes=MB if number < fell_at else 0,
            late_missed_bytes=0 if number < fell_at else MB,
            late_ms=2.0 if number < fell_at else 60.0,
            large_ms=float(10 + number % 2),
            small_ms=1.0,
        )
        for number in range(1, last + 1)
    ]


@pytest.mark.parametrize("kept_after", [9, 12, 15])
def test_curve_of_a_steady_reader_says_when_it_falls_off(kept_after: int) -> None:
    """Whenever it is kept, from half of the memory on, it says the same: 16 rounds, one megabyte behind in each."""
    rounds = rounds_until(20, fell_at=17)
    distances = Weighted(BYTES)
    for each in rounds[:kept_after]:
        distances.note(each.distance_bytes, MB)
    facts = CliffFacts(MEMORY_BYTES, 50, Kept(kept_after, distances), rounds)

    assert facts.predicted_written_bytes == pytest.approx(4 * MB * 16)
    assert facts.measured_written_bytes == 4 * MB * 17
    assert facts.error == pytest.approx(1 / 17)
    assert (len(facts.before), len(facts.after)) == (16, 4)
    assert (hit_ratio(facts.before), hit_ratio(facts.after)) == (1, 0)
    assert waits(facts.after) == Waits(60.0, 10.5, 1.0)
