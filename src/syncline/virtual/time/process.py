"""A process: one life of one program on one simulated host.

Everything that asyncio will run later (callbacks, timers, task steps) carries
the `contextvars` context of the code that requested it. The context names the
process, so the loop knows the process of each handle. The loop drops the handles
of a killed process when their turn comes; no `finally` runs, as with SIGKILL. It
holds back the handles of a paused process and runs them in a burst when the
process resumes, as SIGCONT does.

Invariants: a dead process never runs again; a restart is a new `Process`.
Its tasks stay referenced until the run ends, since a task that is collected
would run its `finally` blocks, which a killed process does not.
"""

import asyncio
import contextlib
import contextvars
from contextvars import ContextVar
from typing import Any, Final

# The process that owns the handles, connections and files of the running code. None: links, faults, checks.
current_process: Final[ContextVar["Process | None"]] = ContextVar("current_process", default=None)
# The kernels of the hosts run in this context: it belongs to no process, so it is never paused or dead.
KERNEL: Final = contextvars.Context()


class ProcessIsDeadError(BaseException):
    """Code of a killed process kept running, as it may while a run is taken apart. Do not catch this."""


class Process:
    """One program from its start to its death, on the host called `host`."""

    __slots__ = ("_tasks", "_tasks_prune_at", "alive", "context", "held", "host", "incarnation", "paused", "runs")

    def __init__(self, host: str, incarnation: int = 0) -> None:
        self.host = host
        self.incarnation = incarnation
        self.alive = True
        self.paused = False
        self.runs = True  # alive and not paused: the only flag that the loop checks
        self.held: list[Any] = []
        self.context = contextvars.Context()
        self.context.run(current_process.set, self)
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_prune_at = 64

    def __repr__(self) -> str:
        return f"{self.host}#{self.incarnation}"

    def check_alive(self) -> None:
        """Raise ProcessIsDeadError if the process was killed."""
        if not self.alive:
            raise ProcessIsDeadError(repr(self))

    def own(self, task: asyncio.Task[Any]) -> None:
        """Keep `task` referenced until the run ends."""
        self._tasks.append(task)
        if len(self._tasks) >= self._tasks_prune_at:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._tasks_prune_at = 2 * len(self._tasks) + 64

    def pending_tasks(self) -> list[asyncio.Task[Any]]:
        """Return the unfinished tasks, oldest first."""
        return [task for task in self._tasks if not task.done()]

    def die(self) -> None:
        """End the process at once."""
        self.alive = False
        self.runs = False
        self.held.clear()

    def abandon(self) -> None:
        """Close what a finished run left behind, so that the interpreter does not warn about it.

        `finally` blocks run here, in a dead process: every port refuses their calls.
        """
        self.die()
        tasks, self._tasks = self.pending_tasks(), []
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - asyncio's own way to say so
            coroutine = task.get_coro()
            assert coroutine is not None
            with contextlib.suppress(BaseException):
                self.context.run(coroutine.close)

    def pause(self) -> None:
        """Pause until `resume`."""
        self.paused = True
        self.runs = False

    def resume(self) -> list[Any]:
        """Resume; return the handles whose turn came meanwhile, in order."""
        self.paused = False
        self.runs = self.alive
        held, self.held = self.held, []
        return held
