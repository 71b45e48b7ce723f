"""Vacancies: the offsets of what a task has read that hold no record for it. Plain calculations, no I/O.

Compaction leaves them, and transactions: their markers, and the records of aborted ones to a reader that does not read
uncommitted records. A span is reported whole however the answers of brokers were cut, so that the rows of a range do
not depend on the size of fetches.

Units: offsets count records; ends are exclusive.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from syncline.model.ids import TopicPartition
from syncline.pipeline.source.data_loss import Gap, GapReason


class Vacancies:
    """The vacant spans of one task's ranges, each of which is read from its start to its end."""

    def __init__(self) -> None:
        # By partition the span that reaches as far as was read: the next answer may continue it.
        self._open: dict[TopicPartition, tuple[int, int]] = {}

    def read(self, place: TopicPartition, start: int, end: int, found: Sequence[npt.NDArray[np.int64]]) -> list[Gap]:
        """Record that the offsets from `start` below `end` hold the records `found`; return the spans that ended."""
        if start == end:
            return []
        told, begin = [], start
        if place in self._open:
            known = self._open.pop(place)
            if known[1] == start:
                begin = known[0]
            else:
                # What lies between was lost, and is reported as lost.
                told.append(_vacant(place, *known))
        offsets = np.concatenate(found) if found else np.empty(0, np.int64)
        lows = np.concatenate(([begin], offsets + 1))
        highs = np.concatenate((offsets, [end]))
        assert (lows <= highs).all(), f"the offsets of {place} from {start} below {end} do not ascend"
        spans = [(int(lows[at]), int(highs[at])) for at in np.flatnonzero(lows < highs)]
        if spans and spans[-1][1] == end:
            self._open[place] = spans.pop()
        return told + [_vacant(place, *span) for span in spans]

    def rest(self) -> list[Gap]:
        """Return the spans that nothing continues any more."""
        told = [_vacant(place, *span) for place, span in sorted(self._open.items())]
        self._open.clear()
        return told


def _vacant(place: TopicPartition, start: int, end: int) -> Gap:
    return Gap(place, start, end, GapReason.NO_RECORD)
