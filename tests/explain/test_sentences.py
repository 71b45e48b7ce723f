"""A diagnosis in words: the sentences name the numbers, the brokers and the times."""

import pytest

from syncline.explain.words.sentences import tell

from . import incidents
from .witnesses import diagnosed, shown


def words(incident: object) -> str:
    """Return all paragraphs about an incident."""
    assert callable(incident)
    return "\n".join(tell(diagnosed(*incident()), shown))


@pytest.mark.parametrize(
    ("incident", "sentence"),
    [
        pytest.param(incidents.quiet_partition, "Nothing happened to flights-3 between -60 and 120:", id="quiet"),
        pytest.param(
            incidents.created_partition, "Nothing happened to flights-3 since it was created at 9:", id="created"
        ),
        pytest.param(incidents.topic_deleted, "Topic flights was deleted at 9, with all its records", id="deleted"),
        pytest.param(incidents.leader_gave_the_partition_away, "Leader 1 handed flights-3 over", id="given-away"),
        pytest.param(
            incidents.leader_gave_the_partition_away,
            "Replica 2 stayed in the ISR of flights-3 from 2 until 3 only because leader 1 had not answered its fetch",
            id="spared",
        ),
        pytest.param(
            incidents.leader_served_too_slowly,
            "a fetch of replica 2 had taken 501 ms, more than follower.fetch.process.time.max.ms 500 ms",
            id="served-too-slowly",
        ),
        pytest.param(
            incidents.follower_held_back_by_a_throttle,
            "Replica 2 of flights-3 was held back at 6: a quota limits how fast it copies. Cause: a throttle "
            "held the replica back (broker 2). Broker 1 sends at most 1,000,000 bytes per second for the "
            "replicas in throttle lists (strict quota), of which 990,000 were used; the quota held 1 replica "
            "back, this one from 6 to 11 (5 s), and this was not over at the last report.",
            id="throttled",
        ),
        pytest.param(
            incidents.follower_starved_by_a_neighbours_move,
            "Of 9,800,000 bytes transferred while it waited, 7,200,000 went to replicas that move m-7 is "
            "adding, most of them to the replica of flights-7 on broker 4: give that move its own throttle "
            "below the rate, or raise the rate.",
            id="starved",
        ),
        pytest.param(incidents.follower_died, "its next process registered at 9", id="died"),
        pytest.param(
            incidents.follower_paused,
            "was last caught up at 0.9, 11.1 s earlier, more than replica.lag.time.max.ms 10 s",
            id="late",
        ),
        pytest.param(incidents.follower_paused, "its event loop did not run from 1 to 14", id="paused"),
        pytest.param(
            incidents.follower_still_paused,
            "Since 1, neither the controller nor other replicas have received anything from broker 2",
            id="still-paused",
        ),
        pytest.param(
            incidents.leader_paused_without_effect,
            "At 1, something was unusual. It changed neither the ISR nor the leader of flights-3.",
            id="no-effect",
        ),
        pytest.param(
            incidents.leader_wrote_slowly_for_a_minute,
            "Between 0 and 37.06, something was unusual 10 times. It changed neither the ISR nor the leader "
            "of flights-3. Cause: the leader's disk was slow (broker 1). The longest one lasted 1.1 s. "
            "Broker 1 waited for its disk from 36 to 37.06: a write of flights-3 took 1.1 s. Otherwise, on "
            "broker 1 at that time",
            id="repeated",
        ),
        pytest.param(
            incidents.follower_held_back_again,
            "Between 5 and 15, replica 2 of flights-3 was held back 2 times: a quota limits how fast it copies.",
            id="throttled-again",
        ),
        pytest.param(
            incidents.leader_read_slowly,
            "Replica 2 left the ISR of flights-3 at 15: it was last caught up at 0.5, 14.5 s earlier, more "
            "than replica.lag.time.max.ms 10 s. It did fetch: its fetch at 2 had waited 13 s for this "
            "leader's disk. KIP-501 protection is off; with it, the replica would have stayed.",
            id="worked-example-of-kip-501",
        ),
        pytest.param(
            incidents.leader_read_slowly_for_two_followers, "for replica 2's fetch took 25 s", id="first-of-two-reads"
        ),
        pytest.param(
            incidents.leader_read_slowly_for_two_followers, "for replica 3's fetch took 18 s", id="second-of-two-reads"
        ),
        pytest.param(
            incidents.leader_still_reads,
            "a read of flights-3 for replica 2's fetch took 13 s, and this was not over at the last report.",
            id="still-reads",
        ),
        pytest.param(incidents.follower_waited_to_cut_its_log, "a cut of flights-3 took", id="cut-of-a-log"),
        pytest.param(incidents.connection_cut, "None of broker 2's beats reached broker 1.", id="no-beats"),
        pytest.param(
            incidents.connection_cut_towards_the_follower,
            "nothing arrives from broker 1 at broker 2",
            id="towards-follower",
        ),
        pytest.param(
            incidents.connection_cut_towards_the_leader,
            "nothing arrives from broker 2 at broker 1",
            id="towards-leader",
        ),
        pytest.param(
            incidents.follower_fenced_though_alive, "Meanwhile, it kept fetching from leader 1", id="fenced-alive"
        ),
        pytest.param(
            incidents.leader_lost_the_controller,
            "no heartbeat for 9.1 s, longer than the session timeout of 9 s",
            id="session",
        ),
        pytest.param(
            incidents.broker_stopped_at_once,
            "left the ISR of flights-3 at 5: it announced its shutdown to controller 3.",
            id="stopped",
        ),
        pytest.param(
            incidents.cluster_started_after_it_stopped,
            "Replica 2 left the ISR of flights-3 at 5: its broker was not serving yet when controller 3 "
            "elected a leader. Cause: the broker stopped cleanly (broker 2). Broker 2 had stopped cleanly, "
            "and its next process registered at 5.02.",
            id="started",
        ),
        pytest.param(
            incidents.burst_in_messages_mode, "Clients wrote up to 150,000 records in one interval", id="burst"
        ),
        pytest.param(incidents.follower_came_back_empty, "reached offset 90,000 of 90,000", id="empty-log"),
        pytest.param(incidents.follower_left_without_a_trace, "The cause is unknown", id="unknown"),
        pytest.param(
            incidents.fenced_for_a_reason_that_no_reader_knows, "controller 3 fenced it (not recorded).", id="no-reason"
        ),
        pytest.param(
            incidents.leader_after_none,
            "Broker 3 became leader of flights-3 at 9 after a time without a leader, epoch 5",
            id="after-none",
        ),
        pytest.param(
            incidents.leader_after_none, "The election was unclean: records may have been lost.", id="unclean"
        ),
        pytest.param(incidents.none_after_a_leader, "flights-3 lost its leader at 5 (previously broker 1)", id="none"),
        pytest.param(
            incidents.unclean_change_of_the_isr,
            "Replica 1 left the ISR of flights-3 at 9: the controller elected 2, outside the ISR (no "
            "heartbeat for 9.1 s, longer than the session timeout of 9 s).",
            id="left-in-election",
        ),
        pytest.param(
            incidents.unclean_change_of_the_isr,
            "Replica 2 joined the ISR of flights-3 at 9: the controller elected it",
            id="joined-in-election",
        ),
        pytest.param(incidents.truncated_log, "from offset 203 back to 200 at 5", id="truncated"),
        pytest.param(incidents.truncated_log, "(epoch-ends-differ: there, epoch 3 ends at 200)", id="epoch-end"),
        pytest.param(
            incidents.refused_change, "INVALID_UPDATE_VERSION; the proposal named leader epoch 4", id="refused"
        ),
        pytest.param(
            incidents.isr_below_its_minimum,
            "the ISR is smaller than min.insync.replicas: 1 of 2. Cause: the follower's process died",
            id="below-minimum",
        ),
    ],
)
def test_sentence_names_what_happened(incident: object, sentence: str) -> None:
    """The sentences name the actor, the action, the time and the number."""
    assert sentence in words(incident)


