"""The supervisor: forks the brokers, watches them, restarts those that died, and stops them.

It imports everything that a broker needs and forks before any thread or event
loop exists: a broker runs within milliseconds and shares the pages of its code
with the others. The supervisor keeps no listening socket while brokers run, so
that a dead broker's port refuses connections; a refusal is how other brokers
know that its process has ended.

Two channels connect a broker to its supervisor. Into one the broker writes a byte
when it serves, or the reason why it cannot. It only reads the other, whose end
means that the supervisor is dead. A detached supervisor has the same kind of
channel to the process that started it (`detached`): if that process ends before
the cluster is up, the supervisor stops.
"""

import contextlib
import gc
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
from typing import TYPE_CHECKING

from syncline.local.child import RESTART_DELAY_S_MAX, Child
from syncline.local.layout import Layout, LocalClusterError, RunningCluster
from syncline.local.ports import (
    HOST,
    BetweenBrokers,
    close_all,
    listen,
    listen_all,
    listen_between,
    listen_for_metrics,
    port_of,
)
from syncline.local.preload import preload
from syncline.local.private_files import FILE_MODE, keep_files_private
from syncline.model.immutable import Immutable

if TYPE_CHECKING:
    from syncline.model.broker_config import BrokerConfig

log = logging.getLogger("syncline.local")

