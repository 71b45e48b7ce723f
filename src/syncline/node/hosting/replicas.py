"""The replicas that this broker hosts: opening their logs, giving them their roles, and dropping them.

A replica is a `Partition`. Each follower belongs to the fetcher of its leader; all leaders share a budget of page
cache. A replica of the offsets topic also reports its role to the group coordinator.
"""

import logging
from collections.abc import Container
from typing import Protocol

from syncline.model.ids import NONE, OFFSETS_TOPIC, BrokerId, Offset, TopicPartition
from syncline.model.metadata import PartitionRecord
from syncline.model.tables import shrink
from syncline.node.counting.counters import Counters
from syncline.node.counting.disk_watch import DiskWatch
from syncline.node.hosting.doubted_logs import DoubtedLogs
from syncline.node.hosting.mender import Mender
from syncline.node.hosting.offline_logs import OfflineLogs
from syncline.node.hosting.refused_writes import RefusedWrites
from syncline.node.hosting.scrubber import Scrubber
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.partitions.log_settings import log_settings
from syncline.node.partitions.partition import Partition, PartitionSurroundings
from syncline.node.replication.fetchers import Fetchers
from syncline.storage.errors import StorageError, refusal_of
from syncline.storage.log_directory import LogDirectory

log = logging.getLogger("syncline.node")


class FollowsOffsetsTopic(Protocol):
    """The group coordinator, which depends on the roles of the offsets topic's replicas."""

    def ensure(self) -> None:
        """Be ready for partitions. Raises OSError."""

    def became_leader(self, partition: int, leader_epoch: int, /) -> None:
        """Coordinate the groups of a partition."""

    def resigned(self, partition: int, /) -> None:
        """Stop coordinating them."""


