"""`fault`: break a cluster on this machine on purpose, and see what happens.

All of it is also there from Python: `syncline.local.faults`.
"""

import json
import re
import sys
from typing import Annotated, Final

import typer

from syncline.cli.target import DEFAULT_DIRECTORY, DataOption, JsonOption, counted, print_table
from syncline.local.faults import ALL_KINDS, NODES, Fault, Faults
from syncline.local.layout import LocalClusterError
from syncline.node.faults.rules import DIRECTIONS, ERRNOS, LISTENERS, TRIGGERS

app = typer.Typer(no_args_is_help=True, help="Break a local cluster on purpose.")

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

ID_HELP: Final = "Its id, as `syncline fault list` shows it; without: all."


@app.command()
def add(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(ALL_KINDS)}.")],
    broker: Annotated[
        list[str] | None,
        typer.Option("--broker", "-n", metavar="NODE", help=f"Who is struck: {NODES}; repeatable (default: all)."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="NODE", help="One end of a link; of a one-way cut, who sends.")
    ] = None,
    target: Annotated[list[str] | None, typer.Option("--to", metavar="NODE", help="The other end; repeatable.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Only what is about this topic.")] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", "-p", metavar="TOPIC:NUMBER", help="Only what is about this partition.")
    ] = None,
    direction: Annotated[
        list[str] | None,
        typer.Option("--direction", metavar="|".join(DIRECTIONS), help="Of a disk; repeatable (default: all)."),
    ] = None,
    delay: Annotated[
        str | None, typer.Option("--delay", metavar="TIME", help="How late: 200ms, 1.5s; of what is slow.")
    ] = None,
    errno: Annotated[
        str | None, typer.Option("--errno", metavar="NAME", help=f"How a disk fails: {', '.join(ERRNOS)}.")
    ] = None,
    api: Annotated[
        list[str] | None,
        typer.Option("--api", metavar="NAME", help="Which requests: PRODUCE, FETCH, ALTER_PARTITION, ...; repeatable."),
    ] = None,
    client: Annotated[
        str | None, typer.Option("--client", metavar="PATTERN", help="Only requests of clients with such an id.")
    ] = None,
    listener: Annotated[
        str | None,
        typer.Option(
            "--listener", metavar="|".join(LISTENERS), help="Requests of clients (default), or those between brokers."
        ),
    ] = None,
    error: Annotated[
        str | None, typer.Option("--error", metavar="CODE", help="Kafka's error that api-error answers.")
    ] = None,
    trigger: Annotated[
        str | None, typer.Option("--trigger", metavar="WHEN", help=f"{TRIGGERS} (default: always).")
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="For how long: 20s, 2m (default: until cleared).")
    ] = None,
    fault_id: Annotated[str | None, typer.Option("--id", help="An id of your own.")] = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Begin a fault; it is felt when this returns."""
    topic, number = _place(topic, partition)
    fault = Faults(data).add(
        kind,
        broker=broker or None,
        source=source,
        target=target or None,
        topic=topic,
        partition=number,
        direction=direction or None,
        delay_s=_seconds(delay, "--delay"),
        errno=errno,
        api=api or None,
        client_id=client,
        listener=listener,
        error=error,
        trigger=trigger,
        for_s=_seconds(duration, "--for"),
        fault_id=fault_id,
    )
    _warn(fault)
    if as_json:
        print(json.dumps(fault.as_json()))
        return
    whom = f"broker {', '.join(map(str, fault.brokers))}"
    if fault.kind == "kill":
        print(f"killed {whom}")
        return
    lasts = f"for {fault.left_s:g} s" if fault.left_s is not None else "until it is cleared"
    what = f" ({fault.what()})" if fault.what() else ""
    print(f"{fault.id}: {fault.kind} at {whom}{what}, {lasts}")


@app.command(name="list")
def list_faults(data: DataOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Show the faults, and how often each has struck."""
    faults = Faults(data)
    found = faults.all()
    if as_json:
        silent = {str(broker): why for broker, why in faults.silent.items()}
        print(json.dumps({"faults": [fault.as_json() for fault in found], "silent": silent}))
        return
    _say_who_is_silent(faults)
    if not found:
        print("no faults")
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
    if as_json:
        print(json.dumps({"cleared": [fault.as_json() for fault in cleared]}))
        return
    _say_who_is_silent(faults)
    for fault in cleared:
        print(f"{fault.id}: {fault.kind} cleared, it struck {counted(fault.as_json()['hits'], 'time')}")
    if not cleared:
        print("no faults")


def _place(topic: str | None, partition: str | None) -> tuple[str | None, int | None]:
    """Return (topic, partition) from the two options."""
    if partition is None:
        return topic, None
    name, _, number = partition.rpartition(":")
    if not number.isdecimal() or not (name or topic) or (name and topic and name != topic):
        raise LocalClusterError(f"--partition takes TOPIC:NUMBER, such as orders:3, not {partition!r}.")
    return name or topic, int(number)


def _seconds(text: str | None, option: str) -> float | None:
    """Return a duration in seconds."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise LocalClusterError(f"{option} takes a time such as 500ms, 20s or 2m, not {text!r}.")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def _warn(fault: Fault) -> None:
    if fault.remark:
        print(f"syncline: the fault has begun, but {fault.remark}", file=sys.stderr)
    if not fault.is_recorded:
        print("syncline: no other broker could write this into the journal", file=sys.stderr)


def _say_who_is_silent(faults: Faults) -> None:
    for why in faults.silent.values():
        print(f"syncline: {why}", file=sys.stderr)
