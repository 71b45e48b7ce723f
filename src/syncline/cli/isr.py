"""`isr`: in-sync replicas and the lag of each follower, as their leaders report it."""

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from syncline.cli.screen import begin_again, print_table, say
from syncline.cli.signals import interruptible
from syncline.cli.target import SILENT_S, DataOption, JsonOption, counted, no_partition, no_topic, nobody_answers
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.layout import LocalClusterError

WATCH_S = 1.0
TROUBLES = {
    "no-room": "disk full",
    "no-descriptors": "no descriptors",
    "damaged": "log damaged",
    "failed": "log failed",
}
HEADERS = (
    *("PARTITION", "LEADER", "EPOCH", "ISR", "END", "HIGH-WATERMARK"),
    *("FOLLOWER", "LAG", "BYTES", "MS", "LEFT", "NOTE"),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(short_help="Show in-sync replicas and the lag of each follower.")(isr)


def isr(
    place: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC[:PARTITION]]", help="Show only this topic, or only this partition of it."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every second until Ctrl-C.")] = False,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Show the ISR of each partition, and for each follower its lag and the time left until it is evicted from the ISR.

    Asks the brokers of a cluster on this machine. LEFT is "-" for followers that face no eviction: they have every
    record, or are already out of the ISR. LAG is "-" for followers that have not fetched from a new leader yet.
    """
    from syncline.local.control import controls

    topic, partition = _parse(place)
    if not watch:
        brokers = controls(data)
        found = ask(brokers, topic, partition)
        if len(found["silent"]) == len(brokers):
            raise nobody_answers(found["silent"])
        if topic is not None and not found["partitions"]:
            _check_exists(topic, partition, found["partition_count"])
        _show(found, place, as_json=as_json)
        return
    interruptible()
    try:
        while True:
            # A restarted broker has other ports, so each round looks them up again.
            found = ask(controls(data), topic, partition)
            if not as_json:
                begin_again()
            _show(found, place, as_json=as_json)
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        pass


def _parse(place: str | None) -> tuple[str | None, int | None]:
    if place is None:
        return None, None
    topic, colon, number = place.rpartition(":")
    if not colon:
        return place, None
    if not topic or not number.isdecimal():
        raise LocalClusterError(f"name a topic or TOPIC:PARTITION, such as flights:3, not {place!r}.")
    return topic, int(number)


def ask(brokers: dict[int, Any], topic: str | None, partition: int | None) -> dict[str, Any]:
    """Return the partitions of all brokers that answer, and an error message for each that does not.

    `partition_count` is that of the topic, as the brokers know it: 0 if there is none of this name.
    """
    from syncline.local.control import answers_of_all

    answers, silent = answers_of_all(
        brokers,
        lambda control: ask_one(control, topic, partition),
        is_enough=lambda known: topic is not None and not _lacks(gathered(known, {}), partition),
    )
    return gathered(answers, silent)


def ask_one(control: Any, topic: str | None, partition: int | None) -> dict[str, Any]:
    """Return what one broker leads."""
    answer: dict[str, Any] = control.call("status.partitions", timeout_s=SILENT_S, topic=topic, partition=partition)
    return answer


def gathered(answers: Mapping[int, dict[str, Any]], silent: Mapping[int, str]) -> dict[str, Any]:
    """Return what several brokers lead."""
    rows = [row for answer in answers.values() for row in answer["partitions"]]
    # A broker may not know the newest metadata yet.
    count = max((answer["partition_count"] for answer in answers.values()), default=0)
    rows.sort(key=lambda row: (row["topic"], row["partition"], -row["leader_epoch"]))
    return {"partitions": rows, "silent": silent, "partition_count": count}


def _check_exists(topic: str, partition: int | None, count: int) -> None:
    """Raise `LocalClusterError` if what was named does not exist: it may just be without a leader."""
    if not count:
        raise no_topic(topic)
    if partition is not None and partition >= count:
        raise no_partition(topic, partition, count)


def _show(found: dict[str, Any], place: str | None, *, as_json: bool) -> None:
    rows, silent = found["partitions"], found["silent"]
    if as_json:
        print(json.dumps(found), flush=True)
        return
    cells = [cell for row in rows for cell in _cells(row, is_chosen=place is not None)]
    if cells:
        print_table(list(HEADERS), cells)
    elif not silent:
        say("no partitions" if place is None else f"no broker leads a partition of {place}")
    for sentence in silent.values():
        say("", sentence)
    if silent and _is_incomplete(found, place):
        say("", f"Any partitions led by {counted(len(silent), 'broker')} that did not answer are missing.")


def _is_incomplete(found: dict[str, Any], place: str | None) -> bool:
    """Return whether partitions may be missing: of one topic it is known how many there are."""
    topic, partition = _parse(place)
    return topic is None or _lacks(found, partition)


def _lacks(found: dict[str, Any], partition: int | None) -> bool:
    """Return whether a partition of the topic that was asked for is missing, or may be."""
    wanted = {partition} if partition is not None else set(range(found["partition_count"]))
    return not found["partition_count"] or not wanted <= {row["partition"] for row in found["partitions"]}


def _cells(row: dict[str, Any], *, is_chosen: bool) -> list[list[Any]]:
    if row["topic"].startswith("__") and not is_chosen:
        return []
    head = [
        f"{row['topic']}-{row['partition']}",
        row["leader"],
        row["leader_epoch"],
        ",".join(map(str, row["isr"])),
        f"{row['log_end']:,}",
        f"{row['high_watermark']:,}",
    ]
    partition_notes = [
        words
        for name, words in (("is_change_pending", "change pending"), ("is_under_min_isr", "under min ISR"))
        if row[name]
    ]
    leader_notes = [TROUBLES.get(row["trouble"], row["trouble"])] if row.get("trouble") else []
    if row["leader"] in row.get("removing", ()):
        leader_notes.append("being removed")
    notes = {"leader": leader_notes, "partition": partition_notes}
    if not row["followers"]:
        return [[*head, "-", "-", "-", "-", "-", _noted([], notes)]]
    return [
        [*(head if index == 0 else [""] * len(head)), *_follower(each, notes if index == 0 else {}, row)]
        for index, each in enumerate(row["followers"])
    ]


def _noted(follower: list[str], others: dict[str, list[str]]) -> str:
    """Return the notes of one line: whose they are, unless all are the follower's."""
    groups = {"follower": follower, **others}
    told = {name: ", ".join(words) for name, words in groups.items() if words}
    if list(told) == ["follower"]:
        return told["follower"]
    # What concerns the partition needs no name.
    return "; ".join(words if name == "partition" else f"{name}: {words}" for name, words in told.items())


def _follower(row: dict[str, Any], others: dict[str, list[str]], partition: dict[str, Any]) -> list[Any]:
    changes = {"adding": "being added", "removing": "being removed"}
    notes = [words for name, words in changes.items() if row["broker"] in partition.get(name, ())]
    if not row["in_isr"]:
        notes.append("not in ISR")
    if row.get("trouble"):
        notes.append(TROUBLES.get(row["trouble"], row["trouble"]))
    if row["is_protected"]:
        notes.append("protected: the leader is serving its fetch")
    # A new leader does not know what its followers have before they fetch: one that is silent may have everything.
    is_known = row["log_end"] >= 0
    if not is_known:
        notes.append("has not fetched from this leader")
    return [
        row["broker"],
        f"{row['lag_records']:,}" if is_known else "-",
        f"{row['lag_bytes']:,}" if is_known else "-",
        "-" if row["lag_ms"] is None else f"{row['lag_ms']:,}",
        "-" if row["left_ms"] is None else f"{row['left_ms']:,}",
        _noted(notes, others),
    ]
