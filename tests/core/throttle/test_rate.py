"""The measured rate against the golden vectors: of Kafka's own test, and of its algorithm worked out by hand."""

import pytest

from syncline.core.throttle.quota import KafkaQuota
from syncline.core.throttle.rate import FORGOTTEN_MS, WindowedRate

# (time in ms, bytes recorded or None to measure only, rate after it, whether above the quota)
Step = tuple[int, int | None, float, bool]

VECTOR_A: list[Step] = [
    (0, None, 0, False),
    (1_500, 1, 0.667, False),
    (1_500, 149, 100.0, False),
    (1_500, 1, 100.667, True),
    (2_000, None, 75.5, False),
    (2_500, 99, 100.0, False),
    (2_500, 1, 100.4, True),
    (4_500, None, 55.78, False),
]
VECTOR_B: list[Step] = [
    (0, 10_485_760, 10_485_760, True),
    (500, None, 10_485_760, True),
    (1_000, None, 10_485_760, True),
    (2_000, None, 5_242_880, True),
    (10_485, None, 1_000_072, True),
    (10_486, None, 999_977, False),
    (10_999, None, 953_337, False),
    (11_000, None, 0, False),
]
VECTOR_D: list[Step] = [
    (0, 100, 100, False),
    (9_000, 9_000_000, 1_000_011, True),
    (10_999, None, 818_265, False),
    (11_000, None, 4_500_000, True),
    (20_000, None, 0, False),
]


def play(steps: list[Step], num: int, limit_bytes_per_s: int, tolerance: float) -> None:
    """Record and measure step by step, and compare rates and verdicts."""
    rate = WindowedRate(num)
    quota = KafkaQuota(rate)
    quota.set_limit(limit_bytes_per_s, 0)
    for now_ms, size_bytes, expected, is_exceeded in steps:
        if size_bytes is not None:
            quota.record(size_bytes, now_ms)

        assert quota.rate(now_ms) == pytest.approx(expected, abs=tolerance), now_ms
        assert quota.is_exceeded(now_ms) is is_exceeded, now_ms

        rate.check_invariants()


def test_t01_vector_a_a_partial_window_counts_as_long_as_it_lasted() -> None:
    """Kafka's own example: 150 bytes in 1.5 s are exactly the quota of 100 per second, which is not above it."""
    play(VECTOR_A, 10, 100, 0.01)


def test_t02_vector_b_one_burst_is_paid_off_until_its_sample_expires() -> None:
    """10 MiB at once under a quota of 1 MB/s: for 10,485 ms too much, and after 11 s forgotten."""
    play(VECTOR_B, 11, 1_000_000, 1)


def test_t03_vector_c_a_steady_stream_settles_with_a_fence_post_too_many() -> None:
    """1 MB at the beginning of each second: 11 records over the 10 seconds between them are 1.1 MB/s."""
    rate = WindowedRate()
    before, after = [], []
    for second in range(16):
        before.append(rate.rate(second * 1_000) if second else 0.0)
        rate.record(1_000_000, second * 1_000)
        after.append(rate.rate(second * 1_000))

    assert [1e6, 2e6, 1.5e6, pytest.approx(4e6 / 3), 1.25e6, 1.2e6] == after[:6]
    assert [1e6] * 4 == before[12:]
    assert [1.1e6] * 4 == after[12:]


def test_t04_vector_d_the_rate_rises_when_an_old_sample_takes_its_idle_time_along() -> None:
    """At 11 s the first sample expires: the divisor falls from 11 s to 2 s, and no byte was sent."""
    play(VECTOR_D, 11, 1_000_000, 1)


def test_reading_starts_the_clock() -> None:
    """A rate that was read at 0 has been measured for 5 s when the first bytes come."""
    read, unread = WindowedRate(), WindowedRate()
    read.rate(0)
    for rate in (read, unread):
        rate.record(5_000, 5_000)

    assert (1_000.0, 5_000.0) == (read.rate(5_000), unread.rate(5_000))


def test_an_unused_rate_is_forgotten_after_an_hour() -> None:
    """Then it starts afresh, without the idle time of old samples."""
    rate = WindowedRate()
    rate.record(1_000, 0)
    rate.record(7_000, FORGOTTEN_MS)

    assert rate.rate(FORGOTTEN_MS) == 7_000


def test_samples_are_as_long_as_configured() -> None:
    """Two samples of 5 s: the floor of the divisor is 5 s, and bytes live for 10 s."""
    rate = WindowedRate(2, 5_000)
    rate.record(10_000, 0)

    assert (2_000.0, 2_000.0, 0.0) == (rate.rate(1_000), rate.rate(5_000), rate.rate(10_000))
