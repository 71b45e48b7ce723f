"""What a broker's coming and going does to the partitions.

A broker that is lost (fenced, leaving, or back as another process) leaves every
in-sync set, and its leaderships go to others. One that becomes active is given
the leaderless partitions that it may lead; it does not re-enter an in-sync set
by that: it has to fetch up, and the leader proposes it.
Source: Kafka's ReplicationControlManager; KIP-966.
"""

from collections.abc import Callable, Iterator

from syncline.core.cluster import TopicRules, topic_rules
from syncline.core.elections import ElectionKind, next_state
from syncline.model.configs import BrokerConfig
from syncline.model.ids import BrokerId
from syncline.model.metadata import MetadataImage, PartitionRecord, PartitionsChanged

_Step = Callable[[PartitionRecord, TopicRules], PartitionRecord]


def partitions_without(
    image: MetadataImage, lost: BrokerId, settings: BrokerConfig, *, lost_data: bool = False
) -> tuple[PartitionsChanged, ...]:
    """Return the changes when `lost` may no longer lead or be in sync.

    `lost_data`: it may also have lost what it had acknowledged, so that it is
    not eligible either.
    """
    eligible_replicas = settings.eligible_leader_replicas_enable
    # Without ELR the last member of an ISR is the only memory of who has the data.
    uncertain = frozenset((lost,)) if lost_data else frozenset()

    def acceptable(broker: BrokerId) -> bool:
        return broker != lost and image.is_active(broker)

    def step(record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        if lost not in record.isr and not (lost_data and lost in record.elr):
            return record
        return next_state(
            record,
            acceptable=acceptable,
            min_isr=rules.min_isr,
            kind=ElectionKind.UNCLEAN if rules.unclean else ElectionKind.ONLINE,
            isr=tuple(broker for broker in record.isr if broker != lost),
            lost_data=uncertain,
            eligible_replicas=eligible_replicas,
        )

    return tuple(_changed(image, settings, step))


def partitions_with(image: MetadataImage, gained: BrokerId, settings: BrokerConfig) -> tuple[PartitionsChanged, ...]:
    """Return the elections that become possible when `gained` is active again."""

    def acceptable(broker: BrokerId) -> bool:
        return broker == gained or image.is_active(broker)

    def step(record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        if record.has_leader or gained not in record.replicas:
            return record
        return next_state(
            record,
            acceptable=acceptable,
            min_isr=rules.min_isr,
            kind=ElectionKind.UNCLEAN if rules.unclean else ElectionKind.ONLINE,
            eligible_replicas=settings.eligible_leader_replicas_enable,
        )

    return tuple(_changed(image, settings, step))


def unclean_elections(image: MetadataImage, settings: BrokerConfig) -> tuple[PartitionsChanged, ...]:
    """Return elections for leaderless partitions of topics that allow unclean leaders."""

    def step(record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        if record.has_leader or not rules.unclean:
            return record
        return next_state(
            record,
            acceptable=image.is_active,
            min_isr=rules.min_isr,
            kind=ElectionKind.UNCLEAN,
            eligible_replicas=settings.eligible_leader_replicas_enable,
        )

    return tuple(_changed(image, settings, step))


def preferred_elections(image: MetadataImage, settings: BrokerConfig) -> tuple[PartitionsChanged, ...]:
    """Return elections for partitions that their first replica could lead, but another one leads."""

    def step(record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        if record.leader == record.replicas[0]:
            return record
        state = next_state(
            record,
            acceptable=image.is_active,
            min_isr=rules.min_isr,
            kind=ElectionKind.PREFERRED,
            eligible_replicas=settings.eligible_leader_replicas_enable,
        )
        return state if state.leader == record.replicas[0] else record

    return tuple(_changed(image, settings, step))


def after_min_isr_change(image: MetadataImage, settings: BrokerConfig) -> tuple[PartitionsChanged, ...]:
    """Return the partitions whose ELR is no longer needed under the minimum sizes that `image` has."""

    def step(record: PartitionRecord, rules: TopicRules) -> PartitionRecord:
        if not record.elr or len(record.isr) < min(rules.min_isr, len(record.replicas)):
            return record
        return next_state(record, acceptable=image.is_active, min_isr=rules.min_isr)

    return tuple(_changed(image, settings, step))


def leads_any(image: MetadataImage, broker: BrokerId) -> bool:
    """Return whether `broker` leads some partition."""
    return any(record.leader == broker for topic in image.topics.values() for record in topic.partitions)


def _changed(image: MetadataImage, settings: BrokerConfig, step: _Step) -> Iterator[PartitionsChanged]:
    for topic in image.topics.values():
        rules = topic_rules(image, topic.name, settings)
        changed = tuple(state for record in topic.partitions if (state := step(record, rules)) is not record)
        if changed:
            yield PartitionsChanged(topic.topic_id, changed)
