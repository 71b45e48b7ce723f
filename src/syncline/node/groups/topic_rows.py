"""The rows of an answer about the offsets of partitions, some of which may not exist.

As Kafka's brokers, this one asks the coordinator only about partitions that exist, and puts the answer together. If
every partition exists, each topic of the request has its row, but those without partitions have none. If one does not,
there is one row for each name, and the unknown partitions stand first in it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from syncline.model.errors import ErrorCode
from syncline.wire.rows import Rows


class Place(NamedTuple):
    """A partition, and the place of its outcome in the coordinator's answer; None: the partition is unknown."""

    partition: int
    outcome: int | None


TopicRow: TypeAlias = tuple[str, list[Place]]


class TopicRows:
    """The topics and partitions of one request, added in their order."""

    def __init__(self) -> None:
        self._known: list[TopicRow] = []
        self._unknown: dict[str, list[Place]] = {}

    def begin(self, topic: str, *, exists: bool) -> None:
        """Begin the next topic."""
        self._known.append((topic, []))
        if not exists:
            # It has a row even without partitions.
            self._unknown.setdefault(topic, [])

    def add_unknown(self, partition: int) -> None:
        """Add a partition that does not exist to the topic."""
        self._unknown.setdefault(self._known[-1][0], []).append(Place(partition, None))

    def add(self, partition: int, outcome: int) -> None:
        """Add a partition of the topic; `outcome` is its place in the coordinator's answer."""
        self._known[-1][1].append(Place(partition, outcome))

    def answered(self, codes: Sequence[ErrorCode]) -> Rows:
        """Return the rows; `codes` are the coordinator's answer."""
        topics: Sequence[TopicRow] = [topic for topic in self._known if topic[1]]
        if self._unknown:
            for name, places in topics:
                self._unknown.setdefault(name, []).extend(places)
            topics = list(self._unknown.items())

        def partition_row(place: Place) -> dict[str, Any]:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if place.outcome is None else codes[place.outcome]
            return {"partition_index": place.partition, "error_code": code}

        def topic_row(topic: TopicRow) -> dict[str, Any]:
            return {"name": topic[0], "partitions": Rows(topic[1], partition_row)}

        return Rows(topics, topic_row, lambda topic: topic[1])
