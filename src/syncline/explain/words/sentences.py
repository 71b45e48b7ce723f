"""A diagnosis in words: what happened, why, and the evidence for the cause and against others.

Every sentence rests on an event; a cause that no event shows is called unknown. The phrases are in `wording`. `show`
converts Unix milliseconds to the reader's time of day.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from syncline.explain.diagnosis.findings import REASSIGNMENT_RULE, Cause, Diagnosis, Effect, Finding
from syncline.explain.diagnosis.repeats import Repeats, repeats_of
from syncline.explain.words import wording
from syncline.explain.words.evidence import evidence_against, evidence_for
from syncline.explain.words.phrases import Show, count, listed, reason_in_words, span, title_of
from syncline.model.events import Election, IsrChange, Json, Reassignment, TopicChange, Truncation, Watermark
from syncline.model.reasons import UNFIT, Reason, reason_of

# Name the time of a proposal if the controller took longer than this to answer it.
SLOW_ANSWER_MS: Final = 500


def tell(diagnosis: Diagnosis, show: Show) -> list[str]:
    """Return the diagnosis as paragraphs."""
    partition = f"{diagnosis.topic}-{diagnosis.partition}"
    if not diagnosis.findings:
        since = wording.BETWEEN.format(begin=show(diagnosis.since_ms), end=show(diagnosis.until_ms))
        if diagnosis.created_ms is not None:
            since = wording.SINCE_CREATION.format(created=show(diagnosis.created_ms))
        return [wording.NOTHING_HAPPENED.format(partition=partition, since=since)]
    paragraphs = [_paragraph(each, partition, show) for each in repeats_of(diagnosis.findings)]
    if diagnosis.main is not None:
        paragraphs.append(_main(diagnosis.main, diagnosis.findings))
    return paragraphs


def _main(main: Finding, findings: list[Finding]) -> str:
    if main.cause is Cause.UNKNOWN:
        return wording.MAIN_CAUSE_UNKNOWN
    title = title_of(main)
    titles = dict.fromkeys(
        title_of(each) for each in findings if each.condition is not None and not each.needs_no_cause
    )
    others = [each for each in titles if each != title]
    sentences = [wording.MAIN_CAUSE.format(title=title)]
    if others:
        sentences.append(wording.BESIDES.format(titles="; ".join(others)))
    return " ".join(sentences)


def _paragraph(repeats: Repeats, partition: str, show: Show) -> str:
    """Return a finding in words; of several that are alike their number and times, and the evidence for the longest."""
    finding = repeats.longest
    is_repeated = len(repeats.findings) > 1
    sentences = _repeated(repeats, partition, show) if is_repeated else _effect(finding, partition, show)
    if finding.needs_no_cause and finding.condition is None:
        return " ".join(sentences)
    if finding.condition is None:
        sentences.append(wording.CAUSE_UNKNOWN)
    else:
        sentences.append(wording.CAUSE.format(title=title_of(finding)))
        if is_repeated:
            sentences.append(wording.LONGEST.format(lasted=span(finding.condition.length_ms)))
        sentences += evidence_for(finding, show)
    sentences += evidence_against(finding, show)
    return " ".join(sentences)


def _repeated(repeats: Repeats, partition: str, show: Show) -> list[str]:
    first = repeats.findings[0]
    held_back = first.cause in {Cause.THROTTLED, Cause.STARVED}
    return [
        (wording.HELD_BACK_REPEATEDLY if held_back else wording.NO_EFFECT_REPEATEDLY).format(
            replica=first.replica,
            partition=partition,
            times=count(len(repeats.findings)),
            begin=show(first.ts_ms),
            end=show(repeats.end_ms),
        )
    ]


def _effect(finding: Finding, partition: str, show: Show) -> list[str]:
    event, at = finding.event, show(finding.ts_ms)
    match event:
        case None if finding.effect is Effect.SPARED:
            return [_spared(finding, partition, at, show)]
        case None if finding.cause in {Cause.THROTTLED, Cause.STARVED}:
            return [wording.HELD_BACK.format(replica=finding.replica, partition=partition, at=at)]
        case None:
            return [wording.NO_EFFECT.format(partition=partition, at=at)]
        case IsrChange():
            return _isr_change(finding, event, partition, show)
        case Election():
            return [_elected(event, partition, at)]
        case Watermark():
            return [_held(finding, event, partition, show)]
        case Truncation():
            return [_truncated(event, partition, at)]
        case Reassignment():
            return [_reassigned(event, partition, at)]
        case TopicChange():
            return [wording.DELETED.format(topic=event.topic, at=at)]
        case _:
            assert_never(event)


def _isr_change(finding: Finding, event: IsrChange, partition: str, show: Show) -> list[str]:
    at = show(finding.ts_ms)
    match finding.effect:
        case Effect.LEFT:
            left = wording.LEFT.format(replica=finding.replica, partition=partition, at=at)
            return _left(finding, event, left, show)
        case Effect.JOINED:
            return [wording.JOINED.format(replica=finding.replica, partition=partition, at=at, why=_joined_by(event))]
        case Effect.RELINQUISHED:
            return [
                wording.GIVEN_AWAY.format(
                    leader=event.broker,
                    partition=partition,
                    at=at,
                    served=_served(event.evidence),
                    rule=event.rule,
                    outcome=event.outcome,
                )
            ]
        case _:
            assert finding.effect is Effect.REFUSED, f"{finding.effect} is no change of the ISR"
            return [
                wording.REFUSED.format(
                    leader=event.broker,
                    partition=partition,
                    before=list(event.before),
                    after=list(event.after),
                    at=at,
                    error=event.evidence.get("error", wording.AN_ERROR),
                    leader_epoch=count(event.evidence.get("leader_epoch")),
                    partition_epoch=count(event.evidence.get("partition_epoch")),
                )
            ]


def _left(finding: Finding, event: IsrChange, left: str, show: Show) -> list[str]:
    if event.rule == "election":
        elected = ", ".join(map(str, event.after))
        return [wording.LEFT_IN_ELECTION.format(left=left, elected=elected, reason=_reason(event.evidence))]
    if event.rule == REASSIGNMENT_RULE:
        return [wording.LEFT_REASSIGNED.format(left=left, reason=_reason(event.evidence))]
    if event.rule == "fencing" and reason_of(event.evidence.get("reason")) is Reason.CAUGHT_UP_WITH_METADATA:
        return [wording.LEFT_ABSENT.format(left=left, controller=event.broker)]
    if event.rule == "fencing" and finding.cause is Cause.STOPPED:
        return [wording.LEFT_STOPPING.format(left=left, controller=event.broker)]
    if event.rule == "fencing" and reason_of(event.evidence.get("reason")) in UNFIT:
        return [wording.LEFT_UNFIT.format(left=left, controller=event.broker, reason=_reason(event.evidence))]
    if event.rule == "fencing":
        return [wording.LEFT_FENCED.format(left=left, controller=event.broker, reason=_reason(event.evidence))]
    return [_left_by_leader(finding, event, left, show), *_last_fetch(finding, event, show)]


def _left_by_leader(finding: Finding, event: IsrChange, left: str, show: Show) -> str:
    numbers = finding.numbers
    caught_up, decided = numbers.get("caught_up_ms"), numbers.get("decided_ms")
    window = numbers.get("replica_lag_time_max_ms")
    most = numbers.get("replica_lag_max_messages")
    behind = _difference(numbers.get("leader_log_end"), numbers.get("log_end"))
    if event.rule == "lag:messages" and isinstance(most, int) and behind is not None and behind > most:
        return wording.LEFT_BEHIND.format(left=left, behind=count(behind), most=count(most))
    if isinstance(caught_up, int) and isinstance(decided, int) and isinstance(window, int):
        return wording.LEFT_LATE.format(
            left=left,
            proposed=_proposed_earlier(finding.ts_ms, decided, show),
            caught_up=show(caught_up),
            before=span(decided - caught_up),
            window=span(window),
        )
    if isinstance(window, int):
        return wording.LEFT_NEVER_CAUGHT_UP.format(left=left, window=span(window))
    return wording.LEFT_BY_RULE.format(left=left, rule=event.rule)


def _proposed_earlier(committed_ms: int, decided_ms: int, show: Show) -> str:
    """Return when the leader proposed a change, if the controller took long to answer."""
    if committed_ms - decided_ms < SLOW_ANSWER_MS:
        return ""
    return wording.PROPOSED_EARLIER.format(decided=show(decided_ms))


def _last_fetch(finding: Finding, event: IsrChange, show: Show) -> list[str]:
    """Return whether a replica that left had fetched what it lacked."""
    numbers = finding.numbers
    asked, decided = numbers.get("asked_ms"), numbers.get("decided_ms")
    reading = numbers.get("reading_since_ms")
    if not isinstance(decided, int):
        return []
    if not isinstance(asked, int):
        return [wording.NO_FETCH.format(leader=event.broker)]
    if asked > decided:
        return [wording.FETCHED_LATER.format(asked=show(asked))]
    if isinstance(reading, int) and reading <= decided:
        waited = wording.FETCH_WAITED_FOR_DISK.format(asked=show(asked), waited=span(decided - reading))
        return [waited, wording.PROTECTION_OFF] if numbers.get("pending_fetches_protect") is False else [waited]
    if numbers.get("is_owed"):
        return [wording.FETCH_UNANSWERED.format(asked=show(asked))]
    return [wording.LAST_FETCH.format(asked=show(asked), before=span(decided - asked))]


def _joined_by(event: IsrChange) -> str:
    if event.rule == "reached-the-watermark":
        log_end, mark = event.evidence.get("log_end"), event.evidence.get("high_watermark")
        is_known = isinstance(log_end, int) and isinstance(mark, int)
        ends = wording.ENDS.format(log_end=count(log_end), high_watermark=count(mark)) if is_known else ""
        return wording.HAD_EVERYTHING.format(numbers=ends)
    if event.rule == "election":
        return wording.WAS_ELECTED
    if event.rule == REASSIGNMENT_RULE:
        return wording.HAD_EVERYTHING.format(numbers="")
    return wording.BY_RULE.format(rule=event.rule)


def _served(evidence: Mapping[str, Json]) -> str:
    took, most = evidence.get("processing_ms"), evidence.get("process_time_max_ms")
    if not isinstance(took, int) or not isinstance(most, int):
        return ""
    whose = wording.OF_REPLICA.format(replica=evidence["follower"]) if "follower" in evidence else ""
    return wording.SERVED.format(whose=whose, took=span(took), most=span(most))


def _spared(finding: Finding, partition: str, at: str, show: Show) -> str:
    until = finding.numbers.get("until_ms")
    is_over = isinstance(until, int) and finding.numbers.get("is_over")
    return wording.SPARED.format(
        replica=finding.replica,
        partition=partition,
        at=at,
        until=wording.UNTIL.format(end=show(until)) if isinstance(until, int) and is_over else "",
        leader=finding.leader,
    )


def _truncated(event: Truncation, partition: str, at: str) -> str:
    epoch, end = event.evidence.get("answer_epoch"), event.evidence.get("answer_end_offset")
    is_known = isinstance(epoch, int) and isinstance(end, int)
    return wording.TRUNCATED.format(
        replica=event.broker,
        partition=partition,
        end_before=count(event.log_end_before),
        end_after=count(event.log_end_after),
        at=at,
        leader=event.leader,
        rule=event.rule,
        epoch_end=wording.EPOCH_END.format(epoch=epoch, end=count(end)) if is_known else "",
    )


def _reassigned(event: Reassignment, partition: str, at: str) -> str:
    what = wording.REASSIGNED[event.phase].format(
        partition=partition,
        at=at,
        original=", ".join(map(str, event.original)),
        target=", ".join(map(str, (each for each in event.replicas if each not in event.removing))),
        replicas=", ".join(map(str, event.replicas)),
    )
    move = wording.OF_MOVE.format(move=event.move) if event.move else ""
    lists = [
        words.format(brokers=", ".join(map(str, brokers)))
        for words, brokers in ((wording.ADDED, event.adding), (wording.REMOVED, event.removing))
        if brokers and event.phase in ("started", "changed")
    ]
    return wording.REASSIGNMENT.format(what=what, lists="".join(lists), move=move)


def _elected(event: Election, partition: str, at: str) -> str:
    if event.leader_after < 0:
        elected = wording.LEADERLESS.format(partition=partition, at=at, before=event.leader_before)
    else:
        replaces = event.leader_before >= 0
        elected = wording.ELECTED.format(
            leader=event.leader_after,
            partition=partition,
            at=at,
            before=wording.IN_PLACE_OF.format(before=event.leader_before) if replaces else wording.AFTER_NONE,
            epoch=event.leader_epoch,
        )
    return wording.ELECTION.format(
        elected=elected,
        reason=reason_in_words(event.reason, event.evidence),
        unclean="" if event.clean else wording.UNCLEAN,
    )


def _held(finding: Finding, event: Watermark, partition: str, show: Show) -> str:
    until = finding.numbers.get("until_ms")
    return wording.HELD.format(
        partition=partition,
        high_watermark=count(event.high_watermark),
        since=show(event.since_ms),
        until=wording.UNTIL.format(end=show(until)) if isinstance(until, int) and until > event.ts_ms else "",
        waiting=count(event.log_end - event.high_watermark),
        why=_held_by(finding, event),
    )


def _held_by(finding: Finding, event: Watermark) -> str:
    match event.rule:
        case "held:min-isr":
            size, least = event.evidence.get("isr_size"), event.evidence.get("effective_min_isr")
            is_known = isinstance(size, int) and isinstance(least, int)
            return wording.HELD_BY_MIN_ISR.format(
                sizes=wording.SIZES.format(size=size, least=least) if is_known else ""
            )
        case "held:isr-member":
            return wording.HELD_BY_MEMBERS.format(replicas=_holders(finding))
        case "held:near-isr":
            return wording.HELD_BY_JOINERS.format(replicas=_holders(finding))
        case _:
            return wording.BY_RULE.format(rule=event.rule)


def _holders(finding: Finding) -> str:
    holders = finding.numbers.get("holders")
    numbers = [str(each) for each in holders] if isinstance(holders, list) else []
    if not numbers:
        return wording.UNKNOWN_REPLICAS
    return (wording.REPLICA if len(numbers) == 1 else wording.REPLICAS).format(listed=listed(numbers))


def _reason(evidence: Mapping[str, Json]) -> str:
    return reason_in_words(reason_of(evidence.get("reason")), evidence)


def _difference(larger: object, smaller: object) -> int | None:
    return larger - max(0, smaller) if isinstance(larger, int) and isinstance(smaller, int) else None
