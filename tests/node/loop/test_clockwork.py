"""Periodic work: when it is done, and how it shares the loop with requests."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from syncline.node.clock import SystemClock
from syncline.node.loop.clockwork import STEPS_PER_SLICE, Clockwork
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.serving.request import Steps
from syncline.virtual.time.loop import VirtualLoop


class StandingClock(SystemClock):
    """A clock of a world in which code takes no time."""

    def mono_ms(self) -> int:
        """Return the same time always."""
        return 0


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    """Return a loop in virtual time."""
    loop = VirtualLoop()
    yield loop
    loop.close()


def run(loop: VirtualLoop, seconds: float) -> None:
    """Let time pass."""
    loop.call_later(seconds, loop.stop)
    loop.run_forever()


def test_work_is_done_at_each_interval_until_the_end(loop: VirtualLoop) -> None:
    """Some of it only once."""
    clockwork = Clockwork(loop, LoopHolds(StandingClock()))
    done: list[str] = []
    clockwork.every("often", 1_000, lambda: done.append("often"))
    clockwork.every("once", 1_500, lambda: done.append("once"), is_once=True)
    run(loop, 3.2)
    clockwork.close()
    run(loop, 10)

    assert done == ["often", "once", "often", "often"]


def test_long_work_is_done_in_slices_and_not_begun_twice(loop: VirtualLoop) -> None:
    """Other callbacks run between two slices: here, one per turn of the loop counts the steps so far."""
    clockwork = Clockwork(loop, LoopHolds(StandingClock()))
    steps_done = [0]
    seen: list[int] = []

    def work() -> Steps:
        for _ in range(10 * STEPS_PER_SLICE):
            steps_done[0] += 1
            yield

    def look() -> None:
        seen.append(steps_done[0])
        if steps_done[0] < 10 * STEPS_PER_SLICE:
            loop.call_soon(look)

    clockwork.every("long", 1_000, work)
    loop.call_later(1.0, look)
    run(loop, 1.9)
    clockwork.close()

    assert [later - earlier for earlier, later in pairwise(seen)] == [STEPS_PER_SLICE] * 9
    assert steps_done[0] == 10 * STEPS_PER_SLICE


def test_failure_ends_one_round_only(loop: VirtualLoop, caplog: pytest.LogCaptureFixture) -> None:
    """Whether it happens at once or in a later step, it is logged, and the next round begins in time."""
    clockwork = Clockwork(loop, LoopHolds(StandingClock()))
    begun: list[str] = []

    def fail() -> None:
        begun.append("fail")
        raise ValueError("no")

    def fail_late() -> Steps:
        begun.append("fail_late")
        yield from [None] * 3 * STEPS_PER_SLICE
        raise ValueError("no")

    clockwork.every("early", 1_000, fail)
    clockwork.every("late", 1_000, fail_late)
    run(loop, 2.5)
    clockwork.close()

    assert begun == ["fail", "fail_late"] * 2
    assert caplog.text.count("timer failed") == 4


def test_nothing_is_finished_after_the_end(loop: VirtualLoop) -> None:
    """The broker is stopping: what work would touch is closed."""
    clockwork = Clockwork(loop, LoopHolds(StandingClock()))
    steps_done = [0]

    def work() -> Steps:
        for _ in range(3 * STEPS_PER_SLICE):
            steps_done[0] += 1
            yield

    clockwork.every("long", 1_000, work)
    loop.call_later(1.0, clockwork.close)
    run(loop, 5)

    assert steps_done[0] == STEPS_PER_SLICE
