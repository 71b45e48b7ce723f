"""Preferred read replicas: where a consumer is sent, with exact bounds."""

from syncline.core.fetching.read_replicas import preferred_replica
from syncline.core.replication.known_brokers import BrokerStanding, KnownBrokers
from syncline.core.replication.lag_policy import TimeLag
from syncline.core.replication.leader import LeaderPartition, PartitionSettings

RACKS = {1: "a", 2: "b", 3: "b"}


def leader_of(isr: tuple[int, ...] = (1, 2, 3), **followers: tuple[int, int, int]) -> LeaderPartition:
    """Return broker 1 leading up to 100; `f2=(log start, log end, time)` is the last fetch of broker 2."""
    leader = LeaderPartition(
        1,
        replicas=(1, 2, 3),
        isr=isr,
        leader_epoch=5,
        partition_epoch=20,
        epoch_start_offset=0,
        log_end=100,
        high_watermark=50,
        settings=PartitionSettings(lag=TimeLag(10_000), min_insync_replicas=1),
        brokers=KnownBrokers({each: BrokerStanding(each) for each in RACKS}),
        now_ms=0,
    )
    for name, (log_start, log_end, now_ms) in followers.items():
        leader.follower_fetched(int(name[1:]), log_end, log_start, 100, int(name[1:]), 5, now_ms)
    return leader


def test_h07_most_caught_up_replica_of_the_rack_is_preferred() -> None:
    """Of 2 (log end 90) and 3 (95), 3 is; at 97 neither has the offset, and the leader serves it."""
    leader = leader_of(f2=(0, 90, 10), f3=(0, 95, 10))

    found = [preferred_replica(leader, "b", RACKS, offset) for offset in (80, 90, 92, 95, 96, 97)]

    assert found == [3, 3, 3, 3, None, None]


def test_h07_replica_out_of_the_isr_is_no_candidate() -> None:
    """With 3 out of the ISR, 2 is preferred as far as it goes."""
    leader = leader_of((1, 2), f2=(0, 90, 10), f3=(0, 40, 10))

    assert [preferred_replica(leader, "b", RACKS, offset) for offset in (20, 80, 90, 91)] == [2, 2, 2, None]


def test_leader_in_the_consumers_rack_serves() -> None:
    """A consumer next to the leader stays there, and so does one in a rack without replicas."""
    leader = leader_of(f2=(0, 100, 10), f3=(0, 100, 10))

    assert preferred_replica(leader, "a", RACKS, 10) is None
    assert preferred_replica(leader, "c", RACKS, 10) is None
    assert preferred_replica(leader, "b", {1: "b", 2: "b", 3: "b"}, 10) is None


def test_replica_must_still_have_the_offset() -> None:
    """A log start above the offset excludes a follower; at the offset it does not."""
    leader = leader_of(f2=(30, 90, 10), f3=(31, 95, 10))

    assert [preferred_replica(leader, "b", RACKS, offset) for offset in (29, 30, 31)] == [None, 2, 3]


def test_equal_log_ends_are_told_apart_by_time_then_by_id() -> None:
    """The one caught up later wins; at the same time the higher id does."""
    assert preferred_replica(leader_of(f2=(0, 100, 20), f3=(0, 100, 10)), "b", RACKS, 5) == 2
    assert preferred_replica(leader_of(f2=(0, 100, 20), f3=(0, 100, 20)), "b", RACKS, 5) == 3


def test_fetch_session_counts_as_being_caught_up() -> None:
    """A session that asked again at the end proves a later time than the last change of the follower."""

    class Stamp:
        last_fetch_ms = 50
        previous_fetch_ms = 40

    leader = leader_of(f3=(0, 100, 30))
    leader.follower_fetched(2, 100, 0, 100, 2, 5, 20, stamp=Stamp())

    assert preferred_replica(leader, "b", RACKS, 5) == 2


def test_broker_that_is_not_alive_is_no_candidate() -> None:
    """The ISR may still name a broker that metadata knows as fenced."""
    leader = leader_of(f2=(0, 90, 10), f3=(0, 95, 10))

    assert preferred_replica(leader, "b", {1: "a", 2: "b"}, 80) == 2


def test_new_leader_knows_nobody() -> None:
    """Followers that have not fetched under this leader get no readers."""
    assert preferred_replica(leader_of(), "b", RACKS, 0) is None
