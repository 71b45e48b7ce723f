"""Follower progress: once per interval, how far each follower of an active partition is behind.

A partition without new records whose followers have everything is not sampled, so
an idle cluster journals nothing; nor is it looked at, so that ten thousand of them
cost nothing. The journal topic is not sampled: its samples would cause further ones.

Times in ms, lags in records and bytes; bytes are exact among the newest batches, elsewhere a little less. A partition
that is sampled for the first time has no inflow.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from syncline.core.replication.leader import LeaderPartition
from syncline.model.events import FollowerProgress
from syncline.model.ids import JOURNAL_TOPIC, NONE, BrokerId, Offset, TopicPartition
from syncline.node.clock import Clock
from syncline.node.loop.list_parts import in_parts
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.partitions.partition import Partition
from syncline.node.serving.request import Steps

# Every so many samplings, what is remembered of partitions that are not led here any more is forgotten.
FORGET_EVERY: Final = 30
REMEMBERED_PER_STEP: Final = 200


class _Last(NamedTuple):
    """What the last sample of a partition said, and under which leadership."""

    leader: LeaderPartition
    log_end: Offset
    size_bytes: int


class ProgressSampler:
    """Samples the followers of everything that this broker leads."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        configs: LiveConfigs,
        partitions: Mapping[TopicPartition, Partition],
        active: Callable[[], Iterable[Partition]],
        note: Callable[[FollowerProgress], None],
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._configs = configs
        self._partitions = partitions
        # Returns the partitions to which something happened since its last call.
        self._active = active
        self._note = note
        self._last: dict[TopicPartition, _Last] = {}
        self._lagging: dict[TopicPartition, None] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return the number of partitions whose last sample is kept."""
        return len(self._last)

    def sample(self) -> Steps:
        """Journal a sample per follower of each partition that has new records or a follower behind; in steps."""
        self._count += 1
        # To be asked before the first look at all of them.
        active = self._active()
        if self._count == 1:
            active = list(self._partitions.values())
        elif self._count % FORGET_EVERY == 0:
            yield from self._forget_past()
        lagging = dict(self._lagging)
        for partition in active:
            lagging.pop(partition.key, None)
            self._look(partition)
            yield
        for key in lagging:
            partition_behind = self._partitions.get(key)
            if partition_behind is None:
                self._forget(key)
            else:
                self._look(partition_behind)
            yield

    def _forget_past(self) -> Steps:
        for keys in in_parts(tuple(self._last), REMEMBERED_PER_STEP):
            for key in keys:
                partition = self._partitions.get(key)
                if partition is None or partition.leader is not self._last[key].leader:
                    self._forget(key)
            yield

    def _forget(self, key: TopicPartition) -> None:
        self._last.pop(key, None)
        self._lagging.pop(key, None)

    def _look(self, partition: Partition) -> None:
        key, leader = partition.key, partition.leader
        if self._partitions.get(key) is not partition:
            # It is not hosted any more.
            return
        if leader is None or key.topic == JOURNAL_TOPIC or not leader.followers:
            self._forget(key)
            return
        last = self._last.get(key)
        if last is not None and last.leader is not leader:
            # It led the partition before; the inflow meanwhile is unknown.
            self._forget(key)
            last = None
        log_end = partition.log.log_end
        is_behind = any(follower.log_end != log_end for follower in leader.followers)
        if log_end == (0 if last is None else last.log_end) and not is_behind and key not in self._lagging:
            if last is None:
                self._last[key] = _Last(leader, Offset(0), 0)
            return
        if is_behind:
            self._lagging[key] = None
        else:
            self._lagging.pop(key, None)
        self._last[key] = now = _Last(leader, log_end, partition.log.size_bytes)
        self._note_followers(partition, last, now)

    def _note_followers(self, partition: Partition, last: _Last | None, now: _Last) -> None:
        leader, log_end, size_bytes = now
        inflow_records = NONE if last is None else log_end - last.log_end
        inflow_bytes = NONE if last is None else max(0, size_bytes - last.size_bytes)
        now_ms, wall_ms = self._clock.mono_ms(), self._clock.wall_ms()
        for follower in leader.followers:
            caught_up_ms = follower.view().last_caught_up_ms
            known_end = max(follower.log_end, 0)
            lag_ms = 0 if follower.log_end == log_end or caught_up_ms is None else now_ms - caught_up_ms
            self._note(
                FollowerProgress(
                    ts_ms=wall_ms,
                    broker=self._broker_id,
                    topic=partition.key.topic,
                    partition=partition.key.partition,
                    leader_epoch=leader.leader_epoch,
                    follower=follower.broker_id,
                    log_end=log_end,
                    follower_log_end=follower.log_end,
                    high_watermark=partition.high_watermark,
                    lag_records=log_end - known_end,
                    lag_ms=max(0, lag_ms),
                    lag_bytes=partition.log.bytes_from(Offset(known_end)),
                    in_sync=follower.broker_id in leader.isr,
                    interval_ms=self._configs.broker.journal_progress_interval_ms,
                    inflow_records=inflow_records,
                    inflow_bytes=inflow_bytes,
                    log_bytes=size_bytes,
                )
            )