class HostedReplicas:
    """The replicas of one broker."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        cluster: ClusterView,
        configs: LiveConfigs,
        logs: LogDirectory,
        offline: OfflineLogs,
        refused_writes: RefusedWrites,
        doubted: DoubtedLogs,
        scrubber: Scrubber,
        mender: Mender,
        partitions: dict[TopicPartition, Partition],
        surroundings: PartitionSurroundings,
        fetchers: Fetchers,
        groups: FollowsOffsetsTopic,
        counters: Counters,
        disk_watch: DiskWatch,
    ) -> None:
        self._broker_id = broker_id
        self._cluster = cluster
        self._configs = configs
        self._logs = logs
        self.offline = offline
        self.refused_writes = refused_writes
        self.doubted = doubted
        self.scrubber = scrubber
        self.mender = mender
        # The table of hosted partitions, which other parts only read.
        self._partitions = partitions
        self._surroundings = surroundings
        self.fetchers = fetchers
        self._groups = groups
        self._counters = counters
        self._disk_watch = disk_watch
        offline.let_go = self._let_go_of

    def assign(self, key: TopicPartition, now_ms: int) -> None:
        """Make one partition match the image; raises `StorageError` or `OSError`."""
        record = self._cluster.image.partition(key.topic, key.partition)
        assert record is not None, f"a delta names {key}, which its image does not have"
        partition = self._partitions.get(key)
        if partition is None and self.offline.is_damaged(key) and not self.offline.replace_damaged(key, record, now_ms):
            return
        if self._broker_id not in record.replicas:
            if partition is not None:
                self.drop(partition, now_ms)
            return
        if partition is None:
            partition = self.host(key, now_ms)
            # The partition has a history but the log is empty: it was lost, or this replica is new.
            has_history = record.partition_epoch > 0 or record.leader_epoch > 0
            partition.is_fresh = has_history and partition.log.log_end == partition.log.log_start
        if record.leader == self._broker_id:
            self._lead(partition, record, now_ms)
        else:
            self.follow(partition, record)

    def host(self, key: TopicPartition, now_ms: int) -> Partition:
        """Open or create the log of a partition that is assigned to this broker."""
        topic = self._cluster.image.topics[key.topic]
        config = self._configs.topic_of(topic)
        existing = self._logs.logs.get(key)
        if existing is not None and existing.topic_id not in (None, topic.topic_id):
            # The topic was deleted and created again while this broker was down.
            self._logs.delete(key, now_ms)
            existing = None
        if existing is None:
            existing = self._logs.create(key, topic.topic_id, log_settings(config))
        partition = Partition(self._surroundings, key, topic.topic_id, existing, config)
        existing.watch_syncs(lambda: self._disk_watch.sync_began(key))
        existing.on_offline = lambda _log, error: self._log_failed(partition, error)
        self._partitions[key] = partition
        return partition

    def _lead(self, partition: Partition, record: PartitionRecord, now_ms: int) -> None:
        self.fetchers.remove(partition)
        was_epoch = partition.leader_epoch
        coordinates = partition.key.topic == OFFSETS_TOPIC and was_epoch != record.leader_epoch
        if coordinates:
            # Before the role changes: without descriptors nothing can be imported, and all of this is tried again.
            self._groups.ensure()
        partition.log.keep_cached_bytes = self._configs.broker.page_cache_leader_budget_bytes
        partition.lead(record, now_ms)
        if coordinates:
            self._groups.became_leader(partition.key.partition, record.leader_epoch)

    def follow(self, partition: Partition, record: PartitionRecord) -> None:
        """Make a replica a follower; its fetcher starts with `Fetchers.go`."""
        was_leader = partition.is_leader
        is_new_term = partition.follow(record)
        if is_new_term:
            self.fetchers.remove(partition)
            if record.has_leader:
                partition.log.keep_cached_bytes = self._configs.broker.page_cache_follower_keep_bytes
                # A fetch would prove to the leader that a failed log is caught up, and acks=all would wait for it.
                if not partition.is_offline:
                    self.fetchers.add(partition, record.leader)
        if was_leader and partition.key.topic == OFFSETS_TOPIC:
            self._groups.resigned(partition.key.partition)

    def drop(self, partition: Partition, now_ms: int) -> None:
        """Stop hosting: the replica was moved away or its topic deleted."""
        self._stop_hosting(partition)
        try:
            self._logs.delete(partition.key, now_ms, sync=False)
        except (StorageError, OSError) as error:
            # The rest of the image must still be applied. What could not be deleted for lack of space is deleted when
            # the name is used again, or at the next start.
            if refusal_of(error) is None:
                self.offline.fail(partition.key, error)
            else:
                self.refused_writes.refused(partition.key, error)

    def sync_deletions(self) -> None:
        """Make the deletions of one image durable together: each would take the loop some milliseconds."""
        try:
            self._logs.sync_deletions()
        except OSError as error:
            log.error(
                "the deletion of logs could not be synced; after a power cut, the next start repeats it: %s", error
            )

    def _let_go_of(self, key: TopicPartition) -> Offset:
        """Stop hosting a partition whose log is damaged, and keep the log."""
        partition = self._partitions[key]
        # A leader knows what is committed; a follower learns it late.
        uncommitted_from = Offset(NONE) if partition.leader is None else partition.high_watermark
        self._stop_hosting(partition)
        return uncommitted_from

    def _stop_hosting(self, partition: Partition) -> None:
        was_leader = partition.is_leader
        self.fetchers.remove(partition)
        del self._partitions[partition.key]
        shrink(self._partitions)
        self.offline.forget(partition.key)
        self._counters.drop(partition.key)
        partition.leave()
        if was_leader and partition.key.topic == OFFSETS_TOPIC:
            self._groups.resigned(partition.key.partition)

    def _log_failed(self, partition: Partition, error: BaseException) -> None:
        """Take a failed log offline, and refuse the requests that wait for it."""
        self.fetchers.remove(partition)
        partition.log_failed()
        self.offline.fail(partition.key, error)

    def share_page_cache(self) -> None:
        """Give each partition that this broker leads an equal share of the budget."""
        budget_bytes = self._configs.broker.page_cache_leader_budget_bytes
        if budget_bytes < 0:
            return
        led = [partition for partition in self._partitions.values() if partition.is_leader]
        for partition in led:
            partition.log.keep_cached_bytes = budget_bytes // len(led)

    def followers_have_everything(self) -> bool:
        """Return whether all in-sync followers of this broker's partitions have fetched up to the end."""
        return all(
            follower.log_end == partition.leader.log_end
            for partition in self._partitions.values()
            if partition.leader is not None and not partition.is_offline
            for follower in partition.leader.followers
            if follower.counts
        )

    def check_invariants(self, arriving: Container[TopicPartition] = ()) -> None:
        """Assert that each replica has the role that the image gives it, and that only its leader's fetcher has it.

        Those that are `arriving` still have their role of the image before.
        """
        image = self._cluster.image
        for fetcher in self.fetchers.by_leader.values():
            fetcher.check_invariants()
        for key, partition in self._partitions.items():
            assert partition.key == key, f"{partition.key} is filed under {key}"
            if key in arriving:
                partition.check_invariants()
                continue
            record = image.partition(*key)
            assert record is not None, f"{key} is hosted, and unknown to version {image.version}"
            assert self._broker_id in record.replicas, f"{key} is hosted, and assigned to {record.replicas}"
            assert partition.is_leader == (record.leader == self._broker_id), (
                f"{partition}: version {image.version} says that {record.leader} leads"
            )
            partition.check_invariants()
            fetching = [leader for leader, each in self.fetchers.by_leader.items() if each.follows(partition)]
            if partition.leader is not None:
                assert not fetching, f"{key} is led here and fetched from {fetching}"
            assert fetching in ([], [record.leader]), f"{key} is fetched from {fetching}, and led by {record.leader}"
