"""Decisions about many partitions at once: those that are alike get what each would get alone."""

from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.core.cluster import standing
from syncline.core.cluster.standing import (
    after_min_isr_change,
    partitions_failing,
    partitions_with,
    partitions_without,
    preferred_elections,
    rest_ends,
    unclean_elections,
)
from syncline.model.broker_config import BrokerConfig
from syncline.model.ids import NONE, BrokerId
from syncline.model.metadata import (
    BrokerChanged,
    ConfigResource,
    ConfigsChanged,
    MetadataImage,
    PartitionRecord,
    PartitionsChanged,
    ResourceType,
    TopicCreated,
    directory_id,
)
from tests.core.controller_world import broker, image, partition

ELR, NO_ELR = BrokerConfig(), BrokerConfig(eligible_leader_replicas_enable=False)
BROKERS = (1, 2, 3, 4)
_Decide = Callable[[MetadataImage, BrokerConfig], tuple[PartitionsChanged, ...]]
DECISIONS: dict[str, _Decide] = {
    "without": lambda before, settings: partitions_without(before, BrokerId(3), settings),
    "without-its-data": lambda before, settings: partitions_without(before, BrokerId(3), settings, lost_data=True),
    "without-but-whole": lambda before, settings: partitions_without(before, BrokerId(3), settings, is_whole=True),
    "with": lambda before, settings: partitions_with(before, BrokerId(4), settings),
    "with-at-start": lambda before, settings: partitions_with(before, BrokerId(4), settings, waits_for_members=True),
    "rest-ends": rest_ends,
    "unclean": unclean_elections,
    "preferred": preferred_elections,
    "min-isr": after_min_isr_change,
}


@st.composite
def records(draw: st.DrawFn) -> PartitionRecord:
    """Return a legal record without its number: led or not, with eligible replicas or not, reassigned or not."""
    replicas = tuple(draw(st.permutations(BROKERS))[: draw(st.integers(1, 4))])
    isr = tuple(each for each in replicas if draw(st.booleans()))
    elr = tuple(sorted(each for each in replicas if each not in isr and draw(st.booleans())))
    leader = draw(st.sampled_from([*isr, NONE]))
    last = () if leader != NONE else draw(st.sampled_from([(), *((each,) for each in replicas)]))
    epochs = draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))
    return PartitionRecord(0, leader, *epochs, replicas, isr, elr, last)


@st.composite
def images(draw: st.DrawFn) -> MetadataImage:
    """Return two topics whose partitions are of few kinds, with other rules; broker 4 is fenced."""
    kinds = draw(st.lists(records(), min_size=1, max_size=3))
    changes = [BrokerChanged(broker(each, fenced=each == 4)) for each in BROKERS]
    topics = {}
    for number in (1, 2):
        chosen = draw(st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, 3)), min_size=1, max_size=6))
        topics[f"t{number}"] = TopicCreated(
            f"t{number}",
            UUID(int=number),
            tuple(
                kind._replace(partition=index, leader_epoch=kind.leader_epoch + later, partition_epoch=later)
                for index, (kind, later) in enumerate(chosen)
            ),
        )
    rules = {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}
    other_rules = ConfigsChanged(ConfigResource(ResourceType.TOPIC, "t2"), rules)
    return MetadataImage().apply([*changes, *topics.values(), other_rules], 500)


@given(images(), st.sampled_from([ELR, NO_ELR]))
@pytest.mark.parametrize("decide", [pytest.param(each, id=name) for name, each in DECISIONS.items()])
def test_a_decision_about_many_partitions_is_that_about_each(
    decide: _Decide, before: MetadataImage, settings: BrokerConfig
) -> None:
    """A broker without replicas whose log failed keeps partitions from being taken for alike, and changes nothing."""
    apart = before.apply([BrokerChanged(broker(9)._replace(failed=("x",)))], 501)

    assert decide(before, settings) == decide(apart, settings)


def test_a_step_is_taken_once_for_partitions_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: the loss of a broker with ten thousand partitions held the controller's loop for a third of a second."""
    count = 0
    usual = standing.next_state

    def counted(*args: object, **options: object) -> PartitionRecord:
        nonlocal count
        count += 1
        state: PartitionRecord = usual(*args, **options)  # type: ignore[arg-type]
        return state

    monkeypatch.setattr(standing, "next_state", counted)
    before = image(*(partition(partition=each, leader=1 + each % 3, leader_epoch=each) for each in range(3_000)))
    (changed,) = partitions_without(before, BrokerId(1), ELR)

    assert count == 3
    assert [each.leader_epoch - each.partition for each in changed.partitions[:6]] == [1, 0, 0, 1, 0, 0]
    assert {each.leader for each in changed.partitions} == {2, 3}


def test_partitions_with_a_failed_log_are_not_alike() -> None:
    """The one that failed gets another leader, and the others keep theirs."""
    before = image(*(partition(partition=each) for each in range(4)))
    topic_id = before.topics["t"].topic_id
    failed = (directory_id(topic_id, 2).hex,)
    marked = before.apply([BrokerChanged(before.brokers[BrokerId(1)]._replace(failed=failed))], before.version + 1)
    (changed,) = partitions_failing(marked, BrokerId(1), failed, ELR)

    assert [(each.partition, each.leader) for each in changed.partitions] == [(2, 2)]
