"""`lag`: how far consumer groups are behind, in records, bytes and time, as the brokers measure it."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

import typer

from syncline.cli.lag.answers import UNKNOWN, duration, number, pages_of, seconds
from syncline.cli.screen import begin_again, print_table, say, say_paragraphs
from syncline.cli.signals import interruptible
from syncline.cli.target import BootstrapOption, DataOption, JsonOption, counted, nobody_answers
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.layout import LocalClusterError
from syncline.model.ids import OFFSETS_TOPIC
from syncline.model.shown_names import shown_name
from syncline.reassign.amounts import quoted

WATCH_S: Final = 1.0
EXPLAIN: Final = "explain"
# The status of a partition that is read, and in which the group has committed nothing.
NO_COMMITS: Final = "no commits"
GROUPS: Final = ("GROUP", "STATE", "MEMBERS", "STATUS", "LAG", "BYTES", "WAITING", "LOST", "WORST", "NOTE")
ROWS: Final = (
    *("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "POSITION", "TO-FETCH", "BYTES", "WAITING", "EVENTS"),
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
        typer.Argument(
            metavar="[GROUP | explain GROUP]", help="Show only this group, or explain why this group is behind."
        ),
    ] = None,
    end: Annotated[
        End | None,
        typer.Option(
            help="Count lag up to the high watermark (hw, the default), the last stable offset (lso) or the log "
            "end (leo)."
        ),
    ] = None,
    readers: Annotated[
        bool,
        typer.Option(
            "--readers",
            help="Show which client fetches which partition, and from which offset, with or without a group.",
        ),
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every second until Ctrl-C.")] = False,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Show the lag of every group, or of each partition of one group: records, bytes and waiting time.

    The brokers of a cluster on this machine know when each record arrived and what retention is about to delete. For
    any other cluster (--bootstrap), the command shows what Kafka's API reports, and says what it cannot know.
    """
    group, is_explained = _parse(words or [])
    if end is not None and (readers or is_explained):
        raise LocalClusterError(
            f"{'--readers' if readers else '`lag explain`'} counts up to the high watermark: leave out --end, "
            "which works with `syncline lag` and `syncline lag GROUP`."
        )
    if readers:
        if group is not None:
            raise LocalClusterError("--readers shows the readers of all groups: do not name a group.")
        look = partial(_readers, bootstrap, data, as_json=as_json)
    elif group is not None and is_explained:
        look = partial(_explain, group, bootstrap, data, as_json=as_json)
    else:
        look = partial(_measured, group, bootstrap, data, end or End.HIGH_WATERMARK, as_json=as_json)
    if watch:
        _watch(look, as_json=as_json)
    else:
        look()()


# What a look has found, to be shown.
Show: TypeAlias = Callable[[], None]


def _watch(look: Callable[[], Show], *, as_json: bool) -> None:
    """Look and show again and again; raises `LocalClusterError` if the first look fails."""
    interruptible()
    try:
        show = look()
        while True:
            if not as_json:
                begin_again()
            show()
            sys.stdout.flush()
            time.sleep(WATCH_S)
            try:
                show = look()
            except LocalClusterError as error:
                # It may be over with the next look: a coordinator has just changed, or brokers start.
                show = partial(print, json.dumps({"error": str(error)})) if as_json else partial(say, str(error))
    except KeyboardInterrupt:
        pass


def _measured(group: str | None, bootstrap: str | None, data: Any, end: End, *, as_json: bool) -> Show:
    return partial(_show, _ask(group, bootstrap, data), group, end, as_json=as_json)


def _readers(bootstrap: str | None, data: Any, *, as_json: bool) -> Show:
    from syncline.cli.lag.readers import readers_of, show_readers
    from syncline.local.control import controls

    if bootstrap is not None:
        raise LocalClusterError(
            "only Syncline's brokers know which client fetches from which offset: name the data directory of "
            "a cluster on this machine with --data."
        )
    return partial(show_readers, readers_of(controls(data)), as_json=as_json)


def _parse(words: list[str]) -> tuple[str | None, bool]:
    """Return which group is meant, None for all, and whether it is to be explained."""
    match words:
        case []:
            return None, False
        case [group]:
            return group, False
        case [first, group] if first == EXPLAIN:
            return group, True
    raise LocalClusterError("name one group: `syncline lag GROUP` or `syncline lag explain GROUP`.")


