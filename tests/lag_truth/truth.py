"""Lag by brute force: from the files of a partition, and what clients logged, as intervals.

    file     which record has which offset, where batches begin, how large they are
    clients  when each record was sent, and by when it was acknowledged: it was appended between the two
    row      what a broker said; how far it lies outside of what is possible is its error, 0 inside

A record that was appended before another one cannot have come later: that narrows intervals, and bounds those of
records whose producer never got an answer.

Units: ms, records, bytes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import inf
from typing import Any, NamedTuple

from syncline.records.batch import iterate
from syncline.records.record import read_records
from tests.lag_truth.history import History
from tests.lag_truth.sampling import Sample

# Brokers cut the fractions of their clock's milliseconds off.
ROUNDING_MS = 1.0


class Errors(NamedTuple):
    """How far one row is off, and what is wrong with it beyond any measure."""

    time_ms: float
    records: float
    size_bytes: int
    wrong: str = ""


class PartitionTruth:
    """One partition as it really was."""

    def __init__(self, log: bytes, partition: int, history: History) -> None:
        self.partition = partition
        # Of each batch: its first offset, and the bytes before it.
        self._starts: list[int] = []
        self._positions: list[int] = []
        self.end = 0
        self.end_bytes = 0
        self.largest_batch_bytes = 0
        sent: list[float] = []
        acknowledged: list[float] = []
        for position, header in iterate(memoryview(log), 0, len(log)):
            self._starts.append(header.base_offset)
            self._positions.append(position)
            self.end, self.end_bytes = header.next_offset, position + header.size_bytes
            self.largest_batch_bytes = max(self.largest_batch_bytes, header.size_bytes)
            for record in read_records(log, position, header):
                assert record.offset == len(sent), f"offset {record.offset} follows {len(sent) - 1}"
                name = (record.value or b"").rpartition(b":")[0] + b":"
                sent.append(history.sent_ms[name])
                acknowledged.append(history.acknowledged_ms.get((partition, record.offset), inf))
        # Not before what was sent before it, not after what was acknowledged after it.
        self.sent_ms = list(accumulate(sent, max))
        self.acknowledged_ms = list(accumulate(reversed(acknowledged), min))[::-1]

    def batches(self) -> Iterator[tuple[int, int]]:
        """Yield the first offset of each batch, and the bytes before it."""
        return zip(self._starts, self._positions, strict=True)

    def ends_between(self, at_ms: float) -> tuple[int, int]:
        """Return the bounds of the high watermark at a moment."""
        return (
            bisect_left(self.acknowledged_ms, at_ms - ROUNDING_MS),
            bisect_right(self.sent_ms, at_ms + ROUNDING_MS),
        )

    def bytes_from(self, offset: int) -> int:
        """Return the bytes before the batch that holds an offset; all of them, at the end or beyond."""
        if offset >= self.end:
            return self.end_bytes
        return self._positions[bisect_right(self._starts, offset) - 1]

    def is_batch_end(self, offset: int) -> bool:
        """Return whether a batch ends before an offset in the log as it remained."""
        return offset == self.end or (offset < self.end and self._starts[bisect_left(self._starts, offset)] == offset)

    def errors(self, sample: Sample, committed_between: tuple[float, float]) -> Errors:
        """Return how far a row with a commit is off."""
        row = sample.row
        at_ms, committed = row["at_ms"], row["committed"]
        watermark, log_end = row["ends"]["hw"], row["ends"]["leo"]
        lowest, highest = self.ends_between(at_ms)
        unread = max(0, watermark - committed)
        records = max(
            # What was acknowledged is below the watermark, and what was not sent is not.
            lowest - watermark,
            watermark - highest,
            # No commit is hidden, and none is invented.
            committed_between[0] - committed,
            committed - committed_between[1],
            abs(row["lag_hw"] - unread),
            abs(row["readable"] - unread),
            abs(row["lag_leo"] - max(0, log_end - committed)),
        )
        return Errors(
            self._time_error(row, at_ms, committed, watermark),
            max(0, records),
            self._bytes_error(row, committed, watermark, log_end),
            self._wrong(sample, watermark, log_end),
        )

    def _time_error(self, row: dict[str, Any], at_ms: float, committed: int, watermark: int) -> float:
        said_ms = row["staleness_ms"]
        if committed >= watermark:
            return float(said_ms)
        longest_ms = max(0.0, at_ms - self.sent_ms[committed]) + ROUNDING_MS
        shortest_ms = max(0.0, at_ms - self.acknowledged_ms[committed]) - ROUNDING_MS
        return max(0.0, said_ms - longest_ms, shortest_ms - said_ms)

    def _bytes_error(self, row: dict[str, Any], committed: int, watermark: int, log_end: int) -> int:
        said, begin = row["lag_bytes"], self.bytes_from(committed)
        if committed >= log_end:
            return abs(said)
        if self.is_batch_end(log_end):
            return abs(said - (self.bytes_from(log_end) - begin))
        # The end of a leader that died with it: what was above the watermark may be gone.
        return max(0, self.bytes_from(watermark) - begin - said)

    @staticmethod
    def _wrong(sample: Sample, watermark: int, log_end: int) -> str:
        at_ms = sample.row["at_ms"]
        if not sample.asked_ms - ROUNDING_MS <= at_ms <= sample.answered_ms + ROUNDING_MS:
            return f"a row as of {at_ms}, asked for at {sample.asked_ms:.0f} and answered at {sample.answered_ms:.0f}"
        if not watermark <= log_end:
            return f"a watermark of {watermark} above the log end {log_end}"
        return ""


class Verdict:
    """All samples of a run, judged."""

    def __init__(self, truths: Iterable[PartitionTruth], history: History) -> None:
        self._truths = {truth.partition: truth for truth in truths}
        self._history = history
        self.samples = 0
        self.estimated = 0
        # Rows without a commit, and rows whose place was not found in time.
        self.without_commit = 0
        self.incomplete = 0
        self.worst = Errors(0.0, 0, 0)
        # The rows that are off by more than the limits, with their errors.
        self.violations: list[tuple[Errors, Sample]] = []

    @property
    def bytes_limit(self) -> int:
        """One index interval, and one batch."""
        return 4_096 + max(truth.largest_batch_bytes for truth in self._truths.values())

    def judge(self, sample: Sample) -> None:
        """Judge one row."""
        row = sample.row
        commits = self._history.commits[sample.group, row["partition"]]
        between = commits.between(sample.asked_ms, sample.answered_ms)
        if row["committed"] is None:
            self.without_commit += 1
            if between[0] >= 0 or row["lag_hw"] is not None:
                self.violations.append((Errors(0.0, 0, 0, "a commit is missing"), sample))
            return
        if row["staleness_ms"] is None or row["lag_bytes"] is None:
            self.incomplete += 1
            return
        self.samples += 1
        self.estimated += row["is_estimated"]
        found = self._truths[row["partition"]].errors(sample, between)
        self.worst = Errors(*(max(pair) for pair in zip(self.worst[:3], found[:3], strict=True)))
        if found.wrong or found.time_ms > 250 or found.records > 0 or found.size_bytes > self.bytes_limit:
            self.violations.append((found, sample))
