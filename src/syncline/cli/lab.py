"""`lab`: histories of replication played on real brokers, step by step, each with a picture."""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from syncline.cli.signals import interruptible
from syncline.local.layout import LocalClusterError

app = typer.Typer(no_args_is_help=True, help="Run replication scenarios on real brokers, and draw them.")

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


@app.command("list")
def list_scenarios(as_json: JsonOption = False) -> None:
    """Show the scenarios and their modes."""
    from syncline.lab import lag_table
    from syncline.lab.run import NAMES, scenario_of

    rows = [(each.name, each.title, dict(each.modes)) for each in map(scenario_of, NAMES)]
    rows.append((lag_table.NAME, lag_table.TITLE, lag_table.MODES))
    if as_json:
        print(json.dumps([{"name": name, "title": title, "modes": modes} for name, title, modes in rows]))
        return
    for name, title, modes in rows:
        print(f"{name}: {title}")
        width = max(map(len, modes))
        for mode, what in modes.items():
            print(f"    {mode:<{width}}  {what}")


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Name of the scenario; `syncline lab list` shows all scenarios.")],
    mode: Annotated[
        list[str] | None,
        typer.Option("--mode", help="Run only this mode; repeatable (default: all modes, one after the other)."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the picture to this file (default: lab-NAME.svg, or lab-NAME.html for a page)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a scenario on its own brokers, and draw what happened.

    The exit code is 1 if the outcome is not the expected one.
    """
    from syncline.lab import lag_table
    from syncline.lab.picture import draw
    from syncline.lab.run import as_json as json_of
    from syncline.lab.run import modes_of, scenario_of
    from syncline.lab.run import run as play

    if name == lag_table.NAME:
        _lag_table(_writable(output or Path(f"lab-{name}.svg")), modes_of(name, lag_table.MODES, mode), as_json=as_json)
        return
    scenario = scenario_of(name)
    modes = modes_of(name, scenario.modes, mode)
    picture = _writable(output or Path(f"lab-{name}.{scenario.suffix}"))
    interruptible()
    for end in (signal.SIGTERM, signal.SIGHUP):
        # A closed terminal cleans up as Ctrl-C does.
        if signal.getsignal(end) is signal.SIG_DFL:
            signal.signal(end, signal.default_int_handler)

    def say(text: str) -> None:
        print(text, file=sys.stderr if as_json else sys.stdout, flush=True)

    say(f"{scenario.title}. {scenario.about}")
    runs = []
    for each in modes:
        say("")
        runs.append(play(scenario, each, say))
    is_good = all(story.outcome.is_expected for story in runs)
    if scenario.page is not None and is_good:
        _write(picture, scenario.page(runs))
    else:
        # A page of its own is about what must happen; of anything else the logs tell more.
        picture = picture if scenario.page is None else picture.with_suffix(".svg")
        _write(picture, draw(scenario, runs))
    if as_json:
        fields = {"as_expected": is_good, "picture": str(picture.absolute()), "runs": [json_of(each) for each in runs]}
        print(json.dumps(fields))
    else:
        say(f"\npicture: {picture.absolute()}")
    if not is_good:
        raise SystemExit(1)


def _writable(picture: Path) -> Path:
    if not picture.absolute().parent.is_dir():
        raise LocalClusterError(f"cannot write {picture}: there is no directory {picture.absolute().parent}.")
    return picture


def _lag_table(picture: Path, modes: list[str], *, as_json: bool) -> None:
    from syncline.lab import lag_table

    _write(picture, lag_table.draw(modes))
    if as_json:
        print(json.dumps({"as_expected": True, "picture": str(picture.absolute()), "rows": lag_table.as_json(modes)}))
        return
    print(f"{lag_table.TITLE}. {lag_table.ABOUT}\n")
    for line in lag_table.table(modes):
        print(line)
    print(f"\npicture: {picture.absolute()}")


def _write(picture: Path, drawing: str) -> None:
    try:
        picture.write_text(drawing)
    except OSError as error:
        raise LocalClusterError(f"cannot write {picture}: {error.strerror}.") from None
