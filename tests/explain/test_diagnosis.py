"""A diagnosis names the true cause from what brokers tell, and says so when nobody told."""

import dataclasses

import pytest

from syncline.explain.findings import Cause, Diagnosis, Effect
from syncline.explain.sentences import tell
from syncline.model.events import Truncation
from syncline.model.reasons import Reason

from .witnesses import (
    GONE,
    NOON,
    SILENT,
    Why,
    diagnosed,
    elected,
    fault,
    held,
    joined,
    left,
    misses_follower,
    misses_leader,
    observation,
    sample,
    shown,
    slow_disk,
    stall,
    state,
)


def main_of(diagnosis: Diagnosis) -> tuple[Cause, int]:
    """Return the main cause and whom it befell."""
    assert diagnosis.main is not None
    return diagnosis.main.cause, diagnosis.main.broker


def words(diagnosis: Diagnosis) -> str:
    """Return all sentences."""
    return "\n".join(tell(diagnosis, shown))


def test_leader_that_gave_a_partition_away_had_a_slow_disk() -> None:
    """Relinquishing and the election that follows have one cause; a spared replica is told, too."""
    relinquished = dataclasses.replace(
        left(2, 3_000, 500), change="relinquish", before=(1, 2, 3), after=(1, 2, 3), rule="slow-reads"
    )
    diagnosis = diagnosed(
        slow_disk(1, 2_000, 27_000, "read", replica=2),
        observation("protection", 1, 2, 2_000, 3_000, topic="flights", partition=3),
        relinquished,
        elected(1, 3, 3_000, Why(Reason.PROPOSED_BY_LEADER, {})),
    )

    assert main_of(diagnosis) == (Cause.LEADER_DISK, 1)
    assert [each.effect for each in diagnosis.findings] == [Effect.SPARED, Effect.RELINQUISHED, Effect.ELECTED]
    assert "Leader 1 gave flights-3 away" in words(diagnosis)


def test_nothing_is_said_of_a_quiet_partition() -> None:
    """No event, no finding, and a sentence that says so."""
    diagnosis = diagnosed(sample(2, 0, 10), sample(2, 1_000, 20))

    assert (diagnosis.findings, diagnosis.main) == ([], None)
    assert words(diagnosis).startswith("Nothing happened to flights-3")


def test_follower_is_dead_when_the_controller_found_its_process_gone() -> None:
    """A fencing for a refused connection is a death; the silence to its leader is no cut line."""
    diagnosis = diagnosed(
        misses_follower(1, 2, 5_000, 9_000),
        state(2, 5_100, "fenced", GONE),
        left(2, 5_100, 0, rule="fencing", why=GONE),
        state(2, 9_000, "registered"),
        joined(2, 9_500),
    )

    assert main_of(diagnosis) == (Cause.FOLLOWER_DEAD, 2)
    assert "its next process registered at 9" in words(diagnosis)


def test_leader_is_dead_when_its_process_is_gone_and_another_leads() -> None:
    """The same death has the leader's name when it led."""
    diagnosis = diagnosed(
        state(1, 5_000, "fenced", GONE),
        elected(1, 2, 5_000, GONE),
        left(1, 5_000, 0, rule="fencing", why=GONE),
    )

    assert main_of(diagnosis) == (Cause.LEADER_DEAD, 1)
    assert {each.effect for each in diagnosis.findings} == {Effect.ELECTED, Effect.LEFT}


def test_follower_was_paused_when_it_says_so_itself() -> None:
    """Its own stall explains all silences about it."""
    diagnosis = diagnosed(
        misses_follower(1, 2, 1_000, 14_000),
        observation("heartbeat-gap", 3, 2, 1_000, 14_000),
        left(2, 12_000, 900),
        held(2, 1_000, 7_000),
        stall(2, 1_000, 14_000),
        joined(2, 14_500),
    )

    assert main_of(diagnosis) == (Cause.FOLLOWER_PAUSED, 2)
    assert "last had everything at 0.9, 11.1 s before, more than replica.lag.time.max.ms 10 s" in words(diagnosis)
    assert "its loop did not run from 1 to 14" in words(diagnosis)


