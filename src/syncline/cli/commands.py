"""All sub-commands, on one typer application.

click 8.5 has its own help texts for arguments: it drops the text that typer set,
and prints a section that typer also prints. This module restores the text and omits
click's section. Both suggest a command for an unknown one; where click does, typer
is kept from it.
"""

from typing import Annotated, Any, get_type_hints

import click
import typer

from syncline import __version__
from syncline.cli import (
    cache,
    check,
    cluster,
    configs,
    consume,
    fault,
    groups,
    isr,
    lab,
    pipeline,
    produce,
    topics,
    why,
)
from syncline.cli.demo import command as demo
from syncline.cli.lag import command as lag
from syncline.cli.reassign import command as reassign
from syncline.cli.reassign import plan as reassign_plan
from syncline.cli.reassign import report as reassign_report
from syncline.cli.reassign import status as reassign_status
from syncline.cli.reassign import throttle
from syncline.model.compiled import is_compiled

app = typer.Typer(
    name="syncline",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"syncline {__version__}{' (compiled)' if is_compiled() else ''}")
        raise typer.Exit


@app.callback()
def syncline(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A Kafka-compatible replicated log whose replication you can see, prove and tune.

    Begin with `syncline up`; `syncline COMMAND --help` explains each command.
    """


cluster.register(app)
produce.register(app)
consume.register(app)
demo.register(app)
why.register(app)
isr.register(app)
lag.register(app)
cache.register(app)
check.register(app)
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(configs.app, name="configs")
app.add_typer(fault.app, name="fault")
app.add_typer(reassign.app, name="reassign")
reassign_plan.register(reassign.app)
reassign_status.register(reassign.app)
reassign_report.register(reassign.app)
app.add_typer(throttle.app, name="throttle")
app.add_typer(lab.app, name="lab")
app.add_typer(pipeline.app, name="pipeline")


def command_line() -> Any:
    """Return the whole command line, ready to be called."""
    command = typer.main.get_command(app)
    _restore_argument_help(command)
    if hasattr(click.exceptions, "NoSuchCommand"):
        _suggest_once(command)
    return command


def _suggest_once(command: Any) -> None:
    """Leave suggestions to click, which adds its own to those of typer."""
    command.suggest_commands = False
    for sub_command in getattr(command, "commands", {}).values():
        _suggest_once(sub_command)


def _restore_argument_help(command: Any) -> None:
    for sub_command in getattr(command, "commands", {}).values():
        _restore_argument_help(sub_command)
    lacking = [each for each in command.params if each.param_type_name == "argument" and not each.help]
    if not lacking:
        return
    command.format_arguments = lambda *_: None
    hints = get_type_hints(command.callback.__wrapped__, include_extras=True)
    for parameter in lacking:
        parameter.help = next(
            (note.help for note in getattr(hints[parameter.name], "__metadata__", ()) if hasattr(note, "help")), None
        )
