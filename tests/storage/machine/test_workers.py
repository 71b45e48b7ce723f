"""The threads that wait for the disk: they end when there is nothing to do, and others start."""

import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest

from syncline.storage.machine.workers import WorkerPool
from tests.patience import until

WORKERS = 3


class Loop:
    """Takes results as an event loop would, in the order of their arrival."""

    def __init__(self) -> None:
        self.results: Queue[Any] = Queue()

    def call_soon(self, done: Callable[[Any], None], result: Any) -> None:
        """Keep a result."""
        done(result)


@pytest.fixture
def loop() -> Loop:
    """Return where results go."""
    return Loop()


@pytest.fixture
def pool(loop: Loop) -> Iterator[WorkerPool]:
    """Return a pool, and end it."""
    pool = WorkerPool(loop.call_soon, WORKERS)
    yield pool
    pool.close()


def threads_of(pool: WorkerPool, loop: Loop) -> set[threading.Thread]:
    """Have each thread do something at the same time; return them."""
    together = threading.Barrier(WORKERS)

    def work() -> threading.Thread:
        together.wait(10)
        return threading.current_thread()

    for _ in range(WORKERS):
        pool.submit(work, loop.results.put)
    return {loop.results.get(timeout=10) for _ in range(WORKERS)}


def test_threads_without_work_end_and_others_do_what_comes(pool: WorkerPool, loop: Loop) -> None:
    """What was freed in them is freed for good."""
    before = threads_of(pool, loop)

    def have_ended() -> bool:
        pool.end_idle()
        return not any(thread.is_alive() for thread in before)

    until(have_ended)
    after = threads_of(pool, loop)

    assert len(before) == len(after) == WORKERS
    assert not before & after


def test_no_thread_ends_while_one_works(pool: WorkerPool, loop: Loop) -> None:
    """One that waits for a stuck disk may wait for long; there would be ever more of them."""
    before = threads_of(pool, loop)
    may_go, has_begun = threading.Event(), threading.Event()

    def work() -> bool:
        has_begun.set()
        return may_go.wait(10)

    pool.submit(work, loop.results.put)
    has_begun.wait(10)
    for _ in range(10):
        pool.end_idle()
    is_same = all(thread.is_alive() for thread in before)
    may_go.set()

    assert loop.results.get(timeout=10) is True
    assert is_same
    assert threads_of(pool, loop) == before
