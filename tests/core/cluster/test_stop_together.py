"""All brokers stop together: the in-sync sets survive, and any member may lead first."""

import itertools

import pytest

from syncline.core.cluster.broker_lifecycle import stop_together
from syncline.core.cluster.standing import rest_ends
from syncline.model.broker_config import BrokerConfig
from syncline.model.metadata import Recovery, directory_id
from tests.core.controller_world import ELR, NO_ELR, TOPIC_ID, World, image, partition

BOTH = pytest.mark.parametrize("settings", [ELR, NO_ELR], ids=["elr", "no elr"])
ORDERS = list(itertools.permutations((1, 2, 3)))


def stopped(settings: BrokerConfig = ELR, **changes: object) -> World:
    """Return a world in which brokers 1, 2, 3 have stopped together; t-0 is S0's, changed."""
    world = World(image(partition(**changes)), settings)
    world.take(stop_together(world.image))
    return world


def back(world: World, broker_id: int, *, clean: bool = True, failed: tuple[str, ...] = ()) -> None:
    """Start a broker again."""
    world.register(broker_id, "again", clean=clean)
    world.heartbeat(broker_id, failed=failed)


@BOTH
def test_no_broker_leads_and_the_isr_stays(settings: BrokerConfig) -> None:
    """All are fenced; the epochs rise by one."""
    world = stopped(settings)

    assert all(record.fenced for record in world.image.brokers.values())
    assert (world.t0.leader, world.t0.isr, world.t0.elr) == (-1, (1, 2, 3), ())
    assert (world.t0.leader_epoch, world.t0.partition_epoch) == (6, 21)


@BOTH
@pytest.mark.parametrize("order", ORDERS)
def test_broker_that_is_back_first_leads_and_the_others_join_by_fetching(
    settings: BrokerConfig, order: tuple[int, ...]
) -> None:
    """Every member can lead at once, not only the last to stop; members that are not back yet leave the ISR."""
    world = stopped(settings)

    back(world, order[0])
    first = world.t0
    for each in order[1:]:
        back(world, each)

    assert (first.leader, first.isr, first.recovery) == (order[0], (order[0],), Recovery.RECOVERED)
    assert world.t0 == first


def test_members_that_are_not_back_stay_eligible_below_the_minimum() -> None:
    """Min ISR 2: the first one cannot commit alone, so the two others still have everything."""
    world = World(image(configs={"min.insync.replicas": "2"}))
    world.take(stop_together(world.image))

    back(world, 2)

    assert (world.t0.leader, world.t0.isr, world.t0.elr) == (2, (2,), (1, 3))


@BOTH
def test_member_outside_the_isr_does_not_lead(settings: BrokerConfig) -> None:
    """3 was behind when all stopped: it waits for a member."""
    world = stopped(settings, isr=(1, 2))

    back(world, 3)
    alone = world.t0
    back(world, 2)

    assert (alone.leader, alone.isr) == (-1, (1, 2))
    assert (world.t0.leader, world.t0.isr) == (2, (2,))


@BOTH
def test_member_without_proof_of_a_clean_stop_leaves_the_isr(settings: BrokerConfig) -> None:
    """1 comes back and may have lost records: it does not lead, 2 does."""
    world = stopped(settings)

    back(world, 1, clean=False)
    without_proof = world.t0
    back(world, 2)

    assert (without_proof.leader, without_proof.isr) == (-1, (2, 3))
    assert (world.t0.leader, world.t0.isr) == (2, (2,))


def test_damaged_log_of_one_member_costs_nothing() -> None:
    """3 stopped last and its log is gone; 1 and 2 have healthy copies, and lead."""
    world = stopped(leader=3)

    back(world, 3, clean=False, failed=(directory_id(TOPIC_ID, 0).hex,))
    alone = world.t0
    back(world, 1)

    assert (alone.leader, alone.isr) == (-1, (1, 2))
    assert (world.t0.leader, world.t0.isr, world.t0.recovery) == (1, (1,), Recovery.RECOVERED)


def test_all_members_lost_data_and_the_last_leader_is_the_best_guess() -> None:
    """No broker has proof: ISR and ELR are empty, and the partition waits for its last leader."""
    world = stopped(leader=2)

    for each in (1, 2, 3):
        world.register(each, "again", clean=False)
    offline = world.t0
    world.heartbeat(1)
    waiting = world.t0
    world.heartbeat(2)

    assert (offline.leader, offline.isr, offline.elr, offline.last_known_elr) == (-1, (), (), (2,))
    assert waiting.leader == -1
    assert (world.t0.leader, world.t0.recovery) == (2, Recovery.RECOVERING)


def test_broker_that_starts_twice_keeps_its_place() -> None:
    """It was killed again before it served; its directory proves the second registration like the first."""
    world = stopped()

    world.register(1, "again", clean=True)
    world.register(1, "once more", clean=True)
    world.heartbeat(1)

    assert (world.t0.leader, world.t0.isr) == (1, (1,))


def test_brokers_that_were_fenced_before_do_not_count() -> None:
    """3 was fenced before: the two that serve stop together."""
    world = World(image(partition(isr=(1, 2)), active=(1, 2), fenced=(3,)))

    decision = stop_together(world.image)
    world.take(decision)

    assert len(decision.changes) == 3
    assert (world.t0.leader, world.t0.isr) == (-1, (1, 2))


