"""Conditions: what brokers and links suffered, derived from what brokers observed.

One hard idea: the same trouble is seen by many and called by as many names. A
paused broker is silent to its leader, late to the controller and cannot reach
it. So a condition is kept only if nothing deeper explains it: a death explains
a silence, a silence explains no death. What a broker says of itself (its loop
stood still, its disk was slow) counts more than what others guess.

Direction of a cut: whoever misses another sends it beats. Beats that arrive
prove that direction, whatever else does not arrive.

Injected faults are the truth that explanations are held against; they are
dropped at the door. Units: Unix milliseconds by the writers' clocks, which are
taken to agree within half a second.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from syncline.model.events import (
    BrokerState,
    Election,
    Event,
    Fault,
    FollowerProgress,
    IsrChange,
    Json,
    Observation,
    Truncation,
    UnknownEvent,
    Watermark,
    to_json,
)
from syncline.model.reasons import STOPS, Reason

# Reports of one trouble that lie this close belong together.
JOIN_MS: Final = 2_000
# One trouble explains another if it covers so much of it.
EXPLAINED_SHARE: Final = 0.4
# A disk that was slow for less in all holds nobody up.
SLOW_DISK_MS: Final = 600
# A writer that is at most this late is not told apart from one that is in time.
CLOCKS_MS: Final = 500
BURST_RECORDS: Final = 1_000
BURST_FACTOR: Final = 5


class Kind(StrEnum):
    """What befell a broker, or the line between two."""

    GONE = "process gone"
    STOPPED = "stopped in good order"
    STALL = "process stood still"
    DISK = "disk slow"
    CUT = "line cut"
    SILENT = "silent"
    UNREACHABLE = "controller unreachable"
    LATE = "metadata late"
    FRESH = "filling an empty log"
    BURST = "burst of writes"


@dataclass(slots=True)
class Condition:
    """One trouble: whom it befell, and when. `end_ms` is that of the last report if it is not over."""

    kind: Kind
    broker: int
    begin_ms: int
    end_ms: int
    other: int = -1
    is_over: bool = True
    # Of a cut: the directions (from, to) in which nothing arrives; of both unknown, empty.
    lost: tuple[tuple[int, int], ...] = ()
    # Of a slow disk: (operation, partition, follower that waited) and the longest of each in ms.
    operations: dict[tuple[str, str, int], int] = field(default_factory=dict)
    blocked_ms: int = 0
    numbers: dict[str, Json] = field(default_factory=dict)

    def overlap_ms(self, begin_ms: int, end_ms: int) -> int:
        """Return for how long this was so between two times; 0 when it was not."""
        return max(0, min(self.end_ms, end_ms) - max(self.begin_ms, begin_ms))

    def touches(self, begin_ms: int, end_ms: int) -> bool:
        """Return whether this was so at any moment between two times."""
        return self.begin_ms <= end_ms and self.end_ms >= begin_ms

    def explains(self, other: "Condition") -> bool:
        """Return whether this covers so much of another one that the other says nothing new."""
        length_ms = max(1, other.end_ms - other.begin_ms)
        covered_ms = self.overlap_ms(other.begin_ms - CLOCKS_MS, other.end_ms + CLOCKS_MS)
        return covered_ms >= EXPLAINED_SHARE * length_ms

    @property
    def length_ms(self) -> int:
        """How long it was so, as far as told."""
        return self.end_ms - self.begin_ms


@dataclass(slots=True)
class Seen:
    """All reports of one observation, put together."""

    first: Observation
    last: Observation
    is_over: bool
    beats_heard: int

    @property
    def begin_ms(self) -> int:
        """Since when it was so."""
        return self.last.since_ms

    @property
    def end_ms(self) -> int:
        """Until when it was so, or when it was last told."""
        return self.last.since_ms + self.last.lasted_ms


class History:
    """The events that concern one partition and its brokers: each once, ordered by time."""

    def __init__(self, events: Iterable[Event], topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.isr_changes: list[IsrChange] = []
        self.elections: list[Election] = []
        self.truncations: list[Truncation] = []
        self.watermarks: list[Watermark] = []
        self.progress: list[FollowerProgress] = []
        self.states: list[BrokerState] = []
        seen: dict[_Name, Seen] = {}
        unique: dict[bytes, Event] = {}
        for event in events:
            if not isinstance(event, Fault | UnknownEvent):
                unique.setdefault(to_json(event), event)
        for event in sorted(unique.values(), key=lambda each: each.ts_ms):
            match event:
                case Observation():
                    _merge(seen, event)
                case BrokerState():
                    self.states.append(event)
                case Fault() | UnknownEvent():
                    pass
                case _ if (event.topic, event.partition) != (topic, partition):
                    pass
                case IsrChange():
                    self.isr_changes.append(event)
                case Election():
                    self.elections.append(event)
                case Truncation():
                    self.truncations.append(event)
                case Watermark():
                    self.watermarks.append(event)
                case FollowerProgress():
                    self.progress.append(event)
        self.observations: list[Seen] = sorted(seen.values(), key=lambda each: each.begin_ms)

    @property
    def key(self) -> str:
        """TOPIC-PARTITION."""
        return f"{self.topic}-{self.partition}"

    def of_kind(self, kind: str) -> list[Seen]:
        """Return the observations of one kind."""
        return [each for each in self.observations if each.last.kind == kind]

    def leader_at(self, at_ms: int, otherwise: int = -1) -> int:
        """Return who led the partition at a time, as far as the events tell."""
        for election in self.elections:
            if election.ts_ms > at_ms:
                if election.leader_before >= 0:
                    return election.leader_before
                break
        earlier = [each.leader_after for each in self.elections if each.ts_ms <= at_ms]
        if earlier:
            return earlier[-1]
        samples = sorted(self.progress, key=lambda each: abs(each.ts_ms - at_ms))
        return samples[0].broker if samples else otherwise

    def replicas(self) -> tuple[int, ...]:
        """Return every broker that is known to hold the partition."""
        found: dict[int, None] = {}
        for change in self.isr_changes:
            found.update(dict.fromkeys((*change.before, *change.after)))
        for election in self.elections:
            found.update(dict.fromkeys((*election.isr, *election.isr_before)))
        for sample in self.progress:
            found.update(dict.fromkeys((sample.broker, sample.follower)))
        return tuple(sorted(found))

    def was_served(self, replica: int, begin_ms: int, end_ms: int) -> bool:
        """Return whether samples show that a replica got records between two times."""
        ends = [
            each.follower_log_end
            for each in self.progress
            if each.follower == replica and begin_ms <= each.ts_ms <= end_ms + each.interval_ms
        ]
        return len(ends) > 1 and ends[-1] > ends[0]


def conditions_of(history: History) -> list[Condition]:
    """Return what was wrong, without what something deeper explains; ordered by beginning."""
    gone = _gone(history)
    stopped = _stopped(history)
    disks = _disks(history)
    stalls = _stalls(history, disks)
    deep = [*gone, *stalls, *stopped]
    blocking = [each for each in disks if each.blocked_ms]
    late = _late(history, [*deep, *blocking])
    cuts = _cuts(history, [*deep, *disks], late)
    unreachable = _unreachable(history, [*deep, *blocking])
    late = [
        each for each in late if not any(other.broker == each.broker and other.explains(each) for other in unreachable)
    ]
    fresh = _fresh(history, late)
    found = [*deep, *disks, *late, *cuts, *unreachable, *fresh, *_bursts(history)]
    return sorted(found, key=lambda each: each.begin_ms)


# Work of the disk during which the broker goes on: a follower waits for a read, a log for its cut.
BESIDE_THE_LOOP: Final = frozenset({"read", "cut"})

# Reports with one name are of one thing; reads of two followers may have begun in the same moment.
_Name = tuple[int, str, int, str, int, int, object, object]


def _merge(seen: dict[_Name, Seen], event: Observation) -> None:
    of_what = (event.evidence.get("op"), event.evidence.get("for_replica"))
    name = (event.broker, event.kind, event.subject, event.topic, event.partition, event.since_ms, *of_what)
    beats = event.evidence.get("beats_heard")
    heard = beats if isinstance(beats, int) else 0
    known = seen.get(name)
    if known is None:
        seen[name] = Seen(event, event, event.phase == "end", heard)
    else:
        known.beats_heard = max(known.beats_heard, heard)
        known.is_over = known.is_over or event.phase == "end"
        if event.lasted_ms >= known.last.lasted_ms:
            known.last = event


# What a broker suffers.


def _gone(history: History) -> list[Condition]:
    """Return the deaths of processes: found gone by the controller, or followed by another process."""
    found: list[Condition] = []
    stopping: set[int] = set()
    for index, state in enumerate(history.states):
        if _is_stopping(state):
            stopping.add(state.subject)
        elif state.state == "fenced" and state.reason is Reason.PROCESS_GONE and state.subject not in stopping:
            found.append(_death(history, state.subject, state.ts_ms, index))
        elif state.state == "registered":
            if state.subject not in stopping and not any(
                each.broker == state.subject and each.touches(state.ts_ms - 60_000, state.ts_ms) for each in found
            ):
                lost_ms = _line_lost_ms(history, state.subject, state.ts_ms)
                if lost_ms is not None:
                    found.append(Condition(Kind.GONE, state.subject, lost_ms, state.ts_ms))
            stopping.discard(state.subject)
    return found


def _death(history: History, broker: int, fenced_ms: int, index: int) -> Condition:
    for later in history.states[index + 1 :]:
        if later.subject == broker and later.state == "registered":
            return Condition(Kind.GONE, broker, fenced_ms, later.ts_ms)
    return Condition(Kind.GONE, broker, fenced_ms, fenced_ms, is_over=False)


def _line_lost_ms(history: History, broker: int, before_ms: int) -> int | None:
    """Return when others lost their connection to a broker whose next process registered at `before_ms`."""
    lost = [
        each.begin_ms
        for each in history.observations
        if each.last.subject == broker
        and each.last.kind in {"follower-silent", "leader-silent"}
        and each.last.evidence.get("connection") in {"lost", "none"}
        and before_ms - 30_000 <= each.begin_ms <= before_ms
    ]
    return max(lost, default=None)


def _stopped(history: History) -> list[Condition]:
    found: list[Condition] = []
    for index, state in enumerate(history.states):
        if not _is_stopping(state):
            continue
        back = [each.ts_ms for each in history.states[index + 1 :] if each.subject == state.subject]
        registered = [
            each.ts_ms
            for each in history.states[index + 1 :]
            if each.subject == state.subject and each.state == "registered"
        ]
        end_ms = registered[0] if registered else max([state.ts_ms, *back])
        if any(each.broker == state.subject and state.ts_ms <= each.end_ms <= end_ms for each in found):
            # It announced its stop, and was told a moment later that it may go.
            continue
        found.append(Condition(Kind.STOPPED, state.subject, state.ts_ms, end_ms, is_over=bool(registered)))
    return found


def _is_stopping(state: BrokerState) -> bool:
    return state.state == "shutdown" or (state.state == "fenced" and state.reason in STOPS)


def _disks(history: History) -> list[Condition]:
    """Return which brokers waited for their disks; reads that only clients waited for are left out."""
    found: dict[int, list[Condition]] = {}
    for each in history.of_kind("slow-disk"):
        event = each.last
        operation, replica = str(event.evidence.get("op", "")), _int(event.evidence, "for_replica")
        if operation == "sync" or (operation == "read" and replica < 0):
            # No follower waits for these: a sync runs beside everything else.
            continue
        total_ms = max(_int(event.evidence, "total_ms"), event.lasted_ms if operation in BESIDE_THE_LOOP else 0)
        mine = found.setdefault(event.broker, [])
        if not mine or each.begin_ms > mine[-1].end_ms + JOIN_MS:
            mine.append(Condition(Kind.DISK, event.broker, each.begin_ms, each.end_ms, numbers={"total_ms": 0}))
        condition = mine[-1]
        condition.end_ms = max(condition.end_ms, each.end_ms)
        condition.is_over = condition.is_over and each.is_over
        name = (operation, f"{event.topic}-{event.partition}", replica)
        longest_ms = max(_int(event.evidence, "longest_ms"), condition.operations.get(name, 0))
        condition.operations[name] = longest_ms
        condition.numbers["total_ms"] = _int(condition.numbers, "total_ms") + total_ms
        if operation not in BESIDE_THE_LOOP:
            condition.blocked_ms += total_ms
    return [each for mine in found.values() for each in mine if _int(each.numbers, "total_ms") >= SLOW_DISK_MS]


def _stalls(history: History, disks: Sequence[Condition]) -> list[Condition]:
    """Return when brokers' own loops stood still, unless it was their disk that they waited for."""
    found: list[Condition] = []
    for each in history.of_kind("stall"):
        broker = each.last.broker
        held_ms = _int(each.last.evidence, "held_by_disk_ms")
        if held_ms * 2 >= each.last.lasted_ms:
            continue
        stall = Condition(Kind.STALL, broker, each.begin_ms, each.end_ms)
        blocked = [disk for disk in disks if disk.broker == broker and disk.blocked_ms and disk.explains(stall)]
        if blocked:
            continue
        if found and found[-1].broker == broker and stall.begin_ms <= found[-1].end_ms + JOIN_MS:
            found[-1].end_ms = max(found[-1].end_ms, stall.end_ms)
        else:
            found.append(stall)
    return [*found, *_inferred_stalls(history, found)]


