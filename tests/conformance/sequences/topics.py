"""CreateTopics and DeleteTopics: names, numbers, assignments, configs, ids, partial failure."""

from typing import Any

from tests.conformance.apis import CREATE_TOPICS, DELETE_TOPICS, edges, every
from tests.conformance.batches import batch
from tests.conformance.requests import create_topics, delete_topics, fetch, metadata, new_topic, produce
from tests.conformance.steps import Action, BrokerNumber, Joined, Name, TopicId, broker, exact, leader, sequence, topic

B0, B1, B2 = BrokerNumber(0), BrokerNumber(1), BrokerNumber(2)
UNKNOWN_ID = "33333333-3333-3333-3333-333333333333"


def _visible(*names: str) -> list[Action]:
    return [
        metadata(9, [each], settle={"topics.0.error_code": 0, "topics.0.partitions.0.error_code": 0}) for each in names
    ]


def _gone(*names: str) -> list[Action]:
    return [metadata(9, [each], settle={"topics.0.error_code": 3}) for each in names]


@sequence(*every(CREATE_TOPICS))
def creating(version: int) -> list[Action]:
    """A topic with counts, one with an assignment, one with configs; then they are there."""
    return [
        create_topics(
            version,
            new_topic("a", 3, 2),
            new_topic("b", assignments={0: [B0, B1], 1: [B2, B0]}),
            new_topic("c", 1, 1, configs={"retention.ms": "1000", "cleanup.policy": "compact"}),
        ),
        *_visible("a", "b", "c"),
    ]


@sequence(2, 3, 4, 7)
def defaults(version: int) -> list[Action]:
    """-1 asks for the broker's defaults."""
    return [create_topics(version, new_topic("a", -1, -1)), *_visible("a")]


@sequence(*edges(CREATE_TOPICS))
def validating(version: int) -> list[Action]:
    """validate_only answers the same and makes nothing."""
    return [
        create_topics(version, new_topic("a", 2, 2), new_topic("b", 0, 1), validate_only=True),
        metadata(9, ["a"]),
    ]


@sequence(*edges(CREATE_TOPICS), t=topic((0,)))
def existing(version: int) -> list[Action]:
    """A topic that exists is 36, also when only validating."""
    return [create_topics(version, "t"), create_topics(version, "t", validate_only=True)]


@sequence(*edges(CREATE_TOPICS))
def bad_numbers(version: int) -> list[Action]:
    """Partitions and factors out of bounds."""
    counts = ((0, 1), (-2, 1), (100_000, 1), (1, 0), (1, -2), (0, 0), (1, 4), (1, 32_767), (-1, 4))
    return [create_topics(version, new_topic("a", partitions, factor)) for partitions, factor in counts]


@sequence(2, 7)
def bad_names(version: int) -> list[Action]:
    """Names no topic can have are 17."""
    return [create_topics(version, *(new_topic(exact(bad)) for bad in ("", ".", "..", "a b", "é", "a/b", "x" * 250)))]


@sequence(7)
def longest_name(version: int) -> list[Action]:
    """249 characters are fine."""
    return [create_topics(version, new_topic(exact("x" * 249)), validate_only=True)]


@sequence(7)
def reserved_name(version: int) -> list[Action]:
    """The log of the metadata quorum is not a topic for clients."""
    return [create_topics(version, new_topic(exact("__cluster_metadata")))]


@sequence(2, 7)
def colliding_names(version: int) -> list[Action]:
    """A dot and an underscore in the same place collide."""
    dotted, underscored = Joined((Name("a"), ".b")), Joined((Name("a"), "_b"))
    return [create_topics(version, new_topic(dotted)), create_topics(version, new_topic(underscored))]


@sequence(7)
def colliding_in_one_request(version: int) -> list[Action]:
    """Two colliding names in one request are not compared with each other."""
    return [create_topics(version, new_topic(Joined((Name("a"), ".b"))), new_topic(Joined((Name("a"), "_b"))))]


@sequence(*edges(CREATE_TOPICS))
def duplicates(version: int) -> list[Action]:
    """The same name twice is one refusal; others in the request are made."""
    return [create_topics(version, "a", "a", "b"), metadata(9, ["a"]), *_visible("b")]


@sequence(*edges(CREATE_TOPICS))
def partly(version: int) -> list[Action]:
    """Each topic for itself."""
    return [
        create_topics(
            version, new_topic("a", 0), new_topic("b"), new_topic("c", 1, 9), new_topic("d", configs={"no.such": "1"})
        ),
        *_visible("b"),
    ]


