"""Presence: what exists of the topics that a query names.

Units: durations are milliseconds.
"""

import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.metadata import Topic
from syncline.pipeline.errors import BrokerError, OptionError
from syncline.pipeline.source.options import SourceOptions

# Brokers that do not mark them as internal have them all the same.
_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
# A broker that has just started may not know all topics yet.
_LATE_METADATA_MS_MAX: Final = 2_000
_ASK_AGAIN_MS: Final = 250


@dataclass(frozen=True, slots=True)
class Present:
    """What exists of a query's topics: their partitions, sorted, and their ids, empty where no broker told one."""

    places: tuple[TopicPartition, ...]
    ids: Mapping[str, str]

    def without(self, topics: Container[str]) -> "Present":
        """Return the rest, without topics."""
        ids = {topic: id_ for topic, id_ in self.ids.items() if topic not in topics}
        return Present(tuple(place for place in self.places if place.topic not in topics), ids)


def present_now(cluster: Cluster, options: SourceOptions) -> Present:
    """Return what exists now of the topics that the options name; those that do not exist are left out."""
    topics = options.topics
    if topics.pattern is not None:
        found = {
            name: topic
            for name, topic in cluster.describe(None).items()
            if not (topic.is_internal or name in _INTERNAL) and topics.pattern.matches(name)
        }
        return _present(found)
    if topics.names:
        return _present(cluster.describe(topics.names))
    present = _present(cluster.describe(place.topic for place in topics.assigned))
    existing = set(present.places)
    return Present(tuple(place for place in topics.assigned if place in existing), present.ids)


def present_settled(cluster: Cluster, options: SourceOptions, is_whole: Callable[[Present], bool]) -> Present:
    """Return what exists; if something is missing, wait until no broker can be late with its metadata."""
    deadline_s = time.monotonic() + _LATE_METADATA_MS_MAX / 1000
    while True:
        present = present_now(cluster, options)
        if is_whole(present) or time.monotonic() > deadline_s:
            return present
        time.sleep(_ASK_AGAIN_MS / 1000)


def all_present(cluster: Cluster, options: SourceOptions) -> Present:
    """Return what exists of the topics at the beginning of a query; raise for a named one that does not exist."""
    present = present_now(cluster, options)
    check_present(present, options)
    return present


def check_present(present: Present, options: SourceOptions, *, without: Container[str] = ()) -> None:
    """Raise for a topic or partition that the options name and that does not exist, but for topics `without`."""
    assigned = [place for place in options.topics.assigned if place.topic not in without]
    wanted = {name for name in options.topics.names if name not in without} | {place.topic for place in assigned}
    missing = sorted(wanted - present.ids.keys())
    if missing:
        raise BrokerError(
            f"topic {', '.join(missing)} does not exist on {options.client.bootstrap_text}: "
            "create it first, or correct its name in the option subscribe or assign"
        )
    for place in assigned:
        if place not in present.places:
            raise OptionError(f"option assign names {place}, which does not exist: remove it or correct the number")


def _present(topics: Mapping[str, Topic]) -> Present:
    places: Iterable[TopicPartition] = (
        TopicPartition(name, index) for name, topic in topics.items() for index in topic.leaders
    )
    return Present(tuple(sorted(places)), {name: topic.id for name, topic in topics.items()})
