"""Produce: who may write where, acknowledgements, duplicates, names; batches themselves are good."""

from tests.conformance.apis import PRODUCE, edges, every
from tests.conformance.batches import ZSTD, Record, batch, sized
from tests.conformance.group_requests import find_coordinator
from tests.conformance.requests import fetch, list_offsets, metadata, produce
from tests.conformance.steps import Action, broker, exact, follower, leader, sequence, topic


@sequence(*every(PRODUCE), t=topic((0,)))
def acknowledged(version: int) -> list[Action]:
    """A good batch with acks -1, then 1; then both are read."""
    return [
        produce(version, {"t": {0: batch("a", "b")}}),
        produce(version, {"t": {0: batch("c")}}, acks=1),
        fetch(12, {"t": {0: 0}}),
    ]


@sequence(*edges(PRODUCE), t=topic((0, 1, 2)))
def replicated(version: int) -> list[Action]:
    """With three replicas acks=all is answered when all have the batch."""
    return [
        produce(version, {"t": {0: batch("a")}}, timeout=10_000),
        fetch(12, {"t": {0: 0}}),
        produce(version, {"t": {0: batch("b")}}, timeout=10_000),
    ]


@sequence(*edges(PRODUCE), t=topic((0,), (0,)))
def bad_acks(version: int) -> list[Action]:
    """Acks other than -1, 0, 1 are 21 for every partition."""
    return [produce(version, {"t": {0: batch("a"), 1: batch("b")}}, acks=acks) for acks in (-2, 2, 100)]


@sequence(*edges(PRODUCE), t=topic((0,)))
def no_acks(version: int) -> list[Action]:
    """Acks 0 is not answered, the next request on the connection is."""
    return [
        produce(version, {"t": {0: batch("a")}}, acks=0, hold=True, quiet=True),
        metadata(1, [], to=leader("t"), connection="other"),
        list_offsets(1, {"t": {0: -1}}, connection="other", settle={"topics.0.partitions.0.offset": 1}),
    ]


@sequence(9, t=topic((0,)))
def no_acks_is_silent(version: int) -> list[Action]:
    """Acks 0: nothing comes back."""
    return [produce(version, {"t": {0: batch("a")}}, acks=0, answer_ms=250)]


@sequence(9, t=topic((0,)))
def no_acks_not_leader(version: int) -> list[Action]:
    """Acks 0 at another broker closes the connection: the only way to say no."""
    return [produce(version, {"t": {0: batch("a")}}, acks=0, to=follower("t"), answer_ms=5000)]


@sequence(9, t=topic((0,)))
def no_acks_bad_checksum(version: int) -> list[Action]:
    """Acks 0 with a corrupt batch closes the connection."""
    return [produce(version, {"t": {0: batch("a", bad_checksum=True)}}, acks=0, answer_ms=5000)]


@sequence(9, t=topic((0, 1, 2)))
def timeout_at_once(version: int) -> list[Action]:
    """Timeout 0 cannot be met by three replicas: 7 with the offset filled, and the record stays."""
    return [
        produce(version, {"t": {0: batch("warm")}}, timeout=10_000),
        produce(version, {"t": {0: batch("a")}}, timeout=0),
        produce(version, {"t": {0: batch("b")}}, timeout=-1),
        list_offsets(4, {"t": {0: -1}}, settle={"topics.0.partitions.0.offset": 3}),
    ]


@sequence(*edges(PRODUCE), t=topic((0,)))
def unknown_places(version: int) -> list[Action]:
    """Unknown topic, unknown or negative partition, empty name: 3."""
    return [
        produce(version, {"nope": {0: batch("a")}}, to=broker()),
        produce(version, {"t": {9: batch("a")}}, to=leader("t")),
        produce(version, {"t": {-1: batch("a")}}, to=leader("t")),
        produce(version, {exact(""): {0: batch("a")}}, to=broker()),
        produce(version, {exact("a b"): {0: batch("a")}}, to=broker()),
        metadata(4, ["nope"]),
    ]


@sequence(3, 9, 10, 11, t=topic((0,)))
def not_leader(version: int) -> list[Action]:
    """Another broker answers 6, from v10 with the leader and its address."""
    return [produce(version, {"t": {0: batch("a")}}, to=follower("t"))]


@sequence(10, t=topic((0,), (1,), (2,)))
def not_leader_of_several(version: int) -> list[Action]:
    """Hints name each leader once."""
    return [produce(version, {"t": {0: batch("a"), 1: batch("b"), 2: batch("c")}}, to=broker(0))]


@sequence(*edges(PRODUCE))
def offsets_topic(version: int) -> list[Action]:
    """Clients may not write into the offsets topic; a partition it does not have is unknown."""
    return [
        find_coordinator(1, "g", quiet=True),
        produce(version, {exact("__consumer_offsets"): {0: batch("a")}}, to=broker()),
        produce(version, {exact("__consumer_offsets"): {99: batch("a")}}, to=broker()),
        produce(version, {exact("__transaction_state_not_there"): {0: batch("a")}}, to=broker()),
    ]


