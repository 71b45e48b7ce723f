"""The broker: partitions, sessions, fetchers and groups of one process, kept in step with the metadata.

Everything here runs on one event loop and no method awaits while it changes
state. The order in which an image is applied matters: brokers first (who is
alive decides who counts), then configurations, deletions, and at last roles,
followers before leaders are told to serve.

Woken fetches are collected in `wake` and answered in `settle`, which ends
every callback that may have moved a partition.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from syncline.core.fetching.read_replicas import RACK_AWARE_SELECTOR
from syncline.core.fetching.session import SessionCache
from syncline.core.replication.effects import (
    IsrAnswer,
    IsrChange,
    IsrCommitted,
    IsrRefused,
    ProposeIsr,
    WatermarkHeld,
    WatermarkResumed,
)
from syncline.core.replication.evidence import Evidence
from syncline.core.replication.known_brokers import BrokerStanding, KnownBrokers
from syncline.core.replication.lag_policy import lag_policy
from syncline.core.replication.leader import PartitionSettings
from syncline.core.replication.pending_fetches import SlowReadRules
from syncline.core.replication.tick_index import TickIndex
from syncline.model import events
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.ids import JOURNAL_TOPIC, OFFSETS_TOPIC, BrokerEpoch, BrokerId, Offset, TopicPartition
from syncline.model.metadata import (
    MetadataDelta,
    MetadataImage,
    PartitionRecord,
    ResourceType,
    Topic,
    directory_id,
)
from syncline.model.topic_config import TopicConfig
from syncline.node.clock import Clock
from syncline.node.counters import Counters
from syncline.node.deadlines import Deadlines
from syncline.node.departures import Departures
from syncline.node.dispatch import Dispatcher
from syncline.node.isr_ticks import IsrTicks
from syncline.node.journal import Journal
from syncline.node.links import Links
from syncline.node.log_settings import log_settings
from syncline.node.low_watermarks import LowWatermarks
from syncline.node.observer import Observer
from syncline.node.partition import Partition
from syncline.node.replication.cuts import Cuts
from syncline.node.replication.leader_fetcher import LeaderFetcher
from syncline.node.request import Buffer
from syncline.node.slow_reads import SlowReads
from syncline.storage.disk import Disk
from syncline.storage.errors import DiskFullError, StorageError, is_full, is_out_of_descriptors
from syncline.storage.log_directory import LogDirectory
from syncline.storage.reading import Slice
from syncline.wire.endpoints import NodeEndpoint
from syncline.wire.metadata import MetadataTopic

if TYPE_CHECKING:
    from syncline.node.connection import Connection
    from syncline.node.controller.channel import Channel
    from syncline.node.faults.registry import Faults
    from syncline.node.fetch_operation import FetchOperation
    from syncline.node.groups.coordinator import GroupCoordinator

log = logging.getLogger("syncline.node")

_T = TypeVar("_T")

POSTPONED_S: Final = 1.0

Probe = Callable[[str, TopicPartition, int, int], None]


def _wants_room(error: BaseException) -> bool:
    """Return whether an operation failed for want of room or descriptors: nothing is broken, it can be tried again."""
    if isinstance(error, DiskFullError):
        return True
    return isinstance(error, OSError) and (is_full(error) or is_out_of_descriptors(error))


def _or_none(keep_bytes: int) -> int | None:
    """Return how much page cache to keep; -1 in the configuration is "all of it"."""
    return None if keep_bytes < 0 else keep_bytes


def _no_probe(_kind: str, _key: TopicPartition, _leader_epoch: int, _offset: int) -> None:
    """Observe nothing."""


def _carry_on(_reason: str) -> None:
    """Stay, with what the disk did not fail."""


class Broker:
    """What one broker process hosts and serves."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        static_config: dict[str, str],
        broker_id: BrokerId,
        clock: Clock,
        rng: random.Random,
        loop: asyncio.AbstractEventLoop,
        disk: Disk,
        logs: LogDirectory,
        cluster_size: int,
        probe: Probe | None = None,
        links: Links | None = None,
    ) -> None:
        self.config = config
        self.static_config = static_config
        self.broker_id = broker_id
        self.clock = clock
        self.rng = rng
        self.loop = loop
        self._disk = disk
        self.logs = logs
        # How many brokers are expected: internal topics wait for them, to get their full number of replicas.
        self.cluster_size = cluster_size
        self.probe = probe or _no_probe
        # Called when this broker cannot go on, its disk failed for instance: what it leads must find another leader.
        self.on_unfit: Callable[[str], object] = _carry_on
        self.image = MetadataImage()
        self.partitions: dict[TopicPartition, Partition] = {}
        # Partitions whose log the disk failed since the start; beside those that were damaged already.
        self._failed: dict[TopicPartition, None] = {}
        # Partitions that the disk had no room for.
        self._postponed: dict[TopicPartition, None] = {}
        self._postponed_timer: asyncio.TimerHandle | None = None
        self.known_brokers = KnownBrokers()
        self.deadlines = Deadlines(loop, clock)
        self.sessions = SessionCache(
            config.max_incremental_fetch_session_cache_slots, lambda: rng.randrange(1, 2**31 - 1), self.known_brokers
        )
        self.low_watermarks = LowWatermarks(self)
        self.ticks = TickIndex()
        self.isr_ticks = IsrTicks(self)
        self.slow_reads = SlowReads(self)
        self.counters = Counters()
        self.departures = Departures(clock, self.deadlines)
        self.links = links or Links()
        # What is wrong with this broker on purpose; made with the first fault.
        self.faults: Faults | None = None
        self.journal = Journal(self)
        self.observer = Observer(self)
        self.cuts = Cuts(self)
        self.metadata_cache: dict[tuple[str, int], tuple[Topic, object, MetadataTopic]] = {}
        self.controller: Channel
        self._groups: GroupCoordinator | None = None
        self.dispatcher: Dispatcher
        self._fetchers: dict[int, LeaderFetcher] = {}
        self._woken: dict[FetchOperation, None] = {}
        self._is_settling = False
        self._will_settle = False
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._creating: dict[str, asyncio.Task[Any]] = {}
        self._settings: dict[tuple[str, int, int, int, bool, SlowReadRules | None], PartitionSettings] = {}

    # Identity and surroundings.

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """Return the epoch of this process's registration, -1 before it."""
        return self.controller.broker_epoch

    @property
    def groups(self) -> "GroupCoordinator":
        """Return the group coordinator; it is made when the first group or offsets partition needs it."""
        if self._groups is None:
            from syncline.node.groups.coordinator import GroupCoordinator

            self._groups = GroupCoordinator(self)
        return self._groups

    @property
    def log_directory_path(self) -> str:
        """Return where this broker keeps its logs."""
        return self.logs.path

    def partition(self, topic: str, partition: int) -> Partition | None:
        """Return a hosted partition."""
        return self.partitions.get(TopicPartition(topic, partition))

    @property
    def selects_near_replicas(self) -> bool:
        """Whether consumers are sent to replicas in their own rack (KIP-392)."""
        return self.config.replica_selector_class == RACK_AWARE_SELECTOR

    def racks_of_living(self) -> dict[BrokerId, str | None]:
        """Return the rack of every broker that serves."""
        return {each.broker_id: each.rack for each in self.image.brokers.values() if not each.fenced}

    @property
    def disk(self) -> Disk:
        """Return the disk that this broker keeps its logs on."""
        return self._disk

    def disk_space(self) -> tuple[int, int]:
        """Return (bytes used by logs and free, bytes free) of the log directory."""
        free_bytes = self._disk.free_bytes(self.logs.path)
        return free_bytes + sum(partition.log.size_bytes for partition in self.partitions.values()), free_bytes

    def leader_hint(
        self, topic: str, index: int, code: ErrorCode
    ) -> tuple[tuple[int, int] | None, NodeEndpoint | None]:
        """Return (leader id, epoch) and the leader's endpoint, for a client that asked the wrong broker."""
        if code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            return None, None
        record = self.image.partition(topic, index)
        if record is None:
            return None, None
        target = self.image.brokers.get(record.leader)
        endpoint = None
        if target is not None:
            endpoint = NodeEndpoint(target.broker_id, target.host, target.port, target.rack)
        return (record.leader, record.leader_epoch), endpoint

    def partition_settings(self, config: TopicConfig) -> PartitionSettings:
        """Return what leaders of a topic with this configuration go by; equal settings are one object."""
        own = self.config
        key = (
            own.replica_lag_mode,
            own.replica_lag_time_max_ms,
            own.replica_lag_max_messages,
            config.min_insync_replicas,
            own.high_watermark_min_isr_gate,
            self.slow_reads.rules,
        )
        found = self._settings.get(key)
        if found is None:
            found = self._settings[key] = PartitionSettings(
                lag=lag_policy(*key[:3]),
                min_insync_replicas=config.min_insync_replicas,
                high_watermark_min_isr_gate=own.high_watermark_min_isr_gate,
                slow_reads=self.slow_reads.rules,
            )
        return found

    @property
    def fetchers(self) -> Mapping[int, LeaderFetcher]:
        """What fetches from other brokers, by leader; some may have nothing to do any more."""
        return self._fetchers

    # Tasks.

    def spawn(self, coroutine: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Run a coroutine as a task that this broker owns; a failure is logged."""
        task = self.loop.create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a background task failed", exc_info=error)

    async def cancel_tasks(self) -> None:
        """Cancel everything spawned, and wait until it has ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for task in tasks:
            await asyncio.gather(task, return_exceptions=True)

    # Waking fetches.

    def wake(self, operation: "FetchOperation") -> None:
        """Have a parked fetch look again when the present callback ends."""
        self._woken[operation] = None
        if not self._will_settle:
            self._will_settle = True
            self.loop.call_soon(self._settle_later)

    def _settle_later(self) -> None:
        self._will_settle = False
        self.settle()

    def settle(self) -> None:
        """Let all woken fetches look again."""
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while self._woken:
                woken, self._woken = self._woken, {}
                for operation in woken:
                    try:
                        operation.wake()
                    except Exception:
                        # The others were woken for the same reason and must not sleep on.
                        log.exception("a parked fetch failed")
        finally:
            self._is_settling = False

    def connection_lost(self, connection: "Connection") -> None:
        """Take note of a closed connection; parked fetches of it have been dropped, other requests time out."""
        self.observer.followers.connection_lost(connection)

    # Metadata.

    def apply_image(self, _old: MetadataImage, new: MetadataImage, delta: MetadataDelta) -> None:
        """Bring everything hosted here in step with a new image."""
        try:
            self._apply_image(new, delta)
        except Exception as error:
            # Our bug. A broker whose roles are not those of the metadata must not go on as if they were.
            log.exception("metadata version %s could not be applied", new.version)
            self.on_unfit(f"metadata version {new.version} could not be applied: {error!r}")
            raise

    def _apply_image(self, new: MetadataImage, delta: MetadataDelta) -> None:
        self.image = new
        now_ms = self.clock.mono_ms()
        moved_leaders = self._apply_brokers(delta) if delta.brokers else ()
        self._apply_configs(delta)
        for topic in delta.deleted_topics:
            self._delete_topic(topic, now_ms)
        touched: dict[int, LeaderFetcher] = {}
        for key in delta.partitions:
            self._try_partition(key, now_ms, touched)
        for leader_id in moved_leaders:
            fetcher = self._fetchers.get(leader_id)
            if fetcher is not None:
                fetcher.leader_moved()
        for fetcher in touched.values():
            fetcher.go()
        if delta.brokers:
            self._brokers_changed(now_ms)
        if delta.partitions:
            self._share_page_cache()
        self.settle()

    def _try_partition(self, key: TopicPartition, now_ms: int, touched: dict[int, LeaderFetcher]) -> None:
        """Apply one partition; all others are to have their roles even if this one's disk fails."""
        try:
            self._apply_partition(key, now_ms, touched)
        except (StorageError, OSError) as error:
            if not _wants_room(error):
                self._disk_failed(key, error)
                return
            log.warning("%s cannot be served yet, and is tried again: %s", key, error)
            self._postponed[key] = None
            if self._postponed_timer is None:
                self._postponed_timer = self.loop.call_later(POSTPONED_S, self._try_postponed)

    def _try_postponed(self) -> None:
        """Apply what the disk had no room for."""
        self._postponed_timer = None
        postponed, self._postponed = self._postponed, {}
        touched: dict[int, LeaderFetcher] = {}
        now_ms = self.clock.mono_ms()
        for key in postponed:
            if self.image.partition(*key) is not None:
                self._try_partition(key, now_ms, touched)
        for fetcher in touched.values():
            fetcher.go()
        self.settle()

    def _share_page_cache(self) -> None:
        """Give each partition that is led here an equal share of the budget."""
        budget_bytes = self.config.page_cache_leader_budget_bytes
        if budget_bytes < 0:
            return
        led = [partition for partition in self.partitions.values() if partition.is_leader]
        for partition in led:
            partition.log.keep_cached_bytes = budget_bytes // len(led)

    def _apply_brokers(self, delta: MetadataDelta) -> tuple[int, ...]:
        """Take over who is alive; return the brokers whose process is another one now."""
        moved = tuple(
            broker_id
            for broker_id in delta.brokers
            if (record := self.image.brokers.get(broker_id)) is not None
            and self.known_brokers.broker_epoch(broker_id) not in (-1, record.broker_epoch)
        )
        for broker_id in delta.brokers:
            record = self.image.brokers.get(broker_id)
            if record is not None and record.fenced and self.known_brokers.is_unfenced(broker_id):
                self.departures.fenced(broker_id)
        for broker_id in moved:
            self.slow_reads.drop_older(BrokerId(broker_id), self.image.brokers[BrokerId(broker_id)].broker_epoch)
        self.known_brokers.replace(
            {
                broker_id: BrokerStanding(record.broker_epoch, record.fenced, record.shutting_down)
                for broker_id, record in self.image.brokers.items()
            }
        )
        return moved

    def _brokers_changed(self, now_ms: int) -> None:
        self.low_watermarks.brokers_changed()
        for partition in self.partitions.values():
            if partition.leader is not None:
                partition.perform(partition.leader.brokers_changed(now_ms))

    def _apply_configs(self, delta: MetadataDelta) -> None:
        is_broker_changed = any(resource.kind == ResourceType.BROKER for resource in delta.configs)
        if is_broker_changed:
            self.config = BrokerConfig.resolve(
                self.static_config, self.image.cluster_configs(), self.image.broker_configs(self.broker_id)
            )
            self.controller.set_config(self.config)
            self.slow_reads.configure(self.config)
            self.isr_ticks.configure()
        topics = {resource.name for resource in delta.configs if resource.kind == ResourceType.TOPIC}
        if not is_broker_changed and not topics:
            return
        resolved: dict[str, TopicConfig] = {}
        for key, partition in self.partitions.items():
            if is_broker_changed or key.topic in topics:
                config = resolved.get(key.topic)
                if config is None:
                    config = resolved[key.topic] = self._topic_config(key.topic)
                partition.apply_config(config)

    def _topic_config(self, topic: str) -> TopicConfig:
        return TopicConfig.resolve(self.image.topic_configs(topic), self.config)

    def _apply_partition(self, key: TopicPartition, now_ms: int, touched: dict[int, LeaderFetcher]) -> None:
        record = self.image.partition(key.topic, key.partition)
        assert record is not None, f"a delta names {key}, which its image does not have"
        partition = self.partitions.get(key)
        if partition is None and key in self.logs.damaged and not self._give_up_damaged(key, record, now_ms):
            return
        if self.broker_id not in record.replicas:
            if partition is not None:
                self._drop(partition, now_ms)
            return
        if partition is None:
            partition = self._host(key, now_ms)
            # A partition that has a history, and an empty log: it was lost, or this replica is new.
            has_history = record.partition_epoch > 0 or record.leader_epoch > 0
            partition.is_fresh = has_history and partition.log.log_end == partition.log.log_start
        if record.leader == self.broker_id:
            self._unfollow(partition)
            was_epoch = partition.leader_epoch
            partition.log.keep_cached_bytes = None
            partition.lead(record, now_ms)
            if key.topic == OFFSETS_TOPIC and was_epoch != record.leader_epoch:
                self.groups.became_leader(key.partition, record.leader_epoch)
            return
        was_leader = partition.is_leader
        self._follow(partition, record, touched)
        if was_leader and key.topic == OFFSETS_TOPIC:
            self.groups.resigned(key.partition)

    def _give_up_damaged(self, key: TopicPartition, record: PartitionRecord, now_ms: int) -> bool:
        """Replace a damaged log by an empty one if a leader elsewhere has the records; return whether that was done.

        So it is done with one whose topic was deleted while this broker was away, and created again.
        """
        reason = self.logs.damaged[key]
        if self.logs.topic_of_damaged(key) not in (None, self.image.topics[key.topic].topic_id):
            self._discard_damaged(key, now_ms)
            return True
        if not record.has_leader or record.leader == self.broker_id or self.broker_id in record.isr:
            log.error("%s is not served, its log is damaged and nobody else may have the records: %s", key, reason)
            return False
        log.error("%s is fetched again from broker %s, its log is damaged: %s", key, record.leader, reason)
        self.logs.discard_damaged(key, now_ms)
        self.controller.heartbeat_now()
        return True

    def _follow(self, partition: Partition, record: PartitionRecord, touched: dict[int, LeaderFetcher]) -> None:
        is_new_term = partition.follow(record)
        if not is_new_term:
            return
        self._unfollow(partition)
        if not record.has_leader:
            return
        fetcher = self._fetchers.get(record.leader)
        if fetcher is None:
            fetcher = self._fetchers[record.leader] = LeaderFetcher(self, record.leader)
        partition.log.keep_cached_bytes = _or_none(self.config.page_cache_follower_keep_bytes)
        fetcher.add(partition)
        touched[record.leader] = fetcher

    def _unfollow(self, partition: Partition) -> None:
        for fetcher in self._fetchers.values():
            fetcher.remove(partition)

    def _host(self, key: TopicPartition, now_ms: int) -> Partition:
        """Open or create the log of a partition that is assigned to this broker."""
        topic = self.image.topics[key.topic]
        config = self._topic_config_of(topic)
        existing = self.logs.logs.get(key)
        if existing is not None and existing.topic_id not in (None, topic.topic_id):
            # The topic was deleted and created again while this broker was away.
            self.logs.delete(key, now_ms)
            existing = None
        if existing is None:
            existing = self.logs.create(key, topic.topic_id, log_settings(config))
        partition = Partition(self, key, topic.topic_id, existing, config)
        existing.watch_syncs(lambda: self.observer.disk.sync_began(key))
        existing.on_offline = lambda _log, error: self.log_failed(partition, error)
        self.partitions[key] = partition
        return partition

    def _topic_config_of(self, topic: Topic) -> TopicConfig:
        cached = self._config_cache
        if (
            cached is None
            or cached[0] is not topic
            or cached[1] is not self.image.configs
            or cached[2] is not self.config
        ):
            cached = (topic, self.image.configs, self.config, self._topic_config(topic.name))
            self._config_cache = cached
        return cached[3]

    _config_cache: tuple[Topic, object, BrokerConfig, TopicConfig] | None = None

    def _delete_topic(self, topic: Topic, now_ms: int) -> None:
        for record in topic.partitions:
            partition = self.partitions.get(TopicPartition(topic.name, record.partition))
            if partition is not None and partition.topic_id == topic.topic_id:
                self._drop(partition, now_ms)
        for key in [each for each in self.logs.damaged if each.topic == topic.name]:
            self._discard_damaged(key, now_ms)
        if self._groups is not None:
            self._groups.topics_deleted((topic.name,))
        for version in range(13):
            self.metadata_cache.pop((topic.name, version), None)

    def _drop(self, partition: Partition, now_ms: int) -> None:
        """Stop hosting: the replica was moved away or its topic deleted."""
        was_leader = partition.is_leader
        self._unfollow(partition)
        del self.partitions[partition.key]
        self._failed.pop(partition.key, None)
        self.counters.drop(partition.key)
        partition.leader = None
        partition.follower = None
        partition.fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.low_watermarks.moved(partition)
        self.slow_reads.leadership_ended(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition.watchers.role_changed()
        if was_leader and partition.key.topic == OFFSETS_TOPIC:
            self.groups.resigned(partition.key.partition)
        try:
            self.logs.delete(partition.key, now_ms)
        except (StorageError, OSError) as error:
            # The rest of the image is to be applied nevertheless. What could not be deleted for want of room is
            # deleted when the name is used again, or at the next start.
            if not _wants_room(error):
                self._disk_failed(partition.key, error)

    def drop_strays(self) -> None:
        """Delete logs that no topic of the cluster accounts for: it was deleted while this broker was away."""
        now_ms = self.clock.mono_ms()
        for key in list(self.logs.logs):
            if key not in self.partitions:
                log.warning("%s is not assigned to this broker any more; its log is deleted", key)
                self.logs.delete(key, now_ms)
        for key in list(self.logs.damaged):
            record = self.image.partition(key.topic, key.partition)
            if record is None or self.broker_id not in record.replicas:
                self._discard_damaged(key, now_ms)

    def _discard_damaged(self, key: TopicPartition, now_ms: int) -> None:
        """Delete a damaged log that nobody will ask for again."""
        log.warning("%s is not assigned to this broker any more; its damaged log is deleted", key)
        try:
            self.logs.discard_damaged(key, now_ms)
        except (StorageError, OSError) as error:
            log.error("%s: its damaged log cannot be deleted: %s", key, error)

    # The ISR.

    def propose_isr(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Send a proposed ISR to the controller."""
        self.observer.proposed(partition.key, proposal)

        def answered(answer: IsrAnswer) -> None:
            self.observer.proposal_answered(partition.key)
            self.slow_reads.relinquish_answered(partition, proposal, answer.error)
            leader = partition.leader
            if leader is None:
                return
            partition.perform(leader.alter_partition_answered(proposal, answer, self.clock.mono_ms()))
            self.settle()

        self.controller.propose_isr(partition.topic_id, partition.key.partition, proposal, answered)

    def isr_committed(self, partition: Partition, effect: IsrCommitted) -> None:
        """Journal a change of the ISR that this leader asked for."""
        kind = effect.kind
        if kind is IsrChange.METADATA:
            if effect.evidence.rule == "metadata":
                # The controller's own decision, which it journals itself.
                return
            kind = IsrChange.SHRINK if len(effect.after) < len(effect.before) else IsrChange.EXPAND
        if kind is IsrChange.RELINQUISH:
            # A controller that does not know the wish: nothing has changed.
            return
        if kind is IsrChange.SHRINK:
            self.counters.isr_shrinks += 1
        else:
            self.counters.isr_expands += 1
        self._note_isr(partition, kind, "committed", effect.before, effect.after, effect.evidence)

    def isr_refused(self, partition: Partition, effect: IsrRefused) -> None:
        """Journal a proposal that the controller refused."""
        if effect.proposal.kind is IsrChange.RELINQUISH and effect.error is ErrorCode.NEW_LEADER_ELECTED:
            return
        self.counters.failed_isr_updates += 1
        leader = partition.leader
        before = leader.isr if leader is not None else ()
        self._note_isr(partition, effect.proposal.kind, "refused", before, effect.proposal.broker_ids, effect.evidence)

    def isr_relinquished(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Journal that another broker leads now because this one was too slow."""
        members = proposal.broker_ids
        self._note_isr(partition, IsrChange.RELINQUISH, "committed", members, members, proposal.evidence)

    def _note_isr(
        self,
        partition: Partition,
        kind: IsrChange,
        outcome: str,
        before: tuple[BrokerId, ...],
        after: tuple[BrokerId, ...],
        evidence: Evidence,
    ) -> None:
        leader = partition.leader
        gone = sorted(set(before) - set(after)) if kind is IsrChange.SHRINK else ()
        log.info("%s: ISR %s %s: %s -> %s (%s)", partition.key, kind.value, outcome, before, after, evidence.rule)
        self.journal.note(
            events.IsrChange(
                ts_ms=self.clock.wall_ms(),
                broker=self.broker_id,
                topic=partition.key.topic,
                partition=partition.key.partition,
                leader_epoch=partition.leader_epoch,  # type: ignore[arg-type]
                partition_epoch=leader.partition_epoch if leader is not None else -1,  # type: ignore[arg-type]
                change=kind.value,  # type: ignore[arg-type]
                outcome=outcome,  # type: ignore[arg-type]
                before=tuple(sorted(before)),
                after=tuple(sorted(after)),
                rule=evidence.rule,
                evidence={
                    **_journalled(evidence, self.clock.mono_ms()),
                    **({"asked": [self._asked(partition.key, each) for each in gone]} if gone else {}),
                },
            )
        )

    def _asked(self, key: TopicPartition, replica: BrokerId) -> dict[str, events.Json]:
        """Return what a follower that leaves has asked for, and what its answer waits for."""
        asked_ms, is_owed = self.observer.followers.asked_ms(replica)
        reading_since_ms = self.observer.disk.read_of(key, replica)
        return {
            "broker_id": replica,
            "asked_ms": asked_ms,
            "is_owed": is_owed,
            "reading_since_ms": reading_since_ms,
            "pending_fetches_protect": self.config.follower_fetch_pending_reads_insync_enable,
        }

    def watermark_stalled(self, partition: Partition, effect: WatermarkHeld | WatermarkResumed) -> None:
        """Journal that a high watermark stands still, or moves again."""
        log.info("%s: %s", partition.key, effect)
        now_ms, wall_ms = self.clock.mono_ms(), self.clock.wall_ms()
        is_held = isinstance(effect, WatermarkHeld)
        lasted_ms = now_ms - effect.since_ms if isinstance(effect, WatermarkHeld) else effect.held_ms
        self.journal.note(
            events.Watermark(
                ts_ms=wall_ms,
                broker=self.broker_id,
                topic=partition.key.topic,
                partition=partition.key.partition,
                leader_epoch=partition.leader_epoch,  # type: ignore[arg-type]
                phase="held" if is_held else "resumed",
                high_watermark=effect.high_watermark,
                log_end=partition.log.log_end,
                since_ms=wall_ms - lasted_ms,
                lasted_ms=lasted_ms,
                rule=effect.evidence.rule if isinstance(effect, WatermarkHeld) else "",
                evidence=_journalled(effect.evidence, now_ms) if isinstance(effect, WatermarkHeld) else {},
            )
        )

    def truncated(self, partition: Partition, leader_id: int, log_end_before: Offset, evidence: Evidence) -> None:
        """Journal a truncation that a leader's history asked for."""
        log_end = partition.log.log_end
        mark = dict(evidence.numbers).get("high_watermark")
        if isinstance(mark, int) and log_end < mark:
            log.warning(
                "%s: truncated %s -> %s, below its high watermark %s (%s): what was committed there is not in the log"
                " of leader %s. An unclean election, or log.truncation.mode high-watermark, can do that",
                *(partition.key, log_end_before, log_end, mark, evidence.rule, leader_id),
            )
        else:
            log.info("%s: truncated %s -> %s (%s)", partition.key, log_end_before, log_end, evidence.rule)
        self.journal.note(
            events.Truncation(
                ts_ms=self.clock.wall_ms(),
                broker=self.broker_id,
                topic=partition.key.topic,
                partition=partition.key.partition,
                leader=BrokerId(leader_id),
                leader_epoch=partition.leader_epoch,  # type: ignore[arg-type]
                log_end_before=log_end_before,
                log_end_after=partition.log.log_end,
                rule=evidence.rule,
                evidence=_journalled(evidence, self.clock.mono_ms()),
            )
        )

    def log_failed(self, partition: Partition, error: BaseException) -> None:
        """Take a log offline whose disk failed: whoever waits for it is told."""
        self._unfollow(partition)
        partition.fail_waiting(ErrorCode.KAFKA_STORAGE_ERROR)
        self.slow_reads.leadership_ended(partition, ErrorCode.KAFKA_STORAGE_ERROR)
        partition.watchers.role_changed()
        self._disk_failed(partition.key, error)

    def _disk_failed(self, key: TopicPartition, error: BaseException) -> None:
        log.error("%s: the disk failed, this replica is offline until the broker restarts: %s", key, error)
        self.logs.forget_registration()
        self._failed[key] = None
        self.controller.heartbeat_now()
        self.on_unfit(f"the disk failed {key}: {error}")

    def failed_replicas(self) -> list[UUID]:
        """Return the directory ids of the replicas that are assigned to this broker and that it cannot serve."""
        return [directory_id(self.image.topics[key.topic].topic_id, key.partition) for key in self.failed_logs()]

    def failed_logs(self) -> list[TopicPartition]:
        """Return the partitions that are assigned to this broker and whose log it cannot serve."""
        found = []
        for key in (*self.logs.damaged, *self._failed):
            record = self.image.partition(*key)
            if record is not None and self.broker_id in record.replicas:
                found.append(key)
        return found

    # Reading for the group coordinator.

    def committed(self, partition: Partition, offset: Offset) -> asyncio.Future[None] | None:
        """Return a future for the moment when everything below `offset` is committed; None when it is already."""
        if partition.high_watermark >= offset:
            return None
        future: asyncio.Future[None] = self.loop.create_future()
        partition.wait(offset, _FutureWaiter(future), 0, 0)
        return future

    async def read_batches(self, partition: Partition, offset: Offset, end: Offset) -> bytes:
        """Return whole batches of a hosted partition from `offset` on, at most 1 MiB but at least one."""
        plan = partition.log.read_plan(offset, 1 << 20, end, at_least_one=True)
        if isinstance(plan, Slice) and not plan.size_bytes:
            return b""
        read: asyncio.Future[Buffer] = self.loop.create_future()

        def done(result: Buffer | Exception) -> None:
            if read.done():
                return
            if isinstance(result, Exception):
                read.set_exception(result)
            else:
                read.set_result(result)

        plan.read_later(done)
        return bytes(await read)

    # Topics that brokers create.

    def create_topic_later(self, name: str) -> None:
        """Create a topic that a client asked for, with the defaults; once, however often it is asked for."""
        if name in (OFFSETS_TOPIC, JOURNAL_TOPIC):
            coroutine = self.create_internal_topic(name)
        else:
            coroutine = self._create_topic(name, self.config.num_partitions, self.config.default_replication_factor, {})
        self._create_once(name, coroutine)

    def _create_once(self, name: str, coroutine: Coroutine[Any, Any, None]) -> None:
        if name in self._creating or name in self.image.topics:
            coroutine.close()
            return
        task = self.spawn(coroutine)
        self._creating[name] = task
        task.add_done_callback(lambda _: self._creating.pop(name, None))

    async def create_internal_topic(self, name: str) -> None:
        """Create the offsets topic as its configuration says, with as many replicas as there are brokers for."""
        await self._create_topic(
            name,
            self.config.offsets_topic_num_partitions,
            min(self.config.offsets_topic_replication_factor, self._active_count()),
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(self.config.offsets_topic_segment_bytes),
            },
        )

    async def create_journal_topic(self) -> None:
        """Create the journal's topic once the brokers that should replicate it are there."""
        wanted = min(self.config.journal_topic_replication_factor, self.cluster_size)
        if self._active_count() < wanted:
            return
        await self._create_topic(JOURNAL_TOPIC, 1, wanted, {"min.insync.replicas": "1"})

    def _active_count(self) -> int:
        return sum(1 for record in self.image.brokers.values() if record.active)

    async def _create_topic(self, name: str, partitions: int, factor: int, configs: dict[str, str]) -> None:
        code, message = await self.controller.create_topic(name, partitions, factor, configs)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            log.warning("cannot create topic %s: %s %s", name, code.name, message or "")

    # Closing.

    def append_no_more(self) -> None:
        """Let the logs that are led here end where they are: the whole cluster stops."""
        self.dispatcher.refuse_produce()
        self.journal.close()
        if self._groups is not None:
            self._groups.close()

    def followers_have_everything(self) -> bool:
        """Return whether all in-sync followers of what is led here have fetched up to the end."""
        return all(
            follower.log_end == partition.leader.log_end
            for partition in self.partitions.values()
            if partition.leader is not None and not partition.is_offline
            for follower in partition.leader.followers
            if follower.counts
        )

    def close(self) -> None:
        """Stop fetching and parking; connections and logs are closed by the node."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self.slow_reads.close()
        self.isr_ticks.close()
        self.observer.close()
        self.journal.close()
        if self._groups is not None:
            self._groups.close()
        if self._postponed_timer is not None:
            self._postponed_timer.cancel()
        if self.faults is not None:
            self.faults.close()
        self.deadlines.close()


def _journalled(evidence: Evidence, now_ms: int) -> dict[str, events.Json]:
    """Return the numbers that a rule compared, and the followers it looked at, as an event carries them.

    The times in it are of this broker's monotonic clock; the reading of it now tells what Unix time they mean.
    """
    followers: list[events.Json] = [follower.as_json() for follower in evidence.followers]
    return {**dict(evidence.numbers), "noted_ms": now_ms, "followers": followers}


class _FutureWaiter:
    """Resolves a future when records are committed."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future

    def decided(self, _topic_index: int, _row_index: int, _code: ErrorCode) -> None:
        """Go on, whatever the verdict: the reader looks at its leadership itself."""
        if not self._future.done():
            self._future.set_result(None)
