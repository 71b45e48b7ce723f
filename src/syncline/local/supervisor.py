"""The supervisor: forks the brokers, watches them, starts again what died, stops with them.

It has imported everything a broker needs and forks before any thread or event
loop exists: a broker runs within milliseconds and shares the pages of its
code with its siblings. The supervisor itself keeps no listening socket while
brokers run, so that a dead broker's port refuses connections: that is the
evidence by which its peers know that its process is gone.

Two pipes tie a broker to its supervisor: it writes a byte to one when it
serves; the other it only reads, and its end means that the supervisor is dead.
"""

import contextlib
import gc
import json
import logging
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from syncline.local.layout import Layout, LocalClusterError, RunningCluster
from syncline.local.ports import HOST, listen, listen_all, port_of

log = logging.getLogger("syncline.local")

STOP_TIMEOUT_S = 10.0
RESTART_DELAY_S = 0.2
RESTART_DELAY_S_MAX = 5.0
# A broker that ran this long before it died is started again without delay.
STABLE_AFTER_S = 10.0
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """What `up` was asked for."""

    directory: Path
    brokers: int = 3
    port: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    restart: bool = True


@dataclass(kw_only=True)
class Child:
    """One broker process, as its supervisor sees it."""

    broker_id: int
    pid: int
    port: int
    started_at_s: float
    ready: socket.socket | None
    restart_at_s: float | None = None
    restart_delay_s: float = RESTART_DELAY_S
    serving: bool = False


