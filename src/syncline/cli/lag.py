"""`lag`: how far consumer groups are behind, in records, bytes and time, as the brokers measure it."""

import json
import re
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from syncline.cli.target import (
    DEFAULT_DIRECTORY,
    BootstrapOption,
    DataOption,
    JsonOption,
    counted,
    nobody_answers,
    print_table,
)
from syncline.cli.up import interruptible
from syncline.explain.words.phrases import span
from syncline.local.layout import LocalClusterError

ASK_S: Final = 5.0
WATCH_S: Final = 1.0
PAGE: Final = 500
EXPLAIN: Final = "explain"
UNKNOWN: Final = "-"
GROUPS: Final = ("GROUP", "STATE", "MEMBERS", "STATUS", "LAG", "BYTES", "WAITING", "LOST", "WORST", "NOTE")
ROWS: Final = (
    *("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "BYTES", "WAITING", "EVENTS"),
    *("CATCH-UP", "RETENTION", "STATUS", "MEMBER", "NOTE"),
)

Row = Mapping[str, Any]


class End(StrEnum):
    """Up to which end a lag counts."""

    HIGH_WATERMARK = "hw"
    LAST_STABLE = "lso"
    LOG_END = "leo"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(short_help="Show how far consumer groups are behind, and why.")(lag)


def lag(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP | explain GROUP]", help="Only this group, or why this group is behind."),
    ] = None,
    end: Annotated[
        End,
        typer.Option(help="Count up to the high watermark (hw), the last stable offset (lso) or the log end (leo)."),
    ] = End.HIGH_WATERMARK,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again every second, until Ctrl-C.")] = False,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Show the lag of every group, or of each partition of one: records, bytes, and how long the next record waits.

    Brokers of a cluster on this machine know when each record came and what retention is about to delete. Of any other
    cluster (--bootstrap) the command shows what Kafka's API tells, and says what it cannot know.
    """
    group, is_explained = _parse(words or [])
    if group is not None and is_explained:
        _explain(group, bootstrap, data, as_json=as_json)
        return
    if not watch:
        _show(_ask(group, bootstrap, data), group, end, as_json=as_json)
        return
    interruptible()
    try:
        while True:
            if not as_json:
                print(f"\033[H\033[2J{time.strftime('%H:%M:%S')}")
            try:
                _show(_ask(group, bootstrap, data), group, end, as_json=as_json)
            except LocalClusterError as error:
                # It may be over with the next look: a coordinator has just changed, or brokers start.
                print(json.dumps({"error": str(error)}) if as_json else error, flush=True)
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        pass


def _parse(words: list[str]) -> tuple[str | None, bool]:
    """Return which group is meant, None for all, and whether it is to be explained."""
    match words:
        case []:
            return None, False
        case [group]:
            return group, False
        case [first, group] if first == EXPLAIN:
            return group, True
    raise LocalClusterError("name one group, as `syncline lag GROUP` or `syncline lag explain GROUP`.")


def _explain(group: str, bootstrap: str | None, data: Any, *, as_json: bool) -> None:
    from syncline.cli.lag_explain import paragraphs

    if bootstrap is not None:
        raise LocalClusterError(
            "why a group is behind is known to Syncline's brokers alone: use --data DIRECTORY of a cluster on this "
            f"machine. `syncline lag {group} --bootstrap ...` shows what Kafka's API tells."
        )
    found = _ask(group, None, data)
    told = paragraphs(found)
    if as_json:
        print(json.dumps({**found, "words": told}))
    else:
        print("\n\n".join(told))


def _ask(group: str | None, bootstrap: str | None, data: Any) -> dict[str, Any]:
    """Return all groups or one; raises `LocalClusterError` if the one is unknown, or nobody answers."""
    if bootstrap is not None:
        from syncline.cli.lag_kafka import ask_group, ask_groups

        return ask_groups(bootstrap) if group is None else ask_group(bootstrap, group)
    from syncline.local.control import controls

    # A restarted broker has other ports, so each call looks them up again.
    brokers = controls(data)
    return groups_of(brokers) if group is None else group_of(brokers, group)


def groups_of(brokers: Mapping[int, Any]) -> dict[str, Any]:
    """Return the groups of all brokers that answer, and an error message for each that does not."""
    from syncline.local.control import ControlError

    rows: dict[str, dict[str, Any]] = {}
    silent: dict[int, str] = {}
    for broker_id, control in brokers.items():
        try:
            for page in _pages(control, "lag.groups"):
                rows.update((row["group"], row) for row in page["groups"])
        except ControlError as error:
            silent[broker_id] = str(error)
    if len(silent) == len(brokers):
        raise nobody_answers(silent)
    return {"groups": [rows[name] for name in sorted(rows)], "silent": silent}


def group_of(brokers: Mapping[int, Any], group: str) -> dict[str, Any]:
    """Return one group, from its coordinator; raises `LocalClusterError` if no broker coordinates it."""
    from syncline.local.control import ControlError

    silent: dict[int, str] = {}
    standings: dict[int, str] = {}
    for broker_id, control in brokers.items():
        try:
            pages = _pages(control, "lag.group", group=group)
        except ControlError as error:
            silent[broker_id] = str(error)
            continue
        standings[broker_id] = pages[0]["standing"]
        if standings[broker_id] == "NONE":
            return {**pages[0], "rows": [row for page in pages for row in page.get("rows", ())], "silent": silent}
    if len(silent) == len(brokers):
        raise nobody_answers(silent)
    loading = [str(broker_id) for broker_id, standing in standings.items() if "LOAD" in standing]
    if loading:
        raise LocalClusterError(f"broker {', '.join(loading)} is still reading its groups. Try again in a moment.")
    where = f" Broker {', '.join(map(str, silent))} does not answer and may know it." if silent else ""
    raise LocalClusterError(f"there is no group {group!r}.{where} `syncline groups list` lists all groups.")


def _pages(control: Any, verb: str, **fields: Any) -> list[dict[str, Any]]:
    """Return all pages of an answer."""
    pages = [control.call(verb, timeout_s=ASK_S, count=PAGE, **fields)]
    while pages[-1].get("next") is not None:
        pages.append(control.call(verb, timeout_s=ASK_S, count=PAGE, **{**fields, "from": pages[-1]["next"]}))
    return pages


# Showing


def _show(found: dict[str, Any], group: str | None, end: End, *, as_json: bool) -> None:
    if group is not None:
        found = with_end(found, end)
    if as_json:
        print(json.dumps(found), flush=True)
        return
    if group is None:
        _show_groups(found, end)
    else:
        _show_group(found, end)
    for sentence in (*found.get("unknown", ()), *found["silent"].values()):
        print(f"\n{sentence}")
    if found["silent"] and group is None:
        print(f"\nGroups of {counted(len(found['silent']), 'broker')} that did not answer are missing.")


def with_end(found: dict[str, Any], end: End) -> dict[str, Any]:
    """Return a group with the lag up to the wanted end in each row, and their total and largest."""
    rows = [{**row, "end": row["ends"][end.value], "lag": row[f"lag_{end.value}"]} for row in found["rows"]]
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    return {**found, "rows": rows, "end": end.value, "total": sum(lags), "max": max(lags, default=0)}


def _show_groups(found: dict[str, Any], end: End) -> None:
    rows = [
        [
            row["group"],
            _in_words(row["state"]),
            row["members"],
            row["status"] or UNKNOWN,
            number(row["lags"][end.value]),
            number(row["lag_bytes"]),
            duration(row["staleness_ms"]),
            number(row["lost"]),
            row["worst"] if row["worst"] and row["lag_records"] else UNKNOWN,
            _notes(("loses data", row["loses_data"]), (f"{row['missing']} without a leader", row["missing"])),
        ]
        for row in found["groups"]
    ]
    if rows:
        print_table(list(GROUPS), rows)
    elif not found["silent"]:
        print("no groups")


def _show_group(found: dict[str, Any], end: End) -> None:
    state = f"{_in_words(found['state'])}, {counted(found['members'], 'member')}"
    status = f"{found['status']}, " if found["status"] else ""
    print(f"group {found['group']}: {status}{state}")
    if found["rows"]:
        print_table(list(ROWS), [_cells(row) for row in found["rows"]])
        total, largest = number(found["total"]), number(found["max"])
        print(f"lag up to {end.value}: total {total}, at most {largest} in one partition")
    for each in found["unanswered"]:
        print(f"{each['topic']}-{each['partition']}: its leader does not answer ({each['error']})")


def _cells(row: Row) -> list[Any]:
    return [
        row["topic"],
        row["partition"],
        number(row["committed"]),
        number(row["end"]),
        number(row["lag"]),
        number(row["lag_bytes"]),
        duration(row["staleness_ms"]),
        duration(row["event_lag_ms"]),
        seconds(row["catch_up_s"]) if row["lag"] else UNKNOWN,
        seconds(row["retention_margin_s"]),
        row["status"] if row["status"] and row["committed"] is not None else UNKNOWN,
        row["client_id"] or UNKNOWN,
        _notes(
            (f"{number(row['lost'])} lost", row["lost"]),
            ("loses data", row["loses_data"]),
            ("committed beyond the end", row["is_beyond_end"]),
            ("time estimated", row["is_estimated"] and row["staleness_ms"]),
        ),
    ]


def _in_words(state: str) -> str:
    """Return Kafka's name of a state, such as PreparingRebalance, as words."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", state).lower()


def _notes(*notes: tuple[str, object]) -> str:
    return ", ".join(text for text, is_so in notes if is_so)


def number(value: int | None) -> str:
    """Return a number with separated thousands; a dash if it is unknown."""
    return UNKNOWN if value is None else f"{value:,}"


def duration(duration_ms: int | None) -> str:
    """Return a duration in a readable unit."""
    return UNKNOWN if duration_ms is None else span(duration_ms)


def seconds(value: float | str | None) -> str:
    """Return a number of seconds in a readable unit; it may be infinite, or over."""
    if value is None or isinstance(value, str):
        return value or UNKNOWN
    return "now" if value <= 0 else span(round(value * 1_000))
