"""How far moves are, from looks at a cluster."""

from typing import Any

import pytest

from syncline.model.ids import TopicPartition
from syncline.reassign.cluster_state import BrokerState, ClusterState, PartitionState
from syncline.reassign.formulas import Load, Moving, Part, Role, loads
from syncline.reassign.log_dir_states import Place
from syncline.reassign.move_map import Running
from syncline.reassign.plan_file import Target
from syncline.reassign.progress import (
    Row,
    broker_views,
    changed_factors,
    copies_of,
    in_sync_rates,
    part_views,
    planned,
    remaining,
    rows,
    without_room,
    write_rates,
)

FOO_0 = TopicPartition("foo", 0)
FOO_1 = TopicPartition("foo", 1)


def state(at_ms: int = 0, sizes: dict[tuple[TopicPartition, int], int] | None = None, **more: Any) -> ClusterState:
    """Return a cluster of four brokers; foo-0 moves from 1,2,3 to 1,2,4, foo-1 stays on 2,3."""
    fields: dict[str, Any] = {
        "brokers": {broker: BrokerState("h", 9092, usable_bytes=1_000) for broker in (1, 2, 3, 4)},
        "partitions": {
            FOO_0: PartitionState((1, 2, 4, 3), (1, 2, 3), 1),
            FOO_1: PartitionState((2, 3), (2, 3), 2),
        },
        "running": {FOO_0: Running((1, 2, 4, 3), (4,), (3,))},
        **more,
    }
    return ClusterState(at_ms, sizes={Place(*place): size for place, size in (sizes or {}).items()}, **fields)


def test_new_replica_lacks_the_difference_to_its_leader() -> None:
    """30 of 100 bytes are there; a replica without a log has nothing yet."""
    assert rows(state(sizes={(FOO_0, 1): 100, (FOO_0, 4): 30}), [FOO_0, FOO_1]) == [
        Row(FOO_0, 4, 1, 30, 100, is_in_sync=False)
    ]
    assert rows(state(sizes={(FOO_0, 1): 100}), [FOO_0])[0].remaining_bytes == 100


def test_replica_in_sync_lacks_nothing_whatever_its_size() -> None:
    """Sizes are of two moments, so they may differ by what came between."""
    partitions = {FOO_0: PartitionState((1, 2, 4, 3), (1, 2, 3, 4), 1)}
    (row,) = rows(state(sizes={(FOO_0, 1): 100, (FOO_0, 4): 95}, partitions=partitions), [FOO_0])

    assert row.remaining_bytes == 0
    assert copies_of([row]) == []


def test_size_is_the_largest_known_if_the_leader_does_not_answer() -> None:
    """The others have nearly everything."""
    assert state(sizes={(FOO_0, 2): 90, (FOO_0, 3): 80}).size_of(FOO_0) == 90
    assert state().size_of(FOO_0) == 0


@pytest.mark.parametrize(("answering", "is_known"), [(1, True), (3, True), (4, False)])
def test_total_is_known_from_replicas_that_have_everything(answering: int, is_known: bool) -> None:
    """The leader and what is in sync with it; the new replica alone does not know what it lacks."""
    (row,) = rows(state(sizes={(FOO_0, answering): 30}), [FOO_0])

    assert row.is_total_known is is_known


def test_write_rate_is_the_growth_at_the_leader() -> None:
    """A log that was cut by retention does not grow backwards."""
    before = state(1_000, {(FOO_0, 1): 100, (FOO_1, 2): 50})
    after = state(3_000, {(FOO_0, 1): 500, (FOO_1, 2): 20})

    assert write_rates(before, after) == {FOO_0: 200.0, FOO_1: 0.0}
    assert write_rates(state(), state()) == {FOO_0: 0.0, FOO_1: 0.0}


def test_plan_copies_what_is_not_there_before_the_move() -> None:
    """A replica that a running move adds is copied still; followers in sync are known."""
    found = planned(state(sizes={(FOO_0, 1): 100}), [Target(FOO_0, (1, 2, 4)), Target(FOO_1, (3, 1))], {FOO_0: 7.0})

    assert found == [Moving(FOO_0, 100, 7.0, 1, (4,), 2), Moving(FOO_1, 0, 0.0, 2, (1,), 1)]


