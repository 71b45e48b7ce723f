"""Reassignments that wait for a broker that is away: their states, other requests for them, cancellations."""

from typing import Any

from tests.conformance.apis import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS, every
from tests.conformance.batches import batch
from tests.conformance.requests import (
    SET,
    TOPIC_RESOURCE,
    UNCLEAN,
    change_configs,
    create_partitions,
    delete_topics,
    elect_leaders,
    fetch,
    list_reassignments,
    metadata,
    produce,
    reassign,
)
from tests.conformance.settings import DEPARTED
from tests.conformance.steps import Action, BrokerNumber, Departure, Name, Pause, broker, exact, sequence, topic

WORLD = DEPARTED
VERSIONS = every(ALTER_PARTITION_REASSIGNMENTS)
B0, B1, B2, GONE = BrokerNumber(0), BrokerNumber(1), BrokerNumber(2), BrokerNumber(3)
ALONE = (3,)
# Until the broker that is asked knows of a change that it forwarded.
SOON = Pause(60)


def listed(*partitions: int) -> Action:
    """List partitions of t."""
    return list_reassignments({"t": list(partitions or (0,))})


def epoch(number: int) -> Action:
    """Ask for the metadata of t until the leader epoch is this one."""
    return metadata(9, ["t"], settle={"topics.0.partitions.0.leader_epoch": number})


@sequence(*VERSIONS, t=topic((0, 1)))
def waiting(version: int) -> list[Action]:
    """It adds the one and will remove the other; records are accepted meanwhile, from the same leader."""
    return [
        Departure(),
        reassign(version, {"t": {0: [B0, GONE]}}),
        listed(),
        SOON,
        epoch(0),
        produce(9, {"t": {0: batch("a")}}),
        fetch(11, {"t": {0: 0}}),
    ]


@sequence(*VERSIONS, t=topic((0, 1)))
def added(version: int) -> list[Action]:
    """Nothing is removed."""
    return [Departure(), reassign(version, {"t": {0: [B0, B1, GONE]}}), listed(), SOON, epoch(0)]


@sequence(*VERSIONS, t=topic((0, 1)))
def first_is_away(version: int) -> list[Action]:
    """The wanted order stands first, and the leader stays."""
    return [Departure(), reassign(version, {"t": {0: [GONE, B0]}}), listed(), SOON, epoch(0)]


@sequence(*VERSIONS, t=topic((0, 1)))
def repeated(version: int) -> list[Action]:
    """The same once more is fine, and changes nothing."""
    return [Departure(), *[reassign(version, {"t": {0: [B0, GONE]}})] * 2, listed()]


@sequence(*VERSIONS, t=topic((0, 1)))
def cancelled(version: int) -> list[Action]:
    """The replicas of before, in the next epoch; a second time there is nothing to cancel."""
    return [
        Departure(),
        reassign(version, {"t": {0: [B0, GONE]}}),
        reassign(version, {"t": {0: None}}),
        listed(),
        reassign(version, {"t": {0: None}}),
        epoch(1),
    ]


@sequence(*VERSIONS, t=topic((0, 1)))
def increase_cancelled(version: int) -> list[Action]:
    """A pure increase is cancelled like any other."""
    return [
        Departure(),
        reassign(version, {"t": {0: [B0, B1, GONE]}}),
        reassign(version, {"t": {0: None}}),
        listed(),
        epoch(1),
    ]


@sequence(*VERSIONS, t=topic((0, 1, 2)))
def cancelled_with_another_order(version: int) -> list[Action]:
    """Here Kafka forgets the order."""
    return [
        Departure(),
        reassign(version, {"t": {0: [B2, GONE, B0]}}),
        listed(),
        reassign(version, {"t": {0: None}}),
        epoch(1),
    ]


