"""The clock of an event loop: how much of a time its process has worked."""

import itertools
import os
import subprocess
import sys
import time

import pytest

from syncline.local.loop_clock import OTHERS_MS, REMEMBERED, LoopClock
from syncline.node.loop.loop_holds import LoopHolds


def test_work_is_what_the_process_has_used_since_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if there were others in between; only whole milliseconds count, and too old looks are unknown."""
    now_ns, loop_ns, others_ns = itertools.count(100_000_000_000, 1_000_000), [1_000_000], [50_000_000]
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(now_ns))
    monkeypatch.setattr(time, "thread_time_ns", lambda: loop_ns[0])
    monkeypatch.setattr(time, "process_time_ns", lambda: loop_ns[0] + others_ns[0])
    clock = LoopClock()
    began_ms = clock.mono_ms()
    loop_ns[0] = 4_500_000
    middle_ms = clock.mono_ms()
    loop_ns[0] = 30_900_000

    assert (middle_ms - began_ms, clock.worked_ms(began_ms), clock.worked_ms(middle_ms)) == (1, 29, 26)
    others_ns[0] += 7_000_000
    assert (clock.worked_ms(began_ms), clock.worked_ms(middle_ms)) == (36, 33)
    assert clock.worked_ms(began_ms - 1) is None
    while clock.mono_ms() < began_ms + REMEMBERED:
        pass
    assert clock.worked_ms(began_ms) is None


def test_other_threads_work_counts_from_when_they_were_last_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A work may be found larger than it was, by what they did in the milliseconds before; never smaller."""
    now_ns, loop_ns, others_ns = [100_000_000_000], [0], [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns[0])
    monkeypatch.setattr(time, "thread_time_ns", lambda: loop_ns[0])
    monkeypatch.setattr(time, "process_time_ns", lambda: loop_ns[0] + others_ns[0])
    clock = LoopClock()
    found = []
    for _ in range(OTHERS_MS + 1):
        began_ms = clock.mono_ms()
        loop_ns[0] += 2_000_000
        found.append(clock.worked_ms(began_ms))
        others_ns[0] += 1_000_000
        now_ns[0] += 1_000_000

    assert found == [2, 3, 4, 5, 2]


def _count_questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by each question for processor time."""
    asked: list[str] = []
    monkeypatch.setattr(time, "thread_time_ns", lambda: asked.append("thread") or 0)
    monkeypatch.setattr(time, "process_time_ns", lambda: asked.append("process") or 0)
    return asked


def test_only_the_first_look_of_a_millisecond_asks_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request looks several times, and the answer takes longer than all else in a look."""
    monkeypatch.setattr(time, "monotonic_ns", lambda: 5_000_000)
    asked = _count_questions(monkeypatch)
    clock = LoopClock()

    assert {clock.mono_ms() for _ in range(5)} == {5}
    assert asked == ["process", "thread", "thread"]


def test_all_threads_are_asked_every_few_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: where each fetch of a megabyte was one millisecond, the question was a fiftieth of the fetch."""
    now_ns = itertools.count(5_000_000, 1_000_000)
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(now_ns))
    asked = _count_questions(monkeypatch)
    clock = LoopClock()
    for _ in range(2 * OTHERS_MS):
        clock.mono_ms()

    assert asked.count("process") == 2


def test_a_look_within_a_callback_does_not_ask_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: a fetch of 200 records took a tenth longer, for a question that nobody asks of such a look."""
    now_ms = itertools.count(5_000_000, 1_000_000)
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(now_ms))
    asked = _count_questions(monkeypatch)
    clock = LoopClock()
    holds = LoopHolds(clock, clock.worked_ms, clock.look_ms)
    began_ms = holds.now_ms()
    before = len(asked)
    looks = [holds.look_ms() for _ in range(3)]

    assert (looks, holds.ended(began_ms, "work")) == ([6, 7, 8], 4)
    assert len(asked) == before


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
