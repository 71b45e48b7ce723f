"""A supervisor without a terminal: a process starts it, waits until the cluster serves, and may end before it.

The two share one channel: the supervisor writes one line of JSON, {} or {"error": ...}. If the starting process closes
its end, it has ended, or does not want the cluster any more.
"""

import contextlib
import json
import logging
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from syncline.local.layout import Layout, LocalClusterError, RunningCluster, write_ready_file
from syncline.local.private_files import FILE_MODE
from syncline.local.supervisor import (
    FAILURE_BYTES_MAX,
    PATIENCE_S,
    STOP_SIGNALS,
    ClusterSpec,
    Supervisor,
    still_starting,
)

log = logging.getLogger("syncline.local")


def run_detached(
    spec: ClusterSpec, ready_file: Path | None, waiting: Callable[[str], object] = lambda _: None
) -> RunningCluster:
    """Start a supervisor that outlives this process; return once the cluster serves.

    If that takes long, `waiting` is called with a sentence. Interrupting the wait stops what was started.
    """
    layout = Layout(spec.directory)
    layout.create()
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        _run_detached_supervisor(spec, layout, ready_file, theirs)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    theirs.close()
    os.waitpid(pid, 0)
    with ours:
        answer = _answer_of(ours, layout, waiting)
    if "error" in answer:
        raise LocalClusterError(answer["error"])
    running = layout.running()
    if running is None:
        raise LocalClusterError(f"the cluster stopped right after its start; see {layout.logs / 'supervisor.log'}")
    return running


def _answer_of(channel: socket.socket, layout: Layout, waiting: Callable[[str], object]) -> dict[str, str]:
    """Return the supervisor's answer, which it sends when the start has succeeded or failed."""
    said = bytearray()
    try:
        while b"\n" not in said:
            if not select.select([channel], [], [], PATIENCE_S)[0]:
                waiting(still_starting(layout, "the cluster"))
                continue
            part = channel.recv(FAILURE_BYTES_MAX)
            if not part:
                return {"error": f"the cluster did not start; see {layout.logs / 'supervisor.log'}"}
            said += part
    except KeyboardInterrupt:
        # The supervisor may have answered, and closed its end, just before.
        with contextlib.suppress(OSError):
            channel.shutdown(socket.SHUT_WR)
        if not select.select([channel], [], [], 0)[0]:
            waiting("stopping the brokers that were started")
        # The end of the channel is the end of the supervisor, or of the start.
        while part := channel.recv(FAILURE_BYTES_MAX):
            said += part
        if b"\n" not in said:
            raise
    # Nothing keeps the command, which ends soon, from reporting how the start went: a cluster that is up stays up.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer: dict[str, str] = json.loads(said)
    return answer


def _run_detached_supervisor(
    spec: ClusterSpec, layout: Layout, ready_file: Path | None, channel: socket.socket
) -> None:
    code = 1
    try:
        try:
            _let_go_of_the_terminal(layout.logs / "supervisor.log")
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

            def announce(running: RunningCluster) -> None:
                if ready_file is not None:
                    write_ready_file(ready_file, running)
                _answer(channel, {})
                channel.close()

            code = Supervisor(spec, announce, asked_by=channel).run()
        except LocalClusterError as error:
            log.error("%s", error)
            _answer(channel, {"error": str(error)})
        except Exception as error:
            log.exception("internal error")
            log_file = layout.logs / "supervisor.log"
            _answer(channel, {"error": f"internal error: {error!r}; the details are in {log_file}"})
    except BaseException:  # noqa: BLE001 - this process ends here; its log must show why
        traceback.print_exc()
    finally:
        os._exit(code)


def _answer(channel: socket.socket, answer: Mapping[str, str]) -> None:
    with contextlib.suppress(OSError):
        channel.sendall(json.dumps(answer).encode() + b"\n")


def _let_go_of_the_terminal(log_file: Path) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    try:
        output = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
    except OSError as error:
        raise LocalClusterError(f"cannot write {log_file}: {error.strerror}.") from None
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
