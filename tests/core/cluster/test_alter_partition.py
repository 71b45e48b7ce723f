"""AlterPartition at the controller: each check with its error, in the order of the checks."""

from uuid import UUID

import pytest

from syncline.core.cluster.alter_partition import IsrRequest, IsrResult, alter_partition
from syncline.model.errors import ErrorCode
from syncline.model.metadata import BrokerChanged, Recovery, directory_id
from tests.core.controller_world import ELR, TOPIC_ID, World, broker, image, partition


def ask(
    world: World, sender: int, leader_epoch: int, partition_epoch: int, isr: list[int], **others: object
) -> IsrResult:
    """Send one proposal and return its result; members' epochs are not given unless `epochs` says so."""
    epochs = others.pop("epochs", {})
    request = IsrRequest(
        TOPIC_ID, 0, leader_epoch, partition_epoch, tuple((each, epochs.get(each, -1)) for each in isr), **others
    )
    decision = alter_partition(world.image, sender, sender + 100, [request], ELR)
    return world.take(decision).results[0]


def b16() -> World:
    """Leader 1, ISR [1], leader epoch 5, partition epoch 20; 2 fenced, 3 active."""
    return World(image(partition(isr=(1,)), active=(1, 3), fenced=(2,)))


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ((1, 4, 21, [1]), ErrorCode.NOT_CONTROLLER),
        ((1, 4, 19, [1]), ErrorCode.FENCED_LEADER_EPOCH),
        ((3, 5, 19, [1]), ErrorCode.INVALID_REQUEST),
        ((1, 5, 19, [1]), ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 5, 20, [1, 9]), ErrorCode.INVALID_REQUEST),
        ((1, 5, 20, [3]), ErrorCode.INVALID_REQUEST),
        ((1, 5, 20, [1, 1]), ErrorCode.INVALID_REQUEST),
        ((1, 5, 20, [1, 2]), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_b16_refusals_in_their_order(request_: tuple, error: ErrorCode) -> None:
    """Each check has its own answer, and changes nothing."""
    world = b16()

    result = ask(world, *request_)

    assert result.error is error
    assert world.t0 == partition(isr=(1,))


def test_b16_sender_that_does_not_lead() -> None:
    """Broker 2 sends for a partition that 1 leads: its leader epoch is right, and the controller refuses it."""
    assert ask(b16(), 2, 5, 19, [1]).error is ErrorCode.INVALID_REQUEST


def test_b16_expansion_is_accepted() -> None:
    """3 is active: the ISR grows, the partition epoch rises, the leader epoch does not."""
    world = b16()

    result = ask(world, 1, 5, 20, [1, 3])

    assert result.error is ErrorCode.NONE
    assert result.state == partition(isr=(1, 3), partition_epoch=21)
    assert world.t0 == result.state


def test_b17_same_isr_again_is_a_success() -> None:
    """An ISR that is committed already is confirmed under the same partition epoch."""
    world = World(image(partition(isr=(1, 3), partition_epoch=21)))

    result = ask(world, 1, 5, 21, [1, 3])

    assert (result.error, result.state) == (ErrorCode.NONE, world.t0)
    assert world.t0.partition_epoch == 21


def test_f20_shrink_and_expand_raise_the_partition_epoch_only() -> None:
    """S0: each step adds one to the partition epoch; the leader epoch stays 5."""
    world = World(image())

    shrunk = ask(world, 1, 5, 20, [1, 2])
    expanded = ask(world, 1, 5, 21, [1, 2, 3])

    assert (shrunk.state.partition_epoch, shrunk.state.leader_epoch) == (21, 5)
    assert (expanded.state.partition_epoch, expanded.state.leader_epoch) == (22, 5)


def test_f04_next_alter_partition_says_recovered() -> None:
    """The leader that was elected uncleanly confirms with its first proposal."""
    world = World(image(partition(leader=3, isr=(3,), recovery=Recovery.RECOVERING)))

    result = ask(world, 3, 5, 20, [3])

    assert (result.error, result.state.recovery) == (ErrorCode.NONE, Recovery.RECOVERED)


def test_recovering_with_two_members_is_refused() -> None:
    """A leader that has not confirmed yet leads alone, and one that has confirmed cannot recover again."""
    recovering = World(image(partition(leader=3, isr=(3,), recovery=Recovery.RECOVERING)))

    assert ask(recovering, 3, 5, 20, [3, 1], recovery=Recovery.RECOVERING).error is ErrorCode.INVALID_REQUEST
    assert ask(World(image()), 1, 5, 20, [1], recovery=Recovery.RECOVERING).error is ErrorCode.INVALID_REQUEST


def test_member_of_a_former_incarnation_is_ineligible() -> None:
    """A broker epoch that is not the registered one does not count (KIP-903)."""
    world = b16()

    assert ask(world, 1, 5, 20, [1, 3], epochs={3: 102}).error is ErrorCode.INELIGIBLE_REPLICA
    assert ask(world, 1, 5, 20, [1, 3], epochs={3: 103}).error is ErrorCode.NONE


def test_stale_sender_is_refused_as_a_whole() -> None:
    """A broker epoch that is not the registered one is a top-level error."""
    decision = alter_partition(image(), 1, 99, [], ELR)

    assert decision.answer.error is ErrorCode.STALE_BROKER_EPOCH


def test_shrink_below_the_minimum_makes_the_replica_eligible() -> None:
    """Min ISR 3: a replica that leaves stays eligible, since the high watermark does not advance from then on."""
    world = World(image(configs={"min.insync.replicas": "3"}))

    result = ask(world, 1, 5, 20, [1, 2])

    assert (result.state.isr, result.state.elr) == ((1, 2), (3,))


def test_leader_that_completes_its_own_removal_learns_of_the_new_one() -> None:
    """F16's last step: the proposal is committed, and the sender no longer leads."""
    record = partition(replicas=(2, 3, 4, 1), adding=(4,), removing=(1,))
    world = World(image(record, active=(1, 2, 3, 4)))

    result = ask(world, 1, 5, 20, [1, 2, 3, 4])

    assert result.error is ErrorCode.NEW_LEADER_ELECTED
    assert (world.t0.replicas, world.t0.isr, world.t0.leader, world.t0.leader_epoch) == ((2, 3, 4), (2, 3, 4), 2, 6)


def test_unknown_topics_and_partitions_have_different_errors() -> None:
    """An id that no topic has, and numbers that the topic does not have; the others of the request are judged."""
    world = b16()
    rows = [
        IsrRequest(UUID(int=1), 0, 5, 20, ((1, -1),)),
        IsrRequest(TOPIC_ID, 1, 5, 20, ((1, -1),)),
        IsrRequest(TOPIC_ID, -1, 5, 20, ((1, -1),)),
        IsrRequest(TOPIC_ID, 0, 5, 20, ((1, -1), (3, -1))),
    ]

    answer = world.take(alter_partition(world.image, 1, 101, rows, ELR))

    assert answer.error is ErrorCode.NONE
    assert [each.error for each in answer.results] == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert world.t0.isr == (1, 3)


def test_sender_that_never_registered_is_refused_as_a_whole() -> None:
    """It has no broker epoch."""
    assert alter_partition(image(), 9, 109, [], ELR).answer.error is ErrorCode.STALE_BROKER_EPOCH


def test_member_that_leaves_or_never_registered_is_ineligible() -> None:
    """A broker in controlled shutdown, and a replica whose broker is not registered."""
    leaving = World(image(partition(isr=(1,)), active=(1, 3)))
    leaving.image = leaving.image.apply([BrokerChanged(broker(3, shutting_down=True))], 201)
    unknown = World(image(partition(isr=(1,)), active=(1, 3)))

    assert ask(leaving, 1, 5, 20, [1, 3]).error is ErrorCode.INELIGIBLE_REPLICA
    assert ask(unknown, 1, 5, 20, [1, 2]).error is ErrorCode.INELIGIBLE_REPLICA


def test_replica_whose_log_failed_is_ineligible_although_it_fetched() -> None:
    """It joined by a fetch sent before the disk failed, and acks=all waited for it until it lagged."""
    world = b16()
    failed = broker(3, failed=(directory_id(TOPIC_ID, 0).hex,))
    world.image = world.image.apply([BrokerChanged(failed)], 201)

    assert ask(world, 1, 5, 20, [1, 3]).error is ErrorCode.INELIGIBLE_REPLICA
    assert world.t0 == partition(isr=(1,))


def test_member_whose_log_failed_may_stay_until_the_controller_takes_it_out() -> None:
    """Only joining is refused: a proposal that keeps it changes nothing for it."""
    world = World(image(partition(isr=(1, 2, 3)), active=(1, 2, 3)))
    failed = broker(3, failed=(directory_id(TOPIC_ID, 0).hex,))
    world.image = world.image.apply([BrokerChanged(failed)], 201)

    assert ask(world, 1, 5, 20, [1, 3]).error is ErrorCode.NONE


def test_two_items_for_one_partition_are_judged_one_after_the_other() -> None:
    """The second was sent without knowing the result of the first: its partition epoch is stale by then."""
    world = b16()
    row = IsrRequest(TOPIC_ID, 0, 5, 20, ((1, -1), (3, -1)))

    answer = world.take(alter_partition(world.image, 1, 101, [row, row], ELR))

    assert [each.error for each in answer.results] == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    assert world.t0.partition_epoch == 21


@pytest.mark.parametrize(("isr", "successor"), [((1, 2, 3), 3), ((1, 2), 2)], ids=["one stays", "none stays"])
def test_leader_that_relinquishes_in_a_move_is_followed_by_one_that_stays(isr: tuple[int, ...], successor: int) -> None:
    """2 has the most records and is being removed: it would soon have to hand the partition on."""
    record = partition(replicas=(3, 4, 1, 2), isr=isr, adding=(4,), removing=(1, 2), original=(1, 2, 3))
    world = World(image(record, active=(1, 2, 3, 4)))
    order = (2, *(each for each in isr if each == 3), 1)

    result = ask(world, 1, 5, 20, list(order), relinquish=True)

    assert result.error is ErrorCode.NEW_LEADER_ELECTED
    assert world.t0.leader == successor
    assert world.t0.replicas == (3, 4, 1, 2)
