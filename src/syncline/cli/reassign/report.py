"""`reassign report`: what a move did, also after it is over: a page with pictures, or a few lines, from the journal."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from syncline.cli.journal_reader import of_type, read_events
from syncline.cli.screen import say
from syncline.cli.target import BootstrapOption, DataOption, JsonOption, admin_client, bootstrap_of
from syncline.cli.text_files import check_place, named, write_text
from syncline.cli.times import parse_since
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.layout import LocalClusterError
from syncline.reassign.amounts import quoted

# Events are written some time after they happened.
LATE_MS = 10_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(short_help="Report a move's rates, progress and effect on clients.")(report)


def report(
    move: Annotated[
        str | None, typer.Argument(metavar="[MOVE]", help="A move's id or name (default: the last move).")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts to this file.")
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="How far to look back for moves: 10m, 2h or 1d, or an ISO time.")
    ] = "1d",
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Report from the cluster's journal how fast a move copied, against its throttle, and how it affected clients.

    The move may have ended or still be running. With --html, the report is one self-contained page with charts.
    """
    from syncline.move_report.gathering import facts_of, window_of
    from syncline.move_report.moves import chosen, moves_of
    from syncline.move_report.page import Origin, render
    from syncline.move_report.summary import fields_of, lines_of

    if html is not None:
        check_place(html)
    now_ms = time.time_ns() // 1_000_000
    since_ms = parse_since(since, now_ms)
    servers = bootstrap_of(bootstrap, data)
    admin = admin_client(servers)
    journal = read_events(servers, admin, since_ms, lambda head, _: of_type(head, "move", "reassignment"))
    moves = moves_of(journal.events)
    span = chosen(moves, move)
    if span is None:
        raise _none_found(move, [each.move_id for each in moves if each.move_id], since)
    low_ms, high_ms = window_of(span, now_ms)
    keys = {str(key).encode() for key in span.keys}

    def wanted(head: bytes, key: bytes) -> bool:
        if of_type(head, "follower_progress", "isr_change", "election"):
            return key in keys
        return of_type(head, "acknowledgements", "throttle", "broker_state")

    events = read_events(servers, admin, low_ms, wanted, high_ms + LATE_MS).events
    facts = facts_of(span, events, now_ms)
    if html is not None:
        write_text(html, render(facts, Origin(servers, now_ms)))
    if as_json:
        print(json.dumps({**fields_of(facts), "page": None if html is None else str(html.absolute())}))
        return
    say(*lines_of(facts))
    if html is not None:
        say("", f"page: {named(html.absolute())}")


def _none_found(move: str | None, known: list[str], since: str) -> LocalClusterError:
    # A span ends with its unit, and a time does not.
    back = f"within the last {since} (--since)" if since[-1:] in "smhd" else f"since {since} (--since)"
    if move is None:
        return LocalClusterError(f"There is no move in the journal {back}.")
    others = f"Moves in it: {', '.join(known[-10:])}." if known else "No move in it has an id."
    return LocalClusterError(f"There is no move {quoted(move)} in the journal {back}. {others}")
