"""Which replicas are throttled, and which piece is missing."""

from typing import Any, SupportsIndex

import pytest

from syncline.model.ids import TopicPartition
from syncline.reassign.cluster_state import BrokerState, ClusterState, MoveState, PartitionState
from syncline.reassign.formulas import Role
from syncline.reassign.move_map import Running
from syncline.reassign.throttle_state import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    Effect,
    Rate,
    Throttles,
    explain,
    left_behind,
    names,
    quota_of,
)

FOO_0 = TopicPartition("foo", 0)
BOTH = Throttles(
    {1: {LEADER_RATE: Rate(1_000, "broker")}, 3: {FOLLOWER_RATE: Rate(2_000, "cluster")}},
    {"foo": {LEADER_LIST: "0:1,0:2", FOLLOWER_LIST: " , 0:3"}},
)


def state(isr: tuple[int, ...] = (1, 2), **more: Any) -> ClusterState:
    """Return a cluster in which foo-0 has the replicas 1, 2, 3 and 1 leads."""
    brokers = {broker: BrokerState("h", 9092) for broker in (1, 2, 3)}
    return ClusterState(0, brokers, {FOO_0: PartitionState((1, 2, 3), isr, 1)}, more.pop("running", {}), {}, **more)


def effects(cluster: ClusterState, throttles: Throttles) -> dict[tuple[int, Role], Effect]:
    """Return what happens to each replica."""
    return {(each.broker, each.role): each.effect for each in explain(cluster, throttles, [FOO_0])}


@pytest.mark.parametrize(
    ("value", "is_named"),
    [("0:1", True), ("1:0", False), ("*", True), (" 5:1 , 0:1", True), (",0:1", True), ("0:11", False), ("", False)],
)
def test_lists_name_replicas(value: str, is_named: bool) -> None:
    """Partition first, then broker; blanks and empty items mean nothing."""
    assert names(value, 0, 1) is is_named


class CountedList(str):
    """A list that counts how often somebody takes it apart."""

    __slots__ = ()
    taken_apart = 0

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:  # type: ignore[override]
        """Count it."""
        CountedList.taken_apart += 1
        return super().split(sep, maxsplit)


def test_list_is_taken_apart_once_however_many_replicas_are_looked_for() -> None:
    """It may name each replica of thousands of partitions."""
    value = CountedList(",".join(f"{number}:7" for number in range(100)))

    assert all(names(value, number, 7) for number in range(100))
    assert not names(value, 100, 7)
    assert CountedList.taken_apart == 1


def test_leader_and_lagging_follower_are_throttled_and_others_are_not() -> None:
    """Broker 2 is named as a sender and does not lead; as a receiver it is in no list."""
    assert effects(state(), BOTH) == {
        (1, Role.SENDING): Effect.THROTTLED,
        (2, Role.SENDING): Effect.DORMANT,
        (2, Role.RECEIVING): Effect.FREE,
        (3, Role.RECEIVING): Effect.THROTTLED,
    }
    assert quota_of(state(), BOTH, FOO_0, 3, Role.RECEIVING) == 2_000
    assert quota_of(state(), BOTH, FOO_0, 2, Role.RECEIVING) == float("inf")


def test_replicas_in_sync_are_counted() -> None:
    """The throttle was left behind: it slows nothing now, and would slow broker 3 after a restart."""
    found = effects(state(isr=(1, 2, 3)), BOTH)

    assert found[1, Role.SENDING] is Effect.COUNTED
    assert found[3, Role.RECEIVING] is Effect.COUNTED


def test_missing_piece_is_named() -> None:
    """A list without a rate, and a rate without a list."""
    lists_only = Throttles({}, {"foo": {FOLLOWER_LIST: "*"}})
    rates_only = Throttles({1: {LEADER_RATE: Rate(1, "broker")}}, {})

    receiver = next(each for each in explain(state(), lists_only, [FOO_0]) if each.broker == 3)
    sender = next(each for each in explain(state(), rates_only, [FOO_0]) if each.broker == 1)

    assert (receiver.effect, receiver.missing) == (Effect.FREE, f"broker 3 has no {FOLLOWER_RATE}")
    assert sender.missing == f"{LEADER_LIST} of topic foo does not name 0:1"


def test_throttle_of_a_move_needs_no_list_and_the_lower_bound_counts() -> None:
    """The move bounds what broker 3 receives by 500; the leader's own rate is lower than the move's."""
    cluster = state(
        running={FOO_0: Running((1, 2, 3), (3,))},
        owns_throttles=True,
        moves={"m-1": MoveState("m-1", throttle_bytes_per_s=1_500)},
        move_of={FOO_0: "m-1"},
    )

    found = {(each.broker, each.role): (each.bound_bytes_per_s, each.by) for each in explain(cluster, BOTH, [FOO_0])}

    assert found[3, Role.RECEIVING] == (1_500, "move m-1")
    assert found[1, Role.SENDING] == (1_000, f"{LEADER_LIST} and {LEADER_RATE} (broker)")
    assert found[2, Role.RECEIVING] == (-1, "")


def test_new_replica_in_sync_is_free_of_its_moves_throttle() -> None:
    """Another one of the partition still copies, so the move goes on; what 3 gets is no longer counted for it."""
    cluster = state(
        isr=(1, 3),
        running={FOO_0: Running((1, 2, 3), (2, 3))},
        owns_throttles=True,
        moves={"m-1": MoveState("m-1", throttle_bytes_per_s=1_500)},
        move_of={FOO_0: "m-1"},
    )

    assert effects(cluster, Throttles({}, {})) == {
        (1, Role.SENDING): Effect.THROTTLED,
        (2, Role.RECEIVING): Effect.THROTTLED,
        (3, Role.RECEIVING): Effect.FREE,
    }


def test_throttles_that_limit_nothing_that_moves_are_named() -> None:
    """A standing limit or a forgotten one: who set it knows, and learns how to remove it."""
    clear, unset = "`syncline throttle clear", "`syncline configs alter broker all --unset"
    assert left_behind(state(), BOTH) == [
        f"topic foo has {FOLLOWER_LIST}= , 0:3, but none of its partitions is moving: {clear} --topic foo` removes it.",
        f"topic foo has {LEADER_LIST}=0:1,0:2, but none of its partitions is moving: {clear} --topic foo` removes it.",
        f"broker 1 has {LEADER_RATE}=1000 (broker), but nothing is moving: {clear} --brokers 1` removes it.",
        (
            f"broker 3 has {FOLLOWER_RATE}=2000 (cluster), but nothing is moving: {unset} {FOLLOWER_RATE}` "
            "removes it from all brokers."
        ),
    ]
    assert left_behind(state(running={FOO_0: Running((1, 2, 3), (3,))}), BOTH) == []
