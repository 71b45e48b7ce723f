"""Demotions: the controller's memory of leaders that relinquished a partition (KIP-501).

One hard idea: the next leader's disk may be slow as well, and the balancer would bring the first leader back: the
partition would circle for ever. So the controller limits how often within a window leaders may relinquish a partition,
and for a while the balancer does not return it to the leader that did. An administrator's explicit request, and an
election without an alternative, ignore this memory.

The memory belongs to one controller and is not metadata: after a change of controller the count restarts, which costs
at most one more round of moves.

Units: times in ms of the controller's monotonic clock.
Invariants: no more relinquishments in a window than the limit; a mark dies with the broker's next registration, as a
new process may have a new disk.
Source: KIP-501; the limits are ours (docs/slow-leaders.md).
"""

from typing import NamedTuple
from uuid import UUID

from syncline.model.ids import BrokerEpoch, BrokerId
from syncline.model.metadata import MetadataImage

PartitionKey = tuple[UUID, int]


class RelinquishLimits(NamedTuple):
    """`leader.relinquish.max.per.window`, `.window.ms` and `.demotion.ms`."""

    max_per_window: int = 3
    window_ms: int = 600_000
    demotion_ms: int = 600_000


class _Mark(NamedTuple):
    """Until when the balancer does not return a partition to one process of a broker."""

    until_ms: int
    broker_epoch: BrokerEpoch


class Demotions:
    """The recent relinquishments, and the marks that they left."""

    __slots__ = ("_marks", "_times")

    def __init__(self) -> None:
        self._times: dict[PartitionKey, list[int]] = {}
        self._marks: dict[tuple[PartitionKey, BrokerId], _Mark] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def may_relinquish(self, topic_id: UUID, partition: int, limits: RelinquishLimits, now_ms: int) -> bool:
        """Return whether a leader may relinquish the partition once more."""
        key = (topic_id, partition)
        recent = [time_ms for time_ms in self._times.get(key, ()) if now_ms - time_ms < limits.window_ms]
        if recent:
            self._times[key] = recent
        else:
            self._times.pop(key, None)
        return len(recent) < limits.max_per_window

    def relinquished(
        self,
        topic_id: UUID,
        partition: int,
        leader: BrokerId,
        broker_epoch: BrokerEpoch,
        limits: RelinquishLimits,
        now_ms: int,
    ) -> None:
        """Count a relinquishment, and mark the leader."""
        key = (topic_id, partition)
        times = self._times.setdefault(key, [])
        assert not times or times[-1] <= now_ms, f"a relinquishment at {now_ms} follows one at {times[-1]}"
        assert len(times) < limits.max_per_window or now_ms - times[0] >= limits.window_ms, (
            f"{len(times)} relinquishments since {times[0]}, and another one at {now_ms}"
        )
        times.append(now_ms)
        self._marks[key, leader] = _Mark(now_ms + limits.demotion_ms, broker_epoch)

    def is_demoted(
        self, topic_id: UUID, partition: int, broker_id: BrokerId, image: MetadataImage, now_ms: int
    ) -> bool:
        """Return whether the balancer must not return the partition to `broker_id` yet."""
        key = ((topic_id, partition), broker_id)
        mark = self._marks.get(key)
        if mark is None:
            return False
        record = image.brokers.get(broker_id)
        if now_ms < mark.until_ms and record is not None and record.broker_epoch == mark.broker_epoch:
            return True
        del self._marks[key]
        return False