def _inferred_stalls(history: History, told: Sequence[Condition]) -> list[Condition]:
    """Return brokers that say nothing to anybody, although their processes are not known to be gone."""
    found = []
    for gap in history.of_kind("heartbeat-gap"):
        broker = gap.last.subject
        condition = Condition(Kind.STALL, broker, gap.begin_ms, gap.end_ms, is_over=gap.is_over)
        missed = [
            each
            for each in history.observations
            if each.last.subject == broker
            and each.last.kind in {"follower-silent", "leader-silent"}
            and each.last.broker != gap.last.broker
            and not each.beats_heard
            and condition.touches(each.begin_ms, each.end_ms)
        ]
        # Whoever has told anything since would have told that it stood still, too.
        spoke = any(each.last.broker == broker and each.last.ts_ms > gap.begin_ms for each in history.observations)
        spoke = spoke or any(each.broker == broker and each.ts_ms > gap.begin_ms for each in history.progress)
        if missed and not spoke and not any(each.broker == broker and each.explains(condition) for each in told):
            condition.numbers["inferred"] = True
            found.append(condition)
    return found


def _unreachable(history: History, deep: Sequence[Condition]) -> list[Condition]:
    found: list[Condition] = []
    for each in history.of_kind("controller-unreachable"):
        condition = Condition(
            Kind.UNREACHABLE,
            each.last.broker,
            each.begin_ms,
            each.end_ms,
            other=_int(each.last.evidence, "controller"),
            is_over=each.is_over,
        )
        pair = {condition.broker, condition.other, int(each.last.subject)}
        if any(other.broker in pair and other.explains(condition) for other in deep):
            continue
        found.append(condition)
    return found


