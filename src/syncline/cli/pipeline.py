"""`pipeline`: whether this machine can run jobs of Spark that read from a cluster and write to it."""

import json
from typing import Annotated

import typer

from syncline.cli.screen import say
from syncline.cli.target import JsonOption
from syncline.local.layout import LocalClusterError

BROKERS = "kafka.bootstrap.servers"


app = typer.Typer(no_args_is_help=True, help="Prepare Spark jobs.")


@app.command(short_help="Check this machine for anything that would stop a Spark job.")
def doctor(
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", metavar="HOST:PORT", help="Also check the connection to these brokers.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="Option of the Spark source, such as kafka.security.protocol; repeatable.",
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Start the Spark session on this master (default: local[*])."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not start a Spark session.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check for anything that would stop a Spark job: Python, packages, Java, workers, addresses and a real task.

    The exit code is 1 if a check fails.
    """
    try:
        from syncline.pipeline.jobs.doctor import State, examine
    except ImportError as error:
        raise LocalClusterError(
            f"The pipeline is not installed ({error}). Install it with: pip install 'syncline[spark]'"
        ) from None
    options = options_of(bootstrap, option or [])
    findings = []
    for finding in examine(options=options, master=master, with_spark=not quick):
        findings.append(finding)
        if not as_json:
            say(f"{finding.state.value.upper():8} {finding.subject:11} {finding.found}")
            if finding.advice:
                say(f"{'':20} -> {finding.advice}")
    if as_json:
        print(json.dumps([each._asdict() for each in findings]))
    if any(each.state is State.FAILED for each in findings):
        raise typer.Exit(1)


def options_of(bootstrap: str | None, written: list[str]) -> dict[str, str]:
    """Return the options of the source; `LocalClusterError` for one that is none."""
    options = {} if bootstrap is None else {BROKERS: bootstrap}
    for each in written:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise LocalClusterError(f"--option takes NAME=VALUE, not {each!r}.")
        options[name] = value
    if options and not {BROKERS, "bootstrap"} & options.keys():
        raise LocalClusterError("--option applies to a connection to brokers: add --bootstrap HOST:PORT.")
    return options
