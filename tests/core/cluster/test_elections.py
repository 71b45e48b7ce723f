"""Elections and eligible replicas: the table of Kafka's PartitionChangeBuilder, and KIP-966's worked examples."""

from typing import Any

import pytest

from syncline.core.cluster.demotions import Demotions, RelinquishLimits
from syncline.core.cluster.elections import Assignment, ElectionKind, next_state
from syncline.core.cluster.standing import partitions_with, preferred_elections, unclean_elections
from syncline.model.metadata import PartitionRecord, Recovery
from tests.core.controller_world import ELR, NO_ELR, TOPIC_ID, World, image, partition

TABLE = PartitionRecord(0, 1, 100, 200, (2, 1, 3), (2, 1, 3))


def elect(record: PartitionRecord, *, acceptable: set[int], **change: Any) -> PartitionRecord:
    """Return the next state without ELR, unless the change says otherwise."""
    values: dict[str, Any] = {"min_isr": 1, "eligible_replicas": False, **change}
    return next_state(record, acceptable=acceptable.__contains__, **values)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"kind": ElectionKind.PREFERRED}, {"leader": 2, "leader_epoch": 101}, id="preferred"),
        pytest.param(
            {"isr": (2, 3)}, {"leader": 2, "leader_epoch": 101, "isr": (2, 3)}, id="leader is not in the target ISR"
        ),
        pytest.param({"isr": (2, 1)}, {"isr": (2, 1)}, id="leader stays"),
        pytest.param(
            {"isr": (3,), "kind": ElectionKind.UNCLEAN},
            {"leader": 2, "leader_epoch": 101, "isr": (2,), "recovery": Recovery.RECOVERING},
            id="unclean",
        ),
        pytest.param({"isr": (3,)}, {"leader": -1, "leader_epoch": 101, "isr": (3,)}, id="no leader"),
    ],
)
def test_f07_election_table_where_broker_3_is_not_acceptable(change: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each row of the builder's table gives the leader, the ISR and the epochs that Kafka's does."""
    state = elect(TABLE, acceptable={1, 2}, **change)

    assert state == TABLE._replace(partition_epoch=201, **expected)


def test_f07_losing_a_replica_restates_the_leader() -> None:
    """When the assignment loses a member the leader epoch rises, though the leader is the same."""
    state = elect(TABLE, acceptable={1, 2}, assignment=Assignment((2, 1, 4)))

    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 101, 201)


def test_f07_reassignment_completes_when_all_targets_are_in_sync() -> None:
    """The change that brings the last target into the ISR drops what is to be removed, and moves the leader."""
    record = PartitionRecord(0, 1, 100, 200, (1, 2, 3, 4), (1, 2, 3), adding=(4,), removing=(1,))

    state = elect(record, acceptable={1, 2, 3, 4}, isr=(1, 2, 3, 4))

    assert state == PartitionRecord(0, 2, 101, 201, (2, 3, 4), (2, 3, 4))


def test_election_that_changes_nothing_returns_the_same_record() -> None:
    """A no-op is recognised by identity: no epoch moves."""
    assert elect(TABLE, acceptable={1, 2, 3}) is TABLE


def test_f02_fencing_the_leader_moves_leadership() -> None:
    """S0: broker 1 is fenced; 2 leads, both epochs rise."""
    world = World(image())

    world.fence(1)

    assert (world.t0.leader, world.t0.isr) == (2, (2, 3))
    assert (world.t0.leader_epoch, world.t0.partition_epoch) == (6, 21)


def test_f03_last_isr_member_without_elr_is_kept_until_it_returns() -> None:
    """Without ELR the ISR keeps its last member, and the partition comes back with exactly that broker."""
    world = World(image(partition(leader=2, isr=(2,))), NO_ELR)

    world.fence(2)
    offline = world.t0
    world.heartbeat(2)

    assert (offline.leader, offline.isr, offline.leader_epoch) == (-1, (2,), 6)
    assert (world.t0.leader, world.t0.isr, world.t0.leader_epoch) == (2, (2,), 7)


def test_f03_last_isr_member_with_elr_becomes_eligible() -> None:
    """With ELR the ISR is empty meanwhile, the broker is eligible, and remembered as the last leader."""
    world = World(image(partition(leader=2, isr=(2,))))

    world.fence(2)
    offline = world.t0
    world.heartbeat(2)

    assert (offline.leader, offline.isr, offline.elr, offline.last_known_elr) == (-1, (), (2,), (2,))
    assert (world.t0.leader, world.t0.isr, world.t0.elr, world.t0.last_known_elr) == (2, (2,), (), ())


def test_f04_unclean_election_where_it_is_allowed() -> None:
    """2, the whole ISR, is fenced; 3 leads uncleanly and has to confirm."""
    start = image(
        partition(leader=2, isr=(2,)), active=(2, 3), fenced=(1,), configs={"unclean.leader.election.enable": "true"}
    )
    world = World(start, NO_ELR)

    world.fence(2)

    assert (world.t0.leader, world.t0.isr, world.t0.recovery) == (3, (3,), Recovery.RECOVERING)


def test_f05_preferred_leader_gets_leadership_back_once() -> None:
    """The balancer elects AR[0] when it is in sync; a second run finds nothing to do."""
    start = image(partition(leader=2))
    changes = preferred_elections(start, ELR)
    after = start.apply(changes, 201)

    assert after.partition("t", 0) == partition(leader=1, leader_epoch=6, partition_epoch=21)
    assert preferred_elections(after, ELR) == ()


def test_f06_preferred_leader_out_of_the_isr_is_not_elected() -> None:
    """AR[0] is alive but not in sync: the leader stays."""
    assert preferred_elections(image(partition(leader=2, isr=(2, 3))), ELR) == ()


def test_f08_elr_worked_example() -> None:
    """Min ISR 3, four replicas: a replica that leaves while the ISR is still large enough is not eligible."""
    record = PartitionRecord(0, 0, 5, 20, (0, 1, 2, 3), (0, 1, 2, 3))
    world = World(image(record, active=(0, 1, 2, 3), configs={"min.insync.replicas": "3"}))
    for broker_id in (1, 2, 3):
        world.fence(broker_id)
    after_three = world.t0
    world.heartbeat(2)
    world.fence(0)

    assert (after_three.leader, after_three.isr, after_three.elr) == (0, (0,), (2, 3))
    assert (world.t0.leader, world.t0.isr, world.t0.elr) == (2, (2,), (0, 3))


def test_f08_unclean_shutdown_ends_eligibility() -> None:
    """A broker that comes back without proof of a clean stop is in no ELR."""
    record = PartitionRecord(0, 0, 5, 20, (0, 1, 2, 3), (0,), (2, 3))
    world = World(image(record, active=(0,), fenced=(1, 2, 3), configs={"min.insync.replicas": "3"}))

    world.register(3, "again")

    assert (world.t0.leader, world.t0.isr, world.t0.elr) == (0, (0,), (2,))


def test_f08_only_the_last_leader_is_left() -> None:
    """All members of ISR and ELR restarted uncleanly: the last leader is remembered, and leads when it returns."""
    record = PartitionRecord(0, 0, 5, 20, (0, 1, 2, 3), (0,), (2, 3))
    world = World(image(record, active=(0,), fenced=(1, 2, 3), configs={"min.insync.replicas": "3"}))

    world.fence(0)
    for broker_id in (0, 2, 3):
        world.register(broker_id, "again")
    offline = world.t0
    world.heartbeat(2)
    without_the_last = world.t0
    world.heartbeat(0)

    assert (offline.leader, offline.isr, offline.elr, offline.last_known_elr) == (-1, (), (), (0,))
    assert without_the_last.leader == -1
    assert (world.t0.leader, world.t0.isr, world.t0.last_known_elr) == (0, (0,), ())


def test_f09_eligible_replica_leads_cleanly() -> None:
    """ISR is empty, ELR [2,3], 3 is alive: it leads, and 2 stays eligible."""
    record = partition(leader=-1, isr=(), elr=(2, 3), last_known_elr=(1,))
    start = image(record, active=(3,), fenced=(1, 2), configs={"min.insync.replicas": "2"})

    (changed,) = partitions_with(start, 3, ELR)

    state = changed.partitions[0]
    assert (state.leader, state.isr, state.elr, state.recovery) == (3, (3,), (2,), Recovery.RECOVERED)


def test_f10_last_known_leader_must_be_acceptable() -> None:
    """ISR and ELR are empty and the last leader is fenced: no broker leads, though 2 and 3 are alive."""
    record = partition(leader=-1, isr=(), last_known_elr=(1,))
    start = image(record, active=(2, 3), fenced=(1,))

    assert partitions_with(start, 2, ELR) == ()
    assert unclean_elections(start, ELR) == ()


def test_observed_min_isr_2_leader_and_eligible_member_killed() -> None:
    """Seen on Kafka 4.3: 0 (leader) and 1 (eligible) killed; 1 back first does not lead, 0 does when it returns."""
    record = PartitionRecord(0, 0, 5, 20, (0, 1), (0,), (1,))
    world = World(image(record, active=(0,), fenced=(1,), configs={"min.insync.replicas": "2"}))

    world.register(1, "again")
    registered = world.t0
    world.heartbeat(1)
    world.fence(0)
    fenced = world.t0
    world.register(0, "again")
    back = world.t0
    world.heartbeat(0)

    assert (registered.leader, registered.isr, registered.elr) == (0, (0,), ())
    assert (fenced.leader, fenced.isr, fenced.elr, fenced.last_known_elr) == (-1, (), (0,), (0,))
    assert (back.leader, back.elr, back.last_known_elr) == (-1, (), (0,))
    assert (world.t0.leader, world.t0.isr) == (0, (0,))


def test_d22_balancer_spares_a_leader_that_gave_up_until_its_mark_ends() -> None:
    """1 = AR[0] relinquished at 2 750, marked until 602 750: not returned at 300 000, returned at 900 000."""
    start = image(partition(leader=2))
    marks = Demotions()
    marks.relinquished(TOPIC_ID, 0, 1, 101, RelinquishLimits(), 2_750)

    def balanced(now_ms: int) -> int:
        changes = preferred_elections(start, ELR, lambda *of: marks.is_demoted(*of, start, now_ms))
        return changes[0].partitions[0].leader if changes else 2

    assert [balanced(300_000), balanced(602_749), balanced(900_000)] == [2, 2, 1]


def test_eligibility_does_not_outlive_the_time_in_which_it_is_kept_true() -> None:
    """3 was eligible; with ELR off 1 and 2 commit without it, so it must not be eligible when ELR is on again."""
    record = partition(isr=(1,), elr=(3,))
    grown = next_state(record, acceptable={1, 2}.__contains__, min_isr=2, isr=(1, 2), eligible_replicas=False)
    shrunk = next_state(grown, acceptable={1, 2}.__contains__, min_isr=2, isr=(1,), eligible_replicas=False)
    later = next_state(shrunk, acceptable={1, 2}.__contains__, min_isr=3, isr=(1,), eligible_replicas=True)

    assert (grown.isr, grown.elr) == ((1, 2), ())
    assert later.elr == ()


def test_eligible_replica_leads_when_eligibility_was_turned_off_meanwhile() -> None:
    """No replica is in sync: one that was eligible at the last change still has everything."""
    record = partition(leader=-1, isr=(), elr=(2, 3))

    state = next_state(record, acceptable={3}.__contains__, min_isr=2, eligible_replicas=False)

    assert (state.leader, state.isr, state.elr, state.recovery) == (3, (3,), (), Recovery.RECOVERED)
