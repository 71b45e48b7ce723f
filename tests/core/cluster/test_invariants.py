"""Invariants of the metadata: each kind of wrong state or wrong change trips an assertion that names it."""

from typing import Any
from uuid import UUID

import pytest

from syncline.core.cluster.broker_sessions import BrokerSessions
from syncline.core.cluster.decision import Decision, Why
from syncline.core.cluster.invariants import check_decision, check_image, check_partition
from syncline.model.metadata import (
    BrokerChanged,
    BrokerRecord,
    Change,
    ClusterCreated,
    ControllerChanged,
    MetadataImage,
    PartitionsChanged,
    ProducerIdsAllocated,
    Recovery,
    TopicCreated,
)
from syncline.model.reasons import Reason
from tests.core.controller_world import TOPIC_ID, broker, image, partition

WHY = Why(Reason.CONFIGS_ALTERED)


def decide(before: MetadataImage, *changes: Change) -> None:
    """Check a decision as it is checked after every one."""
    check_decision(before, changes, before.apply(changes, before.version + 1), WHY)


def moved(**changes: Any) -> PartitionsChanged:
    """Return the next state of t-0: one partition epoch later, and as given."""
    return PartitionsChanged(TOPIC_ID, (partition(**{"partition_epoch": 21, **changes}),))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        pytest.param({"leader": -1, "replicas": (), "isr": ()}, "no replicas", id="no-replicas"),
        pytest.param({"isr": (1, 1, 2)}, "in the ISR twice", id="member-twice"),
        pytest.param({"last_known_elr": (1,)}, "the last one is remembered", id="leader-and-last-leader"),
        pytest.param({"leader": -1, "last_known_elr": (1, 2)}, "more than one last leader", id="two-last-leaders"),
        pytest.param({"adding": (4,)}, "reassignment of other replicas", id="foreign-reassignment"),
        pytest.param({"adding": (3,)}, "other replicas before", id="nothing-before"),
        pytest.param({"adding": (3,), "original": (1,)}, "other replicas before", id="less-before"),
        pytest.param({"original": (1, 2, 3)}, "other replicas before", id="before-of-nothing"),
        pytest.param({"move": "m"}, "owns what is not reassigned", id="move-of-nothing"),
        pytest.param({"removing": (1,), "original": (1, 2, 3)}, "stand before others", id="removed-first"),
        pytest.param({"removing": (1, 2, 3), "original": (1, 2, 3)}, "removes every replica", id="nothing-left"),
        pytest.param({"adding": (3,), "removing": (3,), "original": (1, 2)}, "both added and removed", id="both"),
    ],
)
def test_partition_whose_sets_contradict_each_other_is_caught(changes: dict[str, Any], complaint: str) -> None:
    """Beside what a record checks itself: last leaders, reassignments, members that are named twice."""
    with pytest.raises(AssertionError) as caught:
        check_partition(partition(**changes))

    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("start", "complaint"),
    [
        pytest.param(
            image().apply([BrokerChanged(broker(2, fenced=True, shutting_down=True))], 201), "still leaving", id="both"
        ),
        pytest.param(
            image().apply([BrokerChanged(broker(2, broker_epoch=900))], 201), "epoch 900 lies ahead", id="epoch"
        ),
    ],
)
def test_image_that_contradicts_itself_is_caught(start: MetadataImage, complaint: str) -> None:
    """Brokers, topics and leaders fit together."""
    with pytest.raises(AssertionError) as caught:
        check_image(start)

    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(broker(1, fenced=True), id="fenced"),
        pytest.param(broker(1, shutting_down=True), id="leaving"),
        pytest.param(broker(1, fenced=True, incarnation_id="next", broker_epoch=201), id="registered-anew"),
    ],
)
def test_broker_that_leads_although_it_is_not_active_is_caught(record: BrokerRecord) -> None:
    """Only with quick.bounce.enable a new process, still fenced, continues to lead what the old one led."""
    before = image()
    changes = (BrokerChanged(record),)
    after = before.apply(changes, 201)

    with pytest.raises(AssertionError, match="is not active, and leads"):
        check_decision(before, changes, after, WHY)

    check_decision(before, changes, after, Why(Reason.BOUNCED))
    again = BrokerChanged(record._replace(host="moved"))
    check_decision(after, (again,), after.apply((again,), 202), Why(Reason.REGISTERED_AGAIN))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(moved(partition_epoch=22), "partition epoch does not rise by one", id="partition-epoch"),
        pytest.param(moved(leader_epoch=6), "leader epoch does not follow", id="leader-epoch-alone"),
        pytest.param(moved(leader=2), "two leaders have one epoch", id="leader-alone"),
        pytest.param(
            moved(leader=-1, leader_epoch=6, isr=(), replicas=(1, 2, 3, 4), elr=(4,)), "ELR gains", id="eligible"
        ),
        pytest.param(moved(replicas=(1, 2, 3, 4), isr=(1, 2, 3, 4)), "is not active", id="joins-inactive"),
        pytest.param(
            moved(leader=4, leader_epoch=6, replicas=(1, 2, 3, 4), isr=(4,)),
            "broker 4 may not lead",
            id="elected-inactive",
        ),
        pytest.param(TopicCreated("t", UUID(int=9), (partition(),)), "topic t exists", id="created-twice"),
        pytest.param(TopicCreated("u", TOPIC_ID, (partition(),)), "is the id of t", id="id-twice"),
        pytest.param(TopicCreated("u", UUID(int=9), ()), "has no partitions", id="empty-topic"),
        pytest.param(ProducerIdsAllocated(0), "given out twice", id="producer-ids"),
        pytest.param(ControllerChanged(2, 0), "takes over with epoch 0", id="controller-epoch"),
        pytest.param(BrokerChanged(broker(2, broker_epoch=50)), "epoch 50 follows 102", id="broker-epoch"),
        pytest.param(BrokerChanged(broker(4)), "serves before it has seen its registration", id="unfenced-at-once"),
        pytest.param(
            BrokerChanged(broker(2, incarnation_id="other")), "share epoch 102", id="two-processes-of-one-epoch"
        ),
    ],
)
def test_change_that_no_rule_makes_is_caught(change: Change, complaint: str) -> None:
    """Epochs rise, nothing is created twice, and only active brokers join an ISR."""
    with pytest.raises(AssertionError) as caught:
        decide(image(), change)

    assert complaint in str(caught.value)


def test_unclean_election_that_passes_for_a_clean_one_is_caught() -> None:
    """Broker 3 left the ISR and the ELR long ago, and may lack committed records."""
    before = image(partition(isr=(1, 2)))
    elected = moved(leader=3, leader_epoch=6, isr=(3,))

    with pytest.raises(AssertionError, match="passes for a clean one"):
        decide(before, elected)

    decide(before, moved(leader=3, leader_epoch=6, isr=(3,), recovery=Recovery.RECOVERING))


def test_cluster_id_never_changes() -> None:
    """Brokers refuse to join a cluster with another id."""
    with pytest.raises(AssertionError, match="would become b"):
        decide(image().apply([ClusterCreated("a")], 201), ClusterCreated("b"))


def test_changes_need_a_reason() -> None:
    """A decision that no event could explain is a bug."""
    with pytest.raises(AssertionError, match="no reason for"):
        Decision((ClusterCreated("a"),), None)


def test_session_from_the_future_is_caught() -> None:
    """A contact later than the clock would keep a dead broker unfenced."""
    sessions = BrokerSessions(9_000)
    sessions.begin(2, 102, 5_000)

    with pytest.raises(AssertionError, match="broker 2 made contact 1000 ms from now"):
        sessions.check_invariants(4_000)
