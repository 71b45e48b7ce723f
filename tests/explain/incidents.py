"""Incidents of processes, disks that are slow, connections and clients, and decisions that nothing explains.

Three brokers hold flights-3, and broker 1 leads it. Times are milliseconds after noon.
"""

import dataclasses

from syncline.explain.diagnosis.findings import Cause
from syncline.model.reasons import Reason

from .incident import incident
from .witnesses import (
    GONE,
    NOT_SAID,
    SILENT,
    UNRENEWED,
    Why,
    Witnesses,
    deleted,
    elected,
    held,
    joined,
    left,
    misses_follower,
    misses_leader,
    observation,
    reassigned,
    sample,
    slow_disk,
    stall,
    state,
    throttled,
    truncated,
)


@incident(None)
def quiet_partition() -> Witnesses:
    """Nothing but progress."""
    return [sample(2, 0, 10), sample(2, 1_000, 20)]


# Processes.


@incident(Cause.FOLLOWER_DEAD, 2)
def follower_died() -> Witnesses:
    """The controller fences it for a refused connection, which explains its silence to the leader."""
    return [
        misses_follower(1, 2, 5_000, 9_000),
        state(2, 5_100, "fenced", GONE),
        left(2, 5_100, 0, rule="fencing", why=GONE),
        state(2, 9_000, "registered"),
        joined(2, 9_500),
    ]


@incident(Cause.LEADER_DEAD, 1)
def leader_died() -> Witnesses:
    """The same death has the leader's name when it led."""
    return [state(1, 5_000, "fenced", GONE), elected(1, 2, 5_000, GONE), left(1, 5_000, 0, rule="fencing", why=GONE)]


@incident(Cause.STOPPED, 2)
def broker_stopped_at_once() -> Witnesses:
    """A broker that leads nothing may stop with its first announcement; the fencing is no fault."""
    why = Why(Reason.STOP_GRANTED, {})
    return [
        state(2, 5_000, "fenced", why),
        left(2, 5_000, 0, rule="fencing", why=why),
        state(2, 5_300, "registered"),
        joined(2, 5_400),
    ]


@incident(Cause.STOPPED, 2)
def cluster_started_after_it_stopped() -> Witnesses:
    """Nobody could journal the stop. The first broker that serves leads alone, until the others have registered."""
    why = Why(Reason.CAUGHT_UP_WITH_METADATA, {})
    clean = Why(Reason.REGISTERED_AFTER_CLEAN_STOP, {})
    return [
        sample(2, 0, 10),
        state(1, 4_900, "registered", clean),
        state(1, 5_000, "unfenced", why),
        elected(-1, 1, 5_000, why),
        left(2, 5_000, 0, rule="fencing", why=why),
        state(2, 5_020, "registered", clean),
        state(2, 5_100, "unfenced", why),
        joined(2, 5_400),
    ]


@incident(Cause.FOLLOWER_PAUSED, 2)
def follower_paused() -> Witnesses:
    """Its own report of the stall explains all silences about it."""
    return [
        misses_follower(1, 2, 1_000, 14_000),
        observation("heartbeat-gap", 3, 2, 1_000, 14_000),
        left(2, 12_000, 900),
        held(2, 1_000, 7_000),
        stall(2, 1_000, 14_000),
        joined(2, 14_500),
    ]


@incident(Cause.FOLLOWER_PAUSED, 2)
def follower_still_paused() -> Witnesses:
    """Before it runs again only the others report."""
    return [
        misses_follower(1, 2, 1_000, 14_000)[:1],
        observation("heartbeat-gap", 3, 2, 1_000, 8_000)[:1],
        left(2, 12_000, 900),
    ]


@incident(Cause.LEADER_PAUSED, 1)
def leader_paused() -> Witnesses:
    """Followers miss it and the controller fences it; later it reports its stall."""
    return [
        misses_leader(2, 1, 1_000, 10_000),
        misses_leader(3, 1, 1_000, 10_000),
        observation("controller-unreachable", 1, 3, 10_500, 12_000, controller=3),
        state(1, 10_000, "fenced", SILENT),
        elected(1, 2, 10_000, SILENT),
        left(1, 10_000, 0, rule="fencing", why=SILENT),
        stall(1, 1_000, 12_000),
    ]


