"""Registration, heartbeats, fencing and leaving."""

from dataclasses import replace

from syncline.core.cluster.broker_lifecycle import Registration, heartbeat, register
from syncline.core.cluster.broker_sessions import BrokerSessions
from syncline.model.errors import ErrorCode
from tests.core.controller_world import ELR, NO_ELR, World, image, partition


def test_f11_session_is_valid_up_to_its_timeout() -> None:
    """Last contact at 0 with 9,000 ms: live at 9,000, overdue at 9,001."""
    sessions = BrokerSessions(9_000)
    sessions.begin(1, 101, 0)

    assert sessions.expired([1], 9_000) is None
    assert sessions.expired([1], 9_001) == 1


def test_expiry_fences_the_longest_silent_first() -> None:
    """One broker per pass: the one with the earliest contact."""
    sessions = BrokerSessions(9_000)
    sessions.begin(1, 101, 50)
    sessions.begin(2, 102, 20)

    assert sessions.expired([1, 2], 20_000) == 2


def test_f12_second_process_waits_for_the_session_of_the_first() -> None:
    """Another incarnation is a duplicate while the first is live; then it is accepted, fenced, with a new epoch."""
    world = World(image())

    early = world.register(2, "other", gone=False)
    world.now_ms = 9_001
    late = world.register(2, "other", gone=False)

    assert early.error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert late.error is ErrorCode.NONE
    assert late.broker_epoch > 102
    assert world.image.brokers[2].fenced


def test_second_process_is_accepted_at_once_when_the_first_is_gone() -> None:
    """Evidence that the first process ended makes waiting pointless; it leaves every ISR."""
    world = World(image())

    answer = world.register(1, "other", gone=True)

    assert answer.error is ErrorCode.NONE
    assert (world.t0.leader, world.t0.isr) == (2, (2, 3))


def test_quick_bounce_puts_a_second_process_into_the_place_of_the_first() -> None:
    """For demonstrations of what KIP-101 repaired: accepted at once, in every in-sync set, leading what it led."""
    world = World(image(), replace(ELR, quick_bounce_enable=True))
    before = world.t0

    answer = world.register(1, "other", gone=False)
    fenced = world.image.brokers[1].fenced
    world.heartbeat(1)

    assert answer.error is ErrorCode.NONE
    assert fenced
    assert not world.image.brokers[1].fenced
    assert world.t0 == before


def test_same_incarnation_keeps_epoch_and_standing() -> None:
    """A registration whose answer was lost is repeated: nothing changes (M29)."""
    world = World(image())

    answer = world.register(2, "process-2", gone=False)

    assert answer.broker_epoch == 102
    assert not world.image.brokers[2].fenced


def test_clean_stop_keeps_eligibility() -> None:
    """A broker that proves a clean stop by its previous epoch is still eligible; another one is not."""
    record = partition(isr=(1,), elr=(2, 3))
    start = image(record, active=(1,), fenced=(2, 3), configs={"min.insync.replicas": "3"})
    world = World(start)

    world.register(2, "other", clean=True)
    world.register(3, "other", clean=False)

    assert world.t0.elr == (2,)


def test_registration_for_another_cluster_is_refused() -> None:
    """A data directory of one cluster does not join another."""
    registration = Registration(
        broker_id=9,
        incarnation_id="x",
        host="h",
        port=1,
        internal_host="h",
        internal_port=2,
        cluster_id="elsewhere",
    )

    decision = register(image(), BrokerSessions(1), registration, ELR, version=201, now_ms=0)

    assert decision.answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_f13_unfenced_only_after_it_saw_its_own_registration() -> None:
    """A broker behind its own registration stays fenced; once there, it is unfenced."""
    world = World(image())
    epoch = world.register(2, "other").broker_epoch

    behind = world.heartbeat(2, version=epoch - 1)
    there = world.heartbeat(2, version=epoch)

    assert (behind.is_fenced, behind.is_caught_up) == (True, False)
    assert (there.is_fenced, there.is_caught_up) == (False, True)


def test_f14_leader_hands_over_and_may_stop_when_all_have_seen_it() -> None:
    """1 leads and wants to stop: 2 leads at once; 1 may stop when every active broker has seen that."""
    world = World(image())

    first = world.heartbeat(1, want_shut_down=True)
    moved = world.t0
    world.heartbeat(2)
    second = world.heartbeat(1, want_shut_down=True)
    world.heartbeat(3)
    third = world.heartbeat(1, want_shut_down=True)

    assert (moved.leader, moved.isr) == (2, (2, 3))
    assert (first.should_shut_down, second.should_shut_down, third.should_shut_down) == (False, False, True)
    assert world.image.brokers[1].fenced


def test_f15_last_isr_member_goes_offline_and_may_stop() -> None:
    """1 alone is in sync: its leaving takes the partition offline, which the controller grants."""
    world = World(image(partition(isr=(1,))), NO_ELR)

    world.heartbeat(1, want_shut_down=True)
    for broker_id in (2, 3):
        world.heartbeat(broker_id)
    answer = world.heartbeat(1, want_shut_down=True)

    assert (world.t0.leader, world.t0.isr) == (-1, (1,))
    assert answer.should_shut_down


def test_broker_that_leads_nothing_may_stop_at_once() -> None:
    """3 is only a follower: it leaves the ISR and goes."""
    world = World(image())

    answer = world.heartbeat(3, want_shut_down=True)

    assert answer.should_shut_down
    assert world.t0.isr == (1, 2)


def test_heartbeat_of_a_former_incarnation_is_stale() -> None:
    """An epoch that is not the registered one is refused, and an unknown broker has to register."""
    start = image()
    common = {"metadata_version": 0, "want_fence": False, "want_shut_down": False, "version": 201, "now_ms": 0}

    stale = heartbeat(start, BrokerSessions(1), 2, 77, ELR, **common)
    unknown = heartbeat(start, BrokerSessions(1), 9, 77, ELR, **common)

    assert stale.answer.error is ErrorCode.STALE_BROKER_EPOCH
    assert unknown.answer.error is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_fenced_broker_that_makes_contact_again_is_unfenced() -> None:
    """A wrong suspicion costs one heartbeat."""
    world = World(image())
    world.fence(3)

    answer = world.heartbeat(3)

    assert not answer.is_fenced
    assert world.image.brokers[3].active
    assert world.t0.isr == (1, 2)
