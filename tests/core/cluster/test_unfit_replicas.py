"""Replicas whose disk refuses writes, or whose log is damaged and still served: others lead, as long as others can."""

import pytest

from syncline.core.cluster.alter_partition import IsrRequest, alter_partition
from syncline.core.cluster.elections import ElectionKind
from syncline.core.cluster.leader_elections import elect_leaders
from syncline.core.cluster.standing import preferred_elections
from syncline.core.cluster.topics import NewTopic, create_topics
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId
from syncline.model.impairments import Fitness, Refusal, damaged_id, refusal_id, report_of
from syncline.model.metadata import Recovery, directory_id
from syncline.model.metadata_json import decode_changes, encode_changes
from syncline.model.reasons import Reason
from tests.core.controller_world import ELR, TOPIC_ID, World, image, partition

FULL = (Refusal.NO_ROOM.value,)
T0 = directory_id(TOPIC_ID, 0)
TWO_IN_SYNC = {"min.insync.replicas": "2"}


def propose(world: World, leader: int, *isr: int) -> ErrorCode:
    """Let a leader propose an ISR of t-0; return the controller's answer."""
    record = world.t0
    request = IsrRequest(
        TOPIC_ID, 0, record.leader_epoch, record.partition_epoch, tuple((BrokerId(each), -1) for each in isr)
    )
    epoch = world.image.brokers[BrokerId(leader)].broker_epoch
    answer = world.take(alter_partition(world.image, BrokerId(leader), epoch, [request], world.settings))
    return ErrorCode(answer.results[0].error)


def test_leader_with_a_full_disk_hands_every_partition_over() -> None:
    """Guards: a full broker kept its leaderships although two members of the ISR could lead."""
    world = World(image(partition(), partition(partition=1, leader=2)))

    world.heartbeat(1, impaired=FULL)

    t0, t1 = world.image.topics["t"].partitions
    assert (t0.leader, t0.isr, t0.elr, t0.leader_epoch) == (2, (2, 3), (), 6)
    assert (t1.leader, t1.isr, t1.leader_epoch) == (2, (2, 3), 5)
    assert world.image.brokers[1].active


def test_full_follower_holds_no_acknowledgement() -> None:
    """It leaves the ISR at once, not when it has lagged for long enough; below the minimum it stays eligible."""
    world = World(image(partition(isr=(1, 3)), configs=TWO_IN_SYNC))

    world.heartbeat(3, impaired=FULL)

    assert (world.t0.leader, world.t0.isr, world.t0.elr) == (1, (1,), (3,))


def test_same_report_again_changes_nothing() -> None:
    """A disk that is full for a day costs one decision."""
    world = World(image())
    world.heartbeat(1, impaired=FULL)
    version = world.image.version

    world.heartbeat(1, impaired=FULL)

    assert world.image.version == version


def test_leadership_stays_where_no_member_can_write() -> None:
    """Guards: three full disks would pass the leadership round and round."""
    world = World(image(configs=TWO_IN_SYNC))
    for broker_id in (1, 2, 3):
        world.heartbeat(broker_id, impaired=FULL)
    epoch = world.t0.leader_epoch

    for broker_id in (1, 2, 3):
        world.heartbeat(broker_id, impaired=FULL)

    # One election per broker that could not go on while another one could.
    assert (world.t0.leader, world.t0.isr, world.t0.elr) == (3, (3,), (2,))
    assert world.t0.leader_epoch == epoch == 7


def test_first_broker_with_room_leads_as_soon_as_it_is_in_sync() -> None:
    """All disks are full, 1 gets room: the full leader proposes it, and hands over with its next heartbeat."""
    world = World(image(configs=TWO_IN_SYNC))
    for broker_id in (1, 2, 3):
        world.heartbeat(broker_id, impaired=FULL)

    world.heartbeat(1)
    before = world.t0
    answer = propose(world, 3, 3, 1)
    joined = world.t0
    world.heartbeat(3, impaired=FULL)

    assert (before.leader, answer) == (3, ErrorCode.NONE)
    assert (joined.leader, joined.isr) == (3, (3, 1))
    assert (world.t0.leader, world.t0.isr, world.t0.elr) == (1, (1,), (3,))


def test_member_that_gets_room_takes_over_from_an_unfit_leader() -> None:
    """The ISR is full throughout, so no other change would give cause for an election."""
    world = World(image(partition(isr=(1, 2))))
    world.heartbeat(2, impaired=FULL)
    world.heartbeat(1, impaired=FULL)
    assert world.t0.leader == 1

    answer = propose(world, 1, 1, 2)
    world.heartbeat(2)
    again = propose(world, 1, 1, 2)
    world.heartbeat(1, impaired=FULL)

    assert (answer, again) == (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NONE)
    assert (world.t0.leader, world.t0.isr) == (2, (2,))


def test_full_broker_joins_no_isr() -> None:
    """Guards: on an idle partition it has everything, and would join and leave for ever."""
    world = World(image(partition(isr=(1, 2))))
    world.heartbeat(3, impaired=FULL)
    version = world.image.version

    assert propose(world, 1, 1, 2, 3) is ErrorCode.INELIGIBLE_REPLICA
    assert world.image.version == version


