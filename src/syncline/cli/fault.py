"""`fault`: break a cluster on this machine on purpose, and see what happens.

The same from Python: `syncline.local.faults`.
"""

import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from syncline.cli.screen import print_table, say
from syncline.cli.target import DataOption, JsonOption, counted, nobody_answers
from syncline.cli.times import parse_span_ms
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.faults import Fault, Faults
from syncline.local.layout import LocalClusterError
from syncline.node.faults.table import KINDS, OPTIONS, FaultOptions, Form

app = typer.Typer(no_args_is_help=True, help="Break a local cluster on purpose.")

# How a broker begins the refusal of one option.
_FIELD: Final = re.compile(r"\A'([a-z_]+)'")
_FLAGS: Final = {option.field: option.flag for option in OPTIONS.values()}

KindArgument = Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}.")]
ID_HELP: Final = "Id of the fault, as `syncline fault list` shows it (default: all faults)."


def add(kind: str, data: Path, *, as_json: bool, **given: Any) -> None:
    """Start a fault. It is in effect when the command returns."""
    options: dict[str, Any] = {name: None if value == [] else value for name, value in given.items()}
    options["topic"], options["partition"] = _place(options["topic"], options["partition"])
    for name, option in OPTIONS.items():
        if option.form is Form.TIME:
            options[name] = _seconds(options[name], option.flag)
    try:
        fault = Faults(data).add(kind, **cast("FaultOptions", options))
    except LocalClusterError as error:
        raise LocalClusterError(_by_flags(str(error))) from None
    _warn(fault)
    if as_json:
        print(json.dumps(fault.as_json()))
        return
    whom = f"broker {', '.join(map(str, fault.brokers))}"
    if fault.kind == "kill":
        say(f"killed {whom}")
        return
    lasts = f"for {round(fault.left_s, 1):g} s" if fault.left_s is not None else "until it is cleared"
    what = f" ({fault.what()})" if fault.what() else ""
    say(f"{fault.id}: {fault.kind} at {whom}{what}, {lasts}")


@app.command(name="list")
def list_faults(data: DataOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Show the faults, and how often each has taken effect."""
    faults = Faults(data)
    found = faults.all()
    _check_answered(faults, found)
    if as_json:
        silent = {str(broker): why for broker, why in faults.silent.items()}
        print(json.dumps({"faults": [fault.as_json() for fault in found], "silent": silent}))
        return
    _say_who_is_silent(faults)
    if not found:
        say("no faults")
        return
    print_table(
        ["ID", "KIND", "BROKERS", "WHAT", "TRIGGER", "SEEN", "HITS", "STATE"],
        [
            [
                fault.id,
                fault.kind,
                ",".join(map(str, fault.brokers)),
                fault.what() or "-",
                next(iter(fault.rows.values()))["trigger"],
                row["seen"],
                row["hits"],
                f"{row['left_s']:.1f} s left" if row["left_s"] is not None else row["state"],
            ]
            for fault in found
            for row in [fault.as_json()]
        ],
    )


@app.command()
def clear(
    fault_id: Annotated[str | None, typer.Argument(metavar="[ID]", help=ID_HELP)] = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """End a fault, or all of them."""
    faults = Faults(data)
    cleared = faults.clear(fault_id)
    _check_answered(faults, cleared)
    if as_json:
        silent = {str(broker): why for broker, why in faults.silent.items()}
        print(json.dumps({"cleared": [fault.as_json() for fault in cleared], "silent": silent}))
    else:
        for fault in cleared:
            say(f"{fault.id}: {fault.kind} cleared; it took effect {counted(fault.as_json()['hits'], 'time')}")
        if not cleared and not faults.silent:
            say("no faults")
        _say_who_is_silent(faults)
    if faults.silent:
        who = counted(len(faults.silent), "broker")
        print(f"syncline: {who} did not answer and may still have a fault: run the command again.", file=sys.stderr)
        raise typer.Exit(1)


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return `command` with the signature that typer reads: one parameter for each option of the table."""
    parameters = [inspect.Parameter("kind", inspect.Parameter.KEYWORD_ONLY, annotation=KindArgument)]
    for name, option in OPTIONS.items():
        flags = (option.flag, option.short_flag) if option.short_flag else (option.flag,)
        declared = typer.Option(*flags, metavar=option.metavar, help=option.help)
        hint: Any = Annotated[str | None, declared]
        if option.form is Form.TEXTS:
            hint = Annotated[list[str] | None, declared]
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint))
    for name, hint, default in (("data", DataOption, DEFAULT_DIRECTORY), ("as_json", JsonOption, False)):
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


app.command()(_with_options(add))


def _place(topic: str | None, partition: str | None) -> tuple[str | None, int | None]:
    """Return (topic, partition) from the two options."""
    if partition is None:
        return topic, None
    name, _, number = partition.rpartition(":")
    if not number.isdecimal() or not (name or topic):
        raise LocalClusterError(f"--partition takes TOPIC:NUMBER, such as orders:3, not {partition!r}.")
    if name and topic and name != topic:
        raise LocalClusterError(f"--partition {partition} does not belong to --topic {topic}: leave out one of them.")
    return name or topic, int(number)


def _by_flags(sentence: str) -> str:
    """Return a refusal with the name of the option where a broker names the field of its rule."""
    return _FIELD.sub(lambda match: _FLAGS.get(match[1], match[0]), sentence)


def _seconds(text: str | None, option: str) -> float | None:
    """Return a duration in seconds."""
    if text is None:
        return None
    span_ms = parse_span_ms(text)
    if span_ms is None:
        raise LocalClusterError(f"{option} takes a time with its unit, such as 500ms, 20s or 2m, not {text!r}.")
    return span_ms / 1_000


def _warn(fault: Fault) -> None:
    if fault.remark:
        print(f"syncline: the fault has started, but {fault.remark}", file=sys.stderr)
    if not fault.is_recorded:
        print("syncline: no other broker could write this fault to the journal", file=sys.stderr)


def _check_answered(faults: Faults, found: list[Fault]) -> None:
    """Raise `LocalClusterError` if no broker said which faults it has: "no faults" would not be true."""
    if faults.silent and not faults.answered and not found:
        raise nobody_answers(faults.silent)


def _say_who_is_silent(faults: Faults) -> None:
    for why in faults.silent.values():
        print(f"syncline: {why}", file=sys.stderr)
