"""ListOffsets: special timestamps, by time, epochs, replicas, duplicates."""

from tests.conformance.apis import LIST_OFFSETS, edges, every
from tests.conformance.batches import GZIP, T0, Record, batch
from tests.conformance.requests import delete_records, list_offsets, produce
from tests.conformance.steps import Action, Pause, broker, exact, follower, leader, sequence, topic


def _dated(*deltas: int, codec: int = 0) -> Action:
    return produce(
        7, {"t": {0: batch(*(Record(b"v", b"k", timestamp_delta=delta) for delta in deltas), codec=codec)}}, quiet=True
    )


def _filled() -> list[Action]:
    return [_dated(0, 10, 20), _dated(50, 40, 30), _dated(100)]


@sequence(*every(LIST_OFFSETS), t=topic((0,)))
def special_timestamps(version: int) -> list[Action]:
    """Latest, earliest, and those that came later with a version each: 35 before."""
    return [*_filled(), *(list_offsets(version, {"t": {0: special}}) for special in (-1, -2, -3, -4, -5, -6, -7, -99))]


@sequence(*edges(LIST_OFFSETS), t=topic((0,)))
def empty_partition(version: int) -> list[Action]:
    """On an empty partition."""
    return [*(list_offsets(version, {"t": {0: special}}) for special in (-1, -2, -3, 0, T0))]


@sequence(1, 4, 9, t=topic((0,)))
def by_time(version: int) -> list[Action]:
    """The first record in offset order that is not older."""
    return [
        *_filled(),
        *(list_offsets(version, {"t": {0: T0 + delta}}) for delta in (-5, 0, 5, 10, 20, 25, 45, 50, 51, 100, 101)),
    ]


@sequence(9, t=topic((0,)))
def by_time_compressed(version: int) -> list[Action]:
    """Also inside compressed batches."""
    return [
        _dated(0, 10, 20, codec=GZIP),
        *(list_offsets(version, {"t": {0: T0 + delta}}) for delta in (5, 10, 20, 21)),
    ]


@sequence(9, t=topic((0,)))
def largest_timestamp(version: int) -> list[Action]:
    """The first of the records with the largest timestamp."""
    return [_dated(0, 90, 90, 10), _dated(90), list_offsets(version, {"t": {0: -3}})]


@sequence(9, t=topic((0,), message_timestamp_type="LogAppendTime"))
def append_time(version: int) -> list[Action]:
    """Every record of a batch has the time of the batch."""
    return [
        _dated(0, 10),
        Pause(10),
        _dated(5),
        list_offsets(version, {"t": {0: -3}}),
        list_offsets(version, {"t": {0: T0}}),
    ]


@sequence(4, 9, t=topic((0,)))
def epochs(version: int) -> list[Action]:
    """A newer epoch is 75, an older one 74; before the question who leads."""
    return [
        *_filled(),
        *(
            list_offsets(version, {"t": {0: {"timestamp": -1, "current_leader_epoch": epoch}}})
            for epoch in (0, 1, -1, -2)
        ),
        *(
            list_offsets(version, {"t": {0: {"timestamp": -1, "current_leader_epoch": epoch}}}, to=follower("t"))
            for epoch in (0, 1)
        ),
    ]


@sequence(*edges(LIST_OFFSETS), t=topic((0,)))
def unknown_places(version: int) -> list[Action]:
    """Unknown topics and partitions are 3."""
    return [
        list_offsets(version, {exact("nope"): {0: -1}}, to=broker()),
        list_offsets(version, {"t": {9: -1}}, to=leader("t")),
        list_offsets(version, {"t": {-1: -1}}, to=leader("t")),
        list_offsets(version, {exact(""): {0: -1}}, to=broker()),
    ]


@sequence(1, 4, 9, t=topic((0, 1)))
def not_leader(version: int) -> list[Action]:
    """Followers, and brokers without a replica, answer 6."""
    return [
        list_offsets(version, {"t": {0: -1}}, to=follower("t")),
        list_offsets(version, {"t": {0: -1}}, to=broker(2)),
    ]


