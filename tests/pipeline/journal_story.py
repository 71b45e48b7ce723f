"""A journal written by hand: a broker dies and returns, a follower is paused and returns, six partitions long.

Brokers 1, 2, 3 hold six partitions of `flights`, three replicas each; partition p is led by broker p % 3 + 1. The
clock starts at `START_MS`. Broker 2 is killed from second 25 to 38, broker 3 paused from second 60 to 72. A group of
two reads them, and falls behind by 500 records and a second for each second of the kill. The ground truth of every
table and picture below is in this file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from syncline.model.events import BrokerState, Election, Event, Fault, FollowerProgress, IsrChange
from syncline.model.lag_events import GroupLagSample
from syncline.model.reasons import Reason

START_MS = 1_700_000_000_000
SECONDS = 95
PARTITIONS = 6
BROKERS = (1, 2, 3)
KILLED, KILL_S, RETURN_S = 2, 25, 38
PAUSED, PAUSE_S, RESUME_S = 3, 60, 72
LAG_MAX_MS = 3_000
GROUP, GROUP_RECORDS, GROUP_RECORD_BYTES = "readers", 500, 200


@dataclass
class _Partition:
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


def _ms(seconds: float) -> int:
    return START_MS + round(seconds * 1000)


def first_leader(partition: int) -> int:
    """Return who leads a partition before anything happens."""
    return BROKERS[partition % 3]


def story(topic: str = "flights") -> list[Event]:
    """Return the whole journal in order of time, for a topic of any name."""
    told = [replace(event, topic=topic) if hasattr(event, "topic") else event for event in _events()]
    told += _group_samples(topic)
    return sorted(told, key=lambda event: event.ts_ms)


def _events() -> Iterator[Event]:
    partitions = {p: _Partition(first_leader(p), 0, 0, BROKERS) for p in range(PARTITIONS)}
    for p, state in partitions.items():
        yield _election(_ms(0) + p, p, state, before=-1, reason=Reason.CREATED)
    yield Fault(ts_ms=_ms(KILL_S), broker=-1, kind="kill", target=f"broker-{KILLED}", phase="begin", note="SIGKILL")
    yield Fault(ts_ms=_ms(RETURN_S), broker=-1, kind="kill", target=f"broker-{KILLED}", phase="end")
    yield Fault(ts_ms=_ms(PAUSE_S), broker=-1, kind="pause", target=f"broker-{PAUSED}", phase="begin", note="SIGSTOP")
    yield Fault(ts_ms=_ms(RESUME_S), broker=-1, kind="pause", target=f"broker-{PAUSED}", phase="end")
    yield BrokerState(ts_ms=_ms(KILL_S + 0.2), broker=1, subject=KILLED, state="fenced", reason=Reason.PROCESS_GONE)
    for second in range(1, SECONDS):
        for p, state in partitions.items():
            yield from _happen(second, p, state)
            yield from _progress(second, p, state)


def _group_samples(topic: str) -> Iterator[GroupLagSample]:
    """Partition 0 waits while broker 2 is dead; the others are read at once."""
    for second in range(1, SECONDS):
        # A sample without a leader is no sum of all partitions.
        missing = int(second == KILL_S + 1)
        waited_s = second - KILL_S if KILL_S <= second <= RETURN_S else 0
        records = GROUP_RECORDS * waited_s
        entries = [
            {
                "topic": topic,
                "partition": partition,
                "committed": 0,
                "end": 0 if partition else records,
                "lag_bytes": 0 if partition else records * GROUP_RECORD_BYTES,
                "staleness_ms": 0 if partition else 1_000 * waited_s,
                "event_lag_ms": -1,
                "lost": 0,
            }
            for partition in range(PARTITIONS)
        ]
        yield GroupLagSample(
            ts_ms=_ms(second + 0.7),
            broker=3,
            group=GROUP,
            state="Stable",
            members=2,
            interval_ms=1_000,
            status="OK",
            partitions=PARTITIONS,
            missing=missing,
            lag_records=records,
            lag_bytes=records * GROUP_RECORD_BYTES,
            staleness_ms=1_000 * waited_s,
            event_lag_ms=0,
            lost=0,
            rows=tuple(entries),
        )


def _happen(second: int, p: int, state: _Partition) -> Iterator[Event]:
    at = _ms(second + 0.3 + 0.01 * p)
    if second == KILL_S:
        before, state.isr = state.leader, tuple(broker for broker in state.isr if broker != KILLED)
        state.partition_epoch += 1
        if before == KILLED:
            state.leader, state.leader_epoch = state.isr[p % 2], state.leader_epoch + 1
            yield _election(at, p, state, before=before, reason=Reason.PROCESS_GONE)
        else:
            yield _isr_change(at, p, state, before=BROKERS, rule="fencing", writer=1, evidence={"replica": KILLED})
    if second == RETURN_S + 3:
        yield _joined(at, p, state, KILLED)
    if second == PAUSE_S + 3 and state.leader != PAUSED:
        state.isr = tuple(broker for broker in state.isr if broker != PAUSED)
        state.partition_epoch += 1
        evidence = {"replica": PAUSED, "behind_ms": 3_300 + 7 * p, "replica_lag_time_max_ms": LAG_MAX_MS}
        yield _isr_change(at, p, state, before=BROKERS, rule="time", writer=state.leader, evidence=evidence)
    if second == RESUME_S + 1 and PAUSED not in state.isr:
        yield _joined(at, p, state, PAUSED)


def _joined(at: int, p: int, state: _Partition, replica: int) -> IsrChange:
    before, state.isr = state.isr, tuple(sorted((*state.isr, replica)))
    state.partition_epoch += 1
    evidence = {"replica": replica, "log_end": 900, "high_watermark": 880}
    return _isr_change(at, p, state, before=before, rule="caught_up", writer=state.leader, evidence=evidence)


def _progress(second: int, p: int, state: _Partition) -> Iterator[Event]:
    rate = 400 + 60 * p
    # A paused leader takes no samples.
    if state.leader == PAUSED and PAUSE_S < second <= RESUME_S:
        return
    for follower in BROKERS:
        if follower == state.leader:
            continue
        lag_records, lag_ms = (second * 7 + p * 3 + follower) % 11, 4 + (second * 13 + p * 5 + follower * 3) % 24
        away = {KILLED: (KILL_S, RETURN_S), PAUSED: (PAUSE_S, RESUME_S)}.get(follower)
        if away is not None and away[0] < second <= away[1]:
            lag_records, lag_ms = rate * (second - away[0]), 1000 * (second - away[0])
        elif away is not None and away[1] < second <= away[1] + 2:
            lag_records, lag_ms = rate * (away[1] + 3 - second) * 2, 2_000 * (away[1] + 3 - second)
        log_end = second * rate
        yield FollowerProgress(
            ts_ms=_ms(second + 0.5 + 0.02 * p),
            broker=state.leader,
            topic="flights",
            partition=p,
            leader_epoch=state.leader_epoch,
            follower=follower,
            log_end=log_end,
            follower_log_end=log_end - lag_records,
            high_watermark=log_end - lag_records if follower in state.isr else log_end,
            lag_records=lag_records,
            lag_ms=lag_ms,
            lag_bytes=lag_records * 210,
            in_sync=follower in state.isr,
            interval_ms=1000,
        )


def _election(at: int, p: int, state: _Partition, *, before: int, reason: Reason) -> Election:
    return Election(
        ts_ms=at,
        broker=1,
        topic="flights",
        partition=p,
        leader_before=before,
        leader_after=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        reason=reason,
    )


def _isr_change(
    at: int, p: int, state: _Partition, *, before: tuple[int, ...], rule: str, writer: int, evidence: dict
) -> IsrChange:
    return IsrChange(
        ts_ms=at,
        broker=writer,
        topic="flights",
        partition=p,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        change="shrink" if len(state.isr) < len(before) else "expand",
        outcome="committed",
        before=before,
        after=state.isr,
        rule=rule,
        evidence=evidence,
    )
