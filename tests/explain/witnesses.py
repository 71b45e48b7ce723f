"""Brokers' reports of an incident, written by hand: three brokers, partition flights-3, led by broker 1."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from syncline.explain.diagnosis.diagnose import diagnose
from syncline.explain.diagnosis.findings import Diagnosis
from syncline.model.events import (
    BrokerState,
    Election,
    Event,
    Fault,
    FollowerProgress,
    IsrChange,
    Observation,
    Reassignment,
    Throttle,
    TopicChange,
    Truncation,
    Watermark,
)
from syncline.model.reasons import Reason

# Events, and lists of the reports of one observation.
Witnesses = Sequence[Event | list[Observation]]

# 12:00:00 UTC of some day; times of tests are ms after it.
NOON = 1_767_268_800_000
TOPIC, PARTITION = "flights", 3
LAG_MS = 10_000


class Why(NamedTuple):
    """Why the controller decided something, as its events carry it."""

    reason: Reason
    numbers: dict[str, Any]


NOT_SAID = Why(Reason.UNKNOWN, {})
GONE = Why(Reason.PROCESS_GONE, {})
UNRENEWED = Why(Reason.LEASE_HOLDER_SILENT, {})
SILENT = Why(Reason.SESSION_TIMED_OUT, {"timeout_ms": 9_000, "silent_ms": 9_100})


def shown(unix_ms: int) -> str:
    """Return seconds after noon."""
    return f"{(unix_ms - NOON) / 1_000:g}"


def observation(kind: str, writer: int, subject: int, since: int, until: int, **more: Any) -> list[Observation]:
    """Return the reports of something from `since` to `until`: its begin and its end."""
    place = {name: more.pop(name) for name in ("topic", "partition") if name in more}

    def report(at: int, phase: Any) -> Observation:
        return Observation(
            ts_ms=NOON + at,
            broker=writer,
            kind=kind,
            subject=subject,
            phase=phase,
            since_ms=NOON + since,
            lasted_ms=at - since,
            evidence=more,
            **place,
        )

    return [report(min(until, since + 1_500), "begin"), report(until, "end")]


def throttled(
    by: int, since: int, at: int, replica: str, phase: Any = "ongoing", *, held: int = 1, **more: Any
) -> Throttle:
    """Return a sample of a throttle, a leader's by default, which holds back one replica that matters, or nothing."""
    return Throttle(
        ts_ms=NOON + at,
        broker=by,
        role=more.get("role", "leader"),
        move=more.get("move", ""),
        phase=phase,
        since_ms=NOON + since,
        lasted_ms=at - since,
        quota_bytes_per_s=1_000_000,
        rate_bytes_per_s=990_000,
        held=held if replica else 0,
        replicas=(replica,) if replica else (),
        ratio=0.9,
        taken=tuple(
            {"replica": name, "bytes": size_bytes} | ({} if owner is None else {"move": owner})
            for name, size_bytes, owner in more.get("taken", ())
        ),
    )


def stall(broker: int, since: int, until: int, held_by_disk_ms: int = 0) -> list[Observation]:
    """Return a loop that did not run."""
    return observation("stall", broker, broker, since, until, held_by_disk_ms=held_by_disk_ms)[1:]


def slow_disk(
    broker: int, since: int, until: int, op: str, replica: int = -1, longest: int | None = None
) -> list[Observation]:
    """Return slow operations on the partition."""
    numbers = {"op": op, "count": 1, "longest_ms": longest or until - since, "total_ms": until - since}
    return observation(
        "slow-disk", broker, broker, since, until, **numbers, for_replica=replica, topic=TOPIC, partition=PARTITION
    )[1:]


def misses_follower(leader: int, follower: int, since: int, until: int, beats: int = 0) -> list[Observation]:
    """Return a leader that does not receive a follower's fetches."""
    return observation(
        "follower-silent", leader, follower, since, until, connection="open", beats_heard=beats, beats_sent=5
    )


def misses_leader(follower: int, leader: int, since: int, until: int, beats: int = 0) -> list[Observation]:
    """Return a follower whose fetch is not answered."""
    return observation(
        "leader-silent", follower, leader, since, until, connection="open", beats_heard=beats, beats_sent=5
    )


def left(
    replica: int, at: int, caught_up: int, *, rule: str = "lag:time", why: Why = NOT_SAID, **asked: Any
) -> IsrChange:
    """Return a shrink by leader 1, or by controller 3 when the rule is fencing."""
    evidence: dict[str, Any] = {"reason": why.reason, **why.numbers}
    if rule != "fencing":
        evidence = {
            "now_ms": 900_000 + at,
            "noted_ms": 900_000 + at,
            "replica_lag_time_max_ms": LAG_MS,
            "leader_log_end": 1_100,
            "followers": [
                {
                    "broker_id": replica,
                    "log_end": 950,
                    "last_caught_up_ms": 900_000 + caught_up,
                    "last_fetch_ms": 900_000 + caught_up,
                }
            ],
            "asked": [
                {
                    "broker_id": replica,
                    "asked_ms": 900_000 + asked.get("asked", caught_up),
                    "is_owed": "reading" in asked,
                    "reading_since_ms": 900_000 + asked["reading"] if "reading" in asked else None,
                    "pending_fetches_protect": False,
                }
            ],
            **({"replica_lag_max_messages": asked["most"]} if "most" in asked else {}),
        }
    before = (1, 2, 3)
    return IsrChange(
        ts_ms=NOON + at,
        broker=3 if rule == "fencing" else 1,
        topic=TOPIC,
        partition=PARTITION,
        leader_epoch=4,
        partition_epoch=7,
        change="shrink",
        outcome="committed",
        before=before,
        after=tuple(each for each in before if each != replica),
        rule=rule,
        evidence=evidence,
    )