@sequence(*VERSIONS, t=topic((0, 1), (0, 1), (1, 0)))
def cancelled_beside_others(version: int) -> list[Action]:
    """One is cancelled, one goes on, one was never begun, one is unknown."""
    return [
        Departure(),
        reassign(version, {"t": {0: [B0, GONE], 1: [B1, GONE]}}),
        reassign(version, {"t": {0: None, 2: None, 9: None}, exact("nope"): {0: None}}),
        listed(0, 1, 2),
    ]


@sequence(*VERSIONS, t=topic((0, 1)))
def back_to_what_it_was(version: int) -> list[Action]:
    """The replicas of before are requested, not cancelled."""
    return [
        Departure(),
        reassign(version, {"t": {0: [GONE, B1]}}),
        reassign(version, {"t": {0: [B0, B1]}}),
        listed(),
        epoch(1),
    ]


@sequence(*VERSIONS, t=topic((0, 1), (0, 1)))
def to_others(version: int) -> list[Action]:
    """Another target for one that waits, and for one that does not."""
    return [
        Departure(),
        reassign(version, {"t": {0: [GONE, B1]}}),
        reassign(version, {"t": {0: [GONE, B0], 1: [B1, GONE]}}),
        listed(0, 1),
    ]


@sequence(*VERSIONS, t=topic((0, 1), (0, 1)))
def refused_while_waiting(version: int) -> list[Action]:
    """A bad target leaves it as it is."""
    rows: tuple[list[Any], ...] = ([], [B0, B0], [99], [-1])
    return [
        Departure(),
        reassign(version, {"t": {0: [B0, GONE]}}),
        *(reassign(version, {"t": {0: row}}) for row in rows),
        reassign(version, {"t": {0: None}}, timeout=0),
        listed(0, 1),
    ]


@sequence(1, t=topic((0, 1), (0, 1)))
def factor_kept(version: int) -> list[Action]:
    """The factor is compared with that of before, without what is being added."""
    return [
        Departure(),
        reassign(version, {"t": {0: [GONE, B1]}}, allow=False),
        reassign(version, {"t": {0: [GONE, B1, B0]}}, allow=False),
        reassign(version, {"t": {0: [GONE]}}, allow=False),
        reassign(version, {"t": {0: None}}, allow=False),
        listed(0),
    ]


@sequence(*VERSIONS, t=topic((0, 1), (0, 1), (0, 1)))
def twice_in_one_request(version: int) -> list[Action]:
    """Each is judged by what was before the request: nothing to cancel yet."""
    return [
        Departure(),
        reassign(version, {"t": [(0, [B0, GONE]), (0, None)]}),
        reassign(version, [(Name("t"), {1: [B0, GONE]}), (Name("t"), {1: [B0, GONE]})]),
        reassign(version, {"t": [(2, None), (2, [B0, GONE])]}),
        listed(0, 1, 2),
    ]


@sequence(0, t=topic((0, 1), (0, 1), (0, 1)), u=topic((1,)))
def listing(version: int) -> list[Action]:
    """All, some, twice, unknown ones, nothing; what does not move is left out."""
    return [
        Departure(),
        reassign(1, {"t": {0: [B0, GONE], 2: [GONE]}, "u": {0: [B1, GONE]}}),
        list_reassignments(None, version=version),
        list_reassignments({"t": [0, 1, 2], "u": [0]}, version=version),
        list_reassignments({"t": [0, 0]}, version=version),
        list_reassignments({"t": [1]}, version=version),
        list_reassignments({"t": [], "u": [0]}, version=version),
        list_reassignments({}, version=version),
        list_reassignments({exact("nope"): [0], "t": [7, -1, 2]}, version=version),
        list_reassignments([(Name("u"), [0]), (Name("u"), [0])], version=version),
        *(list_reassignments({"u": [0]}, version=version, to=broker(rank)) for rank in range(3)),
    ]


