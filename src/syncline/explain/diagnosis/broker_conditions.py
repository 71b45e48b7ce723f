"""What was wrong with brokers: processes that ended or were paused, slow loops and disks, late metadata.

A broker's own report (its loop did not run, its disk was slow) counts more than what others conclude from its
silence. Each function returns the conditions of its kinds that no condition among its arguments explains.
"""

from collections.abc import Sequence
from typing import Final

from syncline.explain.diagnosis.condition import CLOCKS_MS, JOIN_MS, Condition, Kind, number
from syncline.explain.diagnosis.connection_conditions import SILENCES
from syncline.explain.diagnosis.history import History, Observed
from syncline.model.events import BrokerState, Json
from syncline.model.reasons import STOPS, Reason

# Ignore a disk whose slow time adds up to less than this.
SLOW_DISK_MS: Final = 600
# The default of broker.heartbeat.interval.ms, which no event carries: a longer silence is a missed heartbeat.
HEARTBEAT_MS: Final = 2_000
# A process that registers within this time after a death replaces the dead one.
_RESTART_MS: Final = 60_000
# A connection that broke within this time before a registration broke because the process before it ended.
_CONNECTION_LOST_MS: Final = 30_000
# Disk operations beside the loop: a follower waits for the read, or a log for its cut, but the broker continues.
_BESIDE_THE_LOOP: Final = frozenset({"read", "cut"})


def deaths(history: History) -> list[Condition]:
    """Return the deaths of processes: the controller found them gone, or another process registered."""
    found: list[Condition] = []
    stopping: set[int] = set()
    for index, state in enumerate(history.states):
        if _is_stopping(state):
            stopping.add(state.subject)
        elif state.state == "fenced" and state.reason is Reason.PROCESS_GONE and state.subject not in stopping:
            found.append(_death(history, state.subject, state.ts_ms, index))
        elif state.state == "registered":
            if state.subject not in stopping and not any(
                each.broker == state.subject and each.touches(state.ts_ms - _RESTART_MS, state.ts_ms) for each in found
            ):
                lost_ms = _connection_lost_ms(history, state.subject, state.ts_ms)
                if lost_ms is not None:
                    found.append(Condition(Kind.GONE, state.subject, lost_ms, state.ts_ms))
            stopping.discard(state.subject)
    return found


def _death(history: History, broker: int, fenced_ms: int, index: int) -> Condition:
    for later in history.states[index + 1 :]:
        if later.subject == broker and later.state == "registered":
            return Condition(Kind.GONE, broker, fenced_ms, later.ts_ms)
    return Condition(Kind.GONE, broker, fenced_ms, fenced_ms, is_over=False)


def _connection_lost_ms(history: History, broker: int, before_ms: int) -> int | None:
    """Return when others lost their connection to a broker whose next process registered at `before_ms`."""
    lost = [
        each.begin_ms
        for each in history.observations
        if each.last.subject == broker
        and each.last.kind in SILENCES
        and each.last.evidence.get("connection") in {"lost", "none"}
        and before_ms - _CONNECTION_LOST_MS <= each.begin_ms <= before_ms
    ]
    return max(lost, default=None)


def stops(history: History) -> list[Condition]:
    """Return the brokers that announced their stop, until their next process registered."""
    found: list[Condition] = []
    for index, state in enumerate(history.states):
        if not _is_stopping(state):
            continue
        later = [each for each in history.states[index + 1 :] if each.subject == state.subject]
        registered = [each.ts_ms for each in later if each.state == "registered"]
        end_ms = registered[0] if registered else max([state.ts_ms, *(each.ts_ms for each in later)])
        if any(each.broker == state.subject and state.ts_ms <= each.end_ms <= end_ms for each in found):
            # The controller granted the stop a moment after the broker announced it.
            continue
        found.append(Condition(Kind.STOPPED, state.subject, state.ts_ms, end_ms, is_over=bool(registered)))
    return found


def _is_stopping(state: BrokerState) -> bool:
    return state.state == "shutdown" or (state.state == "fenced" and state.reason in STOPS)


