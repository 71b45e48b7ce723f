"""Batches of idempotent producers that were sent behind a refused one: they are refused with it.

One hard idea: a producer has up to five batches on their way to a partition. When the broker refuses the first one for
a while (it does not lead yet, its disk is full) and is ready again before the second one arrives, that one does not
continue the sequence. OUT_OF_ORDER_SEQUENCE_NUMBER would be true, but clients take it for a loss: they renew their
producer id or epoch, and send again under it what may be in the log already, where nothing shows that it is a
retry. So the batches behind get the same refusal, and the client sends all of them again, in order.

Units: sequences as in `core.producer_state`; times are monotonic milliseconds.
Invariant: at most HEADS_MAX heads, oldest first; each refuses at most BEHIND_MAX batches.
Source: KIP-98 and KIP-360; librdkafka and the Java client bound what is in flight to five.
"""

from dataclasses import dataclass
from typing import Final

from syncline.core.producer_state import BATCHES_KEPT
from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.records.batch import BatchHeader

BEHIND_MAX: Final = BATCHES_KEPT - 1
# A head that is never sent again here (its producer found another leader) is dropped after this time.
HEAD_AGE_MAX_MS: Final = 30_000
HEADS_MAX: Final = 4_096


@dataclass(slots=True)
class Head:
    """The first batch of a producer that was refused in a partition, and how many behind it may be refused with it."""

    producer_epoch: int
    base_sequence: int
    code: ErrorCode
    refused_ms: int
    behind_left: int = BEHIND_MAX


class RefusedHeads:
    """What one broker has refused for a while and not yet seen again.

    `heads`: by partition and producer id, oldest first; the produce path looks whether there are any.
    """

    __slots__ = ("heads",)

    def __init__(self) -> None:
        self.heads: dict[tuple[TopicPartition, int], Head] = {}

    def refused(self, key: TopicPartition, header: BatchHeader, code: ErrorCode, now_ms: int) -> None:
        """Note that a batch was refused, by an error after which its client sends it again."""
        if header.producer_id < 0:
            return
        self._drop_old(now_ms)
        producer = (key, header.producer_id)
        head = self.heads.get(producer)
        if head is not None and head.producer_epoch == header.producer_epoch:
            return
        self.heads.pop(producer, None)
        if len(self.heads) == HEADS_MAX:
            del self.heads[next(iter(self.heads))]
        self.heads[producer] = Head(header.producer_epoch, header.base_sequence, code, now_ms)

    def refusal_behind(
        self, key: TopicPartition, header: BatchHeader, now_ms: int, *, continues: bool
    ) -> ErrorCode | None:
        """Return the error of the refused batch that this one was sent behind; None if there is none.

        `continues`: it continues what the log holds of its producer, or is held by it: nothing is missing before it.
        """
        producer = (key, header.producer_id)
        head = self.heads.get(producer)
        if head is None:
            return None
        is_behind = head.producer_epoch == header.producer_epoch and head.base_sequence != header.base_sequence
        is_old = now_ms - head.refused_ms > HEAD_AGE_MAX_MS
        if continues or is_old or not is_behind or not head.behind_left:
            del self.heads[producer]
            return None
        head.behind_left -= 1
        return head.code

    def _drop_old(self, now_ms: int) -> None:
        """Forget the heads that are too old, which are the first ones."""
        while self.heads:
            oldest = next(iter(self.heads))
            if now_ms - self.heads[oldest].refused_ms <= HEAD_AGE_MAX_MS:
                break
            del self.heads[oldest]
