"""`check`: play every order of events on a model of replication; print the shortest history that breaks a property."""

import json
import sys
import time
from typing import Annotated, Any

import typer
from click.core import ParameterSource

from syncline.check.bounds import REPLICAS_MAX, Bounds, Property, Rules, Truncation
from syncline.check.model import Model
from syncline.check.search import Outcome, search
from syncline.check.story import MEANINGS, as_data, tell
from syncline.check.table import LARGE_TABLE, TABLE, Row
from syncline.cli.screen import print_table
from syncline.cli.target import JsonOption, counted
from syncline.local.layout import LocalClusterError

STATES_MAX = 5_000_000
COUNT_MAX = 9


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(short_help="Check the replication protocol exhaustively, within bounds.")(check)


def check(
    context: typer.Context,
    replicas: Annotated[int, typer.Option("--replicas", help=f"Number of replicas, 2 to {REPLICAS_MAX}.")] = 2,
    records: Annotated[int, typer.Option("--records", help="Number of records that producers write.")] = 2,
    epochs: Annotated[int, typer.Option("--epochs", help="Number of leader epochs: one more than leader changes.")] = 2,
    crashes: Annotated[int, typer.Option("--crashes", help="Number of crashes that keep the log.")] = 2,
    power_cuts: Annotated[
        int, typer.Option("--power-cuts", help="Number of crashes that may also lose any number of the last records.")
    ] = 0,
    truncation: Annotated[
        str, typer.Option("--truncation", metavar="MODE", help=f"One of {', '.join(Truncation)}.")
    ] = Truncation.EPOCH_FETCH.value,
    min_isr: Annotated[int, typer.Option("--min-isr", help="Commit only with this many in-sync replicas.")] = 1,
    fence: Annotated[bool, typer.Option(help="Refuse requests with another leader epoch (KIP-320).")] = True,
    epoch_start: Annotated[
        bool, typer.Option(help="Admit no follower to the ISR below the start of the epoch (KAFKA-7128).")
    ] = True,
    catch_up: Annotated[bool, typer.Option(help="Restarted replicas wait for the newest metadata.")] = True,
    transfers: Annotated[bool, typer.Option(help="Leadership may also move without a failure.")] = True,
    leader_crashes_only: Annotated[bool, typer.Option("--leader-crashes-only", help="Only leaders crash.")] = False,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="ID", help=f"Check only this property ({', '.join(Property)}); repeatable."),
    ] = None,
    states_max: Annotated[
        int, typer.Option("--states-max", help="Give up after this many states (200 to 500 bytes each).")
    ] = STATES_MAX,
    table: Annotated[
        bool, typer.Option("--table", help="Run the documented checks instead (under ten seconds).")
    ] = False,
    large: Annotated[
        bool, typer.Option("--large", help="With --table: also run the checks with three replicas (minutes).")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the replication protocol: play every order of events, within bounds, on an abstract model.

    Prints the shortest history that breaks a property (S1, S2, S3, S6: docs/model-check.md), or that there is none.
    The exit code is 1 if a property is violated; with --table, if a check does not end as documented.
    """
    if table:
        _refuse_others(context)
        _run_table(TABLE + LARGE_TABLE if large else TABLE, as_json=as_json)
        return
    if large:
        raise LocalClusterError("--large adds rows to --table: give both.")
    bounds = Bounds(
        _within("--replicas", replicas, 2, REPLICAS_MAX),
        _within("--records", records, 0, COUNT_MAX),
        _within("--epochs", epochs, 1, COUNT_MAX),
        _within("--crashes", crashes, 0, COUNT_MAX),
        _within("--power-cuts", power_cuts, 0, COUNT_MAX),
    )
    rules = Rules(
        truncation=_truncation(truncation),
        fence=fence,
        epoch_start=epoch_start,
        catch_up=catch_up,
        transfers=transfers,
        leader_crashes_only=leader_crashes_only,
        isr_size_min=_within("--min-isr", min_isr, 1, replicas),
        properties=_properties(properties),
    )
    model = Model(bounds, rules)
    started_s = time.monotonic()
    outcome = search(model, states_max=_within("--states-max", states_max, 1, None), report=_progress(""))
    _end_progress()
    took_s = time.monotonic() - started_s
    if as_json:
        print(json.dumps({**_data(outcome, took_s), "history": as_data(model.initial(), outcome.history)}))
    else:
        for line in tell(model.initial(), outcome.history):
            print(line)
        print(_verdict(outcome, took_s))
    if outcome.violated is not None:
        raise typer.Exit(1)


def _refuse_others(context: typer.Context) -> None:
    """Refuse options that do not apply to the documented checks."""
    useless = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name is not None
        and parameter.name not in {"table", "large", "as_json"}
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]
    if useless:
        raise LocalClusterError(f"--table has its own bounds and rules: leave out {', '.join(useless)}.")


def _run_table(rows: tuple[Row, ...], *, as_json: bool) -> None:
    cells = []
    data = []
    for row in rows:
        started_s = time.monotonic()
        outcome = search(Model(row.bounds, row.rules), report=_progress(f"{row.name}: "))
        _end_progress()
        took_s = time.monotonic() - started_s
        as_documented = (outcome.violated, outcome.depth) == (row.violated, row.depth)
        data.append({"name": row.name, **_data(outcome, took_s), "as_documented": as_documented, "says": row.says})
        cells.append(
            [
                row.name,
                "clean" if outcome.violated is None else outcome.violated.value,
                outcome.depth,
                f"{outcome.states:,}",
                f"{outcome.transitions:,}",
                f"{took_s:.1f} s",
                row.says if as_documented else f"NOT as documented: {row.violated or 'clean'}, depth {row.depth}",
            ]
        )
    if as_json:
        print(json.dumps(data))
    else:
        print_table(["CHECK", "VERDICT", "DEPTH", "STATES", "TRANSITIONS", "TIME", "WHAT IT SAYS"], cells)
    if not all(each["as_documented"] for each in data):
        raise typer.Exit(1)


def _data(outcome: Outcome, took_s: float) -> dict[str, Any]:
    return {
        "violated": outcome.violated,
        "meaning": MEANINGS[outcome.violated] if outcome.violated is not None else None,
        "complete": outcome.is_complete,
        "depth": outcome.depth,
        "states": outcome.states,
        "transitions": outcome.transitions,
        "seconds": round(took_s, 3),
    }


def _verdict(outcome: Outcome, took_s: float) -> str:
    seen = f"{counted(outcome.states, 'state')}, {counted(outcome.transitions, 'transition')}, {took_s:.1f} s"
    if outcome.violated is not None:
        return f"No history shorter than these {counted(outcome.depth, 'step')} breaks a property ({seen})."
    if not outcome.is_complete:
        return (
            f"No property is violated up to {counted(outcome.depth, 'step')}; then --states-max was reached ({seen})."
        )
    return (
        "Clean: no history within these bounds breaks a property; "
        f"every state is reached within {counted(outcome.depth, 'step')} ({seen})."
    )


def _progress(prefix: str) -> Any:
    if not sys.stderr.isatty():
        return None

    def show(states: int, transitions: int, depth: int) -> None:
        print(f"\r{prefix}depth {depth}, {states:,} states, {transitions:,} transitions", end="", file=sys.stderr)

    return show


def _end_progress() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _within(option: str, value: int, least: int, most: int | None) -> int:
    if value < least or (most is not None and value > most):
        allowed = f"at least {least}" if most is None else f"{least} to {most}"
        raise LocalClusterError(f"{option} takes {allowed}, not {value}.")
    return value


def _truncation(text: str) -> Truncation:
    try:
        return Truncation(text)
    except ValueError:
        raise LocalClusterError(f"--truncation takes one of {', '.join(Truncation)}, not {text!r}.") from None


def _properties(names: list[str] | None) -> frozenset[Property]:
    try:
        return frozenset(Property(each.upper()) for each in names or Property)
    except ValueError:
        raise LocalClusterError(
            f"--property takes {', '.join(Property)}, not {' '.join(map(repr, names or ()))}."
        ) from None
