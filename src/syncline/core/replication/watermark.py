"""High watermark: the offset below which records can no longer be lost.

One hard idea: consumers read up to it, so moving it too far is data loss and
moving it too late is only latency. When unsure, this module waits.

Which replicas count: the committed ISR plus the replicas that the leader has
proposed for it (together the maximal ISR). The controller may still refuse
those, but counting them early can only hold the mark back, so it is safe with
either answer. Besides, a follower outside the ISR that is caught up and eligible
holds the mark until it joins: under steady load it could not reach it otherwise.
One that left the ISR has to be caught up anew: it may have lost its log, or a
throttle may hold it back, and everybody would wait for what it lacks.

Units: offsets are exclusive ends ("everything below"); a follower's log end is -1 until it fetches.
Invariants: never moves back within a leader epoch (I1); never passes a replica
that counts (I5, I7); does not move while the committed ISR is below its minimum.
Source: KIP-497 (proposed replicas count), KIP-966 (strict minimum ISR), KAFKA-4485 (near-ISR hold).
"""

from collections.abc import Iterable

from syncline.core.replication.follower_state import FollowerState
from syncline.core.replication.known_brokers import KnownBrokers
from syncline.core.replication.lag_policy import LagPolicy
from syncline.model.ids import Offset


def reached(
    leader_log_end: Offset,
    followers: Iterable[FollowerState],
    lag: LagPolicy,
    brokers: KnownBrokers,
    now_ms: int,
) -> Offset:
    """Return the lowest log end among the leader and all followers that hold the mark, -1 if one is unknown."""
    lowest = leader_log_end
    for follower in followers:
        # The cheap comparison first: most followers are not the slowest one.
        if follower.log_end < lowest and (
            follower.counts or holds_back(follower, leader_log_end, lag, brokers, now_ms)
        ):
            lowest = follower.log_end
    return lowest


def waits_for(
    follower: FollowerState, leader_log_end: Offset, lag: LagPolicy, brokers: KnownBrokers, now_ms: int
) -> bool:
    """Return whether a follower may keep the mark from moving: it counts, or is near enough to joining."""
    return follower.counts or holds_back(follower, leader_log_end, lag, brokers, now_ms)


def holds_back(
    follower: FollowerState, leader_log_end: Offset, lag: LagPolicy, brokers: KnownBrokers, now_ms: int
) -> bool:
    """Return whether the mark waits for a follower outside the maximal ISR, because it is near enough to joining."""
    return (
        lag.holds_watermark
        and follower.is_back
        and lag.is_caught_up(follower, leader_log_end, now_ms)
        and follower.is_eligible(brokers)
    )


def follower_mark(leader_high_watermark: Offset, log_start: Offset, log_end: Offset) -> Offset:
    """Return a follower's own mark after an answer that showed the leader's; it may go down under a new leader."""
    assert log_start <= log_end, f"a log from {log_start} to {log_end}"
    return max(log_start, min(leader_high_watermark, log_end))
