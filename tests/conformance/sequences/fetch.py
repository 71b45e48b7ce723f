"""Fetch: versions, offsets, limits, waiting, epochs, errors beside good partitions. Sessions have their own module."""

from typing import Any

from tests.conformance.apis import FETCH, edges, every
from tests.conformance.batches import GZIP, batch, sized
from tests.conformance.requests import create_topics, delete_records, delete_topics, fetch, metadata, new_topic, produce
from tests.conformance.steps import Action, Receive, TopicId, broker, exact, follower, leader, sequence, topic

UNKNOWN_ID = "11111111-1111-1111-1111-111111111111"
ZERO_ID = None
WAIT_MS = 400


def _fill(partition: int = 0, *values: str) -> list[Action]:
    return [produce(7, {"t": {partition: batch(value)}}, quiet=True) for value in values or ("a", "b", "c")]


def _at(offset: int, **fields: Any) -> dict[str, Any]:
    return {"fetch_offset": offset, **fields}


@sequence(*every(FETCH), t=topic((0,)))
def from_the_start(version: int) -> list[Action]:
    """Three batches, as every version shows them."""
    return [*_fill(), fetch(version, {"t": {0: 0}}), fetch(version, {"t": {0: 2}})]


@sequence(*edges(FETCH), t=topic((0,)))
def empty_partition(version: int) -> list[Action]:
    """Nothing to read: an empty answer, not a null one."""
    return [fetch(version, {"t": {0: 0}})]


@sequence(4, 11, 17, t=topic((0,)))
def read_committed(version: int) -> list[Action]:
    """Isolation 1 adds the list of aborted transactions."""
    return [
        *_fill(),
        fetch(version, {"t": {0: 0}}, isolation_level=1),
        fetch(version, {"t": {0: 3}}, isolation_level=1),
    ]


@sequence(4, 12, 17, t=topic((0,)))
def unknown_isolation(version: int) -> list[Action]:
    """An undefined isolation level."""
    return [*_fill(), fetch(version, {"t": {0: 0}}, isolation_level=2)]


@sequence(4, 12, 17, t=topic((0,)))
def out_of_range(version: int) -> list[Action]:
    """Offsets below the log start, negative or above the end are 1 at once."""
    return [
        *_fill(),
        delete_records(2, {"t": {0: 1}}, quiet=True),
        *(fetch(version, {"t": {0: offset}}, max_wait=WAIT_MS, waits_ms=WAIT_MS) for offset in (0, -1, -2, 4, 10**15)),
        fetch(version, {"t": {0: 1}}),
    ]


@sequence(12, t=topic((0,)))
def offset_inside_a_batch(version: int) -> list[Action]:
    """The whole batch is answered, also when its beginning was deleted."""
    return [
        produce(7, {"t": {0: batch("a", "b", "c", "d")}}),
        fetch(version, {"t": {0: 2}}),
        fetch(version, {"t": {0: 3}}),
        delete_records(2, {"t": {0: 2}}),
        fetch(version, {"t": {0: 2}}),
        fetch(version, {"t": {0: 1}}),
    ]


@sequence(12, t=topic((0,)))
def compressed_inside(version: int) -> list[Action]:
    """Compressed batches are answered whole."""
    return [produce(7, {"t": {0: batch("a", "b", "c", codec=GZIP)}}), fetch(version, {"t": {0: 1}})]


@sequence(4, 12, t=topic((0,)))
def partition_limits(version: int) -> list[Action]:
    """A limit cuts at any byte, except that the first batch of an answer is whole."""
    return [
        *(produce(7, {"t": {0: sized(94)}}, quiet=True) for _ in range(3)),
        *(fetch(version, {"t": {0: _at(0, partition_max_bytes=limit)}}) for limit in (120, 94, 188, 1, 0)),
    ]


@sequence(4, 12, t=topic((0,)))
def request_limits(version: int) -> list[Action]:
    """The limit of the request works the same way."""
    return [
        *(produce(7, {"t": {0: sized(94)}}, quiet=True) for _ in range(3)),
        *(fetch(version, {"t": {0: 0}}, max_bytes=limit) for limit in (120, 94, 1, 0)),
    ]


@sequence(12, t=topic((0,)))
def negative_limits(version: int) -> list[Action]:
    """Negative limits are an error of the partition."""
    return [
        *_fill(),
        fetch(version, {"t": {0: _at(0, partition_max_bytes=-1)}}),
        fetch(version, {"t": {0: 0}}, max_bytes=-1),
    ]


