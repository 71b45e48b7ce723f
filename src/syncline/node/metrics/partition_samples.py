"""The samples of one partition, and what they add up to.

This runs for each of thousands of partitions: lines are written at once, with
their labels joined once, and nothing is looked up by name.
"""

from typing import TYPE_CHECKING

from syncline.core.replication.follower import FollowerPhase
from syncline.node.metrics import table
from syncline.node.metrics.text import Page, labels_text

if TYPE_CHECKING:
    from syncline.core.replication.leader import LeaderPartition
    from syncline.node.partition import Partition

FETCHER_THREAD = "ReplicaFetcherThread-0-"


class PartitionSamples:
    """Writes partitions onto a page, and adds up."""

    def __init__(self, page: Page, now_ms: int) -> None:
        self.now_ms = now_ms
        self.partitions = 0
        self.leaders = 0
        self.under_replicated = 0
        self.under_min_isr = 0
        self.at_min_isr = 0
        self.reassigning = 0
        self.offline = 0
        self.producers = 0
        self.failed = 0
        self.max_lag = 0
        self.protected = 0
        self._page = page
        self._under_replicated = page.lines(table.UNDER_REPLICATED)
        self._under_min_isr = page.lines(table.UNDER_MIN_ISR)
        self._at_min_isr = page.lines(table.AT_MIN_ISR)
        self._in_sync = page.lines(table.IN_SYNC_REPLICAS)
        self._replicas = page.lines(table.REPLICAS)
        self._stable_lag = page.lines(table.LAST_STABLE_OFFSET_LAG)
        self._segments = page.lines(table.NUM_LOG_SEGMENTS)
        self._log_start = page.lines(table.LOG_START_OFFSET)
        self._log_end = page.lines(table.LOG_END_OFFSET)
        self._size = page.lines(table.LOG_SIZE)
        self._high_watermark = page.lines(table.HIGH_WATERMARK)
        self._leader_epoch = page.lines(table.LEADER_EPOCH)
        self._consumer_lag = page.lines(table.CONSUMER_LAG)
        self._consumer_lag_labels = page.label_names(table.CONSUMER_LAG)
        self._lag_records = page.lines(table.FOLLOWER_LAG_RECORDS)
        self._lag_seconds = page.lines(table.FOLLOWER_LAG_SECONDS)

    def write(self, partition: "Partition") -> None:
        """Write the samples of one hosted partition."""
        key, log, leader = partition.key, partition.log, partition.leader
        # Topics' names are of letters, digits, ".", "_" and "-": nothing to escape.
        labels = f'{{topic="{key.topic}",partition="{key.partition}"}}'
        isr = replicas = is_under = is_under_min = is_at_min = 0
        self.partitions += 1
        self.offline += log.is_offline
        self.producers += len(log.producers.entries)
        if leader is not None:
            record, minimum = partition.record, leader.effective_min_isr
            assert record is not None, "who leads was told so"
            # Replicas that are just being added are not missed.
            isr, replicas = len(leader.isr), len(leader.in_sync.replicas) - len(record.adding)
            self.reassigning += bool(record.adding or record.removing)
            is_under, is_under_min, is_at_min = int(isr < replicas), int(isr < minimum), int(isr == minimum)
            self.leaders += 1
            self.under_replicated += is_under
            self.under_min_isr += is_under_min
            self.at_min_isr += is_at_min
            self._write_followers(partition, leader)
        elif partition.follower is not None:
            self._write_following(partition)
        self._under_replicated.append(f"{table.UNDER_REPLICATED.name}{labels} {is_under}\n")
        self._under_min_isr.append(f"{table.UNDER_MIN_ISR.name}{labels} {is_under_min}\n")
        self._at_min_isr.append(f"{table.AT_MIN_ISR.name}{labels} {is_at_min}\n")
        self._in_sync.append(f"{table.IN_SYNC_REPLICAS.name}{labels} {isr}\n")
        self._replicas.append(f"{table.REPLICAS.name}{labels} {replicas}\n")
        self._stable_lag.append(f"{table.LAST_STABLE_OFFSET_LAG.name}{labels} 0\n")
        self._segments.append(f"{table.NUM_LOG_SEGMENTS.name}{labels} {log.segment_count}\n")
        self._log_start.append(f"{table.LOG_START_OFFSET.name}{labels} {log.log_start}\n")
        self._log_end.append(f"{table.LOG_END_OFFSET.name}{labels} {log.log_end}\n")
        self._size.append(f"{table.LOG_SIZE.name}{labels} {log.size_bytes}\n")
        self._high_watermark.append(f"{table.HIGH_WATERMARK.name}{labels} {log.high_watermark}\n")
        self._leader_epoch.append(f"{table.LEADER_EPOCH.name}{labels} {partition.leader_epoch}\n")

    def _write_followers(self, partition: "Partition", leader: "LeaderPartition") -> None:
        topic, number = partition.key
        if leader.slow_leader is not None:
            self.protected += len(leader.slow_leader.spared)
        for follower in leader.followers:
            labels = f'{{topic="{topic}",partition="{number}",follower="{follower.broker_id}"}}'
            lag_records = leader.log_end - max(follower.log_end, 0)
            self._lag_records.append(f"{table.FOLLOWER_LAG_RECORDS.name}{labels} {lag_records}\n")
            caught_up_ms = self.now_ms
            if lag_records or follower.log_end < 0:
                last_ms = follower.view().last_caught_up_ms
                if last_ms is None:
                    continue
                caught_up_ms = last_ms
            lag_s = max(0, self.now_ms - caught_up_ms) / 1_000
            self._lag_seconds.append(f"{table.FOLLOWER_LAG_SECONDS.name}{labels} {lag_s}\n")

    def _write_following(self, partition: "Partition") -> None:
        follower, record = partition.follower, partition.record
        assert follower is not None, "asked for a partition that is followed"
        self.failed += follower.phase is FollowerPhase.FAILED
        if record is None or not record.has_leader:
            return
        self.max_lag = max(self.max_lag, follower.lag_records)
        client_id = f"{FETCHER_THREAD}{record.leader}"
        labels = labels_text(self._consumer_lag_labels, (client_id, partition.key.topic, partition.key.partition))
        self._consumer_lag.append(f"{table.CONSUMER_LAG.name}{labels} {follower.lag_records}\n")
