"""The throttles of one broker: kept up to date from metadata and configurations, in both roles.

A rate is set for this broker, or else for all brokers, or else there is none; a value in the broker's file has no
effect, as in Kafka. Lists belong to topics. All of it applies at the next check, also to fetches that wait already, and
before the first fetch of a broker that starts: `apply` runs before roles are assigned.

Cost is proportional to the partitions that are throttled by other lists or moves than before; another rate in place of
one concerns none of them. A list, or a move that gets its first rate or loses it, may concern ten thousand partitions:
these are looked at, and those that fetch them are told, in slices, so that the last of them follow some milliseconds
later. Until then they are throttled as before.

Units: bytes per second. Source: KIP-73; KAFKA-10190 (without an own value, the default of all brokers applies again).
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Final, Protocol

from syncline.core.throttle.mode import ThrottleMode
from syncline.core.throttle.quota import UNLIMITED, HeldBack
from syncline.model.broker_config import BrokerConfig
from syncline.model.events import Throttle
from syncline.model.ids import NONE, BrokerId, TopicPartition
from syncline.model.kept_configs import THROTTLE_RATES
from syncline.model.metadata import MetadataImage, ResourceType
from syncline.model.metadata_delta import MetadataDelta
from syncline.model.topic_config import FOLLOWER_THROTTLED, LEADER_THROTTLED, TopicConfig
from syncline.node.clock import Clock
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.throttle.journal import ThrottleJournal
from syncline.node.throttle.moves import KnowsMoves, Moving
from syncline.node.throttle.role import RoleThrottle

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
# Partitions of moves of one callback.
_LOOKED_AT_ONCE: Final = 500
# Partitions of which one callback tells those who fetch them. What was held back of them is looked at again.
_TOLD_AT_ONCE: Final = 250
_LISTS: Final = frozenset({LEADER_THROTTLED, FOLLOWER_THROTTLED})


class HoldsBack(Protocol):
    """One side of replication, which remembers what throttles hold back."""

    def held(self) -> Iterator[HeldBack]:
        """Iterate over what is held back, by the quotas for which it waits."""

    def throttle_changed(self, keys: Collection[TopicPartition], /) -> None:
        """Find out again which throttles concern these partitions."""


class ResolvesConfigs(Protocol):
    """Who knows the configurations in effect at this broker."""

    @property
    def broker(self) -> BrokerConfig:
        """Return the broker's own."""

    def topic(self, name: str, /) -> TopicConfig:
        """Return a topic's."""


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
        holds: LoopHolds,
        config: BrokerConfig,
        moves: KnowsMoves,
        note: Callable[[Throttle], None],
    ) -> None:
        self._broker_id = broker_id
        self._moves = moves
        # The partitions that move, and those of each move; dicts stand for ordered sets.
        self._moving: dict[TopicPartition, Moving] = {}
        self._keys_of: dict[str, dict[TopicPartition, None]] = {}
        # Those whose move has got its first rate, or has lost it.
        self._to_look_at: dict[TopicPartition, None] = {}
        self._look_handle: asyncio.Handle | None = None
        # Those that are throttled otherwise than before, as long as not all who fetch them know.
        self._to_tell: dict[TopicPartition, None] = {}
        self._tell_handle: asyncio.Handle | None = None
        self._loop = loop
        self._holds = holds
        window = config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1_000
        mode = ThrottleMode(config.replication_quota_mode)
        self.leader = RoleThrottle("leader", broker_id=broker_id, loop=loop, clock=clock, window=window, mode=mode)
        self.follower = RoleThrottle("follower", broker_id=broker_id, loop=loop, clock=clock, window=window, mode=mode)
        self.roles = (self.leader, self.follower)
        self._journal = ThrottleJournal(broker_id=broker_id, loop=loop, clock=clock, roles=self.roles, note=note)
        self._holders: tuple[HoldsBack, ...] = ()
        self._go: Callable[[], None] = lambda: None

    def connect(self, leader: HoldsBack, follower: HoldsBack, go: Callable[[], None]) -> None:
        """Tell these of changes, and ask them what is held back; `go` then fetches what is no longer."""
        self._holders = (leader, follower)
        self._go = go
        self.leader.held = leader.held
        self.follower.held = follower.held

    def apply(self, image: MetadataImage, delta: MetadataDelta, configs: ResolvesConfigs) -> None:
        """Take over what changed in the metadata."""
        keys: dict[TopicPartition, None] = {}
        is_changed = self._apply_configs(image, delta, configs, keys)
        is_changed = self._apply_moves(image, delta, keys) or is_changed
        if keys or is_changed:
            self._changed(keys)

    def close(self) -> None:
        """Stop waking waiters and sampling."""
        self._to_look_at.clear()
        self._to_tell.clear()
        if self._tell_handle is not None:
            self._tell_handle.cancel()
            self._tell_handle = None
        self._journal.close()
        for role in self.roles:
            role.close()

    def check_invariants(self) -> None:
        """Assert what holds between two callbacks of the loop."""
        for role in self.roles:
            role.check_invariants()

    def _changed(self, keys: Collection[TopicPartition]) -> None:
        """Tell those who fetch that these partitions are throttled otherwise: of some now, of others in later turns."""
        self._to_tell.update(dict.fromkeys(keys))
        self._tell_some()

    def _tell_some(self) -> None:
        some = list(islice(self._to_tell, _TOLD_AT_ONCE))
        for key in some:
            del self._to_tell[key]
        # The next turn comes however this one ends: if it fails, only these partitions are not told of.
        if self._to_tell and self._tell_handle is None:
            self._tell_handle = self._loop.call_soon(self._tell_on)
        for role in self.roles:
            role.changed(is_in_force=not self._to_tell)
        # What fetches remember of throttles is void; only then those who wait look again.
        for holder in self._holders:
            holder.throttle_changed(some)
        for role in self.roles:
            role.wake()

    def _tell_on(self) -> None:
        self._tell_handle = None
        if not self._to_tell:
            return
        began_ms = self._holds.now_ms()
        self._tell_some()
        self._go()
        self._holds.ended(began_ms, "throttles")

    def _apply_configs(
        self, image: MetadataImage, delta: MetadataDelta, configs: ResolvesConfigs, keys: dict[TopicPartition, None]
    ) -> bool:
        """Note in `keys` which partitions have other throttles; return whether a list or a quota is another one."""
        is_changed = False
        for resource in delta.configs:
            if resource.kind is ResourceType.BROKER:
                is_changed = self._apply_rates(image, configs.broker, keys) or is_changed
            elif resource.kind is ResourceType.TOPIC:
                lists: tuple[Sequence[str], Sequence[str]] = ((), ())
                if not _LISTS.isdisjoint(image.topic_configs(resource.name)):
                    topic = configs.topic(resource.name)
                    lists = topic.leader_replication_throttled_replicas, topic.follower_replication_throttled_replicas
                leads = self.leader.set_list(resource.name, lists[0])
                follows = self.follower.set_list(resource.name, lists[1])
                numbers = None if leads is None or follows is None else {*leads, *follows}
                keys.update(_keys(image, resource.name, numbers))
                # A topic that was deleted has no partitions, and its list is gone.
                is_changed = is_changed or numbers is None or bool(numbers)
        return is_changed

    def _apply_rates(self, image: MetadataImage, config: BrokerConfig, keys: dict[TopicPartition, None]) -> bool:
        mode = ThrottleMode(config.replication_quota_mode)
        changes = [role.set_mode(mode) for role in self.roles]
        if any(changes):
            # Each quota is another object.
            keys.update(dict.fromkeys(self._moving))
        is_changed = is_other_quota = any(changes)
        for role, name in ((self.leader, LEADER_RATE), (self.follower, FOLLOWER_RATE)):
            before, now = role.states[""].limit_bytes_per_s, rate_of(image, self._broker_id, name)
            is_changed = role.set_limit(now) or is_changed
            # Then listed partitions are throttled from now on, or no longer.
            is_other_quota = is_other_quota or (before == UNLIMITED) is not (now == UNLIMITED)
        if is_other_quota:
            for topic in {**self.leader.lists.topics, **self.follower.lists.topics}:
                numbers = [role.lists.topics.get(topic, frozenset()) for role in self.roles]
                keys.update(
                    _keys(image, topic, None if None in numbers else {n for each in numbers for n in each or ()})
                )
        return is_changed

    def _apply_moves(self, image: MetadataImage, delta: MetadataDelta, keys: dict[TopicPartition, None]) -> bool:
        """Note in `keys` which partitions have other throttles; return whether a quota is another one."""
        is_changed = False
        for move_id in delta.moves:
            move = image.moves.get(move_id)
            if move is None or move_id not in self._keys_of:
                continue
            is_bound = move.throttle_bytes_per_s != NONE and any(move_id in role.states for role in self.roles)
            if is_bound:
                changes = [role.set_move_limit(move_id, move.throttle_bytes_per_s) for role in self.roles]
                is_changed = is_changed or any(changes)
            # Another rate changes none of its partitions, unless the one before is not in force for all of them yet.
            if not is_bound or self._to_look_at:
                self._to_look_at.update(self._keys_of[move_id])
        # Mostly nothing moves, and ten thousand new partitions need no look each.
        if self._moving or self._moves.has_any():
            for key in delta.partitions:
                self._look_at(key, keys)
            for topic in delta.deleted_topics:
                for record in topic.partitions:
                    self._look_at(TopicPartition(topic.name, record.partition), keys)
        if self._look_handle is None:
            self._look_at_some(keys)
        return is_changed

    def _look_at_some(self, keys: dict[TopicPartition, None]) -> None:
        """Look at some partitions of moves whose throttle begins or ends, and later at the rest."""
        self._look_handle = None
        for key in list(islice(self._to_look_at, _LOOKED_AT_ONCE)):
            del self._to_look_at[key]
            self._look_at(key, keys)
        if self._to_look_at:
            self._look_handle = self._loop.call_soon(self._look_on)

    def _look_on(self) -> None:
        began_ms = self._holds.now_ms()
        keys: dict[TopicPartition, None] = {}
        self._look_at_some(keys)
        if keys:
            self._changed(keys)
            self._go()
        self._holds.ended(began_ms, "throttles")

    def _look_at(self, key: TopicPartition, keys: dict[TopicPartition, None]) -> None:
        """Find out whether a partition moves; note it in `keys` if that throttles it differently."""
        before, now = self._moving.get(key), self._moves.move_of(key)
        if now is None and before is None:
            return
        if before is not None and (now is None or now.move_id != before.move_id):
            del self._keys_of[before.move_id][key]
            if not self._keys_of[before.move_id]:
                del self._keys_of[before.move_id]
        if now is None:
            del self._moving[key]
        else:
            self._moving[key] = now
            self._keys_of.setdefault(now.move_id, {})[key] = None
        changes = [role.set_moving(key, now) for role in self.roles]
        if any(changes):
            keys[key] = None


def _keys(image: MetadataImage, topic: str, numbers: Collection[int] | None) -> Iterator[tuple[TopicPartition, None]]:
    """Iterate over those partitions of a topic that exist, None: over all, as items of an ordered set."""
    known = image.topics.get(topic)
    count = 0 if known is None else len(known.partitions)
    # A list may name ten thousand partitions of a topic that has one.
    for number in range(count) if numbers is None else sorted(number for number in numbers if number < count):
        yield TopicPartition(topic, number), None
