"""Low watermarks: DeleteRecords waits until every live replica has dropped the records.

The low watermark of a partition is the smallest log start of its live replicas;
a follower that has not fetched yet counts as 0. No request waits for fenced brokers: they
adopt the leader's log start before they can be in sync again.
Source: KIP-107.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.clock import Clock
from syncline.node.loop.deadlines import Deadlines
from syncline.node.metadata.cluster_view import ClusterView

if TYPE_CHECKING:
    from syncline.node.partitions.partition import Partition

# Called with (error code, low watermark).
Done = Callable[[tuple[ErrorCode, int]], None]


class _Waiting:
    """A DeleteRecords of one partition that waits for followers."""

    def __init__(self, owner: "LowWatermarks", partition: "Partition", target: int, done: Done) -> None:
        self.owner = owner
        self.partition = partition
        self.target = target
        self.done = done
        self.bucket = -1

    def expired(self, now_ms: int) -> None:
        """Answer with the low watermark so far; the leader's log start has moved nevertheless."""
        self.owner.expired_count += 1
        self.owner.forget(self)
        self.done((ErrorCode.REQUEST_TIMED_OUT, self.owner.low_watermark(self.partition)))


class LowWatermarks:
    """The waiting DeleteRecords of one broker."""

    def __init__(self, clock: Clock, deadlines: Deadlines, cluster: ClusterView) -> None:
        self._clock = clock
        self._deadlines = deadlines
        self._cluster = cluster
        self._waiting: dict[TopicPartition, list[_Waiting]] = {}
        self.expired_count = 0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def low_watermark(self, partition: "Partition") -> int:
        """Return the smallest log start of the live replicas."""
        leader = partition.leader
        lowest = int(partition.log.log_start)
        if leader is None:
            return lowest
        for follower in leader.followers:
            if self._cluster.image.is_active(follower.broker_id):
                lowest = min(lowest, max(0, follower.log_start))
        return lowest

    def wait(self, partition: "Partition", target: int, timeout_ms: int, done: Done) -> None:
        """Call `done` when the low watermark reaches `target` or the time-out passes."""
        low = self.low_watermark(partition)
        if low >= target:
            done((ErrorCode.NONE, low))
            return
        if timeout_ms <= 0:
            done((ErrorCode.REQUEST_TIMED_OUT, low))
            return
        waiting = _Waiting(self, partition, target, done)
        waiting.bucket = self._deadlines.park(waiting, self._clock.mono_ms() + timeout_ms, timeout_ms)
        self._waiting.setdefault(partition.key, []).append(waiting)

    def moved(self, partition: "Partition") -> None:
        """Check again: a follower fetched, leadership changed or a broker was fenced."""
        if not self._waiting:
            return
        waiting = self._waiting.get(partition.key)
        if not waiting:
            return
        low = self.low_watermark(partition)
        for each in list(waiting):
            if not partition.is_leader:
                self._finish(each, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            elif low >= each.target:
                self._finish(each, ErrorCode.NONE, low)

    def brokers_changed(self) -> None:
        """Check all again: no request waits for a fenced follower."""
        for key in list(self._waiting):
            for each in list(self._waiting.get(key, ())):
                self.moved(each.partition)

    def check_invariants(self) -> None:
        """Assert that each request waits for something that can still happen, and is filed under its partition."""
        for key, rows in self._waiting.items():
            assert rows, f"an empty queue is kept for {key}"
            for each in rows:
                assert each.partition.key == key, f"a wait for {each.partition.key} is filed under {key}"
                assert each.bucket >= 0, f"{key}: a wait for {each.target} that never ends"
                assert each.partition.is_leader, f"{key}: a wait for {each.target} at a broker that does not lead"

    def forget(self, waiting: _Waiting) -> None:
        """Remove a waiting request."""
        rows = self._waiting.get(waiting.partition.key, [])
        if waiting in rows:
            rows.remove(waiting)
        if not rows:
            self._waiting.pop(waiting.partition.key, None)

    def _finish(self, waiting: _Waiting, code: ErrorCode, low: int) -> None:
        self._deadlines.forget(waiting, waiting.bucket)
        self.forget(waiting)
        waiting.done((code, low))