@pytest.mark.parametrize(
    ("incident", "absent"),
    [
        pytest.param(incidents.deposed_leader_that_does_not_know_it, "received nothing from each other", id="no-cut"),
        pytest.param(incidents.leader_still_reads, "unknown", id="cause-known"),
        pytest.param(incidents.leader_after_none, "unknown", id="no-cause-needed"),
        pytest.param(incidents.move_cancelled_and_repeated, "?", id="no-numbers"),
        pytest.param(incidents.preferred_leader_again, "unknown", id="wanted"),
    ],
)
def test_sentence_is_absent_where_it_would_be_wrong(incident: object, absent: str) -> None:
    """The sentences claim nothing that did not happen."""
    assert absent not in words(incident)


def test_fetch_after_the_decision_has_no_negative_time() -> None:
    """The controller took long to agree, and the replica fetched meanwhile."""
    paragraphs = words(incidents.follower_fetched_after_the_decision)

    assert "the leader proposed it at 13; it was last caught up at 0.5, 12.5 s earlier" in paragraphs
    assert "It fetched again at 14.9, after the leader had decided this" in paragraphs
    assert "-" not in paragraphs.replace("flights-3", "").replace("KIP-501", "")


def test_main_cause_is_followed_by_the_others() -> None:
    """One follower was paused while the connection to the other was cut; the watermark waited for both."""
    paragraphs = words(incidents.two_causes).splitlines()

    assert "the network between two brokers was cut in both directions" in paragraphs[-1]
    assert "Other causes: the follower's process was paused (broker 3)." in paragraphs[-1]
    (watermark,) = [each for each in paragraphs if "high watermark" in each]
    assert "process paused (broker 3)" in watermark
    assert "the network" in watermark
