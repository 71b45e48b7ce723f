"""How fast partitions grow, smoothed over several looks at a cluster.

Producers write in batches and clients pause, so the difference of two looks varies; it is what a rate must add to what
is to copy, so an outlier of one second must not become a jump of the rate.
Units: bytes per second.
"""

from typing import Final

from syncline.model.ids import TopicPartition
from syncline.reassign.cluster_state import ClusterState
from syncline.reassign.progress import write_rates

HALF_LIFE_MS: Final = 2_000


class Growth:
    """What each partition's leader appends, from the looks so far."""

    def __init__(self) -> None:
        self._last: ClusterState | None = None
        self._rates: dict[TopicPartition, float] = {}

    @property
    def rates(self) -> dict[TopicPartition, float]:
        """Return bytes per second; partitions that were seen once are missing."""
        return dict(self._rates)

    def seen(self, state: ClusterState) -> None:
        """Take another look into account; one at the same moment replaces the last."""
        last, self._last = self._last, state
        if last is None or state.at_ms <= last.at_ms:
            return
        weight = 1 - 0.5 ** ((state.at_ms - last.at_ms) / HALF_LIFE_MS)
        for key, measured in write_rates(last, state).items():
            before = self._rates.get(key)
            self._rates[key] = measured if before is None else before + weight * (measured - before)
