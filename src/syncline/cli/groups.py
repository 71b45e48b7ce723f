"""`groups`: list, describe, reset-offsets."""

import json
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import typer

from syncline.cli.target import (
    DEFAULT_DIRECTORY,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    DataOption,
    JsonOption,
    admin_client,
    bootstrap_of,
    counted,
    find_topic,
    guarded,
    offsets,
    print_table,
    result_of,
    topic_names,
)
from syncline.local.layout import LocalClusterError

app = typer.Typer(no_args_is_help=True, help="List and describe consumer groups, reset their offsets.")

GroupArgument = Annotated[str, typer.Argument(help="Id of the group.")]


@app.command("list")
def list_groups(
    bootstrap: BootstrapOption = None, data: DataOption = DEFAULT_DIRECTORY, as_json: JsonOption = False
) -> None:
    """List consumer groups."""
    admin = admin_client(bootstrap_of(bootstrap, data))
    listed = result_of(admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S), "cannot list groups")
    rows = [{"group": each.group_id, "state": each.state.name.lower()} for each in listed.valid]
    rows.sort(key=lambda row: row["group"])
    if as_json:
        print(json.dumps(rows))
    elif not rows:
        print("no groups")
    else:
        print_table(["GROUP", "STATE"], [list(row.values()) for row in rows])


@app.command(short_help="Show a group's members and lag.")
def describe(
    group: GroupArgument,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Describe a group: its members, and per partition the committed offset, the end and the lag in records."""
    admin = admin_client(bootstrap_of(bootstrap, data))
    what = f"cannot describe group {group!r}"
    described = result_of(guarded(what, lambda: admin.describe_consumer_groups([group]))[group], what)
    members = {
        (part.topic, part.partition): member.client_id
        for member in described.members
        for part in (member.assignment.topic_partitions if member.assignment else [])
    }
    rows = _lag_rows(admin, group, members)
    state = described.state.name.lower()
    if state == "dead" and not rows:
        raise LocalClusterError(f"there is no group {group!r}. `syncline groups list` lists all groups.")
    if as_json:
        print(json.dumps({"group": group, "state": state, "members": len(described.members), "partitions": rows}))
        return
    print(f"group {group}: {state}, {counted(len(described.members), 'member')}")
    if rows:
        columns = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"]
        print_table(
            columns,
            [
                [
                    "-" if row[name] is None else row[name]
                    for name in ("topic", "partition", "committed", "end", "lag", "member")
                ]
                for row in rows
            ],
        )


@app.command("reset-offsets", short_help="Move a group's committed offsets.")
def reset_offsets(
    group: GroupArgument,
    topic: Annotated[str, typer.Option("--topic", "-t", help="Topic whose offsets are reset.")],
    to: Annotated[
        str,
        typer.Option(help="earliest, latest, an offset, +N or -N records, or an ISO time such as 2026-01-31T12:00:00."),
    ],
    execute: Annotated[
        bool, typer.Option("--execute", help="Change the offsets; without it, only show the changes.")
    ] = False,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Move a group's committed offsets; the group must have no members."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    target = _parse_target(to)
    admin = admin_client(bootstrap_of(bootstrap, data))
    partitions = sorted(find_topic(admin, topic).partitions)
    targets = _targets(admin, group, topic, partitions, target)
    if execute:
        wanted = ConsumerGroupTopicPartitions(
            group, [TopicPartition(topic, partition, offset) for partition, offset in targets.items()]
        )
        what = f"cannot reset the offsets of group {group!r}"
        result_of(guarded(what, lambda: admin.alter_consumer_group_offsets([wanted]))[group], what)
    if as_json:
        print(json.dumps({"group": group, "topic": topic, "offsets": targets, "executed": execute}))
        return
    print_table(
        ["TOPIC", "PARTITION", "NEW OFFSET"], [[topic, partition, offset] for partition, offset in targets.items()]
    )
    if not execute:
        print("nothing was changed; add --execute to do it")


def _lag_rows(admin: Any, group: str, members: dict[tuple[str, int], str]) -> list[dict[str, Any]]:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    committed = _committed(admin, group)
    topics = topic_names(admin)
    places = sorted({*committed, *members})
    # A topic may have been deleted; the group's offsets for it remain for a while.
    there = [TopicPartition(*place) for place in places if place[0] in topics]
    ends = offsets(admin, there, OffsetSpec.latest())
    rows = []
    for place in places:
        offset, end = committed.get(place), ends.get(place)
        rows.append(
            {
                "topic": place[0],
                "partition": place[1],
                "committed": offset,
                "end": end,
                "lag": None if offset is None or end is None else max(0, end - offset),
                "member": members.get(place),
            }
        )
    return rows


def _committed(admin: Any, group: str) -> dict[tuple[str, int], int]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    what = f"cannot read the offsets of group {group!r}"
    futures = guarded(what, lambda: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    listed = result_of(futures[group], what).topic_partitions
    return {(part.topic, part.partition): part.offset for part in listed if part.offset >= 0}


class _Shift(NamedTuple):
    """A number of records forward (or back) from the committed offset."""

    records: int


def _parse_target(to: str) -> str | int | datetime | _Shift:
    """Return the target of a reset: a word, an offset, an instant or a shift."""
    if to in ("earliest", "latest"):
        return to
    if to.isdecimal():
        return int(to)
    if to[:1] in ("+", "-") and to[1:].isdecimal():
        return _Shift(int(to))
    try:
        instant = datetime.fromisoformat(to)
    except ValueError:
        raise LocalClusterError(
            f"--to takes earliest, latest, an offset, +N, -N or an ISO time such as 2026-01-31T12:00:00, not {to!r}."
        ) from None
    if instant.year < 1970:
        raise LocalClusterError(f"--to takes a time after 1970, not {to!r}.")
    return instant


def _targets(
    admin: Any, group: str, topic: str, partitions: list[int], target: str | int | datetime | _Shift
) -> dict[int, int]:
    """Return the new offset of each partition, within its log."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    places = [TopicPartition(topic, partition) for partition in partitions]
    lows = {place[1]: low for place, low in offsets(admin, places, OffsetSpec.earliest()).items()}
    highs = {place[1]: high for place, high in offsets(admin, places, OffsetSpec.latest()).items()}
    if isinstance(target, datetime):
        instant = OffsetSpec.for_timestamp(int(target.timestamp() * 1000))
        found = offsets(admin, places, instant)
        # No record is that new: -1.
        return {place[1]: offset if offset >= 0 else highs[place[1]] for place, offset in found.items()}
    if isinstance(target, str):
        return highs if target == "latest" else lows
    if isinstance(target, int):
        wanted = dict.fromkeys(partitions, target)
    else:
        committed = _committed(admin, group)
        wanted = {
            partition: committed[topic, partition] + target.records
            for partition in partitions
            if (topic, partition) in committed
        }
        if not wanted:
            raise LocalClusterError(
                f"group {group!r} has committed nothing in topic {topic!r}, so there is nothing to count from. "
                "Give an offset, earliest or latest."
            )
    return {partition: min(max(offset, lows[partition]), highs[partition]) for partition, offset in wanted.items()}
