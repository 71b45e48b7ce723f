"""Evidence: the sentences that support a finding's cause, and those that rule out others."""

from collections.abc import Mapping
from typing import Final, assert_never

from syncline.explain.diagnosis.condition import Condition, Kind, number
from syncline.explain.diagnosis.findings import Cause, Effect, Finding
from syncline.explain.words import wording
from syncline.explain.words.phrases import Show, count, listed, short, span
from syncline.model.events import Json

# How many of the longest disk operations, and of the other conditions, are named.
_NAMED_MAX: Final = 3


def evidence_for(finding: Finding, show: Show) -> list[str]:
    """Return the evidence for the cause."""
    condition = finding.condition
    if condition is None:
        return []
    broker, other, numbers = condition.broker, condition.other, condition.numbers
    begin, end, lasted = show(condition.begin_ms), show(condition.end_ms), span(condition.length_ms)
    still = "" if condition.is_over else wording.STILL
    match condition.kind:
        case Kind.FULL | Kind.DESCRIPTORS | Kind.DAMAGED | Kind.FAILED:
            return [_unfit(condition, begin, end, still)]
        case Kind.GONE:
            back = wording.NEXT_PROCESS.format(end=end) if condition.is_over else wording.NO_NEXT_PROCESS
            return [wording.GONE.format(broker=broker, begin=begin, back=back)]
        case Kind.STOPPED if numbers.get("unreported"):
            return [wording.STOPPED_BEFORE.format(broker=broker, end=end)]
        case Kind.STOPPED:
            return [wording.STOPPED.format(broker=broker, begin=begin)]
        case Kind.STALL if "inferred_from" in numbers:
            inferred = wording.PAUSES_INFERRED[numbers["inferred_from"]]
            return [inferred.format(broker=broker, begin=begin), wording.REPORT_IS_MISSING]
        case Kind.STALL:
            return [wording.PAUSE_REPORTED.format(broker=broker, begin=begin, end=end, lasted=lasted)]
        case Kind.DISK:
            operations = ", ".join(_longest_operations(condition))
            return [wording.DISK.format(broker=broker, begin=begin, end=end, operations=operations, still=still)]
        case Kind.CUT:
            cut = wording.CUT.format(one=broker, other=other, begin=begin, end=end, lasted=lasted)
            return [cut, _beats(condition, broker, other), _beats(condition, other, broker)]
        case Kind.SILENT:
            return [wording.SILENT.format(broker=broker, other=other, begin=begin, end=end)]
        case Kind.UNREACHABLE:
            unreachable = wording.UNREACHABLE.format(
                broker=broker, other=other, begin=begin, end=end, lasted=lasted, still=still
            )
            if finding.cause is Cause.FENCED_ALIVE:
                return [unreachable, wording.WENT_ON_FETCHING.format(leader=finding.leader)]
            return [unreachable]
        case Kind.LATE:
            return [
                wording.LATE.format(
                    broker=broker,
                    begin=begin,
                    end=end,
                    lasted=lasted,
                    still=still,
                    applied=numbers.get("applied_version"),
                    committed=numbers.get("committed_version"),
                    contact=_contact(numbers),
                )
            ]
        case Kind.FRESH:
            return [_filled(condition, begin, end, lasted, still)]
        case Kind.BURST:
            usual = numbers.get("usual_records")
            than = wording.USUALLY.format(records=count(usual)) if usual else ""
            records = count(numbers.get("inflow_records"))
            return [wording.BURST.format(records=records, begin=begin, end=end, usual=than)]
        case Kind.THROTTLED:
            move = numbers.get("move")
            held = numbers.get("held")
            throttled = wording.THROTTLED.format(
                by=numbers.get("by"),
                does=wording.SENDS if numbers.get("role") == "leader" else wording.RECEIVES,
                quota=count(numbers.get("quota_bytes_per_s")),
                rate=count(numbers.get("rate_bytes_per_s")),
                for_what=wording.FOR_MOVE.format(move=move) if move else wording.FOR_LISTED,
                mode=numbers.get("mode"),
                held=wording.HELD_ONE if held == 1 else wording.HELD_MANY.format(held=held),
                begin=begin,
                end=end,
                lasted=lasted,
                still=still,
            )
            return [throttled, *_taken(numbers)] if finding.cause is Cause.STARVED else [throttled]
        case _:
            assert_never(condition.kind)


