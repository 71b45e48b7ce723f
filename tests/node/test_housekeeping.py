"""Periodic work on a disk that takes nothing."""

from collections.abc import Iterator

from syncline.model.events import Event, Observation
from syncline.model.ids import TopicPartition
from syncline.node.clock import SystemClock
from syncline.node.counting.disk_watch import DiskWatch
from syncline.node.counting.episodes import Episodes
from syncline.node.housekeeping import watched


class HandClock(SystemClock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 10_000

    def mono_ms(self) -> int:
        """Return what was set."""
        return self.now_ms


def test_disk_that_takes_no_append_times_is_reported() -> None:
    """Guards: such a save held the loop of a follower for seconds, and it was taken for paused."""
    clock, events = HandClock(), list[Event]()
    keys = [TopicPartition("t", number) for number in range(3)]

    def save() -> Iterator[TopicPartition]:
        for key, took_ms in zip(keys, (3, 2_500, 15), strict=True):
            clock.now_ms += took_ms
            yield key

    watch = DiskWatch(1, clock, Episodes(1, clock, events.append), lambda _since_ms, _until_ms: 0)
    for _ in watched(save(), clock, watch):
        # Other callbacks have their turn, which takes as long as it takes.
        clock.now_ms += 700
    held_ms, on = watch.take_held()
    watch.look(clock.now_ms)

    assert (held_ms, on) == (2_500, {"op": "write", "on": "t-1"})
    (event,) = events
    assert isinstance(event, Observation)
    assert (event.partition, event.evidence["longest_ms"]) == (1, 2_500)
