"""Commands as processes that are forked instead of started: a start takes a quarter of a second, a fork milliseconds.

A server process imports the command line once, and for each command it is asked for forks a process, which is one like
any other: with its own standard input, output and error, default signals, an exit code, and an end as the interpreter
makes it. What is left out is the start itself, which other tests look at (`tests/process/test_start_imports.py`, and
all that call `tests.cli.terminal.command`).
"""

import array
import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from typing import IO, NoReturn

REQUEST_BYTES_MAX = 1 << 16
# What a command is given: standard input, output and error, and where its exit code is written.
DESCRIPTORS = 4
# The server imports the command line before the first command.
START_S = 60.0
NUMBER_BYTES = 20


class CommandServer:
    """The server, as tests see it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.forking", str(theirs.fileno())],
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def stop(self) -> None:
        """End the server, which ends when nobody can ask it any more."""
        self._socket.close()
        self._process.wait()

    def run(self, arguments: Sequence[str], given: bytes, within_s: float) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end, as `subprocess.run` does."""
        with contextlib.ExitStack() as open_files:
            files: list[IO[bytes]] = [open_files.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(given)
            files[0].seek(0)
            ended, end = os.pipe()
            open_files.enter_context(os.fdopen(ended, "rb", buffering=0))
            with os.fdopen(end, "wb", buffering=0) as their_end:
                fds = array.array("i", [*(file.fileno() for file in files), their_end.fileno()])
                request = json.dumps(arguments).encode()
                assert len(request) <= REQUEST_BYTES_MAX, "a longer command line than any test has"
                self._socket.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            code = _said(ended, within_s, arguments)
            for file in files:
                file.seek(0)
            return subprocess.CompletedProcess(list(arguments), code, files[1].read(), files[2].read())


@cache
def server(environment: tuple[tuple[str, str], ...]) -> CommandServer:
    """Return the server of this process, which lives as long as this."""
    started = CommandServer(dict(environment))
    atexit.register(started.stop)
    return started


def _said(ended: int, within_s: float, arguments: Sequence[str]) -> int:
    """Return the exit code of a command: its process id comes first, so that it can be killed when its time is over."""
    pid = _number(ended, START_S)
    assert pid is not None, f"no process within {START_S} s"
    code = _number(ended, within_s)
    if code is None:
        os.kill(pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(list(arguments), within_s)
    return code


def _number(ended: int, within_s: float) -> int | None:
    """Return the next number that is written, if it comes in time."""
    readable, _, _ = select.select([ended], [], [], within_s)
    if not readable:
        return None
    said = os.read(ended, NUMBER_BYTES)
    assert said, "the server of commands has died"
    return int(said)


def _serve(asked: socket.socket) -> None:
    """Fork a process for each command; return in the process of a command, with its arguments in `sys.argv`."""
    import confluent_kafka  # noqa: F401 - commands that speak to brokers import it

    from syncline.cli import commands

    commands.command_line()
    # No process looks for garbage among what all have in common.
    gc.freeze()
    while True:
        request, fds, _, _ = socket.recv_fds(asked, REQUEST_BYTES_MAX, DESCRIPTORS)
        if not request:
            sys.exit()
        if os.fork() == 0:
            asked.close()
            if _is_the_command(fds):
                sys.argv[1:] = json.loads(request)
                return
        for fd in fds:
            os.close(fd)
        # Of those that have ended none is left.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _is_the_command(fds: Sequence[int]) -> bool:
    """Fork again, and return True as the command; the other process says how it ended, and ends."""
    *streams, said = fds
    pid = os.fork()
    if pid:
        _tell_end(pid, streams, said)
    os.close(said)
    for target, fd in enumerate(streams):
        os.dup2(fd, target)
        os.close(fd)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace", buffering=1)
    return True


def _tell_end(pid: int, streams: Sequence[int], said: int) -> NoReturn:
    """Wait for the command."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for fd in streams:
        os.close(fd)
    # Nobody listens any more when the command took too long.
    with contextlib.suppress(BrokenPipeError):
        os.write(said, b"%*d" % (NUMBER_BYTES, pid))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(said, b"%*d" % (NUMBER_BYTES, code))
    os._exit(0)


def _main() -> None:
    sys.argv[0] = "syncline"
    number = int(sys.argv.pop())
    _serve(socket.socket(fileno=number))
    from syncline.cli.main import main

    main()


if __name__ == "__main__":
    _main()
