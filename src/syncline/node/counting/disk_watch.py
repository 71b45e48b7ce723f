"""How long this broker waits for its disk.

Reads and syncs run beside the loop, so a slow one is reported while it lasts. A
write blocks the loop: it is reported when it has ended, and explains why the
broker did nothing else meanwhile. The time in which the whole process was stopped is
not the disk's. Only slow operations are recorded; a fast one costs one
comparison.

Times in ms of the node's monotonic clock.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from syncline.model.events import Json
from syncline.model.ids import NONE, TopicPartition
from syncline.node.clock import Clock, StoppedMs
from syncline.node.counting.episodes import Episodes

# A healthy disk never takes this long for one operation, and a follower falls behind only because of longer ones.
SLOW_MS: Final = 200
# Writes that took less are not added up.
NOTABLE_MS: Final = 20
# Report a read that is still running after this time.
STUCK_MS: Final = 1_000
# Rows reported per check: a broken disk has thousands.
ROWS_MAX: Final = 20


@dataclass(slots=True)
class _Read:
    """A read or sync under way, and the follower that waits for it (-1: no follower)."""

    op: str
    key: TopicPartition
    replica: int
    since_ms: int


@dataclass(slots=True)
class _Slow:
    """Slow operations of one kind, on one partition and for one follower, since the last check."""

    since_ms: int
    until_ms: int
    count: int = 0
    longest_ms: int = 0
    total_ms: int = 0


class DiskWatch:
    """The slow disk operations of one broker."""

    def __init__(self, broker_id: int, clock: Clock, episodes: Episodes, stopped_ms: StoppedMs) -> None:
        self._broker_id = broker_id
        self._stopped_ms = stopped_ms
        self._clock = clock
        self._episodes = episodes
        self._reads: dict[int, _Read] = {}
        self._reported: set[int] = set()
        self._next = 0
        self._slow: dict[tuple[str, TopicPartition, int], _Slow] = {}
        # How long writes blocked the loop since the last check, and the longest of them.
        self._held_ms = 0
        self._held_by: tuple[str, TopicPartition] | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether the next check should be soon."""
        return bool(self._slow or self._reported)

    def read_began(self, key: TopicPartition, replica: int, now_ms: int, op: str = "read") -> int:
        """Record a read (or sync) that waits for the disk; return its number."""
        self._next += 1
        self._reads[self._next] = _Read(op, key, replica, now_ms)
        return self._next

    def sync_began(self, key: TopicPartition) -> Callable[[], None]:
        """Record a sync beside the loop; return what to call at its end."""
        number = self.read_began(key, NONE, self._clock.mono_ms(), "sync")
        return lambda: self.read_ended(number)

    def read_ended(self, number: int) -> None:
        """Record the end of a read."""
        read = self._reads.pop(number)
        took_ms = self._ran_ms(self._clock.mono_ms() - read.since_ms)
        if took_ms >= SLOW_MS:
            self._add(read.op, read.key, took_ms, read.replica)
        if number in self._reported:
            self._reported.discard(number)
            self._episodes.end(("read", number), lambda: _numbers(read.op, 1, took_ms, took_ms, read.replica))

    def wrote(self, key: TopicPartition, took_ms: int, op: str = "write") -> None:
        """Record a slow write or truncation, which blocked the loop."""
        took_ms = self._ran_ms(took_ms)
        if took_ms >= SLOW_MS:
            self._add(op, key, took_ms, NONE)
        self._held_ms += took_ms
        if self._held_by is None or took_ms >= SLOW_MS:
            self._held_by = (op, key)

    def read_of(self, key: TopicPartition, replica: int) -> int | None:
        """Return since when a follower's read of a partition is running, later by stops since; None if none is."""
        since = [
            read.since_ms
            for read in self._reads.values()
            if read.op == "read" and read.key == key and read.replica == replica
        ]
        if not since:
            return None
        now_ms = self._clock.mono_ms()
        return now_ms - self._ran_ms(now_ms - min(since))

    def take_held(self) -> tuple[int, dict[str, Json]]:
        """Return how long writes blocked the loop since the last call, and the longest one."""
        held_ms, by = self._held_ms, self._held_by
        self._held_ms, self._held_by = 0, None
        if by is None:
            return 0, {}
        return held_ms, {"op": by[0], "on": str(by[1])}

    def look(self, now_ms: int) -> None:
        """Report slow operations since the last check, and reads that have run for long."""
        slow, self._slow = self._slow, {}
        for (op, key, replica), each in sorted(slow.items(), key=lambda item: -item[1].total_ms)[:ROWS_MAX]:
            self._episodes.over(
                "slow-disk",
                self._broker_id,
                each.since_ms,
                each.until_ms,
                _numbers(op, each.count, each.longest_ms, each.total_ms, replica),
                key,
            )
        for number, read in self._reads.items():
            took_ms = now_ms - read.since_ms
            if took_ms < STUCK_MS:
                # All further reads began later.
                break
            if number not in self._reported and len(self._reported) >= ROWS_MAX:
                continue
            took_ms = self._ran_ms(took_ms)
            if took_ms >= STUCK_MS:
                self._reported.add(number)
                self._episodes.hold(
                    ("read", number),
                    "slow-disk",
                    self._broker_id,
                    read.since_ms,
                    lambda read=read, took_ms=took_ms: {  # type: ignore[misc]
                        **_numbers(read.op, 1, took_ms, took_ms, read.replica),
                        "is_under_way": True,
                    },
                    read.key,
                )

    def _ran_ms(self, took_ms: int) -> int:
        """Return for how much of an operation, up to now, this process ran or waited for the disk."""
        if took_ms < SLOW_MS:
            return took_ms
        now_ms = self._clock.mono_ms()
        return took_ms - self._stopped_ms(now_ms - took_ms, now_ms)

    def _add(self, op: str, key: TopicPartition, took_ms: int, replica: int) -> None:
        now_ms = self._clock.mono_ms()
        slow = self._slow.get((op, key, replica))
        if slow is None:
            slow = self._slow[op, key, replica] = _Slow(now_ms - took_ms, now_ms)
        slow.until_ms = now_ms
        slow.count += 1
        slow.total_ms += took_ms
        slow.longest_ms = max(slow.longest_ms, took_ms)


def _numbers(op: str, count: int, longest_ms: int, total_ms: int, replica: int) -> dict[str, Json]:
    return {"op": op, "count": count, "longest_ms": longest_ms, "total_ms": total_ms, "for_replica": replica}