def slow_disks(history: History) -> list[Condition]:
    """Return which brokers waited for their disks; reads that only clients waited for are left out."""
    found: dict[int, list[Condition]] = {}
    for each in history.of_kind("slow-disk"):
        event = each.last
        operation, replica = str(event.evidence.get("op", "")), number(event.evidence, "for_replica")
        if operation == "sync" or (operation == "read" and replica < 0):
            # No follower waits for these: a sync runs beside everything else.
            continue
        total_ms = max(number(event.evidence, "total_ms"), event.lasted_ms if operation in _BESIDE_THE_LOOP else 0)
        mine = found.setdefault(event.broker, [])
        if not mine or each.begin_ms > mine[-1].end_ms + JOIN_MS:
            mine.append(Condition(Kind.DISK, event.broker, each.begin_ms, each.end_ms, numbers={"total_ms": 0}))
        condition = mine[-1]
        condition.end_ms = max(condition.end_ms, each.end_ms)
        condition.is_over = condition.is_over and each.is_over
        name = (operation, f"{event.topic}-{event.partition}", replica)
        condition.operations[name] = max(number(event.evidence, "longest_ms"), condition.operations.get(name, 0))
        condition.numbers["total_ms"] = number(condition.numbers, "total_ms") + total_ms
        if operation not in _BESIDE_THE_LOOP:
            condition.blocked_ms += total_ms
    return [each for mine in found.values() for each in mine if number(each.numbers, "total_ms") >= SLOW_DISK_MS]


def stalls(history: History, disks: Sequence[Condition]) -> list[Condition]:
    """Return the times when loops of brokers did not run, unless they waited for their disks."""
    found: list[Condition] = []
    for each in history.of_kind("stall"):
        broker = each.last.broker
        held_ms = number(each.last.evidence, "held_by_disk_ms")
        if held_ms * 2 >= each.last.lasted_ms:
            continue
        stall = Condition(Kind.STALL, broker, each.begin_ms, each.end_ms)
        if any(disk.broker == broker and disk.blocked_ms and disk.explains(stall) for disk in disks):
            continue
        if found and found[-1].broker == broker and stall.begin_ms <= found[-1].end_ms + JOIN_MS:
            found[-1].end_ms = max(found[-1].end_ms, stall.end_ms)
        else:
            found.append(stall)
    return [*found, *_inferred_stalls(history, found)]


def _inferred_stalls(history: History, reported: Sequence[Condition]) -> list[Condition]:
    """Return the brokers that send nothing to any other, although their processes are not known to be gone."""
    found: list[Condition] = []
    for condition, since_ms in (*_unrenewed_leases(history), *_missed_by_two(history)):
        known = (*reported, *found)
        if not _spoke(history, condition.broker, since_ms) and not any(
            each.broker == condition.broker and each.explains(condition) for each in known
        ):
            found.append(condition)
    return found


def _spoke(history: History, broker: int, since_ms: int) -> bool:
    """Return whether a broker has reported anything since: it would have reported its stall, too."""
    observed = any(each.last.broker == broker and each.last.ts_ms > since_ms for each in history.observations)
    return observed or any(each.broker == broker and each.ts_ms > since_ms for each in history.progress)


def _unrenewed_leases(history: History) -> list[tuple[Condition, int]]:
    """Return the controllers that did not renew their lease, and since when none of them may have reported anything.

    The lease lies in a store that all brokers reach by themselves, so a connection between brokers is not the reason.
    """
    found = []
    for index, state in enumerate(history.states):
        if state.state != "fenced" or state.reason is not Reason.LEASE_HOLDER_SILENT:
            continue
        back_ms = next((each.ts_ms for each in history.states[index + 1 :] if _is_back(each, state.subject)), None)
        silences = [
            each
            for each in history.observations
            if _is_silence(each, state.subject) and each.begin_ms <= state.ts_ms <= each.end_ms + JOIN_MS
        ]
        begin_ms = min([state.ts_ms, *(each.begin_ms for each in silences)])
        end_ms = max([state.ts_ms, *(each.end_ms for each in silences)]) if back_ms is None else back_ms
        numbers: dict[str, Json] = {"inferred_from": "lease"}
        condition = Condition(Kind.STALL, state.subject, begin_ms, end_ms, is_over=back_ms is not None, numbers=numbers)
        found.append((condition, state.ts_ms))
    return found


