"""Known brokers: what replication needs from the metadata of other brokers.

One hard idea: a fetch proves something about *one incarnation* of a broker. A
broker that lost its disk registers again under a higher broker epoch, and what
its former process proved must not admit the new one.

All partitions of a node share one object; newer metadata replaces its content
as a whole.
Units: broker epochs rise with every registration; -1 in a fetch means unknown.
Invariant: the epoch of a broker never goes back.
Source: KIP-841 (fenced brokers stay out of the ISR), KIP-903 (broker epochs).
"""

from collections.abc import Mapping
from typing import NamedTuple

from syncline.model.ids import NONE, BrokerEpoch, BrokerId


class BrokerStanding(NamedTuple):
    """One registered broker: its incarnation, and whether it may serve."""

    broker_epoch: BrokerEpoch
    is_fenced: bool = False
    is_shutting_down: bool = False
    # Its disk refuses writes: it may still be in an ISR if no other member can lead, and joins none.
    refuses_writes: bool = False

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead and be in an ISR."""
        return not (self.is_fenced or self.is_shutting_down)


class KnownBrokers:
    """The brokers that this node's metadata knows."""

    __slots__ = ("_standings",)

    def __init__(self, standings: Mapping[BrokerId, BrokerStanding] | None = None) -> None:
        self._standings: dict[BrokerId, BrokerStanding] = dict(standings or {})

    def replace(self, standings: Mapping[BrokerId, BrokerStanding]) -> None:
        """Apply newer metadata."""
        for broker_id, standing in standings.items():
            known = self._standings.get(broker_id, standing)
            assert standing.broker_epoch >= known.broker_epoch, (
                f"broker {broker_id} goes back from epoch {known.broker_epoch} to {standing.broker_epoch}"
            )
        self._standings = dict(standings)

    def broker_epoch(self, broker_id: BrokerId) -> BrokerEpoch:
        """Return the epoch of a registered broker, -1 when the broker is unknown."""
        standing = self._standings.get(broker_id)
        return BrokerEpoch(NONE) if standing is None else standing.broker_epoch

    def is_unfenced(self, broker_id: BrokerId) -> bool:
        """Return whether a broker is registered and serves."""
        standing = self._standings.get(broker_id)
        return standing is not None and not standing.is_fenced

    def is_active(self, broker_id: BrokerId) -> bool:
        """Return whether a broker may lead and be in an ISR: registered, unfenced, not shutting down."""
        standing = self._standings.get(broker_id)
        return standing is not None and standing.is_active

    def is_stale(self, broker_id: BrokerId, fetched_broker_epoch: BrokerEpoch) -> bool:
        """Return whether a former incarnation of a live broker sent a fetch."""
        if fetched_broker_epoch == NONE:
            return False
        standing = self._standings.get(broker_id)
        return standing is not None and not standing.is_fenced and standing.broker_epoch > fetched_broker_epoch

    def is_eligible(self, broker_id: BrokerId, fetched_broker_epoch: BrokerEpoch | None) -> bool:
        """Return whether a follower whose last fetch carried that epoch (None: never fetched) may join an ISR."""
        standing = self._standings.get(broker_id)
        if standing is None or fetched_broker_epoch is None or not standing.is_active or standing.refuses_writes:
            return False
        return fetched_broker_epoch in (NONE, standing.broker_epoch)
