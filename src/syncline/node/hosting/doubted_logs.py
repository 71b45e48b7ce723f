"""Logs of this leader that a follower doubts: checking them, and what follows if they are damaged.

A follower that could not copy a place says so (`node/replication/doubts.py`). A worker reads that place again with the
checks of a follower. If they fail, the log is damaged, and another replica leads; if they succeed, nothing happens. So
a broken or malicious follower costs some reads, a bounded number per second, and no leadership.

Times in ms of the node's monotonic clock.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from syncline.model.errors import RequestError
from syncline.model.ids import Offset, TopicPartition
from syncline.node.clock import Clock
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.partitions.partition import Partition
from syncline.node.replication.doubts import Doubt
from syncline.storage.disk import Disk
from syncline.storage.errors import StorageError
from syncline.storage.recovery.self_check import damage_at
from syncline.storage.segments.reading import EMPTY

log = logging.getLogger("syncline.node")

# The largest answer that a follower gets for one partition at once, unless one batch is larger.
CHECK_BYTES: Final = 2 << 20
# A partition is checked at most this often.
PAUSE_MS: Final = 1_000


class DoubtedLogs:
    """The doubts about the logs that one broker leads."""

    def __init__(
        self,
        *,
        clock: Clock,
        cluster: ClusterView,
        disk: Disk,
        partitions: Mapping[TopicPartition, Partition],
        damaged: Callable[[TopicPartition, str], bool],
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._disk = disk
        self._partitions = partitions
        self._damaged = damaged
        # When each of these was checked last; a check under way counts as one of now.
        self._checked_ms: dict[TopicPartition, int] = {}

    def doubt(self, doubt: Doubt) -> None:
        """Check a place in a log of this leader, unless the doubt is outdated, unfounded or one of too many."""
        key = TopicPartition(self._cluster.image.topic_names.get(doubt.topic_id, ""), doubt.partition)
        partition = self._partitions.get(key)
        now_ms = self._clock.mono_ms()
        if partition is None or partition.leader is None or partition.leader_epoch != doubt.leader_epoch:
            return
        if partition.record is None or doubt.follower not in partition.record.replicas:
            return
        checked_ms = self._checked_ms.get(key)
        if checked_ms is not None and now_ms - checked_ms < PAUSE_MS:
            return
        try:
            plan = partition.log.read_plan(Offset(doubt.offset), CHECK_BYTES, partition.log.log_end)
        except (RequestError, StorageError, OSError):
            # Outside the log, or the log is offline already.
            return
        if plan == EMPTY:
            return
        self._checked_ms[key] = now_ms
        self._disk.run_later(lambda: damage_at(plan, key), partial(self._checked, partition, doubt))

    def _checked(self, partition: Partition, doubt: Doubt, outcome: str | Exception | None) -> None:
        key = partition.key
        if self._partitions.get(key) is not partition or partition.leader_epoch != doubt.leader_epoch:
            self._checked_ms.pop(key, None)
            return
        self._checked_ms[key] = self._clock.mono_ms()
        if isinstance(outcome, str):
            self._damaged(key, outcome)
            return
        log.warning(
            "%s: broker %s cannot copy offset %s; this leader's log is sound there%s",
            key,
            doubt.follower,
            doubt.offset,
            "" if outcome is None else f", as far as it can be read: {outcome}",
        )
