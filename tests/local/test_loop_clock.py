"""The clock of an event loop: how much of a time its process has worked."""

import itertools
import os
import subprocess
import sys
import time

import pytest

from syncline.local.loop_clock import REMEMBERED, LoopClock
from syncline.node.loop_holds import LoopHolds


def test_work_is_what_the_process_has_used_since_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if there were others in between; only whole milliseconds count, and too old looks are unknown."""
    now_ns, used_ns = itertools.count(100_000_000_000, 1_000_000), [1_000_000]
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(now_ns))
    monkeypatch.setattr(time, "process_time_ns", lambda: used_ns[0])
    clock = LoopClock()
    began_ms = clock.mono_ms()
    used_ns[0] = 4_500_000
    middle_ms = clock.mono_ms()
    used_ns[0] = 30_900_000

    assert (middle_ms - began_ms, clock.worked_ms(began_ms), clock.worked_ms(middle_ms)) == (1, 29, 26)
    assert clock.worked_ms(began_ms - 1) is None
    while clock.mono_ms() < began_ms + REMEMBERED:
        pass
    assert clock.worked_ms(began_ms) is None


def test_only_the_first_look_of_a_millisecond_asks_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request looks several times, and the answer takes longer than all else in a look."""
    asked = []
    monkeypatch.setattr(time, "monotonic_ns", lambda: 5_000_000)
    monkeypatch.setattr(time, "process_time_ns", lambda: asked.append(1) or 0)
    clock = LoopClock()

    assert {clock.mono_ms() for _ in range(5)} == {5}
    assert len(asked) == 1


def test_a_look_within_a_callback_does_not_ask_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: a fetch of 200 records took a tenth longer, for a question that nobody asks of such a look."""
    asked, now_ns = [], itertools.count(5_000_000, 1_000_000)
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(now_ns))
    monkeypatch.setattr(time, "process_time_ns", lambda: asked.append(1) or 0)
    clock = LoopClock()
    holds = LoopHolds(clock, clock.worked_ms, clock.look_ms)
    began_ms = holds.now_ms()
    looks = [holds.look_ms() for _ in range(3)]

    assert (looks, holds.ended(began_ms, "work")) == ([6, 7, 8], 4)
    assert len(asked) == 1


def test_a_hold_while_another_process_has_the_processor_is_little_work() -> None:
    """Two processes on one processor: what the other one has is no work of this one."""
    clock = LoopClock()
    holds = LoopHolds(clock, clock.worked_ms)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    other = subprocess.Popen([sys.executable, "-c", "print(1, flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        began_ms, used_s = holds.now_ms(), time.process_time()
        while time.process_time() - used_s < 0.03:
            pass
        held_ms = holds.ended(began_ms, "work")
    finally:
        other.kill()
        other.wait()
        assert other.stdout is not None
        other.stdout.close()
        os.sched_setaffinity(0, allowed)

    assert 29 <= holds.longest_own_by_work["work"] <= 35 < held_ms