def _contact(numbers: Mapping[str, Json]) -> str:
    """Return whether the controller kept hearing from a broker whose metadata was late, if that is known."""
    silent_ms = numbers.get("silent_ms")
    if not isinstance(silent_ms, int):
        return ""
    if numbers.get("kept_heartbeating"):
        return wording.KEPT_HEARTBEATING
    return wording.WAS_SILENT.format(silent=span(silent_ms))


def _filled(condition: Condition, begin: str, end: str, lasted: str, still: str) -> str:
    """Return how far an empty log was filled; a copy that was given up has no numbers."""
    broker, numbers = condition.broker, condition.numbers
    log_end, leader_end, rate = (numbers.get(name) for name in ("log_end", "leader_end", "records_per_s"))
    if not isinstance(log_end, int):
        return wording.FILLING.format(broker=broker, begin=begin, end=end, lasted=lasted, still=still)
    return wording.FRESH.format(
        broker=broker,
        begin=begin,
        end=end,
        lasted=lasted,
        still=still,
        log_end=count(log_end),
        leader_end=wording.OF_LEADER_END.format(leader_end=count(leader_end)) if isinstance(leader_end, int) else "",
        rate=wording.AT_RATE.format(rate=count(rate)) if isinstance(rate, int) else "",
    )


def _taken(numbers: Mapping[str, Json]) -> list[str]:
    """Return who got a quota for which the replica waited."""
    neighbour, _, receiver = str(numbers.get("neighbour")).rpartition("@")
    move = numbers.get("neighbour_move")
    return [
        wording.TAKEN.format(
            taken=count(numbers.get("taken_bytes")),
            neighbours=count(numbers.get("neighbours_bytes")),
            whose=wording.OTHER_MOVE.format(move=move) if move else wording.OTHER_MOVES,
            receiver=receiver,
            neighbour=neighbour,
        )
    ]


def _unfit(condition: Condition, begin: str, end: str, still: str) -> str:
    broker, numbers = condition.broker, condition.numbers
    if "refused_count" in numbers:
        return wording.REFUSED_WRITES.format(
            broker=broker,
            begin=begin,
            end=end,
            still=still,
            refused=count(numbers["refused_count"]),
            on=numbers.get("on"),
            errno=numbers.get("errno"),
        )
    if "reason" in numbers:
        return wording.DAMAGED.format(broker=broker, begin=begin, reason=numbers["reason"])
    if "error" in numbers:
        return wording.DISK_FAILED.format(broker=broker, begin=begin, error=numbers["error"])
    return wording.REPORTED_UNFIT.format(broker=broker, begin=begin)


def _longest_operations(condition: Condition) -> list[str]:
    longest_first = sorted(condition.operations.items(), key=lambda row: -row[1])
    return [
        wording.OPERATION.format(
            operation=operation,
            partition=partition,
            whose=wording.FOR_FETCH.format(replica=replica) if operation == "read" and replica >= 0 else "",
            longest=span(longest_ms),
        )
        for (operation, partition, replica), longest_ms in longest_first[:_NAMED_MAX]
    ]


def _beats(condition: Condition, source: int, target: int) -> str:
    beats = max(0, number(condition.numbers, f"beats_heard_by_{target}"))
    if beats:
        return wording.BEATS_ARRIVED.format(source=source, target=target, beats=beats)
    return wording.NO_BEATS_ARRIVED.format(source=source, target=target)


def evidence_against(finding: Finding, show: Show) -> list[str]:
    """Return the evidence against other causes."""
    if finding.effect is Effect.HELD:
        return [wording.ALSO.format(condition=short(each, show)) for each in finding.also]
    if finding.effect not in {Effect.LEFT, Effect.ELECTED, Effect.NOTHING}:
        return []
    sentences = [wording.ALSO.format(condition=short(each, show)) for each in finding.beside[:_NAMED_MAX]]
    absent = [wording.ABSENT[kind] for kind in finding.ruled_out]
    if absent and finding.brokers:
        brokers = [str(each) for each in finding.brokers]
        template = wording.ON_BROKER if len(brokers) == 1 else wording.ON_BROKERS
        where = template.format(brokers=listed(brokers))
        sentences.append(wording.NOTHING_ELSE.format(listed=listed(absent), where=where))
    return sentences
