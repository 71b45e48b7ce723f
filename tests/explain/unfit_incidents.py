"""Incidents of disks and logs that make a broker unfit: no room, no descriptors, an I/O error, damage.

Three brokers hold flights-3, and broker 1 leads it. Times are milliseconds after noon.
"""

from syncline.explain.diagnosis.findings import Cause
from syncline.model.reasons import Reason

from .incident import incident
from .witnesses import GONE, SILENT, Why, Witnesses, elected, joined, left, observation, sample, stall, state

FULL = Why(Reason.DISK_FULL, {})
REFUSED = {"refusal": "no-room", "errno": "ENOSPC", "on": "flights-3", "refused_count": 12}


@incident(Cause.DISK_FULL, 1)
def leader_with_a_full_disk() -> Witnesses:
    """It says so itself, and so does the controller's reason; the burst before it is not the cause."""
    return [
        *(sample(2, second, 10 * second) for second in range(0, 4_000, 1_000)),
        observation("writes-refused", 1, 1, 5_000, 20_000, **REFUSED),
        elected(1, 2, 5_050, FULL),
        left(1, 5_050, 0, rule="fencing", why=FULL),
        joined(1, 21_000),
    ]


@incident(Cause.DISK_FULL, 2)
def follower_with_a_full_disk_whose_report_is_lost() -> Witnesses:
    """Its own report needs room, too; the controller's decision names the cause."""
    return [left(2, 5_050, 0, rule="fencing", why=FULL), joined(2, 21_000)]


@incident(Cause.DISK_FULL, 2)
def follower_with_a_full_disk_that_only_it_reports() -> Witnesses:
    """The leader evicts it for its lag before the controller decides."""
    return [observation("writes-refused", 2, 2, 5_000, 30_000, **REFUSED)[:1], left(2, 15_000, 5_000)]


@incident(Cause.NO_DESCRIPTORS, 2)
def follower_without_descriptors_whose_report_is_lost() -> Witnesses:
    """As with a full disk."""
    return [left(2, 5_050, 0, rule="fencing", why=Why(Reason.NO_DESCRIPTORS, {}))]


@incident(Cause.NO_DESCRIPTORS, 2)
def follower_without_descriptors_that_only_it_reports() -> Witnesses:
    """As with a full disk."""
    numbers = {**REFUSED, "refusal": "no-descriptors", "errno": "EMFILE"}
    return [observation("writes-refused", 2, 2, 5_000, 30_000, **numbers)[:1], left(2, 15_000, 5_000)]


@incident(Cause.NO_DESCRIPTORS, 1)
def leader_without_descriptors() -> Witnesses:
    """The same, for another lack."""
    why = Why(Reason.NO_DESCRIPTORS, {})
    numbers = {**REFUSED, "refusal": "no-descriptors", "errno": "EMFILE"}
    return [
        observation("writes-refused", 1, 1, 5_000, 20_000, **numbers),
        elected(1, 2, 5_050, why),
        left(1, 5_050, 0, rule="fencing", why=why),
        joined(1, 21_000),
    ]


@incident(Cause.LOG_DAMAGED, 1)
def leader_with_a_damaged_log() -> Witnesses:
    """The follower that found it had died, and the leader fills an empty log afterwards: neither is the cause."""
    damaged = Why(Reason.LOGS_DAMAGED, {"damaged_count": 1})
    place = {"topic": "flights", "partition": 3}
    return [
        state(3, 1_000, "fenced", GONE),
        left(3, 1_000, 0, rule="fencing", why=GONE),
        state(3, 4_000, "registered"),
        observation("catching-up", 3, 3, 4_000, 6_500, log_end=10, leader_end=10, records_per_s=4, **place),
        observation("records-refused", 3, 1, 4_900, 5_050, offset=7, refused_count=2, error="damaged", **place),
        observation("log-damaged", 1, 1, 5_000, 5_200, reason="the checksum does not match", **place),
        elected(1, 2, 5_050, damaged),
        left(1, 5_050, 0, rule="fencing", why=damaged),
        observation("catching-up", 1, 1, 5_300, 6_500, log_end=10, leader_end=10, records_per_s=4, **place),
        joined(3, 6_600),
        joined(1, 6_700),
    ]


@incident(Cause.LOG_DAMAGED, 1)
def sole_copy_is_damaged() -> Witnesses:
    """Guards: a follower that could not copy a damaged leader was explained by a burst of writes."""
    place = {"topic": "flights", "partition": 3}
    return [
        *(sample(2, second, 10) for second in range(0, 4_000, 1_000)),
        sample(2, 5_000, 9_000),
        observation("records-refused", 2, 1, 5_000, 30_000, offset=7, refused_count=40, error="damaged", **place),
        observation("log-damaged", 1, 1, 5_000, 30_000, reason="the checksum does not match", **place)[:1],
    ]


@incident(Cause.DISK_FAILED, 1)
def disk_failed_and_the_broker_ended() -> Witnesses:
    """An I/O error ends the process: the disk is the cause, not the death."""
    gone = Why(Reason.PROCESS_GONE, {"failed_count": 1})
    return [
        observation("log-failed", 1, 1, 5_000, 5_000, topic="other", partition=0, error="Input/output error")[:1],
        state(1, 5_500, "fenced", gone),
        elected(1, 2, 5_500, gone),
        left(1, 5_500, 0, rule="fencing", why=gone),
        state(1, 7_000, "registered"),
        joined(1, 8_000),
    ]


@incident(Cause.DISK_FAILED, 2)
def disk_of_a_follower_failed() -> Witnesses:
    """Its log is offline until the process has ended."""
    failed = observation("log-failed", 2, 2, 5_000, 5_000, topic="flights", partition=3, error="Input/output error")
    return [failed[:1], left(2, 15_000, 5_000)]


@incident(Cause.FOLLOWER_DEAD, 2)
def follower_died_beside_an_unfit_leader() -> Witnesses:
    """What is wrong with the leader's disk fences no follower."""
    numbers = {**REFUSED, "refusal": "no-descriptors", "errno": "EMFILE"}
    return [
        observation("writes-refused", 1, 1, 4_000, 9_000, **REFUSED),
        observation("writes-refused", 1, 1, 4_500, 9_000, **numbers),
        observation("log-damaged", 1, 1, 4_000, 9_000, reason="damaged", topic="flights", partition=3)[:1],
        state(2, 5_100, "fenced", GONE),
        left(2, 5_100, 0, rule="fencing", why=GONE),
        state(2, 9_000, "registered"),
    ]


@incident(Cause.FOLLOWER_PAUSED, 2)
def follower_paused_before_the_disk_of_the_leader_failed() -> Witnesses:
    """The controller fences the follower for its silence, whatever becomes of the leader meanwhile."""
    return [
        observation("log-failed", 1, 1, 9_500, 9_500, topic="flights", partition=3, error="Input/output error")[:1],
        left(2, 10_000, 900, rule="fencing", why=SILENT),
        stall(2, 1_000, 12_000),
    ]
