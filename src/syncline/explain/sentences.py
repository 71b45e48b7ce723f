"""A diagnosis in words: what happened, why, what speaks for it and what against anything else.

Every sentence rests on an event; what nobody told is called unknown. `show`
turns Unix milliseconds into the time of day of whoever reads.
"""

from collections.abc import Callable, Mapping
from typing import Final

from syncline.explain.condition import Condition, Kind
from syncline.explain.findings import Cause, Diagnosis, Effect, Finding
from syncline.model.events import Election, IsrChange, Json, Truncation, Watermark
from syncline.model.reasons import Reason, reason_of

Show = Callable[[int], str]

# A controller that takes longer to agree to a proposal is told of.
SLOW_ANSWER_MS: Final = 500

TITLES: Final[dict[Cause, str]] = {
    Cause.FOLLOWER_DEAD: "the follower's process died",
    Cause.LEADER_DEAD: "the leader's process died",
    Cause.STOPPED: "the broker was stopped in good order",
    Cause.FOLLOWER_PAUSED: "the follower's process stood still",
    Cause.LEADER_PAUSED: "the leader's process stood still",
    Cause.FOLLOWER_DISK: "the follower's disk was slow",
    Cause.LEADER_DISK: "the leader's disk was slow",
    Cause.CUT_BOTH_WAYS: "the network between two brokers was cut in both directions",
    Cause.CUT_ONE_WAY: "the network between two brokers was cut in one direction",
    Cause.BURST: "a burst of writes, which followers in good health could not take as fast",
    Cause.NEW_REPLICA: "a replica began with an empty log and had to catch up",
    Cause.CONTROLLER: "the controller could not be reached",
    Cause.FENCED_ALIVE: "the controller fenced a broker that was alive",
    Cause.METADATA_LATE: "a broker learned of the metadata late",
    Cause.UNKNOWN: "unknown",
}


def title_of(finding: Finding) -> str:
    """Return the cause of a finding, with whom it befell."""
    condition = finding.condition
    title = TITLES[finding.cause]
    if condition is None:
        return title
    if condition.kind is Kind.CUT:
        return f"{title}: {_directions(condition)}"
    return f"{title} (broker {condition.broker})"


def tell(diagnosis: Diagnosis, show: Show) -> list[str]:
    """Return the diagnosis as paragraphs."""
    where = f"{diagnosis.topic}-{diagnosis.partition}"
    if not diagnosis.findings:
        since = f"between {show(diagnosis.since_ms)} and {show(diagnosis.until_ms)}"
        if diagnosis.created_ms is not None:
            since = f"since it was created at {show(diagnosis.created_ms)}"
        return [
            (
                f"Nothing happened to {where} {since}: its ISR and its leader did not change, and no broker noticed "
                "anything unusual about its replicas."
            )
        ]
    told = [_paragraph(each, where, show) for each in diagnosis.findings]
    main = diagnosis.main
    if main is not None and main.cause is not Cause.UNKNOWN:
        named = title_of(main)
        others = dict.fromkeys(
            title_of(each) for each in diagnosis.findings if each.condition is not None and not each.needs_no_cause
        )
        besides = [title for title in others if title != named]
        told.append(f"Main cause: {named}." + (f" Besides: {'; '.join(besides)}." if besides else ""))
    elif main is not None:
        told.append("The main cause is unknown: no broker told of anything that would explain it.")
    return told


def _paragraph(finding: Finding, where: str, show: Show) -> str:
    sentences = [*_effect(finding, where, show)]
    if finding.needs_no_cause and finding.condition is None:
        return " ".join(sentences)
    if finding.condition is None:
        sentences.append("The cause is unknown: no broker told of anything that would explain it.")
    else:
        sentences.append(f"Cause: {title_of(finding)}.")
        sentences += evidence_for(finding, show)
    sentences += evidence_against(finding, show)
    return " ".join(sentences)


# What happened.


