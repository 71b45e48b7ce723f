"""L9: while faults last, a partition with enough healthy members of its ISR accepts acks=all in time.

One hard idea: the rule asks the fault plan who is healthy, not the cluster. Time
is cut into windows in which the plan does not change. A window obliges a
partition if, of the ISR that was committed just before the window began,

1. at least `min.insync.replicas` members are *able*: no fault of the process or
   the disk strikes them, and none has within the last `RECOVERY_NS`;
2. a group of that many able members is connected, each with each, both ways; and
3. every holder of the lease within the window reaches such a group, or does not
   run. A holder that runs and renews keeps the lease, whomever it can reach: the
   store is one file, and the lease says who writes it (docs/divergences.md).

A probe that waits in such a window must be accepted within the limit, counted
from the begin of the window or of the probe, whichever is later. The limit
depends on how the cluster can notice the faults (`NOTICED`), and the slowest
of them counts. docs/properties.md has the reasons.

Units: ns of virtual time, unless a name says otherwise.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import combinations, pairwise
from typing import Final, NamedTuple

from syncline.model.ids import TopicPartition
from syncline.virtual.faults import FaultSettings
from syncline.virtual.liveness.episodes import Episode
from syncline.virtual.liveness.prober import Probe
from syncline.virtual.liveness.store_record import StoreRecord
from syncline.virtual.time.durations import MS, SECOND

# A broker that was struck starts, registers and catches up; so long it need not carry a partition.
RECOVERY_NS: Final = 2 * SECOND
GONE_NS_MAX: Final = 3 * SECOND
MARGIN_NS: Final = SECOND
# On slow links every message takes longer. Five go one after the other when another broker takes over: the news, two to
# connect, and two fetches that carry the records and say that they are there.
SLOW_LINKS_NS: Final = 5 * FaultSettings().delay_ns_max
# A leader looks every half window, so a follower is out after one and a half.
LAG_WINDOWS: Final = 1.5


class Notice(Enum):
    """How the cluster can notice a fault, fastest first."""

    # A port refuses a connection, or a disk an operation.
    REFUSAL = 1
    # Nothing arrives; only the session timeout tells.
    SILENCE = 2
    # One follower is cut off from its leader, and both reach the controller; only the lag tells.
    LAG = 3
    # The operation is done, late.
    NEVER = 4


# A costly request is not in this table: it is no excuse, and the clock does not start again with it.
NOTICED: Final = {
    "kill": Notice.REFUSAL,
    "full_disk": Notice.REFUSAL,
    "refusing_disk": Notice.REFUSAL,
    "power_cut": Notice.SILENCE,
    "pause": Notice.SILENCE,
    "cut": Notice.SILENCE,
    "one_way_cut": Notice.SILENCE,
    "delay": Notice.SILENCE,
    "reset": Notice.SILENCE,
    "lose_lease": Notice.SILENCE,
    "slow_disk": Notice.NEVER,
}
# The host carries no partition while these last.
DISABLING: Final = frozenset({"kill", "power_cut", "pause", "full_disk", "refusing_disk", "slow_disk"})
# While these last, the host's process does not renew a lease.
STOPPING: Final = frozenset({"kill", "power_cut", "pause"})
CUTTING: Final = frozenset({"cut", "one_way_cut"})


class Terms(NamedTuple):
    """What a cluster promises: its time-outs, and how many members an ISR needs."""

    session_timeout_ms: int
    lag_time_max_ms: int
    isr_size_min: int

    def limit_ns(self, notice: Notice) -> int | None:
        """Return the time within which a produce must be accepted, None if there is no limit."""
        silent_ns = self.session_timeout_ms * MS + MARGIN_NS
        match notice:
            case Notice.REFUSAL:
                return min(GONE_NS_MAX, silent_ns)
            case Notice.SILENCE:
                return silent_ns
            case Notice.LAG:
                return max(silent_ns, int(self.lag_time_max_ms * LAG_WINDOWS) * MS + MARGIN_NS)
            case Notice.NEVER:
                return None


class Duty(NamedTuple):
    """What one window of the plan demands of one partition."""

    key: TopicPartition
    begin_ns: int
    end_ns: int
    limit_ns: int
    able: tuple[int, ...]
    # What lasts in the window.
    faults: tuple[Episode, ...]

    def due_ns(self, probe: Probe) -> int | None:
        """Return when a probe must be accepted, None if it is not due within the window."""
        due_ns = max(self.begin_ns, probe.began_ns) + self.limit_ns
        return due_ns if due_ns < self.end_ns else None


def duties(
    episodes: Sequence[Episode],
    store: StoreRecord,
    keys: Iterable[TopicPartition],
    hosts: Mapping[int, str],
    terms: Terms,
    end_ns: int,
) -> list[Duty]:
    """Return the duties of all partitions from the first fault until `end_ns`; `hosts` has each broker's host."""
    episodes = [each for each in episodes if each.kind in NOTICED]
    changes = sorted({at_ns for each in episodes for at_ns in (each.begin_ns, each.end_ns or end_ns)} | {end_ns})
    found = []
    for begin_ns, next_ns in pairwise(changes):
        faults = tuple(each for each in episodes if each.is_active(begin_ns))
        recent = tuple(each for each in episodes if each.ended_within(begin_ns, RECOVERY_NS))
        limit_ns = terms.limit_ns(_slowest(faults, recent))
        if limit_ns is not None and any(each.kind == "delay" for each in faults):
            limit_ns += SLOW_LINKS_NS
        if limit_ns is None or next_ns - begin_ns <= limit_ns:
            continue
        disabled = {each.host for each in (*faults, *recent) if each.kind in DISABLING}
        for key in keys:
            able = tuple(each for each in store.isr_before(key, begin_ns) if hosts[each] not in disabled)
            groups = _connected(able, hosts, faults, terms.isr_size_min)
            holders = store.holders(begin_ns, next_ns)
            if groups and all(_can_decide(holder, groups, hosts, faults) for holder in holders):
                found.append(Duty(key, begin_ns, next_ns, limit_ns, able, faults))
    return found


