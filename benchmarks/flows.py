"""What arrived at the destinations, and when: read from their files, so that no broker measures itself.

    sizes of the moving logs, every 50 ms  ->  bytes so far of one broker (`Flow`)  ->  mean, worst window, pauses

A log counts until its partition's move has ended: from then on it grows by what producers write to it, or what its
leader sends to a member of the in-sync set, and no quota applies to that.

Units: bytes, seconds of the monotonic clock.
"""

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Self

SAMPLE_S: Final = 0.05


@dataclass(frozen=True)
class Flow:
    """What passed one broker in one direction: the time of each sample, and the bytes until then."""

    times_s: tuple[float, ...]
    bytes_so_far: tuple[int, ...]

    @property
    def total_bytes(self) -> int:
        """Return all that passed."""
        return self.bytes_so_far[-1] - self.bytes_so_far[0] if self.bytes_so_far else 0

    def mean(self) -> float:
        """Return the bytes per second from the last sample before the first byte to the sample with the last one."""
        arrivals = self._arrivals()
        if not arrivals:
            return 0.0
        return self.total_bytes / (self.times_s[arrivals[-1]] - self.times_s[arrivals[0] - 1])

    def worst(self, window_s: float) -> float:
        """Return the most bytes per second within any window of this length."""
        worst_bytes, first = 0, 0
        for last, now_s in enumerate(self.times_s):
            while now_s - self.times_s[first] > window_s:
                first += 1
            worst_bytes = max(worst_bytes, self.bytes_so_far[last] - self.bytes_so_far[first])
        return worst_bytes / window_s

    def longest_pause_s(self) -> float:
        """Return the longest time between the first byte and the last in which nothing passed."""
        times_s = [self.times_s[sample] for sample in self._arrivals()]
        return max((later_s - earlier_s for earlier_s, later_s in pairwise(times_s)), default=0.0)

    def _arrivals(self) -> list[int]:
        """Return the samples at which there was more than at the one before."""
        return [number for number, (before, now) in enumerate(pairwise(self.bytes_so_far), start=1) if now > before]


class Arrivals:
    """Samples the sizes of logs from a thread of its own, as a context manager."""

    def __init__(self, logs: Sequence[Path]) -> None:
        self._logs = logs
        self._sizes = [0] * len(logs)
        self._open = dict.fromkeys(range(len(logs)))
        self._times_s: list[float] = []
        self._samples: list[tuple[int, ...]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def still_moving(self, numbers: Iterable[int]) -> None:
        """Count from now on only these logs; what the others have received still counts."""
        moving = set(numbers)
        for number in [number for number in self._open if number not in moving]:
            self._sizes[number] = max(self._sizes[number], _size_of(self._logs[number]))
            self._open.pop(number)

    def flow(self, logs: Iterable[int]) -> Flow:
        """Return what arrived in some logs of one broker; call it when sampling is over."""
        chosen = tuple(logs)
        return Flow(tuple(self._times_s), tuple(sum(sizes[number] for number in chosen) for sizes in self._samples))

    def _run(self) -> None:
        while not self._is_over.wait(SAMPLE_S):
            self._sample()

    def _sample(self) -> None:
        for number in list(self._open):
            # What a deleted log received still counts.
            self._sizes[number] = max(self._sizes[number], _size_of(self._logs[number]))
        self._samples.append(tuple(self._sizes))
        self._times_s.append(time.monotonic())


def _size_of(log: Path) -> int:
    size_bytes = 0
    for file in log.glob("*.log"):
        # A log may be cut or deleted meanwhile.
        with suppress(FileNotFoundError):
            size_bytes += file.stat().st_size
    return size_bytes
