"""`groups`: list, describe, delete, reset-offsets."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import typer

from syncline.cli.coordinators import describe_group, list_groups
from syncline.cli.ends import Place, known_offsets, leaders_of, offsets
from syncline.cli.screen import print_table, say, warn
from syncline.cli.target import (
    REQUEST_TIMEOUT_S,
    SILENT_S,
    BootstrapOption,
    DataOption,
    JsonOption,
    admin_client,
    bootstrap_of,
    code_of,
    counted,
    find_topic,
    guarded,
    refuse,
    result_of,
    topic_names,
)
from syncline.cli.up_options import DEFAULT_DIRECTORY
from syncline.local.layout import LocalClusterError
from syncline.model.errors import ErrorCode
from syncline.model.shown_names import shown_name
from syncline.reassign.amounts import quoted

# The state of a group that does not exist.
DEAD: Final = "DEAD"

app = typer.Typer(no_args_is_help=True, help="List, describe, delete and reset consumer groups.")

GroupArgument = Annotated[str, typer.Argument(help="Id of the group.")]


@app.command("list")
def list_all(
    bootstrap: BootstrapOption = None, data: DataOption = DEFAULT_DIRECTORY, as_json: JsonOption = False
) -> None:
    """List consumer groups."""
    listed = list_groups(bootstrap_of(bootstrap, data))
    rows = [{"group": group, "state": state} for group, state in listed.states.items()]
    if as_json:
        print(json.dumps(rows))
    elif rows:
        print_table(["GROUP", "STATE"], [[shown_name(row["group"]), _words(row["state"])] for row in rows])
    elif not listed.missing:
        say("no groups")
    for sentence in listed.missing:
        # Not among the rows, which programs read.
        warn(sentence)


@app.command(short_help="Show a group's members and lag.")
def describe(
    group: GroupArgument,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Describe a group: its members, and for each partition the committed offset, the end and the lag in records."""
    servers = bootstrap_of(bootstrap, data)
    admin = admin_client(servers)
    described, committed = describe_group(servers, admin, group)
    members = {
        (part.topic, part.partition): member.client_id
        for member in described.members
        for part in (member.assignment.topic_partitions if member.assignment else [])
    }
    rows = _lag_rows(admin, committed, members)
    state = described.state.name.lower()
    if state == DEAD.lower() and not rows:
        raise _no_group(group)
    if as_json:
        print(json.dumps({"group": group, "state": state, "members": len(described.members), "partitions": rows}))
        return
    say(f"group {shown_name(group)}: {_words(state)}, {counted(len(described.members), 'member')}")
    if rows:
        numbers = ("committed", "end", "lag")
        print_table(
            ["TOPIC", "PARTITION", *map(str.upper, numbers), "MEMBER"],
            [
                [
                    *(row["topic"], row["partition"]),
                    *("-" if row[name] is None else f"{row[name]:,}" for name in numbers),
                    shown_name(row["member"] or "-"),
                ]
                for row in rows
            ],
        )
    else:
        say("it has no committed offsets in an existing topic, and no member reads one")
    for row in rows:
        if row["unknown"]:
            say(f"{row['topic']}-{row['partition']}: the end is unknown ({row['unknown']})")