@sequence(12, t=topic((0,), (0,), (0,)))
def negative_limits_across_partitions(version: int) -> list[Action]:
    """A negative limit is the error of who reads next; where there is nothing to read it does no harm."""
    return [
        *(produce(7, {"t": {index: batch("a")}}, quiet=True) for index in (0, 1, 2)),
        fetch(version, {"t": {0: 0, 1: 0, 2: 0}}, max_bytes=-1),
        fetch(version, {"t": {0: 1, 1: 0, 2: 0}}, max_bytes=-1),
        fetch(version, {"t": {0: _at(0, partition_max_bytes=-1), 1: 0, 2: 0}}),
        fetch(version, {"t": {0: _at(1, partition_max_bytes=-1), 1: 0}}),
    ]


@sequence(12, t=topic((0,), (0,), (0,)))
def limits_across_partitions(version: int) -> list[Action]:
    """What the first partition took is missing for the later ones."""
    return [
        *(produce(7, {"t": {index: sized(94)}}, quiet=True) for index in (0, 1, 2)),
        *(fetch(version, {"t": {0: 0, 1: 0, 2: 0}}, max_bytes=limit) for limit in (1, 94, 150, 188, 1000)),
        fetch(version, {"t": {0: _at(0, partition_max_bytes=1), 1: 0, 2: 0}}),
    ]


@sequence(12, t=topic((0,)))
def waits_at_the_end(version: int) -> list[Action]:
    """At the end of the log an answer takes max_wait, without min_bytes or max_wait it comes at once."""
    return [
        *_fill(),
        fetch(version, {"t": {0: 3}}, max_wait=WAIT_MS, waits_ms=WAIT_MS),
        fetch(version, {"t": {0: 3}}, max_wait=WAIT_MS, min_bytes=0, waits_ms=WAIT_MS),
        fetch(version, {"t": {0: 3}}, max_wait=0, waits_ms=WAIT_MS),
        fetch(version, {"t": {0: 3}}, max_wait=-1, waits_ms=WAIT_MS),
    ]


@sequence(4, 17, t=topic((0,)))
def woken_by_produce(version: int) -> list[Action]:
    """A waiting fetch is answered as soon as there is something."""
    return [
        fetch(version, {"t": {0: 0}}, max_wait=8000, hold=True, connection="waiting"),
        produce(7, {"t": {0: batch("a")}}),
        Receive(to=leader("t"), connection="waiting", waits_ms=8000),
    ]


@sequence(12, t=topic((0,)))
def below_min_bytes(version: int) -> list[Action]:
    """Too few bytes wait; what there is comes at the end of the wait."""
    return [
        *_fill(),
        fetch(version, {"t": {0: 0}}, max_wait=WAIT_MS, min_bytes=100_000, waits_ms=WAIT_MS),
        fetch(version, {"t": {0: 0}}, max_wait=WAIT_MS, min_bytes=100_000, max_bytes=100, waits_ms=WAIT_MS),
        fetch(version, {"t": {0: _at(0, partition_max_bytes=100)}}, max_wait=WAIT_MS, min_bytes=150, waits_ms=WAIT_MS),
    ]


@sequence(4, 12, 13, 17, t=topic((0,)))
def unknown_places(version: int) -> list[Action]:
    """Unknown partitions, topics and ids, alone."""
    unknown: Any = UNKNOWN_ID if version >= 13 else exact("nope")
    actions: list[Action] = [
        fetch(version, {unknown: {0: 0}}, to=leader("t"), max_wait=WAIT_MS, waits_ms=WAIT_MS),
        fetch(version, {"t": {9: 0}}, to=leader("t"), max_wait=WAIT_MS, waits_ms=WAIT_MS),
        fetch(version, {"t": {-1: 0}}, to=leader("t")),
    ]
    return actions


@sequence(12, t=topic((0,)))
def unknown_beside_good(version: int) -> list[Action]:
    """An unknown topic beside a good partition waits for the full time."""
    return [fetch(version, {"t": {0: 0}, exact("nope"): {0: 0}}, max_wait=WAIT_MS, waits_ms=WAIT_MS)]


