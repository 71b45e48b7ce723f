"""The batches of one produce request whose records must be read before they are appended, one after the other.

A worker thread reads them (`node.producing.opening`). Meanwhile the partition may have changed, so that an append is
checked again as if the batch had just come.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.producing.serving import Producing
from syncline.node.serving.stepping import failed
from syncline.records.batch import BatchHeader
from syncline.records.validate import OPENED_RECORDS_MAX, InvalidBatch, prepare

if TYPE_CHECKING:
    from syncline.node.serving.request import Request

_TOO_MANY: Final = f"The records of a request are opened up to the {OPENED_RECORDS_MAX}th. Send fewer at a time."


class ClosedBatch(NamedTuple):
    """A batch that must be opened: its partition, its bytes in the request's body, and the place of its row."""

    key: TopicPartition
    start: int
    end: int
    topic_index: int
    row_index: int


class ClosedBatches:
    """What is left to open of one request; `append` takes each batch with what was found, `ended` follows the last."""

    def __init__(
        self,
        producing: Producing,
        request: "Request",
        batches: Sequence[ClosedBatch],
        *,
        append: Callable[[ClosedBatch, BatchHeader | InvalidBatch], None],
        ended: Callable[[], None],
    ) -> None:
        self._producing = producing
        self._request = request
        self._left = list(reversed(batches))
        self._append = append
        self._ended = ended
        # A client's body stays in the receive buffer until the answer; other brokers go on to send requests.
        self._body = request.body if request.listener == "client" else memoryview(bytearray(request.body))
        # How many records of this request may still be opened.
        self._records_left = OPENED_RECORDS_MAX

    def go_on(self) -> None:
        """Have the next batch opened; end after the last one."""
        while self._left:
            batch = self._left[-1]
            partition = self._producing.partitions.get(batch.key)
            header = BatchHeader.parse(self._body, batch.start)
            self._records_left -= header.record_count
            if self._records_left < 0:
                self._take(InvalidBatch(ErrorCode.RECORD_LIST_TOO_LARGE, _TOO_MANY))
            elif partition is None:
                self._take(InvalidBatch(ErrorCode.NOT_LEADER_OR_FOLLOWER, ""))
            else:
                rules, now_ms, body = partition.rules, self._producing.clock.wall_ms(), self._body
                self._producing.opening.submit(partial(prepare, body, batch.start, header, rules, now_ms), self._opened)
                return
        self._ended()

    def _opened(self, result: BatchHeader | Exception) -> None:
        request = self._request
        if request.connection.transport is None:
            return
        if isinstance(result, BatchHeader | InvalidBatch):
            self._take(result)
            self.go_on()
        else:
            failed(request, result)

    def _take(self, content: BatchHeader | InvalidBatch) -> None:
        self._request.body = self._body
        self._append(self._left.pop(), content)
