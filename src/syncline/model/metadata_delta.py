"""What differs between two metadata images: what a broker has to apply when the one follows the other.

Images share what a batch did not touch, so that comparing them costs what has changed, not what there is.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import repeat
from typing import NamedTuple, TypeVar

from syncline.model.ids import BrokerId, TopicPartition
from syncline.model.metadata import ConfigResource, MetadataImage, Topic

# A key of (topic, number), made without a line of Python for each.
_key = partial(tuple.__new__, TopicPartition)
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class MetadataDelta(NamedTuple):
    """The difference between two images, in the order of the newer one."""

    partitions: tuple[TopicPartition, ...] = ()
    deleted_topics: tuple[Topic, ...] = ()
    brokers: tuple[BrokerId, ...] = ()
    configs: tuple[ConfigResource, ...] = ()
    moves: tuple[str, ...] = ()


def difference(old: MetadataImage, new: MetadataImage) -> MetadataDelta:
    """Return the changes that a broker has to apply when `new` follows `old`.

    Skips objects that both images share. If a topic was deleted and created again under its name, lists both the old
    topic and the partitions of the new one.
    """
    partitions: list[TopicPartition] = []
    deleted: list[Topic] = []
    if new.topics is not old.topics:
        # `map` and `zip` look at thousands of topics without a line of ours for each.
        pairs = zip(new.topics.values(), map(old.topics.get, new.topics), strict=True)
        changed = [(topic, before) for topic, before in pairs if before is not topic]
        for topic, before in changed:
            if before is None or before.topic_id != topic.topic_id:
                partitions.extend(map(_key, zip(repeat(topic.name), range(len(topic.partitions)))))
            else:
                partitions.extend(_changed_partitions(before, topic))
        continued = sum(before is not None and before.topic_id == topic.topic_id for topic, before in changed)
        if len(new.topics) - len(changed) + continued < len(old.topics):
            successors = zip(old.topics.values(), map(new.topics.get, old.topics), strict=True)
            gone = [(topic, now) for topic, now in successors if now is not topic]
            deleted = [topic for topic, now in gone if now is None or now.topic_id != topic.topic_id]
    return MetadataDelta(
        partitions=tuple(partitions),
        deleted_topics=tuple(deleted),
        brokers=tuple(_changed_keys(old.brokers, new.brokers)),
        configs=tuple(_changed_keys(old.configs, new.configs)),
        moves=tuple(_changed_keys(old.moves, new.moves)),
    )


def touched_count(old: MetadataImage, new: MetadataImage) -> int:
    """Return at most how many partitions `difference` lists: all those of topics that the images do not share."""
    if new.topics is old.topics:
        return 0
    pairs = zip(new.topics.values(), map(old.topics.get, new.topics), strict=True)
    return sum(len(topic.partitions) for topic, before in pairs if before is not topic)


def _changed_partitions(before: Topic, after: Topic) -> Iterator[TopicPartition]:
    known = before.partitions
    for record in after.partitions:
        if record.partition < len(known):
            old = known[record.partition]
            if old is record or old == record:
                continue
        yield TopicPartition(after.name, record.partition)


def _changed_keys(old: Mapping[_Key, _Value], new: Mapping[_Key, _Value]) -> Iterator[_Key]:
    if old is new:
        return
    for key, value in new.items():
        before = old.get(key)
        # Most values are the same object: comparing equal ones takes longer.
        if before is not value and before != value:
            yield key
    for key in old:
        if key not in new:
            yield key
