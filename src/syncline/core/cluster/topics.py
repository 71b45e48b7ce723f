"""Creating and deleting topics, and adding partitions.

Each topic of a request is independent: one may be refused while the others are created. Refusals have Kafka's words,
and Kafka's order of checks: name, existence, configurations, then numbers and replicas.

New partitions start with every active replica in sync: they are all empty, so none lacks anything. A fenced replica is
assigned, but joins later.
Invariant: every topic of a request has one result; a new partition has a leader.
Source: KIP-4, KIP-195 (more partitions), KIP-516 (topic ids); Kafka's ReplicationControlManager.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from syncline.core.cluster.assignments import validate_assignment
from syncline.core.cluster.decision import Below, Decision, Why
from syncline.core.cluster.placement import Replicas, place
from syncline.core.cluster.topic_names import Collisions, what_is_wrong
from syncline.model.broker_config import BrokerConfig
from syncline.model.config_types import ConfigError
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import NONE, BrokerId, LeaderEpoch, PartitionEpoch
from syncline.model.immutable import Immutable
from syncline.model.metadata import (
    NO_TOPIC_ID,
    Change,
    ConfigResource,
    ConfigsChanged,
    MetadataImage,
    PartitionRecord,
    PartitionsChanged,
    ResourceType,
    Topic,
    TopicCreated,
    TopicDeleted,
)
from syncline.model.reasons import Reason
from syncline.model.topic_config import stored_topic_config, validate_topic_configs

# One request may create this many partitions.
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
EXCESSIVE: Final = "Excessively large number of partitions per request."
METADATA_TOPIC: Final = "__cluster_metadata"

NewTopicId = Callable[[], UUID]


class NewTopic(NamedTuple):
    """One topic to create; with `assignments` (pairs of partition number and replicas), both numbers are -1."""

    name: str
    partitions: int = NONE
    replication_factor: int = NONE
    assignments: tuple[tuple[int, Replicas], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class TopicResult(NamedTuple):
    """The result for one topic of a request."""

    name: str | None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: UUID = NO_TOPIC_ID
    partitions: int = NONE
    replication_factor: int = NONE


class TopicReference(NamedTuple):
    """A topic to delete, by name or by id."""

    name: str | None = None
    topic_id: UUID = NO_TOPIC_ID


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MorePartitions(Immutable):
    """A topic to grow to `count` partitions; `assignments` are the replicas of the new ones, in order."""

    name: str
    count: int
    assignments: tuple[Replicas, ...] | None = None


def create_topics(
    image: MetadataImage,
    topics: Sequence[NewTopic],
    settings: BrokerConfig,
    *,
    below: Below,
    new_topic_id: NewTopicId,
) -> Decision[tuple[TopicResult, ...]]:
    """Return what to create; a repeated name has one result, a refusal."""
    results: list[TopicResult] = []
    changes: list[Change] = []
    named = Counter(topic.name for topic in topics)
    results.extend(
        TopicResult(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name, n in named.items() if n > 1
    )
    single = [topic for topic in topics if named[topic.name] == 1]
    collisions = Collisions(image.topics)
    for topic in single:
        try:
            _validate_name(image, topic.name, collisions)
            configs = _validated_configs(topic)
            replicas = _replicas_of(image, topic, settings, below)
            partitions = _new_partitions(image, replicas)
        except RequestError as refusal:
            results.append(TopicResult(topic.name, refusal.code, refusal.message))
            continue
        topic_id = new_topic_id()
        changes.append(TopicCreated(topic.name, topic_id, partitions))
        if configs:
            changes.append(ConfigsChanged(ConfigResource(ResourceType.TOPIC, topic.name), configs))
        results.append(
            TopicResult(
                topic.name,
                topic_id=topic_id,
                partitions=len(partitions),
                replication_factor=len(partitions[0].replicas),
            )
        )
    assert len(results) == len(named), f"{len(results)} results for {len(named)} names"
    return Decision(tuple(changes), tuple(results), Why(Reason.CREATED))


def delete_topics(image: MetadataImage, topics: Sequence[TopicReference]) -> Decision[tuple[TopicResult, ...]]:
    """Return what to delete; a topic named twice, by name or id, is not deleted."""
    results: list[TopicResult] = []
    found: dict[UUID, TopicReference] = {}
    doubtful: set[UUID] = set()
    names = Counter(topic.name for topic in topics if topic.name is not None and topic.topic_id == NO_TOPIC_ID)
    ids = Counter(topic.topic_id for topic in topics if topic.name is None and topic.topic_id != NO_TOPIC_ID)
    answered: set[tuple[str | None, UUID]] = set()
    for topic in sorted(topics, key=lambda each: each.name is None):
        key = (topic.name, topic.topic_id)
        if key in answered:
            continue
        answered.add(key)
        try:
            _validate_reference(topic, duplicate=names[topic.name or ""] > 1 or ids[topic.topic_id] > 1)
            known = _find(image, topic)
        except RequestError as refusal:
            results.append(TopicResult(topic.name, refusal.code, refusal.message, topic.topic_id))
            continue
        if known.topic_id in found:
            doubtful.add(known.topic_id)
        else:
            found[known.topic_id] = topic
    for topic_id, topic in found.items():
        if topic_id in doubtful:
            results.append(
                TopicResult(
                    topic.name,
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                    topic_id,
                )
            )
        else:
            results.append(TopicResult(image.topic_names[topic_id], topic_id=topic_id))
    assert len(results) >= len(found), f"{len(results)} results for {len(found)} topics that were found"
    deleted = tuple(TopicDeleted(topic_id) for topic_id in found if topic_id not in doubtful)
    return Decision(deleted, tuple(results), Why(Reason.DELETED))


def create_partitions(
    image: MetadataImage, topics: Sequence[MorePartitions], *, below: Below
) -> Decision[tuple[TopicResult, ...]]:
    """Return which partitions to add; a repeated name has one result, a refusal."""
    results: list[TopicResult] = []
    changes: list[Change] = []
    named = Counter(topic.name for topic in topics)
    results.extend(
        TopicResult(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name, n in named.items() if n > 1
    )
    for topic in topics:
        if named[topic.name] > 1:
            continue
        try:
            changes.append(_added_partitions(image, topic, below))
        except RequestError as refusal:
            results.append(TopicResult(topic.name, refusal.code, refusal.message))
            continue
        results.append(TopicResult(topic.name))
    assert len(results) == len(named), f"{len(results)} results for {len(named)} names"
    return Decision(tuple(changes), tuple(results), Why(Reason.CREATED))


def requested_partitions(topic: NewTopic, settings: BrokerConfig) -> int:
    """Return how many partitions a topic would have."""
    if topic.assignments:
        return len(topic.assignments)
    return settings.num_partitions if topic.partitions == NONE else max(0, topic.partitions)


def _validate_name(image: MetadataImage, name: str, collisions: Collisions) -> None:
    if name == METADATA_TOPIC:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    problem = what_is_wrong(name)
    if problem is not None:
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    other = collisions.of(name)
    if other is not None:
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
    if name in image.topics:
        raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _validated_configs(topic: NewTopic) -> dict[str, str]:
    configs: dict[str, str] = {}
    for name, value in topic.configs:
        if value is None:
            raise RequestError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        configs[name] = stored_topic_config(name, value)
    try:
        validate_topic_configs(configs)
    except ConfigError as error:
        raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return configs


def _replicas_of(image: MetadataImage, topic: NewTopic, settings: BrokerConfig, below: Below) -> Sequence[Replicas]:
    if topic.assignments:
        return _chosen_replicas(image, topic)
    if topic.replication_factor < NONE or topic.replication_factor == 0:
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partitions < NONE or topic.partitions == 0:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    factor = topic.replication_factor
    return place(
        image.brokers,
        partitions=settings.num_partitions if topic.partitions == NONE else topic.partitions,
        replication_factor=settings.default_replication_factor if factor == NONE else factor,
        below=below,
    )


def _chosen_replicas(image: MetadataImage, topic: NewTopic) -> Sequence[Replicas]:
    if topic.replication_factor != NONE:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.partitions != NONE:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    chosen: dict[int, Replicas] = {}
    factor: int | None = None
    for partition, replicas in topic.assignments:
        if partition in chosen:
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {partition}",
            )
        validate_assignment(image, replicas, factor)
        factor = len(replicas)
        if not any(image.is_active(broker) for broker in replicas):
            raise _all_fenced(partition)
        chosen[partition] = replicas
    if any(partition not in chosen for partition in range(len(chosen))):
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [chosen[partition] for partition in range(len(chosen))]


def _all_fenced(partition: int) -> RequestError:
    return RequestError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in"
        " controlled shutdown.",
    )


def _new_partitions(image: MetadataImage, replicas: Sequence[Replicas], first: int = 0) -> tuple[PartitionRecord, ...]:
    active: Collection[BrokerId] = {broker for broker, record in image.brokers.items() if record.active}
    # A broker whose disk refuses writes joins later, unless no other replica can take its place.
    able = {broker for broker in active if image.brokers[broker].refusal is None}
    in_sync: dict[Replicas, Replicas] = {}
    leader_epoch, partition_epoch = LeaderEpoch(0), PartitionEpoch(0)
    records = []
    for partition, assigned in enumerate(replicas, first):
        isr = in_sync.get(assigned)
        if isr is None:
            candidates = able if any(broker in able for broker in assigned) else active
            isr = in_sync[assigned] = tuple(broker for broker in assigned if broker in candidates)
            assert isr, f"none of {assigned} is active: {sorted(active)}"
        records.append(PartitionRecord(partition, isr[0], leader_epoch, partition_epoch, assigned, isr))
    return tuple(records)


def _validate_reference(topic: TopicReference, *, duplicate: bool) -> None:
    if topic.name is not None and topic.topic_id != NO_TOPIC_ID:
        raise RequestError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if topic.name is None and topic.topic_id == NO_TOPIC_ID:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if duplicate:
        what = "Duplicate topic name." if topic.name is not None else "Duplicate topic id."
        raise RequestError(ErrorCode.INVALID_REQUEST, what)


def _find(image: MetadataImage, topic: TopicReference) -> Topic:
    if topic.name is not None:
        known = image.topics.get(topic.name)
        if known is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return known
    known = image.topic_by_id(topic.topic_id)
    if known is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return known


def _added_partitions(image: MetadataImage, topic: MorePartitions, below: Below) -> PartitionsChanged:
    known = image.topics.get(topic.name)
    if known is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(known.partitions)
    if topic.count == present:
        raise RequestError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if topic.count < present:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {topic.count} would not be an increase.",
        )
    additional = topic.count - present
    if additional > PARTITIONS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, EXCESSIVE)
    first = known.partitions[0]
    # While it is reassigned, the one that is wanted.
    factor = len(first.replicas) - len(first.removing)
    if topic.assignments is None:
        replicas: Sequence[Replicas] = place(
            image.brokers, partitions=additional, replication_factor=factor, below=below, first_partition=present
        )
    else:
        replicas = _chosen_additions(image, topic, additional, factor)
    assert len(replicas) == additional, f"{len(replicas)} assignments for {additional} partitions of {topic.name}"
    return PartitionsChanged(known.topic_id, _new_partitions(image, replicas, present))


def _chosen_additions(image: MetadataImage, topic: MorePartitions, additional: int, factor: int) -> Sequence[Replicas]:
    assignments = topic.assignments or ()
    if len(assignments) != additional:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} assignment(s)"
            " were specified.",
        )
    present = topic.count - additional
    for index, replicas in enumerate(assignments):
        validate_assignment(image, replicas, factor)
        if not any(image.is_active(broker) for broker in replicas):
            raise _all_fenced(present + index)
    return assignments
