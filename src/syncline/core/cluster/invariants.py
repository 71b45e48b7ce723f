"""Invariants of every image, and of every change to it.

The controller's decisions are small functions that compose; a mistake in one shows as a state that no later decision
can repair, such as a fenced leader. These checks look at every partition and broker, so they run only where the
switch `check_invariants` is on: in simulated runs and in tests, after each decision (`Commits.decide()`).
`model.metadata` checks the rest: what holds for an image whatever the controller decides.

Source: KIP-841 (only active brokers join an ISR), KIP-966 (ELR), KIP-903 (broker epochs); PartitionChangeBuilder.
"""

from collections import Counter
from collections.abc import Sequence
from typing import assert_never

from syncline.core.cluster.decision import Why
from syncline.core.cluster.standing import leads_any
from syncline.model.ids import NONE
from syncline.model.metadata import (
    BrokerChanged,
    BrokerRecord,
    BrokerRemoved,
    Change,
    ClusterCreated,
    ConfigsChanged,
    ControllerChanged,
    MetadataImage,
    MoveChanged,
    MoveRemoved,
    PartitionRecord,
    PartitionsChanged,
    ProducerIdsAllocated,
    Recovery,
    Topic,
    TopicCreated,
    TopicDeleted,
)
from syncline.model.reasons import Reason


def check_decision(before: MetadataImage, changes: Sequence[Change], after: MetadataImage, why: Why) -> None:
    """Raise `AssertionError` unless `changes` lead from one sound image to the next."""
    image = before
    for change in changes:
        _check_change(image, change)
        image = image.apply((change,), after.version)
    assert image == after, f"changes lead to another image, one by one, for {why.reason}"
    check_image(after)
    if why.reason is not Reason.BOUNCED:
        # With quick.bounce.enable a new process, still fenced, continues to lead what the old one led.
        for change in changes:
            if isinstance(change, BrokerChanged):
                _check_leaderships(before, change.record, after)


def check_image(image: MetadataImage) -> None:
    """Raise `AssertionError` unless everything in an image fits together."""
    image.check_invariants()
    for broker_id, record in image.brokers.items():
        assert record.broker_epoch <= image.version, f"epoch {record.broker_epoch} lies ahead of {image.version}"
        assert not (record.fenced and record.shutting_down), f"broker {broker_id} is fenced and still leaving"
    for topic in image.topics.values():
        for partition in topic.partitions:
            check_partition(partition)
    owners = Counter(each.move for topic in image.topics.values() for each in topic.partitions if each.move)
    assert dict(owners) == image.move_sizes, f"moves own {dict(owners)}, not {image.move_sizes}"
    assert image.moves.keys() == image.move_sizes.keys(), f"{image.moves} own {image.move_sizes} reassignments"


def check_partition(record: PartitionRecord) -> None:
    """Raise `AssertionError` unless what the controller decides about one partition fits together."""
    record.check_invariants()
    assert record.replicas, f"no replicas: {record}"
    assert len(set(record.isr)) == len(record.isr), f"a replica is in the ISR twice: {record}"
    assert record.leader == NONE or not record.last_known_elr, f"a leader, and the last one is remembered: {record}"
    assert len(record.last_known_elr) <= 1, f"more than one last leader: {record}"
    assert {*record.adding, *record.removing} <= set(record.replicas), f"a reassignment of other replicas: {record}"
    assert not set(record.adding) & set(record.removing), f"a replica is both added and removed: {record}"
    stay = set(record.replicas).difference(record.adding)
    assert set(record.original) == (stay if record.is_reassigned else set()), f"other replicas before: {record}"
    assert not record.move or record.is_reassigned, f"a move owns what is not reassigned: {record}"
    remaining = len(record.replicas) - len(record.removing)
    assert remaining > 0, f"a reassignment removes every replica: {record}"
    assert record.replicas[remaining:] == record.removing, f"replicas to be removed stand before others: {record}"