def test_stopping_twice_changes_nothing() -> None:
    """All partitions are already at rest."""
    assert stop_together(stopped().image).changes == ()


@BOTH
def test_partition_waits_for_its_last_leader_while_the_cluster_starts(settings: BrokerConfig) -> None:
    """1 and 3 are back before 2, which led: it leads again, and both are in sync from the first moment."""
    world = stopped(settings, leader=2)
    world.is_starting = True

    back(world, 1)
    back(world, 3)
    waiting = world.t0
    back(world, 2)

    assert (waiting.leader, waiting.isr) == (-1, (1, 2, 3))
    assert (world.t0.leader, world.t0.isr, world.t0.elr, world.t0.last_known_elr) == (2, (1, 2, 3), (), ())


@BOTH
@pytest.mark.parametrize("order", ORDERS)
def test_nobody_leaves_the_isr_of_a_cluster_that_comes_back_whole(
    settings: BrokerConfig, order: tuple[int, ...]
) -> None:
    """Guards: who came a moment after the last leader was out of the ISR until it had fetched, and was journalled."""
    world = stopped(settings, leader=2)
    world.is_starting = True

    for each in order[:2]:
        back(world, each)
    waiting = world.t0
    back(world, order[2])

    assert (waiting.leader, waiting.isr) == (-1, (1, 2, 3))
    assert (world.t0.leader, world.t0.isr, world.t0.partition_epoch) == (2, (1, 2, 3), waiting.partition_epoch + 1)


@BOTH
def test_last_leader_leads_without_a_member_that_does_not_come_back(settings: BrokerConfig) -> None:
    """1 stays away: when the time is over, 3 leads again, with those that are back."""
    world = stopped(settings, leader=3)
    world.is_starting = True
    back(world, 2)
    back(world, 3)

    world.image = world.image.apply(rest_ends(world.image, settings), world.image.version + 1)

    assert (world.t0.leader, world.t0.isr) == (3, (2, 3))


@BOTH
def test_another_member_leads_when_the_last_leader_does_not_come_back(settings: BrokerConfig) -> None:
    """2 stays away: when the time is over, the first member that is back leads."""
    world = stopped(settings, leader=2)
    world.is_starting = True
    back(world, 3)
    back(world, 1)

    world.image = world.image.apply(rest_ends(world.image, settings), world.image.version + 1)

    assert (world.t0.leader, world.t0.isr) == (1, (1, 3))


@BOTH
def test_another_member_leads_at_once_when_the_last_leader_lost_data(settings: BrokerConfig) -> None:
    """2 comes back without proof, or without its log: 1, which waited for it, leads."""
    without_proof, without_log = stopped(settings, leader=2), stopped(settings, leader=2)
    for world in (without_proof, without_log):
        world.is_starting = True
        back(world, 1)

    back(without_proof, 2, clean=False)
    back(without_log, 2, failed=(directory_id(TOPIC_ID, 0).hex,))

    assert without_proof.t0.leader == without_log.t0.leader == 1
    assert 2 not in (*without_proof.t0.isr, *without_log.t0.isr)


def test_partitions_that_are_not_at_rest_do_not_wait() -> None:
    """A partition that lost its leader in an accident gets one as soon as possible."""
    world = World(image(partition(leader=-1, isr=(), elr=(1,), last_known_elr=(2,)), active=(3,), fenced=(1, 2)))
    world.is_starting = True

    world.register(1, "again", clean=True)
    world.heartbeat(1)

    assert world.t0.leader == 1


def test_eligible_replica_leads_when_no_member_of_the_isr_comes_back() -> None:
    """1 was alone in sync, below the minimum; 2 and 3 have everything that is committed, and need not wait for it."""
    world = World(image(partition(isr=(1,), elr=(2, 3)), configs={"min.insync.replicas": "2"}))
    world.take(stop_together(world.image))
    world.is_starting = True

    back(world, 3)
    waiting = world.t0
    world.image = world.image.apply(rest_ends(world.image, ELR), world.image.version + 1)
    in_time = world.t0
    back(world, 1)

    assert (waiting.leader, waiting.isr, waiting.elr) == (-1, (1,), (2, 3))
    assert (in_time.leader, in_time.isr, in_time.elr, in_time.recovery) == (3, (3,), (1, 2), Recovery.RECOVERED)
    assert world.t0 == in_time


def test_eligible_replica_leads_when_it_comes_back_later() -> None:
    """The start is long over: 2 leads as soon as it is back, and 1 stays eligible."""
    world = World(image(partition(isr=(1,), elr=(2, 3)), configs={"min.insync.replicas": "2"}))
    world.take(stop_together(world.image))

    back(world, 2)

    assert (world.t0.leader, world.t0.isr, world.t0.elr) == (2, (2,), (1, 3))


def test_no_broker_leads_when_only_strangers_to_the_isr_come_back() -> None:
    """2 was neither in sync nor eligible."""
    world = World(image(partition(isr=(1,), elr=(3,)), configs={"min.insync.replicas": "2"}))
    world.take(stop_together(world.image))

    back(world, 2)

    assert (world.t0.leader, world.t0.isr, world.t0.elr) == (-1, (1,), (3,))
