"""Truncation: finding the point up to which two logs are the same.

One hard idea: a follower cannot judge its own tail. Cutting it at its own
watermark loses committed records (that watermark is late by a round trip) and
keeps uncommitted ones. Instead leader and follower compare which epoch wrote
which offsets, and the follower cuts where the histories part.

How they compare is a mode. `epoch-fetch` compares within every fetch.
`epoch-request` asks for the end of an epoch before the first fetch, in rounds.
`high-watermark` makes the error above, so that its losses can be shown.

    leader    1 3 5        epoch of the record at offset 0, 1, 2
    follower  0 2 4        asks at (3, epoch 4): the leader's epochs up to 4 end at (3, 2)
              0 2          the follower has no epoch 3: its epochs up to 3 end at (2, 2), ask again
              0            ... (1, 1), then (0, 0)
              (empty)      now the logs agree, after three rounds

Units: offsets; ends are exclusive. (-1, -1) stands for "no such history".
Invariants: each unfinished round lowers the follower's latest epoch, so the rounds end.
Source: KIP-101, KIP-279 (several quick elections), KIP-320 and KIP-595 (compare within the fetch).
"""

from enum import StrEnum
from typing import NamedTuple

from syncline.core.replication.leader_epochs import EpochCache, EpochEnd
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, LeaderEpoch, Offset


class TruncationMode(StrEnum):
    """How a follower reconciles its log with a new leader's; `log.truncation.mode`."""

    EPOCH_FETCH = "epoch-fetch"
    EPOCH_REQUEST = "epoch-request"
    HIGH_WATERMARK = "high-watermark"


def check_leader_epoch(requested: LeaderEpoch, current: LeaderEpoch) -> ErrorCode:
    """Return whether requester and broker mean the same leadership; -1 skips the check."""
    if requested in (NONE, current):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if requested < current else ErrorCode.UNKNOWN_LEADER_EPOCH


def find_divergence(
    epochs: EpochCache,
    last_fetched_epoch: LeaderEpoch,
    fetch_offset: Offset,
    log_start: Offset,
    log_end: Offset,
) -> EpochEnd | ErrorCode | None:
    """Return what prevents a read at `fetch_offset`: where histories part, OFFSET_OUT_OF_RANGE, or None.

    A negative `last_fetched_epoch` leaves the range check only.
    """
    if last_fetched_epoch < 0:
        return None if log_start <= fetch_offset <= log_end else ErrorCode.OFFSET_OUT_OF_RANGE
    if last_fetched_epoch == epochs.latest_epoch and log_start <= fetch_offset <= log_end:
        return None  # the usual case: both write in the same epoch
    known = epochs.end_offset_for(last_fetched_epoch, log_end)
    if known.end_offset == NONE or fetch_offset < log_start:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    assert known.leader_epoch <= last_fetched_epoch, f"epoch {known.leader_epoch} answers {last_fetched_epoch}"
    if known.leader_epoch < last_fetched_epoch or known.end_offset < fetch_offset:
        return known
    return None if fetch_offset <= log_end else ErrorCode.OFFSET_OUT_OF_RANGE


class Truncation(NamedTuple):
    """Where to cut a follower's log, by which rule, and whether the follower must ask the leader again."""

    offset: Offset
    is_finished: bool
    rule: str


def truncation_point(answer: EpochEnd, epochs: EpochCache, log_end: Offset, high_watermark: Offset) -> Truncation:
    """Return where a follower with `epochs` cuts its log after the leader's `answer` to its latest epoch."""
    if answer.end_offset == NONE:
        return Truncation(high_watermark, is_finished=True, rule="leader-has-no-history")
    if answer.leader_epoch == NONE:
        return Truncation(min(answer.end_offset, log_end), is_finished=True, rule="leader-tells-no-epoch")
    own = epochs.end_offset_for(answer.leader_epoch, log_end)
    if own.end_offset == NONE:
        return Truncation(min(answer.end_offset, log_end), is_finished=True, rule="follower-has-older-epochs-only")
    if own.leader_epoch != answer.leader_epoch:
        assert own.leader_epoch < answer.leader_epoch <= epochs.latest_epoch, (
            f"asking again about epoch {own.leader_epoch} after {answer} never ends: {epochs!r}"
        )
        return Truncation(min(own.end_offset, log_end), is_finished=False, rule="follower-lacks-the-epoch")
    return Truncation(min(own.end_offset, answer.end_offset, log_end), is_finished=True, rule="epoch-ends-differ")
