"""The curve from memory to hits, and who causes the misses: against worked examples, to the digit."""

from math import inf

import pytest

from syncline.core.lag.buckets import BYTES, Weighted
from syncline.core.lag.miss_ratio import (
    Demand,
    Drawn,
    Measured,
    curve,
    hit_ratio,
    memory_for,
    misses_by_reader,
    stack_distance,
)

MB, GB = 10**6, 10**9
W, R = 80 * MB, 200 * MB
AGES = [(1, 0.70), (60, 0.85), (300, 0.92), (600, 0.94), (3_600, 0.97), (21_600, 0.99), (86_400, 1.0)]
DEMAND = Demand(W, R, Drawn.of_ages(AGES, W))


@pytest.mark.parametrize(
    ("lag_bytes", "partition_bytes_per_s", "is_hit"),
    [
        pytest.param(1.00 * GB, 2 * MB, True, id="1 GB of a busy partition is young"),
        pytest.param(1.05 * GB, 2 * MB, False, id="a little more is gone"),
        pytest.param(10.1 * MB, 20_000, True, id="10 MB of a slow partition are as old"),
        pytest.param(10.3 * MB, 20_000, False, id="a little more is gone, too"),
    ],
)
def test_l23_border_of_the_cache_depends_on_the_rate_of_the_partition(
    lag_bytes: float, partition_bytes_per_s: float, is_hit: bool
) -> None:
    """80 MB/s and 40.8 GB: what was written within 510 s is in memory."""
    distance_bytes = stack_distance(lag_bytes, partition_bytes_per_s, W)
    point = hit_ratio(
        Demand(W, R, Drawn([(distance_bytes, 0.0), (distance_bytes, 1.0)])), 40.8 * GB, with_pollution=False
    )

    assert (distance_bytes <= 40.8 * GB) == is_hit
    assert point.hit_ratio == (1.0 if is_hit else 0.0)


# RAM in GB, M in GB, T in s, hits in %, disk in MB/s; the same with pollution: T, hits, disk.
TABLE = [
    (16, 13.6, 170, 88.2, 23.6, 128, 87.0, 26.0),
    (32, 27.2, 340, 92.3, 15.5, 280, 91.4, 17.2),
    (48, 40.8, 510, 93.4, 13.2, 433, 92.9, 14.2),
    (64, 54.4, 680, 94.1, 11.8, 590, 93.9, 12.1),
    (128, 108.8, 1_360, 94.8, 10.5, 1_198, 94.6, 10.8),
    (256, 217.6, 2_720, 96.1, 7.8, 2_465, 95.9, 8.3),
]


@pytest.mark.parametrize("row", TABLE, ids=[f"{row[0]} GB" for row in TABLE])
def test_l24_worked_example(row: tuple[float, ...]) -> None:
    """Every row, plain and with pollution."""
    ram_gb, memory_gb, *expected = row
    plain, polluted = (hit_ratio(DEMAND, memory_gb * GB, with_pollution=pollution) for pollution in (False, True))

    assert memory_gb == pytest.approx(0.85 * ram_gb)
    found = [
        number
        for point in (plain, polluted)
        for number in (round(point.residence_s), round(point.hit_ratio * 100, 1), round(point.disk_bytes_per_s / MB, 1))
    ]
    assert found == pytest.approx(expected, abs=0.1001, rel=0.0005)


def test_l24_advisor_names_the_memory_for_a_wanted_share() -> None:
    """93 % need 42.3 GB, which is 49.8 GB of RAM; 95 % need 144 GB, and so 169 GB."""
    for share, memory_gb, ram_gb in ((0.93, 42.3, 49.8), (0.95, 144, 169)):
        memory_bytes = memory_for(DEMAND, share)
        assert memory_bytes is not None

        assert memory_bytes / GB == pytest.approx(memory_gb, rel=0.005)
        assert memory_bytes / 0.85 / GB == pytest.approx(ram_gb, rel=0.01)
        assert hit_ratio(DEMAND, memory_bytes, with_pollution=True).hit_ratio == pytest.approx(share, abs=0.0001)


def test_curve_rises_with_memory_and_pollution_lowers_it() -> None:
    """From 1 GB to 1 TB, in powers of two."""
    sizes = [GB << step for step in range(11)]
    polluted, plain = curve(DEMAND, sizes), curve(DEMAND, sizes, with_pollution=False)
    ratios = [point.hit_ratio for point in polluted]

    assert ratios == sorted(ratios)
    assert all(below.hit_ratio <= above.hit_ratio for below, above in zip(polluted, plain, strict=True))


