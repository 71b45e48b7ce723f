"""Following: where a stream continues, from what it has read and from what exists now.

A topic that was deleted and created again is another topic: nothing of it was read, and the unread rest of the old
one is gone. The same holds for a partition that ends below its place in a checkpoint without topic ids. With ids that
agree, a log that ends below its place was cut (an unclean election); the stream goes on at its new end, because records
before that were read.

The rules are in `continued`, which is plain; the rest asks the brokers.

Units: offsets count records; ends are exclusive.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.offsets import EARLIEST, LATEST
from syncline.pipeline.source.offsets import Position
from syncline.pipeline.source.presence import Present
from syncline.pipeline.source.topics import Topics


@dataclass(frozen=True, slots=True)
class Seen:
    """What exists at one moment, and where it ends."""

    present: Present
    ends: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Course:
    """Where known partitions go on, which ones begin at their earliest record, and sentences on what was lost."""

    starts: Mapping[TopicPartition, int]
    fresh: tuple[TopicPartition, ...]
    losses: tuple[str, ...]


def continued(read: Position, seen: Seen, topics: Topics) -> Course:
    """Return how a stream of `topics` that has read to `read` continues with what exists of them now."""
    starts: dict[TopicPartition, int] = {}
    fresh: list[TopicPartition] = []
    losses = [*topics_lost(read, seen.present, topics)]
    recreated = {topic for topic, id_ in seen.present.ids.items() if read.is_other_topic(topic, id_)}
    for place, end in seen.ends.items():
        if place.topic in recreated or place not in read.offsets:
            fresh.append(place)
        elif end >= read.offsets[place]:
            starts[place] = read.offsets[place]
        else:
            has_ids = bool(read.ids.get(place.topic) and seen.present.ids.get(place.topic))
            why = "its log was cut" if has_ids else "was the topic deleted and created again?"
            losses.append(f"{place} ends at offset {end} but was already read to {read.offsets[place]}; {why}")
            if has_ids:
                starts[place] = end
            else:
                fresh.append(place)
    losses += [
        f"{place} was read to offset {offset} and no longer exists"
        if topics.chooses(place)
        else f"{place} was read to offset {offset}, and the option assign no longer names it"
        for place, offset in read.offsets.items()
        if place.topic in seen.present.ids and place.topic not in recreated and place not in seen.ends
    ]
    return Course(starts, tuple(fresh), tuple(losses))


def topics_lost(read: Position, present: Present, topics: Topics) -> tuple[str, ...]:
    """Return a sentence for each topic of `read` that is not there: gone, replaced by another, or no longer named."""
    known = sorted({place.topic for place in read.offsets})
    gone = [
        f"topic {topic} no longer exists"
        if topics.read(topic)
        else f"topic {topic} is in the checkpoint, and the options no longer name it"
        for topic in known
        if topic not in present.ids
    ]
    replaced = [
        f"topic {topic} was deleted and created again: the query read the topic with the id {read.ids[topic]}, "
        f"but now it has the id {present.ids[topic]}"
        for topic in known
        if read.is_other_topic(topic, present.ids.get(topic, ""))
    ]
    return (*gone, *replaced)


def moved(
    read: Position, seen: Seen, ends: Mapping[TopicPartition, int], begins: Mapping[TopicPartition, int]
) -> Position:
    """Return the position at `ends`; a topic that vanished keeps its place and id, in case it is created again."""
    kept = {
        place: offset
        for place, offset in read.offsets.items()
        if not read.is_other_topic(place.topic, seen.present.ids.get(place.topic, ""))
    }
    ids = {**read.ids, **{topic: id_ for topic, id_ in seen.present.ids.items() if id_}}
    return Position({**kept, **ends}, ids, begins)


def ends_of(cluster: Cluster, present: Present) -> Seen:
    """Return where everything ends that exists."""
    return Seen(present, cluster.offsets(dict.fromkeys(present.places, LATEST)))


def without_false_losses(cluster: Cluster, read: Position, seen: Seen) -> Seen:
    """Return what was seen, with the place that was read as the end where only an open transaction lies below it.

    A query that is started again with read_committed may have read further than that before.
    """
    below = [place for place, end in seen.ends.items() if end < read.offsets.get(place, end)]
    if not cluster.settings.read_committed or not below:
        return seen
    tops = cluster.offsets(dict.fromkeys(below, LATEST), read_committed=False)
    return Seen(seen.present, {**seen.ends, **{place: min(top, read.offsets[place]) for place, top in tops.items()}})


def beginnings(cluster: Cluster, course: Course) -> dict[TopicPartition, int]:
    """Return where the partitions begin from which nothing was read."""
    return cluster.offsets(dict.fromkeys(course.fresh, EARLIEST)) if course.fresh else {}