def _check_change(image: MetadataImage, change: Change) -> None:
    match change:
        case PartitionsChanged(topic_id, partitions):
            topic = image.topic_by_id(topic_id)
            assert topic is not None, f"partitions of topic {topic_id}, which does not exist"
            for record in partitions:
                if record.partition < len(topic.partitions):
                    _check_step(image, topic, topic.partitions[record.partition], record)
        case BrokerChanged(record):
            _check_broker(image, record)
        case TopicCreated(name, topic_id, partitions):
            assert name not in image.topics, f"topic {name} exists"
            assert topic_id not in image.topic_names, f"{topic_id} is the id of {image.topic_names[topic_id]}"
            assert partitions, f"topic {name} has no partitions"
        case ProducerIdsAllocated(next_producer_id):
            assert next_producer_id > image.next_producer_id, (
                f"producer ids from {next_producer_id} to {image.next_producer_id} would be given out twice"
            )
        case ControllerChanged(broker_id, controller_epoch):
            assert controller_epoch > image.controller_epoch or broker_id == image.controller_id, (
                f"controller {broker_id} takes over with epoch {controller_epoch} after {image.controller_epoch}"
            )
        case ClusterCreated(cluster_id):
            assert not image.cluster_id, f"cluster {image.cluster_id} would become {cluster_id}"
        case MoveChanged(move):
            assert move.throttle_bytes_per_s == NONE or move.throttle_bytes_per_s > 0, f"nothing could move: {move}"
        case TopicDeleted() | ConfigsChanged() | BrokerRemoved() | MoveRemoved():
            pass
        case _:
            assert_never(change)


def _check_broker(image: MetadataImage, record: BrokerRecord) -> None:
    known = image.brokers.get(record.broker_id)
    if known is None or known.broker_epoch != record.broker_epoch:
        older = NONE if known is None else known.broker_epoch
        assert record.broker_epoch > older, f"broker {record.broker_id}: epoch {record.broker_epoch} follows {older}"
        assert record.fenced, f"broker {record.broker_id} serves before it has seen its registration"
    else:
        assert record.incarnation_id == known.incarnation_id, (
            f"processes {known.incarnation_id} and {record.incarnation_id} share epoch {known.broker_epoch}"
        )


def _check_leaderships(before: MetadataImage, record: BrokerRecord, after: MetadataImage) -> None:
    """Check that a broker that is no longer active leads nothing."""
    known, now = before.brokers.get(record.broker_id), after.brokers[record.broker_id]
    was_inactive = known is not None and known.broker_epoch == now.broker_epoch and not known.active
    assert now.active or was_inactive or not leads_any(after, now.broker_id), f"{now} is not active, and leads"


def _check_step(image: MetadataImage, topic: Topic, old: PartitionRecord, new: PartitionRecord) -> None:
    """Check one change of a partition."""
    where = f"{topic.name}-{new.partition}: {old} -> {new}"
    assert new.partition_epoch == old.partition_epoch + 1, f"the partition epoch does not rise by one: {where}"
    is_restated = new.leader != old.leader or not set(old.replicas) <= set(new.replicas)
    assert new.leader_epoch <= old.leader_epoch + is_restated, f"the leader epoch does not follow the leader: {where}"
    assert new.leader == old.leader or new.leader_epoch > old.leader_epoch, f"two leaders have one epoch: {where}"
    assert new.leader in {NONE, old.leader} or image.may_lead(new.leader, topic.topic_id, new.partition), (
        f"broker {new.leader} may not lead: {where}"
    )
    held_all = {*old.isr, *old.elr}
    assert set(new.elr) <= held_all, f"the ELR gains a replica that may lack committed records: {where}"
    for member in set(new.isr) - set(old.isr):
        assert image.is_active(member), f"broker {member} joins the ISR and is not active: {where}"
    if old.is_reassigned and not new.is_reassigned:
        # The member whose joining completes a reassignment may lead in the same change: the leader vouches for it.
        held_all.update(new.isr)
    is_clean = new.leader in {NONE, old.leader} or new.leader in held_all
    assert is_clean or new.recovery is Recovery.RECOVERING, f"an unclean election passes for a clean one: {where}"
