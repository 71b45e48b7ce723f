"""Consumer lag in words: what status a group has, by which rule, and why it is behind.

Every sentence is made of a verdict or a finding and its numbers; an unknown number is shown as such. Phrases are in
`lag_wording`.
Units: as in `model.lag`.
"""

from collections.abc import Mapping, Sequence
from math import isinf
from typing import Final

from syncline.explain.words import lag_wording as wording
from syncline.explain.words.phrases import Count, count, span
from syncline.model.lag import Fact, Finding, GroupStatus, GroupVerdict, LagCause, LagRow, PartitionVerdict

# Of the partitions that are not OK, so many are described, those with most to read first.
DESCRIBED_MAX: Final = 5
# Records per second from which on a fraction says nothing, and the least that is told.
_WHOLE_RATE: Final = 10
_LEAST_RATE: Final = 0.01


def tell(
    group: str,
    verdict: GroupVerdict,
    partitions: Sequence[tuple[LagRow, PartitionVerdict]],
    findings: Sequence[Finding],
) -> list[str]:
    """Return a group as paragraphs: its status, its worst partitions, and the causes."""
    unread = sum(row.readable or 0 for row, _ in partitions)
    oldest_ms = max((row.staleness_ms for row, _ in partitions if row.staleness_ms is not None), default=None)
    if all(row.committed is None for row, _ in partitions):
        head = [wording.GROUP_UNKNOWN.format(group=group, status=verdict.status.name)]
    elif unread:
        oldest = "" if oldest_ms is None else wording.GROUP_OLDEST.format(staleness=span(oldest_ms))
        head = [wording.GROUP.format(group=group, status=verdict.status.name, unread=count(unread), oldest=oldest)]
    else:
        head = [wording.GROUP_READ.format(group=group, status=verdict.status.name)]
    uncommitted = sum(row.committed is None for row, _ in partitions)
    # A partition in trouble was judged, however few commits it has.
    incomplete = sum(
        each.complete < 1 and each.status is GroupStatus.OK for row, each in partitions if row.committed is not None
    )
    if uncommitted:
        head.append(wording.WITHOUT_COMMITS.format(partitions=count(uncommitted)))
    if incomplete:
        template = wording.INCOMPLETE_ONE if incomplete == 1 else wording.INCOMPLETE
        head.append(template.format(partitions=count(incomplete)))
    troubled = [(row, each) for row, each in partitions if each.status > GroupStatus.OK]
    troubled.sort(key=lambda pair: (-(pair[0].readable or 0), pair[0].key))
    described = [describe(row, each) for row, each in troubled[:DESCRIBED_MAX]]
    if len(troubled) > DESCRIBED_MAX:
        described.append(wording.MORE.format(rest=count(len(troubled) - DESCRIBED_MAX)))
    return [" ".join(head), *described, *sentences(findings)]


def describe(row: LagRow, verdict: PartitionVerdict) -> str:
    """Return the status of one partition with the rule that decided it and its numbers."""
    facts = verdict.evidence
    oldest = wording.OLDEST.format(staleness=span(row.staleness_ms)) if row.staleness_ms else ""
    grown = ""
    if "first_lag" in facts:
        grown = wording.GROWN.format(first_lag=count(facts["first_lag"]), last_lag=count(facts["last_lag"]))
    why = wording.RULES[verdict.rule].format(
        commits=count(facts.get("commits")),
        lag=count(facts.get("lag")),
        silent=span(facts.get("silent_ms")),
        window=span(facts.get("window_ms")),
        offset=count(facts.get("offset")),
        from_offset=count(facts.get("from_offset")),
        to_offset=count(facts.get("to_offset")),
        least_lag=count(facts.get("least_lag")),
        oldest=oldest,
        grown=grown,
    )
    return wording.VERDICT.format(partition=row.key, status=verdict.status.name, why=why)


def sentences(findings: Sequence[Finding]) -> list[str]:
    """Return one paragraph per cause, in the order of the findings."""
    return [_cause(finding) + _more(finding) for finding in findings]