@incident(Cause.LEADER_PAUSED, 1)
def leader_paused_without_effect() -> Witnesses:
    """A pause shorter than the session changes nothing."""
    return [misses_leader(2, 1, 1_000, 4_000), stall(1, 1_000, 4_000)]


@incident(Cause.FOLLOWER_PAUSED, 3)
def controller_paused() -> Witnesses:
    """A broker that cannot reach a paused controller is not the cause."""
    return [observation("controller-unreachable", 2, 3, 1_000, 10_000, controller=3), stall(3, 1_000, 10_000)]


@incident(Cause.LEADER_PAUSED, 1)
def leader_that_is_controller_still_paused() -> Witnesses:
    """Guards: nothing arrived from it at either of the others, and each direction was called cut."""
    return [
        *_misses_controller_and_leader(2, 1, 4_000),
        *_misses_controller_and_leader(3, 1, 4_000),
    ]


@incident(Cause.LEADER_PAUSED, 1)
def leader_whose_lease_ran_out_still_paused() -> Witnesses:
    """Guards: the others reach the next controller, which left the cut as the only explanation."""
    return [
        *_misses_controller_and_leader(2, 1, 10_500, silent_until=20_000),
        *_misses_controller_and_leader(3, 1, 10_500, silent_until=20_000),
        state(1, 10_000, "fenced", UNRENEWED),
        elected(1, 2, 10_000, UNRENEWED),
        left(1, 10_000, 0, rule="fencing", why=UNRENEWED),
    ]


@incident(Cause.LEADER_PAUSED, 1)
def leader_whose_lease_ran_out_for_one_other_broker() -> Witnesses:
    """In a cluster of two, only the lease shows that no connection is to blame."""
    return [
        *_misses_controller_and_leader(2, 1, 10_500),
        state(1, 10_000, "fenced", UNRENEWED),
        elected(1, 2, 10_000, UNRENEWED),
        left(1, 10_000, 0, rule="fencing", why=UNRENEWED),
    ]


@incident(Cause.LEADER_PAUSED, 1)
def leader_whose_lease_ran_out_is_back() -> Witnesses:
    """Its own report says more than what the others inferred."""
    return [
        *_misses_controller_and_leader(2, 1, 10_500),
        state(1, 10_000, "fenced", UNRENEWED),
        left(1, 10_000, 0, rule="fencing", why=UNRENEWED),
        state(1, 15_100, "unfenced", NOT_SAID),
        stall(1, 1_000, 15_000),
    ]


@incident(Cause.CONTROLLER, 2)
def leader_that_is_controller_silent_to_one() -> Witnesses:
    """Guards: the connection was called cut, although it is not known whether the silent broker runs."""
    return [*_misses_controller_and_leader(2, 1, 4_000)]


def _misses_controller_and_leader(broker: int, controller: int, until: int, silent_until: int = -1) -> Witnesses:
    """Return what a follower reports of a leader that is the controller, too; the silence is not over."""
    begin, end = misses_leader(broker, controller, 1_000, max(until, silent_until))
    return [
        [begin, dataclasses.replace(end, phase="ongoing")],
        observation("controller-unreachable", broker, controller, 1_200, until, controller=controller),
    ]


@incident(Cause.FOLLOWER_PAUSED, 2)
def follower_paused_for_minutes() -> Witnesses:
    """It left long before it ran again."""
    return [stall(2, 1_000, 181_000), left(2, 12_000, 900)]


# Disks.


@incident(Cause.LEADER_DISK, 1)
def leader_gave_the_partition_away() -> Witnesses:
    """It spared a replica, relinquished, and lost the election that followed: one cause for all three."""
    relinquished = dataclasses.replace(
        left(2, 3_000, 500), change="relinquish", before=(1, 2, 3), after=(1, 2, 3), rule="slow-reads"
    )
    return [
        slow_disk(1, 2_000, 27_000, "read", replica=2),
        observation("protection", 1, 2, 2_000, 3_000, topic="flights", partition=3),
        relinquished,
        elected(1, 3, 3_000, Why(Reason.PROPOSED_BY_LEADER, {})),
    ]