def violations(found: Iterable[Duty], probes: Iterable[Probe]) -> list[str]:
    """Return the probes that a partition accepted too late."""
    by_key: dict[TopicPartition, list[Duty]] = {}
    for duty in found:
        by_key.setdefault(duty.key, []).append(duty)
    late = []
    for probe in probes:
        for duty in by_key.get(probe.key, ()):
            due_ns = duty.due_ns(probe)
            if due_ns is not None and (probe.accepted_ns is None or probe.accepted_ns > due_ns):
                late.append(_report(duty, probe, due_ns))
                break
    return late


def _slowest(faults: Sequence[Episode], recent: Sequence[Episode]) -> Notice:
    """Return how the cluster can notice all of these faults, and the end of those that are over."""
    notices = [Notice.REFUSAL, *(_notice(each) for each in faults)]
    # A disk that is no longer slow has to be noticed no more than any other broker that is back.
    notices += [min(_notice(each), Notice.SILENCE, key=lambda notice: notice.value) for each in recent]
    return max(notices, key=lambda notice: notice.value)


def _notice(episode: Episode) -> Notice:
    if episode.kind in CUTTING and len(episode.peers) == 1:
        return Notice.LAG
    return NOTICED[episode.kind]


def _is_cut(one: str, other: str, faults: Sequence[Episode]) -> bool:
    return any(
        each.kind in CUTTING
        and ((each.host == one and other in each.peers) or (each.host == other and one in each.peers))
        for each in faults
    )


def _connected(
    able: Sequence[int], hosts: Mapping[int, str], faults: Sequence[Episode], size: int
) -> list[tuple[int, ...]]:
    """Return the groups of `size` able brokers that are connected, each with each."""
    return [
        group
        for group in combinations(able, size)
        if not any(_is_cut(hosts[one], hosts[other], faults) for one, other in combinations(group, 2))
    ]


def _can_decide(
    holder: int, groups: Sequence[tuple[int, ...]], hosts: Mapping[int, str], faults: Sequence[Episode]
) -> bool:
    """Return whether this holder of the lease reaches a whole group, or cannot keep the lease."""
    if any(each.host == hosts[holder] and each.kind in STOPPING for each in faults):
        return True
    return any(
        all(member == holder or not _is_cut(hosts[holder], hosts[member], faults) for member in group)
        for group in groups
    )


def _report(duty: Duty, probe: Probe, due_ns: int) -> str:
    faults = ", ".join(_describe(each) for each in duty.faults) or "no fault lasts"
    accepted = "not at all" if probe.accepted_ns is None else f"at {probe.accepted_ns / SECOND:.3f} s"
    return (
        f"L9 {probe.key}: a produce of {probe.began_ns / SECOND:.3f} s was due at {due_ns / SECOND:.3f} s and accepted"
        f" {accepted}; brokers {duty.able} are able since {duty.begin_ns / SECOND:.3f} s; {faults}"
    )


def _describe(episode: Episode) -> str:
    where = f"{episode.host}>{'+'.join(episode.peers)}" if episode.peers else episode.host
    return f"{episode.kind} {where} since {episode.begin_ns / SECOND:.3f} s"
