"""Succession: a leader that serves its followers too slowly hands the partition to another member (KIP-501).

One hard idea: the leader knows exactly which member has the most records, the controller does not. So the leader
submits the ISR in the order of succession, itself last, and the controller elects the first that may lead. The
member that was kept waiting has the fewest records; were it elected, the others would have to cut their logs to it.
One that a reassignment is removing comes after those that stay, as it would soon hand the partition on.

Four limits keep leadership from circling: a minimum tenure, a pause that doubles after each refusal, and, at the
controller, a quota and a mark (`demotions`).

Units: times in ms of one monotonic clock; offsets are exclusive ends.
Source: KIP-501 (solution 2) with its completion; scenarios D03, D04, D18-D21, F22.
"""

from collections.abc import Collection, Sequence
from typing import Final

from syncline.core.replication.follower_state import FollowerState
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId

BACKOFF_FIRST_MS: Final = 5_000
BACKOFF_MAX_MS: Final = 300_000
# After so long without a slow request the pauses start short again.
BACKOFF_FORGOTTEN_MS: Final = 3_600_000

# Refusals of the controller: handed over too often, or no other member can lead.
REFUSALS: Final = frozenset({ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE})


def succession(
    leader: BrokerId,
    members: Collection[BrokerId],
    followers: Sequence[FollowerState],
    removing: Collection[BrokerId] = (),
) -> tuple[BrokerId, ...]:
    """Return the ISR in the order of succession: most records first, ties in assignment order, the leader last.

    `followers` come in assignment order.
    """
    assert leader in members, f"leader {leader} is not one of the members {members}"
    ranked = sorted(
        (each for each in followers if each.broker_id in members),
        key=lambda each: (each.broker_id in removing, -each.log_end),
    )
    return (*(each.broker_id for each in ranked), leader)


class Backoff:
    """How long one partition stays where it is after refusals."""

    __slots__ = ("_next_pause_ms", "_triggered_ms", "until_ms")

    def __init__(self) -> None:
        self.until_ms: int | None = None
        self._next_pause_ms = BACKOFF_FIRST_MS
        self._triggered_ms: int | None = None

    def __repr__(self) -> str:
        return f"Backoff(until {self.until_ms}, then {self._next_pause_ms} ms)"

    def triggered(self, now_ms: int) -> bool:
        """Record a reason to hand over; return whether the partition may be offered again."""
        if self._triggered_ms is not None and now_ms - self._triggered_ms >= BACKOFF_FORGOTTEN_MS:
            self.until_ms = None
            self._next_pause_ms = BACKOFF_FIRST_MS
        self._triggered_ms = now_ms
        return self.until_ms is None or now_ms >= self.until_ms

    def refused(self, now_ms: int) -> None:
        """Record that the controller refused: the next pause is twice as long."""
        self.until_ms = now_ms + self._next_pause_ms
        self._next_pause_ms = min(BACKOFF_MAX_MS, 2 * self._next_pause_ms)
