"""The rows of a leader's answer, processed in slices: an answer may have thousands, each with records to write.

The first slice is worked on in the callback that received the answer, unless there surely are others: to parse so many
rows has taken long. For the others their records are copied once, if they lie in the receive buffer; until the last
slice is done, no further request is sent. A lost connection drops what is left: it is fetched again.

A slice ends by the clock, and by the number of rows: where no time passes within a callback (simulated runs), it is
sliced, too, at the same rows in every run.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from syncline.node.loop_holds import LoopHolds
from syncline.node.replication.leader_questions import Key
from syncline.wire.fetch_response import FetchedPartition

# How long one callback works on rows, and how many it does at most. A log that gets its first records takes half a
# millisecond, most other rows some microseconds.
SLICE_MS: Final = 4
ROWS_PER_SLICE: Final = 200
# An answer of so few is processed without a look at the clock.
FEW_ROWS: Final = 4

_Row = tuple[Key, FetchedPartition]


class AnsweredRows:
    """The rows of one answer that are yet to be processed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        holds: LoopHolds,
        *,
        process: Callable[[Key, FetchedPartition], None],
        paused: Callable[[], None],
        ended: Callable[[Exception | None], None],
    ) -> None:
        self._loop = loop
        self._holds = holds
        self._process = process
        # Called between two slices.
        self._paused = paused
        # Called after the last row, or when one failed.
        self._ended = ended
        # None if nothing is left of the last answer.
        self.left: Iterator[_Row] | None = None
        # Whether the records of what is left lie in the receive buffer.
        self._is_lent = False

    def begin(self, topics: Sequence[tuple[str | bytes, Sequence[FetchedPartition]]], *, is_lent: bool = True) -> None:
        """Process the rows of an answer, now and in the next turns of the loop.

        Records that are lent lie in the receive buffer, and last no longer than this callback.
        """
        assert self.left is None, "an answer came before the last one was processed"
        self.left = _rows_of(topics)
        self._is_lent = is_lent
        if sum(len(rows) for _, rows in topics) > ROWS_PER_SLICE:
            self._pause(self.left)
        else:
            self._work(self.left)

    def drop(self) -> None:
        """Process nothing more."""
        self.left = None

    def _go_on(self, left: Iterator[_Row]) -> None:
        if left is self.left:
            began_ms = self._holds.now_ms()
            self._work(left)
            self._holds.ended(began_ms, "answers of leaders")

    def _work(self, left: Iterator[_Row]) -> None:
        began_ms = self._holds.now_ms()
        count = 0
        try:
            for key, row in left:
                self._process(key, row)
                count += 1
                if count >= ROWS_PER_SLICE or self._holds.now_ms() - began_ms >= SLICE_MS:
                    self._pause(left)
                    return
        except Exception as error:  # noqa: BLE001 - the fetcher decides what becomes of the rest
            self.left = None
            self._ended(error)
            return
        self.left = None
        self._ended(None)

    def _pause(self, left: Iterator[_Row]) -> None:
        if self._is_lent:
            left = self.left = iter([(key, row._replace(records=bytes(row.records))) for key, row in left])
            self._is_lent = False
        self._loop.call_soon(self._go_on, left)
        self._paused()


def _rows_of(topics: Sequence[tuple[str | bytes, Sequence[FetchedPartition]]]) -> Iterator[_Row]:
    for topic_id, rows in topics:
        assert isinstance(topic_id, bytes), f"topic {topic_id} is named, and brokers ask by id"
        for row in rows:
            yield (topic_id, row.partition), row