@sequence(12, 13, t=topic((0,)))
def unknown_beside_woken(version: int) -> list[Action]:
    """What is unknown beside a good partition does not end the wait when that one gets too little."""
    unknown: Any = exact("nope") if version < 13 else UNKNOWN_ID
    wanted = {"t": {0: 0}, unknown: {0: 0}}
    return [
        fetch(version, wanted, max_wait=1500, min_bytes=1000, hold=True, connection="waiting"),
        produce(7, {"t": {0: batch("a")}}),
        Receive(to=leader("t"), connection="waiting", waits_ms=1500),
        fetch(version, {"t": {0: 1}, unknown: {0: 0}}, max_wait=8000, hold=True, connection="waiting"),
        produce(7, {"t": {0: batch("b")}}),
        Receive(to=leader("t"), connection="waiting", waits_ms=8000),
    ]


@sequence(12)
def unknown_made_while_waiting(version: int) -> list[Action]:
    """What was unknown when the request came is unknown in its answer."""
    return [
        create_topics(5, new_topic("good")),
        metadata(12, ["good"], settle={"topics.0.error_code": 0, "topics.0.partitions.0.error_code": 0}, quiet=True),
        fetch(12, {"good": {0: 0}}, settle={"responses.0.partitions.0.error_code": 0}, quiet=True),
        fetch(
            version, {"good": {0: 0}, "made": {0: 0}}, to=leader("good"), max_wait=2500, hold=True, connection="waiting"
        ),
        # Once this is answered, the leader has read the fetch that was sent before it.
        metadata(12, ["good"], to=leader("good"), quiet=True),
        create_topics(5, new_topic("made")),
        Receive(to=leader("good"), connection="waiting", waits_ms=2500),
    ]


@sequence(12, t=topic((0,), (0,)))
def errors_beside_good(version: int) -> list[Action]:
    """Errors of the log beside a good partition are answered at once."""
    return [
        fetch(version, {"t": {0: 0, 1: 99}}, max_wait=WAIT_MS, waits_ms=WAIT_MS),
        fetch(version, {"t": {0: 0, 1: _at(0, current_leader_epoch=9)}}, max_wait=WAIT_MS, waits_ms=WAIT_MS),
    ]


@sequence(4, 10, 11, 12, 15, 16, 17, t=topic((0,)))
def not_leader(version: int) -> list[Action]:
    """A broker without a replica answers 6, from v16 with the leader and its address."""
    return [*_fill(), fetch(version, {"t": {0: 0}}, to=follower("t"))]


@sequence(10, 11, 12, t=topic((0, 1)))
def from_follower(version: int) -> list[Action]:
    """Followers serve consumers from v11."""
    return [
        *_fill(),
        fetch(11, {"t": {0: 0}}, max_wait=2000, min_bytes=200, to=follower("t"), quiet=True),
        fetch(version, {"t": {0: 0}}, max_wait=1000, to=follower("t")),
    ]


@sequence(9, 12, 16, t=topic((0,)))
def epochs(version: int) -> list[Action]:
    """A newer current epoch is 75, -1 and below are not checked; also at brokers that do not lead."""
    return [
        *_fill(),
        *(fetch(version, {"t": {0: _at(0, current_leader_epoch=epoch)}}) for epoch in (0, 1, 1000, -1, -2)),
        *(fetch(version, {"t": {0: _at(0, current_leader_epoch=epoch)}}, to=follower("t")) for epoch in (0, 1)),
    ]


@sequence(12, 17, t=topic((0,)))
def last_fetched_epoch(version: int) -> list[Action]:
    """What the client last read is compared with the log, also for clients."""
    return [
        *_fill(),
        *(
            fetch(version, {"t": {0: _at(offset, last_fetched_epoch=epoch)}}, max_wait=WAIT_MS, waits_ms=WAIT_MS)
            for offset, epoch in ((2, 0), (0, 0), (5, 0), (2, 1), (2, -1), (2, -2))
        ),
    ]


@sequence(4, 12, 15, 17, t=topic((0,)))
def foreign_replicas(version: int) -> list[Action]:
    """A replica that is not assigned, and the ids of debuggers."""
    return [*_fill(), *(fetch(version, {"t": {0: 0}}, replica_id=replica) for replica in (7, -2, -3))]


@sequence(4, 10, 11, 17, t=topic((0, 1)))
def foreign_replicas_at_a_follower(version: int) -> list[Action]:
    """A debugger is a consumer: no follower answers it before version 11. A replica between directories reads there."""
    return [
        *_fill(),
        fetch(11, {"t": {0: 0}}, max_wait=2000, min_bytes=200, to=follower("t"), quiet=True),
        *(fetch(version, {"t": {0: 0}}, replica_id=replica, to=follower("t")) for replica in (7, -1, -2, -3)),
        *(fetch(version, {"t": {0: 9}}, replica_id=replica, to=follower("t")) for replica in (-2, -3)),
    ]


