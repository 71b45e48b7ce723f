"""How long it takes to compute the distance of an offset to the end, over 10 and over 10,000 segments (L-06).

    python -m benchmarks.byte_lag [--runs 100000]

The lag of an offset in the oldest segment is computed `--runs` times, in turns for both logs. The command exits with 1
if a computation takes 5 us or more, or one log takes twice as long as the other.
"""

import argparse
import sys
import time

from syncline.model.ids import Offset
from syncline.storage.lag import byte_lag
from syncline.storage.segments.segment_list import SegmentList
from tests.storage.lag.test_byte_lag import segments_of_a_kilobyte

COUNTS = (10, 10_000)
TURNS = 10
MEAN_US_MAX = 5.0
RATIO_MAX = 2.0


def seconds(segments: SegmentList, runs: int) -> float:
    """Return how long this many lags take."""
    offset = Offset(1)
    began_s = time.perf_counter()
    for _ in range(runs):
        _ = segments.end_bytes - byte_lag.floor(segments, offset)
    return time.perf_counter() - began_s


def main() -> int:
    """Measure, print, and return 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    runs = max(TURNS, parser.parse_args().runs)
    logs = {count: segments_of_a_kilobyte(count) for count in COUNTS}
    took_s = dict.fromkeys(COUNTS, 0.0)
    for _ in range(TURNS):
        for count, segments in logs.items():
            took_s[count] += seconds(segments, runs // TURNS)
    means_us = {count: 1e6 * took_s[count] / (runs // TURNS * TURNS) for count in COUNTS}
    for count, mean_us in means_us.items():
        print(f"{count:6,} segments: {mean_us:.2f} us per lag, mean of {runs:,}")
    slow, quick = max(means_us.values()), min(means_us.values())
    print(f"{slow / quick:.2f} times as long")
    return 0 if slow < MEAN_US_MAX and slow < RATIO_MAX * quick else 1


if __name__ == "__main__":
    sys.exit(main())