def test_follower_seems_paused_when_nobody_hears_it_and_it_has_not_spoken_since() -> None:
    """Before it is back only the others speak; that is said."""
    diagnosis = diagnosed(
        misses_follower(1, 2, 1_000, 14_000)[:1],
        observation("heartbeat-gap", 3, 2, 1_000, 8_000)[:1],
        left(2, 12_000, 900),
    )

    assert main_of(diagnosis) == (Cause.FOLLOWER_PAUSED, 2)
    assert "heard of by nobody" in words(diagnosis)


def test_leader_was_paused_when_its_loop_stood_still() -> None:
    """Followers miss it, the controller fences it; it says itself why when it is back."""
    diagnosis = diagnosed(
        misses_leader(2, 1, 1_000, 10_000),
        misses_leader(3, 1, 1_000, 10_000),
        observation("controller-unreachable", 1, 3, 10_500, 12_000, controller=3),
        state(1, 10_000, "fenced", SILENT),
        elected(1, 2, 10_000, SILENT),
        left(1, 10_000, 0, rule="fencing", why=SILENT),
        stall(1, 1_000, 12_000),
    )

    assert main_of(diagnosis) == (Cause.LEADER_PAUSED, 1)


def test_leader_was_paused_although_nothing_came_of_it() -> None:
    """A pause within the session time-out changes nothing, and is told nevertheless."""
    diagnosis = diagnosed(misses_leader(2, 1, 1_000, 4_000), stall(1, 1_000, 4_000))

    assert main_of(diagnosis) == (Cause.LEADER_PAUSED, 1)
    assert "Nothing came of it" in words(diagnosis)


def test_leaders_disk_was_slow_as_in_the_worked_example() -> None:
    """The example of KIP-501's worked table in words: it did ask, and waited for the leader's disk."""
    diagnosis = diagnosed(
        misses_leader(2, 1, 2_000, 27_000, beats=80),
        slow_disk(1, 2_000, 27_000, "read", replica=2),
        left(2, 15_000, 500, asked=2_000, reading=2_000),
        joined(2, 27_100),
    )

    assert main_of(diagnosis) == (Cause.LEADER_DISK, 1)
    assert (
        "Replica 2 left the ISR of flights-3 at 15: it last had everything at 0.5, 14.5 s before, more than "
        "replica.lag.time.max.ms 10 s. It did ask: its fetch of 2 had waited 13 s for this leader's disk. KIP-501 "
        "protection is off; with it on the replica would have stayed."
    ) in words(diagnosis)


def test_followers_disk_was_slow_when_its_writes_held_its_loop_up() -> None:
    """The stall that comes with it is no pause of the process."""
    diagnosis = diagnosed(
        slow_disk(2, 1_000, 9_000, "write"),
        slow_disk(2, 9_000, 17_000, "write"),
        stall(2, 1_200, 9_000, held_by_disk_ms=7_700),
        misses_follower(1, 2, 1_000, 9_000),
        left(2, 12_000, 1_000),
    )

    assert main_of(diagnosis) == (Cause.FOLLOWER_DISK, 2)


def test_followers_disk_was_slow_when_its_log_waited_to_be_cut() -> None:
    """Its loop went on, and yet it could not fetch: nothing is asked before the log has been cut."""
    diagnosis = diagnosed(slow_disk(2, 1_000, 17_000, "cut"), left(2, 12_000, 1_000))

    assert main_of(diagnosis) == (Cause.FOLLOWER_DISK, 2)
    assert "a cut of flights-3 took" in words(diagnosis)


def test_leaders_disk_is_not_blamed_for_reads_of_clients() -> None:
    """A consumer that waits for old records holds no follower up."""
    diagnosis = diagnosed(slow_disk(1, 1_000, 9_000, "read"), stall(2, 500, 13_000), left(2, 12_000, 400))

    assert main_of(diagnosis) == (Cause.FOLLOWER_PAUSED, 2)


def test_line_is_cut_both_ways_when_neither_hears_the_other() -> None:
    """Both miss each other, no beat arrives, and both ran."""
    diagnosis = diagnosed(
        misses_follower(1, 2, 1_000, 20_000), misses_leader(2, 1, 1_100, 20_000), left(2, 12_000, 900)
    )

    assert main_of(diagnosis)[0] is Cause.CUT_BOTH_WAYS
    assert "None of broker 2's beats reached broker 1." in words(diagnosis)