def _explain(group: str, bootstrap: str | None, data: Any, *, as_json: bool) -> Show:
    from syncline.cli.lag.explain import paragraphs

    if bootstrap is not None:
        raise LocalClusterError(
            "only Syncline's brokers know why a group is behind: name the data directory of a cluster on "
            f"this machine with --data. `syncline lag {shown_name(group)} --bootstrap ...` shows what Kafka's "
            "API reports."
        )
    found = _ask(group, None, data)
    if as_json:
        return partial(print, json.dumps({**found, "words": paragraphs(found)}))
    return partial(say_paragraphs, paragraphs(found, named=shown_name))


def _ask(group: str | None, bootstrap: str | None, data: Any) -> dict[str, Any]:
    """Return all groups or one; raises `LocalClusterError` if the one is unknown, or nobody answers."""
    if bootstrap is not None:
        from syncline.cli.lag.kafka_api import ask_group, ask_groups

        return ask_groups(bootstrap) if group is None else ask_group(bootstrap, group)
    from syncline.local.control import controls

    # A restarted broker has other ports, so each call looks them up again.
    brokers = controls(data)
    return groups_of(brokers) if group is None else group_of(brokers, group)


def groups_of(brokers: Mapping[int, Any]) -> dict[str, Any]:
    """Return the groups of all brokers that answer, and an error message for each that does not."""
    from syncline.local.control import answers_of_all

    answers, silent = answers_of_all(brokers, partial(pages_of, verb="lag.groups"))
    rows = {row["group"]: row for pages in answers.values() for page in pages for row in page["groups"]}
    if len(silent) == len(brokers):
        raise nobody_answers(silent)
    return {"groups": [rows[name] for name in sorted(rows)], "silent": silent}


def group_of(brokers: Mapping[int, Any], group: str) -> dict[str, Any]:
    """Return one group, from its coordinator; raises `LocalClusterError` if no broker coordinates it."""
    from syncline.local.control import ControlError, LeftOutError, ask_all

    silent: dict[int, str] = {}
    may_know: list[int] = []
    left_out: list[int] = []
    standings: dict[int, str] = {}
    for broker_id, pages in ask_all(brokers, partial(pages_of, verb="lag.group", group=group)):
        if isinstance(pages, ControlError):
            silent[broker_id] = str(pages)
            (left_out if isinstance(pages, LeftOutError) else may_know).append(broker_id)
            continue
        standings[broker_id] = pages[0]["standing"]
        if standings[broker_id] == "NONE":
            return {**pages[0], "rows": [row for page in pages for row in page.get("rows", ())], "silent": silent}
    if len(silent) == len(brokers):
        raise nobody_answers(silent)
    loading = [str(broker_id) for broker_id, standing in standings.items() if "LOAD" in standing]
    if loading:
        raise LocalClusterError(f"broker {', '.join(loading)} is still loading its groups. Try again in a moment.")
    failed = [str(broker_id) for broker_id, standing in standings.items() if standing == "COORDINATOR_NOT_AVAILABLE"]
    if failed:
        raise LocalClusterError(
            f"broker {', '.join(failed)} coordinates group {quoted(group)} but cannot read its group log, "
            "which may be damaged: `syncline isr __consumer_offsets` and the broker's log show more."
        )
    nobody = f"no broker that answers knows group {quoted(group)}"
    if may_know:
        raise LocalClusterError(
            f"{nobody}; {_not_answering(may_know)} and may know it. If that lasts, other brokers take over in some "
            "seconds: try again then."
        )
    if left_out:
        # Another broker has taken over its groups, except those whose offsets only that broker has.
        raise LocalClusterError(
            f"{nobody}; {_not_answering(left_out)}, and the cluster goes on without it. A group has no coordinator "
            f"while its partition of {OFFSETS_TOPIC} has no leader: `syncline topics describe {OFFSETS_TOPIC}` shows "
            "the leaders."
        )
    forgotten = " To explain a group, add its name: `syncline lag explain GROUP`." if group == EXPLAIN else ""
    raise LocalClusterError(f"there is no group {quoted(group)}. `syncline groups list` lists all groups.{forgotten}")


def _not_answering(brokers: Iterable[int]) -> str:
    names = [str(broker) for broker in sorted(brokers)]
    return f"broker {names[0]} does not answer" if len(names) == 1 else f"brokers {', '.join(names)} do not answer"


def _show(found: dict[str, Any], group: str | None, end: End, *, as_json: bool) -> None:
    found = groups_with_end(found, end) if group is None else with_end(found, end)
    if as_json:
        print(json.dumps(found), flush=True)
        return
    if group is None:
        _show_groups(found)
    else:
        _show_group(found)
    for sentence in (*found.get("unknown", ()), *found["silent"].values()):
        say("", sentence)
    if found["silent"] and group is None:
        say(
            "",
            f"Any groups coordinated by {counted(len(found['silent']), 'broker')} that did not answer are missing.",
        )


