"""Applying an image: making the hosted partitions match the metadata.

The order matters. Brokers come first (only live ones count), then configurations, then deletions, then throttles, which
bound the first fetch, and finally roles.
A disk error of one partition does not keep others from getting their roles. Nothing that concerns partitions acts on a
newer image before it is applied. Then only roles are missing, if many partitions have changed: they follow in slices,
and the next image waits for them. Until its turn, a partition is what it was in the image before, or not hosted, as if
the metadata came later.

An image in which large topics have changed is applied in a turn of the loop of its own: to read it took one already.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from syncline.core.replication.known_brokers import BrokerStanding, KnownBrokers
from syncline.model.broker_config import BrokerConfig
from syncline.model.ids import BrokerId, TopicPartition
from syncline.model.metadata import BrokerRecord, MetadataImage, ResourceType, Topic, directory_id
from syncline.model.metadata_delta import MetadataDelta, difference, touched_count
from syncline.model.topic_config import TopicConfig
from syncline.node.clock import Clock
from syncline.node.hosting.arrivals import PARTITIONS_PER_SLICE, ArrivingPartitions
from syncline.node.hosting.offline_logs import OfflineLogs
from syncline.node.hosting.postponed import PostponedPartitions
from syncline.node.hosting.replicas import HostedReplicas
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.departures import Departures
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.metadata.metadata_rows import MetadataRows
from syncline.node.partitions.low_watermarks import LowWatermarks
from syncline.node.partitions.partition import Partition
from syncline.node.partitions.slow_reads import SlowReads
from syncline.node.replication.fetchers import Fetchers
from syncline.node.throttle.throttles import ReplicationThrottles
from syncline.storage.errors import StorageError, refusal_of

log = logging.getLogger("syncline.node")

# An image is applied in the turn that read it if the topics that changed have no more partitions than this together:
# for ten thousand, to read takes 4 ms, and to apply 6.
APPLIED_AT_ONCE: Final = 500


class DeletesOffsets(Protocol):
    """The group coordinator, which deletes the offsets of deleted topics."""

    def topics_deleted(self, names: tuple[str, ...], /) -> None:
        """Forget offsets committed for these topics."""


class ImageApplication:
    """Applies images to the partitions of one broker."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        holds: LoopHolds,
        cluster: ClusterView,
        configs: LiveConfigs,
        partitions: dict[TopicPartition, Partition],
        replicas: HostedReplicas,
        offline: OfflineLogs,
        fetchers: Fetchers,
        known_brokers: KnownBrokers,
        departures: Departures,
        slow_reads: SlowReads,
        low_watermarks: LowWatermarks,
        groups: DeletesOffsets,
        metadata_rows: MetadataRows,
        throttles: ReplicationThrottles,
        on_config: Callable[[BrokerConfig], None],
        on_unfit: Callable[[str], object],
        settle: Callable[[], None],
        check_invariants: bool,
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._configs = configs
        self._partitions = partitions
        self._replicas = replicas
        self._offline = offline
        self._fetchers = fetchers
        self._known_brokers = known_brokers
        self._departures = departures
        self._slow_reads = slow_reads
        self._low_watermarks = low_watermarks
        self._groups = groups
        self._metadata_rows = metadata_rows
        self.throttles = throttles
        # Called when this broker's own configuration has changed.
        self._on_config = on_config
        self._on_unfit = on_unfit
        self._settle = settle
        self._is_checked = check_invariants
        self._postponed = PostponedPartitions(loop, self._retry)
        self._arriving = ArrivingPartitions(loop, holds, self._host_arriving, on_hosted=self._some_hosted)
        offline.assign_again = self._retry

    def apply(self, new: MetadataImage, applied: Callable[[], None]) -> None:
        """Make all hosted partitions match a new image, and call `applied` when that is done: now, or turns later."""
        if touched_count(self._cluster.image, new) > APPLIED_AT_ONCE:
            self._arriving.in_turn(partial(self._apply_now, new, applied))
        else:
            self._apply_now(new, applied)

    def _apply_now(self, new: MetadataImage, applied: Callable[[], None]) -> None:
        with self._unfit_if_failed():
            arriving = self._apply(new, difference(self._cluster.image, new))
        if arriving:
            self._arriving.host(arriving, applied)
        else:
            applied()

    def close(self) -> None:
        """Apply nothing more, retry nothing more, and host nothing more."""
        self._postponed.close()
        self._arriving.close()

    @contextlib.contextmanager
    def _unfit_if_failed(self) -> Iterator[None]:
        """Report an unexpected exception: our bug. A broker whose roles differ from the metadata must not continue."""
        try:
            yield
        except Exception as error:
            version = self._cluster.image.version
            log.exception("metadata version %s could not be applied", version)
            self._on_unfit(f"metadata version {version} could not be applied: {error!r}")
            raise

    def _apply(self, new: MetadataImage, delta: MetadataDelta) -> Collection[TopicPartition]:
        """Apply an image, but for the partitions that are returned."""
        self._cluster.replace(new)
        now_ms = self._clock.mono_ms()
        moved_leaders = self._apply_brokers(delta) if delta.brokers else ()
        self._apply_configs(delta)
        if delta.deleted_topics:
            self._delete_topics(delta.deleted_topics, now_ms)
        # Before the first fetch of a partition.
        self.throttles.apply(new, delta, self._configs)
        arriving = delta.partitions if len(delta.partitions) > PARTITIONS_PER_SLICE else ()
        if not arriving:
            for key in delta.partitions:
                self._assign(key, now_ms)
        self._replicas.sync_deletions()
        for leader_id in moved_leaders:
            self._fetchers.leader_moved(leader_id)
        self._fetchers.go()
        if delta.brokers:
            self._brokers_changed(now_ms)
        if delta.partitions and not arriving:
            self._all_hosted()
        self._settle()
        if self._is_checked:
            self._replicas.check_invariants(arriving)
        return arriving

    def check_invariants(self) -> None:
        """Assert that every replica has its role, but for those whose turn has not come."""
        self._replicas.check_invariants(self._arriving)

    def _host_arriving(self, key: TopicPartition) -> bool:
        """Give a partition its role, if this broker has a replica of it; return whether it has, or had one."""
        with self._unfit_if_failed():
            now_ms = self._clock.mono_ms()
            was_hosted = key in self._partitions
            self._assign(key, now_ms)
            partition = self._partitions.get(key)
            if partition is not None and (was_hosted or self._failing()):
                # As after any image: who may join now is proposed with the new ISR.
                self._brokers_changed_for(partition, self._failing(), now_ms)
            return was_hosted or partition is not None

    def _some_hosted(self) -> None:
        with self._unfit_if_failed():
            self._replicas.sync_deletions()
            self._fetchers.go()
            if not len(self._arriving):
                self._all_hosted()
            self._settle()
            if self._is_checked:
                self.check_invariants()

    def _all_hosted(self) -> None:
        """Do what concerns all hosted partitions together."""
        self._replicas.share_page_cache()
        self._offline.aside.look()
        self._replicas.mender.look()
        self._offline.hand_over_damaged()

    def _apply_brokers(self, delta: MetadataDelta) -> tuple[int, ...]:
        """Apply changes of brokers; return the brokers that have a new process."""
        brokers = self._cluster.image.brokers
        moved = tuple(
            broker_id
            for broker_id in delta.brokers
            if (record := brokers.get(broker_id)) is not None
            and self._known_brokers.broker_epoch(broker_id) not in (-1, record.broker_epoch)
        )
        for broker_id in delta.brokers:
            record = brokers.get(broker_id)
            if record is not None and record.fenced and self._known_brokers.is_unfenced(broker_id):
                self._departures.fenced(broker_id)
        for broker_id in moved:
            self._slow_reads.drop_older(BrokerId(broker_id), brokers[BrokerId(broker_id)].broker_epoch)
        self._known_brokers.replace(
            {
                broker_id: BrokerStanding(
                    record.broker_epoch, record.fenced, record.shutting_down, record.refusal is not None
                )
                for broker_id, record in brokers.items()
            }
        )
        return moved

    def _brokers_changed(self, now_ms: int) -> None:
        self._low_watermarks.brokers_changed()
        failing = self._failing()
        for partition in self._partitions.values():
            self._brokers_changed_for(partition, failing, now_ms)

    def _failing(self) -> list[BrokerRecord]:
        """Return the brokers that cannot serve some of their replicas."""
        return [record for record in self._cluster.image.brokers.values() if record.failed]

    def _brokers_changed_for(self, partition: Partition, failing: Sequence[BrokerRecord], now_ms: int) -> None:
        if partition.leader is not None:
            failed: list[BrokerId] = []
            if failing:
                replica = directory_id(partition.topic_id, partition.key.partition).hex
                failed = [record.broker_id for record in failing if replica in record.failed]
            partition.perform(partition.leader.brokers_changed(now_ms, failed))

    def _apply_configs(self, delta: MetadataDelta) -> None:
        is_broker_changed = False
        if any(resource.kind == ResourceType.BROKER for resource in delta.configs):
            is_broker_changed = self._configs.resolve_again()
        if is_broker_changed:
            self._on_config(self._configs.broker)
        topics = {resource.name for resource in delta.configs if resource.kind == ResourceType.TOPIC}
        if not is_broker_changed and not topics:
            return
        resolved: dict[str, TopicConfig] = {}
        # Those of before, by identity, and whether the new ones differ from them in throttle lists alone, which concern
        # no partition by itself. Partitions of a topic share few of them, and each stays in memory until the end.
        earlier: dict[int, tuple[TopicConfig, bool]] = {}
        for key, partition in self._partitions.items():
            if is_broker_changed or key.topic in topics:
                config = resolved.get(key.topic)
                if config is None:
                    config = resolved[key.topic] = self._configs.topic(key.topic)
                before = partition.config
                known = earlier.get(id(before))
                if known is None:
                    is_same = not is_broker_changed and before.without_lists() == config.without_lists()
                    known = earlier[id(before)] = before, is_same
                if known[1]:
                    partition.config = config
                else:
                    partition.apply_config(config)

    def _delete_topics(self, topics: Sequence[Topic], now_ms: int) -> None:
        for topic in topics:
            for record in topic.partitions:
                partition = self._partitions.get(TopicPartition(topic.name, record.partition))
                if partition is not None and partition.topic_id == topic.topic_id:
                    self._replicas.drop(partition, now_ms)
            self._offline.discard_topic(topic.name, now_ms)
            self._metadata_rows.drop(topic.name)
        # Once for all: each of dozens of partitions of the offsets topic looks for them in all of its groups.
        self._groups.topics_deleted(tuple(topic.name for topic in topics))

    def _assign(self, key: TopicPartition, now_ms: int) -> None:
        """Give one partition its role; a disk error must not affect the others."""
        try:
            self._replicas.assign(key, now_ms)
        except (StorageError, OSError) as error:
            if refusal_of(error) is None:
                self._offline.fail(key, error)
            else:
                self._postponed.add(key, error)
                self._replicas.refused_writes.refused(key, error)

    def _retry(self, keys: Iterable[TopicPartition]) -> None:
        """Try again the partitions for which the disk had no room."""
        now_ms = self._clock.mono_ms()
        for key in keys:
            if self._cluster.image.partition(*key) is not None:
                self._assign(key, now_ms)
        self._replicas.sync_deletions()
        self._fetchers.go()
        self._settle()