def _is_back(state: BrokerState, broker: int) -> bool:
    return state.subject == broker and state.state in {"registered", "unfenced"}


def _missed_by_two(history: History) -> list[tuple[Condition, int]]:
    """Return the brokers that two others miss, and since when; one of the two is the controller, or misses it."""
    found = []
    for gap in (*history.of_kind("heartbeat-gap"), *history.of_kind("controller-unreachable")):
        is_controller = gap.last.kind == "controller-unreachable"
        condition = Condition(Kind.STALL, int(gap.first.subject), gap.begin_ms, gap.end_ms, is_over=gap.is_over)
        misses = [each for each in history.observations if _misses(each, gap, condition)]
        if not misses:
            continue
        condition.numbers = {"inferred_from": "controller" if is_controller else "heartbeats"}
        if is_controller:
            # The report ends when its broker finds the next controller.
            condition.end_ms = max(condition.end_ms, *(each.end_ms for each in misses))
            condition.is_over = condition.is_over and all(each.is_over for each in misses)
        found.append((condition, gap.begin_ms))
    return found


def _misses(silence: Observed, gap: Observed, condition: Condition) -> bool:
    """Return whether another broker than the one that reports the gap received nothing from the silent one, no beat."""
    return (
        _is_silence(silence, condition.broker)
        and silence.last.broker != gap.last.broker
        and not silence.beats_heard
        and condition.touches(silence.begin_ms, silence.end_ms)
    )


def _is_silence(observed: Observed, broker: int) -> bool:
    """Return whether a replica of any partition missed this broker."""
    return observed.last.subject == broker and observed.last.kind in SILENCES


def unreachable_controllers(history: History, deep: Sequence[Condition]) -> list[Condition]:
    """Return the times when brokers got no answer from the controller."""
    found: list[Condition] = []
    for each in history.of_kind("controller-unreachable"):
        condition = Condition(
            Kind.UNREACHABLE,
            each.last.broker,
            each.begin_ms,
            each.end_ms,
            # The last report may name the next controller.
            other=int(each.first.subject),
            is_over=each.is_over,
        )
        ends = {condition.broker, condition.other}
        if not any(other.broker in ends and other.explains(condition) for other in deep):
            found.append(condition)
    return found


def late_metadata(history: History, deep: Sequence[Condition]) -> list[Condition]:
    """Return the times when brokers applied metadata late."""
    found = []
    for each in history.of_kind("metadata-late"):
        condition = Condition(
            Kind.LATE,
            each.last.subject,
            each.begin_ms,
            each.end_ms,
            other=each.last.broker,
            is_over=each.is_over,
            numbers=dict(each.first.evidence),
        )
        silent_ms = _longest_silence_ms(history, each, condition)
        if silent_ms is not None:
            condition.numbers["silent_ms"] = silent_ms
            condition.numbers["kept_heartbeating"] = silent_ms <= HEARTBEAT_MS
        if not any(other.broker in {condition.broker, condition.other} and other.explains(condition) for other in deep):
            found.append(condition)
    return found


def _longest_silence_ms(history: History, late: Observed, condition: Condition) -> int | None:
    """Return the longest time without contact that the controller reported meanwhile; None if it reported none."""
    contacts = [number(report.evidence, "last_contact_ago_ms") for report in (late.first, late.last)]
    gaps = [
        gap.last.lasted_ms
        for gap in history.of_kind("heartbeat-gap")
        if gap.last.subject == condition.broker and condition.touches(gap.begin_ms, gap.end_ms)
    ]
    return max((ms for ms in (*contacts, *gaps) if ms >= 0), default=None)


def fresh_logs(history: History, late: Sequence[Condition]) -> list[Condition]:
    """Return the replicas that filled an empty log of this partition, unless they applied its metadata late."""
    found = []
    for each in history.of_kind("catching-up"):
        event = each.last
        if (event.topic, event.partition) != (history.topic, history.partition):
            continue
        condition = Condition(
            Kind.FRESH, event.broker, each.begin_ms, each.end_ms, is_over=each.is_over, numbers=dict(event.evidence)
        )
        if not any(
            other.broker == event.broker and other.touches(each.begin_ms - JOIN_MS, each.begin_ms + CLOCKS_MS)
            for other in late
        ):
            found.append(condition)
    return found