@app.command(short_help="Delete groups and their committed offsets.")
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Ids of the groups.")],
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Delete groups and their committed offsets; they must have no members."""
    servers = bootstrap_of(bootstrap, data)
    admin = admin_client(servers)
    unique = list(dict.fromkeys(groups))
    what = "cannot delete groups"
    futures = guarded(what, lambda: admin.delete_consumer_groups(unique, request_timeout=REQUEST_TIMEOUT_S))
    deleted = []
    refusals = []
    for group in unique:
        try:
            _check_deleted(servers, admin, group, futures[group])
        except LocalClusterError as refusal:
            refusals.append(refusal)
            continue
        deleted.append(group)
        if not as_json:
            say(f"deleted group {shown_name(group)}")
    if as_json:
        print(json.dumps({"deleted": deleted}))
    if refusals:
        raise LocalClusterError(" ".join(map(str, refusals)))


def _check_deleted(servers: str, admin: Any, group: str, future: Any) -> None:
    """Raise `LocalClusterError` with what to do if a group was not deleted."""
    from confluent_kafka import KafkaError

    code = code_of(future)
    if code == KafkaError.GROUP_ID_NOT_FOUND:
        raise _no_group(group)
    if code == KafkaError.NON_EMPTY_GROUP:
        described = describe_group(servers, admin, group).group
        raise _has_members(group, len(described.members), "Only a group without members can be deleted.")
    result_of(future, f"cannot delete group {quoted(group)}")


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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the changes (the default).")] = False,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Move a group's committed offsets; the group must have no members.

    Without --execute, the command shows what the group would read again or skip: records, bytes, and seconds between
    appends.
    """
    from syncline.cli.lag import reset_effects
    from syncline.local.control import controls

    if dry_run and execute:
        raise LocalClusterError("--dry-run changes nothing and --execute does: give one of them.")
    target = _parse_target(to)
    servers = bootstrap_of(bootstrap, data)
    admin = admin_client(servers)
    found = find_topic(admin, topic).partitions
    _check_leaders(topic, found)
    # Who only looks wants to know soon what is silent; a change may wait for it.
    patience_s = REQUEST_TIMEOUT_S if execute else SILENT_S
    described, before = describe_group(servers, admin, group, patience_s=patience_s)
    leaders = leaders_of(topic, found)
    is_new, member_count = described.state.name == DEAD and not before, len(described.members)
    if execute and member_count:
        raise _has_members(group, member_count, "Only the offsets of a group without members can be reset.")
    targets = _targets(admin, group, topic, leaders, target, before, patience_s)
    result = {"group": group, "topic": topic, "offsets": targets, "executed": execute}
    result |= {"members": member_count, "is_new_group": is_new}
    if not execute:
        committed = {index: offset for (name, index), offset in before.items() if name == topic}
        if bootstrap is None:
            led_by = {index: leader for (_, index), leader in leaders.items()}
            known = reset_effects.by_brokers(controls(data), led_by, topic, committed, targets)
        else:
            known = reset_effects.by_kafka(admin, servers, leaders, topic, committed, targets)
        warning = _warning(group, member_count, is_new=is_new)
        reset_effects.show(topic, known, warning, json_fields=result if as_json else None)
        return
    _commit(admin, group, topic, targets)
    if as_json:
        print(json.dumps(result))
        return
    print_table(
        ["TOPIC", "PARTITION", "NEW OFFSET"], [[topic, partition, offset] for partition, offset in targets.items()]
    )
    if is_new:
        say(f"there was no group {quoted(group)} before; it now has only these offsets")


def _no_group(group: str) -> LocalClusterError:
    """Return the error for a group that does not exist."""
    return LocalClusterError(f"there is no group {quoted(group)}. `syncline groups list` lists all groups.")


def _has_members(group: str, count: int, rule: str) -> LocalClusterError:
    """Return the error for a change that `rule` forbids while a group has members."""
    them = "it" if count == 1 else "them"
    return LocalClusterError(f"group {quoted(group)} has {counted(count, 'member')}: stop {them} first. {rule}")


def _commit(admin: Any, group: str, topic: str, targets: Mapping[int, int]) -> None:
    """Commit these offsets for a group; raises `LocalClusterError` if one of them is refused."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    wanted = [TopicPartition(topic, partition, offset) for partition, offset in targets.items()]
    what = f"cannot reset the offsets of group {quoted(group)}"
    asked = [ConsumerGroupTopicPartitions(group, wanted)]
    futures = guarded(what, lambda: admin.alter_consumer_group_offsets(asked))
    for place in result_of(futures[group], what).topic_partitions:
        if place.error is not None:
            refuse(f"{what} in {place.topic}-{place.partition}", place.error)


def _words(state: str) -> str:
    """Return the client library's name of a state, such as preparing_rebalancing, as `syncline lag` writes it."""
    return state.replace("_rebalancing", " rebalance")


