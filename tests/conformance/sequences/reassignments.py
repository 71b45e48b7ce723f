"""Reassignments among brokers that are all there: what is refused, what is done at once, and one that completes."""

from typing import Any

from tests.conformance.apis import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS, every
from tests.conformance.batches import batch
from tests.conformance.requests import (
    create_partitions,
    delete_topics,
    elect_leaders,
    fetch,
    list_reassignments,
    metadata,
    produce,
    reassign,
)
from tests.conformance.steps import Action, BrokerNumber, Name, Pause, broker, exact, leader, sequence, topic

VERSIONS = every(ALTER_PARTITION_REASSIGNMENTS)
B0, B1, B2 = BrokerNumber(0), BrokerNumber(1), BrokerNumber(2)
# Until the broker that is asked knows of a change that it forwarded.
SOON = Pause(60)
# Until a reassignment is over.
DONE: dict[str, Any] = {"topics": []}


def over(short: str = "t", partition: int = 0) -> Action:
    """Ask until a partition is not reassigned any more."""
    return list_reassignments({short: [partition]}, settle=DONE)


@sequence(*VERSIONS, t=topic((0, 1)))
def unknown(version: int) -> list[Action]:
    """Unknown topics and partitions are 3, beside others."""
    return [
        reassign(version, {exact("nope"): {0: [B0]}}),
        reassign(version, {"t": {9: [B0], -1: [B0]}}),
        reassign(version, {exact("nope"): {0: None, 1: []}, "t": {7: None}}),
        reassign(version, {exact(""): {0: [B0]}, exact("a b"): {0: [B0]}}),
        metadata(9, ["t"]),
    ]


@sequence(*VERSIONS, t=topic((0, 1)))
def bad_replicas(version: int) -> list[Action]:
    """None, one twice, unknown ones, negative ones: 39."""
    rows: tuple[list[Any], ...] = ([], [B0, B0], [B2, B1, B2], [B0, 99], [99, 98], [-1], [B0, -1, -1], [99, 99])
    return [*(reassign(version, {"t": {0: row}}) for row in rows), metadata(9, ["t"])]


@sequence(*VERSIONS, t=topic((0, 1), (0, 1)))
def refusal_beside_success(version: int) -> list[Action]:
    """Each partition for itself."""
    return [
        reassign(version, {"t": {0: [B0, 99], 1: [B1, B0], 5: [B0]}}),
        SOON,
        metadata(9, ["t"]),
    ]


@sequence(*VERSIONS, t=topic((0, 1)))
def nothing_to_cancel(version: int) -> list[Action]:
    """Null for a partition that is not being reassigned is 85, however often."""
    return [reassign(version, {"t": {0: None}}), reassign(version, {"t": [(0, None), (0, None)]})]


@sequence(*VERSIONS, t=topic((0, 1)))
def same_replicas(version: int) -> list[Action]:
    """What it has already: fine, and nothing changes."""
    return [reassign(version, {"t": {0: [B0, B1]}}), list_reassignments({"t": [0]}), metadata(9, ["t"])]


@sequence(*VERSIONS, t=topic((0, 1, 2)))
def reordered(version: int) -> list[Action]:
    """Another order is done at once; the leader stays."""
    return [
        reassign(version, {"t": {0: [B2, B0, B1]}}),
        list_reassignments({"t": [0]}),
        SOON,
        metadata(9, ["t"]),
    ]


@sequence(*every(ELECT_LEADERS), t=topic((0, 1, 2)))
def reordered_and_elected(version: int) -> list[Action]:
    """The new first replica leads after a preferred election; then there is nothing to elect."""
    return [
        reassign(1, {"t": {0: [B2, B0, B1]}}),
        elect_leaders(version, {"t": [0]}),
        elect_leaders(version, {"t": [0]}),
        metadata(9, ["t"], settle={"topics.0.partitions.0.leader_epoch": 1}),
    ]


@sequence(*VERSIONS, t=topic((0, 1, 2)))
def fewer(version: int) -> list[Action]:
    """Replicas in sync that are not wanted go; the leader stays, in the next epoch."""
    return [
        reassign(version, {"t": {0: [B0, B1]}}),
        over(),
        metadata(9, ["t"], settle={"topics.0.partitions.0.leader_epoch": 1}),
    ]


@sequence(*VERSIONS, t=topic((0, 1, 2)))
def fewer_without_the_leader(version: int) -> list[Action]:
    """The first of those that stay leads."""
    return [
        reassign(version, {"t": {0: [B2, B1]}}),
        over(),
        metadata(9, ["t"], settle={"topics.0.partitions.0.leader_epoch": 1}),
    ]


