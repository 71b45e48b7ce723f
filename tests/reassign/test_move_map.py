"""KIP-73's lists from what moves and what shall move."""

from syncline.model.ids import TopicPartition
from syncline.reassign.move_map import Movement, Running, brokers_of, follower_lists, leader_lists, movements
from syncline.reassign.plan_file import Target


def foo(partition: int) -> TopicPartition:
    """Return a partition of the topic foo."""
    return TopicPartition("foo", partition)


BAR_0 = TopicPartition("bar", 0)


def test_t41_move_of_one_replica_lists_all_current_ones_as_sources() -> None:
    """foo-0 goes from 1,2,3 to 1,2,5: any of 1, 2, 3 may lead, only 5 receives."""
    moving = movements({}, [Target(foo(0), (1, 2, 5))], {foo(0): (1, 2, 3)})

    assert leader_lists(moving) == {"foo": "0:1,0:2,0:3"}
    assert follower_lists(moving) == {"foo": "0:5"}
    assert brokers_of(moving) == [1, 2, 3, 5]


def test_lists_name_what_earlier_requests_move() -> None:
    """The vector of Kafka's ReassignPartitionsUnitTest: seven partitions, six of which already move."""
    running = {
        foo(0): Running((1, 2, 3, 4), (4,), (3,)),
        foo(1): Running((4, 5, 6, 7, 8), (7, 8), (4, 5)),
        foo(2): Running((1, 2, 3, 4), (3, 4), (1, 2)),
        foo(3): Running((1, 2, 3, 4), (3, 4), (1, 2)),
        foo(4): Running((1, 2, 3, 4), (3, 4), (1, 2)),
        foo(5): Running((1, 2, 3, 4), (3, 4), (1, 2)),
    }
    targets = [
        Target(foo(0), (1, 2, 5)),
        Target(foo(2), (3, 4)),
        Target(foo(3), (5, 6)),
        Target(foo(4), (3,)),
        Target(foo(5), (3, 4, 5, 6)),
        Target(BAR_0, (1, 2, 3)),
    ]
    current = {key: each.replicas for key, each in running.items()} | {BAR_0: (2, 3, 4)}

    moving = movements(running, targets, current)

    assert moving == {
        BAR_0: Movement((2, 3, 4), (1,)),
        foo(0): Movement((1, 2, 3), (5,)),
        foo(1): Movement((4, 5, 6), (7, 8)),
        foo(2): Movement((1, 2), (3, 4)),
        foo(3): Movement((1, 2), (5, 6)),
        foo(4): Movement((1, 2), (3,)),
        foo(5): Movement((1, 2), (3, 4, 5, 6)),
    }
    assert leader_lists(moving) == {
        "bar": "0:2,0:3,0:4",
        "foo": "0:1,0:2,0:3,1:4,1:5,1:6,2:1,2:2,3:1,3:2,4:1,4:2,5:1,5:2",
    }
    assert follower_lists(moving) == {
        "bar": "0:1",
        "foo": "0:5,1:7,1:8,2:3,2:4,3:5,3:6,4:3,5:3,5:4,5:5,5:6",
    }
    assert brokers_of(moving) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_pure_reorder_lists_sources_only() -> None:
    """Nothing is received, and the tool lists the leaders nevertheless."""
    moving = movements({}, [Target(foo(0), (3, 1, 2))], {foo(0): (1, 2, 3)})

    assert leader_lists(moving) == {"foo": "0:1,0:2,0:3"}
    assert follower_lists(moving) == {"foo": ""}


def test_items_are_in_the_order_of_texts() -> None:
    """Partition 10 comes before partition 2, as in the tool's lists."""
    moving = movements({}, [Target(foo(2), (5,)), Target(foo(10), (5,))], {foo(2): (1,), foo(10): (1,)})

    assert leader_lists(moving) == {"foo": "10:1,2:1"}