@sequence(*edges(LIST_OFFSETS), t=topic((0, 1)))
def replica_ids(version: int) -> list[Action]:
    """Debuggers may ask a follower; anyone may claim to be a replica."""
    return [
        *_filled(),
        list_offsets(version, {"t": {0: -1}}, replica_id=-2, to=leader("t")),
        list_offsets(version, {"t": {0: -2}}, replica_id=-2, to=follower("t")),
        list_offsets(version, {"t": {0: -1}}, replica_id=7, to=leader("t")),
    ]


@sequence(*edges(LIST_OFFSETS), t=topic((0,)))
def duplicates(version: int) -> list[Action]:
    """A partition asked twice is answered once with 42."""
    return [
        *_filled(),
        list_offsets(version, {"t": [(0, -1), (0, -2)]}),
        list_offsets(version, [("t", {0: -1}), ("t", {0: -1})]),
    ]


@sequence(9, t=topic((0,), (0,)))
def topic_listed_twice(version: int) -> list[Action]:
    """Of a topic that is listed twice there is one row."""
    return [
        list_offsets(version, [("t", {0: -1}), ("t", {1: -1})]),
        list_offsets(version, [("t", {0: -1, 1: -1}), ("t", {1: -2})]),
        list_offsets(version, [("t", {0: -1}), ("t", {0: -1, 1: -1})], isolation_level=3),
    ]


@sequence(2, 9, t=topic((0,)))
def isolation(version: int) -> list[Action]:
    """Read committed ends at the last stable offset."""
    return [*_filled(), *(list_offsets(version, {"t": {0: -1}}, isolation_level=level) for level in (0, 1, 3))]


@sequence(*edges(LIST_OFFSETS))
def nothing(version: int) -> list[Action]:
    """No topics: no rows."""
    return [list_offsets(version, {}, to=broker())]


@sequence(9, t=topic((0,)))
def after_delete_records(version: int) -> list[Action]:
    """After a deletion: the start moves, times below it are not found, the largest timestamp stays."""
    return [
        *_filled(),
        delete_records(2, {"t": {0: 4}}),
        *(list_offsets(version, {"t": {0: special}}) for special in (-1, -2, -3, -4, T0, T0 + 45, T0 + 60)),
        delete_records(2, {"t": {0: -1}}),
        *(list_offsets(version, {"t": {0: special}}) for special in (-1, -2, T0)),
    ]


@sequence(9, t=topic((0,), (0,)))
def several(version: int) -> list[Action]:
    """Good and bad partitions in one request."""
    return [*_filled(), list_offsets(version, {"t": {0: -1, 1: -2, 5: -1}, exact("nope"): {0: -1}})]


@sequence(*edges(LIST_OFFSETS), t=topic((0,)))
def topics_without_partitions(version: int) -> list[Action]:
    """A topic of which no partition is asked."""
    return [
        list_offsets(version, {"t": {}}, to=broker()),
        list_offsets(version, {exact("nope"): {}}, to=broker()),
        list_offsets(version, [("t", {}), ("t", {0: -1}), (exact("nope"), {})], to=broker()),
        list_offsets(version, [("t", {0: -1}), ("t", {})], to=broker(), isolation_level=3),
    ]


@sequence(1, 6, 9, t=topic((0,)))
def special_times_of_nothing(version: int) -> list[Action]:
    """A special time that the version does not have is 35, wherever it is asked for."""
    return [
        list_offsets(version, {"t": {9: -4}}, to=broker()),
        list_offsets(version, {exact("nope"): {0: -7}}, to=broker()),
        list_offsets(version, {"t": {0: -99}}, to=broker(1)),
    ]


@sequence(2, 9, t=topic((0,)))
def isolation_and_duplicates(version: int) -> list[Action]:
    """A request that is refused as a whole is answered row by row."""
    return [list_offsets(version, {"t": [(0, -1), (0, -2)]}, isolation_level=3)]
