"""AlterPartition: a leader asks to change its in-sync set.

The checks have an order, and the answer tells the leader which of the two is
behind: a request from the future means that this controller is stale, one from
the past that the leader is. An unchanged ISR is a success, so that a repeated
request (its answer was lost) does no harm.
Source: KIP-497, KIP-841 (fenced brokers stay out), KIP-903 (broker epochs).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from syncline.core.cluster import Decision, TopicRules, topic_rules
from syncline.core.elections import next_state
from syncline.model.configs import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, BrokerId, LeaderEpoch, PartitionEpoch
from syncline.model.metadata import MetadataImage, PartitionRecord, PartitionsChanged, Recovery


class IsrRequest(NamedTuple):
    """One partition of a request; `isr` pairs each broker with the epoch that the leader knows of it, or NONE."""

    topic_id: UUID
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[tuple[BrokerId, int], ...]
    recovery: Recovery = Recovery.RECOVERED


@dataclass(frozen=True, slots=True)
class IsrResult:
    """The answer for one partition; `state` is what holds now, where the error lets one say it."""

    topic_id: UUID
    partition: int
    error: ErrorCode
    state: PartitionRecord | None = None


@dataclass(frozen=True, slots=True)
class AlterPartitionAnswer:
    """The answer to a request: an error for all of it, or a result for each item in the order asked."""

    error: ErrorCode
    results: tuple[IsrResult, ...] = ()


def alter_partition(
    image: MetadataImage,
    sender: BrokerId,
    broker_epoch: int,
    requests: Sequence[IsrRequest],
    settings: BrokerConfig,
) -> Decision[AlterPartitionAnswer]:
    """Return the outcome of one AlterPartition request."""
    record = image.brokers.get(sender)
    if record is None or record.broker_epoch != broker_epoch:
        return Decision((), AlterPartitionAnswer(ErrorCode.STALE_BROKER_EPOCH))
    changed: dict[UUID, dict[int, PartitionRecord]] = {}
    results = []
    for request in requests:
        topic = image.topic_by_id(request.topic_id)
        if topic is None:
            results.append(IsrResult(request.topic_id, request.partition, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        if not 0 <= request.partition < len(topic.partitions):
            results.append(IsrResult(request.topic_id, request.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        earlier = changed.get(request.topic_id, {})
        before = earlier.get(request.partition, topic.partitions[request.partition])
        error = _refusal(image, sender, request, before)
        state = before
        if error is ErrorCode.NONE:
            state = _changed_isr(image, request, before, topic_rules(image, topic.name, settings), settings)
            if state is not before:
                changed.setdefault(request.topic_id, {})[request.partition] = state
            if state.leader != sender:
                error = ErrorCode.NEW_LEADER_ELECTED
        results.append(IsrResult(request.topic_id, request.partition, error, state))
    changes = tuple(PartitionsChanged(topic_id, tuple(states.values())) for topic_id, states in changed.items())
    return Decision(changes, AlterPartitionAnswer(ErrorCode.NONE, tuple(results)), "proposed by the leader")


def _refusal(image: MetadataImage, sender: BrokerId, request: IsrRequest, record: PartitionRecord) -> ErrorCode:
    """Return why `request` cannot be granted, NONE if it can."""
    if request.leader_epoch > record.leader_epoch or request.partition_epoch > record.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if request.leader_epoch < record.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender != record.leader:
        return ErrorCode.INVALID_REQUEST
    if request.partition_epoch < record.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    members = [broker for broker, _ in request.isr]
    if len(set(members)) != len(members) or not set(members) <= set(record.replicas) or sender not in members:
        return ErrorCode.INVALID_REQUEST
    if request.recovery is Recovery.RECOVERING and (len(members) > 1 or record.recovery is Recovery.RECOVERED):
        return ErrorCode.INVALID_REQUEST
    for broker, known_epoch in request.isr:
        registered = image.brokers.get(broker)
        if registered is None or not registered.active or known_epoch not in {NONE, registered.broker_epoch}:
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _changed_isr(
    image: MetadataImage, request: IsrRequest, record: PartitionRecord, rules: TopicRules, settings: BrokerConfig
) -> PartitionRecord:
    return next_state(
        record,
        acceptable=image.is_active,
        min_isr=rules.min_isr,
        isr=tuple(broker for broker, _ in request.isr),
        recovery=request.recovery,
        eligible_replicas=settings.eligible_leader_replicas_enable,
    )
