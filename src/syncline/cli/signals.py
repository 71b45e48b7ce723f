"""Signals that end a command which has something to put back first.

Other commands are ended by the signal's default action (`syncline.cli.main`). One that has changed the cluster for a
while, or is about to change it in several requests, must undo that; one in a group must leave it. Here the signals
raise KeyboardInterrupt, so that `finally` and `except BaseException` run, and the command ends with the exit code that
a shell shows for the signal.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHELL_CODE: Final = 128


def interruptible() -> None:
    """Make Ctrl-C raise KeyboardInterrupt from here on: the command has something to clean up."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def interrupts() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt inside; it leaves as `typer.Exit`. Main thread only."""
    caught: list[int] = []

    def raise_it(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        raise KeyboardInterrupt

    # What is ignored stays ignored, as SIGHUP under `nohup`.
    before = {each: signal.getsignal(each) for each in _ENDING if signal.getsignal(each) is not signal.SIG_IGN}
    try:
        for each in before:
            signal.signal(each, raise_it)
        yield
    except KeyboardInterrupt:
        # `up` uses this module, too, and must not load typer.
        import typer

        raise typer.Exit(_SHELL_CODE + (caught[-1] if caught else signal.SIGINT)) from None
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let the signals that end a command wait until the block has ended: it puts something back."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