def with_end(found: dict[str, Any], end: End) -> dict[str, Any]:
    """Return a group with the lag up to the wanted end in each row, and their total and largest.

    Both are None if no lag is known; `lag_unknown` counts the partitions that are not in them, though something is
    committed there, or may be.
    """
    rows = [{**row, "end": row["ends"][end.value], "lag": row[f"lag_{end.value}"]} for row in found["rows"]]
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    unknown = {(each["topic"], each["partition"]) for each in found["unanswered"]} | {
        (row["topic"], row["partition"]) for row in rows if row["lag"] is None and row["committed"] is not None
    }
    return {
        **found,
        "rows": rows,
        "end": end.value,
        "total": sum(lags) if lags else None,
        "max": max(lags, default=None),
        "lag_unknown": len(unknown),
    }


def groups_with_end(found: dict[str, Any], end: End) -> dict[str, Any]:
    """Return groups, each with its lag up to the wanted end; None if no partition has a commit and a known end."""
    groups = [
        {
            **each,
            "end": end.value,
            "lag": each["lags"][end.value] if each["partitions"] > each["without_commit"] else None,
        }
        for each in found["groups"]
    ]
    return {**found, "groups": groups, "end": end.value}


def _show_groups(found: dict[str, Any]) -> None:
    rows = [
        [
            shown_name(row["group"]),
            _in_words(row["state"]),
            row["members"],
            _group_status(row) or UNKNOWN,
            number(row["lag"]),
            number(row["lag_bytes"]),
            duration(row["staleness_ms"]),
            number(row["lost"]),
            row["worst"] if row["worst"] and row["lag_records"] else UNKNOWN,
            _notes(
                ("loses data", row["loses_data"]),
                (f"{counted(row['missing'], 'partition')} unknown", row["missing"]),
            ),
        ]
        for row in found["groups"]
    ]
    if rows:
        print_table(list(GROUPS), rows)
    elif not found["silent"]:
        say("no groups")


def _show_group(found: dict[str, Any]) -> None:
    state = f"{_in_words(found['state'])}, {counted(found['members'], 'member')}"
    status = f"{known}, " if (known := _group_status(found)) else ""
    say(f"group {shown_name(found['group'])}: {status}{state}")
    if found["rows"]:
        print_table(list(ROWS), [_cells(row) for row in found["rows"]])
        say(f"lag up to {found['end']}: {_sum(found)}")
    elif not found["unanswered"]:
        say("it has no committed offsets in an existing topic, and no member reads one")
    for each in found["unanswered"]:
        say(f"{each['topic']}-{each['partition']}: its leader reports nothing ({each['error']})")


def _group_status(group: Row) -> str:
    """Return the status of a group; "" if nothing is known that it could rest on."""
    if not group["status"] or not group["partitions"]:
        return ""
    return NO_COMMITS if group["partitions"] == group["without_commit"] else str(group["status"])


def _sum(found: Row) -> str:
    """Return what the rows add up to, as far as it is known."""
    unknown = found["lag_unknown"]
    if found["total"] is None:
        return "unknown" if unknown else "none (the group has no committed offsets)"
    known = f"total {number(found['total'])}, at most {number(found['max'])} in one partition"
    return f"{known}; unknown in {counted(unknown, 'partition')}" if unknown else known


def _cells(row: Row) -> list[Any]:
    return [
        row["topic"],
        row["partition"],
        number(row["committed"]),
        number(row["end"]),
        number(row["lag"]),
        number(row["fetch_offset"]),
        number(row["fetch_lag"]),
        number(row["lag_bytes"]),
        duration(row["staleness_ms"]),
        duration(row["event_lag_ms"]),
        seconds(row["catch_up_s"]) if row["lag"] else UNKNOWN,
        seconds(row["retention_margin_s"]),
        _status(row),
        shown_name(row["client_id"]) or UNKNOWN,
        _notes(
            (f"{number(row['lost'])} lost", row["lost"]),
            ("loses data", row["loses_data"]),
            ("committed beyond the end", row["is_beyond_end"]),
            ("time estimated", row["is_estimated"] and row["staleness_ms"]),
        ),
    ]


def _status(row: Row) -> str:
    if row["committed"] is None:
        return UNKNOWN if row["fetch_offset"] is None else NO_COMMITS
    return row["status"] or UNKNOWN


def _in_words(state: str) -> str:
    """Return Kafka's name of a state, such as PreparingRebalance, as words."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", state).lower()


def _notes(*notes: tuple[str, object]) -> str:
    return ", ".join(text for text, is_so in notes if is_so)