@pytest.mark.parametrize(("heard_by", "lost"), [(1, ((1, 2),)), (2, ((2, 1),))])
def test_line_is_cut_one_way_where_beats_do_not_arrive(heard_by: int, lost: tuple[tuple[int, int], ...]) -> None:
    """Beats that arrive prove the other direction."""
    diagnosis = diagnosed(
        misses_follower(1, 2, 1_000, 20_000, beats=60 if heard_by == 1 else 0),
        misses_leader(2, 1, 1_100, 20_000, beats=60 if heard_by == 2 else 0),
        left(2, 12_000, 900),
    )

    assert diagnosis.main is not None
    assert diagnosis.main.cause is Cause.CUT_ONE_WAY
    assert diagnosis.main.condition is not None
    assert diagnosis.main.condition.lost == lost
    assert f"nothing arrives from broker {lost[0][0]} at broker {lost[0][1]}" in words(diagnosis)


def test_cut_line_to_the_leader_is_deeper_than_the_fencing_by_it_as_the_controller() -> None:
    """A leader that is the controller, too, loses both at once; the line is the cause."""
    diagnosis = diagnosed(
        misses_follower(1, 2, 1_000, 20_000),
        misses_leader(2, 1, 1_100, 20_000),
        observation("controller-unreachable", 2, 1, 1_000, 20_000, controller=1),
        state(2, 10_000, "fenced", SILENT),
        left(2, 10_000, 900, rule="fencing", why=SILENT),
    )

    assert main_of(diagnosis)[0] is Cause.CUT_BOTH_WAYS


def test_line_between_replicas_is_named_also_when_it_is_the_leaders_line_to_the_controller() -> None:
    """Leader 1 lost follower 3, who is the controller and fenced it."""
    diagnosis = diagnosed(
        misses_follower(1, 3, 1_000, 20_000),
        misses_leader(3, 1, 1_100, 20_000),
        observation("controller-unreachable", 1, 3, 1_000, 20_000, controller=3),
        state(1, 10_000, "fenced", SILENT),
        elected(1, 2, 10_000, SILENT),
        left(1, 10_000, 900, rule="fencing", why=SILENT),
    )

    assert main_of(diagnosis)[0] is Cause.CUT_BOTH_WAYS


def test_brokers_that_do_not_know_whom_to_follow_have_no_cut_line() -> None:
    """A deposed leader that does not know it, and its successor, both miss fetches, and nobody's answer."""
    diagnosis = diagnosed(
        observation("controller-unreachable", 1, 3, 1_000, 20_000, controller=3),
        state(1, 10_000, "fenced", SILENT),
        elected(1, 2, 10_000, SILENT),
        left(1, 10_000, 900, rule="fencing", why=SILENT),
        misses_follower(1, 2, 10_100, 20_000),
        misses_follower(2, 1, 10_100, 20_000),
    )

    assert main_of(diagnosis) == (Cause.CONTROLLER, 1)
    assert "missed each other" not in words(diagnosis)


def test_what_was_over_before_the_session_began_explains_no_fencing() -> None:
    """A pause a moment earlier is another story."""
    diagnosis = diagnosed(
        stall(2, -9_000, -3_000),
        observation("controller-unreachable", 2, 3, 1_000, 20_000, controller=3),
        state(2, 10_000, "fenced", SILENT),
        left(2, 10_000, 900, rule="fencing", why=SILENT),
        since=0,
    )

    assert main_of(diagnosis) == (Cause.FENCED_ALIVE, 2)


