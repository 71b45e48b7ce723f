"""Idempotent producers: which batches of each producer the log already holds.

One hard idea: the state is a function of the log. Only a stored batch changes
it, so all replicas that hold the same batches answer a retry alike, even after
a fail-over or a truncation (S16). The caller checks whether a batch may be
appended (`check`) and records it after the append (`record`); `check` changes
nothing.

The table keeps the last five batches of a producer, as many as a client may
have in flight. It refuses an older retry as out of sequence.

Units: sequences count records of one producer and wrap from 2^31 - 1 to 0;
offsets are inclusive (`last_offset`); times are record times in milliseconds.
Invariants: the batches of a producer rise in offset; at most five.
Source: KIP-98, KIP-360 (unknown producers may begin anywhere).
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE
from syncline.records.batch import BatchHeader

BATCHES_KEPT: Final = 5
SEQUENCE_MAX: Final = 2**31 - 1
OFFSET_MAX: Final = 2**63 - 1


class ProducedBatch(NamedTuple):
    """What identifies a retry of a stored batch."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def base_offset(self) -> int:
        """The offset of the batch's first record."""
        return self.last_offset - self.offset_delta


def _no_batches() -> deque[ProducedBatch]:
    return deque(maxlen=BATCHES_KEPT)


@dataclass(slots=True)
class ProducerState:
    """One producer id in one partition."""

    producer_epoch: int
    batches: deque[ProducedBatch] = field(default_factory=_no_batches)
    last_timestamp_ms: int = NONE
    coordinator_epoch: int = NONE
    # First offset of the open transaction, -1 when none is open.
    transaction_start: int = NONE

    @property
    def last_sequence(self) -> int:
        """The last sequence stored in this producer epoch, -1 when there is none."""
        return self.batches[-1].last_sequence if self.batches else NONE

    @property
    def last_offset(self) -> int:
        """The offset of the producer's newest record here, -1 when unknown."""
        return self.batches[-1].last_offset if self.batches else NONE


class Accepted(NamedTuple):
    """The batch continues its producer's sequence, or belongs to none."""


class Duplicate(NamedTuple):
    """The log already holds the batch: answer with its offset, append nothing."""

    base_offset: int
    last_offset: int
    timestamp_ms: int


class Refused(NamedTuple):
    """The batch does not fit its producer's sequence; nothing may be appended."""

    code: ErrorCode
    message: str


Verdict: TypeAlias = Accepted | Duplicate | Refused
ACCEPTED: Final = Accepted()


class ProducerTable:
    """All producers of one log."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProducerTable) and self.entries == other.entries

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ProducerTable({self.entries!r})"

    def check(self, header: BatchHeader) -> Verdict:
        """Return whether a client's batch with `header` may be appended."""
        if header.producer_id < 0:
            return ACCEPTED
        state = self.entries.get(header.producer_id)
        if state is None:
            return ACCEPTED
        if header.producer_epoch == state.producer_epoch:
            stored = _find(state.batches, header.base_sequence, header.last_sequence)
            if stored is not None:
                return Duplicate(stored.base_offset, stored.last_offset, stored.timestamp_ms)
        if refusal := _refusal_by_epoch(header, state):
            return refusal
        is_next = state.producer_epoch == NONE or _follows(state.last_sequence, header.base_sequence)
        if header.producer_epoch == state.producer_epoch and not is_next:
            return Refused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id}: {header.base_sequence} "
                f"(incoming seq. number), {state.last_sequence} (current end sequence number)",
            )
        if state.transaction_start != NONE and not header.is_transactional:
            return Refused(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {header.producer_id}: its transaction is open",
            )
        return ACCEPTED

    def record(self, header: BatchHeader) -> None:
        """Record a stored batch, without checking its sequence: the leader has checked what a follower stores."""
        if header.producer_id < 0:
            return
        state = self.entries.get(header.producer_id)
        if state is None:
            state = self.entries[header.producer_id] = ProducerState(header.producer_epoch)
        elif header.producer_epoch != state.producer_epoch:
            state.producer_epoch = header.producer_epoch
            state.batches.clear()
        state.last_timestamp_ms = header.max_timestamp
        if header.is_control:
            state.transaction_start = NONE
            return
        assert header.last_offset > state.last_offset, (
            f"producer {header.producer_id} wrote up to {header.last_offset} after {state.last_offset}"
        )
        state.batches.append(
            ProducedBatch(
                header.base_sequence,
                header.last_sequence,
                header.last_offset,
                header.last_offset_delta,
                header.max_timestamp,
            )
        )
        if header.is_transactional and state.transaction_start == NONE:
            state.transaction_start = header.base_offset

    def restore(self, producer_id: int, state: ProducerState) -> None:
        """Replace the state of a producer by that of a snapshot."""
        self.entries[producer_id] = state

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers silent for `expiration_ms` without an open transaction; return how many."""
        expired = [
            producer_id
            for producer_id, state in self.entries.items()
            if state.transaction_start == NONE and now_ms - state.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        return len(expired)

    def rests_on(self) -> int:
        """Return the newest offset in this state: a cut at or below it makes the state wrong.

        -1 when the state is empty; 2^63 - 1 when the batches of a producer are unknown.
        """
        return max(
            (
                max(state.last_offset, state.transaction_start) if state.batches else OFFSET_MAX
                for state in self.entries.values()
            ),
            default=NONE,
        )

    def clear(self) -> None:
        """Forget everything, before a replay."""
        self.entries.clear()

    def check_invariants(self) -> None:
        """Assert that the batches of each producer rise and stay within their bound."""
        for producer_id, state in self.entries.items():
            offsets = [batch.last_offset for batch in state.batches]
            assert len(offsets) <= BATCHES_KEPT, f"producer {producer_id} keeps {len(offsets)} batches"
            assert offsets == sorted(set(offsets)), f"batches of producer {producer_id} do not rise: {offsets}"
            for older, newer in pairwise(state.batches):
                assert older.last_offset < newer.base_offset, (
                    f"batches of producer {producer_id} overlap: {older} {newer}"
                )
            open_at = state.transaction_start
            assert open_at <= state.last_offset or not offsets, f"producer {producer_id} opens at {open_at}: {offsets}"


def _find(batches: Iterable[ProducedBatch], first_sequence: int, last_sequence: int) -> ProducedBatch | None:
    for batch in batches:
        if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
            return batch
    return None


def _refusal_by_epoch(header: BatchHeader, state: ProducerState) -> Refused | None:
    """Return why the producer epoch forbids the batch, None when it does not."""
    if header.producer_epoch < state.producer_epoch:
        return Refused(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {header.producer_id} is {header.producer_epoch}, "
            f"which is smaller than the last seen epoch {state.producer_epoch}",
        )
    is_new_epoch = header.producer_epoch > state.producer_epoch
    if is_new_epoch and header.base_sequence != 0 and state.producer_epoch != NONE:
        return Refused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Invalid sequence number for new epoch of producer {header.producer_id}: "
            f"{header.producer_epoch} (request epoch), {header.base_sequence} (seq. number)",
        )
    return None


def _follows(last_sequence: int, first_sequence: int) -> bool:
    if last_sequence == SEQUENCE_MAX:
        return first_sequence == 0
    return first_sequence == last_sequence + 1