def joined(replica: int, at: int) -> IsrChange:
    """Return an expansion by leader 1."""
    return IsrChange(
        ts_ms=NOON + at,
        broker=1,
        topic=TOPIC,
        partition=PARTITION,
        leader_epoch=4,
        partition_epoch=8,
        change="expand",
        outcome="committed",
        before=tuple(each for each in (1, 2, 3) if each != replica),
        after=(1, 2, 3),
        rule="reached-the-watermark",
        evidence={"noted_ms": 900_000 + at},
    )


def elected(before: int, after: int, at: int, why: Why) -> Election:
    """Return a change of the leader by controller 3."""
    return Election(
        ts_ms=NOON + at,
        broker=3,
        topic=TOPIC,
        partition=PARTITION,
        leader_before=before,
        leader_after=after,
        leader_epoch=5,
        isr=(2, 3),
        reason=why.reason,
        isr_before=(1, 2, 3),
        evidence=why.numbers,
    )


def reassigned(
    at: int, phase: Any, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...], move: str = ""
) -> Reassignment:
    """Return a step of a reassignment of replicas 1, 2 and 3, by controller 3."""
    return Reassignment(
        ts_ms=NOON + at,
        broker=3,
        topic=TOPIC,
        partition=PARTITION,
        phase=phase,
        replicas=replicas,
        adding=adding,
        removing=removing,
        original=(1, 2, 3),
        move=move,
        reason=Reason.REASSIGNMENT_REQUESTED,
    )


def deleted(at: int, topic: str = TOPIC) -> TopicChange:
    """Return the deletion of a topic of eight partitions."""
    return TopicChange(
        ts_ms=NOON + at, broker=3, topic=topic, topic_id="kDxxAAAAQACAAAAAAAAAAQ", change="deleted", partitions=8
    )


def state(broker: int, at: int, what: Any, why: Why = NOT_SAID) -> BrokerState:
    """Return the controller's view of a broker."""
    return BrokerState(ts_ms=NOON + at, broker=3, subject=broker, state=what, reason=why.reason, evidence=why.numbers)


def sample(follower: int, at: int, log_end: int, lag_ms: int = 0, inflow: int = 10) -> FollowerProgress:
    """Return a progress sample of leader 1."""
    return FollowerProgress(
        ts_ms=NOON + at,
        broker=1,
        topic=TOPIC,
        partition=PARTITION,
        leader_epoch=4,
        follower=follower,
        log_end=log_end,
        follower_log_end=log_end,
        high_watermark=log_end,
        lag_records=0,
        lag_ms=lag_ms,
        interval_ms=1_000,
        inflow_records=inflow,
    )


def held(holder: int, since: int, reported: int) -> Watermark:
    """Return a watermark of leader 1 that waits for an ISR member."""
    return Watermark(
        ts_ms=NOON + reported,
        broker=1,
        topic=TOPIC,
        partition=PARTITION,
        leader_epoch=4,
        phase="held",
        high_watermark=950,
        log_end=1_100,
        since_ms=NOON + since,
        lasted_ms=reported - since,
        rule="held:isr-member",
        evidence={"holders": str(holder)},
    )


def fault(kind: str, target: str, at: int) -> Fault:
    """Return an injected fault, which no diagnosis may look at."""
    return Fault(ts_ms=NOON + at, broker=-1, kind=kind, target=target, phase="begin")


def truncated(replica: int, at: int, before: int, after: int) -> Truncation:
    """Return a cut of a replica's log behind leader 1."""
    return Truncation(
        ts_ms=NOON + at,
        broker=replica,
        topic=TOPIC,
        partition=PARTITION,
        leader=1,
        leader_epoch=5,
        log_end_before=before,
        log_end_after=after,
        rule="epoch-ends-differ",
        evidence={"answer_epoch": 3, "answer_end_offset": after},
    )


def diagnosed(
    *witnesses: Event | list[Observation],
    replica: int | None = None,
    since: int = -60_000,
    leader: int = 1,
    replicas: tuple[int, ...] = (1, 2, 3),
) -> Diagnosis:
    """Return the diagnosis of what brokers reported."""
    events: list[Event] = []
    for each in witnesses:
        if isinstance(each, list):
            events += each
        else:
            events.append(each)
    return diagnose(
        events,
        TOPIC,
        PARTITION,
        since_ms=NOON + since,
        until_ms=NOON + 120_000,
        replica=replica,
        leader=leader,
        replicas=replicas,
    )
