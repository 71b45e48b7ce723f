"""Follower progress: once per interval, how far each follower of an active partition is behind.

A partition without new records whose followers have everything is not sampled, so
an idle cluster journals nothing. The journal topic is not sampled: its samples
would cause further ones.

Times in ms, lags in records and bytes; bytes are exact among the newest batches, elsewhere a little less. A partition
that is sampled for the first time has no inflow.
"""

from collections.abc import Callable, Mapping

from syncline.model.events import FollowerProgress
from syncline.model.ids import JOURNAL_TOPIC, NONE, BrokerId, Offset, TopicPartition
from syncline.node.clock import Clock
from syncline.node.live_configs import LiveConfigs
from syncline.node.partition import Partition
from syncline.node.request import Steps


class ProgressSampler:
    """Samples the followers of everything that this broker leads."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        configs: LiveConfigs,
        partitions: Mapping[TopicPartition, Partition],
        note: Callable[[FollowerProgress], None],
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._configs = configs
        self._partitions = partitions
        self._note = note
        self._log_ends: dict[TopicPartition, int] = {}
        self._sizes_bytes: dict[TopicPartition, int] = {}
        self._lagging: dict[TopicPartition, None] = {}

    def __len__(self) -> int:
        """Return the number of partitions whose last sample is kept."""
        return len(self._log_ends)

    def _forget(self, key: TopicPartition) -> None:
        for remembered in (self._log_ends, self._sizes_bytes, self._lagging):
            remembered.pop(key, None)
        assert len(self._sizes_bytes) == len(self._log_ends) >= len(self._lagging), f"{key} is half forgotten"

    def sample(self) -> Steps:
        """Journal a sample per follower of each partition that has new records or a follower behind; in steps."""
        for key in list(self._log_ends):
            if key not in self._partitions:
                self._forget(key)
            yield
        for key, partition in list(self._partitions.items()):
            if self._partitions.get(key) is partition:
                self._sample(key, partition)
            yield

    def _sample(self, key: TopicPartition, partition: Partition) -> None:
        now_ms, wall_ms = self._clock.mono_ms(), self._clock.wall_ms()
        leader = partition.leader
        if leader is None or key.topic == JOURNAL_TOPIC or not leader.followers:
            # If this broker leads it again later, the inflow meanwhile is unknown.
            self._forget(key)
            return
        log_end = partition.log.log_end
        is_behind = any(follower.log_end != log_end for follower in leader.followers)
        if self._log_ends.get(key, 0) == log_end and not is_behind and key not in self._lagging:
            if not log_end:
                self._log_ends[key] = self._sizes_bytes[key] = 0
            return
        size_bytes = partition.log.size_bytes
        is_known = key in self._log_ends
        inflow_records = log_end - self._log_ends[key] if is_known else NONE
        inflow_bytes = max(0, size_bytes - self._sizes_bytes[key]) if is_known else NONE
        self._log_ends[key], self._sizes_bytes[key] = log_end, size_bytes
        if is_behind:
            self._lagging[key] = None
        else:
            self._lagging.pop(key, None)
        for follower in leader.followers:
            caught_up_ms = follower.view().last_caught_up_ms
            known_end = max(follower.log_end, 0)
            lag_ms = 0 if follower.log_end == log_end or caught_up_ms is None else now_ms - caught_up_ms
            self._note(
                FollowerProgress(
                    ts_ms=wall_ms,
                    broker=self._broker_id,
                    topic=key.topic,
                    partition=key.partition,
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