def _check_leaders(topic: str, partitions: Mapping[int, Any]) -> None:
    """Raise `LocalClusterError` if a partition has no leader: a reset of the others alone would be half a reset."""
    lacking = [index for index, each in sorted(partitions.items()) if each.leader < 0]
    if lacking:
        raise LocalClusterError(
            f"cannot reset offsets of topic {topic!r} while these partitions have no leader: "
            f"{', '.join(map(str, lacking))}. Syncline's brokers know why: `syncline why "
            f"{topic}:{lacking[0]}`."
        )


def _warning(group: str, member_count: int, *, is_new: bool) -> str:
    """Return what is to be known before a reset is executed; "" if nothing is."""
    if member_count:
        return f"group {quoted(group)} has {counted(member_count, 'member')}: --execute is refused until it has none"
    if is_new:
        return f"there is no group {quoted(group)}: --execute would create it. `syncline groups list` lists all groups"
    return ""


def _lag_rows(admin: Any, committed: Mapping[Place, int], members: Mapping[Place, str]) -> list[dict[str, Any]]:
    from confluent_kafka.admin import OffsetSpec

    topics = topic_names(admin)
    places = sorted({*committed, *members})
    troubles: dict[Place, str] = {}
    leaders = {}
    for topic, index in places:
        # A topic may have been deleted; the group's offsets for it remain for a while.
        partitions = topics[topic].partitions if topic in topics else {}
        if index in partitions:
            leaders[topic, index] = partitions[index].leader
        else:
            troubles[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
    ends = known_offsets(admin, leaders, OffsetSpec.latest(), troubles)
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
                "unknown": troubles.get(place),
            }
        )
    return rows


class _Shift(NamedTuple):
    """A number of records forward (or back) from the committed offset."""

    records: int


def _parse_target(to: str) -> str | int | datetime | _Shift:
    """Return the target of a reset: a word, an offset, an instant or a shift."""
    if to in ("earliest", "latest"):
        return to
    if re.fullmatch(r"\d{1,99}", to, re.ASCII):
        return int(to)
    if re.fullmatch(r"[+-]\d{1,99}", to, re.ASCII):
        return _Shift(int(to))
    try:
        instant = datetime.fromisoformat(to)
    except ValueError:
        raise LocalClusterError(
            f"--to takes earliest, latest, an offset, +N, -N or an ISO time such as 2026-01-31T12:00:00, "
            f"not {quoted(to)}."
        ) from None
    try:
        is_late_enough = instant.timestamp() >= 0
    except (OverflowError, ValueError):
        is_late_enough = False
    if not is_late_enough:
        raise LocalClusterError(f"--to takes a time in or after 1970, not {quoted(to)}.")
    return instant


def _targets(
    admin: Any,
    group: str,
    topic: str,
    leaders: Mapping[Place, int],
    target: str | int | datetime | _Shift,
    committed: Mapping[Place, int],
    patience_s: float,
) -> dict[int, int]:
    """Return the new offset of each partition, within its log."""
    from confluent_kafka.admin import OffsetSpec

    def at(spec: Any) -> dict[int, int]:
        return {index: offset for (_, index), offset in offsets(admin, leaders, spec, patience_s=patience_s).items()}

    partitions = [index for _, index in leaders]
    lows, highs = at(OffsetSpec.earliest()), at(OffsetSpec.latest())
    if isinstance(target, datetime):
        found = at(OffsetSpec.for_timestamp(int(target.timestamp() * 1000)))
        # No record is that new: -1.
        return {index: offset if offset >= 0 else highs[index] for index, offset in found.items()}
    if isinstance(target, str):
        return highs if target == "latest" else lows
    if isinstance(target, int):
        wanted = dict.fromkeys(partitions, target)
    else:
        wanted = {
            partition: committed[topic, partition] + target.records
            for partition in partitions
            if (topic, partition) in committed
        }
        if not wanted:
            raise LocalClusterError(
                f"group {quoted(group)} has no committed offsets in topic {topic!r} to count from. Name an "
                "offset, earliest or latest."
            )
    return {partition: min(max(offset, lows[partition]), highs[partition]) for partition, offset in wanted.items()}
