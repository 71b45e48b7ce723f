"""A cluster on paper for controller tests: images, and a world that applies decisions.

S0 of the scenario catalogue: partition t-0, brokers 1, 2, 3 registered and
active, AR = ISR = [1,2,3], leader 1, leader epoch 5, partition epoch 20, min
ISR 1.
"""

from typing import Any
from uuid import UUID

from syncline.core.cluster.broker_lifecycle import Registration, fence, heartbeat, register
from syncline.core.cluster.broker_sessions import BrokerSessions
from syncline.core.cluster.decision import Decision, Why
from syncline.core.cluster.invariants import check_decision
from syncline.core.cluster.moves import applied
from syncline.model.broker_config import BrokerConfig
from syncline.model.impairments import LogReport
from syncline.model.metadata import (
    BrokerChanged,
    BrokerRecord,
    ConfigResource,
    ConfigsChanged,
    MetadataImage,
    PartitionRecord,
    ResourceType,
    TopicCreated,
)
from syncline.model.reasons import Reason

TOPIC_ID = UUID(int=0xBEEF)
ELR = BrokerConfig()
NO_ELR = BrokerConfig(eligible_leader_replicas_enable=False)


def broker(broker_id: int, *, fenced: bool = False, **others: Any) -> BrokerRecord:
    """Return a registered broker; its epoch is its id plus 100."""
    values = {"incarnation_id": f"process-{broker_id}", "broker_epoch": broker_id + 100, **others}
    return BrokerRecord(
        broker_id=broker_id,
        host="host",
        port=9000 + broker_id,
        internal_host="host",
        internal_port=9100 + broker_id,
        fenced=fenced,
        **values,
    )


def partition(**changes: Any) -> PartitionRecord:
    """Return t-0 of S0, changed."""
    return PartitionRecord(0, 1, 5, 20, (1, 2, 3), (1, 2, 3))._replace(**changes)


def image(
    *partitions: PartitionRecord,
    active: tuple[int, ...] = (1, 2, 3),
    fenced: tuple[int, ...] = (),
    configs: dict[str, str] | None = None,
) -> MetadataImage:
    """Return an image with topic t, S0's unless partitions are given."""
    changes: list[Any] = [BrokerChanged(broker(each)) for each in active]
    changes.extend(BrokerChanged(broker(each, fenced=True)) for each in fenced)
    changes.append(TopicCreated("t", TOPIC_ID, partitions or (partition(),)))
    if configs:
        changes.append(ConfigsChanged(ConfigResource(ResourceType.TOPIC, "t"), configs))
    return MetadataImage().apply(changes, max(200, *(each + 100 for each in (*active, *fenced))))


class World:
    """A controller's state, to which decisions are applied at once."""

    def __init__(self, start: MetadataImage, settings: BrokerConfig = ELR) -> None:
        self.image = start
        self.settings = settings
        self.now_ms = 0
        self.is_starting = False
        self.sessions = BrokerSessions(settings.broker_session_timeout_ms)
        for record in start.brokers.values():
            self.sessions.begin(record.broker_id, record.broker_epoch, self.now_ms)

    @property
    def t0(self) -> PartitionRecord:
        """The state of t-0."""
        return self.image.topics["t"].partitions[0]

    def take(self, decision: Decision[Any]) -> Any:
        """Apply a decision, and return its answer."""
        if decision.changes:
            before = self.image
            changes, self.image = applied(before, decision.changes, before.version + 1)
            check_decision(before, changes, self.image, decision.why)
        self.sessions.check_invariants(self.now_ms)
        return decision.answer

    def fence(self, broker_id: int) -> None:
        """Fence a broker."""
        self.take(fence(self.image, broker_id, self.settings, Why(Reason.PROCESS_GONE)))

    def heartbeat(
        self,
        broker_id: int,
        *,
        version: int | None = None,
        want_shut_down: bool = False,
        failed: tuple[str, ...] = (),
        impaired: tuple[str, ...] = (),
    ) -> Any:
        """Let a broker send a heartbeat; it has seen all metadata unless `version` differs."""
        return self.take(
            heartbeat(
                self.image,
                self.sessions,
                broker_id,
                self.image.brokers[broker_id].broker_epoch,
                self.settings,
                metadata_version=self.image.version if version is None else version,
                want_fence=False,
                want_shut_down=want_shut_down,
                version=self.image.version + 1,
                now_ms=self.now_ms,
                logs=LogReport(failed, impaired),
                is_starting=self.is_starting,
            )
        )

    def register(self, broker_id: int, incarnation: str, *, gone: bool = True, clean: bool = False) -> Any:
        """Let another process of a broker register."""
        known = self.image.brokers.get(broker_id)
        registration = Registration(
            broker_id=broker_id,
            incarnation_id=incarnation,
            host="host",
            port=9000 + broker_id,
            internal_host="host",
            internal_port=9100 + broker_id,
            previous_broker_epoch=known.broker_epoch if clean and known is not None else -1,
        )
        return self.take(
            register(
                self.image,
                self.sessions,
                registration,
                self.settings,
                version=self.image.version + 1,
                now_ms=self.now_ms,
                predecessor_gone=gone,
            )
        )

    def restart(self, broker_id: int, incarnation: str) -> None:
        """Let a broker come back after SIGKILL: register, and send a heartbeat."""
        self.register(broker_id, incarnation)
        self.heartbeat(broker_id)
