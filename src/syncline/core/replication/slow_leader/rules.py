"""What a leader does about its own slow reads, as configured."""

from typing import Final, NamedTuple

# Partitions that one run of the watchdog may hand over.
RELINQUISHED_AT_ONCE_MAX: Final = 50


class SlowReadRules(NamedTuple):
    """The configuration of the feature; None in its place means that the feature is off.

    `cap_ms`: how long the leader spares a waiting follower, None: for ever. `relinquishes`: whether it hands
    leadership over when serving a member takes longer than `process_time_max_ms`, after a tenure of `tenure_min_ms`.
    """

    cap_ms: int | None = 180_000
    relinquishes: bool = False
    process_time_max_ms: int = 500
    tenure_min_ms: int = 30_000

    def is_within_cap(self, since_ms: int | None, now_ms: int) -> bool:
        """Return whether a wait since `since_ms` (None: unknown) still protects."""
        return is_within(self.cap_ms, since_ms, now_ms)


def is_within(cap_ms: int | None, since_ms: int | None, now_ms: int) -> bool:
    """Return whether a wait since `since_ms` is within a cap of `cap_ms` (None: no cap)."""
    return cap_ms is None or since_ms is None or now_ms - since_ms <= cap_ms


def watch_period_ms(process_time_max_ms: int) -> int:
    """Return the period of the watchdog."""
    return max(50, min(250, process_time_max_ms // 2))
