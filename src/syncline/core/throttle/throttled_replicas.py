"""Lists of throttled replicas: `partition:broker` items, or `*` for all of a topic.

In both lists the broker is the one that throttles: in the leader list it sends, in the follower list it receives.
So each broker keeps the items that name itself, and an item for a partition that it does not lead (or follow) is
dormant until it does. Unknown partitions are no error. Empty items mean nothing.

The values were checked when they were stored (`config_types.throttled_replicas`), and have no blanks around items since
they were parsed. Lists that were stored before numbers had a bound may name longer ones: no replica has such a number.
Source: KIP-73.
"""

from collections.abc import Collection, Mapping
from typing import Final

from syncline.model.config_types import NUMBER_DIGITS_MAX
from syncline.model.ids import BrokerId, TopicPartition

WILDCARD: Final = "*"
# Two numbers and a colon.
_ITEM_CHARS_MAX: Final = 2 * NUMBER_DIGITS_MAX + 1


def partitions_of(items: Collection[str], broker_id: BrokerId) -> frozenset[int] | None:
    """Return the partitions that a broker throttles by a list; None stands for all partitions of the topic."""
    if WILDCARD in items:
        return None
    # A list may name ten thousand replicas, most of them other brokers': these are dropped first.
    ending = str(broker_id)
    likely = [item.partition(":") for item in items if item.endswith(ending)]
    if max(map(len, items), default=0) > _ITEM_CHARS_MAX:
        likely = [each for each in likely if max(map(len, each)) <= NUMBER_DIGITS_MAX]
    return frozenset(int(partition) for partition, _, broker in likely if int(broker) == broker_id)


class ListedPartitions:
    """The partitions of all topics that one broker throttles in one role."""

    __slots__ = ("_broker_id", "_topics")

    def __init__(self, broker_id: BrokerId) -> None:
        self._broker_id = broker_id
        # Only topics with such partitions; None stands for all partitions of the topic.
        self._topics: dict[str, frozenset[int] | None] = {}

    def __repr__(self) -> str:
        return f"ListedPartitions({self._broker_id}: {self._topics})"

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __contains__(self, key: TopicPartition) -> bool:
        if key.topic not in self._topics:
            return False
        partitions = self._topics[key.topic]
        return partitions is None or key.partition in partitions

    @property
    def topics(self) -> Mapping[str, frozenset[int] | None]:
        """Return the throttled partitions by topic; None stands for all of the topic."""
        return self._topics

    def set_topic(self, topic: str, items: Collection[str]) -> None:
        """Replace the list of one topic."""
        partitions = partitions_of(items, self._broker_id)
        if partitions is None or partitions:
            self._topics[topic] = partitions
        else:
            self._topics.pop(topic, None)
        assert self._topics.get(topic, frozenset({0})) != frozenset(), f"{topic} is kept without a partition"