@sequence(*edges(CREATE_TOPICS))
def bad_assignments(version: int) -> list[Action]:
    """Assignments that contradict themselves or the cluster are 39."""
    rows: list[Any] = [
        {0: [B0, B0]},
        {0: [BrokerNumber(0), 99]},
        {0: [-1]},
        {1: [B0]},
        {0: [B0], 2: [B1]},
        [(0, [B0]), (0, [B1])],
        {0: [B0], 1: [B0, B1]},
        {0: []},
    ]
    return [create_topics(version, new_topic("a", assignments=row)) for row in rows]


@sequence(7)
def assignment_in_any_order(version: int) -> list[Action]:
    """Partitions of an assignment may come in any order."""
    return [create_topics(version, new_topic("a", assignments={1: [B1], 0: [B0]})), *_visible("a")]


@sequence(*edges(CREATE_TOPICS))
def assignment_and_counts(version: int) -> list[Action]:
    """An assignment and a count exclude each other."""
    base = new_topic("a", assignments={0: [B0]})
    return [
        create_topics(version, {**base, "replication_factor": 1}),
        create_topics(version, {**base, "num_partitions": 1}),
        create_topics(version, {**base, "num_partitions": 1, "replication_factor": 1}),
    ]


BAD_CONFIGS: tuple[tuple[str, Any], ...] = (
    ("no.such", "1"),
    ("retention.ms", "abc"),
    ("retention.ms", "-2"),
    ("retention.ms", None),
    ("retention.ms", ""),
    ("cleanup.policy", "shrink"),
    ("segment.bytes", "13"),
    ("segment.bytes", "1048575"),
    ("min.insync.replicas", "0"),
    ("compression.type", "best"),
    ("unclean.leader.election.enable", "maybe"),
    ("max.message.bytes", "-1"),
    ("min.cleanable.dirty.ratio", "2"),
    ("message.timestamp.type", "Never"),
    ("follower.replication.throttled.replicas", "a:1"),
)


@sequence(2, 7)
def bad_configs(version: int) -> list[Action]:
    """Unknown configs and values out of bounds are 40."""
    return [create_topics(version, new_topic("a", configs={key: value})) for key, value in BAD_CONFIGS]


@sequence(7)
def odd_configs(version: int) -> list[Action]:
    """Values are trimmed, booleans come in any case, the last of two wins, empty lists and repeated items pass."""
    return [
        create_topics(
            version, new_topic("a", configs={"retention.ms": " 1000 ", "unclean.leader.election.enable": "TRUE"})
        ),
        create_topics(version, new_topic("b", configs=[("retention.ms", "1"), ("retention.ms", "2")])),
        create_topics(version, new_topic("c", configs={"cleanup.policy": ""})),
        create_topics(version, new_topic("d", configs={"cleanup.policy": "delete,delete"})),
        create_topics(version, new_topic("e", configs={"leader.replication.throttled.replicas": "0:0,1:1"})),
        create_topics(version, new_topic("f", configs={"min.compaction.lag.ms": "20", "max.compaction.lag.ms": "10"})),
    ]


@sequence(*edges(CREATE_TOPICS))
def no_time(version: int) -> list[Action]:
    """Without time nothing is made."""
    return [create_topics(version, "a", timeout=0), create_topics(version, "a", timeout=-1), metadata(9, ["a"])]


@sequence(*edges(CREATE_TOPICS))
def nothing(version: int) -> list[Action]:
    """No topics, no rows."""
    return [create_topics(version), delete_topics(min(version, 6))]


@sequence(7)
def at_every_broker(version: int) -> list[Action]:
    """Every broker accepts."""
    return [*(create_topics(version, f"t{rank}", to=broker(rank)) for rank in range(3)), *_visible("t0", "t1", "t2")]


@sequence(*every(DELETE_TOPICS), t=topic((0,)))
def deleting(version: int) -> list[Action]:
    """A known and an unknown name; then it is gone."""
    return [delete_topics(version, "t", "nope"), *_gone("t"), delete_topics(version, "t")]


@sequence(6, a=topic((0,)), b=topic((0,)))
def deleting_by_id(version: int) -> list[Action]:
    """By id; an unknown id is 100."""
    return [
        delete_topics(version, TopicId("a"), {"name": None, "topic_id": UNKNOWN_ID}),
        *_gone("a"),
        delete_topics(version, TopicId("a")),
        metadata(9, ["b"]),
    ]


