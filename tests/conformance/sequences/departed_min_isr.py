"""Too few replicas in sync: what is refused, what is appended and not committed, and what lowering the minimum does."""

from typing import Any

from tests.conformance.apis import FETCH, edges
from tests.conformance.batches import batch
from tests.conformance.requests import (
    SET,
    TOPIC_RESOURCE,
    change_configs,
    delete_records,
    fetch,
    leader_epochs,
    list_offsets,
    metadata,
    produce,
)
from tests.conformance.settings import DEPARTED
from tests.conformance.steps import Action, Departure, Pause, broker, sequence, topic

WORLD = DEPARTED
REPLICAS = (3, 0, 1)
THREE = topic(REPLICAS, min_insync_replicas="3")


def _written(to: int, *values: str, acks: int = -1) -> Action:
    return produce(7, {"t": {0: batch(*values)}}, acks=acks, to=broker(to), quiet=True)


def _before(*values: str, ranks: tuple[int, ...] = (0, 1)) -> list[Action]:
    """Return a batch that every replica has and knows to be committed: below the minimum no watermark moves."""
    settled = {"responses.0.partitions.0.high_watermark": len(values)}
    known = (fetch(11, {"t": {0: 0}}, to=broker(rank), quiet=True, settle=settled) for rank in ranks)
    return [_written(3, *values), *known, Departure()]


def _committed(offset: int, **more: Any) -> Action:
    return fetch(4, {"t": {0: 0}}, to=broker(0), settle={"responses.0.partitions.0.high_watermark": offset}, **more)


def _minimum(size: int) -> Action:
    return change_configs(1, (TOPIC_RESOURCE, "t", [("min.insync.replicas", SET, str(size))]), quiet=True)


@sequence(3, 7, 8, 9, 11, t=THREE)
def acknowledged_by_all_is_refused(version: int) -> list[Action]:
    """Two of three are in sync: 19, and nothing is appended."""
    return [
        *_before("a"),
        produce(version, {"t": {0: batch("b")}}, to=broker(0)),
        list_offsets(9, {"t": {0: -1}}, to=broker(0)),
    ]


@sequence(3, 9, 11, t=THREE)
def acknowledged_by_the_leader_waits_above_the_watermark(version: int) -> list[Action]:
    """acks=1 is appended; consumers do not see it, since nothing is committed below the minimum."""
    return [
        *_before("a"),
        _committed(1, quiet=True),
        produce(version, {"t": {0: batch("b")}}, acks=1, to=broker(0)),
        fetch(12, {"t": {0: 0}}, to=broker(0)),
        fetch(12, {"t": {0: 1}}, to=broker(0)),
        fetch(12, {"t": {0: 2}}, to=broker(0)),
        fetch(12, {"t": {0: 3}}, to=broker(0)),
    ]


@sequence(1, 5, 9, t=THREE)
def latest_offset_stays_at_the_watermark(version: int) -> list[Action]:
    """What is not committed is not the latest offset; the time of it is not found either."""
    return [
        *_before("a"),
        _committed(1, quiet=True),
        _written(0, "b", acks=1),
        *(list_offsets(version, {"t": {0: timestamp}}, to=broker(0)) for timestamp in (-1, -2, 1_700_000_000_000)),
    ]


@sequence(4, 12, 17, t=THREE)
def lowering_the_minimum_commits(version: int) -> list[Action]:
    """The same two replicas suffice from now on; the next record commits what waited before it."""
    return [
        *_before("a"),
        _committed(1, quiet=True),
        _written(0, "b", acks=1),
        _minimum(2),
        Pause(500),
        produce(9, {"t": {0: batch("c")}}, to=broker(0)),
        fetch(version, {"t": {0: 0}}, to=broker(0), settle={"responses.0.partitions.0.high_watermark": 3}),
    ]


@sequence(9, t=topic(REPLICAS, min_insync_replicas="2"))
def exactly_the_minimum(version: int) -> list[Action]:
    """Two of two are enough; raising the minimum refuses the next one."""
    return [
        Departure(),
        produce(version, {"t": {0: batch("a")}}, to=broker(0)),
        _minimum(3),
        Pause(500),
        produce(version, {"t": {0: batch("b")}}, to=broker(0)),
        produce(version, {"t": {0: batch("c")}}, acks=1, to=broker(0)),
    ]


@sequence(9, t=topic((0, 1), min_insync_replicas="5"))
def minimum_above_the_number_of_replicas(version: int) -> list[Action]:
    """More than there are replicas cannot be asked for: all of them are."""
    return [Departure(), produce(version, {"t": {0: batch("a")}}, to=broker(0)), _committed(1)]


