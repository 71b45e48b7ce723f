"""The virtual loop: time, order, kill and pause."""

import asyncio
import random

import pytest

from syncline.virtual.time.loop import DeadlockError, LivelockError, NotInVirtualTimeError, VirtualLoop, run
from syncline.virtual.time.process import Process


def test_clock_moves_only_to_the_next_timer_when_nothing_is_runnable() -> None:
    """An hour of sleep takes no time, and lasts an hour to the nanosecond."""
    loop = VirtualLoop()
    before_ns = loop.now_ns

    run(asyncio.sleep(3600), loop)

    assert loop.now_ns - before_ns == 3600 * 10**9


def test_clock_moves_at_least_a_microsecond_when_a_delay_is_too_small_to_count() -> None:
    """A client that sleeps until a deadline 1e-17 s away wakes up."""
    loop = VirtualLoop()

    async def naps() -> None:
        for _ in range(5):
            await asyncio.sleep(1e-17)

    run(naps(), loop)

    assert loop.now_ns == 10**9 + 5 * 1000


def test_timers_run_in_order_of_time_and_then_of_asking() -> None:
    """Equal times are ordered by a sequence number, never by chance."""
    loop = VirtualLoop()
    seen: list[str] = []
    loop.call_later(0.2, seen.append, "late")
    loop.call_later(0.1, seen.append, "first")
    loop.call_later(0.1, seen.append, "second")

    run(asyncio.sleep(0.3), loop)

    assert seen == ["first", "second", "late"]


def test_cancelled_timers_are_forgotten_when_they_are_many() -> None:
    """Time-outs of requests that were answered do not fill the heap."""
    loop = VirtualLoop()
    for _ in range(5000):
        loop.call_later(1000, print).cancel()

    assert loop.timer_count < 2500
    loop.close()


def test_loop_raises_when_nothing_can_ever_happen_again() -> None:
    """A standstill is an error, not a hang."""
    loop = VirtualLoop()

    with pytest.raises(DeadlockError):
        run(loop.create_future(), loop)


def spinner(loop: VirtualLoop) -> "asyncio.Task[None]":
    """Return a task that waits without waiting."""

    async def spin() -> None:
        while True:  # noqa: ASYNC110 - that is what it is about
            await asyncio.sleep(0)

    task = loop.create_task(spin())
    task._log_destroy_pending = False
    return task


def test_clock_goes_on_when_somebody_spins() -> None:
    """A client that looks again and again until something happens lets it happen."""
    loop = VirtualLoop()
    spinner(loop)

    run(asyncio.sleep(1), loop)

    assert loop.now_ns == 2 * 10**9
    assert loop.spins > 0


def test_loop_raises_when_somebody_spins_and_nothing_can_happen() -> None:
    """Endless spinning is an error, not a hang."""
    loop = VirtualLoop()

    with pytest.raises(LivelockError):
        run(spinner(loop), loop)


def test_time_out_of_nothing_takes_a_microsecond() -> None:
    """Code that waits with a time-out of 0 until a deadline has passed reaches it."""
    loop = VirtualLoop()

    async def until(deadline: float) -> None:
        never = loop.create_future()
        while loop.time() <= deadline:
            await asyncio.wait([never], timeout=max(0, deadline - loop.time()))

    run(until(2.0), loop)

    assert loop.now_ns == 2 * 10**9 + 1000


def test_executor_is_refused() -> None:
    """There are no threads in virtual time."""

    async def work() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(NotInVirtualTimeError):
        run(work(), VirtualLoop())


def test_threadsafe_calls_run_in_the_one_thread() -> None:
    """`call_soon_threadsafe` is `call_soon` here."""
    loop = VirtualLoop()
    done = loop.create_future()
    loop.call_soon_threadsafe(done.set_result, 7)

    assert run(done, loop) == 7


def interleaving(seed: int | None) -> list[int]:
    """Return in which order eight tasks of one process take their steps."""
    loop = VirtualLoop(None if seed is None else random.Random(seed))
    seen: list[int] = []

    async def step(number: int) -> None:
        seen.append(number)
        await asyncio.sleep(0)
        seen.append(number)

    async def all_of_them() -> None:
        await asyncio.gather(*(step(number) for number in range(8)))

    run(all_of_them(), loop)
    return seen


def test_task_steps_are_first_in_first_out_without_a_scheduling_stream() -> None:
    """The plain order is asyncio's."""
    assert interleaving(None) == [*range(8), *range(8)]


def test_task_steps_are_shuffled_by_the_scheduling_stream() -> None:
    """A seed names an order; another seed another one."""
    assert interleaving(1) == interleaving(1)
    assert interleaving(1) != interleaving(2)
    assert sorted(interleaving(1)) == sorted([*range(8), *range(8)])


def test_plain_callbacks_keep_their_order_when_task_steps_are_shuffled() -> None:
    """Asyncio promises first in, first out for callbacks; protocols rely on it."""
    loop = VirtualLoop(random.Random(3))
    seen: list[int] = []
    for number in range(20):
        loop.call_soon(seen.append, number)

    run(asyncio.sleep(0.1), loop)

    assert seen == list(range(20))


def test_set_of_tasks_has_the_same_order_in_every_run() -> None:
    """Third-party code that iterates over what `asyncio.wait` returns is repeatable."""

    async def order() -> list[str]:
        tasks = [asyncio.create_task(asyncio.sleep(0), name=str(number)) for number in range(50)]
        done, _ = await asyncio.wait(tasks)
        return [task.get_name() for task in done]

    noise = [object() for _ in range(1000)]
    first = run(order(), VirtualLoop())
    del noise

    assert run(order(), VirtualLoop()) == first


def test_killed_process_runs_nothing_more_not_even_finally() -> None:
    """Callbacks, timers and task steps of a dead process are dropped."""
    loop = VirtualLoop()
    process = Process("b1")
    seen: list[str] = []

    async def worker() -> None:
        try:
            while True:
                await asyncio.sleep(1)
                seen.append("tick")
        finally:
            seen.append("finally")

    process.context.run(loop.create_task, worker())
    loop.call_later(2.5, process.die)

    run(asyncio.sleep(10), loop)

    assert seen == ["tick", "tick"]
    assert len(process.pending_tasks()) == 1
    process.abandon()


def test_paused_process_bursts_when_it_goes_on() -> None:
    """What became due during a pause runs at its end, in order."""
    loop = VirtualLoop()
    process = Process("b1")
    seen: list[tuple[int, float]] = []

    async def worker(number: int) -> None:
        await asyncio.sleep(number)
        seen.append((number, loop.time()))

    for number in (3, 2, 9):
        process.context.run(loop.create_task, worker(number))
    loop.call_later(1, process.pause)
    loop.call_later(5, lambda: loop.release(process.resume()))

    run(asyncio.sleep(20), loop)

    assert seen == [(2, 6.0), (3, 6.0), (9, 10.0)]
