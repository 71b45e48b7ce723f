"""The throttles of one broker: kept up to date from metadata and configurations, in both roles.

A rate is set for this broker, or else for all brokers, or else there is none; a value in the broker's file has no
effect, as in Kafka. Lists belong to topics. All of it applies at the next check, also to fetches that wait already, and
before the first fetch of a broker that starts: `apply` runs before roles are assigned.

Units: bytes per second. Source: KIP-73; KAFKA-10190 (without an own value, the default of all brokers applies again).
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from syncline.core.throttle.mode import ThrottleMode
from syncline.core.throttle.quota import UNLIMITED
from syncline.model.broker_config import BrokerConfig
from syncline.model.events import Throttle
from syncline.model.ids import BrokerId, TopicPartition
from syncline.model.kept_configs import THROTTLE_RATES
from syncline.model.metadata import MetadataImage, MoveRecord, ResourceType
from syncline.model.metadata_delta import MetadataDelta
from syncline.model.topic_config import FOLLOWER_THROTTLED, LEADER_THROTTLED, TopicConfig
from syncline.node.clock import Clock
from syncline.node.throttle.journal import ThrottleJournal
from syncline.node.throttle.moves import KnowsMoves, Moving
from syncline.node.throttle.role import RoleThrottle

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"


class HoldsBack(Protocol):
    """One side of replication, which remembers what throttles hold back."""

    def held(self) -> Iterator[tuple[TopicPartition, BrokerId]]:
        """Iterate over what is held back: each partition, and the broker whose replica it is."""

    def throttle_changed(self) -> None:
        """Find out again what throttles concern."""


def rate_of(image: MetadataImage, broker_id: BrokerId, name: str) -> int:
    """Return the rate in force at a broker, `UNLIMITED` if none is set."""
    for values in (image.broker_configs(broker_id), image.cluster_configs()):
        text = values.get(name)
        if text is not None:
            value = THROTTLE_RATES[name].parse(text)
            assert isinstance(value, int), f"{name} is {value!r}, and not a number"
            return value
    return UNLIMITED


class ReplicationThrottles:
    """The leader's and the follower's throttle of one broker."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        config: BrokerConfig,
        moves: KnowsMoves,
        note: Callable[[Throttle], None],
    ) -> None:
        self._broker_id = broker_id
        self._moves = moves
        self._moving: dict[TopicPartition, Moving] = {}
        self._known_moves: Mapping[str, MoveRecord] = {}
        window = config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1_000
        mode = ThrottleMode(config.replication_quota_mode)
        self.leader = RoleThrottle("leader", broker_id=broker_id, loop=loop, clock=clock, window=window, mode=mode)
        self.follower = RoleThrottle("follower", broker_id=broker_id, loop=loop, clock=clock, window=window, mode=mode)
        self.roles = (self.leader, self.follower)
        self._journal = ThrottleJournal(broker_id=broker_id, loop=loop, clock=clock, roles=self.roles, note=note)
        self._holders: tuple[HoldsBack, ...] = ()

    def connect(self, leader: HoldsBack, follower: HoldsBack) -> None:
        """Tell these of changes, and ask them what is held back."""
        self._holders = (leader, follower)
        self.leader.held = leader.held
        self.follower.held = follower.held

    def apply(self, image: MetadataImage, delta: MetadataDelta, config: BrokerConfig) -> None:
        """Take over what changed in the metadata."""
        is_changed = self._apply_configs(image, delta, config)
        if image.moves is not self._known_moves:
            # Another rate of a move changes none of its partitions.
            self._known_moves = image.moves
            delta = delta._replace(partitions=(*delta.partitions, *self._moving))
        is_changed = self._apply_moves(image, delta) or is_changed
        if is_changed:
            self._changed()

    def know(self, moves: KnowsMoves, image: MetadataImage) -> None:
        """Ask somebody else about moves from now on."""
        self._moves = moves
        self._moving = {}
        for topic in image.topics.values():
            for record in topic.partitions:
                key = TopicPartition(topic.name, record.partition)
                moving = moves.move_of(key)
                if moving is not None:
                    self._moving[key] = moving
        for role in self.roles:
            role.set_moves(self._moving)
        self._changed()

    def close(self) -> None:
        """Wake nobody more, and sample nothing."""
        self._journal.close()
        for role in self.roles:
            role.close()

    def check_invariants(self) -> None:
        """Assert what holds between two callbacks of the loop."""
        for role in self.roles:
            role.check_invariants()

    def _changed(self) -> None:
        for role in self.roles:
            role.changed()
        # What fetches remember of throttles is void; only then those who wait look again.
        for holder in self._holders:
            holder.throttle_changed()
        for role in self.roles:
            role.wake()

    def _apply_configs(self, image: MetadataImage, delta: MetadataDelta, config: BrokerConfig) -> bool:
        is_changed = False
        for resource in delta.configs:
            if resource.kind is ResourceType.BROKER:
                mode = ThrottleMode(config.replication_quota_mode)
                changes = [each.set_mode(mode) for each in self.roles]
                changes.append(self.leader.set_limit(rate_of(image, self._broker_id, LEADER_RATE)))
                changes.append(self.follower.set_limit(rate_of(image, self._broker_id, FOLLOWER_RATE)))
                is_changed = is_changed or any(changes)
            elif resource.kind is ResourceType.TOPIC:
                values = image.topic_configs(resource.name)
                if LEADER_THROTTLED in values or FOLLOWER_THROTTLED in values:
                    topic = TopicConfig.resolve(values, config)
                    leads, follows = (
                        topic.leader_replication_throttled_replicas,
                        topic.follower_replication_throttled_replicas,
                    )
                else:
                    leads = follows = ()
                changes = [self.leader.set_list(resource.name, leads), self.follower.set_list(resource.name, follows)]
                is_changed = is_changed or any(changes)
        return is_changed

    def _apply_moves(self, image: MetadataImage, delta: MetadataDelta) -> bool:
        before = dict(self._moving) if self._moving else None
        for key in delta.partitions:
            moving = self._moves.move_of(key)
            if moving is not None:
                self._moving[key] = moving
            elif before is not None:
                self._moving.pop(key, None)
        if before is not None:
            for key in [key for key in self._moving if image.partition(*key) is None]:
                del self._moving[key]
        if self._moving == (before or {}):
            return False
        for role in self.roles:
            role.set_moves(self._moving)
        return True
