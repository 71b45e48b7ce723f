"""Fencing brokers, and fencing them again if the commit failed.

The controller finds a dead process once, and a session ends once, so no later event would repeat a fencing whose
commit failed. This module records it, and decides it again in the next round if the registration is still the same.
"""

from collections.abc import Callable

from syncline.core.cluster.broker_lifecycle import fence
from syncline.core.cluster.decision import Decision, Why
from syncline.model.broker_config import BrokerConfig
from syncline.model.ids import BrokerEpoch, BrokerId
from syncline.model.metadata import MetadataImage
from syncline.node.controller.commits import Commits


class Fencings:
    """The fencings of one controller."""

    def __init__(self, commits: Commits, config: Callable[[], BrokerConfig]) -> None:
        self._commits = commits
        self._config = config
        # Brokers whose fencing could not be committed: their epoch, and the reason.
        self._lost: dict[BrokerId, tuple[BrokerEpoch, Why]] = {}

    def fence(self, broker_id: BrokerId, why: Why) -> None:
        """Fence a broker: it leads nothing and is in no ISR until it sends heartbeats again."""

        def decide(image: MetadataImage, _version: int) -> Decision[bool]:
            decision = fence(image, broker_id, self._config(), why)
            return Decision(decision.changes, True, decision.why)

        def answered(is_done: bool | None) -> None:
            known = self._commits.committed.brokers.get(broker_id)
            if not is_done and known is not None:
                self._lost[broker_id] = (known.broker_epoch, why)

        self._commits.decide(decide, answered)

    def fence_process(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, why: Why) -> None:
        """Fence a broker unless another process has registered as this broker since."""
        known = self._commits.tentative.brokers.get(broker_id)
        if known is not None and known.broker_epoch == broker_epoch:
            self.fence(broker_id, why)

    def redo_lost(self) -> None:
        """Decide again the fencings that could not be committed."""
        lost, self._lost = self._lost, {}
        for broker_id, (broker_epoch, why) in lost.items():
            self.fence_process(broker_id, broker_epoch, why)
