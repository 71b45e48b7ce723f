"""`cache`: how much memory the page cache of each broker needs, and who reads past it, as brokers have counted it."""

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.cli.screen import say
from syncline.cli.target import SILENT_S, DataOption, JsonOption, counted, nobody_answers, sentences
from syncline.cli.text_files import check_place, named, write_text
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.layout import LocalClusterError

if TYPE_CHECKING:
    from syncline.lag_report.facts import CacheFacts


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(short_help="Show how much page cache is needed, and who misses it.")(cache)


def cache(
    ram: Annotated[
        str | None,
        typer.Option(
            "--ram",
            metavar="SIZE",
            help="Assume that each broker's page cache can use this much memory (default: the memory that brokers "
            "find free).",
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts to this file.")
    ] = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Show what share of the bytes read comes from disk, for every size of the page cache.

    Asks the brokers of a cluster on this machine. For every read, a broker knows how much it has written to all its
    logs since it wrote the bytes being read: a page cache of that size would still hold them. Brokers also measure
    whether their page cache did.
    """
    from syncline.local.control import controls

    memory_bytes = memory_of(ram)
    if html is not None:
        check_place(html)
    brokers = controls(data)
    answers, silent = ask(brokers)
    if not answers:
        raise nobody_answers(silent)
    show(prepared(answers), silent, memory_bytes, html, cluster=str(data), as_json=as_json)


def prepared(answers: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the answers with the groups of readers, and each with its part of the memory: they share one machine."""
    from syncline.lag_report.attribution import attributed

    return {
        broker: {**answer, "memory_bytes": answer["memory_bytes"] // len(answers) if answer["memory_bytes"] > 0 else -1}
        for broker, answer in attributed(answers).items()
    }


def memory_of(ram: str | None) -> int | None:
    """Return the bytes of `--ram`, None without it; `LocalClusterError` if it is no size."""
    from syncline.reassign.amounts import parse_size, quoted

    if ram is None:
        return None
    with sentences():
        memory_bytes = parse_size(ram, "--ram")
    if not memory_bytes:
        raise LocalClusterError(f"--ram takes a size of memory, such as 8GB or 512MB, not {quoted(ram)}.")
    return memory_bytes


def ask(brokers: Mapping[int, Any]) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """Return the answer of each broker that gives one, and an error message for each that does not."""
    from syncline.local.control import answers_of_all

    return answers_of_all(brokers, lambda control: control.call("cache.show", timeout_s=SILENT_S))


def show(
    answers: Mapping[int, Mapping[str, Any]],
    silent: Mapping[int, str],
    memory_bytes: int | None,
    html: Path | None,
    *,
    cluster: str,
    as_json: bool,
) -> None:
    """Print what the answers say, each broker by itself, and write the page."""
    from syncline.lag_report import words
    from syncline.lag_report.advice import advise
    from syncline.lag_report.agreement import agreements
    from syncline.lag_report.page import Origin, render
    from syncline.lag_report.summary import fields_of
    from syncline.lag_report.terminal import lines_of

    facts = [_facts(broker, answer, memory_bytes) for broker, answer in sorted(answers.items())]
    brokers = [(each, advise(each)) for each in facts]
    if html is not None:
        missing = tuple(dict.fromkeys(silent.values()))
        write_text(html, render(brokers, Origin(cluster, time.time_ns() // 1_000_000, missing)))
    if as_json:
        page = None if html is None else str(html.absolute())
        fields = [fields_of(each, advice) for each, advice in brokers]
        print(json.dumps({"brokers": fields, "silent": silent, "page": page}))
        return
    width = shutil.get_terminal_size().columns
    for each, advice in brokers:
        say(*lines_of(each, advice, width), "")
    compared = agreements([(each.title, each) for each in facts])
    say(words.agreed(compared))
    for interval in compared:
        say(f"  {words.compared_with(interval)}")
    for sentence in silent.values():
        say("", sentence)
    if silent:
        say("", f"The answer of {counted(len(silent), 'broker')} is missing.")
    if html is not None:
        say("", f"page: {named(html.absolute())}")


def _facts(broker: int, answer: Mapping[str, Any], memory_bytes: int | None) -> "CacheFacts":
    """Return the facts of a broker; `LocalClusterError` if they make no sense, or lack the memory."""
    from syncline.lag_report.answers import facts_of

    if memory_bytes is None and answer["memory_bytes"] <= 0:
        raise LocalClusterError(f"broker {broker} does not know how much memory is free. Name a size with --ram SIZE.")
    try:
        return facts_of(broker, answer, memory_bytes)
    except ValueError as error:
        raise LocalClusterError(f"the counts of broker {broker} contradict each other: {error}.") from None