@sequence(9, t=topic((3, 0), min_insync_replicas="5"))
def one_of_two_with_a_minimum_of_five(version: int) -> list[Action]:
    """The effective minimum is two, and one of two is away."""
    return [
        *_before("a", ranks=(0,)),
        produce(version, {"t": {0: batch("b")}}, to=broker(0)),
        produce(version, {"t": {0: batch("b")}}, acks=1, to=broker(0)),
        fetch(12, {"t": {0: 0}}, to=broker(0)),
    ]


@sequence(9, t=topic((3, 0)))
def last_replica_goes_on_alone(version: int) -> list[Action]:
    """With a minimum of one, the leader alone commits."""
    return [
        *_before("a", ranks=(0,)),
        produce(version, {"t": {0: batch("b")}}, to=broker(0)),
        fetch(12, {"t": {0: 0}}, to=broker(0)),
        metadata(9, ["t"]),
    ]


@sequence(9, t=THREE)
def several_partitions_in_one_request(version: int) -> list[Action]:
    """A partition that is refused does not hold up another topic's."""
    return [
        Departure(),
        produce(version, {"t": {0: batch("a"), 1: batch("b")}}, to=broker(0)),
        produce(version, {"t": {0: batch("a")}}, acks=0, to=broker(0), hold=True),
        list_offsets(9, {"t": {0: -1}}, to=broker(0), connection="other"),
    ]


@sequence(9, t=THREE)
def retry_after_a_refusal(version: int) -> list[Action]:
    """What was refused was not appended: its number is free."""
    first = batch("a", producer_id=1_000_000_777, producer_epoch=0, base_sequence=0)
    second = batch("b", producer_id=1_000_000_777, producer_epoch=0, base_sequence=1)
    return [
        Departure(),
        produce(version, {"t": {0: first}}, to=broker(0)),
        produce(version, {"t": {0: first}}, to=broker(0)),
        _minimum(2),
        Pause(500),
        produce(version, {"t": {0: first}}, to=broker(0)),
        produce(version, {"t": {0: second}}, to=broker(0)),
    ]


@sequence(2, t=THREE)
def deleting_what_is_not_committed(version: int) -> list[Action]:
    """Deletion goes up to the watermark only; a replica that is away is not waited for."""
    return [
        *_before("a", "b"),
        _committed(2, quiet=True),
        _written(0, "c", acks=1),
        delete_records(version, {"t": {0: 3}}, to=broker(0)),
        delete_records(version, {"t": {0: 1}}, to=broker(0)),
        delete_records(version, {"t": {0: -1}}, to=broker(0)),
        fetch(12, {"t": {0: 1}}, to=broker(0)),
        fetch(12, {"t": {0: 2}}, to=broker(0)),
    ]


@sequence(*edges(FETCH), t=THREE)
def committed_records_stay_readable(version: int) -> list[Action]:
    """Below the minimum a partition is read as before, also with isolation 1."""
    return [
        *_before("a"),
        _committed(1, quiet=True),
        fetch(version, {"t": {0: 0}}, to=broker(0)),
        fetch(version, {"t": {0: 0}}, isolation_level=1, to=broker(0)),
    ]


@sequence(12, t=THREE)
def waiting_between_watermark_and_end(version: int) -> list[Action]:
    """A consumer above the watermark is answered at once and empty; one at the watermark waits."""
    return [
        *_before("a"),
        _committed(1, quiet=True),
        _written(0, "b", acks=1),
        fetch(version, {"t": {0: 1}}, max_wait=300, waits_ms=300, to=broker(0)),
        leader_epochs(4, {"t": {0: 1}}, to=broker(0)),
    ]


@sequence(1, 9, t=THREE)
def latest_offset_of_others_than_consumers(version: int) -> list[Action]:
    """Debuggers, at the leader or at a follower, and all who claim to be a replica, get the log end."""
    both = {"topics.0.partitions.0.offset": 2}
    return [
        *_before("a"),
        _committed(1, quiet=True),
        _written(0, "b", acks=1),
        *(list_offsets(version, {"t": {0: -1}}, replica_id=replica, to=broker(0)) for replica in (-1, -2, -3, 7)),
        list_offsets(version, {"t": {0: -1}}, replica_id=-2, to=broker(1), settle=both),
        *(list_offsets(version, {"t": {0: -1}}, replica_id=replica, to=broker(1)) for replica in (-1, -3, 7)),
        *(
            list_offsets(version, {"t": {0: 1_700_000_000_001}}, replica_id=replica, to=broker(rank))
            for replica in (-1, -2, 7)
            for rank in (0, 1)
        ),
    ]
