"""In-sync rules: which members leave, which followers may join, and what a refusal means.

One hard idea: until the controller has confirmed a change, the leader assumes
the worse of both outcomes. A proposed member counts for the watermark at once;
a member proposed to leave still counts. The union is the maximal ISR
(`in_sync_set`). A leader that ignored either could commit past a replica that
the controller may still elect.

Units: offsets are exclusive ends.
Invariants: the leader never removes itself; a follower that joins is outside the maximal ISR (I5).
Source: KIP-497 (AlterPartition), KAFKA-7128 (epoch start before joining), KIP-903.
"""

from collections.abc import Sequence
from typing import Final

from syncline.core.replication.effects import RefusalOutcome
from syncline.core.replication.follower_state import FollowerState
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.core.replication.lag_policy import LagPolicy
from syncline.model.errors import ErrorCode
from syncline.model.ids import Offset

# The controller did nothing: return to the last committed state and try again later. The last two answer a leader
# that offers its leadership (KIP-501).
_REVERTING: Final = frozenset(
    {
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
)

# The controller has newer metadata than this leader; the leader waits for it.
_AWAITING_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
    }
)


def out_of_sync(
    followers: Sequence[FollowerState], lag: LagPolicy, leader_log_end: Offset, now_ms: int
) -> list[FollowerState]:
    """Return the members that the lag policy gives up, in assignment order."""
    return [
        follower for follower in followers if follower.counts and not lag.is_caught_up(follower, leader_log_end, now_ms)
    ]


def may_join(
    follower: FollowerState, high_watermark: Offset, epoch_start_offset: Offset, brokers: KnownBrokers
) -> bool:
    """Return whether a follower outside the maximal ISR has all committed records, and may serve.

    The watermark of a fresh leader may lag behind what its predecessor committed. A follower at
    that low mark could join, be elected and lack committed records: hence the epoch's start.
    """
    assert not follower.counts, f"{follower!r} is in the maximal ISR already"
    return (
        follower.log_end >= high_watermark and follower.log_end >= epoch_start_offset and follower.is_eligible(brokers)
    )


def outcome_of(error: ErrorCode) -> RefusalOutcome:
    """Return how the leader reacts to an error of the controller."""
    if error in _REVERTING:
        return RefusalOutcome.REVERTED
    if error in _AWAITING_METADATA:
        return RefusalOutcome.AWAITING_METADATA
    return RefusalOutcome.RETRIED