@incident(Cause.LEADER_DISK, 1)
def leader_relinquished() -> Witnesses:
    """The controller's own reason shows that the leader relinquished the partition."""
    return [
        slow_disk(1, 2_000, 27_000, "read", replica=2),
        elected(1, 3, 3_000, Why(Reason.RELINQUISHED, {})),
    ]


@incident(None)
def leader_served_too_slowly() -> Witnesses:
    """It relinquishes the partition, and its evidence has the limit that it exceeded."""
    return [
        dataclasses.replace(
            left(2, 3_000, 500),
            change="relinquish",
            after=(1, 2, 3),
            rule="relinquish:slow-read",
            evidence={"follower": 2, "processing_ms": 501, "process_time_max_ms": 500},
        )
    ]


@incident(Cause.LEADER_DISK, 1)
def leader_read_slowly() -> Witnesses:
    """The worked example of KIP-501: the follower did fetch, and waited for the leader's disk."""
    return [
        misses_leader(2, 1, 2_000, 27_000, beats=80),
        slow_disk(1, 2_000, 27_000, "read", replica=2),
        left(2, 15_000, 500, asked=2_000, reading=2_000),
        joined(2, 27_100),
    ]


@incident(Cause.LEADER_DISK, 1)
def leader_read_slowly_for_two_followers() -> Witnesses:
    """Both reads began in the same millisecond."""
    return [
        slow_disk(1, 2_000, 27_000, "read", replica=2),
        slow_disk(1, 2_000, 20_000, "read", replica=3),
        left(2, 15_000, 500, asked=2_000, reading=2_000),
        left(3, 15_000, 500, asked=2_000, reading=2_000),
    ]


