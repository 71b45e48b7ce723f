"""A diagnosis names the true cause from what brokers report, and says that it is unknown when no broker reports it."""

import dataclasses
import json

import pytest

from syncline.explain.diagnosis.condition import Kind
from syncline.explain.diagnosis.findings import Cause, Diagnosis, Effect
from syncline.model.events import from_json
from syncline.model.reasons import Reason

from . import incidents
from .catalogue import CATALOGUE, Incident
from .witnesses import (
    NOON,
    PARTITION,
    TOPIC,
    Why,
    deleted,
    diagnosed,
    elected,
    fault,
    joined,
    left,
    misses_follower,
    misses_leader,
    observation,
    slow_disk,
    stall,
)


def main_of(diagnosis: Diagnosis) -> tuple[Cause, int]:
    """Return the main cause and the broker that it hit."""
    assert diagnosis.main is not None
    return diagnosis.main.cause, diagnosis.main.broker


@pytest.mark.parametrize("incident", [pytest.param(each, id=name) for name, each in CATALOGUE.items()])
def test_diagnosis_names_the_true_cause(incident: Incident) -> None:
    """Each incident of the catalogue has one main cause, and the broker that it hit."""
    diagnosis = diagnosed(*incident.witnesses(), since=incident.since)

    diagnosis.check_invariants()
    if incident.cause is None:
        assert diagnosis.main is None
    elif incident.broker is None:
        assert main_of(diagnosis)[0] is incident.cause
    else:
        assert main_of(diagnosis) == (incident.cause, incident.broker)


def test_what_was_over_before_the_partition_was_created_is_not_told() -> None:
    """Guards: a new topic whose `why` told of pauses from before there was any."""
    created = elected(-1, 1, 9_000, Why(Reason.CREATED, {}))
    over, lasting = stall(2, 2_000, 5_000), stall(2, 8_000, 10_500)

    assert diagnosed(*over, created).findings == []
    assert [each.effect for each in diagnosed(*over, created, *lasting).findings] == [Effect.NOTHING]
    # A topic of this name was there before, and created again.
    assert len(diagnosed(joined(2, 1_000), *over, created).findings) == 2


@pytest.mark.parametrize(
    ("incident", "effects"),
    [
        pytest.param(incidents.quiet_partition, [], id="quiet"),
        pytest.param(incidents.created_partition, [], id="created"),
        pytest.param(incidents.topic_deleted, [Effect.DELETED], id="deleted"),
        pytest.param(incidents.truncation_that_cut_nothing, [], id="nothing-cut"),
        pytest.param(incidents.leader_died, [Effect.LEFT, Effect.ELECTED], id="leader-died"),
        pytest.param(
            incidents.leader_gave_the_partition_away,
            [Effect.SPARED, Effect.RELINQUISHED, Effect.ELECTED],
            id="given-away",
        ),
    ],
)
def test_diagnosis_finds_each_effect_once(incident: object, effects: list[Effect]) -> None:
    """In order of time; events of other partitions, and events that changed nothing, are not effects."""
    assert callable(incident)
    assert [each.effect for each in diagnosed(*incident()).findings] == effects


@pytest.mark.parametrize(
    ("incident", "direction"),
    [
        pytest.param(incidents.connection_cut_towards_the_follower, (1, 2), id="towards-follower"),
        pytest.param(incidents.connection_cut_towards_the_leader, (2, 1), id="towards-leader"),
    ],
)
def test_cut_has_the_direction_in_which_no_beats_arrive(incident: object, direction: tuple[int, int]) -> None:
    """Beats that arrive prove the other direction."""
    assert callable(incident)
    main = diagnosed(*incident()).main

    assert main is not None
    assert main.condition is not None
    assert main.condition.lost == (direction,)


def test_each_of_two_followers_has_the_cause_of_its_own_absence() -> None:
    """One reason for the whole window would be wrong for one of them."""
    diagnosis = diagnosed(*incidents.two_causes())

    assert {each.replica: each.cause for each in diagnosis.findings if each.effect is Effect.LEFT} == {
        2: Cause.CUT_BOTH_WAYS,
        3: Cause.FOLLOWER_PAUSED,
    }


