"""Preferred read replicas (KIP-392): brokers 0, 1, 2 stand in racks a, b, c; broker 3, in a, has left."""

from typing import Any

from tests.conformance.apis import FETCH, every
from tests.conformance.batches import batch
from tests.conformance.requests import (
    BROKER_RESOURCE,
    SET,
    TOPIC_RESOURCE,
    change_configs,
    delete_records,
    describe_cluster,
    describe_configs,
    fetch,
    list_offsets,
    metadata,
    produce,
)
from tests.conformance.settings import DEPARTED
from tests.conformance.steps import Action, BrokerNumber, Departure, Saved, broker, sequence, topic

WORLD = DEPARTED
WITH_RACKS = [version for version in every(FETCH) if version >= 11]
SOME = (11, 12, 13, 17)
HIGH_WATERMARK = "responses.0.partitions.0.high_watermark"
HERE, BESIDE = (0, 1, 2), (3, 0, 1)


def _filled(count: int = 3) -> list[Action]:
    """Return records that all replicas have, as the leader and the follower in rack b know."""
    return [
        produce(7, {"t": {0: batch(*"abcdefgh"[:count])}}, to=broker(0), quiet=True),
        *(fetch(11, {"t": {0: 0}}, to=broker(rank), quiet=True, settle={HIGH_WATERMARK: count}) for rank in (0, 1)),
    ]


def _ask(version: int, offset: int, rack: str, **more: Any) -> Action:
    more.setdefault("to", broker(0))
    return fetch(version, {"t": {0: offset}}, rack_id=rack, **more)


@sequence(*WITH_RACKS, t=topic(HERE))
def follower_in_the_rack(version: int) -> list[Action]:
    """The leader names the replica in the consumer's rack, and sends no records."""
    return [Departure(), *_filled(), _ask(version, 0, "b"), _ask(version, 0, "c")]


@sequence(*SOME, t=topic(HERE))
def leader_in_the_rack(version: int) -> list[Action]:
    """Beside the leader, or nowhere near a replica, the leader serves."""
    return [Departure(), *_filled(), *(_ask(version, 0, rack) for rack in ("a", "z", "", "B"))]


@sequence(10, t=topic(HERE))
def before_racks(version: int) -> list[Action]:
    """Older consumers say nothing of racks, and read from leaders only."""
    return [
        Departure(),
        *_filled(),
        fetch(version, {"t": {0: 0}}, to=broker(0)),
        fetch(version, {"t": {0: 0}}, to=broker(1)),
    ]


@sequence(*SOME, t=topic(HERE))
def bounds_of_the_follower(version: int) -> list[Action]:
    """Up to the log end that the leader knows of the follower it is sent there; above, the leader says no."""
    return [Departure(), *_filled(), *(_ask(version, offset, "b") for offset in (2, 3, 4, -1))]


@sequence(*SOME, t=topic(HERE))
def below_the_log_start(version: int) -> list[Action]:
    """No replica has what was deleted: the leader says so."""
    return [
        Departure(),
        *_filled(),
        delete_records(2, {"t": {0: 2}}, to=broker(0), quiet=True),
        _ask(version, 1, "b"),
        _ask(version, 2, "b"),
    ]


@sequence(*SOME, t=topic(HERE))
def reading_from_the_follower(version: int) -> list[Action]:
    """The follower serves what it knows to be committed, and names no other replica."""
    return [
        Departure(),
        *_filled(),
        *(_ask(version, offset, "b", to=broker(1)) for offset in (0, 1, 3, 4)),
        _ask(version, 0, "c", to=broker(1)),
    ]


@sequence(*SOME, t=topic((0, 1)))
def broker_in_the_rack_without_a_replica(version: int) -> list[Action]:
    """Only replicas count: broker 2 stands in c and has none."""
    return [Departure(), *_filled(), _ask(version, 0, "c"), _ask(version, 0, "c", to=broker(2))]


@sequence(*SOME, t=topic((1, 3)))
def departed_replica_in_the_rack(version: int) -> list[Action]:
    """The only other replica has left: the leader serves."""
    return [
        produce(7, {"t": {0: batch("a")}}, to=broker(1), quiet=True),
        Departure(),
        fetch(11, {"t": {0: 0}}, to=broker(1), quiet=True, settle={HIGH_WATERMARK: 1}),
        _ask(version, 0, "a", to=broker(1)),
    ]


@sequence(*SOME, t=topic(BESIDE))
def new_leader_redirects(version: int) -> list[Action]:
    """After an election the new leader sends consumers on, as soon as its followers have fetched."""
    return [
        produce(7, {"t": {0: batch("a", "b")}}, to=broker(3), quiet=True),
        Departure(),
        fetch(11, {"t": {0: 0}}, to=broker(0), quiet=True, settle={HIGH_WATERMARK: 2}),
        _ask(version, 0, "b"),
        _ask(version, 0, "a"),
    ]