@sequence(6, t=topic((0,)))
def deleting_oddly(version: int) -> list[Action]:
    """Duplicates, both fields, neither: 42, and nothing is deleted."""
    by_name = {"name": Name("t"), "topic_id": None}
    by_id = {"name": None, "topic_id": TopicId("t")}
    return [
        delete_topics(version, by_name, by_name),
        delete_topics(version, by_id, by_id),
        delete_topics(version, by_name, by_id),
        delete_topics(version, by_id, by_name),
        delete_topics(version, {"name": Name("t"), "topic_id": TopicId("t")}),
        delete_topics(version, {"name": None, "topic_id": None}),
        metadata(9, ["t"]),
    ]


@sequence(1, 5, t=topic((0,)))
def deleting_twice_in_one(version: int) -> list[Action]:
    """A name twice in one request."""
    return [delete_topics(version, "t", "t"), metadata(9, ["t"])]


@sequence(1, 6, t=topic((0,)))
def deleting_without_time(version: int) -> list[Action]:
    """Without time nothing is deleted."""
    return [delete_topics(version, "t", timeout=0), delete_topics(version, "t", timeout=-1), metadata(9, ["t"])]


@sequence(1, 6)
def deleting_invalid_names(version: int) -> list[Action]:
    """Names no topic can have are unknown."""
    return [delete_topics(version, exact(""), exact("a b"), exact("."))]


@sequence(13)
def created_again(version: int) -> list[Action]:
    """A topic of the same name is another topic: old ids are 100, the log begins anew."""
    return [
        create_topics(7, new_topic("t")),
        *_visible("t"),
        produce(9, {"t": {0: batch("a")}}, settle={"responses.0.partition_responses.0.error_code": 0}, quiet=True),
        fetch(version, {"t": {0: 0}}),
        delete_topics(6, "t"),
        *_gone("t"),
        create_topics(7, new_topic("t", assignments={0: [B0]}), to=broker(0)),
        *_visible("t"),
        fetch(version, {"t": {0: 0}}, to=broker(0), settle={"responses.0.partitions.0.error_code": 100}),
        fetch(12, {"t": {0: 0}}, to=broker(0), settle={"responses.0.partitions.0.error_code": 0}),
    ]


@sequence(9, t=topic((0,)))
def produce_to_deleted(version: int) -> list[Action]:
    """A deleted topic is unknown to writers and readers."""
    return [
        delete_topics(6, "t"),
        produce(
            version, {"t": {0: batch("a")}}, to=leader("t"), settle={"responses.0.partition_responses.0.error_code": 3}
        ),
        fetch(12, {"t": {0: 0}}, to=leader("t")),
    ]


@sequence(2, 7)
def no_remote_storage(version: int) -> list[Action]:
    """A topic cannot be tiered by brokers that have nothing to tier to."""
    rows: list[dict[str, str]] = [
        {"remote.storage.enable": "true"},
        {"remote.storage.enable": "TRUE", "local.retention.ms": "1"},
        {"remote.storage.enable": "true", "cleanup.policy": "compact"},
        {"remote.storage.enable": "false", "remote.log.copy.disable": "true"},
        {"remote.log.delete.on.disable": "true"},
        {"remote.storage.enable": "true", "no.such": "1"},
    ]
    return [create_topics(version, new_topic("a", configs=row), validate_only=True) for row in rows]


@sequence(*edges(CREATE_TOPICS), t=topic((0,)))
def too_many_partitions(version: int) -> list[Action]:
    """The sum of a request is looked at before its topics, and refuses all of them."""
    return [
        create_topics(version, new_topic("t", 100_000)),
        create_topics(version, new_topic("a", 100_000), new_topic(exact("a b")), "b", "b"),
        create_topics(version, new_topic("a", 100_000), new_topic("a", 100_000), new_topic("t")),
    ]


@sequence(*edges(CREATE_TOPICS))
def no_time_for_what_is_refused(version: int) -> list[Action]:
    """A request of nothing but repeated and reserved names needs no time."""
    reserved = new_topic(exact("__cluster_metadata"))
    return [
        create_topics(version, "a", "a", timeout=0),
        create_topics(version, "a", "a", reserved, timeout=0),
        create_topics(version, "a", "a", "b", timeout=0),
    ]
