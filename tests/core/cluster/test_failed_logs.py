"""Replicas whose log failed: they lead nothing, are in no ISR, and do not delay the others."""

from uuid import UUID

import pytest

from syncline.model.metadata import PartitionRecord, Recovery, directory_id
from tests.core.controller_world import NO_ELR, TOPIC_ID, World, image, partition

T0 = directory_id(TOPIC_ID, 0).hex
T1 = directory_id(TOPIC_ID, 1).hex


def test_failed_log_of_a_leader_moves_leadership_of_that_partition_only() -> None:
    """Broker 1 leads t-0 and t-1 and loses the log of t-0: 2 leads t-0, broker 1 still leads t-1."""
    world = World(image(partition(), partition(partition=1)))

    world.heartbeat(1, failed=(T0,))

    t0, t1 = world.image.topics["t"].partitions
    assert (t0.leader, t0.isr, t0.leader_epoch, t0.partition_epoch) == (2, (2, 3), 6, 21)
    assert t1 == partition(partition=1)
    assert world.image.brokers[1].active


def test_failed_log_of_a_follower_leaves_the_isr() -> None:
    """The leader stays, the partition epoch alone rises."""
    world = World(image())

    world.heartbeat(3, failed=(T0,))

    assert world.t0 == partition(isr=(1, 2), partition_epoch=21)


def test_same_report_again_changes_nothing() -> None:
    """Every heartbeat carries the list; only changes count."""
    world = World(image())
    world.heartbeat(3, failed=(T0,))
    version = world.image.version

    world.heartbeat(3, failed=(T0,))

    assert world.image.version == version


def test_failed_replica_is_not_elected() -> None:
    """2 has lost its log and is in no ISR or ELR: when 1 is fenced, 3 leads; when 3 is, no broker does."""
    world = World(image(partition(isr=(1, 2, 3))))
    world.heartbeat(2, failed=(T0,))

    world.fence(1)
    first = world.t0
    world.fence(3)

    assert (first.leader, first.isr) == (3, (3,))
    assert (world.t0.leader, world.t0.isr, world.t0.elr) == (-1, (), (3,))


def test_failed_replica_is_not_elected_uncleanly() -> None:
    """Even where unclean leaders are allowed, a replica that cannot serve does not lead."""
    world = World(image(partition(isr=(1,)), configs={"unclean.leader.election.enable": "true"}))
    world.heartbeat(2, failed=(T0,))

    world.fence(1)

    assert (world.t0.leader, world.t0.recovery) == (3, Recovery.RECOVERING)


def test_last_member_that_lost_its_log_is_remembered_and_leads_when_it_is_whole_again() -> None:
    """The only member fails: no broker leads. A good copy is put back and the broker restarted: it leads."""
    world = World(image(partition(isr=(1,))))

    world.heartbeat(1, failed=(T0,))
    offline = world.t0
    world.register(1, "again", clean=False)
    world.heartbeat(1)

    assert (offline.leader, offline.isr, offline.elr, offline.last_known_elr) == (-1, (), (), (1,))
    assert (world.t0.leader, world.t0.isr, world.t0.recovery) == (1, (1,), Recovery.RECOVERING)


def test_last_member_without_elr_is_kept_in_the_isr() -> None:
    """Without ELR the ISR remembers which replica had the records; once it can serve again, it leads cleanly."""
    world = World(image(partition(isr=(1,))), NO_ELR)

    world.heartbeat(1, failed=(T0,))
    offline = world.t0
    world.heartbeat(1)

    assert (offline.leader, offline.isr) == (-1, (1,))
    assert (world.t0.leader, world.t0.isr, world.t0.recovery) == (1, (1,), Recovery.RECOVERED)


def test_failure_is_known_before_the_broker_is_unfenced() -> None:
    """A broker restarts with a damaged log; the heartbeat that unfences it says so, and it is not elected."""
    world = World(image(partition(leader=-1, isr=(), elr=(2,)), active=(1, 3), fenced=(2,)))
    world.register(2, "again", clean=True)

    world.heartbeat(2, failed=(T0,))

    assert world.image.brokers[2].active
    assert (world.t0.leader, world.t0.elr) == (-1, ())


def test_registration_forgets_what_had_failed() -> None:
    """A new process has checked its logs again; the same one registering again has not."""
    world = World(image())
    world.heartbeat(3, failed=(T0,))

    world.register(3, "process-3")
    same = world.image.brokers[3].failed
    world.register(3, "again")

    assert (same, world.image.brokers[3].failed) == ((T0,), ())


def test_healed_replica_does_not_reenter_the_isr_by_itself() -> None:
    """It was fetched anew: it may be elected again, after its leader has proposed it."""
    world = World(image())
    world.heartbeat(3, failed=(T0,))

    world.heartbeat(3)

    assert world.image.brokers[3].failed == ()
    assert world.t0.isr == (1, 2)


@pytest.mark.parametrize("number", [0, 1, 9_999])
def test_directory_ids_differ_by_topic_and_partition(number: int) -> None:
    """The id is made of both; the low half of a topic's id does not matter to its own partitions."""
    assert directory_id(TOPIC_ID, number) != directory_id(TOPIC_ID, number + 1)
    assert directory_id(UUID(int=1 << 100), number) != directory_id(UUID(int=1 << 101), number)


def test_partitions_of_others_are_left_alone() -> None:
    """A report about a partition that the broker does not replicate changes no partition."""
    elsewhere = PartitionRecord(1, 1, 5, 20, (1, 2), (1, 2))
    world = World(image(partition(), elsewhere))

    world.heartbeat(3, failed=(T1,))

    assert world.image.topics["t"].partitions == (partition(), elsewhere)