def _cause(finding: Finding) -> str:
    facts = finding.evidence
    if finding.cause is LagCause.LOSES_DATA:
        return _loses_data(finding)
    produced, usual = facts.get("produced_per_s"), facts.get("usual_per_s")
    return wording.CAUSES[finding.cause].format(
        partition=finding.partition,
        unread=count(facts.get("unread")),
        members=count(facts.get("members")),
        records=count(facts.get("records")),
        committed=count(facts.get("committed")),
        fetch_offset=count(facts.get("fetch_offset")),
        fetch_lag=count(facts.get("fetch_lag")),
        silent=span(facts.get("silent_ms")),
        fetched=span(facts.get("fetched_ago_ms")),
        lasting=span(facts.get("for_ms")),
        client=facts.get("client_id"),
        host=facts.get("host"),
        share=_percent(facts.get("share")),
        mean=_rounded(facts.get("mean_of_others")),
        produced=_rate(produced),
        consumed=_rate(facts.get("consumed_per_s")),
        times=_times(produced, usual),
    )


def _loses_data(finding: Finding) -> str:
    facts, partition = finding.evidence, finding.partition
    told = []
    if facts.get("lost"):
        told.append(wording.LOST.format(lost=count(facts["lost"]), partition=partition))
    if facts.get("loses_data"):
        margin_s = facts.get("margin_s")
        is_due = isinstance(margin_s, (int, float)) and margin_s <= 0
        told.append(
            wording.CAUSES[LagCause.LOSES_DATA].format(
                partition=partition,
                when=wording.NEXT_CLEAN_UP if is_due else wording.WITHIN.format(margin=_seconds(margin_s)),
                unread=count(facts.get("unread")),
                speed=_speed(facts.get("catch_up_s")),
                needed=_needed(facts),
            )
        )
    return " ".join(told)


def _speed(catch_up_s: Fact) -> str:
    if not isinstance(catch_up_s, (int, float)):
        return wording.SPEED_UNKNOWN
    return wording.NEVER_CATCHES_UP if isinf(catch_up_s) else wording.NEEDS.format(catch_up=_seconds(catch_up_s))


def _needed(facts: Mapping[str, Fact]) -> str:
    needed_per_s = facts.get("needed_per_s")
    if not isinstance(needed_per_s, (int, float)):
        return ""
    return wording.TOO_LATE if isinf(needed_per_s) else wording.NEEDED.format(needed=_rate(needed_per_s))


def _more(finding: Finding) -> str:
    """Return how many other partitions a finding concerns; a hot partition is alone by definition."""
    partitions = finding.evidence.get("partitions")
    if finding.cause is LagCause.HOT_PARTITION or not isinstance(partitions, int) or partitions < 2:
        return ""
    return wording.ALSO.format(rest=count(partitions - 1))


def _seconds(seconds: Fact) -> str:
    if not isinstance(seconds, (int, float)) or isinf(seconds):
        return wording.NOT_KNOWN
    return span(round(seconds * 1_000))


def _percent(share: Fact) -> str:
    return f"{share:.0%}".replace("%", " %") if isinstance(share, (int, float)) else wording.NOT_KNOWN


def _rounded(number: Fact) -> Count:
    return count(round(number) if isinstance(number, (int, float)) and not isinf(number) else None)


def _rate(per_s: Fact) -> Count:
    """Return a rate with two digits at least; one in five minutes is no whole record a second."""
    if not isinstance(per_s, (int, float)) or isinf(per_s) or per_s >= _WHOLE_RATE:
        return _rounded(per_s)
    return Count(f"{per_s if not per_s else max(_LEAST_RATE, per_s):.2g}")


def _times(produced: Fact, usual: Fact) -> str:
    if not isinstance(produced, (int, float)) or not isinstance(usual, (int, float)) or not usual:
        return wording.NOT_KNOWN
    return f"{produced / usual:.1f}".removesuffix(".0")