@incident(Cause.LEADER_DISK, 1)
def leader_wrote_slowly_for_a_minute() -> Witnesses:
    """Every three seconds and more; the writes of another broker were slow once meanwhile."""
    return [
        *(slow_disk(1, since, since + 700 + 10 * (since // 1_000), "write") for since in range(0, 40_000, 4_000)),
        slow_disk(2, 14_900, 15_700, "write"),
    ]


@incident(Cause.LEADER_DISK, 1)
def leader_wrote_slowly_before_and_after_a_join() -> Witnesses:
    """What happened in between divides the slow writes."""
    return [
        *(slow_disk(1, since, since + 700, "write") for since in (0, 4_000, 8_000, 30_000, 34_000)),
        joined(2, 20_000),
    ]


@incident(Cause.LEADER_DISK, 1)
def leader_still_reads() -> Witnesses:
    """The decision's evidence shows the read, before any observation has arrived."""
    return [left(2, 15_000, 500, asked=2_000, reading=2_000)]


@incident(Cause.FOLLOWER_PAUSED, 2)
def leader_read_slowly_for_a_client() -> Witnesses:
    """A consumer that waits for old records keeps no follower waiting; the follower was paused."""
    return [slow_disk(1, 1_000, 9_000, "read"), stall(2, 500, 13_000), left(2, 12_000, 400)]


@incident(Cause.FOLLOWER_DISK, 2)
def follower_wrote_slowly() -> Witnesses:
    """The stall of its loop is not a pause of its process: a write caused it."""
    return [
        slow_disk(2, 1_000, 9_000, "write"),
        slow_disk(2, 9_000, 17_000, "write"),
        stall(2, 1_200, 9_000, held_by_disk_ms=7_700),
        misses_follower(1, 2, 1_000, 9_000),
        left(2, 12_000, 1_000),
    ]


@incident(Cause.FOLLOWER_DISK, 2)
def follower_waited_to_cut_its_log() -> Witnesses:
    """Its loop ran, and it could not fetch before its log was cut."""
    return [slow_disk(2, 1_000, 17_000, "cut"), left(2, 12_000, 1_000)]


# Connections.


@incident(Cause.CUT_BOTH_WAYS)
def connection_cut() -> Witnesses:
    """Both miss each other, no beat arrives, and both ran."""
    return [misses_follower(1, 2, 1_000, 20_000), misses_leader(2, 1, 1_100, 20_000), left(2, 12_000, 900)]


@incident(Cause.CUT_ONE_WAY)
def connection_cut_towards_the_follower() -> Witnesses:
    """The follower's beats arrive at the leader, which proves that direction."""
    return [misses_follower(1, 2, 1_000, 20_000, beats=60), misses_leader(2, 1, 1_100, 20_000), left(2, 12_000, 900)]


@incident(Cause.CUT_ONE_WAY)
def connection_cut_towards_the_leader() -> Witnesses:
    """The leader's beats arrive at the follower, which proves that direction."""
    return [misses_follower(1, 2, 1_000, 20_000), misses_leader(2, 1, 1_100, 20_000, beats=60), left(2, 12_000, 900)]


@incident(Cause.CUT_BOTH_WAYS)
def connection_to_the_leader_that_is_controller_cut() -> Witnesses:
    """The follower loses its leader and its controller at once; the cut is deeper than the fencing."""
    return [
        misses_follower(1, 2, 1_000, 20_000),
        misses_leader(2, 1, 1_100, 20_000),
        observation("controller-unreachable", 2, 1, 1_000, 20_000, controller=1),
        state(2, 10_000, "fenced", SILENT),
        left(2, 10_000, 900, rule="fencing", why=SILENT),
    ]


@incident(Cause.CUT_BOTH_WAYS)
def connection_to_the_follower_that_is_controller_cut() -> Witnesses:
    """Leader 1 loses follower 3, which is the controller and fences it."""
    return [
        misses_follower(1, 3, 1_000, 20_000),
        misses_leader(3, 1, 1_100, 20_000),
        observation("controller-unreachable", 1, 3, 1_000, 20_000, controller=3),
        state(1, 10_000, "fenced", SILENT),
        elected(1, 2, 10_000, SILENT),
        left(1, 10_000, 900, rule="fencing", why=SILENT),
    ]


@incident(Cause.CONTROLLER, 1)
def deposed_leader_that_does_not_know_it() -> Witnesses:
    """It and its successor both miss fetches and no answers: no connection was cut."""
    return [
        observation("controller-unreachable", 1, 3, 1_000, 20_000, controller=3),
        state(1, 10_000, "fenced", SILENT),
        elected(1, 2, 10_000, SILENT),
        left(1, 10_000, 900, rule="fencing", why=SILENT),
        misses_follower(1, 2, 10_100, 20_000),
        misses_follower(2, 1, 10_100, 20_000),
    ]


@incident(Cause.CUT_BOTH_WAYS)
def two_causes() -> Witnesses:
    """The connection to one follower was cut while the other was paused; the watermark waited for both."""
    return [
        stall(3, 1_000, 14_000),
        misses_follower(1, 2, 1_000, 14_000),
        misses_leader(2, 1, 1_000, 14_000),
        dataclasses.replace(held(2, 1_000, 7_000), evidence={"holders": "2,3"}),
        left(2, 12_000, 900),
        left(3, 12_000, 900),
    ]


@incident(Cause.UNKNOWN, 2)
def follower_silent() -> Witnesses:
    """The leader missed it for a while, and it reported nothing about that."""
    return [misses_follower(1, 2, 1_000, 14_000), left(2, 12_000, 900)]


# The controller.


@incident(Cause.CONTROLLER, 1)
def leader_lost_the_controller() -> Witnesses:
    """It ran and received its followers' fetches; only its heartbeats did not arrive."""
    return [
        observation("controller-unreachable", 1, 3, 1_000, 20_000, controller=3),
        state(1, 10_000, "fenced", SILENT),
        elected(1, 2, 10_000, SILENT),
        left(1, 10_000, 0, rule="fencing", why=SILENT),
    ]


@incident(Cause.CONTROLLER, 2)
def follower_lost_the_controller_for_a_moment() -> Witnesses:
    """Shorter than its session, so the controller did not fence it."""
    return [observation("controller-unreachable", 2, 3, 1_000, 5_000, controller=3)]


@incident(Cause.FENCED_ALIVE, 2)
def follower_fenced_though_alive() -> Witnesses:
    """Only its heartbeats did not arrive; it went on fetching."""
    return [
        observation("controller-unreachable", 2, 3, 1_000, 20_000, controller=3),
        state(2, 10_000, "fenced", SILENT),
        left(2, 10_000, 0, rule="fencing", why=SILENT),
        joined(2, 21_000),
    ]


@incident(Cause.FENCED_ALIVE, 2, since=0)
def follower_paused_before_its_session() -> Witnesses:
    """What ended before the session that timed out explains no fencing."""
    return [
        stall(2, -9_000, -3_000),
        observation("controller-unreachable", 2, 3, 1_000, 20_000, controller=3),
        state(2, 10_000, "fenced", SILENT),
        left(2, 10_000, 900, rule="fencing", why=SILENT),
    ]


@incident(Cause.METADATA_LATE, 2)
def follower_learned_late() -> Witnesses:
    """It never fetched because it did not know that it should, and its log began empty for the same reason."""
    return [
        observation("metadata-late", 3, 2, 0, 15_000, applied_version=7, committed_version=9, last_contact_ago_ms=300),
        misses_follower(1, 2, 100, 15_000),
        left(2, 12_000, 0),
        observation("catching-up", 2, 2, 15_000, 15_500, topic="flights", partition=3, leader_end=10),
        joined(2, 15_600),
    ]


@incident(Cause.METADATA_LATE, 2)
def follower_learned_late_and_was_silent() -> Witnesses:
    """The first report came just after a heartbeat; a gap was reported later."""
    numbers = {"applied_version": 7, "committed_version": 9, "last_contact_ago_ms": 300}
    return [
        observation("metadata-late", 3, 2, 0, 15_000, **numbers),
        observation("heartbeat-gap", 3, 2, 4_000, 7_400),
        left(2, 12_000, 0),
    ]


@incident(Cause.UNKNOWN, 2)
def fenced_for_a_reason_that_no_reader_knows() -> Witnesses:
    """A broker of another version wrote the reason."""
    return [state(2, 10_000, "fenced"), left(2, 10_000, 900, rule="fencing")]


# Clients and new replicas.


@incident(Cause.BURST)
def burst_in_messages_mode() -> Witnesses:
    """All brokers were healthy, the follower fetched a moment ago, and clients wrote much more than usual."""
    return [
        *(sample(2, at, at // 100) for at in range(0, 9_000, 1_000)),
        sample(2, 9_000, 150_000, inflow=150_000),
        left(2, 9_200, 9_100, rule="lag:messages", most=4_000),
        joined(2, 9_400),
    ]


@incident(Cause.NEW_REPLICA, 2)
def follower_came_back_empty() -> Witnesses:
    """It died before; what stands out is the log that it had to fill."""
    return [
        state(2, 1_000, "fenced", GONE),
        left(2, 1_000, 0, rule="fencing", why=GONE),
        state(2, 5_000, "registered"),
        observation(
            "catching-up",
            2,
            2,
            5_500,
            30_000,
            topic="flights",
            partition=3,
            log_start=0,
            log_end=90_000,
            leader_end=90_000,
            records_per_s=3_600,
        ),
        joined(2, 30_000),
    ]


@incident(Cause.FOLLOWER_PAUSED, 2, since=20_000)
def follower_paused_after_it_was_filled() -> Witnesses:
    """An empty log that was filled earlier is no cause of the next absence."""
    return [
        observation("catching-up", 2, 2, 0, 1_000, topic="flights", partition=3, leader_end=10),
        joined(2, 1_500),
        stall(2, 31_000, 44_000),
        left(2, 42_000, 30_900),
        joined(2, 44_500),
    ]


@incident(Cause.THROTTLED, 2)
def follower_held_back_by_a_throttle() -> Witnesses:
    """It was away, and copies what it lacks; other partitions and samples that are over do not matter."""
    return [
        state(2, 1_000, "fenced", GONE),
        left(2, 1_000, 0, rule="fencing", why=GONE),
        state(2, 5_000, "registered"),
        throttled(1, 6_000, 6_000, "flights-3@2", "begin"),
        throttled(1, 6_000, 11_000, "flights-3@2"),
        throttled(3, 5_500, 9_000, "flights-4@2"),
    ]


@incident(Cause.THROTTLED, 3)
def new_replica_held_back_by_its_move() -> Witnesses:
    """Its own broker fetches no more for the move."""
    return [throttled(3, 0, 5_000, "flights-3@3", held=40, role="follower", move="m-7")]


# Broker 3 gets a replica of flights-3.
OWN_MOVE = [reassigned(-1_000, "started", (1, 2, 3), (3,), (), "m-3")]


@incident(Cause.STARVED, 2)
def follower_starved_by_a_neighbours_move() -> Witnesses:
    """Of the rate that lists share out, a move of other partitions gets most; the first sample knows nothing of it."""
    neighbour = ("flights-7@4", 3_600_000, "m-7")
    return [
        throttled(1, 6_000, 6_000, "flights-3@2", "begin"),
        throttled(1, 6_000, 11_000, "flights-3@2", taken=[neighbour, ("flights-3@2", 1_300_000, None)]),
        throttled(1, 6_000, 16_000, "flights-3@2", taken=[neighbour, ("flights-3@2", 1_300_000, None)]),
    ]


@incident(Cause.STARVED, 2)
def follower_starved_by_reassignments_without_an_id() -> Witnesses:
    """They were requested by Kafka's tool; a third of what passes is theirs."""
    rows = [("flights-3@2", 2_000_000, None), ("flights-7@4", 1_000_000, "")]
    return [throttled(1, 0, 5_000, "flights-3@2", taken=rows)]


@incident(Cause.STARVED, 3)
def new_replica_starved_by_another_move() -> Witnesses:
    """Its own move gets little of what its broker may receive."""
    rows = [("flights-7@3", 4_000_000, "m-7"), ("flights-3@3", 600_000, "m-3"), ("flights-9@3", 400_000, "m-3")]
    return [*OWN_MOVE, throttled(3, 0, 5_000, "flights-3@3", role="follower", taken=rows)]


@incident(Cause.THROTTLED, 3)
def new_replica_waits_for_others_of_its_own_move() -> Witnesses:
    """They are no neighbours: the rate is too low for the move."""
    rows = [("flights-7@3", 4_000_000, "m-3"), ("flights-3@3", 600_000, "m-3")]
    return [*OWN_MOVE, throttled(3, 0, 5_000, "flights-3@3", role="follower", taken=rows)]


@incident(Cause.THROTTLED, 2)
def follower_that_waits_for_members() -> Witnesses:
    """Followers in sync get most of the rate, and a neighbour's move less than 30 % (KAFKA-4313)."""
    rows = [("flights-5@3", 3_000_000, None), ("flights-7@4", 1_200_000, "m-7")]
    return [throttled(1, 0, 5_000, "flights-3@2", taken=rows)]


@incident(Cause.THROTTLED, 2)
def follower_held_back_again() -> Witnesses:
    """The rate was enough for it at times."""
    return [
        throttled(1, 0, 5_000, "flights-3@2"),
        throttled(1, 0, 5_900, "", "end"),
        throttled(1, 10_000, 15_000, "flights-3@2", "begin"),
        throttled(1, 10_000, 15_900, "", "end"),
    ]


@incident(Cause.FOLLOWER_DEAD, 2)
def throttle_that_has_ended() -> Witnesses:
    """The replica joined; that it was held back before is told, and is not the main cause."""
    return [
        throttled(1, -9_000, 900, "flights-3@2"),
        throttled(1, -9_000, 5_900, "", "end"),
        state(2, 1_000, "fenced", GONE),
        left(2, 1_000, 0, rule="fencing", why=GONE),
        throttled(1, 6_000, 6_000, "flights-3@2", "begin"),
        throttled(1, 6_000, 16_000, "", "end"),
        joined(2, 12_000),
    ]


# The leader's and the controller's decisions alone.


@incident(Cause.UNKNOWN, 2)
def follower_behind_in_messages_mode() -> Witnesses:
    """It was 150 records behind, and 100 are allowed."""
    return [left(2, 9_200, 9_100, rule="lag:messages", most=100)]


@incident(None)
def follower_joined() -> Witnesses:
    """The evidence shows where its log and the watermark ended."""
    evidence = {"log_end": 1_100, "high_watermark": 1_050}
    return [dataclasses.replace(joined(2, 1_000), evidence=evidence)]


@incident(None)
def follower_joined_by_another_rule() -> Witnesses:
    """A broker of another version wrote the rule."""
    return [dataclasses.replace(joined(2, 1_000), rule="rule-of-tomorrow")]


@incident(Cause.UNKNOWN, 2)
def follower_left_without_a_trace() -> Witnesses:
    """No broker reported anything."""
    return [left(2, 12_000, 900), joined(2, 13_000)]


@incident(Cause.UNKNOWN, 2)
def follower_fetched_after_the_decision() -> Witnesses:
    """The controller took long to agree, and the replica fetched meanwhile."""
    change = left(2, 15_000, 500, asked=14_900)
    return [dataclasses.replace(change, evidence={**change.evidence, "now_ms": 900_000 + 13_000})]


@incident(Cause.UNKNOWN, 2)
def follower_never_caught_up() -> Witnesses:
    """The leader never saw it with the whole log, and received no fetch."""
    change = left(2, 15_000, 500)
    evidence = {name: value for name, value in change.evidence.items() if name != "asked"}
    return [dataclasses.replace(change, evidence={**evidence, "followers": [{"broker_id": 2, "log_end": 0}]})]


@incident(Cause.UNKNOWN, 2)
def follower_left_by_another_rule() -> Witnesses:
    """The evidence holds no number that a sentence could name."""
    return [dataclasses.replace(left(2, 15_000, 500), rule="lag:of-tomorrow", evidence={})]


@incident(Cause.UNKNOWN, 2)
def follower_waited_for_an_answer() -> Witnesses:
    """The leader had not answered its fetch, for whatever reason."""
    change = left(2, 15_000, 500)
    asked = [{"broker_id": 2, "asked_ms": 901_000, "is_owed": True}]
    return [dataclasses.replace(change, evidence={**change.evidence, "asked": asked})]


@incident(None)
def leader_after_none() -> Witnesses:
    """The partition was offline, and the election is unclean."""
    return [dataclasses.replace(elected(-1, 3, 9_000, Why(Reason.UNCLEAN_ALLOWED, {})), clean=False)]


@incident(Cause.LEADER_DEAD, 1)
def none_after_a_leader() -> Witnesses:
    """No member of the ISR is left."""
    return [state(1, 5_000, "fenced", GONE), elected(1, -1, 5_000, GONE)]


@incident(Cause.UNKNOWN, 1)
def unclean_change_of_the_isr() -> Witnesses:
    """The old member is out, and the elected replica is in."""
    return [
        dataclasses.replace(
            left(1, 9_000, 0, rule="fencing", why=SILENT), before=(1,), after=(2,), rule="election", change="expand"
        )
    ]


@incident(None)
def replicas_moved() -> Witnesses:
    """First to 4 and 5, then to 4 alone: 1 leaves, and 4 leads, in the change in which 4 joins."""
    completed = Why(Reason.REASSIGNMENT_COMPLETED, {})
    change = left(1, 9_000, 0, rule="reassignment", why=completed)
    return [
        reassigned(1_000, "started", (4, 5, 3, 1, 2), (4, 5), (1, 2), "night"),
        reassigned(2_000, "changed", (4, 2, 3, 1), (4,), (1,), "night"),
        reassigned(9_000, "completed", (4, 2, 3), (4,), (1,), "night"),
        elected(1, 4, 9_000, completed),
        dataclasses.replace(change, before=(1, 2, 3), after=(2, 3, 4), change="expand"),
    ]


@incident(None)
def move_cancelled() -> Witnesses:
    """By an administrator, before 4 was in sync."""
    return [
        reassigned(1_000, "started", (1, 2, 3, 4), (4,), ()),
        reassigned(5_000, "cancelled", (1, 2, 3), (4,), ()),
    ]


@incident(Cause.NEW_REPLICA, 3)
def move_cancelled_and_repeated() -> Witnesses:
    """The copy of the cancelled move ended without numbers; the second one led to the join."""
    place = {"topic": "flights", "partition": 3}
    return [
        observation("catching-up", 3, 3, 1_000, 4_000, **place),
        observation("catching-up", 3, 3, 6_000, 9_000, **place, log_end=900, leader_end=900, records_per_s=300),
        joined(3, 9_000),
    ]


@incident(None)
def created_partition() -> Witnesses:
    """The first election is the partition's beginning, and no change of its leader."""
    return [elected(-1, 1, 9_000, Why(Reason.CREATED, {}))]


@incident(None)
def topic_deleted() -> Witnesses:
    """An administrator wanted it; another topic was deleted as well."""
    return [deleted(4_000, "others"), deleted(9_000)]


@incident(None)
def preferred_leader_again() -> Witnesses:
    """The balancer wanted it: nothing was wrong."""
    return [elected(2, 1, 9_000, Why(Reason.PREFERRED_REPLICA_BACK, {}))]


@incident(None)
def refused_change() -> Witnesses:
    """The leader did not know the newest state."""
    return [
        dataclasses.replace(
            left(2, 12_000, 900),
            outcome="refused",
            evidence={"error": "INVALID_UPDATE_VERSION", "leader_epoch": 4, "partition_epoch": 6},
        )
    ]


@incident(None)
def refused_change_without_evidence() -> Witnesses:
    """No number and no error is known."""
    return [dataclasses.replace(left(2, 12_000, 900), outcome="refused", evidence={})]


@incident(None)
def truncated_log() -> Witnesses:
    """A follower's history differs from its leader's, and it cuts three records."""
    return [truncated(2, 5_000, 203, 200)]


@incident(None)
def truncation_that_cut_nothing() -> Witnesses:
    """A follower compared its history, and keeps all of it."""
    return [truncated(2, 5_000, 203, 203)]


@incident(Cause.FOLLOWER_DEAD, 2)
def isr_below_its_minimum() -> Witnesses:
    """The watermark waits for the replicas that left, and for none in the ISR."""
    return [
        state(2, 5_000, "fenced", GONE),
        left(2, 5_000, 0, rule="fencing", why=GONE),
        dataclasses.replace(
            held(2, 6_000, 7_000), rule="held:min-isr", evidence={"isr_size": 1, "effective_min_isr": 2}
        ),
    ]


@incident(Cause.FOLLOWER_PAUSED, 2)
def watermark_held_by_a_joiner() -> Witnesses:
    """A replica that the leader proposed for the ISR counts already."""
    return [stall(2, 1_000, 14_000), dataclasses.replace(held(2, 1_000, 7_000), rule="held:near-isr")]


@incident(Cause.UNKNOWN, -1)
def watermark_held_by_unknown_replicas() -> Witnesses:
    """The evidence does not name them."""
    return [dataclasses.replace(held(2, 1_000, 7_000), evidence={})]


@incident(Cause.FOLLOWER_PAUSED, 3)
def watermark_held_by_many() -> Witnesses:
    """Each of those that it waited for had a condition of its own; these are many for three replicas."""
    return [
        stall(3, 1_000, 14_000),
        misses_follower(1, 2, 1_000, 14_000),
        state(4, 1_000, "fenced", GONE),
        state(5, 1_000, "shutdown"),
        slow_disk(6, 1_000, 14_000, "write"),
        observation("metadata-late", 1, 7, 1_000, 14_000, applied_version=7, committed_version=9),
        observation("catching-up", 8, 8, 1_000, 14_000, topic="flights", partition=3),
        *(sample(2, at, at // 100) for at in range(-5_000, 0, 1_000)),
        sample(2, 5_000, 150_000, inflow=150_000),
        dataclasses.replace(held(2, 1_000, 7_000), evidence={"holders": "3,2,4,5,6,7,8,9"}),
    ]
