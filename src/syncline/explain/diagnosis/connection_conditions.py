"""Cut connections between replicas, and the directions in which nothing arrives.

A broker that misses another one sends it beats on the connection that their fetches use. Beats that arrive prove that
their direction works. If both brokers miss each other, both ran, and beats are missing, the connection is cut; if only
one misses the other, the other may just be silent.

Source: ours; docs/journal.md describes the beats.
"""

from collections.abc import Sequence

from syncline.explain.diagnosis.condition import CLOCKS_MS, Condition, Kind
from syncline.explain.diagnosis.history import History, Observed

SILENCES = frozenset({"follower-silent", "leader-silent"})

_Pair = tuple[int, int]


def cuts(history: History, deep: Sequence[Condition], late: Sequence[Condition]) -> list[Condition]:
    """Return the connections that were cut; `deep` conditions and brokers with `late` metadata explain silences."""
    silences: dict[_Pair, list[Observed]] = {}
    for each in history.observations:
        if each.last.kind in SILENCES:
            one, other = sorted((int(each.last.broker), int(each.last.subject)))
            silences.setdefault((one, other), []).append(each)
    found = []
    for pair, reports in silences.items():
        for group in _groups(reports):
            cut = _cut(history, pair, group, deep, late)
            if cut is not None:
                found.append(cut)
    return found


def _groups(reports: Sequence[Observed]) -> list[list[Observed]]:
    """Return the reports of one pair of brokers, those that overlap in time together."""
    groups: list[list[Observed]] = []
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
    pair: _Pair,
    reports: Sequence[Observed],
    deep: Sequence[Condition],
    late: Sequence[Condition],
) -> Condition | None:
    one, other = pair
    begin_ms, end_ms = min(each.begin_ms for each in reports), max(each.end_ms for each in reports)
    condition = Condition(Kind.CUT, one, begin_ms, end_ms, other, is_over=all(each.is_over for each in reports))
    if any(_explains_silence(each, condition, pair) for each in deep):
        return None
    missing = {int(each.last.broker) for each in reports}
    heard = {broker: sum(each.beats_heard for each in reports if each.last.broker == broker) for broker in pair}
    condition.numbers = {f"beats_heard_by_{broker}": beats for broker, beats in heard.items()}
    if heard[one] and heard[other]:
        return None
    misses_leader = any(each.last.kind == "leader-silent" for each in reports)
    if not misses_leader and (len(missing) == 2 or _spoke(history, pair, missing, begin_ms)):
        # A follower that neither fetches nor misses its leader does not know that it should: its metadata is old.
        return None
    if len(missing) == 2:
        # Both send beats: a direction in which none arrives is lost.
        condition.lost = tuple((source, target) for source, target in ((one, other), (other, one)) if not heard[target])
        return condition
    if any(each.broker in pair and each.touches(begin_ms, end_ms) for each in late):
        return None
    (misser,) = missing
    if heard[misser]:
        return None
    condition.broker, condition.other = (other if misser == one else one), misser
    gaps = [
        each
        for each in (*history.of_kind("heartbeat-gap"), *history.of_kind("controller-unreachable"))
        if each.first.subject == condition.broker
    ]
    if condition.is_over or any(condition.touches(gap.begin_ms, gap.end_ms) for gap in gaps):
        condition.kind = Kind.SILENT
    else:
        # The silent broker reaches the controller, or is the controller and answers others. So it runs, and its own
        # reports of this connection may not have arrived yet.
        condition.lost = ((condition.broker, misser),)
    return condition


def _explains_silence(trouble: Condition, cut: Condition, pair: _Pair) -> bool:
    if trouble.broker not in pair or not trouble.explains(cut):
        return False
    # A read for a third broker does not keep these two waiting.
    waiting = {replica for operation, _, replica in trouble.operations if operation == "read"}
    return trouble.kind is not Kind.DISK or trouble.blocked_ms > 0 or bool(waiting & set(pair))


def _spoke(history: History, pair: _Pair, missing: set[int], begin_ms: int) -> bool:
    """Return whether the broker that the other one misses has reported anything since."""
    return any(
        each.last.broker in pair and each.last.broker not in missing and each.last.ts_ms > begin_ms
        for each in history.observations
    )
