"""A few threads that wait for the disk so that the event loop need not.

One hard idea: threads never touch what the loop owns. They run a function that
uses only its own values, and its result goes back through the loop's queue.

The first piece of work starts the threads: a process that forks brokers must not
have any before. After the loop has closed, results are dropped.

A thread keeps its stack, and some hundred freed pieces of memory for itself, which
lie wherever they were freed. So threads without work may be ended; others start
with the next work.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeAlias

CallSoon: TypeAlias = Callable[..., object]
_Jobs: TypeAlias = "SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]] | None]"


class WorkerPool:
    """Runs functions in at most `workers` threads and delivers their results to the loop."""

    def __init__(self, call_soon_threadsafe: CallSoon, workers: int) -> None:
        assert workers > 0, "a pool without threads would never answer"
        self._call_soon = call_soon_threadsafe
        self._workers = workers
        self._jobs: _Jobs = SimpleQueue()
        self._threads: list[threading.Thread] = []
        # The threads that have work now.
        self._working: dict[int, None] = {}
        self._is_closed = False

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run `work` in a thread; `done` is called on the loop with its result or exception."""
        assert not self._is_closed, "work was given to a closed pool"
        if len(self._threads) < self._workers:
            number = len(self._threads)
            thread = threading.Thread(target=self._run, args=(self._jobs,), name=f"disk-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()
        assert 0 < len(self._threads) <= self._workers, f"{len(self._threads)} threads of {self._workers}"
        self._jobs.put((work, done))

    def end_idle(self) -> None:
        """End the threads, unless one has work: the next work starts others."""
        assert not self._is_closed, "the threads of a closed pool are gone"
        if self._threads and self._jobs.empty() and not self._working:
            self._end()
            # One that has just taken a job finishes it.
            self._jobs = SimpleQueue()
            self._threads.clear()

    def close(self) -> None:
        """Finish what was submitted, then end the threads."""
        self._is_closed = True
        self._end()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _end(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)

    def _run(self, jobs: "_Jobs") -> None:
        own = threading.get_ident()
        while (job := jobs.get()) is not None:
            self._working[own] = None
            self._do(*job)
            # A thread that waits for its next job keeps nothing of the last one.
            del job, self._working[own]

    def _do(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - any error goes to `done`
            result = error
        try:
            self._call_soon(done, result)
        except RuntimeError:
            # The loop closed meanwhile: no code waits for the result.
            return
        finally:
            # An exception has a traceback, which has this frame: the two would keep each other, and all that the work
            # used, until the next full garbage collection, which is rare.
            del result
