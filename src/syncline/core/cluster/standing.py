"""The partitions after a broker is lost or returns, or after a log fails or a disk refuses writes.

A lost broker (fenced, leaving, or replaced by another process) leaves every in-sync set, and its leaderships move to
others. A broker that becomes active gets the leaderless partitions that it may lead. It re-enters no other in-sync
set: it first catches up, and then the leader proposes it.

Invariants: a lost broker leads nothing; a broker that lost data is eligible nowhere.
Source: Kafka's ReplicationControlManager; KIP-966.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final
from uuid import UUID

from syncline.core.cluster.decision import TopicRules, topic_rules
from syncline.core.cluster.elections import Acceptable, ElectionKind, FitnessOf, Replicas, next_state
from syncline.model.broker_config import BrokerConfig
from syncline.model.ids import BrokerId
from syncline.model.metadata import MetadataImage, PartitionRecord, PartitionsChanged, Topic, directory_id

_Step = Callable[[Topic, PartitionRecord, TopicRules], PartitionRecord]
# A record begins with the partition's number, its leader and its epochs.
_AFTER_EPOCHS: Final = PartitionRecord._fields.index("partition_epoch") + 1
assert PartitionRecord._fields[:_AFTER_EPOCHS] == ("partition", "leader", "leader_epoch", "partition_epoch"), (
    "a partition's kind begins after its epochs"
)


def acceptable_in(
    image: MetadataImage,
    topic_id: UUID,
    partition: int,
    *,
    lost: BrokerId | None = None,
    gained: BrokerId | None = None,
) -> Acceptable:
    """Return the rule for which brokers may lead a partition: `lost` may not, and `gained` is about to be active."""

    def acceptable(broker: BrokerId) -> bool:
        if broker == lost:
            return False
        if broker == gained:
            return directory_id(topic_id, partition).hex not in image.brokers[broker].failed
        return image.may_lead(broker, topic_id, partition)

    return acceptable


def fitness_in(image: MetadataImage, topic_id: UUID, partition: int) -> FitnessOf:
    """Return the rule for which replicas of a partition should lead."""
    return lambda broker: image.fitness(broker, topic_id, partition)


def partitions_without(
    image: MetadataImage,
    lost: BrokerId,
    settings: BrokerConfig,
    *,
    lost_data: bool = False,
    is_whole: bool = False,
) -> tuple[PartitionsChanged, ...]:
    """Return the changes when `lost` may no longer lead or be in sync.

    `lost_data`: it may also have lost records that it acknowledged, so it is not eligible either. `is_whole`: it proves
    that it has lost nothing; then it stays in the ISR of a partition without a leader, since nothing was committed
    without it.
    """
    eligible_replicas = settings.eligible_leader_replicas_enable
    # Without ELR the last member of an ISR is the only record of which replica has the data.
    uncertain = frozenset((lost,)) if lost_data else frozenset()

    def step(topic: Topic, record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        if lost not in record.isr and not (lost_data and lost in record.elr):
            return record
        if is_whole and not record.has_leader:
            return record
        state = next_state(
            record,
            acceptable=acceptable_in(image, topic.topic_id, record.partition, lost=lost),
            fitness=fitness_in(image, topic.topic_id, record.partition),
            min_isr=rules.min_isr,
            kind=ElectionKind.UNCLEAN if rules.unclean else ElectionKind.ONLINE,
            isr=tuple(broker for broker in record.isr if broker != lost),
            lost_data=uncertain,
            eligible_replicas=eligible_replicas,
        )
        assert state.leader != lost, f"broker {lost} is lost, and leads {topic.name}: {state}"
        assert not (lost_data and lost in state.elr), f"broker {lost} lost data, and is eligible: {state}"
        return state

    return tuple(_changed(image, settings, step))


def partitions_with(
    image: MetadataImage, gained: BrokerId, settings: BrokerConfig, *, waits_for_members: bool = False
) -> tuple[PartitionsChanged, ...]:
    """Return the elections that become possible when `gained` is active again.

    `waits_for_members`: the cluster is just starting, so a partition at rest waits until its whole ISR is back. Then
    no member leaves the ISR only to rejoin it, and the last leader leads again.
    """

    def step(topic: Topic, record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        if record.has_leader or gained not in record.replicas:
            return record
        acceptable = acceptable_in(image, topic.topic_id, record.partition, gained=gained)
        if waits_for_members and is_at_rest(record) and not all(map(acceptable, record.isr)):
            return record
        return _led_again(image, topic, record, rules, settings, acceptable)

    return tuple(_changed(image, settings, step))


def _led_again(
    image: MetadataImage,
    topic: Topic,
    record: PartitionRecord,
    rules: TopicRules,
    settings: BrokerConfig,
    acceptable: Acceptable,
) -> PartitionRecord:
    """Return the state of a partition without a leader after brokers came back: led by one of them, if one may lead."""
    present = _present(record, acceptable)
    resumes = is_at_rest(record) and record.last_known_elr[0] in (present or ())
    state = next_state(
        record,
        acceptable=record.last_known_elr.__contains__ if resumes else acceptable,
        fitness=fitness_in(image, topic.topic_id, record.partition),
        min_isr=rules.min_isr,
        kind=ElectionKind.UNCLEAN if rules.unclean else ElectionKind.ONLINE,
        isr=present,
        eligible_replicas=settings.eligible_leader_replicas_enable,
    )
    assert not resumes or state.leader == record.last_known_elr[0], f"another one resumes: {record} -> {state}"
    assert not state.has_leader or acceptable(state.leader), f"{state.leader} may not lead: {state}"
    return state


def _present(record: PartitionRecord, acceptable: Acceptable) -> Replicas | None:
    """Return the ISR with which a partition may get a leader again, None while no candidate is back.

    Members that are not back yet would hold the new leader's watermark. If no member of the ISR is back, an eligible
    replica leads: it, too, has everything that is committed, and the members of the old ISR become eligible.
    """
    present = tuple(broker for broker in record.isr if acceptable(broker))
    return present if present or any(map(acceptable, record.elr)) else None


def is_at_rest(record: PartitionRecord) -> bool:
    """Return whether all brokers stopped together, and the leader of that time is still in the ISR."""
    last = record.last_known_elr
    return not record.has_leader and len(last) == 1 and last[0] in record.isr


def rest_ends(image: MetadataImage, settings: BrokerConfig) -> tuple[PartitionsChanged, ...]:
    """Return elections for partitions at rest of whose ISR not all have come back in time."""

    def step(topic: Topic, record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        acceptable = acceptable_in(image, topic.topic_id, record.partition)
        if not is_at_rest(record) or _present(record, acceptable) is None:
            return record
        return _led_again(image, topic, record, rules, settings, acceptable)

    return tuple(_changed(image, settings, step))


def partitions_of_other_fitness(
    image: MetadataImage, broker: BrokerId, settings: BrokerConfig
) -> tuple[PartitionsChanged, ...]:
    """Return the changes when what impairs `broker` is another than before, as its record in the image says.

    An unfit replica leaves in-sync sets and gives leaderships away where a fit member remains. One that is fit again
    takes over what only unfit replicas lead.
    """

    def step(topic: Topic, record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        if not record.has_leader or (broker not in record.isr and broker not in record.elr):
            return record
        state = next_state(
            record,
            acceptable=acceptable_in(image, topic.topic_id, record.partition),
            fitness=fitness_in(image, topic.topic_id, record.partition),
            min_isr=rules.min_isr,
            eligible_replicas=settings.eligible_leader_replicas_enable,
        )
        assert state.has_leader, f"the fitness of {broker} leaves {topic.name} without a leader: {record} -> {state}"
        return state

    return tuple(_changed(image, settings, step))


def partitions_failing(
    image: MetadataImage, broker: BrokerId, failed: Collection[str], settings: BrokerConfig
) -> tuple[PartitionsChanged, ...]:
    """Return the changes when `broker` can no longer serve these replicas (directory ids).

    The controller assumes that records that it acknowledged there are lost, so it is not eligible either; the partition
    record still remembers it as the last leader. The broker's record in the image already marks these replicas.
    """

    def step(topic: Topic, record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        if broker not in record.replicas or directory_id(topic.topic_id, record.partition).hex not in failed:
            return record
        state = next_state(
            record,
            acceptable=acceptable_in(image, topic.topic_id, record.partition),
            fitness=fitness_in(image, topic.topic_id, record.partition),
            min_isr=rules.min_isr,
            kind=ElectionKind.UNCLEAN if rules.unclean else ElectionKind.ONLINE,
            isr=tuple(each for each in record.isr if each != broker),
            lost_data=frozenset((broker,)),
            eligible_replicas=settings.eligible_leader_replicas_enable,
        )
        assert state.leader != broker, f"broker {broker} cannot serve {topic.name}, and leads it: {state}"
        is_eligible = settings.eligible_leader_replicas_enable and broker in state.elr
        assert not is_eligible, f"broker {broker} cannot serve {topic.name}, and is eligible: {state}"
        return state

    return tuple(_changed(image, settings, step))


def unclean_elections(image: MetadataImage, settings: BrokerConfig) -> tuple[PartitionsChanged, ...]:
    """Return elections for leaderless partitions of topics that allow unclean leaders."""

    def step(topic: Topic, record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        if record.has_leader or not rules.unclean:
            return record
        return next_state(
            record,
            acceptable=acceptable_in(image, topic.topic_id, record.partition),
            fitness=fitness_in(image, topic.topic_id, record.partition),
            min_isr=rules.min_isr,
            kind=ElectionKind.UNCLEAN,
            eligible_replicas=settings.eligible_leader_replicas_enable,
        )

    return tuple(_changed(image, settings, step))


def _none(_topic_id: UUID, _partition: int, _broker: BrokerId) -> bool:
    return False


def preferred_elections(
    image: MetadataImage, settings: BrokerConfig, is_demoted: Callable[[UUID, int, BrokerId], bool] = _none
) -> tuple[PartitionsChanged, ...]:
    """Return elections for partitions that another replica leads although the first one could.

    A replica that recently relinquished the partition (`is_demoted`, KIP-501) does not get it back yet.
    """

    def step(topic: Topic, record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        preferred = record.replicas[0]
        if record.leader == preferred or is_demoted(topic.topic_id, record.partition, preferred):
            return record
        state = next_state(
            record,
            acceptable=acceptable_in(image, topic.topic_id, record.partition),
            fitness=fitness_in(image, topic.topic_id, record.partition),
            min_isr=rules.min_isr,
            kind=ElectionKind.PREFERRED,
            eligible_replicas=settings.eligible_leader_replicas_enable,
        )
        return state if state.leader == record.replicas[0] else record

    return tuple(_changed(image, settings, step, depends_on_place=is_demoted is not _none))


def after_min_isr_change(image: MetadataImage, settings: BrokerConfig) -> tuple[PartitionsChanged, ...]:
    """Return the partitions that no longer need an ELR under the minimum sizes in `image`."""

    def step(topic: Topic, record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        if not record.elr or len(record.isr) < min(rules.min_isr, record.complete_size):
            return record
        return next_state(
            record,
            acceptable=acceptable_in(image, topic.topic_id, record.partition),
            fitness=fitness_in(image, topic.topic_id, record.partition),
            min_isr=rules.min_isr,
        )

    return tuple(_changed(image, settings, step))


def leads_any(image: MetadataImage, broker: BrokerId) -> bool:
    """Return whether `broker` leads some partition."""
    return any(record.leader == broker for topic in image.topics.values() for record in topic.partitions)


def _changed(
    image: MetadataImage, settings: BrokerConfig, step: _Step, *, depends_on_place: bool = False
) -> Iterator[PartitionsChanged]:
    """Yield what `step` changes; it is taken once for partitions that differ in nothing but numbers and epochs.

    Of ten thousand partitions most are alike. They are not where the step `depends_on_place`, or where some replicas
    failed or are impaired.
    """
    depends_on_place = depends_on_place or any(each.failed or each.impaired for each in image.brokers.values())
    taken: dict[tuple[object, ...], tuple[PartitionRecord, PartitionRecord]] = {}
    for topic in image.topics.values():
        rules = topic_rules(image, topic.name, settings)
        states = []
        for record in topic.partitions:
            if depends_on_place:
                state = step(topic, record, rules)
            else:
                kind = (rules, record.leader, *record[_AFTER_EPOCHS:])
                like = taken.get(kind)
                if like is None:
                    like = taken[kind] = record, step(topic, record, rules)
                state = _likewise(record, *like)
            if state is not record:
                states.append(state)
        if states:
            yield PartitionsChanged(topic.topic_id, tuple(states))


def _likewise(record: PartitionRecord, before: PartitionRecord, after: PartitionRecord) -> PartitionRecord:
    """Return what becomes of a partition if `after` becomes of `before`, which is like it."""
    if after is before:
        return record
    # `_replace` takes twice as long.
    return PartitionRecord._make(
        (
            record.partition,
            after.leader,
            record.leader_epoch + after.leader_epoch - before.leader_epoch,
            record.partition_epoch + after.partition_epoch - before.partition_epoch,
            *after[_AFTER_EPOCHS:],
        )
    )
