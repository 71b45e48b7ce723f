"""An asyncio event loop whose clock moves only when nothing is runnable.

There is no selector: everything from outside (bytes, results of the disk) comes
from the simulated world as a handle of this loop. So a run is a sequence of
callbacks that depends on nothing but the seed, and idle time costs nothing.

Time is an integer count of nanoseconds. A timer lasts at least a microsecond
and each wake-up moves the clock: with floats, a client that sleeps
`deadline - now` may never wake, since adding 1e-17 s changes nothing. Some
clients spin until something happens. On a real machine time passes meanwhile,
and so it does here: after thousands of callbacks in one instant, the clock moves
to the next timer.

A sequence number breaks ties. Scheduling is first in, first out, or *shuffled*:
a random stream then permutes, at each turn, the processes and the task steps
within each process. Plain callbacks of a process keep their order, as asyncio
promises.

Tasks and futures hash by their number, not by their address: third-party code
that iterates over sets of them sees the same order in every run.

Threads do not exist here: `run_in_executor` raises, and
`call_soon_threadsafe` is `call_soon`.
"""

import asyncio
import heapq
import math
import random
import socket
from asyncio.base_events import BaseEventLoop
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, Final, NoReturn, Protocol, TypeVar

from syncline.virtual.time.meter import CallMeter
from syncline.virtual.time.process import Process, current_process

T = TypeVar("T")

DELAY_NS_MIN: Final = 1_000
NS_PER_S: Final = 1_000_000_000
# Cancelled timers stay in the heap until they are due, or until there are this many and they are half of it.
CANCELLED_TIMERS_MAX: Final = 1_000
# After this many callbacks in one instant a client must be spinning; one that spun a moment ago is detected sooner.
SPIN_CALLBACKS: Final = 3_000
SPIN_AGAIN_CALLBACKS: Final = 60


class DeadlockError(Exception):
    """Nothing is runnable and no timer is set: time cannot move."""


class LivelockError(Exception):
    """Callbacks never end in one instant and no timer is set."""


class NotInVirtualTimeError(RuntimeError):
    """Code asked for something that does not exist in virtual time (threads, executors, real sockets)."""


class SendsUnread(Protocol):
    """Connections over which files are sent unread."""

    def send(self, descriptor: int, inode: Any, position: int, size: int, /) -> int:
        """Send what a socket takes at once of a file; return how many bytes that were."""


class WorldNetwork(Protocol):
    """The simulated network, as the loop needs it."""

    def resolve(self, host: str) -> str:
        """Return the address of a host."""

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Return a connected transport and its protocol."""

    def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str | list[str] | None, port: int, *, accepts: bool
    ) -> Any:
        """Return a listener."""

    @property
    def unread(self) -> "SendsUnread":
        """Return what sends files unread."""


def _nothing() -> None:
    """Stand in for a cancelled callback, so that the objects it referred to are freed."""


class VirtualHandle(asyncio.TimerHandle):
    """A callback to run, at once or at `when_ns`, and its process."""

    __slots__ = ("in_heap", "process", "when_ns")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "VirtualLoop",
        context: Context,
        when_ns: int,
    ) -> None:
        # The constructors of the base classes copy contexts and take tracebacks, so set their fields here instead.
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._scheduled = False
        self.when_ns = when_ns
        self.in_heap = False
        self.process = context.get(current_process)

    def __repr__(self) -> str:
        return f"<{getattr(self._callback, '__qualname__', self._callback)} of {self.process}>"

    def __hash__(self) -> int:
        return self.when_ns

    def __eq__(self, other: object) -> bool:
        return self is other

    def when(self) -> float:
        """Return when it runs, in seconds of the loop's time."""
        return self.when_ns / NS_PER_S

    def cancel(self) -> None:
        """Cancel the callback."""
        if not self._cancelled:
            self._cancelled = True
            self._callback = _nothing
            self._args = ()
            if self.in_heap:
                self._loop.timer_cancelled()


class VirtualFuture(asyncio.Future[T]):
    """A future that hashes by its number."""

    __slots__ = ("number",)

    def __init__(self, *, loop: "VirtualLoop") -> None:
        super().__init__(loop=loop)
        self.number = loop.next_number()

    def __hash__(self) -> int:
        return self.number


