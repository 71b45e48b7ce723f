"""Identities: topics that a query knows by id, as a snapshot does, and that are gone. Plain calculations, no I/O.

A topic that has the name of one that was deleted is another topic: nothing of it is read, and nothing that it holds
tells what the other one held. So gaps have the offsets that the options say.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from syncline.model.ids import TopicPartition
from syncline.pipeline.errors import OptionError
from syncline.pipeline.source.data_loss import Gap, GapReason
from syncline.pipeline.source.options import SourceOptions
from syncline.pipeline.source.places import written


def topics_gone(options: SourceOptions, ids: Mapping[str, str]) -> dict[str, str]:
    """Return a sentence for each topic of the option `topicIds` that is not among the `ids` that exist, by name.

    Raises `OptionError` for one that the query does not read.
    """
    unread = sorted(topic for topic in options.topic_ids if not options.topics.read(topic))
    if unread:
        raise OptionError(f"option topicIds names {', '.join(unread)}, which the query does not read")
    gone = {}
    for topic, wanted in sorted(options.topic_ids.items()):
        # Brokers that tell no ids cannot tell the topics apart either.
        found = ids.get(topic)
        if found is None:
            gone[topic] = f"topic {topic} was deleted: topicIds says {wanted}, but there is no topic of that name"
        elif found and found != wanted:
            gone[topic] = f"topic {topic} was deleted and created again: its id is {found}, but topicIds says {wanted}"
    return gone


def gaps_of(options: SourceOptions, gone: Iterable[str], present: Sequence[TopicPartition]) -> Iterator[Gap]:
    """Yield the gaps of topics that are `gone`.

    Partitions are those that options name, else the `present` ones of that name, else the one that each topic has. A
    gap begins at 0 and has no end where the options say no offsets.
    """
    starts, ends = written(options.starting), written(options.ending)
    named = {*options.topics.assigned, *starts, *ends}
    for topic in gone:
        for places in (named, present, [TopicPartition(topic, 0)]):
            lost = sorted(place for place in places if place.topic == topic)
            if lost:
                break
        for place in lost:
            start, end = starts.get(place, 0), ends.get(place)
            if end is None or start < end:
                yield Gap(place, start, end, GapReason.TOPIC_GONE)