@sequence(12, t=topic((0,)))
def foreign_replica_epochs(version: int) -> list[Action]:
    """The epoch of a replica that is not assigned is looked at first."""
    return [
        *_fill(),
        *(fetch(version, {"t": {0: _at(0, current_leader_epoch=epoch)}}, replica_id=7) for epoch in (0, 1)),
    ]


@sequence(4, 12, t=topic((0,)))
def duplicates(version: int) -> list[Action]:
    """A partition or topic given twice is answered once, for the last entry."""
    return [
        *_fill(),
        fetch(version, {"t": [(0, 0), (0, 2)]}),
        fetch(version, [("t", {0: 0}), ("t", {0: 1})]),
    ]


@sequence(12, 17, t=topic((0,), (0,), (0,)))
def order_of_rows(version: int) -> list[Action]:
    """Rows come in the order of the request."""
    return [*_fill(1, "x"), fetch(version, {"t": {2: 0, 0: 0, 1: 0}})]


@sequence(*edges(FETCH), t=topic((0,)))
def nothing_asked(version: int) -> list[Action]:
    """No topics: an empty answer at once."""
    return [fetch(version, {}, to=leader("t"), max_wait=WAIT_MS, waits_ms=WAIT_MS)]


@sequence(12, 13)
def topic_deleted_while_waiting(version: int) -> list[Action]:
    """A waiting fetch learns at once that its topic is gone."""
    return [
        create_topics(5, new_topic("gone")),
        metadata(12, ["gone"], settle={"topics.0.error_code": 0, "topics.0.partitions.0.error_code": 0}, quiet=True),
        fetch(12, {"gone": {0: 0}}, settle={"responses.0.partitions.0.error_code": 0}, quiet=True),
        fetch(version, {"gone": {0: 0}}, max_wait=8000, hold=True, connection="waiting"),
        delete_topics(5, "gone"),
        Receive(to=leader("gone"), connection="waiting", waits_ms=8000),
    ]


@sequence(13, 17, t=topic((0,)))
def by_zero_id(version: int) -> list[Action]:
    """The zero id is unknown."""
    return [fetch(version, [(ZERO_ID, {0: 0})], to=leader("t"))]


@sequence(12, t=topic((0,), (1,)))
def leaders_differ(version: int) -> list[Action]:
    """One request with partitions of several leaders, at one of them."""
    return [
        *_fill(),
        *_fill(1, "x"),
        fetch(version, {"t": {0: 0, 1: 0}}, to=broker(0), max_wait=WAIT_MS, waits_ms=WAIT_MS),
    ]


@sequence(17, t=topic((0,)))
def known_by_id(version: int) -> list[Action]:
    """A topic id is all that v13 and later need."""
    return [*_fill(), fetch(version, [(TopicId("t"), {0: 0})], to=leader("t"))]


@sequence(11, 12, t=topic((0, 1)))
def racks(version: int) -> list[Action]:
    """Without a rack-aware selector a consumer's rack changes nothing."""
    return [*_fill(), fetch(version, {"t": {0: 0}}, rack_id="somewhere")]


@sequence(13, 17, t=topic((0,), (0,), (1,)))
def order_of_errors(version: int) -> list[Action]:
    """What exists comes first, then unknown ids, then unknown partitions."""
    listed = [("t", {9: 0, 2: 0}), (exact(UNKNOWN_ID), {0: 0}), ("t", {0: 5, 8: 0, 1: 0})]
    return [fetch(version, listed, to=broker(), in_order=True)]


@sequence(12, 17, t=topic((0,)))
def diverging_read_committed(version: int) -> list[Action]:
    """Where histories diverge nothing is read, not even which transactions were aborted."""
    diverging = {"t": {0: _at(9, last_fetched_epoch=0)}}
    return [*_fill(), *(fetch(version, diverging, isolation_level=level) for level in (0, 1))]


@sequence(4, 12, t=topic((0,)))
def read_committed_by_others(version: int) -> list[Action]:
    """Only consumers read what is committed."""
    return [*_fill(), *(fetch(version, {"t": {0: 0}}, isolation_level=1, replica_id=each) for each in (-1, -2, -3))]
