"""Positions of a stream as Spark keeps them: JSON in a checkpoint.

    {"flights": {"0": 1500, "1": 1490, "id": "u8Vb...", "from": {"0": 1000, "1": 1000}}}

Besides the offsets by partition, a topic has

- `id`, the topic's id, where brokers tell it. A topic that was deleted and created again has another, so a stream never
  takes the offsets of one for those of the other. Checkpoints of earlier versions have no ids and are read as well.
- `from`, where those partitions begin that the position before this one does not know: all of them in the first batch,
  later those that were added or created again. So a batch that is run again after a crash reads the same records,
  although "earliest" or "latest" are somewhere else by then. It is left out as soon as the position moves on.

Spark compares positions by their text, and calls a stream in this order: a new query asks for `initialOffset` before
and again after the first `latestOffset`; a restarted one never does, unless its first batch is to be run again. So the
text is sorted, and a position at which nothing has arrived is the same text as before, `from` included.

Units: offsets count records; ends are exclusive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from syncline.model.ids import TopicPartition

StreamOffset: TypeAlias = dict[str, dict[str, Any]]

_ID: Final = "id"
_FROM: Final = "from"


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to read of each partition, the ids of the topics, and where new partitions begin."""

    offsets: Mapping[TopicPartition, int]
    ids: Mapping[str, str] = field(default_factory=dict)
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)

    def has_moved_since(self, other: "Position") -> bool:
        """Return whether there is anything to do between the two, if only to write ids down."""
        return (self.offsets, self.ids) != (other.offsets, other.ids)

    def is_other_topic(self, topic: str, topic_id: str) -> bool:
        """Return whether `topic_id` proves that the name stands for another topic than it did here."""
        return bool(topic_id) and self.ids.get(topic, topic_id) != topic_id


def as_json(position: Position) -> StreamOffset:
    """Return the position as Spark stores it; sorted, because Spark compares the text."""
    content: StreamOffset = {}
    for place in sorted(position.offsets):
        content.setdefault(place.topic, {})[str(place.partition)] = position.offsets[place]
    for topic, fields in content.items():
        if position.ids.get(topic):
            fields[_ID] = position.ids[topic]
    for place in sorted(position.begins):
        content[place.topic].setdefault(_FROM, {})[str(place.partition)] = position.begins[place]
    return content


def from_json(content: StreamOffset) -> Position:
    """Return a position that Spark stored, of this or an earlier version."""
    offsets: dict[TopicPartition, int] = {}
    ids: dict[str, str] = {}
    begins: dict[TopicPartition, int] = {}
    for topic, fields in content.items():
        for name, value in fields.items():
            if name == _ID:
                ids[topic] = value
            elif name == _FROM:
                begins |= {TopicPartition(topic, int(partition)): offset for partition, offset in value.items()}
            else:
                offsets[TopicPartition(topic, int(name))] = value
    return Position(offsets, ids, begins)