def _effect(finding: Finding, where: str, show: Show) -> list[str]:
    event, at = finding.event, show(finding.ts_ms)
    match finding.effect:
        case Effect.LEFT if isinstance(event, IsrChange):
            return _left(finding, event, where, show)
        case Effect.JOINED if isinstance(event, IsrChange):
            return [f"Replica {finding.replica} joined the ISR of {where} at {at}: {_rule(event)}."]
        case Effect.REFUSED if isinstance(event, IsrChange):
            error = event.evidence.get("error", "an error")
            return [
                (
                    f"The controller refused leader {event.broker}'s change of the ISR of {where} from "
                    f"{list(event.before)} to {list(event.after)} at {at}: {error}; it was proposed at leader epoch "
                    f"{_count(event.evidence.get('leader_epoch'))}, partition epoch "
                    f"{_count(event.evidence.get('partition_epoch'))}."
                )
            ]
        case Effect.RELINQUISHED if isinstance(event, IsrChange):
            return [
                (
                    f"Leader {event.broker} gave {where} away at {at}, because it served its followers too slowly"
                    f"{_served(event)} ({event.rule}, {event.outcome})."
                )
            ]
        case Effect.TRUNCATED if isinstance(event, Truncation):
            return [
                (
                    f"Replica {event.broker} cut its log of {where} from offset {event.log_end_before:,} back to "
                    f"{event.log_end_after:,} at {at}, because leader {event.leader} has another history from there on "
                    f"({event.rule}{_ends(event)})."
                )
            ]
        case Effect.SPARED:
            until = finding.numbers.get("until_ms")
            end = f" until {show(until)}" if isinstance(until, int) and finding.numbers.get("is_over") else ""
            return [
                (
                    f"Replica {finding.replica} stayed in the ISR of {where} from {at}{end} only because leader "
                    f"{finding.leader} owed it the answer to a fetch (KIP-501)."
                )
            ]
        case Effect.ELECTED if isinstance(event, Election):
            return _elected(event, where, at)
        case Effect.HELD if isinstance(event, Watermark):
            return _held(finding, event, where, show)
        case _:
            return [f"Nothing came of it for {where}, but at {at} something was unusual."]


def _left(finding: Finding, event: IsrChange, where: str, show: Show) -> list[str]:
    numbers, replica = finding.numbers, finding.replica
    head = f"Replica {replica} left the ISR of {where} at {show(finding.ts_ms)}"
    if event.rule == "election":
        chosen = ", ".join(map(str, event.after))
        return [f"{head}: {chosen} was elected although not in it ({_because(event.evidence)})."]
    if event.rule == "fencing" and finding.cause is Cause.STOPPED:
        return [f"{head}: it announced its stop to controller {event.broker}."]
    if event.rule == "fencing":
        return [f"{head}: controller {event.broker} fenced it ({_because(event.evidence)})."]
    caught_up, decided = numbers.get("caught_up_ms"), numbers.get("decided_ms")
    window = numbers.get("replica_lag_time_max_ms")
    most = numbers.get("replica_lag_max_messages")
    behind = _difference(numbers.get("leader_log_end"), numbers.get("log_end"))
    sentences = []
    if event.rule == "lag:messages" and isinstance(most, int) and behind is not None and behind > most:
        sentences.append(f"{head}: it was {behind:,} records behind, more than replica.lag.max.messages {most:,}.")
    elif isinstance(caught_up, int) and isinstance(decided, int) and isinstance(window, int):
        sentences.append(
            f"{head}: {_when_decided(finding, decided, show)}it last had everything at {show(caught_up)}, "
            f"{_span(decided - caught_up)} before, more than replica.lag.time.max.ms {_span(window)}."
        )
    elif isinstance(window, int):
        sentences.append(
            f"{head}: it never had everything under this leader, for more than replica.lag.time.max.ms {_span(window)}."
        )
    else:
        sentences.append(f"{head} by rule {event.rule}.")
    sentences += _asked(finding, event, show)
    return sentences


def _when_decided(finding: Finding, decided: int, show: Show) -> str:
    """Return when the leader decided it, if the controller was slow to agree."""
    return f"the leader proposed it at {show(decided)}; " if finding.ts_ms - decided >= SLOW_ANSWER_MS else ""


