"""The `syncline` command: its sub-commands, and how it prints errors.

An expected failure prints one sentence on standard error and exits with 1; wrong
usage exits with 2, as usual. A traceback is our bug: it goes to a file, and the
sentence names the file.

Ctrl-C ends a command at once and silently, by the signal's default action: most
commands have nothing to clean up. Those that do (`consume`, `produce`, `demo`,
the supervisor, brokers) call `interruptible` or install a handler. Before that, a
KeyboardInterrupt could occur in the middle of an import, where no code catches
it.
"""

# The module behind `signal`: importing `signal` takes milliseconds in which Ctrl-C would print a traceback.
import _signal  # type: ignore[import-not-found]

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

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


def main() -> None:
    """Run the command line and exit."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Where a terminal's encoding lacks a character, its escape is shown.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if sys.argv[1:2] == ["up"]:
            from syncline.cli import up

            up.run(sys.argv[2:])
        else:
            from syncline.cli.commands import command_line

            command_line()(prog_name="syncline")
    except (LocalClusterError, ConfigError) as error:
        print("\n".join(map(printable, f"syncline: {error}".split("\n"))), file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        # The reader of our output has closed it (`| head`), so a message would reach no one.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except Exception as error:  # noqa: BLE001 - the last line of defence before a person sees a traceback
        _report(error)
        raise SystemExit(1) from None


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