@sequence(*edges(PRODUCE), t=topic((0,)))
def nothing(version: int) -> list[Action]:
    """No topics, or a topic without partitions: no rows."""
    return [produce(version, {}, to=broker()), produce(version, {"t": {}}, to=leader("t"))]


@sequence(9, t=topic((0,)))
def duplicate_partitions(version: int) -> list[Action]:
    """A partition given twice: one row, and only the last entry is appended."""
    return [
        produce(version, {"t": [(0, batch("first")), (0, batch("second"))]}),
        fetch(12, {"t": {0: 0}}),
    ]


@sequence(9, t=topic((0,)))
def duplicate_topics(version: int) -> list[Action]:
    """A topic given twice: one row, and only the last entry is appended."""
    return [
        produce(version, [("t", {0: batch("first")}), ("t", {0: batch("second")})]),
        fetch(12, {"t": {0: 0}}),
    ]


@sequence(3, 8, 11, t=topic((0,), (1,), (0,)))
def good_and_bad(version: int) -> list[Action]:
    """Each partition has its own result."""
    return [
        produce(
            version,
            {
                "t": {0: batch("a"), 1: batch("b"), 2: batch("c", bad_checksum=True), 7: batch("d")},
                "nope": {0: batch("e")},
            },
        ),
        fetch(12, {"t": {0: 0, 2: 0}}),
    ]


@sequence(9, t=topic((0,), max_message_bytes="300"))
def largest_batch(version: int) -> list[Action]:
    """A batch of max.message.bytes is accepted, one byte more is 10."""
    return [
        produce(version, {"t": {0: sized(300)}}),
        produce(version, {"t": {0: sized(301)}}),
        produce(version, {"t": {0: sized(5000)}}),
        produce(version, {"t": {0: sized(300)}}),
    ]


@sequence(3, 11, t=topic((0,), max_message_bytes="200"))
def large_but_compressed(version: int) -> list[Action]:
    """What counts is the size as it was received."""
    return [produce(version, {"t": {0: batch("x" * 2000, codec=1)}})]


@sequence(9, t=topic((0,), segment_bytes="1048576", max_message_bytes="3000000"))
def larger_than_a_segment(version: int) -> list[Action]:
    """A batch that no segment can hold is 18."""
    return [produce(version, {"t": {0: sized(1_048_577)}}), produce(version, {"t": {0: batch("a")}})]


@sequence(9, t=topic((0, 1), min_insync_replicas="3"))
def effective_minimum(version: int) -> list[Action]:
    """min.insync.replicas above the number of replicas is that number."""
    return [produce(version, {"t": {0: batch("a")}}, timeout=10_000)]


@sequence(7, 8, 11, t=topic((0,), cleanup_policy="compact"), both=topic((0,), cleanup_policy="compact,delete"))
def keyless_on_compacted(version: int) -> list[Action]:
    """Records without a key are refused where keys decide what is kept; an empty key is a key."""
    bare = Record(b"v", None)
    return [
        produce(version, {"t": {0: batch(bare)}}),
        produce(version, {"t": {0: batch("a", bare, "b", bare, bare, bare)}}),
        produce(version, {"both": {0: batch(bare)}}),
        produce(version, {"t": {0: batch(Record(b"v", b""))}}),
        fetch(12, {"t": {0: 0}}),
    ]


@sequence(9, t=topic((0,), cleanup_policy="compact"))
def keyless_and_compressed(version: int) -> list[Action]:
    """The check looks into compressed batches."""
    return [produce(version, {"t": {0: batch(Record(b"v", None), codec=codec)}}) for codec in (1, 2, 3, 4)]


@sequence(9, t=topic((0,)))
def null_records(version: int) -> list[Action]:
    """Records that are null: Kafka never answers."""
    return [produce(version, {"t": {0: None}}, answer_ms=300)]


@sequence(9, t=topic((0,)))
def transactional_id_with_plain_batch(version: int) -> list[Action]:
    """A transactional id does not make a batch transactional."""
    return [produce(version, {"t": {0: batch("a")}}, transactional_id="x")]


@sequence(9, t=topic((0,)))
def transactional_batch_without_id(version: int) -> list[Action]:
    """The transactional bit without a transactional id is 53."""
    return [
        produce(version, {"t": {0: batch("a", attributes=0x10)}}),
        produce(
            version,
            {"t": {0: batch("a", attributes=0x10, producer_id=9_000_000_001, producer_epoch=0, base_sequence=0)}},
        ),
    ]


@sequence(3, 6, 9, 11, t=topic((0,)))
def bad_acks_and_worse(version: int) -> list[Action]:
    """Partitions that do not exist and records in no form at all are refused before the acks are looked at."""
    return [
        produce(version, {"t": {9: batch("a")}}, acks=2, to=leader("t")),
        *(produce(version, {"t": {0: each}}, acks=2) for each in (b"", batch("a", magic=1), batch("a", codec=ZSTD))),
        produce(version, {"t": {0: batch("a", bad_checksum=True)}}, acks=2),
    ]
