"""The rows of a leader's answer, processed in slices: an answer may have thousands, each with records to write.

The first slice is worked on in the callback that received the answer; what is left then is copied once, as it lies in
the receive buffer. A long answer is read row by row, too, so that it takes no longer to begin with it. Until the last
slice is done, no further request is sent. A lost connection drops what is left: it is fetched again. So does an answer
that makes no sense from some row on; each row before is checked by the log that it is for.

A slice ends by the clock, and by the number of rows: where no time passes within a callback (simulated runs), it is
sliced, too, at the same rows in every run.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias, cast

from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.replication.leader_questions import Key
from syncline.records.buffers import Buffer
from syncline.wire.fetch_response import FetchedPartition, FetchedRows

# How long one callback works on rows, and how many it does at most. A log that gets its first records takes half a
# millisecond, most other rows some microseconds.
SLICE_MS: Final = 4
ROWS_PER_SLICE: Final = 200
# An answer of so few is processed without a look at the clock.
FEW_ROWS: Final = 4

_Row: TypeAlias = tuple[Key, FetchedPartition]


class Rows(Protocol):
    """Rows of an answer, in order."""

    def __iter__(self) -> Iterator[_Row]:
        """Iterate over those that are left."""

    def keep(self) -> None:
        """Let what is left outlast this callback. Its records may lie in the receive buffer."""


class ParsedRows:
    """The rows of an answer that was parsed as a whole."""

    def __init__(self, topics: Sequence[tuple[str | bytes, Sequence[FetchedPartition]]]) -> None:
        self._left = self._rows_of(topics)

    def __iter__(self) -> Iterator[_Row]:
        return self._left

    def keep(self) -> None:
        """Copy the records of each row that is left."""
        self._left = iter([(key, row._replace(records=bytes(cast("Buffer", row.records)))) for key, row in self._left])

    @staticmethod
    def _rows_of(topics: Sequence[tuple[str | bytes, Sequence[FetchedPartition]]]) -> Iterator[_Row]:
        for topic_id, rows in topics:
            assert isinstance(topic_id, bytes), f"topic {topic_id} is named, and brokers ask by id"
            for row in rows:
                yield (topic_id, row.partition), row


class RowsToRead:
    """The rows of a long answer, which are read when it is their turn."""

    def __init__(self, rows: FetchedRows) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[_Row]:
        for topic_id, row in self._rows:
            yield (topic_id, row.partition), row

    def keep(self) -> None:
        """Copy the part of the answer that is left."""
        self._rows.keep()


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
        self.left: Rows | None = None
        # Whether what is left lies in the receive buffer.
        self._is_lent = False

    def begin(self, rows: Rows) -> None:
        """Process rows that lie in the receive buffer, now and in the next turns of the loop."""
        assert self.left is None, "an answer came before the last one was processed"
        self.left = rows
        self._is_lent = True
        self._work(rows)

    def drop(self) -> None:
        """Process nothing more."""
        self.left = None

    def _go_on(self, left: Rows) -> None:
        if left is self.left:
            began_ms = self._holds.now_ms()
            self._work(left)
            self._holds.ended(began_ms, "answers of leaders")

    def _work(self, left: Rows) -> None:
        began_ms = self._holds.now_ms()
        count = 0
        try:
            for key, row in left:
                self._process(key, row)
                count += 1
                if count >= ROWS_PER_SLICE or self._holds.look_ms() - began_ms >= SLICE_MS:
                    self._pause(left)
                    return
        except Exception as error:  # noqa: BLE001 - the fetcher decides what becomes of the rest
            self.left = None
            self._ended(error)
            return
        self.left = None
        self._ended(None)

    def _pause(self, left: Rows) -> None:
        if self._is_lent:
            left.keep()
            self._is_lent = False
        self._loop.call_soon(self._go_on, left)
        self._paused()
