"""Tasks: the coroutines that a broker runs in the background, and cancels when it stops."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from syncline.node.loop.loop_holds import LoopHolds

log = logging.getLogger("syncline.node")

_T = TypeVar("_T")


class Tasks:
    """The background tasks of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, holds: LoopHolds) -> None:
        self._loop = loop
        self._holds = holds
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, coroutine: Coroutine[Any, Any, _T], /) -> asyncio.Task[_T]:
        """Run a coroutine as a task that this broker owns; a failure is logged, and its turns are counted as holds."""
        task = self._loop.create_task(self._holds.in_turns(coroutine, getattr(coroutine, "__qualname__", "tasks")))
        self._tasks[task] = None
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a background task failed", exc_info=error)

    async def cancel(self) -> None:
        """Cancel every task, and wait until all have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for task in tasks:
            await asyncio.gather(task, return_exceptions=True)
