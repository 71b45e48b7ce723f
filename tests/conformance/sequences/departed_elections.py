"""ElectLeaders where the preferred leader is away, or no replica is left that may lead."""

from tests.conformance.apis import ELECT_LEADERS, every
from tests.conformance.batches import batch
from tests.conformance.requests import (
    PREFERRED,
    SET,
    TOPIC_RESOURCE,
    UNCLEAN,
    change_configs,
    elect_leaders,
    fetch,
    leader_epochs,
    list_offsets,
    metadata,
    produce,
)
from tests.conformance.settings import DEPARTED
from tests.conformance.steps import Action, Departure, broker, sequence, topic

WORLD = DEPARTED
MOVED, GONE = (3, 0, 1), (3,)


@sequence(*every(ELECT_LEADERS), t=topic(MOVED))
def preferred_leader_is_away(version: int) -> list[Action]:
    """It is out of the ISR: 80, and the leader stays."""
    return [Departure(), elect_leaders(version, {"t": [0]}), metadata(5, ["t"])]


@sequence(1, 2, t=topic(MOVED))
def unclean_with_a_leader(version: int) -> list[Action]:
    """Somebody leads: nothing to do, also where it is not the preferred one."""
    return [Departure(), elect_leaders(version, {"t": [0]}, UNCLEAN)]


@sequence(*every(ELECT_LEADERS), t=topic(GONE))
def only_replica_is_away(version: int) -> list[Action]:
    """Nobody can lead."""
    return [Departure(), elect_leaders(version, {"t": [0]}, PREFERRED)]


@sequence(1, 2, t=topic(GONE))
def only_replica_is_away_unclean(version: int) -> list[Action]:
    """An unclean election needs a living replica: 83."""
    return [Departure(), elect_leaders(version, {"t": [0]}, UNCLEAN)]


@sequence(*every(ELECT_LEADERS), m=topic(MOVED), g=topic(GONE), h=topic((0, 1)))
def one_request_for_all_kinds(version: int) -> list[Action]:
    """Each partition has its own answer."""
    return [Departure(), elect_leaders(version, {"m": [0, 3, 0], "g": [0], "h": [0]})]


@sequence(*every(ELECT_LEADERS), m=topic(MOVED), g=topic(GONE), h=topic((0, 1)))
def all_partitions(version: int) -> list[Action]:
    """Null asks for all; the answer has those that failed or changed."""
    return [Departure(), elect_leaders(version, None)]


@sequence(1, 2, m=topic(MOVED), g=topic(GONE), h=topic((0, 1)))
def all_partitions_unclean(version: int) -> list[Action]:
    """The same for unclean elections."""
    return [Departure(), elect_leaders(version, None, UNCLEAN)]


@sequence(2, t=topic(GONE), u=topic(GONE, unclean_leader_election_enable="true"))
def unclean_by_configuration_needs_a_replica_too(version: int) -> list[Action]:
    """Neither the topic's configuration nor an election finds a leader where no replica is left."""
    return [
        Departure(),
        metadata(9, ["t", "u"]),
        change_configs(1, (TOPIC_RESOURCE, "t", [("unclean.leader.election.enable", SET, "true")])),
        elect_leaders(version, {"t": [0], "u": [0]}, UNCLEAN),
    ]


@sequence(0, 4, 8, 12, t=topic(GONE, (0,)))
def metadata_of_an_offline_partition(version: int) -> list[Action]:
    """No leader, 5 for the partition; the topic is well."""
    return [Departure(), metadata(version, ["t"], to=broker(0)), metadata(version, ["t"], to=broker(1))]


@sequence(0, 5, 9, 12, t=topic(MOVED))
def metadata_of_an_under_replicated_partition(version: int) -> list[Action]:
    """The replica that is away is in the assignment, offline, and out of the ISR."""
    return [Departure(), metadata(version, ["t"])]


@sequence(3, 9, 11, t=topic(GONE))
def produce_to_an_offline_partition(version: int) -> list[Action]:
    """No broker leads it: 6 everywhere."""
    return [
        Departure(),
        produce(version, {"t": {0: batch("a")}}, to=broker(0)),
        produce(version, {"t": {0: batch("a")}}, acks=1, to=broker(1)),
    ]


@sequence(4, 11, 12, 17, t=topic(GONE))
def fetch_from_an_offline_partition(version: int) -> list[Action]:
    """No broker leads it, and none of these has a replica."""
    return [Departure(), fetch(version, {"t": {0: 0}}, to=broker(0))]


@sequence(2, t=topic(GONE))
def questions_about_an_offline_partition(version: int) -> list[Action]:
    """Offsets and epochs are asked of a leader."""
    return [
        Departure(),
        list_offsets(9, {"t": {0: -1}}, to=broker(0)),
        leader_epochs(version, {"t": {0: 0}}, to=broker(0)),
    ]


@sequence(9, t=topic(MOVED))
def retry_over_an_election(version: int) -> list[Action]:
    """An idempotent producer's batch, sent again to the next leader, is known there."""
    numbered = batch("a", "b", producer_id=1_000_000_123, producer_epoch=0, base_sequence=0)
    following = batch("c", producer_id=1_000_000_123, producer_epoch=0, base_sequence=2)
    gap = batch("d", producer_id=1_000_000_123, producer_epoch=0, base_sequence=9)
    return [
        produce(9, {"t": {0: numbered}}, to=broker(3)),
        Departure(),
        produce(version, {"t": {0: numbered}}, to=broker(0)),
        produce(version, {"t": {0: gap}}, to=broker(0)),
        produce(version, {"t": {0: following}}, to=broker(0)),
        fetch(12, {"t": {0: 0}}, to=broker(0), settle={"responses.0.partitions.0.high_watermark": 3}),
    ]


@sequence(9, t=topic(MOVED))
def produce_beside_the_leader(version: int) -> list[Action]:
    """The former leader's place in the assignment means nothing to who leads now."""
    return [Departure(), *(produce(version, {"t": {0: batch("a")}}, to=broker(rank)) for rank in (1, 2, 0))]
