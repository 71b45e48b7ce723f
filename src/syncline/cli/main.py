"""The `syncline` command: its sub-commands, and how errors reach a person.

An expected failure is one sentence on standard error and exit code 1; wrong
usage is 2, as everywhere. A traceback is our bug: it goes to a file, and the
sentence names it.
"""

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
            from syncline.cli.commands import app

            app()
    except (LocalClusterError, ConfigError) as error:
        print(f"syncline: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        # Whoever read our output has enough (`| head`); that is no failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except Exception as error:  # noqa: BLE001 - the last line of defence before a person sees a traceback
        _report(error)
        raise SystemExit(1) from None


def _report(error: Exception) -> None:
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="syncline-error-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    print(f"syncline: internal error: {error!r}; the details are in {file.name}", file=sys.stderr)