def _asked(finding: Finding, event: IsrChange, show: Show) -> list[str]:
    """Return whether a replica that left had asked for what it lacked."""
    numbers = finding.numbers
    asked, decided = numbers.get("asked_ms"), numbers.get("decided_ms")
    reading = numbers.get("reading_since_ms")
    if not isinstance(decided, int):
        return []
    if isinstance(asked, int) and asked > decided:
        return [f"It asked again at {show(asked)}, when this was decided and the controller had not agreed yet."]
    if isinstance(asked, int) and isinstance(reading, int) and reading <= decided:
        sentences = [
            f"It did ask: its fetch of {show(asked)} had waited {_span(decided - reading)} for this leader's disk."
        ]
        if numbers.get("pending_fetches_protect") is False:
            sentences.append("KIP-501 protection is off; with it on the replica would have stayed.")
        return sentences
    if isinstance(asked, int) and numbers.get("is_owed"):
        return [f"It did ask: its fetch of {show(asked)} was not answered yet."]
    if isinstance(asked, int):
        return [f"Its last fetch came at {show(asked)}, {_span(decided - asked)} before."]
    return [f"Leader {event.broker} had no fetch of it at all."]


def _elected(event: Election, where: str, at: str) -> list[str]:
    if event.leader_after < 0:
        head = f"{where} was left without a leader at {at} (before: broker {event.leader_before})"
    else:
        head = (
            f"Broker {event.leader_after} became leader of {where} at {at} "
            + (f"in place of broker {event.leader_before}" if event.leader_before >= 0 else "after it had none")
            + f", epoch {event.leader_epoch}"
        )
    unclean = "" if event.clean else " The election was unclean: records may have been lost."
    return [f"{head}. The controller's reason: {reason_in_words(event.reason, event.evidence)}.{unclean}"]


def _held(finding: Finding, event: Watermark, where: str, show: Show) -> list[str]:
    until = finding.numbers.get("until_ms")
    waiting = event.log_end - event.high_watermark
    who = {
        "held:min-isr": f"the ISR is smaller than min.insync.replicas{_sizes(event)}",
        "held:isr-member": f"it waited for {_replicas(finding)} in the ISR",
        "held:near-isr": f"it waited for {_replicas(finding)} about to join the ISR",
    }.get(event.rule, event.rule)
    end = f" until {show(until)}" if isinstance(until, int) and until > event.ts_ms else ""
    return [
        (
            f"The high watermark of {where} stood at {event.high_watermark:,} from {show(event.since_ms)}{end} with "
            f"{waiting:,} records above it: {who}."
        )
    ]


def _replicas(finding: Finding) -> str:
    holders = finding.numbers.get("holders")
    numbers = [str(each) for each in holders] if isinstance(holders, list) else []
    return f"replica{'' if len(numbers) == 1 else 's'} {_listed(numbers) if numbers else 'unknown'}"


def _served(event: IsrChange) -> str:
    took, most = event.evidence.get("processing_ms"), event.evidence.get("process_time_max_ms")
    if not isinstance(took, int) or not isinstance(most, int):
        return ""
    whose = f" of replica {event.evidence['follower']}" if "follower" in event.evidence else ""
    return f": a fetch{whose} had taken {_span(took)}, more than follower.fetch.process.time.max.ms {_span(most)}"


def _ends(event: Truncation) -> str:
    epoch, end = event.evidence.get("answer_epoch"), event.evidence.get("answer_end_offset")
    if not isinstance(epoch, int) or not isinstance(end, int):
        return ""
    return f": there, epoch {epoch} ends at {end:,}"


def _sizes(event: Watermark) -> str:
    size, least = event.evidence.get("isr_size"), event.evidence.get("effective_min_isr")
    return f": {size} of {least}" if _are_ints(size, least) else ""


def _are_ints(*values: object) -> bool:
    return all(isinstance(each, int) for each in values)


def _rule(event: IsrChange) -> str:
    if event.rule == "reached-the-watermark":
        log_end, mark = event.evidence.get("log_end"), event.evidence.get("high_watermark")
        numbers = f" (log end {log_end:,}, high watermark {mark:,})" if _are_ints(log_end, mark) else ""
        return f"it had everything that is committed{numbers}"
    if event.rule == "election":
        return "it was elected, although it was not known to have everything that is committed"
    return event.rule


# Why.


