"""Lag of groups of any cluster that speaks Kafka's protocol: what its API tells, and what it cannot know.

The API knows commits, members and ends. It does not know when a record was appended, where an offset lies in a log, or
what a group committed before. The event time of a record is in the record, so the one at each commit is read.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from syncline.cli.target import (
    REQUEST_TIMEOUT_S,
    admin_client,
    checked_bootstrap,
    client_config,
    guarded,
    offsets,
    result_of,
    topic_names,
)
from syncline.local.layout import LocalClusterError

# How long the records at the commits may take to read, in all.
READ_S: Final = 3.0
WHAT_IS_UNKNOWN: Final = (
    "BYTES, WAITING, CATCH-UP, RETENTION and STATUS are unknown here: Kafka's API does not tell where an offset lies in"
    " a log, when a record was appended, or what a group committed before. Syncline's brokers know: use --data."
)
WHAT_IS_LATE: Final = (
    "Of ends, the log end (leo) is unknown, too. COMMITTED and END were asked for one after the other, so a lag may be"
    " too large by what came in between."
)
Place = tuple[str, int]


def ask_groups(bootstrap: str) -> dict[str, Any]:
    """Return a row per group."""
    admin = admin_client(checked_bootstrap(bootstrap))
    listed = result_of(admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S), "cannot list groups")
    names = sorted(each.group_id for each in listed.valid)
    topics = topic_names(admin)
    return {
        "groups": [_summary(_group(admin, name, topics)) for name in names],
        "silent": {},
        "unknown": [WHAT_IS_UNKNOWN, WHAT_IS_LATE],
    }


def ask_group(bootstrap: str, group: str) -> dict[str, Any]:
    """Return one group with its partitions; raises `LocalClusterError` if there is none of this name."""
    servers = checked_bootstrap(bootstrap)
    admin = admin_client(servers)
    found = _group(admin, group, topic_names(admin))
    if found["state"] == "Dead" and not found["rows"]:
        raise LocalClusterError(f"there is no group {group!r}. `syncline groups list` lists all groups.")
    unread = [row for row in found["rows"] if row["lag_hw"]]
    newest = _newest_times(admin, unread)
    for place, event_ms in _times_at_commits(servers, unread).items():
        row = next(each for each in unread if (each["topic"], each["partition"]) == place)
        if newest.get(place, -1) >= 0 and event_ms >= 0:
            row["event_lag_ms"] = max(0, newest[place] - event_ms)
    for row in found["rows"]:
        if row["lag_hw"] == 0:
            row["event_lag_ms"] = 0
    return {**found, "silent": {}, "unknown": [WHAT_IS_UNKNOWN, WHAT_IS_LATE]}


def _group(admin: Any, group: str, topics: Mapping[str, Any]) -> dict[str, Any]:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    what = f"cannot describe group {group!r}"
    described = result_of(guarded(what, lambda: admin.describe_consumer_groups([group]))[group], what)
    futures = guarded(what, lambda: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    listed = result_of(futures[group], what).topic_partitions
    # Commits first: ends only grow, so no lag is negative.
    committed = {(part.topic, part.partition): part.offset for part in listed if part.offset >= 0}
    readers = {
        (part.topic, part.partition): member
        for member in described.members
        for part in (member.assignment.topic_partitions if member.assignment else [])
    }
    places = sorted(
        place
        for place in {
            *committed,
            *readers,
            *((name, index) for name, _ in committed if name in topics for index in topics[name].partitions),
        }
        if place[0] in topics
    )
    there = [TopicPartition(*place) for place in places]
    starts, ends = offsets(admin, there, OffsetSpec.earliest()), offsets(admin, there, OffsetSpec.latest())
    stable = _stable_ends(admin, there)
    state = described.state.name.title().replace("_", "")
    return {
        "group": group,
        "state": state,
        "members": len(described.members),
        "status": None,
        "rows": [
            _row(place, committed.get(place), starts.get(place), ends.get(place), stable.get(place), readers.get(place))
            for place in places
        ],
        "unanswered": [],
    }


def _stable_ends(admin: Any, places: list[Any]) -> dict[Place, int]:
    """Return the last stable offset of each partition."""
    from confluent_kafka import IsolationLevel
    from confluent_kafka.admin import OffsetSpec

    if not places:
        return {}
    what = "cannot read offsets"
    level = IsolationLevel.READ_COMMITTED
    asked = dict.fromkeys(places, OffsetSpec.latest())
    futures = guarded(what, lambda: admin.list_offsets(asked, isolation_level=level, request_timeout=REQUEST_TIMEOUT_S))
    return {(place.topic, place.partition): result_of(future, what).offset for place, future in futures.items()}


def _row(
    place: Place, committed: int | None, start: int | None, end: int | None, stable: int | None, member: Any
) -> dict[str, Any]:
    unread = max(0, end - committed) if committed is not None and end is not None else None
    lost = max(0, start - committed) if committed is not None and start is not None else 0
    return {
        "topic": place[0],
        "partition": place[1],
        "committed": committed,
        "log_start": start,
        "ends": {"hw": end, "lso": stable, "leo": None},
        "lag_hw": unread,
        "lag_lso": max(0, stable - committed) if committed is not None and stable is not None else None,
        "lag_leo": None,
        "readable": None if unread is None else max(0, unread - lost),
        "lost": lost,
        "lag_bytes": None,
        "staleness_ms": None,
        "event_lag_ms": None,
        "catch_up_s": None,
        "retention_margin_s": None,
        "loses_data": False,
        "status": None,
        "is_estimated": False,
        "is_beyond_end": committed is not None and end is not None and committed > end,
        "member": "" if member is None else member.member_id,
        "client_id": "" if member is None else member.client_id,
        "host": "" if member is None else member.host,
    }


def _summary(found: dict[str, Any]) -> dict[str, Any]:
    rows = [row for row in found["rows"] if row["lag_hw"] is not None]
    worst = max(rows, key=lambda row: row["lag_hw"], default=None)
    return {
        "group": found["group"],
        "state": found["state"],
        "members": found["members"],
        "status": None,
        "partitions": len(found["rows"]),
        "without_commit": sum(row["committed"] is None for row in found["rows"]),
        "missing": sum(row["ends"]["hw"] is None for row in found["rows"]),
        "lag_records": sum(row["lag_hw"] for row in rows),
        "lags": {
            "hw": sum(row["lag_hw"] for row in rows),
            "lso": sum(row["lag_lso"] or 0 for row in rows),
            "leo": None,
        },
        "readable": sum(row["readable"] for row in rows),
        "lost": sum(row["lost"] for row in rows),
        "lag_bytes": None,
        "staleness_ms": None,
        "event_lag_ms": None,
        "catch_up_s": None,
        "retention_margin_s": None,
        "loses_data": False,
        "worst": None if worst is None else f"{worst['topic']}-{worst['partition']}",
    }


def _newest_times(admin: Any, rows: list[dict[str, Any]]) -> dict[Place, int]:
    """Return the largest event time of each partition; not of those whose broker does not know this question."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    if not rows:
        return {}
    asked = {TopicPartition(row["topic"], row["partition"]): OffsetSpec.max_timestamp() for row in rows}
    found = {}
    for place, future in admin.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_S).items():
        try:
            found[place.topic, place.partition] = future.result(REQUEST_TIMEOUT_S).timestamp
        except (KafkaException, TimeoutError):
            continue
    return found


def _times_at_commits(servers: str, rows: list[dict[str, Any]]) -> dict[Place, int]:
    """Return the event time of the next record of each row, as far as they can be read in a few seconds."""
    from confluent_kafka import Consumer, TopicPartition

    times: dict[Place, int] = {}
    places = [
        TopicPartition(row["topic"], row["partition"], max(row["committed"], row["log_start"] or 0)) for row in rows
    ]
    if not places:
        return times
    settings = {"group.id": "syncline-lag", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer(client_config(servers, **settings))
    try:
        consumer.assign(places)
        deadline_s = time.monotonic() + READ_S
        while len(times) < len(places) and time.monotonic() < deadline_s:
            message = consumer.poll(0.1)
            if message is None or message.error():
                continue
            place = (message.topic(), message.partition())
            if place not in times:
                times[place] = message.timestamp()[1]
                consumer.pause([TopicPartition(*place)])
    finally:
        consumer.close()
    return times