def test_slow_disk_is_the_cause_for_both_followers_that_waited() -> None:
    """Two reads that began in the same millisecond are two observations."""
    diagnosis = diagnosed(*incidents.leader_read_slowly_for_two_followers())

    assert [(each.replica, each.cause) for each in diagnosis.findings] == [
        (2, Cause.LEADER_DISK),
        (3, Cause.LEADER_DISK),
    ]


def test_death_before_an_empty_log_is_found_as_well() -> None:
    """The log that was filled is the main cause, and not the only one."""
    diagnosis = diagnosed(*incidents.follower_came_back_empty())

    assert [each.cause for each in diagnosis.findings] == [Cause.FOLLOWER_DEAD, Cause.NEW_REPLICA]


def test_join_is_explained_by_the_copy_that_led_to_it() -> None:
    """Guards: after a cancelled and repeated move it was the copy of the cancelled one."""
    diagnosis = diagnosed(*incidents.move_cancelled_and_repeated())

    begins = {each.effect: each.condition.begin_ms for each in diagnosis.findings if each.condition is not None}
    assert begins == {Effect.NOTHING: NOON + 1_000, Effect.JOINED: NOON + 6_000}
    assert diagnosis.main is not None
    assert diagnosis.main.effect is Effect.JOINED


def test_watermark_below_the_minimum_isr_has_the_cause_of_the_replicas_that_left() -> None:
    """It waits for none in the ISR."""
    diagnosis = diagnosed(*incidents.isr_below_its_minimum())

    (finding,) = [each for each in diagnosis.findings if each.effect is Effect.HELD]
    assert finding.cause is Cause.FOLLOWER_DEAD


def test_cut_to_a_controller_without_a_replica_is_told_beside_the_cause() -> None:
    """Guards: no connection was said to be cut. Leader 2 and controller 1 miss each other while replica 3 is paused."""
    change = dataclasses.replace(left(3, 12_000, 900), broker=2)
    cut = (misses_follower(1, 2, 1_000, 20_000), misses_leader(2, 1, 1_100, 20_000))

    diagnosis = diagnosed(*cut, *stall(3, 1_000, 14_000), change, leader=2, replicas=(2, 3))

    (finding,) = diagnosis.findings
    assert finding.cause is Cause.FOLLOWER_PAUSED
    assert [(each.kind, each.broker, each.other) for each in finding.also] == [(Kind.CUT, 1, 2)]
    assert finding.ruled_out == (Kind.GONE, Kind.DISK)


def test_absence_is_claimed_only_of_the_brokers_that_were_compared() -> None:
    """A cut between others is neither told nor denied."""
    cut = (misses_follower(4, 5, 1_000, 20_000), misses_leader(5, 4, 1_100, 20_000))

    (finding,) = diagnosed(*cut, *stall(2, 1_000, 14_000), left(2, 12_000, 900)).findings

    assert finding.brokers == (1, 2)
    assert finding.ruled_out == (Kind.GONE, Kind.DISK, Kind.CUT)
    assert finding.also == ()


def test_condition_without_effect_does_not_rule_out_another_one() -> None:
    """Guards: that a follower was paused denied that the leader's disk was slow at that time."""
    diagnosis = diagnosed(*stall(2, 1_000, 4_000), *slow_disk(1, 1_000, 4_000, "write"))

    assert [each.effect for each in diagnosis.findings] == [Effect.NOTHING] * 2
    ruled_out = {each.brokers: each.ruled_out for each in diagnosis.findings}
    assert ruled_out == {(1, 2): (Kind.GONE, Kind.CUT), (1,): (Kind.GONE, Kind.STALL)}