@sequence(*VERSIONS, t=topic((0,)))
def replaced(version: int) -> list[Action]:
    """Its records are at the new replica, which leads."""
    return [
        produce(9, {"t": {0: batch("a", "b")}}),
        reassign(version, {"t": {0: [B1]}}),
        over(),
        metadata(9, ["t"], settle={"topics.0.partitions.0.leader_epoch": 1}),
        produce(9, {"t": {0: batch("c")}}, to=broker(1)),
        fetch(11, {"t": {0: 0}}, to=broker(1)),
        produce(9, {"t": {0: batch("d")}}, to=broker(0)),
    ]


@sequence(*VERSIONS, t=topic((0,)))
def more(version: int) -> list[Action]:
    """Replicas are added; the leader and its epoch stay."""
    return [
        produce(9, {"t": {0: batch("a")}}),
        reassign(version, {"t": {0: [B0, B1, B2]}}),
        over(),
        produce(9, {"t": {0: batch("b")}}, to=leader("t")),
    ]


@sequence(*VERSIONS, t=topic((0, 1)))
def no_time(version: int) -> list[Action]:
    """Without time it is 7 at the top and for each partition, and nothing changes."""
    return [
        *(reassign(version, {"t": {0: [B1, B0], 5: None}, exact("nope"): {0: []}}, timeout=each) for each in (0, -1)),
        reassign(version, {}, timeout=0),
        metadata(9, ["t"]),
    ]


@sequence(*VERSIONS, t=topic((0, 1)))
def nothing(version: int) -> list[Action]:
    """No topics, and topics without partitions."""
    return [reassign(version, {}), reassign(version, {"t": {}}), reassign(version, {exact("nope"): {}})]


@sequence(*VERSIONS, t=topic((0, 1), (0, 1)))
def duplicates(version: int) -> list[Action]:
    """A partition may be named twice, and so may a topic."""
    return [
        reassign(version, {"t": [(0, [B1, B0]), (0, [B0, B1])]}),
        reassign(version, [(Name("t"), {0: [B0, 99]}), (Name("t"), {0: [B1, B0]})]),
        reassign(version, [(Name("t"), {0: [B0, B1]}), (Name("t"), {1: [B1, B0]}), (Name("t"), {0: [B1, B0]})]),
        SOON,
        metadata(9, ["t"]),
    ]


@sequence(*VERSIONS, t=topic((0, 1)))
def every_broker(version: int) -> list[Action]:
    """Any broker takes the request, and lists."""
    return [
        *(reassign(version, {"t": {0: [B0, B1]}}, to=broker(rank)) for rank in range(3)),
        *(list_reassignments({"t": [0]}, to=broker(rank)) for rank in range(3)),
    ]


@sequence(1, t=topic((0, 1), (0, 1)))
def factor_kept(version: int) -> list[Action]:
    """A change of the replication factor that is not allowed is 38; the answer repeats what was allowed."""
    return [
        reassign(version, {"t": {0: [B0], 1: [B1, B0]}}, allow=False),
        reassign(version, {"t": {0: [B0, B1, B2]}}, allow=False),
        reassign(version, {"t": {0: []}}, allow=False),
        reassign(version, {"t": {0: [B0, 99]}}, allow=False),
        reassign(version, {"t": {0: [B0, 99, 98]}}, allow=False),
        reassign(version, {"t": {0: None}}, allow=False),
        reassign(version, {exact("nope"): {0: [B0]}}, allow=False),
        reassign(version, {"t": {0: [B1, B0]}}, allow=False, timeout=0),
        SOON,
        metadata(9, ["t"]),
    ]


@sequence(*VERSIONS, t=topic((0,)))
def of_a_deleted_topic(version: int) -> list[Action]:
    """It is unknown."""
    return [delete_topics(4, "t"), reassign(version, {"t": {0: [B1]}}), reassign(version, {"t": {0: None}})]


@sequence(*VERSIONS, t=topic((0,)))
def partitions_added_after(version: int) -> list[Action]:
    """New partitions have the new replication factor."""
    return [
        reassign(version, {"t": {0: [B0, B1]}}),
        over(),
        create_partitions(3, ("t", 2, [[B1, B2]])),
        create_partitions(3, ("t", 3, [[B1]])),
        metadata(9, ["t"], settle={"topics.0.partitions.1.error_code": 0}),
    ]


@sequence(0, t=topic((0, 1)))
def listing_nothing(version: int) -> list[Action]:
    """All, none, unknown ones, none of a topic: nothing is being reassigned."""
    return [
        list_reassignments(None, version=version),
        list_reassignments({}, version=version),
        list_reassignments({"t": []}, version=version),
        list_reassignments({"t": [0, 5, -1]}, version=version),
        list_reassignments({exact("nope"): [0], exact(""): [0]}, version=version),
        list_reassignments({"t": [0]}, version=version, timeout=0),
        list_reassignments({"t": [0]}, version=version, timeout=-1),
    ]
