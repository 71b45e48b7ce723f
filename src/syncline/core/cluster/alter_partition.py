"""AlterPartition: a leader asks to change its in-sync set.

The order of the checks matters. The answer shows which side is stale: a request with newer epochs means that this
controller is, one with older epochs that the leader is. An unchanged ISR is a success, so a leader may repeat a request
whose answer was lost.

A leader may also *relinquish*: list the present members in the order in which they should succeed it. A field of the
request marks this, because the order of an ISR otherwise means nothing: elections follow the assignment.
Source: KIP-497, KIP-841 (fenced brokers stay out), KIP-903 (broker epochs), KIP-501 (relinquishing).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from syncline.core.cluster.decision import Decision, TopicRules, Why, topic_rules
from syncline.core.cluster.demotions import Demotions, RelinquishLimits
from syncline.core.cluster.elections import ElectionKind, assignment_of, next_state
from syncline.core.cluster.standing import acceptable_in, fitness_in
from syncline.model.broker_config import BrokerConfig
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, BrokerId, LeaderEpoch, PartitionEpoch
from syncline.model.immutable import Immutable
from syncline.model.impairments import Fitness
from syncline.model.metadata import MetadataImage, PartitionRecord, PartitionsChanged, Recovery
from syncline.model.reasons import Reason


class IsrRequest(NamedTuple):
    """One partition of a request; `isr` pairs each broker with its epoch as the leader knows it, or NONE."""

    topic_id: UUID
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[tuple[BrokerId, int], ...]
    recovery: Recovery = Recovery.RECOVERED
    relinquish: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IsrResult(Immutable):
    """The answer for one partition; `state` is the present state, unless the error hides it."""

    topic_id: UUID
    partition: int
    error: ErrorCode
    state: PartitionRecord | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AlterPartitionAnswer(Immutable):
    """The answer to a request: an error for all of it, or one result per item, in the order of the request."""

    error: ErrorCode
    results: tuple[IsrResult, ...] = ()


def alter_partition(
    image: MetadataImage,
    sender: BrokerId,
    broker_epoch: int,
    requests: Sequence[IsrRequest],
    settings: BrokerConfig,
    *,
    demotions: Demotions | None = None,
    now_ms: int = 0,
) -> Decision[AlterPartitionAnswer]:
    """Return the outcome of one AlterPartition request; record relinquishments in `demotions`."""
    record = image.brokers.get(sender)
    if record is None or record.broker_epoch != broker_epoch:
        return Decision((), AlterPartitionAnswer(ErrorCode.STALE_BROKER_EPOCH))
    changed: dict[UUID, dict[int, PartitionRecord]] = {}
    results = []
    has_relinquished = False
    demotions = Demotions() if demotions is None else demotions
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
        if error is ErrorCode.NONE and request.relinquish:
            error = _refused_relinquishment(image, sender, request, before, settings, demotions, now_ms)
        if error is ErrorCode.NONE:
            rules = topic_rules(image, topic.name, settings)
            if request.relinquish:
                state = _relinquished(image, request, before, rules, settings)
                limits = _relinquish_limits(settings)
                demotions.relinquished(request.topic_id, request.partition, sender, record.broker_epoch, limits, now_ms)
                has_relinquished = True
            else:
                state = _changed_isr(image, request, before, rules, settings)
            if state is not before:
                changed.setdefault(request.topic_id, {})[request.partition] = state
            if state.leader != sender:
                error = ErrorCode.NEW_LEADER_ELECTED
        results.append(IsrResult(request.topic_id, request.partition, error, state))
    assert len(results) == len(requests), f"{len(results)} results for {len(requests)} requests"
    changes = tuple(PartitionsChanged(topic_id, tuple(states.values())) for topic_id, states in changed.items())
    why = Why(Reason.RELINQUISHED if has_relinquished else Reason.PROPOSED_BY_LEADER)
    return Decision(changes, AlterPartitionAnswer(ErrorCode.NONE, tuple(results)), why)


def _refusal(image: MetadataImage, sender: BrokerId, request: IsrRequest, record: PartitionRecord) -> ErrorCode:
    """Return why the controller refuses `request`, NONE if it does not."""
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
    if request.relinquish and set(members) != set(record.isr):
        return ErrorCode.INVALID_REQUEST
    if request.recovery is Recovery.RECOVERING and (len(members) > 1 or record.recovery is Recovery.RECOVERED):
        return ErrorCode.INVALID_REQUEST
    for broker, known_epoch in request.isr:
        registered = image.brokers.get(broker)
        if registered is None or not registered.active or known_epoch not in {NONE, registered.broker_epoch}:
            return ErrorCode.INELIGIBLE_REPLICA
        joins = broker not in record.isr
        # A replica that its broker cannot serve may look caught up, by a fetch that was sent before its disk failed.
        can_serve = image.may_lead(broker, request.topic_id, request.partition)
        if joins and (not can_serve or image.fitness(broker, request.topic_id, request.partition) is not Fitness.ABLE):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _changed_isr(
    image: MetadataImage, request: IsrRequest, record: PartitionRecord, rules: TopicRules, settings: BrokerConfig
) -> PartitionRecord:
    return next_state(
        record,
        acceptable=acceptable_in(image, request.topic_id, request.partition),
        min_isr=rules.min_isr,
        isr=tuple(broker for broker, _ in request.isr),
        recovery=request.recovery,
        eligible_replicas=settings.eligible_leader_replicas_enable,
    )


def _relinquish_limits(settings: BrokerConfig) -> RelinquishLimits:
    return RelinquishLimits(
        settings.leader_relinquish_max_per_window,
        settings.leader_relinquish_window_ms,
        settings.leader_relinquish_demotion_ms,
    )


def _refused_relinquishment(
    image: MetadataImage,
    sender: BrokerId,
    request: IsrRequest,
    record: PartitionRecord,
    settings: BrokerConfig,
    demotions: Demotions,
    now_ms: int,
) -> ErrorCode:
    """Return why the leader must keep the partition, NONE if another member can take it."""
    if not demotions.may_relinquish(request.topic_id, request.partition, _relinquish_limits(settings), now_ms):
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    acceptable = acceptable_in(image, request.topic_id, request.partition)
    fitness = fitness_in(image, request.topic_id, request.partition)
    successors = (each for each, _ in request.isr if each != sender and each in record.replicas)
    can_any = any(acceptable(each) and fitness(each) is Fitness.ABLE for each in successors)
    return ErrorCode.NONE if can_any else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def _relinquished(
    image: MetadataImage, request: IsrRequest, record: PartitionRecord, rules: TopicRules, settings: BrokerConfig
) -> PartitionRecord:
    assignment = assignment_of(record)
    if settings.leader_relinquish_reorder_replicas and record.leader not in record.removing:
        others = [each for each in record.replicas if each != record.leader and each not in record.removing]
        assignment = assignment._replace(replicas=(*others, record.leader, *record.removing))
    state = next_state(
        record,
        acceptable=acceptable_in(image, request.topic_id, request.partition),
        fitness=fitness_in(image, request.topic_id, request.partition),
        min_isr=rules.min_isr,
        kind=ElectionKind.RELINQUISH,
        assignment=assignment,
        succession=tuple(broker for broker, _ in request.isr),
        recovery=request.recovery,
        eligible_replicas=settings.eligible_leader_replicas_enable,
    )
    assert state.leader not in {NONE, record.leader}, f"leader {record.leader} gave up, and {state.leader} leads"
    return state