@pytest.mark.parametrize(("counts_in_sync", "keep_up"), [(False, 14.0), (True, 28.0)])
def test_what_remains_is_sent_and_received(counts_in_sync: bool, keep_up: float) -> None:
    """Two new replicas; in-sync followers count once, and only under KIP-73."""
    cluster = state(
        sizes={(FOO_0, 1): 100, (FOO_0, 4): 30, (FOO_0, 5): 90},
        running={FOO_0: Running((1, 2, 4, 5, 3), (4, 5), (3,))},
    )
    parts = remaining(cluster, rows(cluster, [FOO_0]), {FOO_0: 7.0}, counts_in_sync=counts_in_sync)

    assert parts == {
        Part(1, Role.SENDING): Load(80, keep_up),
        Part(4, Role.RECEIVING): Load(70, 7.0),
        Part(5, Role.RECEIVING): Load(10, 7.0),
    }


def test_speed_of_a_part_includes_what_it_kept_up_with() -> None:
    """Of 100 bytes 60 are left after 2 s, and 5 per second came in: 25 passed per second."""
    part = Part(4, Role.RECEIVING)
    view = part_views({part: Load(100, 5.0)}, {part: Load(60, 5.0)}, 2.0, {part: 30.0}, {}, {part: 7.0})[part]

    assert (view.measured_bytes_per_s, view.is_progressing, view.quota_bytes_per_s) == (25.0, True, 30.0)
    assert view.nothing_moved_s == 7.0
    stalled = part_views({part: Load(60, 5.0)}, {part: Load(62, 5.0)}, 2.0, {}, {}, {})[part]
    assert (stalled.measured_bytes_per_s, stalled.is_progressing) == (4.0, False)
    assert part_views(None, {part: Load(60, 5.0)}, 0.0, {}, {}, {})[part].measured_bytes_per_s is None


def test_followers_in_sync_get_what_is_written() -> None:
    """Two of them, 7 bytes per second each; partitions count once, however many replicas are new."""
    cluster = state(running={FOO_0: Running((1, 2, 4, 5, 3), (4, 5), (3,))})

    assert in_sync_rates(cluster, rows(cluster, [FOO_0]), {FOO_0: 7.0}) == {Part(1, Role.SENDING): 14.0}


def test_brokers_that_are_not_known_are_down() -> None:
    """Metadata shows brokers that run."""
    views = broker_views(state(), [1, 9])

    assert (views[1].is_alive, views[1].usable_bytes) == (True, 1_000)
    assert not views[9].is_alive


def test_destination_without_room_is_named() -> None:
    """Both replicas together are too much for broker 4; an unknown room is no refusal."""
    moving = [Moving(FOO_0, 600, 0.0, 1, (4,)), Moving(FOO_1, 600, 0.0, 2, (4, 3))]

    assert without_room(state(), moving) == ["broker 4 has 1,000 B of room but would receive 1,200 B"]
    unknown = {4: BrokerState("h", 9092), 3: BrokerState("h", 9092)}
    assert without_room(state(brokers=unknown), moving) == []


def test_what_a_running_move_has_copied_needs_no_room_again() -> None:
    """The rate of a move that is nearly done can be changed: 100 B are to come, and there is room for 300."""
    running = {FOO_0: Running((1, 2, 5, 3), (5,), (3,))}
    partitions = {FOO_0: PartitionState((1, 2, 5, 3), (1, 2, 3), 1)}
    sizes = {Place(FOO_0, 1): 1_000, Place(FOO_0, 5): 900}
    nearly = ClusterState(0, {5: BrokerState("h", 1, usable_bytes=300)}, partitions, running, sizes)

    moving = planned(nearly, [Target(FOO_0, (1, 2, 5))], {})

    assert without_room(nearly, moving) == []
    parts = loads(moving, counts_in_sync=False)
    assert {part.broker: load.copy_bytes for part, load in parts.items()} == {1: 100, 5: 100}


def test_change_of_the_replication_factor_is_noticed() -> None:
    """Compared with the replicas before a running move, which has more of them meanwhile."""
    targets = [Target(FOO_0, (1, 2, 4)), Target(FOO_1, (2, 3, 4))]

    assert changed_factors(state(), targets) == ["foo-1 from 2 to 3"]
