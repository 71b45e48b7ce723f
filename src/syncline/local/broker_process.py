"""One broker process: a node with the real ports, from its start to its stop.

It runs on uvloop where that is installed. It stops on SIGTERM (after a controlled
shutdown), on SIGUSR2 (the whole cluster stops) or when its supervisor is gone.
"""

import asyncio
import contextlib
import ctypes
import errno
import importlib.util
import logging
import os
import random
import resource
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncline.coordination.sqlite import SqliteCoordination
from syncline.local.bursts import Bursts, ObjectHeap
from syncline.local.control_secret import ensure_secret
from syncline.local.cyclic_garbage import OldGarbage, SparseLooks, collect_in_small_parts, collect_rarely
from syncline.local.loop_clock import LoopClock
from syncline.local.memory import GivesBack, free_kept_objects, keep_freed_memory, machine_memory_bytes
from syncline.local.private_files import keep_files_private
from syncline.local.pulse import Pulse
from syncline.model.broker_config import BrokerConfig
from syncline.model.config_types import ConfigError
from syncline.node.channel.membership import RegistrationRefused
from syncline.node.clock import SystemClock
from syncline.node.handlers import import_for_brokers
from syncline.node.loop.loop_holds import LoopHolds
from syncline.node.node import Listen, Node, NodeSpec
from syncline.storage.errors import StorageError, WrongOwnerError
from syncline.storage.machine.real_disk import RealDisk

if importlib.util.find_spec("uvloop") is not None:
    import uvloop
else:
    uvloop = None

if TYPE_CHECKING:
    from syncline.local.ports import BetweenBrokers
    from syncline.node.metrics.scrape import ProcessFigures

log = logging.getLogger("syncline.local")

HOST = "127.0.0.1"
STOP_TIMEOUT_S = 30.0
# How much a broker logs.
LEVEL_NAME: Final = "SYNCLINE_LOG_LEVEL"
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
# The exit code of a process that could not use its data directory: other brokers can go on without it.
DISK_EXIT = 3
SWITCH_INTERVAL_S = 0.0005
# After this, code is imported that brokers need among themselves: the start itself needs little of it.
IMPORT_AFTER_S = 1.0
# The signal that a supervisor sends instead of SIGTERM when it stops the whole cluster.
STOP_WITH_ALL = signal.SIGUSR2

# What to do about errors of files that a broker needs, by errno.
_NOT_MINE: Final = ". The user who starts the broker needs read and write access to everything in its directory."
_NAME_TAKEN: Final = ". Something else has the name of a file or directory that the broker keeps there: move it away."
_ADVICE: Final = {
    errno.EACCES: _NOT_MINE,
    errno.EPERM: _NOT_MINE,
    errno.ENOTDIR: _NAME_TAKEN,
    errno.EISDIR: _NAME_TAKEN,
    errno.EEXIST: _NAME_TAKEN,
}

# Linux's <sys/prctl.h>.
PR_SET_PDEATHSIG = 1


