"""The `syncline` command: its sub-commands, and how it prints errors.

An expected failure prints one sentence on standard error and exits with 1; wrong
usage exits with 2, as usual. A traceback is our bug: it goes to a file, and the
sentence names the file.

Ctrl-C ends a command at once and silently, by the signal's default action: most
commands have nothing to clean up. Those that do (`consume`, `produce`, `demo`,
the supervisor, brokers) use `syncline.cli.signals` or install a handler. Before that, a
KeyboardInterrupt could occur in the middle of an import, where no code catches
it.
"""

# The module behind `signal`: importing `signal` takes milliseconds in which Ctrl-C would print a traceback.
import _signal  # type: ignore[import-not-found]

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import errno
import io
import os
import sys

from syncline.local.spared_modules import spared_modules

if sys.argv[1:2] == ["up"]:
    with spared_modules():
        import dataclasses  # noqa: F401
        import logging  # noqa: F401
        import pathlib  # noqa: F401

from syncline.local.layout import LocalClusterError
from syncline.model.config_types import ConfigError
from syncline.model.shown_names import printable

# What a full disk answers; the trouble is the user's to end, and no bug of ours.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main() -> None:
    """Run the command line and exit."""
    if sys.stdout is None:
        # The shell closed it (`>&-`): write to nowhere.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Where a terminal's encoding lacks a character, its escape is shown.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            _run()
            sys.stdout.flush()
        except SystemExit:
            # What waits to be written goes now: Python would do it after this function, with a traceback if that fails.
            sys.stdout.flush()
            raise
    except (LocalClusterError, ConfigError) as error:
        print("\n".join(map(printable, f"syncline: {error}".split("\n"))), file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        # The reader of our output has closed it (`| head`), so a message would reach no one.
        _drop_output()
        raise SystemExit(1) from None
    except OSError as error:
        _drop_output()
        if error.errno in _NO_ROOM:
            what = error.filename or "the output, or a file"
            print(f"syncline: cannot write {what}: {error.strerror}.", file=sys.stderr)
        else:
            _report(error)
        raise SystemExit(1) from None
    except Exception as error:  # noqa: BLE001 - the last line of defence before a person sees a traceback
        _report(error)
        raise SystemExit(1) from None


def _run() -> None:
    if sys.argv[1:2] == ["up"]:
        from syncline.cli import up

        up.run(sys.argv[2:])
    else:
        from syncline.cli.commands import command_line

        command_line()(prog_name="syncline")


def _drop_output() -> None:
    """Let what waits for standard output go nowhere, or Python would try it again at the end, with a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: Exception) -> None:
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile("w", prefix="syncline-error-", suffix=".txt", delete=False) as file:
            traceback.print_exc(file=file)
        where = f"the details are in {file.name}"
    except OSError:
        where = "the details could not be written"
    print(f"syncline: internal error: {error!r}; {where}", file=sys.stderr)
