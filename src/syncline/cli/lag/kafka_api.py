"""Lag of groups of any cluster that speaks Kafka's protocol: what its API tells, and what it cannot know.

The API knows commits, members and ends. It does not know when a record was appended, where an offset lies in a log, or
what a group committed before. The event time of a record is in the record, so the one at each commit is read.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from syncline.cli.coordinators import Described, describe_groups, list_groups
from syncline.cli.ends import Place, known_offsets
from syncline.cli.target import SILENT_S, admin_client, checked_bootstrap, client_config, no_answer, topic_names
from syncline.local.layout import LocalClusterError
from syncline.reassign.amounts import quoted

# How long the records at the commits may take to read, in all.
READ_S: Final = 3.0
# So many questions for commits are under way at once.
ASKED_MAX: Final = 100
WHAT_IS_UNKNOWN: Final = (
    "POSITION, TO-FETCH, BYTES, WAITING, CATCH-UP, RETENTION and STATUS are unknown here: Kafka's API does "
    "not report what a consumer fetches, where an offset lies in a log, when a record was appended, or what "
    "a group committed before. Syncline's brokers do: use --data."
)
WHAT_IS_LATE: Final = (
    "The log end (leo) is unknown, too. END was read after COMMITTED, so a lag may be too large by the "
    "records that arrived in between."
)
_DEAD: Final = "Dead"


class _Commits(NamedTuple):
    """What the coordinator of a group tells of it."""

    state: str
    members: list[Any]
    committed: dict[Place, int]

    @property
    def readers(self) -> dict[Place, Any]:
        """The member that reads each partition."""
        return {
            (part.topic, part.partition): member
            for member in self.members
            for part in (member.assignment.topic_partitions if member.assignment else [])
        }


class _Ends(NamedTuple):
    """Where partitions begin and end, and why that is not known of others."""

    starts: dict[Place, int]
    ends: dict[Place, int]
    stable: dict[Place, int]
    troubles: dict[Place, str]


def ask_groups(bootstrap: str) -> dict[str, Any]:
    """Return a row per group."""
    servers = checked_bootstrap(bootstrap)
    admin = admin_client(servers)
    listed = list_groups(servers)
    groups, refused = _commits(servers, admin, list(listed.states))
    found = _measured(admin, groups, listed.silent)
    return {
        "groups": [_summary(each) for each in found],
        "silent": {},
        "unknown": [*listed.missing, *refused.values(), WHAT_IS_UNKNOWN, WHAT_IS_LATE],
    }


def ask_group(bootstrap: str, group: str) -> dict[str, Any]:
    """Return one group with its partitions; raises `LocalClusterError` if there is none of this name."""
    servers = checked_bootstrap(bootstrap)
    admin = admin_client(servers)
    groups, refused = _commits(servers, admin, [group])
    if refused:
        raise LocalClusterError(refused[group])
    (found,) = _measured(admin, groups)
    if found["state"] == _DEAD and not groups[group].committed:
        raise LocalClusterError(f"there is no group {quoted(group)}. `syncline groups list` lists all groups.")
    unread = {(row["topic"], row["partition"]): row for row in found["rows"] if row["lag_hw"]}
    newest = newest_times(admin, list(unread.values()))
    for place, event_ms in times_at_commits(servers, list(unread.values())).items():
        if newest.get(place, -1) >= 0 and event_ms >= 0:
            unread[place]["event_lag_ms"] = max(0, newest[place] - event_ms)
    for row in found["rows"]:
        if row["lag_hw"] == 0:
            row["event_lag_ms"] = 0
    return {**found, "silent": {}, "unknown": [WHAT_IS_UNKNOWN, WHAT_IS_LATE]}


def _commits(servers: str, admin: Any, names: Sequence[str]) -> tuple[dict[str, _Commits], dict[str, str]]:
    """Return what is known of each group, and a sentence for each of which it is not told."""
    told: dict[str, Described] = {}
    refused: dict[str, str] = {}
    for first in range(0, len(names), ASKED_MAX):
        some_told, some_refused = describe_groups(servers, admin, names[first : first + ASKED_MAX])
        told |= some_told
        refused |= some_refused
    commits = {
        name: _Commits(
            state=each.group.state.name.title().replace("_", ""),
            members=each.group.members,
            committed=each.committed,
        )
        for name, each in told.items()
    }
    return commits, refused


def _measured(admin: Any, groups: Mapping[str, _Commits], silent: Collection[int] = ()) -> list[dict[str, Any]]:
    """Return each group with a row per partition. Its commits are known: ends only grow, so no lag is negative.

    Brokers that have been silent already are not asked again.
    """
    topics = topic_names(admin)
    places = {name: _places(group, topics) for name, group in groups.items()}
    ends = _ends(admin, sorted({place for some in places.values() for place in some}), topics, silent)
    return [_group(name, group, places[name], ends) for name, group in groups.items()]


def _group(name: str, group: _Commits, places: Sequence[Place], ends: _Ends) -> dict[str, Any]:
    readers = group.readers
    return {
        "group": name,
        "state": group.state,
        "members": len(group.members),
        "status": None,
        "rows": [_row(place, group, readers.get(place), ends) for place in places],
        "unanswered": [
            {"topic": place[0], "partition": place[1], "error": ends.troubles[place]}
            for place in places
            if place in ends.troubles
        ],
    }


def _places(group: _Commits, topics: Mapping[str, Any]) -> list[Place]:
    """Return the partitions that a group reads or has committed, and the others of these topics, where they exist."""
    read = {topic for topic, _ in group.committed}
    all_of_read = {(topic, index) for topic in read if topic in topics for index in topics[topic].partitions}
    assigned = {place for place in group.readers if place[0] in topics and place[1] in topics[place[0]].partitions}
    return sorted(all_of_read | assigned)


def _ends(admin: Any, places: Iterable[Place], topics: Mapping[str, Any], silent: Collection[int]) -> _Ends:
    """Return where partitions begin and end. One without a leader is not asked for: that takes until the time limit."""
    from confluent_kafka import IsolationLevel
    from confluent_kafka.admin import OffsetSpec

    leaders = {(topic, index): topics[topic].partitions[index].leader for topic, index in places}
    troubles = {place: no_answer(leader) for place, leader in leaders.items() if leader in silent}
    # All at once: each question waits for a leader that is silent.
    questions: list[tuple[Any, dict[str, Any]]] = [
        (OffsetSpec.earliest(), {}),
        (OffsetSpec.latest(), {}),
        (OffsetSpec.latest(), {"isolation_level": IsolationLevel.READ_COMMITTED}),
    ]
    with ThreadPoolExecutor(len(questions)) as threads:
        starts, ends, stable = threads.map(
            lambda each: known_offsets(admin, leaders, each[0], troubles, **each[1]), questions
        )
    return _Ends(starts, ends, stable, troubles)


def _row(place: Place, group: _Commits, member: Any, where: _Ends) -> dict[str, Any]:
    committed, start = group.committed.get(place), where.starts.get(place)
    end, stable = where.ends.get(place), where.stable.get(place)
    unread = max(0, end - committed) if committed is not None and end is not None else None
    lost = max(0, start - committed) if committed is not None and start is not None else 0
    return {
        "topic": place[0],
        "partition": place[1],
        "committed": committed,
        "fetch_offset": None,
        "fetch_lag": None,
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
    stable = [row["lag_lso"] for row in rows]
    worst = max(rows, key=lambda row: row["lag_hw"], default=None)
    return {
        "group": found["group"],
        "state": found["state"],
        "members": found["members"],
        "status": None,
        "partitions": len(found["rows"]),
        "without_commit": sum(row["committed"] is None for row in found["rows"]),
        "missing": len(found["unanswered"]),
        "lag_records": sum(row["lag_hw"] for row in rows) if rows else None,
        "lags": {
            "hw": sum(row["lag_hw"] for row in rows) if rows else None,
            "lso": None if None in stable or not rows else sum(stable),
            "leo": None,
        },
        "readable": sum(row["readable"] for row in rows) if rows else None,
        "lost": sum(row["lost"] for row in rows),
        "lag_bytes": None,
        "staleness_ms": None,
        "event_lag_ms": None,
        "catch_up_s": None,
        "retention_margin_s": None,
        "loses_data": False,
        "worst": None if worst is None else f"{worst['topic']}-{worst['partition']}",
    }


def newest_times(admin: Any, rows: list[dict[str, Any]]) -> dict[Place, int]:
    """Return the largest event time of each partition; not of those whose broker does not know this question."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    if not rows:
        return {}
    asked = {TopicPartition(row["topic"], row["partition"]): OffsetSpec.max_timestamp() for row in rows}
    found = {}
    for place, future in admin.list_offsets(asked, request_timeout=SILENT_S).items():
        try:
            found[place.topic, place.partition] = future.result(SILENT_S).timestamp
        except (KafkaException, TimeoutError):
            continue
    return found


def times_at_commits(servers: str, rows: list[dict[str, Any]]) -> dict[Place, int]:
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
