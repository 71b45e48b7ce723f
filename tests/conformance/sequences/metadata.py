"""Metadata: all, none, unknown, invalid, by id, internal, auto-created."""

from tests.conformance.apis import METADATA, every
from tests.conformance.group_requests import find_coordinator
from tests.conformance.requests import create_topics, metadata, new_topic
from tests.conformance.steps import Action, Joined, Name, Pause, TopicId, broker, exact, sequence, topic

UNKNOWN_ID = "11111111-1111-1111-1111-111111111111"
ZERO_ID = None


@sequence(*every(METADATA), t=topic((0, 1, 2), (1, 2, 0), (2, 1, 0)))
def known_topic(version: int) -> list[Action]:
    """A topic of three partitions, as every version shows it."""
    return [metadata(version, ["t"])]


@sequence(*every(METADATA), a=topic((0,)), b=topic((1,)))
def all_topics(version: int) -> list[Action]:
    """All topics: the empty list in v0, null from v1."""
    return [metadata(version, [] if version == 0 else None, own_rows=True)]


@sequence(1, 12)
def no_topics(version: int) -> list[Action]:
    """An empty list asks for none."""
    return [metadata(version, [])]


@sequence(0, 1, 4, 9, 12)
def unknown_topic(version: int) -> list[Action]:
    """An unknown name is 3 with nothing else when topics are not created."""
    if version < 4:
        return [metadata(4, ["nope"]), metadata(4, ["nope"])]
    return [metadata(version, ["nope"])]


@sequence(4, 12)
def auto_create(version: int) -> list[Action]:
    """The first answer is 3; soon after the topic is there with the defaults."""
    return [
        metadata(version, ["auto"], create=True),
        metadata(version, ["auto"], settle={"topics.0.error_code": 0, "topics.0.partitions.0.error_code": 0}),
    ]


@sequence(1)
def auto_create_without_asking(version: int) -> list[Action]:
    """Below v4 topics are always created."""
    return [
        metadata(version, ["auto"]),
        metadata(version, ["auto"], settle={"topics.0.error_code": 0, "topics.0.partitions.0.error_code": 0}),
    ]


BAD_NAMES = ("", ".", "..", "a b", "a/b", "é", "x" * 250)


@sequence(1, 4, 12)
def invalid_names(version: int) -> list[Action]:
    """Names that no topic can have are 17, whether creation is asked for or not."""
    return [metadata(version, [exact(bad) for bad in BAD_NAMES], create=create) for create in (False, True)]


@sequence(12)
def colliding_name(version: int) -> list[Action]:
    """A name that collides with a topic but for a dot stays unknown, even when asked to create it."""
    dotted, underscored = Joined((Name("a"), ".b")), Joined((Name("a"), "_b"))
    return [
        create_topics(5, new_topic(dotted)),
        metadata(version, [dotted], settle={"topics.0.error_code": 0}, quiet=True),
        metadata(version, [underscored], create=True),
        Pause(100),
        metadata(version, [underscored], create=True),
    ]


@sequence(12, t=topic((0,)))
def by_id(version: int) -> list[Action]:
    """A known id is answered with the name, an unknown one with 100 and no name."""
    return [metadata(version, [TopicId("t")]), metadata(version, [{"topic_id": UNKNOWN_ID, "name": None}])]


@sequence(12, t=topic((0,)))
def id_and_other_name(version: int) -> list[Action]:
    """When both are given the id wins."""
    return [metadata(version, [{"topic_id": TopicId("t"), "name": exact("other")}])]


@sequence(10, 11, t=topic((0,)))
def id_too_early(version: int) -> list[Action]:
    """Ids are not usable before v12: 42, no brokers, no cluster id."""
    return [metadata(version, [{"topic_id": TopicId("t"), "name": None}])]


@sequence(10, 12)
def neither_id_nor_name(version: int) -> list[Action]:
    """A row without both: 42 before v12, an unexpected error from then on."""
    return [metadata(version, [{"topic_id": ZERO_ID, "name": None}])]


@sequence(10, 12, t=topic((0,)))
def neither_beside_good(version: int) -> list[Action]:
    """One row without both spoils the request."""
    return [metadata(version, [{"topic_id": ZERO_ID, "name": None}, {"topic_id": ZERO_ID, "name": Name("t")}])]


@sequence(1, 12, t=topic((0,)))
def duplicates(version: int) -> list[Action]:
    """A name asked twice is answered once."""
    return [metadata(version, ["t", "t"])]


@sequence(12, t=topic((0,)))
def mixed(version: int) -> list[Action]:
    """Good, unknown and invalid names in one request each get their own answer."""
    return [metadata(version, ["t", "nope", exact("a b")])]


@sequence(8, 10, 11, 12, t=topic((0,)))
def authorized_operations(version: int) -> list[Action]:
    """Operations are bit fields when asked for, and the smallest number when not."""
    return [
        metadata(version, ["t"]),
        metadata(
            version,
            ["t"],
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=version <= 10,
        ),
    ]


@sequence(1, 12)
def internal_topic(version: int) -> list[Action]:
    """The offsets topic is internal and has fifty partitions."""
    return [find_coordinator(1, "g", quiet=True), metadata(version, [exact("__consumer_offsets")])]


@sequence(12, t=topic((1, 2)))
def every_broker(version: int) -> list[Action]:
    """Every broker gives the same answer."""
    return [metadata(version, ["t"], to=broker(rank)) for rank in range(3)]


@sequence(10, 12, t=topic((0,)), u=topic((0,)))
def ids_beside_names(version: int) -> list[Action]:
    """Ids and names in one request."""
    by_id, by_name = TopicId("t"), {"topic_id": ZERO_ID, "name": Name("u")}
    unknown = {"topic_id": UNKNOWN_ID, "name": None}
    return [
        metadata(version, [by_id, by_name]),
        metadata(version, [by_name, by_id]),
        metadata(version, [unknown, by_name]),
        metadata(version, [by_id, unknown]),
        metadata(version, [by_id, {"topic_id": TopicId("u"), "name": Name("u")}]),
        metadata(version, [{"topic_id": TopicId("u"), "name": Name("t")}, by_name]),
        metadata(version, [by_id, {"topic_id": ZERO_ID, "name": exact("a b")}]),
    ]


@sequence(12, t=topic((0,)))
def ids_twice(version: int) -> list[Action]:
    """An id asked twice is answered once."""
    return [
        metadata(version, [TopicId("t"), TopicId("t")]),
        metadata(version, [{"topic_id": UNKNOWN_ID, "name": None}, {"topic_id": UNKNOWN_ID, "name": None}]),
    ]


@sequence(8, 10, 12, t=topic((0,)))
def authorized_operations_of_nothing(version: int) -> list[Action]:
    """A topic that is not there has operations, too; one without a name has none."""
    asked: list[object] = ["t", exact("nope"), exact("a b")]
    return [
        metadata(version, asked, include_topic_authorized_operations=True),
        *(
            metadata(version, [{"topic_id": UNKNOWN_ID, "name": None}], include_topic_authorized_operations=True)
            for _ in range(version >= 12)
        ),
    ]
