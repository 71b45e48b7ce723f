"""What tools look at: topics in pages, what has configurations, and the producers of a partition (KIP-664, KIP-966)."""

from typing import Any

from tests.conformance.apis import DESCRIBE_PRODUCERS, DESCRIBE_TOPIC_PARTITIONS, LIST_CONFIG_RESOURCES, every
from tests.conformance.batches import Batch, batch
from tests.conformance.requests import (
    describe_producers,
    describe_topics,
    init_producer_id,
    list_config_resources,
    produce,
)
from tests.conformance.steps import Action, Saved, exact, follower, leader, sequence, topic

SIX, THREE, FOUR = topic(*((0, 1),) * 6), topic(*((1, 2),) * 3), topic(*((2, 0),) * 4)
EMPTY = exact("")


@sequence(*every(DESCRIBE_TOPIC_PARTITIONS), c1=SIX, c2=THREE, c3=FOUR)
def pages(version: int) -> list[Action]:
    """Seven partitions, then the others (X-115)."""
    return [
        describe_topics(version, "c3", "c1", limit=7),
        describe_topics(version, "c3", "c1", "c2", limit=7),
        describe_topics(version, "c3", "c1", "c2", cursor=("c2", 1)),
        describe_topics(version, "c3", "c1", "c2", cursor=("c3", 3), limit=1),
    ]


@sequence(*every(DESCRIBE_TOPIC_PARTITIONS), c1=SIX, c2=THREE)
def limits_and_places(version: int) -> list[Action]:
    """A full page, limits below one, places that do not exist (X-116)."""
    return [
        describe_topics(version, "c1", "c2", limit=6),
        describe_topics(version, "c1", "c2", limit=9),
        describe_topics(version, "c1", limit=0),
        describe_topics(version, "c1", limit=-1),
        describe_topics(version, "c1", "c2", cursor=("zz", 0)),
        describe_topics(version, "c1", "c2", "c1", cursor=("c1", -1)),
        describe_topics(version, "c1", "c2", cursor=("c1", 99), limit=2),
        describe_topics(version, "c1", "c2", cursor=("c1", 6), limit=2),
        describe_topics(version, "nope", cursor=("nope", 0)),
    ]


@sequence(*every(DESCRIBE_TOPIC_PARTITIONS), c1=THREE)
def topics_that_do_not_exist(version: int) -> list[Action]:
    """Unknown and impossible names beside others, repeated ones, and unknown ones that begin a page."""
    return [
        describe_topics(version, "nope", "c1", exact("a b"), "c1", exact("x" * 250)),
        describe_topics(version, "zz", "c1", limit=3),
        describe_topics(version, "a", "c1", limit=2),
    ]


@sequence(*every(DESCRIBE_TOPIC_PARTITIONS), c1=THREE)
def topic_without_a_name(version: int) -> list[Action]:
    """Beside another one."""
    return [describe_topics(version, "c1", EMPTY)]


@sequence(*every(LIST_CONFIG_RESOURCES), t=topic((0,)))
def resources(version: int) -> list[Action]:
    """Of all kinds, of some and of none that there is (X-117)."""
    kinds = [(), (2,), (4,), (8,), (16,), (32,), (2, 2), (3,), (99,), (2, 99), (0,), (-1,)]
    return [list_config_resources(version, *each) for each in (kinds if version else [()])]


PID = Saved("pid")


def _numbered(number: int, *values: str, epoch: int = 0) -> Batch:
    return batch(*values, producer_id=PID, producer_epoch=epoch, base_sequence=number)


def _written(batches: Any) -> Action:
    return produce(9, {"t": {0: batches}}, quiet=True)


@sequence(*every(DESCRIBE_PRODUCERS), t=topic((0, 1), (1, 2)))
def producers(version: int) -> list[Action]:
    """The last number and epoch of each producer; a partition without any has none; a follower knows them, too."""
    return [
        describe_producers(version, {"t": [0]}),
        init_producer_id(1, save={"pid": "producer_id"}),
        _written(_numbered(0, "a", "b", "c")),
        describe_producers(version, {"t": [0]}),
        _written(_numbered(3, "d")),
        _written(_numbered(0, "e", epoch=1)),
        describe_producers(version, {"t": [0, 0]}),
        describe_producers(version, {"t": [1]}, to=leader("t", 1)),
        describe_producers(
            version, {"t": [0]}, to=follower("t"), settle={"topics.0.partitions.0.active_producers.0.producer_epoch": 1}
        ),
    ]


@sequence(*every(DESCRIBE_PRODUCERS), t=topic((0,), (1,)))
def producers_elsewhere(version: int) -> list[Action]:
    """Partitions of other brokers, unknown ones, impossible names, and no list at all."""
    return [
        describe_producers(version, {"t": [1]}),
        describe_producers(version, {"t": [9, -1]}),
        describe_producers(version, {"nope": [0]}),
        describe_producers(version, {exact("a b"): [0], EMPTY: [0]}),
        describe_producers(version, {"t": []}),
        describe_producers(version, {}),
    ]
