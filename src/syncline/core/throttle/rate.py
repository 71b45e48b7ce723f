"""A rate over the newest seconds, exactly as Kafka measures replication quotas.

One hard idea: the divisor is the time since the oldest sample began, not the length of the window. So a burst at the
start is divided by one sample's length and not by the whole window, and a rate can *rise* without a byte when the
oldest sample expires and takes its idle time along. Samples are not aligned to the clock: one begins with the first
record after the previous one was full.

Units: bytes (or whatever is recorded) per second; times in ms of any clock that does not go back.
Invariants: at most `num + 1` samples; a sample begins no later than its last record.
Source: KIP-73; Kafka's SimpleRate and SampledStat.
"""

from typing import Final

# A rate that nobody recorded or read for so long starts afresh.
FORGOTTEN_MS: Final = 3_600_000


class _Sample:
    """What was recorded within one sample's length."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0


class WindowedRate:
    """What was recorded per second, over up to `num + 1` samples of `sample_ms` each."""

    __slots__ = ("_current", "_sample_ms", "_samples", "_used_ms", "_window_ms", "num")

    def __init__(self, num: int = 11, sample_ms: int = 1_000) -> None:
        assert num >= 1, f"a rate over {num} samples"
        assert sample_ms >= 1, f"samples of {sample_ms} ms"
        self.num = num
        self._sample_ms = sample_ms
        self._window_ms = num * sample_ms
        self._samples: list[_Sample] = []
        self._current = 0
        self._used_ms = 0

    def __repr__(self) -> str:
        return f"WindowedRate({sum(each.value for each in self._samples)} in {len(self._samples)} samples)"

    def record(self, value: int, now_ms: int) -> None:
        """Add `value`, even if that exceeds every bound: it has been moved already."""
        assert value >= 0, f"{value} was recorded"
        self._use(now_ms)
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
            self._current = 0
        elif now_ms - samples[self._current].start_ms >= self._sample_ms:
            self._current = (self._current + 1) % (self.num + 1)
            if self._current == len(samples):
                samples.append(_Sample(now_ms))
            else:
                samples[self._current].reset(now_ms)
        sample = samples[self._current]
        sample.value += value
        sample.last_ms = max(sample.last_ms, now_ms)

    def rate(self, now_ms: int) -> float:
        """Return what was recorded per second; even the first reading starts the clock."""
        self._use(now_ms)
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
            self._current = 0
        total = 0
        oldest_ms = now_ms
        for sample in samples:
            if now_ms - sample.last_ms >= self._window_ms:
                sample.reset(now_ms)
            total += sample.value
            oldest_ms = min(oldest_ms, sample.start_ms)
        elapsed_ms = max(now_ms - oldest_ms, self._sample_ms)
        return total * 1_000 / elapsed_ms

    def check_invariants(self) -> None:
        """Assert how many samples there are, and that each is possible."""
        assert len(self._samples) <= self.num + 1, f"{len(self._samples)} samples of a window of {self.num}"
        assert self._current < max(1, len(self._samples)), f"sample {self._current} of {len(self._samples)}"
        for sample in self._samples:
            assert sample.start_ms <= sample.last_ms, f"a sample from {sample.start_ms} to {sample.last_ms}"
            assert sample.value >= 0, f"a sample of {sample.value}"

    def _use(self, now_ms: int) -> None:
        if self._samples and now_ms - self._used_ms >= FORGOTTEN_MS:
            self._samples.clear()
        # A caller may have read the clock a millisecond before somebody else did.
        self._used_ms = max(self._used_ms, now_ms)
