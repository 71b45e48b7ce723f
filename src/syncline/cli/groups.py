"""`groups`: list, describe, reset-offsets."""

import json
from datetime import datetime
from typing import Annotated, Any

import typer

from syncline.cli.target import (
    DEFAULT_DIRECTORY,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    DataOption,
    JsonOption,
    admin_client,
    bootstrap_of,
    client_config,
    guarded,
    print_table,
    result_of,
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


@app.command()
def describe(
    group: GroupArgument,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Describe a group: its members, and per partition the committed offset, the end and the lag in records."""
    servers = bootstrap_of(bootstrap, data)
    admin = admin_client(servers)
    described = result_of(admin.describe_consumer_groups([group])[group], f"cannot describe group {group!r}")
    members = {
        (part.topic, part.partition): member.client_id
        for member in described.members
        for part in (member.assignment.topic_partitions if member.assignment else [])
    }
    rows = _lag_rows(admin, servers, group, members)
    state = described.state.name.lower()
    if state == "dead" and not rows:
        raise LocalClusterError(f"there is no group {group!r}. `syncline groups list` shows those that are.")
    if as_json:
        print(json.dumps({"group": group, "state": state, "members": len(described.members), "partitions": rows}))
        return
    print(f"group {group}: {state}, {len(described.members)} members")
    if rows:
        print_table(
            ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"],
            [
                [row["topic"], row["partition"], row["committed"], row["end"], row["lag"], row["member"] or "-"]
                for row in rows
            ],
        )


@app.command("reset-offsets")
def reset_offsets(
    group: GroupArgument,
    topic: Annotated[str, typer.Option("--topic", "-t", help="Topic whose offsets are reset.")],
    to: Annotated[
        str,
        typer.Option(help="earliest, latest, an offset, +N or -N records, or an ISO time such as 2026-01-31T12:00:00."),
    ],
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without, only show what would be done.")] = False,
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DIRECTORY,
    as_json: JsonOption = False,
) -> None:
    """Move a group's committed offsets; the group must have no members."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    servers = bootstrap_of(bootstrap, data)
    admin = admin_client(servers)
    metadata = guarded("cannot list topics", lambda: admin.list_topics(topic, timeout=REQUEST_TIMEOUT_S))
    if metadata.topics[topic].error is not None:
        raise LocalClusterError(f"there is no topic {topic!r}. `syncline topics list` shows those that are.")
    partitions = sorted(metadata.topics[topic].partitions)
    targets = _targets(admin, servers, group, topic, partitions, to)
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


def _lag_rows(admin: Any, servers: str, group: str, members: dict[tuple[str, int], str]) -> list[dict[str, Any]]:
    from confluent_kafka import Consumer, ConsumerGroupTopicPartitions

    listed = result_of(
        admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group],
        f"cannot read the offsets of group {group!r}",
    )
    committed = {(part.topic, part.partition): part.offset for part in listed.topic_partitions}
    consumer = Consumer(client_config(servers, **{"group.id": "syncline-cli"}))
    rows = []
    try:
        from confluent_kafka import TopicPartition

        for topic, partition in sorted({*committed, *members}):
            offset = committed.get((topic, partition), -1)
            _, end = guarded(
                "cannot read offsets",
                lambda topic=topic, partition=partition: consumer.get_watermark_offsets(  # type: ignore[misc]
                    TopicPartition(topic, partition), timeout=REQUEST_TIMEOUT_S
                ),
            )
            rows.append(
                {
                    "topic": topic,
                    "partition": partition,
                    "committed": offset if offset >= 0 else None,
                    "end": end,
                    "lag": end - offset if offset >= 0 else None,
                    "member": members.get((topic, partition)),
                }
            )
    finally:
        consumer.close()
    return rows


def _targets(admin: Any, servers: str, group: str, topic: str, partitions: list[int], to: str) -> dict[int, int]:
    """Return the new offset of each partition, within what exists."""
    from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

    consumer = Consumer(client_config(servers, **{"group.id": "syncline-cli"}))
    try:
        bounds = {
            partition: guarded(
                "cannot read offsets",
                lambda partition=partition: consumer.get_watermark_offsets(  # type: ignore[misc]
                    TopicPartition(topic, partition), timeout=REQUEST_TIMEOUT_S
                ),
            )
            for partition in partitions
        }
        if to in ("earliest", "latest"):
            return {partition: bounds[partition][to == "latest"] for partition in partitions}
        if to[:1] in "+-" and to[1:].isdigit():
            listed = result_of(
                admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group], "cannot read offsets"
            )
            committed = {part.partition: part.offset for part in listed.topic_partitions if part.topic == topic}
            return {
                partition: min(max(committed[partition] + int(to), bounds[partition][0]), bounds[partition][1])
                for partition in partitions
                if committed.get(partition, -1) >= 0
            }
        if to.isdigit():
            return {partition: min(max(int(to), low), high) for partition, (low, high) in bounds.items()}
        try:
            instant_ms = int(datetime.fromisoformat(to).timestamp() * 1000)
        except ValueError:
            raise LocalClusterError(
                f"--to takes earliest, latest, an offset, +N, -N or an ISO time, not {to!r}."
            ) from None
        found = consumer.offsets_for_times(
            [TopicPartition(topic, partition, instant_ms) for partition in partitions], timeout=REQUEST_TIMEOUT_S
        )
        return {part.partition: part.offset if part.offset >= 0 else bounds[part.partition][1] for part in found}
    finally:
        consumer.close()
