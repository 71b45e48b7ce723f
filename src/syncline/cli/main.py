"""The `syncline` command: its sub-commands, and how errors reach a person.

An expected failure is one sentence on standard error and exit code 1; wrong
usage is 2, as everywhere. A traceback is our bug: it goes to a file, and the
sentence names it.

Ctrl-C ends a command at once and silently, by the signal's own default: most
commands have nothing to put in order. Those that do (`consume`, `produce`,
`demo`, the supervisor, brokers) say so with `interruptible` or by a handler of
their own. Until then a KeyboardInterrupt could come up in the middle of an
import, where nobody would catch it.
"""

# The module behind `signal`: it is there at once, and `signal` takes milliseconds in which Ctrl-C would be a traceback.
import _signal  # type: ignore[import-not-found]

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import os
import sys

from syncline.local.layout import LocalClusterError
from syncline.model.config_types import ConfigError


def main() -> None:
    """Run the command line and exit."""
    try:
        if sys.argv[1:2] == ["up"]:
            from syncline.cli import up

            up.run(sys.argv[2:])
        else:
            from syncline.cli.commands import command_line

            command_line()(prog_name="syncline")
    except (LocalClusterError, ConfigError) as error:
        print(f"syncline: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        # Whoever read our output has enough (`| head`): there is nobody to say it to.
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
        where = "there was no room for the details"
    print(f"syncline: internal error: {error!r}; {where}", file=sys.stderr)
