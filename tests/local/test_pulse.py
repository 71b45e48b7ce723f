"""A stop of the whole process is told from a disk that kept one of its threads waiting."""

import os
import signal
import subprocess
import sys
import time

import pytest

from syncline.local.pulse import BEAT_MS, LATE_MS, Pulse
from syncline.model.events import Event
from syncline.model.ids import TopicPartition
from syncline.node.counting.disk_watch import DiskWatch
from syncline.node.counting.episodes import Episodes
from tests.patience import eventually

STOP_MS = 1_500
# Says that it reads, reads for as long as it must, and says how long that was and for how much of it it was stopped.
READER = """
import os, sys, time
from syncline.local.pulse import Pulse
pulse = Pulse()
pulse.start()
began_ms = time.monotonic_ns() // 1_000_000
print("reads", flush=True)
os.read(0, 1)
ended_ms = time.monotonic_ns() // 1_000_000
print(ended_ms - began_ms, pulse.stopped_ms(began_ms, ended_ms), flush=True)
"""


def a_wait(*, is_stopped: bool) -> tuple[int, int]:
    """Return how long a process waited in one call, and for how much of it the process takes itself for stopped."""
    with subprocess.Popen([sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdout.readline()
        if is_stopped:
            os.kill(reader.pid, signal.SIGSTOP)
        time.sleep(STOP_MS / 1_000)
        reader.stdin.write(b"x")
        reader.stdin.flush()
        if is_stopped:
            os.kill(reader.pid, signal.SIGCONT)
        took_ms, stopped_ms = map(int, reader.stdout.readline().split())
    assert took_ms >= STOP_MS
    return took_ms, stopped_ms


@pytest.mark.process
def test_a_stop_is_told_from_a_wait() -> None:
    """The same wait in the same call, once with its process stopped meanwhile."""
    took_ms, stopped_ms = a_wait(is_stopped=True)
    assert took_ms / 2 < stopped_ms <= took_ms

    # Where the whole machine stands still for a moment, the process is right to say that it was stopped.
    took_ms, stopped_ms = eventually(lambda: a_wait(is_stopped=False), lambda seen: seen[1] <= seen[0] / 2)
    assert stopped_ms <= took_ms / 2


def test_stops_are_those_between_late_beats() -> None:
    """One of 3 s and one of 1.1 s; of each only what lies in the time asked for. A busy machine's delay is none."""
    pulse = Pulse()
    first = 1_000_000_000
    for at_ms in (0, 100, 3_100, 3_200, 3_200 + BEAT_MS + LATE_MS, 5_300, 5_400):
        pulse.beat(first + at_ms)

    def stopped_ms(since_ms: int, until_ms: int) -> int:
        return pulse.stopped_ms(first + since_ms, first + until_ms)

    assert stopped_ms(0, 5_400) == 3_000 + 1_100
    assert stopped_ms(1_000, 3_200) == 2_100
    assert stopped_ms(3_100, 3_800) == 0
    # The thread has not beaten since the last stop ended.
    assert stopped_ms(5_400, 9_900) == 4_500
    assert stopped_ms(5_400, 5_500) == 0


def test_stop_is_counted_once_while_it_is_noted() -> None:
    """Guards: a caller that came while the thread noted a stop counted it twice, and the disk took negative time."""
    pulse = Pulse()
    first = 1_000_000_000
    pulse.beat(first)
    # What the thread writes first; that it has beaten comes next.
    pulse._stops.append((first, first + 3_000))

    assert pulse.stopped_ms(first, first + 3_000) == 3_000


class _StandingClock:
    """A clock that shows what a test sets."""

    def __init__(self) -> None:
        self.now_ms = 10_000

    def mono_ms(self) -> int:
        return self.now_ms

    wall_ms = mono_ms


@pytest.mark.parametrize(("stopped_ms", "slow_ms"), [(0, 3_200), (1_200, 2_000), (3_100, None)])
def test_disk_is_not_blamed_for_a_stop(stopped_ms: int, slow_ms: int | None) -> None:
    """A write of 3.2 s in which the process was stopped for a part, for some of it or nearly all."""
    clock, events = _StandingClock(), list[Event]()
    asked = []

    def stopped(since_ms: int, until_ms: int) -> int:
        asked.append((since_ms, until_ms))
        return stopped_ms

    watch = DiskWatch(1, clock, Episodes(1, clock, events.append), stopped)
    watch.wrote(TopicPartition("t", 0), 3_200)
    held_ms, _ = watch.take_held()
    watch.look(clock.now_ms)

    assert asked == [(6_800, 10_000)]
    assert held_ms == 3_200 - stopped_ms
    assert [each.evidence["longest_ms"] for each in events] == ([] if slow_ms is None else [slow_ms])


def test_disk_is_not_blamed_for_a_stop_while_a_read_is_under_way() -> None:
    """Guards: the first look after a stop of 3 s reported a slow read, and a leader that was paused had a slow disk."""
    clock, events, stops = _StandingClock(), list[Event](), [0]
    key = TopicPartition("t", 0)
    watch = DiskWatch(1, clock, Episodes(1, clock, events.append), lambda _since_ms, _until_ms: stops[0])
    number = watch.read_began(key, 2, clock.now_ms)
    began_ms = clock.now_ms

    clock.now_ms += 3_100
    stops[0] = 3_000
    watch.look(clock.now_ms)
    assert watch.read_of(key, 2) == began_ms + 3_000
    assert events == []

    clock.now_ms += 950
    watch.look(clock.now_ms)
    watch.read_ended(number)
    assert [(each.phase, each.evidence["longest_ms"]) for each in events] == [("begin", 1_050), ("end", 1_050)]