class BrokerProcess:
    """A node on real ports."""

    def __init__(
        self,
        *,
        broker_id: int,
        cluster_directory: Path,
        log_directory: Path,
        config: Mapping[str, str],
        cluster_size: int,
        client_listener: socket.socket,
        internal: "BetweenBrokers",
        metrics_listener: socket.socket | None = None,
        supervisor_alive_fd: int | None = None,
        on_serving: Callable[[], object] = lambda: None,
        on_failed: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._broker_id = broker_id
        self._cluster_directory = cluster_directory
        self._log_directory = log_directory
        self._config = dict(config)
        self._cluster_size = cluster_size
        self._client = client_listener
        self._internal = internal
        self._metrics = metrics_listener
        self._supervisor_alive_fd = supervisor_alive_fd
        self._do_all_stop = False
        self._on_serving = on_serving
        self._on_failed = on_failed

    def run(self) -> int:
        """Serve until a signal stops it; return the exit code."""
        keep_files_private()
        # An empty variable is an unset one.
        named = os.environ.get(LEVEL_NAME) or "INFO"
        level = named.upper()
        logging.basicConfig(
            level=level if level in LEVELS else "INFO",
            format=f"%(asctime)s %(levelname)s broker-{self._broker_id} %(message)s",
            force=True,
        )
        keep_freed_memory()
        _allow_many_files()
        collect_rarely()
        # A thread that opens a batch computes for seconds; the loop's thread, which waits for the interpreter at each
        # of its many short calls to the system, would wait for 5 ms each time.
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        try:
            if level not in LEVELS:
                raise ConfigError(
                    f"the environment variable {LEVEL_NAME} is {named!r}, but must be one of {', '.join(LEVELS)}"
                )
            if uvloop is not None:
                loop = uvloop.new_event_loop()
                asyncio.set_event_loop(loop)
                return int(loop.run_until_complete(self._serve()))
            return asyncio.run(self._serve())
        except (ConfigError, StorageError, RegistrationRefused, sqlite3.Error, OSError) as error:
            failure: Exception = error
            reason = self._sentence(error)
            log.error("%s", reason)
        except Exception as error:
            reason = f"internal error: {error!r}"
            log.exception("internal error")
            self._on_failed(reason)
            return 1
        self._on_failed(reason)
        is_disk = isinstance(failure, OSError | StorageError) and not isinstance(failure, WrongOwnerError)
        return DISK_EXIT if is_disk else 1

    def _sentence(self, error: Exception) -> str:
        """Return what is wrong and what to do about it."""
        if isinstance(error, sqlite3.Error):
            store = self._cluster_directory / "cluster.db"
            # "Operational" errors come from outside the file: no room, no permission. All others are in the file.
            advice = (
                "Free disk space, and make sure that the broker can write the file and its directory."
                if isinstance(error, sqlite3.OperationalError)
                else "Replace it with a good copy."
            )
            return f"{store}, the cluster's metadata, cannot be used: {error}. {advice}"
        if isinstance(error, OSError) and error.strerror:
            advice = _ADVICE.get(error.errno or 0, "")
            return f"{error.strerror}: {error.filename}{advice}" if error.filename else error.strerror
        return str(error)

    async def _serve(self) -> int:
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stopping.set)
        loop.add_signal_handler(STOP_WITH_ALL, self._all_stop, stopping)
        if self._supervisor_alive_fd is not None:
            loop.add_reader(self._supervisor_alive_fd, self._supervisor_gone, stopping)
            _go_on_without_parent()
        if self._internal.trouble:
            port = self._internal.port
            log.warning(
                "replicating over TCP: there is no Unix domain socket beside port %s: %s", port, self._internal.trouble
            )
        clock = SystemClock(BrokerConfig.resolve(self._config).clock_offset_ms)
        loop_clock = LoopClock()
        pulse = Pulse()
        pulse.start()
        holds = LoopHolds(loop_clock, loop_clock.worked_ms, loop_clock.look_ms, pulse.stopped_ms)
        call_soon = holds.counted(loop.call_soon_threadsafe)
        disk = RealDisk(call_soon)
        coordination = SqliteCoordination(str(self._cluster_directory), call_soon)
        node = Node(
            NodeSpec(
                broker_id=self._broker_id,
                log_directory=str(self._log_directory),
                client=self._listen(self._client),
                internal=self._listen(self._internal.tcp)._replace(beside=self._internal.beside),
                config=self._config,
                rack=self._config.get("broker.rack"),
                cluster_size=self._cluster_size,
                memory_bytes=machine_memory_bytes(),
                metrics=self._listen(self._metrics) if self._metrics is not None else None,
                process_figures=_process_figures,
                control_secret=self._control_secret(),
            ),
            disk=disk,
            coordination=coordination,
            clock=clock,
            rng=random.Random(os.urandom(16)),  # noqa: S311 - ids and tie-breaks, no secrets
            on_unfit=self._unfit,
            block=time.sleep,
            holds=holds,
        )
        starting = asyncio.ensure_future(node.start())
        stopped = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return 0
        starting.result()
        self._on_serving()
        collect_in_small_parts()
        bursts, sparse_looks = Bursts(loop, ObjectHeap().use_system), SparseLooks()
        node.before_long_requests(bursts.begins)
        gives_back = GivesBack(loop, holds, end_threads=disk.end_idle_threads, free=_free_what_is_kept)
        old_garbage = OldGarbage(loop, holds)
        importing = loop.call_later(IMPORT_AFTER_S, disk.run_later, import_for_brokers, _imported)
        node.import_for_tools_with(disk.run_later)
        log.info("serving clients on port %s", self._client.getsockname()[1])
        await stopped
        importing.cancel()
        bursts.close()
        sparse_looks.close()
        gives_back.close()
        old_garbage.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await node.stop(with_all=self._do_all_stop)
        except TimeoutError:
            # If its supervisor is gone, no process would kill this broker. Its logs are left as after a crash.
            log.error("could not stop cleanly within %s s", STOP_TIMEOUT_S)
            return 1
        except StorageError as error:
            # The next start recovers a failed log completely.
            log.error("the data directory could not be closed cleanly: %s", error)
            return 1
        coordination.close()
        disk.close()
        pulse.close()
        log.info("stopped")
        return 0

    def _control_secret(self) -> str | None:
        try:
            return ensure_secret(self._cluster_directory)
        except OSError as error:
            # Most likely the disk is full. Serving is more important than being controlled.
            log.warning("the control API is closed: its secret cannot be read or created: %s", error)
            return None

    @staticmethod
    def _unfit(reason: str) -> None:
        """End at once, like a crash: this is the only log directory, and other brokers can lead its partitions."""
        log.critical("%s; this broker stops", reason)
        os._exit(1)

    def _supervisor_gone(self, stopping: asyncio.Event) -> None:
        assert self._supervisor_alive_fd is not None
        if not os.read(self._supervisor_alive_fd, 1):
            log.warning("the supervisor is gone; stopping")
            asyncio.get_running_loop().remove_reader(self._supervisor_alive_fd)
            self._all_stop(stopping)

    def _all_stop(self, stopping: asyncio.Event) -> None:
        """Stop together with the other brokers of the cluster."""
        self._do_all_stop = True
        stopping.set()

    @staticmethod
    def _listen(listener: socket.socket) -> Listen:
        return Listen(host=HOST, port=listener.getsockname()[1], listener=listener)


def _imported(outcome: Exception | None) -> None:
    if outcome is not None:
        log.warning(
            "the handlers of requests could not be imported; the import is repeated when a request needs them: %s",
            outcome,
        )


def _free_what_is_kept() -> None:
    """Free what is kept in case that it is needed again."""
    # The start needs little of it.
    from syncline.wire.stepwise import forget_plans

    forget_plans()
    free_kept_objects()


def _process_figures() -> "ProcessFigures":
    from syncline.local.process_figures import process_figures

    return process_figures()


def _go_on_without_parent() -> None:
    """Have the kernel send SIGCONT when the supervisor ends: a paused process could not see that it has ended.

    Linux only; elsewhere a paused broker stays until another process sends SIGCONT.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)


def _allow_many_files() -> None:
    """Raise the limit of open files to this user's maximum.

    Each partition that was written to keeps its log open. The usual limit, 1,024, exists for programs that call
    `select`; it would allow about a thousand partitions.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