def _late(history: History, deep: Sequence[Condition]) -> list[Condition]:
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
        if not any(other.broker in {condition.broker, condition.other} and other.explains(condition) for other in deep):
            found.append(condition)
    return found


def _fresh(history: History, late: Sequence[Condition]) -> list[Condition]:
    """Return which replicas filled an empty log of this partition, unless they had just heard of it late."""
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


# What a line suffers.


def _cuts(history: History, deep: Sequence[Condition], late: Sequence[Condition]) -> list[Condition]:
    """Return the lines that were cut, with the directions that beats tell."""
    silences: dict[tuple[int, int], list[Seen]] = {}
    for each in history.observations:
        if each.last.kind in {"follower-silent", "leader-silent"}:
            one, other = sorted((int(each.last.broker), int(each.last.subject)))
            silences.setdefault((one, other), []).append(each)
    found = []
    for pair, reports in silences.items():
        for group in _groups(reports):
            cut = _cut(history, pair, group, deep, late)
            if cut is not None:
                found.append(cut)
    return found


def _speaks(history: History, pair: tuple[int, int], missing: set[int], begin_ms: int) -> bool:
    """Return whether the one that is missed has told of anything since."""
    return any(
        each.last.broker in pair and each.last.broker not in missing and each.last.ts_ms > begin_ms
        for each in history.observations
    )


