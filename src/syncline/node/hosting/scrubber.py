"""The scrubber: has workers check the finished segments of this broker's logs, and reports what is damaged.

`storage/recovery/scrub.py` decides what is checked next, and how fast. Here is the clockwork around it: a few slices
a second, one after the other, in a worker. There is none while the disk is slow, since others wait for it then.

`OfflineLogs.damaged` decides what follows. A finding about a segment that was cut or deleted meanwhile does not
count.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from syncline.model.events import Json
from syncline.model.ids import BrokerId, TopicPartition
from syncline.node.clock import Clock
from syncline.node.counting.disk_watch import DiskWatch
from syncline.node.counting.episodes import Episodes
from syncline.node.metadata.live_configs import LiveConfigs
from syncline.node.partitions.partition import Partition
from syncline.storage.disk import Disk
from syncline.storage.log import PartitionLog
from syncline.storage.recovery.scrub import Checked, FoundDamage, Pace, ScrubQueue, SegmentCheck, check_some
from syncline.storage.segments.segment import Segment

log = logging.getLogger("syncline.node")

# A start has better things to read.
FIRST_S: Final = 30.0
ROUND_S: Final = 1.0
# The pause while every log was checked within its interval.
REST_S: Final = 60.0
# What a slice costs at least, so that tiny segments do not keep the workers busy.
SLICE_BYTES_MIN: Final = 65_536


class TakesDamaged(Protocol):
    """What takes logs offline that are damaged."""

    def damaged(self, key: TopicPartition, reason: str) -> bool:
        """Take a damaged log offline if another replica can serve; return whether it is offline now."""


class _Turn(NamedTuple):
    """The check of one segment of a log, and the segments that come after it."""

    key: TopicPartition
    log: PartitionLog
    segment: Segment
    # A cut changes it.
    generation: int
    check: SegmentCheck
    later: tuple[Segment, ...]


class Scrubber:
    """The scrub of one broker's logs."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        configs: LiveConfigs,
        disk: Disk,
        partitions: Mapping[TopicPartition, Partition],
        offline: TakesDamaged,
        disk_watch: DiskWatch,
        episodes: Episodes,
    ) -> None:
        self._broker_id = broker_id
        self._loop = loop
        self._clock = clock
        self._configs = configs
        self._disk = disk
        self._partitions = partitions
        self._offline = offline
        self._disk_watch = disk_watch
        self._episodes = episodes
        self.checked_bytes = 0
        self.found_count = 0
        self._queue = ScrubQueue()
        self._pace = Pace()
        self._turn: _Turn | None = None
        # What was found last, per log.
        self._damaged: dict[TopicPartition, FoundDamage] = {}
        self._began_ms = clock.mono_ms()
        self._timer: asyncio.TimerHandle | None = None
        # Whether a worker has a slice now.
        self._is_checking = False
        self._is_started = False
        self._is_closed = False

    def start(self) -> None:
        """Begin, after a while, unless the scrub is off."""
        self._is_started = True
        self._arm(FIRST_S)

    def configure(self) -> None:
        """Apply a changed configuration: begin at once if the scrub was off."""
        if self._is_started and self._timer is None:
            self._arm(ROUND_S)

    def close(self) -> None:
        """Check nothing more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def check_age_ms(self, partition: Partition) -> int:
        """Return how long ago a log was checked, or since when it could have been; 0 if there is nothing to check."""
        if not _has_finished_segments(partition):
            return 0
        checked_ms = self._queue.checked_ms(partition.key)
        return self._clock.mono_ms() - (self._began_ms if checked_ms is None else checked_ms)

    def _arm(self, delay_s: float) -> None:
        if self._configs.broker.log_scrub_bytes_per_second and not self._is_closed:
            self._timer = self._loop.call_later(delay_s, self._round)

    def _round(self) -> None:
        """Begin a slice, and plan the next round."""
        self._timer = None
        is_at_rest = True
        try:
            is_at_rest = not self._is_checking and not self._check_slice()
        except Exception:
            log.exception("a round of the scrub failed")
        self._arm(REST_S if is_at_rest else ROUND_S)

    def _check_slice(self) -> bool:
        """Have a worker check the next slice, if the pace allows one; return whether there is anything to check."""
        config = self._configs.broker
        turn = self._turn = self._turn or self._next_turn(config.log_scrub_interval_ms)
        if turn is None:
            return False
        budget_bytes = self._pace.allowance(self._clock.mono_ms(), config.log_scrub_bytes_per_second)
        if budget_bytes > 0 and not self._disk_watch.is_busy:
            self._is_checking = True
            self._disk.run_later(partial(check_some, self._disk, turn.check, budget_bytes), partial(self._done, turn))
        return True

    def _next_turn(self, interval_ms: int) -> _Turn | None:
        self._queue.keep(self._partitions)
        key = self._queue.next(self._with_finished_segments(), self._clock.mono_ms(), interval_ms)
        if key is None:
            return None
        log_ = self._partitions[key].log
        return self._turn_of(key, log_, log_.segments[:-1])

    def _with_finished_segments(self) -> Iterator[TopicPartition]:
        for key, partition in self._partitions.items():
            if _has_finished_segments(partition):
                yield key

    def _turn_of(self, key: TopicPartition, log_: PartitionLog, segments: tuple[Segment, ...]) -> _Turn | None:
        if not segments:
            return None
        first, *later = segments
        check = SegmentCheck(first.path(), first.size_bytes, first.end_offset, 0, first.base_offset)
        return _Turn(key, log_, first, first.generation, check, tuple(later))

    def _done(self, turn: _Turn, outcome: Checked | Exception) -> None:
        """Take what a worker has found, and go on as long as the pace allows."""
        assert self._is_checking, "a slice has ended that was not begun"
        self._is_checking = False
        if self._is_closed:
            return
        self._turn = self._after(turn, outcome)
        self._check_slice()

    def _after(self, turn: _Turn, outcome: Checked | Exception) -> _Turn | None:
        """Return how the check of a log goes on, None if that has ended."""
        if isinstance(outcome, Exception) and not isinstance(outcome, OSError):
            raise outcome
        read_bytes = outcome.read_bytes if isinstance(outcome, Checked) else 0
        self.checked_bytes += read_bytes
        self._pace.spend(max(read_bytes, SLICE_BYTES_MIN))
        partition = self._partitions.get(turn.key)
        if partition is None or partition.log is not turn.log or partition.is_offline:
            return None
        finished = turn.log.segments[:-1]
        # Else it was cut or deleted meanwhile.
        if isinstance(outcome, Checked) and turn.segment in finished and turn.segment.generation == turn.generation:
            if outcome.damage is not None:
                self._found(turn.key, outcome.damage)
            if outcome.rest is not None:
                return turn._replace(check=outcome.rest)
        if isinstance(outcome, OSError) and not isinstance(outcome, FileNotFoundError):
            # There is no descriptor to spare: it is tried again.
            return None
        after = self._turn_of(turn.key, turn.log, tuple(each for each in turn.later if each in finished))
        if after is None:
            self._queue.checked(turn.key, self._clock.mono_ms())
        return after

    def _found(self, key: TopicPartition, damage: FoundDamage) -> None:
        if self._damaged.get(key) != damage:
            self._damaged[key] = damage
            self.found_count += 1
            now_ms = self._clock.mono_ms()
            evidence: dict[str, Json] = {
                "file": damage.path,
                "position": damage.position,
                "offset": damage.offset,
                "reason": damage.reason,
            }
            self._episodes.over("scrub-found-damage", self._broker_id, now_ms, now_ms, evidence, key)
        self._offline.damaged(key, f"the scrub found {damage}")


def _has_finished_segments(partition: Partition) -> bool:
    return partition.log.segment_count > 1 and not partition.is_offline