def test_full_broker_is_not_preferred() -> None:
    """Neither the balancer nor an administrator gives it a leadership back while it cannot write."""
    world = World(image())
    world.heartbeat(1, impaired=FULL)

    asked = elect_leaders(world.image, ELR, ElectionKind.PREFERRED, [("t", (0,))])

    assert preferred_elections(world.image, ELR) == ()
    assert [each.error for each in asked.answer] == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]


def test_full_member_leads_when_no_other_member_is_left() -> None:
    """It has everything that is committed, and can serve readers: that is better than no leader."""
    world = World(image(configs=TWO_IN_SYNC))
    world.heartbeat(2, impaired=FULL)
    world.fence(1)
    without_one = world.t0
    world.heartbeat(3, impaired=FULL)
    world.fence(3)

    assert (without_one.leader, without_one.isr, without_one.elr) == (3, (3,), (1,))
    assert world.t0.leader == -1
    # Only 1 and 3 may have what was committed meanwhile: 2 had left an ISR that was large enough.
    assert world.t0.elr == (1, 3)


def test_unclean_election_prefers_a_disk_that_accepts_writes() -> None:
    """Where any replica may lead, one that can write is better than an earlier one that cannot."""
    world = World(image(partition(isr=(1,)), configs={"unclean.leader.election.enable": "true"}))
    world.heartbeat(2, impaired=FULL)

    world.fence(1)

    assert (world.t0.leader, world.t0.recovery) == (3, Recovery.RECOVERING)


def test_new_partitions_are_led_by_a_broker_that_can_write() -> None:
    """A full broker reports nothing new when its first record is refused, so it must not lead from the start."""
    world = World(image())
    world.heartbeat(1, impaired=FULL)
    world.heartbeat(3, impaired=FULL)

    world.take(
        create_topics(
            world.image,
            [NewTopic("u", assignments=((0, (BrokerId(1), BrokerId(2))), (1, (BrokerId(1), BrokerId(3)))))],
            ELR,
            below=lambda _bound: 0,
            new_topic_id=lambda: directory_id(TOPIC_ID, 77),
        )
    )

    u0, u1 = world.image.topics["u"].partitions
    assert (u0.leader, u0.isr, u1.leader, u1.isr) == (2, (2,), 1, (1, 3))


def test_damaged_leader_hands_over_and_is_not_eligible() -> None:
    """Guards: a leader damaged in the middle went on leading. Unlike a full one, it lacks what it acknowledged."""
    world = World(image(partition(isr=(1, 2)), partition(partition=1, isr=(1, 2)), configs=TWO_IN_SYNC))

    world.heartbeat(1, impaired=(T0.hex,))

    t0, t1 = world.image.topics["t"].partitions
    assert (t0.leader, t0.isr, t0.elr) == (2, (2,), ())
    assert t1 == partition(partition=1, isr=(1, 2))


def test_damaged_sole_copy_goes_on_leading() -> None:
    """Nobody else has the records: giving it up would lose the sound ones, too."""
    world = World(image(partition(isr=(1,))))

    world.heartbeat(1, impaired=(T0.hex,))

    assert world.t0 == partition(isr=(1,))


def test_damaged_replica_is_no_longer_eligible_once_a_member_is_in_sync() -> None:
    """It was eligible, as it had everything; then its damage is found."""
    world = World(image(partition(leader=2, isr=(2,), elr=(1,)), configs=TWO_IN_SYNC))

    world.heartbeat(1, impaired=(T0.hex,))

    assert (world.t0.leader, world.t0.isr, world.t0.elr) == (2, (2,), ())


@pytest.mark.parametrize(
    ("impaired", "reason"),
    [
        (FULL, Reason.DISK_FULL),
        ((Refusal.NO_DESCRIPTORS.value,), Reason.NO_DESCRIPTORS),
        ((T0.hex,), Reason.LOGS_DAMAGED),
    ],
    ids=["full", "descriptors", "damaged"],
)
def test_decision_names_what_impairs_the_replica(impaired: tuple[str, ...], reason: Reason) -> None:
    """Guards: `why` called a full disk unknown."""
    world = World(image())
    decisions = []
    take = world.take
    world.take = lambda decision: decisions.append(decision) or take(decision)  # type: ignore[method-assign]

    world.heartbeat(1, impaired=impaired)
    world.heartbeat(1)

    assert decisions[0].why.reason is reason
    assert decisions[1].why.reason in {Reason.DISK_WRITABLE, Reason.LOGS_HEALED}


def test_heartbeat_ids_say_what_is_failed_and_what_is_impaired() -> None:
    """One list of ids on the wire carries all three kinds."""
    failed = directory_id(TOPIC_ID, 3)

    report = report_of([failed, damaged_id(T0), refusal_id(Refusal.NO_ROOM)])

    assert report == ((failed.hex,), (T0.hex, "no-room"))


def test_impairments_survive_the_store() -> None:
    """A new controller knows which brokers cannot write."""
    world = World(image())
    world.heartbeat(1, impaired=(T0.hex, *FULL))
    changes = world.image.as_changes()

    stored = decode_changes(encode_changes(changes))

    assert stored == changes
    assert world.image.fitness(BrokerId(1), TOPIC_ID, 0) is Fitness.DAMAGED
    assert world.image.fitness(BrokerId(1), TOPIC_ID, 1) is Fitness.CANNOT_WRITE
    assert world.image.fitness(BrokerId(2), TOPIC_ID, 0) is Fitness.ABLE