def _groups(reports: Sequence[Seen]) -> list[list[Seen]]:
    groups: list[list[Seen]] = []
    end_ms = 0
    for each in reports:
        if not groups or each.begin_ms > end_ms + CLOCKS_MS:
            groups.append([])
            end_ms = each.end_ms
        groups[-1].append(each)
        end_ms = max(end_ms, each.end_ms)
    return groups


def _cut(
    history: History,
    pair: tuple[int, int],
    reports: Sequence[Seen],
    deep: Sequence[Condition],
    late: Sequence[Condition],
) -> Condition | None:
    one, other = pair
    begin_ms, end_ms = min(each.begin_ms for each in reports), max(each.end_ms for each in reports)
    condition = Condition(Kind.CUT, one, begin_ms, end_ms, other, is_over=all(each.is_over for each in reports))
    for trouble in deep:
        if trouble.broker not in pair or not trouble.explains(condition):
            continue
        # A read for a third broker keeps these two waiting for nothing.
        waiting = {replica for operation, _, replica in trouble.operations if operation == "read"}
        if trouble.kind is not Kind.DISK or trouble.blocked_ms or waiting & set(pair):
            return None
    missing = {int(each.last.broker) for each in reports}
    heard = {broker: sum(each.beats_heard for each in reports if each.last.broker == broker) for broker in pair}
    condition.numbers = {f"beats_heard_by_{broker}": beats for broker, beats in heard.items()}
    if heard[one] and heard[other]:
        return None
    misses_leader = any(each.last.kind == "leader-silent" for each in reports)
    if not misses_leader and (len(missing) == 2 or _speaks(history, pair, missing, begin_ms)):
        # Whoever does not ask, and misses nobody, does not know that it should: its metadata are old.
        return None
    if len(missing) == 2:
        # Beats are sent both ways: what does not arrive is lost.
        directions = [(source, target) for source, target in ((one, other), (other, one)) if not heard[target]]
        condition.lost = tuple(directions)
        return condition
    if any(each.broker in pair and each.touches(begin_ms, end_ms) for each in late):
        return None
    (misser,) = missing
    silent = other if misser == one else one
    if heard[misser]:
        return None
    condition.broker, condition.other = silent, misser
    condition.kind = Kind.SILENT
    gaps = [each for each in history.of_kind("heartbeat-gap") if each.last.subject == silent]
    if not any(condition.touches(gap.begin_ms, gap.end_ms) for gap in gaps) and not condition.is_over:
        # The silent one speaks to the controller, and what it has to say of this line may not have come through yet.
        condition.kind = Kind.CUT
        condition.lost = ((silent, misser),)
    return condition


# What a partition suffers.


def _bursts(history: History) -> list[Condition]:
    """Return when much more than usual was written, and followers were behind for it although they asked."""
    found: list[Condition] = []
    inflows = sorted(
        each.inflow_records
        for each in {each.ts_ms: each for each in history.progress}.values()
        if each.inflow_records >= 0
    )
    usual = inflows[len(inflows) // 4] if len(inflows) >= 4 else 0
    for sample in history.progress:
        if sample.inflow_records >= max(BURST_RECORDS, BURST_FACTOR * usual):
            begin_ms = sample.ts_ms - max(0, sample.interval_ms)
            if found and begin_ms <= found[-1].end_ms + JOIN_MS:
                found[-1].end_ms = sample.ts_ms
                found[-1].numbers["inflow_records"] = max(
                    _int(found[-1].numbers, "inflow_records"), sample.inflow_records
                )
                continue
            numbers: dict[str, Json] = {"inflow_records": sample.inflow_records, "usual_records": usual}
            found.append(Condition(Kind.BURST, sample.broker, begin_ms, sample.ts_ms, numbers=numbers))
    return found


def _int(numbers: Mapping[str, Json], name: str) -> int:
    value = numbers.get(name)
    return value if isinstance(value, int) else -1