class Supervisor:
    """Runs the brokers of one data directory until told to stop."""

    def __init__(self, spec: ClusterSpec, announce: Callable[[RunningCluster], None]) -> None:
        self._spec = spec
        self._announce = announce
        self._layout = Layout(spec.directory)
        self._children: dict[int, Child] = {}
        self._stop_signal = 0
        self._announced = False
        # Brokers hold the reading end; it ends when this process does.
        self._alive_reader, self._alive_writer = os.pipe()

    def run(self) -> int:
        """Start the brokers, supervise until SIGTERM or SIGINT, stop them; return the exit code."""
        self._layout.create()
        with self._layout.lock():
            return self._run_locked()

    def _run_locked(self) -> int:
        broker_ids = list(range(1, self._spec.brokers + 1))
        listeners = listen_all(broker_ids, self._spec.port, self._layout.remembered_ports())
        internal = {broker_id: listen(0) for broker_id in broker_ids}
        self._layout.remember_ports({broker_id: port_of(listener) for broker_id, listener in listeners.items()})
        preload()
        gc.collect()
        gc.freeze()
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        wake_reader, wake_writer = os.pipe()
        os.set_blocking(wake_writer, False)
        os.set_blocking(wake_reader, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        try:
            for broker_id in broker_ids:
                self._fork(broker_id, listeners, internal)
            for listener in (*listeners.values(), *internal.values()):
                listener.close()
            self._watch(wake_reader)
        finally:
            self._stop_children()
            self._layout.state_file.unlink(missing_ok=True)
            signal.set_wakeup_fd(-1)
        return 0

    def _on_signal(self, number: int, _frame: object) -> None:
        self._stop_signal = number

    def _fork(
        self, broker_id: int, listeners: Mapping[int, socket.socket], internal: Mapping[int, socket.socket]
    ) -> None:
        ready, child_ready = socket.socketpair()
        port = port_of(listeners[broker_id])
        sys.stdout.flush()
        sys.stderr.flush()
        # A signal between fork and the broker's own handlers would be taken by this process's and forgotten.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        pid = os.fork()
        if pid != 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        else:
            code = 1
            try:
                ready.close()
                os.close(self._alive_writer)
                signal.set_wakeup_fd(-1)
                for other, listener in (*listeners.items(), *internal.items()):
                    if other != broker_id:
                        listener.close()
                for child in self._children.values():
                    if child.ready is not None:
                        child.ready.close()
                code = self._child_main(broker_id, listeners[broker_id], internal[broker_id], child_ready)
            except BaseException:  # noqa: BLE001 - this process ends here; its log is to say why
                traceback.print_exc()
            finally:
                os._exit(code)
        child_ready.close()
        ready.setblocking(False)
        previous = self._children.get(broker_id)
        self._children[broker_id] = Child(
            broker_id=broker_id,
            pid=pid,
            port=port,
            started_at_s=time.monotonic(),
            ready=ready,
            restart_delay_s=previous.restart_delay_s if previous else RESTART_DELAY_S,
        )

    def _child_main(self, broker_id: int, client: socket.socket, internal: socket.socket, ready: socket.socket) -> int:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Until there is a loop to stop in good order, SIGTERM just ends this process.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Ctrl-C reaches the whole terminal group; only the supervisor acts on it, and stops brokers in order.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        output = os.open(self._layout.logs / f"broker-{broker_id}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        from syncline.local.broker_process import BrokerProcess

        return BrokerProcess(
            broker_id=broker_id,
            cluster_directory=self._spec.directory,
            log_directory=self._layout.broker_directory(broker_id),
            config=self._spec.config,
            cluster_size=self._spec.brokers,
            client_listener=client,
            internal_listener=internal,
            supervisor_alive_fd=self._alive_reader,
            on_serving=lambda: ready.send(b"1"),
        ).run()

    def _watch(self, wake_reader: int) -> None:
        while not self._stop_signal:
            self._reap()
            self._restart_due()
            waiting = {child.ready: child for child in self._children.values() if child.ready is not None}
            due = [child.restart_at_s for child in self._children.values() if child.restart_at_s is not None]
            timeout_s = max(0.0, min(due) - time.monotonic()) if due else None
            sources: list[int | socket.socket] = [wake_reader, *waiting]
            for source in select.select(sources, [], [], timeout_s)[0]:
                if isinstance(source, socket.socket):
                    self._note_serving(waiting[source])
                else:
                    with contextlib.suppress(BlockingIOError):
                        os.read(source, 4096)

    def _note_serving(self, child: Child) -> None:
        assert child.ready is not None
        try:
            child.serving = child.ready.recv(1) == b"1"
        except OSError:
            child.serving = False
        child.ready.close()
        child.ready = None
        if child.serving and all(each.serving for each in self._children.values()):
            self._write_state()

    def _write_state(self) -> None:
        running = RunningCluster(
            supervisor_pid=os.getpid(),
            bootstrap=",".join(f"{HOST}:{child.port}" for child in self._children.values()),
            broker_pids={child.broker_id: child.pid for child in self._children.values()},
            client_ports={child.broker_id: child.port for child in self._children.values()},
            started_at_ms=time.time_ns() // 1_000_000,
        )
        self._layout.write_running(running)
        if not self._announced:
            self._announced = True
            self._announce(running)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for child in self._children.values():
                if child.pid == pid:
                    self._child_died(child, os.waitstatus_to_exitcode(status))

    def _child_died(self, child: Child, exit_code: int) -> None:
        child.serving = False
        if child.ready is not None:
            child.ready.close()
            child.ready = None
        reason = signal.Signals(-exit_code).name if exit_code < 0 else f"exit code {exit_code}"
        log.warning("broker %s (process %s) ended with %s", child.broker_id, child.pid, reason)
        output = self._layout.logs / f"broker-{child.broker_id}.log"
        if not self._announced and exit_code > 0:
            raise LocalClusterError(f"broker {child.broker_id} could not start; see {output}:\n{last_lines(output)}")
        if not self._spec.restart:
            return
        now_s = time.monotonic()
        stable = now_s - child.started_at_s >= STABLE_AFTER_S
        child.restart_delay_s = RESTART_DELAY_S if stable else min(child.restart_delay_s * 2, RESTART_DELAY_S_MAX)
        child.restart_at_s = now_s + child.restart_delay_s

    def _restart_due(self) -> None:
        now_s = time.monotonic()
        for child in list(self._children.values()):
            if child.restart_at_s is None or child.restart_at_s > now_s:
                continue
            try:
                client, internal = listen(child.port), listen(0)
            except LocalClusterError as error:
                log.warning("broker %s cannot be started again yet: %s", child.broker_id, error)
                child.restart_at_s = now_s + RESTART_DELAY_S_MAX
                continue
            self._fork(child.broker_id, {child.broker_id: client}, {child.broker_id: internal})
            client.close()
            internal.close()

    def _stop_children(self) -> None:
        """SIGTERM to all (controlled shutdown), SIGKILL to what is left after the time-out."""
        alive = {child.pid for child in self._children.values() if child.restart_at_s is None and self._is_child(child)}
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
                # A stopped process cannot act on SIGTERM.
                os.kill(pid, signal.SIGCONT)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while alive and time.monotonic() < deadline_s:
            alive = {pid for pid in alive if not exited(pid)}
            time.sleep(0.005)
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)

    @staticmethod
    def _is_child(child: Child) -> bool:
        return not exited(child.pid)


def exited(pid: int) -> bool:
    """Return whether this child has ended; it is reaped if so."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def preload() -> None:
    """Import what brokers need, once, before they are forked; the schemas of what is said first, too."""
    import sqlite3  # noqa: F401

    import syncline.local.broker_process  # noqa: F401
    from syncline.wire.api import ApiKey
    from syncline.wire.codec import preload as preload_schemas

    preload_schemas(((ApiKey.BROKER_REGISTRATION, 4), (ApiKey.BROKER_HEARTBEAT, 1), (ApiKey.CREATE_TOPICS, 7)))


def last_lines(file: Path, count: int = 5) -> str:
    """Return the end of a log file, for an error message."""
    try:
        return "\n".join("  " + line for line in file.read_text(errors="replace").splitlines()[-count:])
    except OSError:
        return "  (no log)"


def run_detached(spec: ClusterSpec, ready_file: Path | None) -> RunningCluster:
    """Start a supervisor that outlives this process; return once the cluster serves."""
    layout = Layout(spec.directory)
    layout.create()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        _run_detached_supervisor(spec, layout, ready_file, writer)
    os.close(writer)
    os.waitpid(pid, 0)
    with os.fdopen(reader) as answers:
        line = answers.readline()
    if not line:
        raise LocalClusterError(f"the cluster did not start; see {layout.logs / 'supervisor.log'}")
    answer = json.loads(line)
    if "error" in answer:
        raise LocalClusterError(answer["error"])
    running = layout.running()
    if running is None:
        raise LocalClusterError(f"the cluster stopped right after its start; see {layout.logs / 'supervisor.log'}")
    return running


def _run_detached_supervisor(spec: ClusterSpec, layout: Layout, ready_file: Path | None, writer: int) -> None:
    code = 1
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        output = os.open(layout.logs / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

        def announce(running: RunningCluster) -> None:
            if ready_file is not None:
                write_ready_file(ready_file, running)
            os.write(writer, b"{}\n")
            os.close(writer)

        try:
            code = Supervisor(spec, announce).run()
        except LocalClusterError as error:
            log.error("%s", error)
            with contextlib.suppress(OSError):
                os.write(writer, json.dumps({"error": str(error)}).encode() + b"\n")
    except BaseException:  # noqa: BLE001 - this process ends here; its log is to say why
        traceback.print_exc()
    finally:
        os._exit(code)


def write_ready_file(file: Path, running: RunningCluster) -> None:
    """Tell scripts that wait for it where the cluster is: JSON, written atomically."""
    temporary = file.with_suffix(file.suffix + ".tmp")
    temporary.write_text(
        json.dumps(
            {
                "bootstrap": running.bootstrap,
                "supervisor_pid": running.supervisor_pid,
                "broker_pids": running.broker_pids,
            }
        )
        + "\n"
    )
    temporary.replace(file)