@sequence(*VERSIONS, t=topic((0, 1)))
def topic_deleted(version: int) -> list[Action]:
    """Its reassignment is over with it."""
    return [
        Departure(),
        reassign(version, {"t": {0: [B0, GONE]}}),
        delete_topics(4, "t"),
        listed(),
        reassign(version, {"t": {0: None}}),
    ]


@sequence(*VERSIONS, t=topic((0, 1)))
def partitions_added(version: int) -> list[Action]:
    """New partitions while one is being reassigned, with the factor that is wanted."""
    return [
        Departure(),
        reassign(version, {"t": {0: [B0, B1, GONE]}}),
        create_partitions(3, ("t", 2, [[B1, B2, B0]])),
        create_partitions(3, ("t", 2, [[B1, B2]])),
        listed(0, 1),
        metadata(9, ["t"], settle={"topics.0.partitions.1.error_code": 0}),
    ]


@sequence(*every(ELECT_LEADERS), t=topic((0, 1)), u=topic((0, 1)))
def preferred_election(version: int) -> list[Action]:
    """The first replica is the one that is being added: 80; else nothing is needed."""
    return [
        Departure(),
        reassign(1, {"t": {0: [GONE, B0]}, "u": {0: [B0, GONE]}}),
        elect_leaders(version, {"t": [0], "u": [0]}),
        SOON,
        metadata(9, ["t", "u"]),
    ]


@sequence(*every(ELECT_LEADERS), t=topic((0, 1, 2)))
def preferred_election_among_those_in_sync(version: int) -> list[Action]:
    """The new first replica is in sync, and leads although another one is awaited."""
    return [
        Departure(),
        reassign(1, {"t": {0: [B1, GONE]}}),
        elect_leaders(version, {"t": [0]}),
        listed(),
        epoch(1),
    ]


@sequence(1, 2, t=topic((0, 1)))
def unclean_election(version: int) -> list[Action]:
    """Somebody leads: 84."""
    return [Departure(), reassign(1, {"t": {0: [GONE]}}), elect_leaders(version, {"t": [0]}, UNCLEAN), listed()]


@sequence(*VERSIONS, t=topic((0, 1)))
def fewer_and_away(version: int) -> list[Action]:
    """A single replica that is away is awaited, too."""
    return [Departure(), reassign(version, {"t": {0: [GONE]}}), listed(), SOON, epoch(0)]


@sequence(*VERSIONS, t=topic((3, 0, 1)))
def away_and_removed(version: int) -> list[Action]:
    """The replica that is away is not needed: done at once."""
    return [Departure(), reassign(version, {"t": {0: [B0, B1]}}), listed(), SOON, metadata(9, ["t"])]


@sequence(*VERSIONS, t=topic((3, 0)))
def away_and_kept(version: int) -> list[Action]:
    """One is removed only when the one that is away is in sync again."""
    return [Departure(), reassign(version, {"t": {0: [GONE]}}), listed(), reassign(version, {"t": {0: None}}), listed()]


@sequence(*VERSIONS, t=topic(ALONE), u=topic(ALONE, unclean_leader_election_enable="true"))
def offline(version: int) -> list[Action]:
    """A partition without a leader waits for one; Kafka does not cancel that."""
    return [
        Departure(),
        reassign(version, {"t": {0: [B0]}, "u": {0: [B0]}}),
        list_reassignments({"t": [0], "u": [0]}),
        reassign(version, {"t": {0: None}}),
        list_reassignments({"t": [0]}),
    ]


@sequence(*VERSIONS, t=topic((0, 1)))
def topic_with_a_minimum(version: int) -> list[Action]:
    """acks=all is answered as long as the replicas of before are in sync."""
    return [
        Departure(),
        change_configs(1, (TOPIC_RESOURCE, "t", [("min.insync.replicas", SET, "2")])),
        reassign(version, {"t": {0: [B1, GONE]}}),
        produce(9, {"t": {0: batch("a")}}),
        reassign(version, {"t": {0: None}}),
        listed(),
    ]
