"""`why`: what happened to a partition's replicas and leader, in words, from the journal's evidence."""

import json
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from syncline.cli.isr import ask_one, gathered
from syncline.cli.journal_reader import Journal, JournalSilentError, read_journal
from syncline.cli.screen import say
from syncline.cli.target import (
    CONNECT_STEP_S,
    SILENT_S,
    BootstrapOption,
    DataOption,
    JsonOption,
    admin_client,
    bootstrap_of,
    counted,
    no_partition,
    no_topic,
    topic_names,
)
from syncline.cli.times import DAY_MS, date_and_time, parse_since, time_of_day
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.explain.diagnosis.diagnose import diagnose
from syncline.explain.diagnosis.findings import Diagnosis, Finding
from syncline.explain.words.evidence import evidence_against, evidence_for
from syncline.explain.words.phrases import title_of
from syncline.explain.words.sentences import tell
from syncline.local.layout import LocalClusterError
from syncline.model.events import Event, TopicChange, from_json, to_json

_T = TypeVar("_T")
# Causes begin before their effects, and a paused broker reports its pause later.
MARGIN_MS = 60_000
# Show only this many paragraphs, the newest.
PARAGRAPHS_MAX = 60


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(short_help="Explain what happened to a partition.")(why)


def why(
    place: Annotated[str, typer.Argument(metavar="TOPIC:PARTITION", help="Partition to explain.")],
    replica: Annotated[int | None, typer.Option(help="Show only what concerns this broker.", min=0)] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="How far to look back: 90s, 10m, 2h or 1d, or an ISO time.")
    ] = "10m",
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Explain from the journal why replicas left or joined the ISR, leaders changed and high watermarks were held back.

    Each finding names its cause, the evidence for it, and what else was unusual at the time. If no broker reported a
    cause, it is called unknown. For a deleted topic, the findings end with the deletion. If the journal cannot be read,
    the command shows only what brokers have not written to it yet, and exits with 1.
    """
    topic, partition = parse_place(place)
    now_ms = time.time_ns() // 1_000_000
    since_ms = parse_since(since, now_ms)
    servers = bootstrap_of(bootstrap, data)
    admin = admin_client(servers)
    described = topic_names(admin).get(topic)
    if described is not None and partition not in described.partitions:
        raise no_partition(topic, partition, len(described.partitions))
    # None: the topic does not exist, but the journal may know one that did.
    now = None if described is None else described.partitions[partition]
    if since_ms > now_ms:
        raise LocalClusterError(f"--since {since} is in the future: give a time in the past.")
    if now is not None and replica is not None and replica not in now.replicas:
        holders = ", ".join(map(str, now.replicas))
        raise LocalClusterError(
            f"broker {replica} holds no replica of {topic}-{partition}; its replicas are on {holders}."
        )
    # Brokers first: an event that is written in between is read twice, but counts once. One that is silent may answer
    # while the journal is read.
    asking = _begun(lambda: (None, []) if bootstrap is not None else _ask_brokers(data, topic, partition))
    wait([asking], CONNECT_STEP_S)
    missing = None
    try:
        journal = read_journal(servers, admin, since_ms - MARGIN_MS, f"{topic}-{partition}")
    except LocalClusterError as error:
        if now is None:
            raise no_topic(topic) from None
        if bootstrap is not None or not isinstance(error, JournalSilentError):
            # Nothing else tells what happened.
            raise
        journal, missing = Journal([], 0), str(error)
    present, unwritten = asking.result()
    events = [*journal.events, *unwritten]
    deleted_ms = _deleted_ms(events, topic, partition) if now is None else None
    if deleted_ms is not None:
        # Of a window in which the topic was gone already there is nothing else to tell.
        since_ms = min(since_ms, deleted_ms)
    diagnosis = diagnose(
        events,
        topic,
        partition,
        # The journal has nothing from before its first event.
        since_ms=max(since_ms, journal.began_ms),
        until_ms=time.time_ns() // 1_000_000,
        replica=replica,
        leader=-1 if now is None else now.leader,
        replicas=() if now is None else now.replicas,
    )
    if as_json:
        fields = as_fields(diagnosis)
        if missing is not None and not diagnosis.findings:
            fields["words"] = []
        fields |= {"present": present, "missing": missing, "remark": journal.remark or None}
        print(json.dumps(fields, default=str))
        if missing is not None:
            raise typer.Exit(1)
        return
    show_time = time_of_day if now_ms - diagnosis.since_ms < DAY_MS else date_and_time
    state = f"deleted at {show_time(deleted_ms)}" if deleted_ms is not None else _state(now)
    say(f"{topic}-{partition}: {state}", *_moves(present), *_lags(present))
    # Without the journal, nobody knows that nothing happened.
    paragraphs = tell(diagnosis, show_time) if missing is None or diagnosis.findings else []
    left_out = len(paragraphs) - PARAGRAPHS_MAX
    if left_out > 0:
        say("", f"{counted(left_out, 'earlier paragraph')} left out: use a shorter --since, or --json for all.")
    for paragraph in paragraphs[max(0, left_out) :]:
        say("", paragraph)
    if journal.remark:
        say("", journal.remark)
    if missing is not None:
        told = (
            "The following is only what brokers have not written to it yet." if paragraphs else "No broker knows more."
        )
        raise LocalClusterError(f"{missing} {told}")


def _state(now: Any) -> str:
    """Return who leads a partition, and where it is, from its metadata."""
    leader = f"leader {now.leader}" if now.leader >= 0 else "no leader"
    return f"{leader}, ISR {now.isrs}, replicas {now.replicas}"


def _deleted_ms(events: Iterable[Event], topic: str, partition: int) -> int:
    """Return when a topic that does not exist was last deleted; raise the error for a topic that the journal lacks."""
    deleted = [
        each for each in events if isinstance(each, TopicChange) and each.topic == topic and each.change == "deleted"
    ]
    if not deleted:
        raise no_topic(topic)
    last = max(deleted, key=lambda each: each.ts_ms)
    if partition >= last.partitions:
        raise no_partition(topic, partition, last.partitions)
    return last.ts_ms


def _begun(call: Callable[[], _T]) -> "Future[_T]":
    """Begin a call in a thread of its own, for which a command that ends does not wait."""
    result: Future[_T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # noqa: BLE001 - who waits for the result raises it
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result


def _ask_brokers(data: Path, topic: str, partition: int) -> tuple[dict[str, Any] | None, list[Event]]:
    """Return what the leader reports about its followers now, and the events that brokers have not journalled yet.

    While replicas of the journal are in trouble, brokers write events late: just when users ask why.
    """
    from syncline.local.control import ControlError, answers_of_all, controls

    def question(control: Any) -> tuple[dict[str, Any], list[str]]:
        status = ask_one(control, topic, partition)
        unwritten = control.call("journal.unwritten", timeout_s=SILENT_S, topic=topic, partition=partition)
        return status, unwritten["events"]

    try:
        brokers = controls(data)
    except ControlError:
        return None, []
    # Nobody but the leader knows the present.
    answers, silent = answers_of_all(
        brokers, question, is_enough=lambda known: any(status["partitions"] for status, _ in known.values())
    )
    found = gathered({broker: status for broker, (status, _) in answers.items()}, silent)
    events = [from_json(event.encode()) for _, some in answers.values() for event in some]
    # If two brokers report that they lead, take the newer leader.
    return found["partitions"][0] if found["partitions"] else None, events


def _moves(present: dict[str, Any] | None) -> list[str]:
    """Return a line about the reassignment that is in progress, if one is."""
    lists = [
        f"{name} {', '.join(map(str, brokers))}"
        for name in ("adding", "removing")
        if (brokers := (present or {}).get(name))
    ]
    if present is None or not lists:
        return []
    move = f" (move {present['move']})" if present.get("move") else ""
    return [f"now: a reassignment is changing its replicas, {' and '.join(lists)}{move}"]


def _lags(present: dict[str, Any] | None) -> list[str]:
    """Return a line for each follower that lacks records now."""
    return [
        f"now: replica {row['broker']} is {counted(row['lag_records'], 'record')} behind"
        + (f", since {row['lag_ms'] / 1_000:.1f} s" if row["lag_ms"] else "")
        + (f", and has {max(0, row['left_ms']) / 1_000:.1f} s left in the ISR" if row["left_ms"] is not None else "")
        for row in (present or {"followers": []})["followers"]
        if row["lag_records"]
    ]


def parse_place(place: str) -> tuple[str, int]:
    """Return topic and partition of TOPIC:PARTITION."""
    topic, _, number = place.rpartition(":")
    if not topic or not number.isdecimal():
        raise LocalClusterError(f"name a partition as TOPIC:PARTITION, such as flights:3, not {place!r}.")
    return topic, int(number)


def as_fields(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as JSON fields."""
    main = diagnosis.main
    return {
        "topic": diagnosis.topic,
        "partition": diagnosis.partition,
        "since_ms": diagnosis.since_ms,
        "until_ms": diagnosis.until_ms,
        "leader": diagnosis.leader,
        "created_ms": diagnosis.created_ms,
        "cause": None if main is None else main.cause.value,
        "main": None if main is None else _finding(main),
        "findings": [_finding(each) for each in diagnosis.findings],
        "words": tell(diagnosis, time_of_day),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    condition = finding.condition
    return {
        "effect": finding.effect.value,
        "ts_ms": finding.ts_ms,
        "cause": finding.cause.value,
        "replica": finding.replica,
        "leader": finding.leader,
        "broker": finding.broker,
        "from_ms": None if condition is None else condition.begin_ms,
        "until_ms": None if condition is None else condition.end_ms,
        "lost": [] if condition is None else [list(direction) for direction in condition.lost],
        "numbers": finding.numbers | ({} if condition is None else condition.numbers),
        "title": title_of(finding),
        "for": evidence_for(finding, time_of_day),
        "against": evidence_against(finding, time_of_day),
        "also": [{**asdict(each), "operations": len(each.operations)} for each in finding.also],
        "event": None if finding.event is None else json.loads(to_json(finding.event)),
    }
