"""Requests of consumer groups as steps; see `requests`."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.apis import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from tests.conformance.requests import partition_pairs, topic_rows
from tests.conformance.steps import Step, Subscription, coordinator, name


def consumer_subscription(*topics: str) -> bytes:
    """Return version 0 of the consumer protocol's subscription; coordinators parse it."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


SOME_PROTOCOLS = (("range", consumer_subscription("some-topic")),)


def find_coordinator(version: int, *keys: Any, key_type: int = 0, **more: Any) -> Step:
    """Return a FindCoordinator; below v4 for exactly one key."""
    if version >= 4:
        body: dict[str, Any] = {"key_type": key_type, "coordinator_keys": [name(key) for key in keys]}
    else:
        body = {"key": name(keys[0]), "key_type": key_type}
    return Step(key=FIND_COORDINATOR, version=version, body=body, **more)


def join(
    version: int,
    group: Any = "g",
    *,
    member: Any = "",
    protocols: Any = SOME_PROTOCOLS,
    protocol_type: str = "consumer",
    session: int = 30_000,
    rebalance: int = 30_000,
    instance: str | None = None,
    **more: Any,
) -> Step:
    """Return a JoinGroup."""
    body = {
        "group_id": name(group),
        "session_timeout": session,
        "rebalance_timeout": rebalance,
        "member_id": member,
        "protocol_type": protocol_type,
        "protocols": [{"name": each, "metadata": data} for each, data in protocols],
        "reason": more.pop("reason", None),
    }
    if instance is not None:
        body["group_instance_id"] = instance
    more.setdefault("to", coordinator(group))
    return Step(key=JOIN_GROUP, version=version, body=body, **more)


def subscribing(*topics: str) -> tuple[tuple[str, Any], ...]:
    """Return a protocol list that subscribes to topics as the consumer protocol does."""
    return (("range", Subscription(topics)),)


def sync(version: int, group: Any = "g", *, member: Any, generation: Any, assignments: Any = (), **more: Any) -> Step:
    """Return a SyncGroup; `assignments` are pairs of member and bytes."""
    body = {
        "group_id": name(group),
        "generation_id": generation,
        "member_id": member,
        "assignments": [{"member_id": each, "assignment": data} for each, data in assignments],
        "protocol_type": more.pop("protocol_type", "consumer"),
        "protocol_name": more.pop("protocol_name", "range"),
    }
    if "instance" in more:
        body["group_instance_id"] = more.pop("instance")
    more.setdefault("to", coordinator(group))
    return Step(key=SYNC_GROUP, version=version, body=body, **more)


def heartbeat(version: int, group: Any = "g", *, member: Any, generation: Any, **more: Any) -> Step:
    """Return a Heartbeat."""
    body = {"group_id": name(group), "generation_id": generation, "member_id": member}
    if "instance" in more:
        body["group_instance_id"] = more.pop("instance")
    more.setdefault("to", coordinator(group))
    return Step(key=HEARTBEAT, version=version, body=body, **more)


def leave(version: int, group: Any = "g", *, members: Sequence[Any] = (), **more: Any) -> Step:
    """Return a LeaveGroup; members are ids or pairs of id and instance, below v3 exactly one id."""
    pairs = [each if isinstance(each, tuple) else (each, None) for each in members]
    body: dict[str, Any] = {"group_id": name(group)}
    if version >= 3:
        body["members"] = [
            {"member_id": member, "group_instance_id": instance, "reason": None} for member, instance in pairs
        ]
    else:
        body["member_id"] = pairs[0][0]
    more.setdefault("to", coordinator(group))
    return Step(key=LEAVE_GROUP, version=version, body=body, **more)


def commit(version: int, group: Any, topics: Any, *, member: Any = "", generation: Any = -1, **more: Any) -> Step:
    """Return an OffsetCommit; partitions map to an offset, or to fields of the partition."""
    rows = [
        {
            "name": name(topic),
            "partitions": [
                {
                    "partition_index": index,
                    "committed_metadata": "",
                    **(wanted if isinstance(wanted, Mapping) else {"committed_offset": wanted}),
                }
                for index, wanted in partition_pairs(partitions)
            ],
        }
        for topic, partitions in topic_rows(topics)
    ]
    body = {"group_id": name(group), "generation_id_or_member_epoch": generation, "member_id": member, "topics": rows}
    if "instance" in more:
        body["group_instance_id"] = more.pop("instance")
    more.setdefault("to", coordinator(group))
    return Step(key=OFFSET_COMMIT, version=version, body=body, **more)


def fetch_offsets(version: int, group: Any, topics: Any, **more: Any) -> Step:
    """Return an OffsetFetch for one group; topics map to partition indexes, None asks for all."""
    rows = None
    if topics is not None:
        rows = [{"name": name(topic), "partition_indexes": list(indexes)} for topic, indexes in topic_rows(topics)]
    stable = {"require_stable": more.pop("require_stable", False)}
    if version >= 8:
        one = {"group_id": name(group), "topics": rows}
        one.update({option: more.pop(option) for option in ("member_id", "member_epoch") if option in more})
        body: dict[str, Any] = {"groups": [one], **stable}
    else:
        body = {"group_id": name(group), "topics": rows, **stable}
    more.setdefault("to", coordinator(group))
    return Step(key=OFFSET_FETCH, version=version, body=body, **more)


def describe_groups(version: int, *groups: Any, **more: Any) -> Step:
    """Return a DescribeGroups."""
    body = {
        "groups": [name(group) for group in groups],
        "include_authorized_operations": more.pop("authorized", False),
    }
    more.setdefault("to", coordinator(groups[0] if groups else "g"))
    return Step(key=DESCRIBE_GROUPS, version=version, body=body, **more)


def list_groups(version: int, *, states: Sequence[str] = (), types: Sequence[str] = (), **more: Any) -> Step:
    """Return a ListGroups; other sequences' groups are left out of its answer."""
    more.setdefault("to", coordinator("g"))
    body = {"states_filter": list(states), "types_filter": list(types)}
    return Step(key=LIST_GROUPS, version=version, body=body, own_rows=True, **more)


def delete_groups(version: int, *groups: Any, **more: Any) -> Step:
    """Return a DeleteGroups."""
    more.setdefault("to", coordinator(groups[0] if groups else "g"))
    return Step(key=DELETE_GROUPS, version=version, body={"groups_names": [name(group) for group in groups]}, **more)


def delete_offsets(group: Any, topics: Any, **more: Any) -> Step:
    """Return an OffsetDelete."""
    rows = [
        {"name": name(topic), "partitions": [{"partition_index": index} for index in indexes]}
        for topic, indexes in topic_rows(topics)
    ]
    more.setdefault("to", coordinator(group))
    return Step(key=OFFSET_DELETE, version=0, body={"group_id": name(group), "topics": rows}, **more)
