"""A cluster as an admin client shows it, prepared in memory.

For commands that only ask, and for states that are slow to reach with real brokers.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from syncline.cli.coordinators import Listed

NO_LEADER = -1
Place = tuple[str, int]


def done(result: Any) -> "Future[Any]":
    """Return a future with a result, or an error."""
    future: Future[Any] = Future()
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future


def member(client_id: str, *places: Place) -> Any:
    """Return a member of a group that reads these partitions."""
    assignment = SimpleNamespace(topic_partitions=[TopicPartition(*each) for each in places])
    return SimpleNamespace(member_id=f"{client_id}-1", client_id=client_id, host="/10.0.0.1", assignment=assignment)


class KafkaAdmin:
    """Topics with the leader of each partition, ten records in each; groups with what they have committed."""

    def __init__(
        self,
        leaders: Mapping[str, Sequence[int]],
        committed: Mapping[str, Mapping[Place, int]],
        *,
        members: Mapping[str, Sequence[Any]] | None = None,
        refused: Sequence[str] = (),
        silent: Sequence[Place] = (),
        unlisted: Sequence[str] = (),
    ) -> None:
        self.leaders = leaders
        self.committed = committed
        self.members = members or {}
        self.refused = refused
        self.silent = silent
        """Partitions whose leader, by the metadata, does not lead any more."""
        self.unlisted = unlisted
        """A sentence for each broker that gave no groups."""
        self.altered: list[Any] = []

    def list_topics(self, *, timeout: float) -> Any:
        """Return metadata."""
        assert timeout > 0
        topics = {
            name: SimpleNamespace(
                partitions={index: SimpleNamespace(leader=leader) for index, leader in enumerate(leaders)}
            )
            for name, leaders in self.leaders.items()
        }
        return SimpleNamespace(topics=topics)

    def listed(self) -> Listed:
        """Return all groups."""
        return Listed(dict.fromkeys(sorted(self.committed), "empty"), frozenset(), list(self.unlisted))

    def describe_consumer_groups(self, names: Sequence[str], *, request_timeout: float = 1.0) -> Any:
        """Return groups with their members; one that is not known is dead, as Kafka says."""
        assert request_timeout > 0
        return {name: done(self._described(name)) for name in names}

    def _described(self, name: str) -> Any:
        if name in self.refused:
            return KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
        members = list(self.members.get(name, ()))
        known = ConsumerGroupState.STABLE if members else ConsumerGroupState.EMPTY
        state = known if name in self.committed else ConsumerGroupState.DEAD
        return SimpleNamespace(state=state, members=members)

    def list_consumer_group_offsets(self, asked: Sequence[Any], *, request_timeout: float = 1.0) -> Any:
        """Return the commits of a group."""
        assert request_timeout > 0
        (group,) = asked
        parts = [TopicPartition(*place, offset) for place, offset in self.committed.get(group.group_id, {}).items()]
        return {group.group_id: done(SimpleNamespace(topic_partitions=parts))}

    def alter_consumer_group_offsets(self, asked: Sequence[Any]) -> Any:
        """Note what is to be committed."""
        (group,) = asked
        self.altered += [(each.topic, each.partition, each.offset) for each in group.topic_partitions]
        return {group.group_id: done(group)}

    def list_offsets(
        self, asked: Mapping[Any, Any], *, request_timeout: float, isolation_level: Any = None
    ) -> dict[Any, Any]:
        """Return an offset for each partition with a leader; asking for another one waits for the time limit."""
        assert request_timeout > 0
        return {place: done(self._offset(place, spec)) for place, spec in asked.items()}

    def _offset(self, place: Any, spec: Any) -> Any:
        assert self.leaders[place.topic][place.partition] != NO_LEADER, f"{place} has no leader: it is not asked for"
        if (place.topic, place.partition) in self.silent:
            return KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
        offset = 0 if spec is OffsetSpec.earliest() else 10
        return SimpleNamespace(offset=offset, timestamp=-1)