@sequence(11, 12, 17, t=topic(HERE))
def waiting_is_cut_short(version: int) -> list[Action]:
    """A redirection does not wait for records."""
    return [Departure(), *_filled(), _ask(version, 3, "b", max_wait=300, waits_ms=300)]


@sequence(11, 12, 17, t=topic(HERE))
def old_epoch_is_fenced_first(version: int) -> list[Action]:
    """The epoch is checked before anybody is sent on."""
    rows = [{"fetch_offset": 0, "current_leader_epoch": epoch} for epoch in (0, 1, -1)]
    return [Departure(), *_filled(), *(fetch(version, {"t": {0: row}}, rack_id="b", to=broker(0)) for row in rows)]


@sequence(12, 17, t=topic(HERE))
def diverging_reader_is_sent_on(version: int) -> list[Action]:
    """A last epoch that the leader would object to is not looked at when the reader is sent on."""
    row = {"fetch_offset": 2, "last_fetched_epoch": 5, "current_leader_epoch": 0}
    return [Departure(), *_filled(), fetch(version, {"t": {0: row}}, rack_id="b", to=broker(0))]


@sequence(11, 12, 17, t=topic(HERE))
def debuggers_are_sent_on_too(version: int) -> list[Action]:
    """Replica id -2 is a consumer as well."""
    return [Departure(), *_filled(), _ask(version, 0, "b", replica_id=-2)]


@sequence(11, 12, 13, 17, t=topic(HERE))
def sessions(version: int) -> list[Action]:
    """In a session a partition with a redirection is in every answer."""
    session = Saved("session")
    return [
        Departure(),
        *_filled(),
        _ask(version, 0, "b", session_id=0, session_epoch=0, save={"session": "session_id"}),
        fetch(version, {}, rack_id="b", session_id=session, session_epoch=1, to=broker(0)),
        fetch(version, {}, rack_id="b", session_id=session, session_epoch=2, to=broker(0)),
        fetch(version, {}, rack_id="a", session_id=session, session_epoch=3, to=broker(0)),
        fetch(version, {}, rack_id="", session_id=session, session_epoch=4, to=broker(0)),
        fetch(version, {"t": {0: 3}}, rack_id="", session_id=session, session_epoch=5, to=broker(0)),
        fetch(version, {}, rack_id="b", session_id=session, session_epoch=6, to=broker(0)),
    ]


@sequence(12, 17, t=topic(HERE, (1, 0, 2)))
def beside_a_partition_that_is_read(version: int) -> list[Action]:
    """One partition is redirected, another is led elsewhere."""
    return [Departure(), *_filled(), fetch(version, {"t": {0: 0, 1: 0, 2: 0}}, rack_id="b", to=broker(0))]


@sequence(12, t=topic(HERE))
def offsets_are_asked_of_the_leader(version: int) -> list[Action]:
    """A follower that may be read from does not answer ListOffsets."""
    return [Departure(), *_filled(), list_offsets(9, {"t": {0: -1}}, to=broker(1))]


@sequence(1, 5, 9, 12, t=topic(HERE))
def racks_in_metadata(version: int) -> list[Action]:
    """Clients learn where brokers stand."""
    return [Departure(), metadata(version, ["t"])]


@sequence(0, 1, 2)
def racks_in_the_cluster(version: int) -> list[Action]:
    """DescribeCluster shows racks, and no broker that has left."""
    return [Departure(), describe_cluster(version)]


@sequence(2)
def fenced_brokers(version: int) -> list[Action]:
    """On request, DescribeCluster shows the broker that has left, too."""
    return [Departure(), describe_cluster(version, fenced=True)]


@sequence(1, 4)
def selector_among_the_configs(version: int) -> list[Action]:
    """The selector and the rack are shown as given at the start; neither may change."""
    me = BrokerNumber(0, as_text=True)
    changes = [("replica.selector.class", SET, "org.apache.kafka.common.replica.LeaderSelector")]
    return [
        Departure(),
        describe_configs(version, (BROKER_RESOURCE, me, ["replica.selector.class", "broker.rack"])),
        change_configs(1, (BROKER_RESOURCE, me, changes)),
        change_configs(1, (BROKER_RESOURCE, me, [("broker.rack", SET, "q")])),
    ]


@sequence(12, t=topic(HERE, unclean_leader_election_enable="true"))
def configs_of_elections(version: int) -> list[Action]:
    """The topic's own value of the unclean election is shown, changed, and refused when it is no truth value."""
    assert version
    key = "unclean.leader.election.enable"
    return [
        Departure(),
        describe_configs(4, (TOPIC_RESOURCE, "t", [key, "min.insync.replicas"]), synonyms=True),
        change_configs(1, (TOPIC_RESOURCE, "t", [(key, SET, "maybe")])),
        change_configs(1, (TOPIC_RESOURCE, "t", [(key, SET, "false")])),
        describe_configs(4, (TOPIC_RESOURCE, "t", [key]), settle={"results.0.configs.0.value": "false"}),
        describe_configs(4, (BROKER_RESOURCE, BrokerNumber(0, as_text=True), [key, "min.insync.replicas"])),
    ]
