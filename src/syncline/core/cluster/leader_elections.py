"""ElectLeaders: an administrator asks for elections.

PREFERRED returns leadership to the first replica, if it is in sync. UNCLEAN is the last resort for a partition
without a leader: any replica whose broker is active may lead, whatever the topic's configuration says, and committed
records may be lost.

Each partition is judged by the state before the request: one that is named twice gets the same answer twice, and one
election.
Source: KIP-183, KIP-460; Kafka's ReplicationControlManager.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from syncline.core.cluster.decision import Decision, Why, topic_rules
from syncline.core.cluster.elections import ElectionKind, next_state
from syncline.core.cluster.standing import acceptable_in, fitness_in
from syncline.core.cluster.topic_names import NAME_LENGTH_MAX
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.immutable import Immutable
from syncline.model.metadata import MetadataImage, PartitionRecord, PartitionsChanged, Topic
from syncline.model.reasons import Reason

# The protocol's numbers.
KINDS: Final = {0: ElectionKind.PREFERRED, 1: ElectionKind.UNCLEAN}
_REASONS: Final = {
    ElectionKind.PREFERRED: Reason.PREFERRED_REQUESTED,
    ElectionKind.UNCLEAN: Reason.UNCLEAN_REQUESTED,
}

_TEXTS: Final = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ElectionResult(Immutable):
    """The answer for one partition."""

    topic: str
    partition: int
    error: ErrorCode
    message: str | None = None


def elect_leaders(
    image: MetadataImage,
    settings: BrokerConfig,
    kind: ElectionKind,
    wanted: Sequence[tuple[str, Sequence[int]]] | None,
) -> Decision[tuple[ElectionResult, ...]]:
    """Return the requested elections; `wanted` None means all partitions, with results only where one is needed."""
    changed: dict[UUID, dict[int, PartitionRecord]] = {}
    results = []
    is_all = wanted is None
    for name, partitions in _all_of(image) if wanted is None else wanted:
        topic = image.topics.get(name)
        for index in partitions:
            if topic is None:
                message = f"No such topic as {name[:NAME_LENGTH_MAX]}"
                results.append(ElectionResult(name, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message))
                continue
            if not 0 <= index < len(topic.partitions):
                message = f"No such partition as {name}-{index}"
                results.append(ElectionResult(name, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message))
                continue
            before = topic.partitions[index]
            error, after = _elect(image, settings, kind, topic, before)
            if after is not before:
                changed.setdefault(topic.topic_id, {})[index] = after
            if not is_all or error is not ErrorCode.ELECTION_NOT_NEEDED:
                results.append(ElectionResult(name, index, error, _TEXTS.get(error)))
    changes = tuple(PartitionsChanged(topic_id, tuple(states.values())) for topic_id, states in changed.items())
    return Decision(changes, tuple(results), Why(_REASONS[kind]))


def _elect(
    image: MetadataImage, settings: BrokerConfig, kind: ElectionKind, topic: Topic, record: PartitionRecord
) -> tuple[ErrorCode, PartitionRecord]:
    is_preferred = kind is ElectionKind.PREFERRED
    if record.leader == record.replicas[0] if is_preferred else record.has_leader:
        return ErrorCode.ELECTION_NOT_NEEDED, record
    state = next_state(
        record,
        acceptable=acceptable_in(image, topic.topic_id, record.partition),
        fitness=fitness_in(image, topic.topic_id, record.partition),
        min_isr=topic_rules(image, topic.name, settings).min_isr,
        kind=kind,
        eligible_replicas=settings.eligible_leader_replicas_enable,
    )
    if state is not record:
        return ErrorCode.NONE, state
    if is_preferred:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, record
    return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, record


def _all_of(image: MetadataImage) -> Iterable[tuple[str, Sequence[int]]]:
    return ((topic.name, range(len(topic.partitions))) for topic in image.topics.values())