class VirtualTask(asyncio.Task[T]):
    """A task that hashes by its number."""

    __slots__ = ("number",)

    def __init__(
        self,
        coroutine: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        loop: "VirtualLoop",
        name: str | None,
        context: Context | None,
    ) -> None:
        self.number = number = loop.next_number()
        super().__init__(coroutine, loop=loop, name=name or f"task-{number}", context=context)

    def __hash__(self) -> int:
        return self.number


def _is_task_step(callback: object) -> bool:
    """Return whether `callback` runs a task; tasks implemented in C have two wrappers."""
    name = getattr(callback, "__name__", "")
    return name == "TaskWakeupMethWrapper" or type(callback).__name__ == "TaskStepMethWrapper"


class VirtualLoop(BaseEventLoop):
    """The loop. The code that builds a network sets `network`."""

    _stopping: bool  # of the base class

    def __init__(
        self, scheduling: random.Random | None = None, *, on_wake: Callable[[int], object] | None = None
    ) -> None:
        super().__init__()
        self.now_ns = NS_PER_S  # not 0: some clients take a time of 0 for "never"
        self.network: WorldNetwork | None = None
        # Runs callbacks in the loop's place, and measures them; None almost always.
        self.meter: CallMeter | None = None
        self._scheduling = scheduling
        self._on_wake = on_wake
        self._timers: list[tuple[int, int, VirtualHandle]] = []
        self._timers_cancelled = 0
        self._sequence = 0
        self._numbers = 0
        self._ready: list[VirtualHandle] = []
        self._world_tasks: list[asyncio.Task[Any]] = []
        self.callbacks_run = 0
        self._spinning_at = SPIN_CALLBACKS
        self.spins = 0

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.now_ns / NS_PER_S

    def next_number(self) -> int:
        """Return a number never given before in this loop."""
        self._numbers += 1
        return self._numbers

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        """Run `callback` at this instant, after all callbacks that are already scheduled."""
        if context is None:
            context = copy_context()
        handle = VirtualHandle(callback, args, self, context, self.now_ns)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        """Run `callback` soon: there is only one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        """Run `callback` after `delay` seconds."""
        return self.call_at_ns(self.now_ns + math.ceil(delay * NS_PER_S), callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        """Run `callback` when the loop's time is `when` seconds."""
        return self.call_at_ns(math.ceil(when * NS_PER_S), callback, *args, context=context)

    def call_at_ns(
        self, when_ns: int, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> VirtualHandle:
        """Run `callback` at `when_ns`, or a microsecond from now if that is not in the future.

        Real timers take time, too: a client that waits with a time-out of 0 until a deadline has
        *passed* would otherwise wait for ever at the instant of the deadline.
        """
        if context is None:
            context = copy_context()
        when_ns = max(when_ns, self.now_ns + DELAY_NS_MIN)
        handle = VirtualHandle(callback, args, self, context, when_ns)
        handle.in_heap = True
        self._sequence += 1
        heapq.heappush(self._timers, (when_ns, self._sequence, handle))
        return handle

    def timer_cancelled(self) -> None:
        """Count a cancelled timer; remove all cancelled timers if there are too many."""
        self._timers_cancelled += 1
        if self._timers_cancelled > CANCELLED_TIMERS_MAX and 2 * self._timers_cancelled > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2]._cancelled]  # noqa: SLF001
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def create_future(self) -> asyncio.Future[Any]:
        """Return a new future."""
        return VirtualFuture(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """Return a task of the current process."""
        task = VirtualTask(coro, loop=self, name=name, context=context)
        process = current_process.get()
        if process is not None:
            process.own(task)
        else:
            self._world_tasks.append(task)
        return task

    @property
    def timer_count(self) -> int:
        """The number of timers in the heap, including cancelled ones."""
        return len(self._timers)

    def turn(self) -> None:
        """Run what is due, or move the clock to the next timer. Raises DeadlockError if there is neither."""
        self._run_once()

    def _run_once(self) -> None:
        if not self._ready:
            self._wake()
        batch, self._ready = self._ready, []
        if self._scheduling is not None and len(batch) > 1:
            batch = self._shuffled(batch, self._scheduling)
        self.callbacks_run += len(batch)
        if self.callbacks_run > self._spinning_at:
            self._wake(is_spinning=True)
        for handle in batch:
            if handle._cancelled:  # noqa: SLF001
                continue
            process = handle.process
            if process is not None and not process.runs:
                if process.alive:
                    process.held.append(handle)
                continue
            try:
                if self.meter is None:
                    handle._context.run(handle._callback, *handle._args)  # noqa: SLF001
                else:
                    self.meter.run(process, handle._context.run, handle._callback, *handle._args)  # noqa: SLF001
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as asyncio.Handle does: one callback must not stop the others
                self.call_exception_handler(
                    {"message": f"exception in callback of {process}", "exception": error, "handle": handle}
                )

    def _wake(self, *, is_spinning: bool = False) -> None:
        """Move the clock to the next timer and make all due callbacks runnable."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:  # noqa: SLF001
            heapq.heappop(timers)
            self._timers_cancelled -= 1
        if not timers:
            if self._stopping:
                return
            raise LivelockError(f"spinning for ever: {self._ready[:3]}") if is_spinning else DeadlockError("standstill")
        now_ns = self.now_ns = timers[0][0]
        self._spinning_at = self.callbacks_run + (SPIN_AGAIN_CALLBACKS if is_spinning else SPIN_CALLBACKS)
        self.spins += is_spinning
        while timers and timers[0][0] == now_ns:
            handle = heapq.heappop(timers)[2]
            if handle._cancelled:  # noqa: SLF001
                self._timers_cancelled -= 1
            else:
                handle.in_heap = False
                self._ready.append(handle)
        if self._on_wake is not None:
            self._on_wake(now_ns)

    @staticmethod
    def _shuffled(batch: list[VirtualHandle], scheduling: random.Random) -> list[VirtualHandle]:
        """Return `batch` with its processes in random order, and with the task steps of each process permuted."""
        groups: dict[Process | None, list[VirtualHandle]] = {}
        for handle in batch:
            groups.setdefault(handle.process, []).append(handle)
        order = list(groups.values())
        if len(order) > 1:
            scheduling.shuffle(order)
        shuffled: list[VirtualHandle] = []
        for group in order:
            if len(group) > 1:
                places = [place for place, handle in enumerate(group) if _is_task_step(handle._callback)]  # noqa: SLF001
                if len(places) > 1:
                    steps = [group[place] for place in places]
                    scheduling.shuffle(steps)
                    for place, step in zip(places, steps, strict=True):
                        group[place] = step
            shuffled.extend(group)
        return shuffled

    def release(self, handles: list[VirtualHandle]) -> None:
        """Make `handles`, held back while their process was paused, runnable again."""
        self._ready.extend(handles)

    def world_tasks(self) -> list[asyncio.Task[Any]]:
        """Return the unfinished tasks that belong to no process, oldest first."""
        self._world_tasks = [task for task in self._world_tasks if not task.done()]
        return self._world_tasks

    def _process_events(self, event_list: object) -> None:
        """Do nothing: there is no selector."""

    def _write_to_self(self) -> None:
        """Do nothing: there is no selector to wake."""

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        """Refuse: threads run in real time, in an order that no seed can replay."""
        raise NotInVirtualTimeError(f"run_in_executor({func!r}): there are no threads in virtual time")

    def world_network(self) -> WorldNetwork:
        """Return the simulated network; `NotInVirtualTimeError` if there is none."""
        if self.network is None:
            raise NotInVirtualTimeError("this loop has no network")
        return self.network

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        **_options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect over the simulated network."""
        if ssl or sock is not None or host is None or port is None:
            raise NotInVirtualTimeError("virtual connections are plain and made by host and port")
        return await self.world_network().connect(protocol_factory, host, int(port))

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | list[str] | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        start_serving: bool = True,
        **_options: Any,
    ) -> Any:
        """Listen on the simulated network."""
        if ssl or sock is not None:
            raise NotInVirtualTimeError("virtual servers are plain and listen by host and port")
        return self.world_network().listen(protocol_factory, host, port or 0, accepts=start_serving)

    async def getaddrinfo(  # type: ignore[override]
        self, host: str | None, port: int | str | None, **_options: int
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        """Return the one address of `host`: its name, which serves as an address here."""
        address = self.world_network().resolve(host or "")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(port or 0)))]

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        """Return the name and port of an address."""
        return str(sockaddr[0]), str(sockaddr[1])

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Do nothing: there is no executor."""


def run(main: Awaitable[T], loop: VirtualLoop) -> T:
    """Run `main` in `loop` as the current loop of this thread, close the loop, and return what `main` returned."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        asyncio.set_event_loop(None)
        loop.close()
