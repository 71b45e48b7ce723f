"""DeleteRecords: bounds, what is left, who refuses."""

from tests.conformance.apis import DELETE_RECORDS, edges, every
from tests.conformance.batches import batch
from tests.conformance.group_requests import find_coordinator
from tests.conformance.requests import delete_records, fetch, list_offsets, produce
from tests.conformance.steps import Action, broker, exact, follower, leader, sequence, topic


def _filled(topic_name: str = "t") -> list[Action]:
    return [produce(7, {topic_name: {0: batch(value)}}, quiet=True) for value in ("a", "b", "c", "d")]


@sequence(*every(DELETE_RECORDS), t=topic((0,)))
def bounds(version: int) -> list[Action]:
    """Up to an offset, again, below, to the end, beyond it."""
    return [*_filled(), *(delete_records(version, {"t": {0: offset}}) for offset in (2, 2, 1, 0, 5, -2, -1, 4, 10**15))]


@sequence(2, t=topic((0,)))
def what_is_left(version: int) -> list[Action]:
    """The log start moves, and readers see it."""
    return [
        *_filled(),
        delete_records(version, {"t": {0: 3}}),
        list_offsets(7, {"t": {0: -2}}),
        fetch(12, {"t": {0: 2}}),
        fetch(12, {"t": {0: 3}}),
        produce(9, {"t": {0: batch("e")}}),
    ]


@sequence(2, t=topic((0, 1, 2)))
def replicated(version: int) -> list[Action]:
    """With followers the answer is what all of them have deleted."""
    return [*_filled(), delete_records(version, {"t": {0: 2}}), delete_records(version, {"t": {0: 1}})]


@sequence(
    *edges(DELETE_RECORDS),
    t=topic((0,)),
    compacted=topic((0,), cleanup_policy="compact"),
    both=topic((0,), cleanup_policy="compact,delete"),
)
def refusals(version: int) -> list[Action]:
    """Unknown 3, not leader 6, compacted 44, internal 17; compact and delete together are fine."""
    return [
        *_filled(),
        produce(7, {"both": {0: batch("a")}}, quiet=True),
        delete_records(version, {exact("nope"): {0: 1}}, to=broker()),
        delete_records(version, {"t": {9: 1}}, to=leader("t")),
        delete_records(version, {"t": {0: 1}}, to=follower("t")),
        delete_records(version, {"compacted": {0: 0}}),
        delete_records(version, {"both": {0: 1}}),
        find_coordinator(1, "g", quiet=True),
        delete_records(version, {exact("__consumer_offsets"): {0: 0}}, to=broker()),
    ]


@sequence(2, t=topic((0,), cleanup_policy=""))
def without_a_policy(version: int) -> list[Action]:
    """A topic that is cleaned up in no way loses what it is asked to lose."""
    return [
        *_filled(),
        delete_records(version, {"t": {0: 100}}),
        delete_records(version, {"t": {0: 1}}),
        list_offsets(9, {"t": {0: -2}}),
    ]


@sequence(2, t=topic((0,)))
def duplicates_and_nothing(version: int) -> list[Action]:
    """The last entry counts; no topics, no rows."""
    return [*_filled(), delete_records(version, {"t": [(0, 3), (0, 1)]}), delete_records(version, {}, to=broker())]


@sequence(2, t=topic((0,), (0,)))
def partly(version: int) -> list[Action]:
    """Each partition for itself."""
    return [*_filled(), delete_records(version, {"t": {0: 1, 1: 1, 9: 1}, exact("nope"): {0: 1}}, to=leader("t"))]