def evidence_for(finding: Finding, show: Show) -> list[str]:
    """Return what speaks for the cause."""
    condition = finding.condition
    if condition is None:
        return []
    who, begin, end = f"Broker {condition.broker}", show(condition.begin_ms), show(condition.end_ms)
    lasted = _span(condition.length_ms)
    on = "" if condition.is_over else " and was not over when this was told"
    match condition.kind:
        case Kind.GONE:
            back = f"; its next process registered at {end}" if condition.is_over else "; no other has registered since"
            return [f"{who}'s process ended at {begin}: its connections broke and its port refused new ones{back}."]
        case Kind.STOPPED:
            return [f"{who} announced its stop at {begin}."]
        case Kind.STALL if condition.numbers.get("inferred"):
            return [
                (
                    f"{who} has been heard of by nobody since {begin}, neither by the controller nor by other "
                    "replicas, though its process is not known to be gone; what it will say itself is not here yet."
                )
            ]
        case Kind.STALL:
            return [f"{who} says itself that its loop did not run from {begin} to {end} ({lasted}), not for its disk."]
        case Kind.DISK:
            return [_disk(condition, show) + f"{on}."]
        case Kind.CUT:
            return _cut(condition, show)
        case Kind.SILENT:
            return [
                (
                    f"Broker {condition.other} did not hear from broker {condition.broker} from {begin} to {end}, and "
                    f"broker {condition.broker} has told nothing of it."
                )
            ]
        case Kind.UNREACHABLE:
            return [
                f"{who} got no answer of controller {condition.other} from {begin} to {end} ({lasted}){on}.",
                *(
                    [f"It went on fetching from leader {finding.leader} meanwhile, which did not miss it."]
                    if finding.cause is Cause.FENCED_ALIVE
                    else []
                ),
            ]
        case Kind.LATE:
            applied, committed = condition.numbers.get("applied_version"), condition.numbers.get("committed_version")
            return [
                (
                    f"{who} had not applied what was committed at {begin} until {end} ({lasted}){on}; it was at "
                    f"version {applied} of {committed}, and was heard of all the time."
                )
            ]
        case Kind.FRESH:
            numbers = condition.numbers
            return [
                (
                    f"{who} began at {begin} with an empty log and reached offset {_count(numbers.get('log_end'))} of "
                    f"{_count(numbers.get('leader_end'))} at {end} ({lasted}, "
                    f"{_count(numbers.get('records_per_s'))} records/s)"
                    f"{on}."
                )
            ]
        case Kind.BURST:
            numbers = condition.numbers
            usual = numbers.get("usual_records")
            than = f", usually {_count(usual)}" if usual else ""
            return [
                (
                    f"Up to {_count(numbers.get('inflow_records'))} records were written in one interval between "
                    f"{begin} and {end}{than}; nobody was ill."
                )
            ]


def _disk(condition: Condition, show: Show) -> str:
    parts = []
    for (operation, partition, replica), longest_ms in sorted(condition.operations.items(), key=lambda row: -row[1])[
        :3
    ]:
        whose = f" for replica {replica}'s fetch" if operation == "read" and replica >= 0 else ""
        parts.append(f"a {operation} of {partition}{whose} took {_span(longest_ms)}")
    return (
        f"Broker {condition.broker} waited for its disk from {show(condition.begin_ms)} to {show(condition.end_ms)}: "
        + (", ".join(parts))
    )


def _cut(condition: Condition, show: Show) -> list[str]:
    one, other = condition.broker, condition.other
    said = [
        (
            f"Brokers {one} and {other} missed each other from {show(condition.begin_ms)} to {show(condition.end_ms)} "
            f"({_span(condition.length_ms)}), and both ran."
        )
    ]
    for source, target in ((one, other), (other, one)):
        beats = condition.numbers.get(f"beats_heard_by_{target}", 0)
        said.append(
            f"Broker {target} heard {beats} of broker {source}'s beats."
            if beats
            else f"None of broker {source}'s beats reached broker {target}."
        )
    return said


def _directions(condition: Condition) -> str:
    if len(condition.lost) == 1:
        ((source, target),) = condition.lost
        return f"nothing arrives from broker {source} at broker {target}"
    return f"between brokers {condition.broker} and {condition.other}"


def evidence_against(finding: Finding, show: Show) -> list[str]:
    """Return what speaks against other causes."""
    if finding.effect is Effect.HELD:
        return [f"At that time also: {_short(each, show)}." for each in finding.also]
    if finding.effect not in {Effect.LEFT, Effect.ELECTED, Effect.NOTHING}:
        return []
    chosen = finding.condition
    told = {each.kind for each in finding.also if _may_matter(each, finding)}
    said = [f"At that time also: {_short(each, show)}." for each in finding.also if _may_matter(each, finding)][:3]
    absent = [
        words
        for kind, words in (
            (Kind.GONE, "no process died"),
            (Kind.STALL, "nobody's loop stood still"),
            (Kind.DISK, "no disk was slow"),
            (Kind.CUT, "no line was cut"),
        )
        if kind not in told and (chosen is None or chosen.kind is not kind)
    ]
    if absent and (chosen is None or chosen.kind is not Kind.GONE):
        said.append(f"Otherwise {_listed(absent)}, as far as told.")
    return said


