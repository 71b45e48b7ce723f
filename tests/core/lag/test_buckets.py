"""Histograms in powers of two: what a bucket holds, and that merging loses nothing."""

import random

import pytest

from syncline.core.lag.buckets import BYTES, TIMES_MS, Scale, Weighted, bucket_of


def of(values: list[int], scale: Scale = BYTES, size_bytes: int = 1) -> Weighted:
    """Return a histogram of fetches of one size."""
    histogram = Weighted(scale)
    for value in values:
        histogram.note(value, size_bytes)
    histogram.check_invariants()
    return histogram


@pytest.mark.parametrize(
    ("scale", "value", "bucket"),
    [
        pytest.param(BYTES, -5, 0, id="below nothing"),
        pytest.param(BYTES, 0, 0, id="nothing"),
        pytest.param(BYTES, 4_096, 0, id="a page is within the first bound"),
        pytest.param(BYTES, 4_097, 1, id="a byte more is not"),
        pytest.param(BYTES, 8_192, 1, id="a bound belongs to its bucket"),
        pytest.param(BYTES, 1 << 44, 32, id="16 TiB is the last bound"),
        pytest.param(BYTES, (1 << 44) + 1, 33, id="above all bounds"),
        pytest.param(BYTES, 1 << 62, 33, id="far above all bounds"),
        pytest.param(TIMES_MS, 1, 0, id="a millisecond"),
        pytest.param(TIMES_MS, 2, 1, id="two milliseconds"),
        pytest.param(TIMES_MS, 1 << 31, 31, id="24 days"),
    ],
)
def test_bucket_holds_values_up_to_its_bound(scale: Scale, value: int, bucket: int) -> None:
    """Bounds are powers of two and included."""
    assert bucket_of(scale, value) == bucket
    assert bucket == scale.bound_count or value <= scale.bound(bucket)
    assert bucket == 0 or value > scale.bound(bucket - 1)


def test_l11_merged_histograms_are_those_of_the_union() -> None:
    """Two brokers with different readers: sums per bucket are exact, and p99 is right to one bucket."""
    draw = random.Random(11)
    near = [int(draw.expovariate(1 / 200_000)) for _ in range(5_000)]
    far = [int(draw.lognormvariate(18, 3)) for _ in range(5_000)]
    merged, union = of(near), of([*near, *far])
    merged.add(of(far))

    assert (list(merged.fetches), list(merged.bytes)) == (list(union.fetches), list(union.bytes))
    assert (merged.sum_by_fetches, merged.sum_by_bytes) == (union.sum_by_fetches, union.sum_by_bytes)
    for share in (0.5, 0.9, 0.99):
        true = sorted([*near, *far])[int(share * 10_000) - 1]
        estimate = merged.quantile(share, by_bytes=False)
        assert estimate is not None
        assert abs(bucket_of(BYTES, int(estimate)) - bucket_of(BYTES, true)) <= 1


def test_bytes_weigh_what_fetches_returned() -> None:
    """99 small fetches at the tail, one large one far behind: half of the fetches are near, half of the bytes far."""
    histogram = Weighted(BYTES)
    for _ in range(99):
        histogram.note(1_000, 1_000)
    histogram.note(1 << 30, 10_000_000)

    by_fetches, by_bytes = (histogram.quantile(0.5, by_bytes=weight) for weight in (False, True))

    assert by_fetches is not None
    assert by_fetches < 4_096
    assert by_bytes == pytest.approx(1 << 30, rel=0.5)
    assert histogram.share_within(1 << 20, by_bytes=False) == 0.99
    assert histogram.share_within(1 << 20, by_bytes=True) == pytest.approx(99_000 / 10_099_000)


def test_share_is_the_inverse_of_the_quantile() -> None:
    """Inside a bucket both interpolate on the log scale, in the first one in a line from 0."""
    histogram = of([1_000, 6_000, 20_000, 1 << 30])

    for share in (0.1, 0.25, 0.4, 0.6, 0.9, 1.0):
        value = histogram.quantile(share, by_bytes=True)
        assert value is not None
        assert histogram.share_within(value, by_bytes=True) == pytest.approx(share)


def test_values_above_all_bounds_are_never_within() -> None:
    """Dropped pages are infinitely far: no memory brings them back."""
    histogram = of([1_000, 1 << 50])

    assert histogram.share_within(float("inf"), by_bytes=True) == 0.5
    assert histogram.quantile(1.0, by_bytes=True) == 1 << 44


def test_nothing_counted_has_no_quantile() -> None:
    """A dashboard shows a gap instead of 0."""
    assert Weighted(TIMES_MS).quantile(0.99, by_bytes=False) is None
    assert Weighted(TIMES_MS).share_within(1.0, by_bytes=False) == 1.0