def test_burst_evicts_a_healthy_follower_in_messages_mode() -> None:
    """Nobody stood still, the follower asked a moment ago, and much more than usual was written."""
    diagnosis = diagnosed(
        *(sample(2, at, at // 100) for at in range(0, 9_000, 1_000)),
        sample(2, 9_000, 150_000, inflow=150_000),
        left(2, 9_200, 9_100, rule="lag:messages", most=4_000),
        joined(2, 9_400),
    )

    assert main_of(diagnosis)[0] is Cause.BURST
    assert "150,000 records were written in one interval" in words(diagnosis)


def test_new_replica_is_named_when_a_log_began_empty() -> None:
    """The death before it is told as well; what stands out is the log that had to be filled."""
    diagnosis = diagnosed(
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
    )

    assert main_of(diagnosis) == (Cause.NEW_REPLICA, 2)
    assert [each.cause for each in diagnosis.findings] == [Cause.FOLLOWER_DEAD, Cause.NEW_REPLICA]
    assert "reached offset 90,000 of 90,000" in words(diagnosis)


def test_log_that_was_filled_once_is_no_cause_of_the_next_absence() -> None:
    """A replica that began with an empty log, joined, and was paused a minute later."""
    diagnosis = diagnosed(
        observation("catching-up", 2, 2, 0, 1_000, topic="flights", partition=3, leader_end=10),
        joined(2, 1_500),
        stall(2, 31_000, 44_000),
        left(2, 42_000, 30_900),
        joined(2, 44_500),
        since=20_000,
    )

    assert main_of(diagnosis) == (Cause.FOLLOWER_PAUSED, 2)


def test_controller_was_unreachable_for_a_leader_that_it_fenced() -> None:
    """The leader ran, heard its followers, and could not be heard by the controller."""
    diagnosis = diagnosed(
        observation("controller-unreachable", 1, 3, 1_000, 20_000, controller=3),
        state(1, 10_000, "fenced", SILENT),
        elected(1, 2, 10_000, SILENT),
        left(1, 10_000, 0, rule="fencing", why=SILENT),
    )

    assert main_of(diagnosis) == (Cause.CONTROLLER, 1)


def test_controller_was_unreachable_without_effect_when_it_was_short() -> None:
    """Nobody was fenced; the broker tells it all the same."""
    diagnosis = diagnosed(observation("controller-unreachable", 2, 3, 1_000, 5_000, controller=3))

    assert main_of(diagnosis) == (Cause.CONTROLLER, 2)


def test_broker_was_fenced_though_alive_when_it_went_on_fetching() -> None:
    """A follower that only the controller does not hear of."""
    diagnosis = diagnosed(
        observation("controller-unreachable", 2, 3, 1_000, 20_000, controller=3),
        state(2, 10_000, "fenced", SILENT),
        left(2, 10_000, 0, rule="fencing", why=SILENT),
        joined(2, 21_000),
    )

    assert main_of(diagnosis) == (Cause.FENCED_ALIVE, 2)
    assert "It went on fetching from leader 1 meanwhile" in words(diagnosis)


def test_paused_controller_is_not_called_unreachable() -> None:
    """Whoever cannot reach a controller that stood still did not cause anything."""
    diagnosis = diagnosed(
        observation("controller-unreachable", 2, 3, 1_000, 10_000, controller=3), stall(3, 1_000, 10_000)
    )

    assert main_of(diagnosis) == (Cause.FOLLOWER_PAUSED, 3)


def test_metadata_was_late_when_a_follower_learned_of_its_partition_too_late() -> None:
    """It never fetched, its line was silent for want of knowledge, and its log began empty for the same reason."""
    diagnosis = diagnosed(
        observation("metadata-late", 3, 2, 0, 15_000, applied_version=7, committed_version=9),
        misses_follower(1, 2, 100, 15_000),
        left(2, 12_000, 0),
        observation("catching-up", 2, 2, 15_000, 15_500, topic="flights", partition=3, leader_end=10),
        joined(2, 15_600),
    )

    assert main_of(diagnosis) == (Cause.METADATA_LATE, 2)


def test_cause_is_unknown_when_nobody_told_of_any() -> None:
    """No guess: the sentence says that nothing was told."""
    diagnosis = diagnosed(left(2, 12_000, 900), joined(2, 13_000))

    assert main_of(diagnosis)[0] is Cause.UNKNOWN
    assert "The cause is unknown" in words(diagnosis)


def test_injected_faults_are_never_evidence() -> None:
    """The truth that explanations are held against changes nothing."""
    told = (left(2, 12_000, 900), joined(2, 13_000))

    with_truth = diagnosed(fault("pause", "broker-2", 1_000), *told)

    assert words(with_truth) == words(diagnosed(*told))


def test_events_told_twice_count_once() -> None:
    """The journal may repeat what it could not see acknowledged."""
    told = (*stall(2, 1_000, 14_000), left(2, 12_000, 900))

    assert len(diagnosed(*told, *told).findings) == 1


def test_findings_can_be_asked_for_one_replica() -> None:
    """`--replica` leaves out what befell others."""
    diagnosis = diagnosed(
        stall(2, 1_000, 14_000), left(2, 12_000, 900), stall(3, 31_000, 44_000), left(3, 42_000, 30_900), replica=3
    )

    assert {each.replica for each in diagnosis.findings} == {3}


def test_window_leaves_out_what_was_before() -> None:
    """Older events help to understand, and are no findings."""
    diagnosis = diagnosed(stall(2, 1_000, 14_000), left(2, 12_000, 900), joined(2, 15_000), since=14_500)

    assert [each.effect for each in diagnosis.findings] == [Effect.JOINED]


def test_reads_of_two_followers_that_began_together_are_both_told() -> None:
    """Each replica that left while the leader's disk was slow has the disk for its cause."""
    diagnosis = diagnosed(
        slow_disk(1, 2_000, 27_000, "read", replica=2),
        slow_disk(1, 2_000, 20_000, "read", replica=3),
        left(2, 15_000, 500, asked=2_000, reading=2_000),
        left(3, 15_000, 500, asked=2_000, reading=2_000),
    )

    assert [(each.replica, each.cause) for each in diagnosis.findings] == [
        (2, Cause.LEADER_DISK),
        (3, Cause.LEADER_DISK),
    ]
    assert "for replica 2's fetch took 25 s" in words(diagnosis)
    assert "for replica 3's fetch took 18 s" in words(diagnosis)


def test_leaders_disk_is_named_by_the_decision_itself_when_nothing_else_is_told_yet() -> None:
    """The decision says that a read was under way: that is known, although no observation has come through."""
    diagnosis = diagnosed(left(2, 15_000, 500, asked=2_000, reading=2_000))

    assert main_of(diagnosis) == (Cause.LEADER_DISK, 1)
    assert "unknown" not in words(diagnosis)
    assert "a read of flights-3 for replica 2's fetch took 13 s and was not over" in words(diagnosis)


def test_fetch_that_came_after_the_decision_is_told_as_such() -> None:
    """The controller was slow to agree, and the replica was back meanwhile: no time is negative."""
    change = left(2, 15_000, 500, asked=14_900)
    late = dataclasses.replace(change, evidence={**change.evidence, "now_ms": 900_000 + 13_000})
    told = words(diagnosed(late))

    assert "the leader proposed it at 13; it last had everything at 0.5, 12.5 s before" in told
    assert "It asked again at 14.9, when this was decided" in told
    assert "-" not in told.replace("flights-3", "").replace("KIP-501", "")


def test_leader_after_none_is_told_with_what_it_may_have_cost() -> None:
    """A partition that was offline and has a leader again, an unclean one even."""
    unclean = dataclasses.replace(elected(-1, 3, 9_000, Why(Reason.UNCLEAN_ALLOWED, {})), clean=False)
    diagnosis = diagnosed(unclean)
    told = words(diagnosis)

    assert "Broker 3 became leader of flights-3 at 9 after it had none, epoch 5" in told
    assert "The election was unclean: records may have been lost." in told
    assert "unknown" not in told
    assert diagnosis.main is None


def test_isr_of_an_unclean_election_is_told_in_words() -> None:
    """Who was in it is out, and who was elected is in."""
    change = dataclasses.replace(
        left(1, 9_000, 0, rule="fencing", why=SILENT), before=(1,), after=(2,), rule="election", change="expand"
    )
    told = words(diagnosed(change))

    assert (
        "Replica 1 left the ISR of flights-3 at 9: 2 was elected although not in it (no heartbeat for 9.1 s, and a "
        "session lasts 9 s)."
    ) in told
    assert "Replica 2 joined the ISR of flights-3 at 9: it was elected, although it was not known" in told


def test_partitions_beginning_is_no_change_of_its_leader() -> None:
    """A topic that was just made has a beginning and no history."""
    diagnosis = diagnosed(elected(-1, 1, 9_000, Why(Reason.CREATED, {})))

    assert (diagnosis.findings, diagnosis.created_ms) == ([], NOON + 9_000)
    assert words(diagnosis).startswith("Nothing happened to flights-3 since it was created at 9:")


def test_wanted_election_needs_no_cause() -> None:
    """The preferred leader leads again: nothing was wrong."""
    diagnosis = diagnosed(elected(2, 1, 9_000, Why(Reason.PREFERRED_REPLICA_BACK, {})))

    assert diagnosis.main is None
    assert "unknown" not in words(diagnosis)


def test_broker_that_stops_at_once_was_stopped_in_good_order() -> None:
    """One that leads nothing may go with its first word: it is fenced for that, and not for a fault."""
    why = Why(Reason.STOP_GRANTED, {})
    diagnosis = diagnosed(
        state(2, 5_000, "fenced", why),
        left(2, 5_000, 0, rule="fencing", why=why),
        state(2, 5_300, "registered"),
        joined(2, 5_400),
    )

    assert main_of(diagnosis) == (Cause.STOPPED, 2)
    assert "left the ISR of flights-3 at 5: it announced its stop to controller 3." in words(diagnosis)


def test_both_causes_are_named_when_there_are_two() -> None:
    """One follower was paused while the line to the other was cut; the watermark waited for both."""
    diagnosis = diagnosed(
        stall(3, 1_000, 14_000),
        misses_follower(1, 2, 1_000, 14_000),
        misses_leader(2, 1, 1_000, 14_000),
        dataclasses.replace(held(2, 1_000, 7_000), evidence={"holders": "2,3"}),
        left(2, 12_000, 900),
        left(3, 12_000, 900),
    )

    assert {each.replica: each.cause for each in diagnosis.findings if each.effect is Effect.LEFT} == {
        2: Cause.CUT_BOTH_WAYS,
        3: Cause.FOLLOWER_PAUSED,
    }
    (main,) = words(diagnosis).splitlines()[-1:]
    assert "the follower's process stood still (broker 3)" in main
    assert "the network between two brokers was cut in both directions" in main
    (stood,) = [line for line in words(diagnosis).splitlines() if "high watermark" in line]
    assert "process stood still (broker 3)" in stood
    assert "line cut" in stood or "the network" in stood


def test_truncation_that_cut_nothing_is_not_told() -> None:
    """A follower compared its history, and keeps all of it."""
    cut = Truncation(
        ts_ms=NOON + 5_000,
        broker=2,
        topic="flights",
        partition=3,
        leader=1,
        leader_epoch=5,
        log_end_before=203,
        log_end_after=200,
        rule="epoch-ends-differ",
        evidence={"answer_epoch": 3, "answer_end_offset": 200},
    )

    assert "back to 200 at 5" in words(diagnosed(cut))
    assert "(epoch-ends-differ: there, epoch 3 ends at 200)" in words(diagnosed(cut))
    assert not diagnosed(dataclasses.replace(cut, log_end_after=203)).findings


def test_slow_leader_tells_how_long_it_took() -> None:
    """With the limit that it broke."""
    relinquished = dataclasses.replace(
        left(2, 3_000, 500),
        change="relinquish",
        after=(1, 2, 3),
        rule="relinquish:slow-read",
        evidence={"follower": 2, "processing_ms": 501, "process_time_max_ms": 500},
    )

    assert "a fetch of replica 2 had taken 501 ms, more than follower.fetch.process.time.max.ms 500 ms" in words(
        diagnosed(relinquished)
    )


def test_watermark_below_the_least_isr_has_the_cause_of_those_that_left() -> None:
    """It waits for nobody in the ISR, but for those that are not in it any more."""
    stood = dataclasses.replace(
        held(2, 6_000, 7_000), rule="held:min-isr", evidence={"isr_size": 1, "effective_min_isr": 2}
    )
    diagnosis = diagnosed(
        state(2, 5_000, "fenced", GONE),
        left(2, 5_000, 0, rule="fencing", why=GONE),
        stood,
    )

    (finding,) = [each for each in diagnosis.findings if each.effect is Effect.HELD]
    assert finding.cause is Cause.FOLLOWER_DEAD
    assert "the ISR is smaller than min.insync.replicas: 1 of 2. Cause: the follower's process died" in words(diagnosis)
