"""The samples of one partition, and the totals over partitions.

This code runs for each of thousands of partitions: it joins the labels once for
all lines of a partition, and looks up nothing by name.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from syncline.core.replication.follower import UNKNOWN_LAG, FollowerPhase
from syncline.model.ids import Offset, TopicPartition
from syncline.node.metrics import table
from syncline.node.metrics.text import Page, labels_text

if TYPE_CHECKING:
    from syncline.core.replication.leader import LeaderPartition
    from syncline.node.partitions.partition import Partition
    from syncline.storage.log import PartitionLog

FETCHER_THREAD = "ReplicaFetcherThread-0-"


@dataclass(slots=True)
class Totals:
    """Sums over the partitions of a broker; `max_lag` is the largest lag of those that it follows, in records."""

    partitions: int = 0
    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    reassigning: int = 0
    offline: int = 0
    producers: int = 0
    failed: int = 0
    max_lag: int = 0
    lag_records: int = 0
    unknown_lags: int = 0
    # By follower, what it lacks of the partitions led here.
    lag_bytes: dict[int, int] = field(default_factory=dict)
    protected: int = 0

    def check_invariants(self) -> None:
        """Assert which counts include which others."""
        assert self.under_replicated <= self.leaders <= self.partitions, f"a partition is counted twice: {self}"
        assert self.under_min_isr + self.at_min_isr <= self.leaders, f"both below and at the minimum: {self}"


class Inflows:
    """What was appended to each log since the last scrape; cheap where nothing was."""

    def __init__(self) -> None:
        # By partition: its log end at the last scrape, and when that was.
        self._ends: dict[TopicPartition, tuple[int, int]] = {}

    def rate(self, key: TopicPartition, log: "PartitionLog", now_ms: int) -> float | None:
        """Return the bytes appended per second since the last scrape, None at the first one."""
        known = self._ends.get(key)
        self._ends[key] = (int(log.log_end), now_ms)
        if known is None:
            return None
        end, then_ms = known
        if log.log_end <= end:
            return 0.0
        return log.bytes_from(Offset(end)) * 1_000 / max(1, now_ms - then_ms)

    def keep(self, keys: Container[TopicPartition]) -> None:
        """Forget partitions that are not hosted any more."""
        for key in [key for key in self._ends if key not in keys]:
            del self._ends[key]


class _Lines:
    """The lists of lines, by metric."""

    __slots__ = (
        "at_min_isr",
        "high_watermark",
        "in_sync",
        "leader_epoch",
        "log_end",
        "log_start",
        "replicas",
        "segments",
        "size",
        "stable_lag",
        "under_min_isr",
        "under_replicated",
    )

    def __init__(self, page: Page) -> None:
        self.under_replicated = page.lines(table.UNDER_REPLICATED)
        self.under_min_isr = page.lines(table.UNDER_MIN_ISR)
        self.at_min_isr = page.lines(table.AT_MIN_ISR)
        self.in_sync = page.lines(table.IN_SYNC_REPLICAS)
        self.replicas = page.lines(table.REPLICAS)
        self.stable_lag = page.lines(table.LAST_STABLE_OFFSET_LAG)
        self.segments = page.lines(table.NUM_LOG_SEGMENTS)
        self.log_start = page.lines(table.LOG_START_OFFSET)
        self.log_end = page.lines(table.LOG_END_OFFSET)
        self.size = page.lines(table.LOG_SIZE)
        self.high_watermark = page.lines(table.HIGH_WATERMARK)
        self.leader_epoch = page.lines(table.LEADER_EPOCH)


class PartitionSamples:
    """Writes partitions onto a page, and adds them to the totals."""

    def __init__(self, page: Page, now_ms: int, inflows: "Inflows") -> None:
        self.now_ms = now_ms
        self.totals = Totals()
        self._inflows = inflows
        self._bytes_in = page.lines(table.PARTITION_BYTES_IN)
        self._lines = _Lines(page)
        self._consumer_lag = page.lines(table.CONSUMER_LAG)
        self._consumer_lag_labels = page.label_names(table.CONSUMER_LAG)
        self._lag_records = page.lines(table.FOLLOWER_LAG_RECORDS)
        self._lag_seconds = page.lines(table.FOLLOWER_LAG_SECONDS)

    def write(self, partition: "Partition") -> None:
        """Write the samples of one hosted partition."""
        key, log, leader = partition.key, partition.log, partition.leader
        totals, lines = self.totals, self._lines
        # Topics' names are of letters, digits, ".", "_" and "-": nothing to escape.
        labels = f'{{topic="{key.topic}",partition="{key.partition}"}}'
        isr = replicas = is_under = is_under_min = is_at_min = 0
        totals.partitions += 1
        totals.offline += log.is_offline
        totals.producers += len(log.producers.entries)
        if leader is not None:
            record, minimum = partition.record, leader.effective_min_isr
            assert record is not None, "a leader has the record that made it one"
            # Replicas that a reassignment is adding do not count as missing.
            isr, replicas = len(leader.isr), len(leader.in_sync.replicas) - len(record.adding)
            totals.reassigning += bool(record.adding or record.removing)
            is_under, is_under_min, is_at_min = int(isr < replicas), int(isr < minimum), int(isr == minimum)
            totals.leaders += 1
            totals.under_replicated += is_under
            totals.under_min_isr += is_under_min
            totals.at_min_isr += is_at_min
            self._write_followers(partition, leader)
        elif partition.follower is not None:
            self._write_following(partition)
        lines.under_replicated.append(f"{table.UNDER_REPLICATED.name}{labels} {is_under}\n")
        lines.under_min_isr.append(f"{table.UNDER_MIN_ISR.name}{labels} {is_under_min}\n")
        lines.at_min_isr.append(f"{table.AT_MIN_ISR.name}{labels} {is_at_min}\n")
        lines.in_sync.append(f"{table.IN_SYNC_REPLICAS.name}{labels} {isr}\n")
        lines.replicas.append(f"{table.REPLICAS.name}{labels} {replicas}\n")
        lines.stable_lag.append(f"{table.LAST_STABLE_OFFSET_LAG.name}{labels} 0\n")
        lines.segments.append(f"{table.NUM_LOG_SEGMENTS.name}{labels} {log.segment_count}\n")
        lines.log_start.append(f"{table.LOG_START_OFFSET.name}{labels} {log.log_start}\n")
        lines.log_end.append(f"{table.LOG_END_OFFSET.name}{labels} {log.log_end}\n")
        lines.size.append(f"{table.LOG_SIZE.name}{labels} {log.size_bytes}\n")
        lines.high_watermark.append(f"{table.HIGH_WATERMARK.name}{labels} {log.high_watermark}\n")
        rate = self._inflows.rate(key, log, self.now_ms)
        if rate is not None:
            self._bytes_in.append(f"{table.PARTITION_BYTES_IN.name}{labels} {rate:.1f}\n")
        lines.leader_epoch.append(f"{table.LEADER_EPOCH.name}{labels} {partition.leader_epoch}\n")

    def _write_followers(self, partition: "Partition", leader: "LeaderPartition") -> None:
        topic, number = partition.key
        if leader.slow_leader is not None:
            self.totals.protected += len(leader.slow_leader.spared)
        for follower in leader.followers:
            labels = f'{{topic="{topic}",partition="{number}",follower="{follower.broker_id}"}}'
            lag_records = leader.log_end - max(follower.log_end, 0)
            lag_bytes = partition.log.bytes_from(Offset(max(follower.log_end, 0))) if lag_records else 0
            known_bytes = self.totals.lag_bytes.get(follower.broker_id, 0)
            self.totals.lag_bytes[follower.broker_id] = known_bytes + lag_bytes
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
        self.totals.failed += follower.phase is FollowerPhase.FAILED
        if record is None or not record.has_leader:
            return
        self.totals.max_lag = max(self.totals.max_lag, follower.lag_records)
        self.totals.lag_records += max(0, follower.lag_records)
        self.totals.unknown_lags += follower.lag_records == UNKNOWN_LAG
        client_id = f"{FETCHER_THREAD}{record.leader}"
        labels = labels_text(self._consumer_lag_labels, (client_id, partition.key.topic, partition.key.partition))
        self._consumer_lag.append(f"{table.CONSUMER_LAG.name}{labels} {follower.lag_records}\n")