STOP_TIMEOUT_S = 10.0
# Wait no longer for a broker that was killed this often while the cluster came up.
KILLED_MAX = 3
# Log a start that takes longer: recovery of large logs takes time.
PATIENCE_S = 5.0
SERVING = b"\x01"
FAILURE_BYTES_MAX = 4096
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClusterSpec(Immutable):
    """The cluster that `up` starts."""

    directory: Path
    # None: as many as ports, if there are several; else as many as last time, or three.
    brokers: int | None = None
    # One port: the first broker's, the others follow. Several: one for each. None: as last time, or from 9092 on.
    ports: tuple[int, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    # The racks of the brokers, in the order of their ids and then from the beginning again; empty: no racks.
    racks: tuple[str, ...] = ()
    restart: bool = True

    @property
    def configured(self) -> dict[str, str]:
        """Return the configurations of all brokers; of racks those of all in turn, with commas between."""
        return {**self.config, **({"broker.rack": ",".join(self.racks)} if self.racks else {})}

    def config_of(self, broker_id: int) -> dict[str, str]:
        """Return the configuration of one broker."""
        if not self.racks:
            return dict(self.config)
        return {**self.config, "broker.rack": self.racks[(broker_id - 1) % len(self.racks)]}


class Supervisor:
    """Runs the brokers of one data directory until a signal stops it."""

    def __init__(
        self, spec: ClusterSpec, announce: Callable[[RunningCluster], None], asked_by: socket.socket | None = None
    ) -> None:
        self._spec = spec
        self._announce = announce
        self._asked_by = asked_by
        self._layout = Layout(spec.directory)
        self._children: dict[int, Child] = {}
        self._broker_count = 0
        self._stop_signal = 0
        self._interrupts = 0
        self._announced = False
        self._state_is_stale = False
        self._patient_until_s = time.monotonic() + PATIENCE_S
        # Brokers hold the reading end; it reports the end of this process.
        self._alive_reader, self._alive_writer = os.pipe()

    def run(self) -> int:
        """Start the brokers, supervise until SIGTERM or SIGINT, stop them; return the exit code."""
        keep_files_private()
        self._layout.create()
        with self._layout.lock():
            try:
                return self._run_locked()
            except OSError as error:
                raise self._layout.unusable(error) from None

    def _run_locked(self) -> int:
        self._broker_count = self._layout.broker_count(self._spec.brokers, ports=len(self._spec.ports))
        broker_ids = list(range(1, self._broker_count + 1))
        config = self._config()
        backlog = config.socket_listen_backlog_size
        listeners = listen_all(broker_ids, self._spec.ports, self._layout.remembered_ports(), backlog=backlog)
        internal = {broker_id: listen_between(0, config) for broker_id in broker_ids}
        metrics = listen_for_metrics(broker_ids, config.metrics_port, self._layout.remembered_metrics_ports())
        self._layout.remember_ports({broker_id: port_of(listener) for broker_id, listener in listeners.items()})
        self._layout.remember_metrics_ports({broker_id: port_of(listener) for broker_id, listener in metrics.items()})
        self._layout.remember_configs(self._spec.configured)
        preload()
        # What was imported stays for good, and brokers share its pages as long as no collection touches them.
        gc.freeze()
        gc.enable()
        for number in STOP_SIGNALS:
            # Under nohup, closing the terminal must not stop the cluster.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        wake_reader, wake_writer = os.pipe()
        os.set_blocking(wake_writer, False)
        os.set_blocking(wake_reader, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        try:
            for broker_id in broker_ids:
                self._fork(broker_id, listeners, internal, metrics)
            close_all(listeners, internal, metrics)
            self._watch(wake_reader)
        finally:
            self._stop_children()
            with contextlib.suppress(OSError):
                self._layout.state_file.unlink()
                self._layout.forget_pauses()
            signal.set_wakeup_fd(-1)
        # A stop before the cluster was up counts as a failed start.
        return 0 if self._announced else 128 + self._stop_signal

    def _config(self) -> "BrokerConfig":
        from syncline.model.broker_config import BrokerConfig

        return BrokerConfig.resolve(self._spec.config)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._stop_signal = number
        self._interrupts += number == signal.SIGINT

    def _fork(
        self,
        broker_id: int,
        listeners: Mapping[int, socket.socket],
        internal: Mapping[int, BetweenBrokers],
        metrics: Mapping[int, socket.socket],
    ) -> None:
        ready, child_ready = socket.socketpair()
        port = port_of(listeners[broker_id])
        sys.stdout.flush()
        sys.stderr.flush()
        # Between fork and the broker's own handlers, this process's handlers would take a signal, and it would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            pid = os.fork()
        except OSError:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            ready.close()
            child_ready.close()
            raise
        if pid != 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        else:
            code = 1
            try:
                ready.close()
                os.close(self._alive_writer)
                signal.set_wakeup_fd(-1)
                close_all(listeners, internal, metrics, but=broker_id)
                for child in self._children.values():
                    if child.ready is not None:
                        child.ready.close()
                if self._asked_by is not None:
                    self._asked_by.close()
                code = self._child_main(
                    broker_id, listeners[broker_id], internal[broker_id], metrics.get(broker_id), child_ready
                )
            except BaseException:  # noqa: BLE001 - this process ends here; its log must show why
                traceback.print_exc()
            finally:
                os._exit(code)
        child_ready.close()
        ready.setblocking(False)
        previous, internal_port, now_s = self._children.get(broker_id), internal[broker_id].port, time.monotonic()
        if previous is not None:
            child = previous.next_process(pid=pid, internal_port=internal_port, ready=ready, now_s=now_s)
        else:
            child = Child(
                broker_id=broker_id,
                pid=pid,
                port=port,
                internal_port=internal_port,
                metrics_port=port_of(metrics[broker_id]) if broker_id in metrics else None,
                started_at_s=now_s,
                ready=ready,
            )
        self._children[broker_id] = child

    def _child_main(
        self,
        broker_id: int,
        client: socket.socket,
        internal: BetweenBrokers,
        metrics: socket.socket | None,
        ready: socket.socket,
    ) -> int:
        logging.getLogger("syncline.local").setLevel(logging.NOTSET)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Until there is a loop that can stop in good order, SIGTERM simply ends this process.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Ctrl-C reaches the whole terminal group; only the supervisor acts on it, and stops the brokers in order.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        try:
            output = os.open(self._log_of(broker_id), os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
        except OSError:
            # The disk has no room for another file: a broker without a log is better than none.
            output = os.open(os.devnull, os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        from syncline.local.broker_process import BrokerProcess

        return BrokerProcess(
            broker_id=broker_id,
            cluster_directory=self._spec.directory,
            log_directory=self._layout.broker_directory(broker_id),
            # A local cluster is for experiments, so faults are allowed.
            config={"fault.injection.enable": "true", **self._spec.config_of(broker_id)},
            cluster_size=self._broker_count,
            client_listener=client,
            internal=internal,
            metrics_listener=metrics,
            supervisor_alive_fd=self._alive_reader,
            on_serving=lambda: ready.send(SERVING),
            on_failed=lambda reason: ready.send(reason.encode()[:FAILURE_BYTES_MAX]),
        ).run()

    def _log_of(self, broker_id: int) -> Path:
        return self._layout.logs / f"broker-{broker_id}.log"

    def _watch(self, wake_reader: int) -> None:
        while not self._stop_signal:
            self._reap()
            self._restart_due()
            self._log_late_brokers()
            if self._state_is_stale:
                self._write_state()
            waiting = {child.ready: child for child in self._children.values() if child.ready is not None}
            sources: list[int | socket.socket] = [wake_reader, *waiting]
            if self._asked_by is not None and not self._announced:
                sources.append(self._asked_by)
            for source in select.select(sources, [], [], self._sleep_s())[0]:
                if source is self._asked_by:
                    # Nothing is ever written to this channel: readable means closed.
                    self._stop_signal = signal.SIGTERM
                elif isinstance(source, socket.socket):
                    self._start_reported(waiting[source])
                else:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake_reader, 4096)

    def _sleep_s(self) -> float | None:
        """Return how long until something is due, None if nothing is due before the next event."""
        due = [child.restart_at_s for child in self._children.values() if child.restart_at_s is not None]
        if not self._announced:
            due.append(self._patient_until_s)
        if self._state_is_stale:
            due.append(time.monotonic() + RESTART_DELAY_S_MAX)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _log_late_brokers(self) -> None:
        if self._announced or time.monotonic() < self._patient_until_s:
            return
        self._patient_until_s = time.monotonic() + 2 * PATIENCE_S
        late = [child.broker_id for child in self._children.values() if not child.serving]
        log.warning("%s", still_starting(self._layout, f"broker {', '.join(map(str, late))}"))

    def _start_reported(self, child: Child) -> None:
        assert child.ready is not None
        report = b""
        with contextlib.suppress(OSError):
            report = child.ready.recv(FAILURE_BYTES_MAX)
        child.ready.close()
        child.ready = None
        child.serving = report == SERVING
        if not child.serving:
            # The process is ending; `_reap` follows.
            child.failure = report.decode(errors="replace")
            return
        child.start_failure = ""
        if self._announced:
            log.warning("broker %s serves again (process %s)", child.broker_id, child.pid)
            self._write_state()
        else:
            self._announce_if_settled()

    def _announce_if_settled(self) -> None:
        """Announce the cluster when each broker serves or has failed to start, and at least one serves."""
        children = self._children.values()
        is_settled = all(each.serving or each.start_failure for each in children)
        if not self._announced and is_settled and any(each.serving for each in children):
            self._write_state()

    def _write_state(self) -> None:
        running = RunningCluster(
            supervisor_pid=os.getpid(),
            bootstrap=",".join(f"{HOST}:{child.port}" for child in self._children.values()),
            broker_pids={child.broker_id: child.pid for child in self._children.values()},
            client_ports={child.broker_id: child.port for child in self._children.values()},
            started_at_ms=time.time_ns() // 1_000_000,
            internal_ports={child.broker_id: child.internal_port for child in self._children.values()},
            metrics_ports={
                child.broker_id: child.metrics_port
                for child in self._children.values()
                if child.metrics_port is not None
            },
            failures={
                child.broker_id: child.start_failure
                for child in self._children.values()
                if child.start_failure and not child.serving
            },
            deaths={child.broker_id: child.deaths for child in self._children.values() if child.deaths is not None},
        )
        try:
            self._layout.write_running(running)
        except OSError as error:
            if not self._announced:
                raise
            # Most likely the disk is full. Serving is more important than being found by `status`.
            if not self._state_is_stale:
                log.warning("cannot write %s: %s", self._layout.state_file, error.strerror)
            self._state_is_stale = True
            return
        self._state_is_stale = False
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
        if child.ready is not None:
            self._start_reported(child)
        # One that served could start: what ended it since, such as its disk, does not concern the others.
        has_served, child.serving = child.serving, False
        how = _how_it_ended(exit_code)
        reason = f"{how}: {child.failure}" if child.failure else how
        if not self._announced and ((exit_code > 0 and not has_served) or not self._spec.restart):
            self._could_not_start(child, exit_code, child.failure or f"it ended with {how}")
            return
        if self._spec.restart:
            child.start_again_later(time.monotonic())
        after = "; it is restarted" if self._spec.restart else ""
        log.warning("broker %s (process %s) ended with %s%s", child.broker_id, child.pid, reason, after)
        if self._announced:
            child.died(reason, time.time_ns() // 1_000_000)
            self._write_state()
        else:
            child.killed_count += 1
            if child.killed_count >= KILLED_MAX:
                again = f"{child.killed_count} times"
                child.start_failure = (
                    f"{reason} ended it {again}" if exit_code < 0 else f"it had served, but ended with {reason} {again}"
                )
                self._give_up_if_none_is_left()
                self._announce_if_settled()

    def _could_not_start(self, child: Child, exit_code: int, why: str) -> None:
        """Go on without a broker whose directory is bad, unless none is left; any other failure concerns them all."""
        from syncline.local.broker_process import DISK_EXIT

        child.start_failure = why
        if exit_code != DISK_EXIT or not self._spec.restart:
            raise LocalClusterError(self._failed_start(child))
        self._give_up_if_none_is_left()
        log.warning(
            "%s. The other brokers continue without it, and it is started again later", self._failed_start(child)
        )
        child.start_again_later(time.monotonic())
        self._announce_if_settled()

    def _give_up_if_none_is_left(self) -> None:
        failed = [each for each in self._children.values() if each.start_failure and not each.serving]
        if len(failed) == len(self._children):
            raise LocalClusterError("; ".join(map(self._failed_start, failed)))

    def _failed_start(self, child: Child) -> str:
        log_path = self._log_of(child.broker_id)
        return f"broker {child.broker_id} could not start: {child.start_failure} (its log: {log_path})"

    def _restart_due(self) -> None:
        now_s = time.monotonic()
        for child in list(self._children.values()):
            if child.restart_at_s is None or child.restart_at_s > now_s:
                continue
            try:
                self._restart(child)
            except (LocalClusterError, OSError) as error:
                log.warning("broker %s cannot be restarted yet: %s", child.broker_id, error)
                child.restart_at_s = now_s + RESTART_DELAY_S_MAX

    def _restart(self, child: Child) -> None:
        broker_id = child.broker_id
        with contextlib.ExitStack() as stack:
            config = self._config()
            client = stack.enter_context(listen(child.port, backlog=config.socket_listen_backlog_size))
            internal = stack.enter_context(contextlib.closing(listen_between(0, config)))
            metrics: dict[int, socket.socket] = {}
            if child.metrics_port is not None:
                metrics = listen_for_metrics([broker_id], 0, {broker_id: child.metrics_port})
                stack.enter_context(metrics[broker_id])
            self._fork(broker_id, {broker_id: client}, {broker_id: internal}, metrics)

    def _stop_children(self) -> None:
        """Send SIGUSR2 (the whole cluster stops) to all brokers, and SIGKILL to those left after the time-out."""
        from syncline.local.broker_process import STOP_WITH_ALL

        alive = {child.pid for child in self._children.values() if child.restart_at_s is None and self._is_child(child)}
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, STOP_WITH_ALL)
                # A paused process cannot act on the signal.
                os.kill(pid, signal.SIGCONT)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        interrupts = max(1, self._interrupts)
        # A second Ctrl-C means: do not wait.
        while alive and time.monotonic() < deadline_s and self._interrupts <= interrupts:
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
    """Return whether this child has ended; if so, reap it."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def still_starting(layout: Layout, who: str) -> str:
    """Return the message about a start that takes long."""
    words = layout.last_words()
    return f"still waiting for {who}; logs are in {layout.logs}{f', the last line: {words}' if words else ''}"


def _how_it_ended(exit_code: int) -> str:
    if exit_code < 0:
        return signal.Signals(-exit_code).name
    return f"exit code {exit_code}" if exit_code else "a clean stop"