def _may_matter(condition: Condition, finding: Finding) -> bool:
    return bool({condition.broker, condition.other} & {finding.replica, finding.leader})


def _short(condition: Condition, show: Show) -> str:
    end = f" to {show(condition.end_ms)}" if condition.is_over else " on"
    who = (
        f"between brokers {condition.broker} and {condition.other}"
        if condition.kind is Kind.CUT
        else f"broker {condition.broker}"
    )
    return f"{condition.kind.value} ({who}), from {show(condition.begin_ms)}{end}"


# Reasons of the controller.

REASONS: Final[dict[Reason, str]] = {
    Reason.REGISTERED: "the broker registered for the first time",
    Reason.REGISTERED_AGAIN: "the same process registered again",
    Reason.REGISTERED_AFTER_CLEAN_STOP: "the broker registered after a clean stop",
    Reason.REGISTERED_WITHOUT_PROOF: "the broker registered without proof of a clean stop",
    Reason.BOUNCED: "a new process took the place of the old one",
    Reason.CAUGHT_UP_WITH_METADATA: "the broker has applied the metadata and may serve",
    Reason.SESSION_TIMED_OUT: "no heartbeat for {silent}, and a session lasts {timeout}",
    Reason.PROCESS_GONE: "its process is gone: the connection broke and its listener refuses others",
    Reason.LEASE_HOLDER_SILENT: "it was silent while it held the controller's lease",
    Reason.ASKED_TO_BE_FENCED: "the broker asked to be fenced",
    Reason.STOP_ANNOUNCED: "the broker announced its stop",
    Reason.STOP_GRANTED: "the broker announced its stop",
    Reason.STOPPED_TOGETHER: "all brokers stopped together",
    Reason.LOGS_FAILED: "logs of the broker failed, {failed} in all",
    Reason.LOGS_HEALED: "logs of the broker that had failed can be served again, {failed} cannot",
    Reason.CREATED: "the partition was created",
    Reason.DELETED: "the topic was deleted",
    Reason.PROPOSED_BY_LEADER: "the leader proposed it",
    Reason.RELINQUISHED: "its leader gave it away",
    Reason.PREFERRED_REPLICA_BACK: "the preferred leader is back in the ISR",
    Reason.PREFERRED_REQUESTED: "an administrator requested the preferred leader",
    Reason.UNCLEAN_REQUESTED: "an administrator requested an unclean election",
    Reason.UNCLEAN_ALLOWED: "the topic allows unclean elections",
    Reason.LAST_LEADER_ABSENT: "its last leader did not come back in time",
    Reason.CONTROLLER_TOOK_OVER: "a new controller took over",
    Reason.CONFIGS_ALTERED: "configurations were altered",
    Reason.PRODUCER_IDS_ALLOCATED: "a broker needed producer ids",
    Reason.UNKNOWN: "not recorded",
}


def reason_in_words(reason: Reason, numbers: Mapping[str, Json]) -> str:
    """Return why the controller decided something."""
    return REASONS[reason].format(
        silent=_duration(numbers.get("silent_ms")),
        timeout=_duration(numbers.get("timeout_ms")),
        failed=_count(numbers.get("failed_count")),
    )


def _because(evidence: Mapping[str, Json]) -> str:
    return reason_in_words(reason_of(evidence.get("reason")), evidence)


def _duration(value: object) -> str:
    return _span(value) if isinstance(value, int) else "?"


# Small change.


def _span(milliseconds: int) -> str:
    """Return a duration as people write it."""
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    if milliseconds < 120_000:
        return f"{milliseconds / 1_000:.1f}".removesuffix(".0") + " s"
    return f"{milliseconds / 60_000:.1f}".removesuffix(".0") + " min"


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "?"


def _difference(larger: object, smaller: object) -> int | None:
    return larger - max(0, smaller) if isinstance(larger, int) and isinstance(smaller, int) else None


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