@pytest.mark.parametrize(
    ("last_contact_ago_ms", "kept_heartbeating"), [(300, True), (1_492, True), (3_383, False), (-1, None)]
)
def test_broker_with_late_metadata_kept_heartbeating_if_its_last_contact_was_recent(
    last_contact_ago_ms: int, kept_heartbeating: bool | None
) -> None:
    """Without a number nothing is claimed."""
    numbers = {"applied_version": 7, "committed_version": 9, "last_contact_ago_ms": last_contact_ago_ms}

    (late,) = diagnosed(observation("metadata-late", 3, 2, 0, 15_000, **numbers)).conditions

    assert late.numbers.get("kept_heartbeating") is kept_heartbeating


def test_heartbeat_gap_shows_that_a_broker_with_late_metadata_was_silent() -> None:
    """Guards: it was said to have sent heartbeats all the time."""
    (late,) = diagnosed(*incidents.follower_learned_late_and_was_silent()).conditions

    assert (late.numbers["silent_ms"], late.numbers["kept_heartbeating"]) == (3_400, False)


def test_creation_is_no_change_of_the_leader() -> None:
    """It is the partition's beginning."""
    assert diagnosed(*incidents.created_partition()).created_ms == NOON + 9_000


def test_injected_faults_are_no_evidence() -> None:
    """Explanations are tested against them, so they may change nothing."""
    events = (left(2, 12_000, 900), joined(2, 13_000))

    with_truth = diagnosed(fault("pause", "broker-2", 1_000), *events)

    assert with_truth == diagnosed(*events)


def test_event_that_was_written_twice_counts_once() -> None:
    """A broker writes an event again if it did not see the first one acknowledged."""
    events = (*stall(2, 1_000, 14_000), left(2, 12_000, 900))

    assert len(diagnosed(*events, *events).findings) == 1


def test_events_of_version_1_are_diagnosed_without_their_reasons() -> None:
    """Their reasons were text, which no reader parses; the conditions still name the cause."""
    text = "not heard of for more than 9000 ms"
    place = {"v": 1, "ts_ms": NOON + 10_000, "broker": 3}
    partition = {"topic": TOPIC, "partition": PARTITION, "leader_epoch": 4}
    fenced = {**place, "type": "broker_state", "subject": 2, "state": "fenced", "reason": text}
    left_isr = {
        **place,
        **partition,
        "type": "isr_change",
        "partition_epoch": 7,
        "change": "shrink",
        "outcome": "committed",
        "before": [1, 2, 3],
        "after": [1, 3],
        "rule": "fencing",
        "evidence": {"reason": text},
    }
    elected = {
        **place,
        **partition,
        "type": "election",
        "leader_before": 1,
        "leader_after": 3,
        "isr": [1, 3],
        "reason": "preferred leader",
    }

    diagnosis = diagnosed(
        observation("controller-unreachable", 2, 3, 1_000, 20_000, controller=3),
        *(from_json(json.dumps(each)) for each in (fenced, left_isr, elected)),
    )

    assert main_of(diagnosis) == (Cause.FENCED_ALIVE, 2)
    assert {each.effect for each in diagnosis.findings} == {Effect.LEFT, Effect.ELECTED}


def test_replica_selects_the_findings_of_one_broker() -> None:
    """`--replica` leaves out events of other replicas."""
    events = (stall(2, 1_000, 14_000), left(2, 12_000, 900), stall(3, 31_000, 44_000), left(3, 42_000, 30_900))

    assert {each.replica for each in diagnosed(*events, replica=3).findings} == {3}


def test_deletion_of_the_topic_concerns_each_replica() -> None:
    """Guards: of a broker whose replica was deleted with its topic, nothing was said to have happened."""
    assert [each.effect for each in diagnosed(deleted(9_000), replica=2).findings] == [Effect.DELETED]


def test_window_leaves_out_earlier_effects() -> None:
    """Older events help to understand, and are no findings."""
    diagnosis = diagnosed(stall(2, 1_000, 14_000), left(2, 12_000, 900), joined(2, 15_000), since=14_500)

    assert [each.effect for each in diagnosis.findings] == [Effect.JOINED]