def test_pages_that_were_dropped_are_out_of_reach_of_memory() -> None:
    """A tenth of the bytes lies above all bounds: no memory serves more than nine tenths."""
    counted = Weighted(BYTES)
    counted.note(1_000_000, 900)
    counted.note(1 << 50, 100)
    demand = Demand(W, R, Measured(counted))

    assert memory_for(demand, 0.95) is None
    enough_bytes = memory_for(demand, 0.9)
    assert enough_bytes is not None
    assert 524_288 <= enough_bytes <= 1_048_576 * (1 + 0.1 * R / W) + 2


def test_more_memory_is_never_needed_for_a_smaller_share() -> None:
    """Guards: 39 kB for 90 % and 33 kB for 99 %, where far more was read than written: misses then take the room."""
    counted = Weighted(BYTES)
    counted.note(20_000, 1_000)
    demand = Demand(292.0, 834.0, Measured(counted))
    needed = [memory_for(demand, share) for share in (0.5, 0.9, 0.95, 0.99, 1.0)]
    sizes = [memory_bytes for memory_bytes in needed if memory_bytes is not None]

    assert sizes == sorted(sizes)
    assert len(sizes) == len(needed)
    for memory_bytes, share in zip(sizes, (0.5, 0.9, 0.95, 0.99, 1.0), strict=True):
        assert hit_ratio(demand, memory_bytes, with_pollution=True).hit_ratio >= share - 1e-6


def test_measured_distances_are_right_to_a_bucket() -> None:
    """The same demand, drawn and counted in powers of two: as good as half the memory at least, as twice at most."""
    counted = Weighted(BYTES)
    for step in range(5_000):
        share, low, high = (step + 0.5) / 5_000, 0.0, 86_400.0 * W
        while high - low > MB:
            middle = (low + high) / 2
            low, high = (low, middle) if DEMAND.distances.share_within(middle) >= share else (middle, high)
        counted.note(int(high), 1_000)

    for _, memory_gb, *_ in TABLE:
        half, once, double = (
            hit_ratio(DEMAND, factor * memory_gb * GB, with_pollution=True).hit_ratio for factor in (0.5, 1, 2)
        )
        estimate = hit_ratio(Demand(W, R, Measured(counted)), memory_gb * GB, with_pollution=True).hit_ratio
        assert half <= estimate <= double
        assert estimate == pytest.approx(once, abs=0.01)


def test_l26_reader_far_behind_causes_the_misses_and_is_named() -> None:
    """A at the tail with 100 MB/s, B two hours behind with 20: B makes nearly all misses."""
    demands = {
        "A": Demand(W, 100 * MB, Drawn([(16 * MB, 0.9999), (1_000 * GB, 1.0)])),
        "B": Demand(W, 20 * MB, Drawn([(7_199 * W, 0.0), (7_201 * W, 1.0)])),
    }

    worst, other = misses_by_reader(demands, 40.8 * GB)

    assert (worst.reader, other.reader) == ("B", "A")
    assert worst.share > 0.99
    assert worst.share + other.share == pytest.approx(1)
    assert (worst.hit_ratio, worst.disk_bytes_per_s) == (0.0, 20 * MB)


def test_no_misses_have_no_causes() -> None:
    """Everything is at the tail, or nobody reads."""
    tail = Demand(W, R, Drawn([(1, 1.0)]))

    assert [row.share for row in misses_by_reader({"A": tail}, GB)] == [0.0]
    assert misses_by_reader({}, GB) == []
    assert hit_ratio(Demand(W, 0, Drawn([(1, 1.0)])), GB, with_pollution=True).hit_ratio == 1.0
    assert hit_ratio(Demand(0, R, Drawn([(2 * GB, 1.0)])), GB, with_pollution=True).hit_ratio == 0.5
    assert hit_ratio(Demand(0, 0, Drawn([(1, 1.0)])), GB, with_pollution=True).residence_s == inf


def test_resting_partition_is_infinitely_far_unless_there_is_no_lag() -> None:
    """Its rate now says nothing of when its last records came."""
    assert stack_distance(1, 0, W) == inf
    assert stack_distance(0, 0, W) == 0
