"""The `syncline` command: its sub-commands, and how errors reach a person.

An expected failure is one sentence on standard error and exit code 1; wrong
usage is 2, as everywhere. A traceback is our bug: it goes to a file, and the
sentence names it.
"""

import os
import sys
import tempfile
import traceback

import typer

from syncline.cli import cluster, configs, consume, demo, groups, produce, topics
from syncline.local.layout import LocalClusterError
from syncline.model.config_types import ConfigError

app = typer.Typer(
    name="syncline",
    help="A Kafka-compatible replicated log whose replication you can see, prove and tune.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
cluster.register(app)
produce.register(app)
consume.register(app)
demo.register(app)
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(configs.app, name="configs")


def main() -> None:
    """Run the command line and exit."""
    try:
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
        with tempfile.NamedTemporaryFile("w", prefix="syncline-error-", suffix=".txt", delete=False) as file:
            traceback.print_exc(file=file)
        print(f"syncline: internal error: {error!r}; the details are in {file.name}", file=sys.stderr)
        raise SystemExit(1) from None
