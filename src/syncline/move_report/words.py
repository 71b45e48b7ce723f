"""The report in words: what a reader should remember, computed from the same facts as the pictures.

Every sentence has a number with its unit; a sentence without facts is left out. Units: bytes per second, milliseconds.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, assert_never

from syncline.move_report.facts import Copy, Ending, Facts, Level, PartFacts, Wait
from syncline.move_report.frame import since
from syncline.move_report.levels import JUDGED_MS, mean_rate, share_of, used_share, worst_share
from syncline.pictures.labels import seconds
from syncline.reassign.amounts import rate_words, size_words
from syncline.reassign.formulas import Role

# With more throttles than these, they are told as a range.
_LEVELS_MAX: Final = 3
# A mean over less says more about batches than about the throttle.
_TOLD_MS: Final = 3_000


def verdict(facts: Facts) -> str:
    """Return the whole result in one sentence."""
    title, took = _capital(facts.title), seconds(facts.took_ms)
    replicas = counted(len(facts.copies), "new replica")
    copied = f"{size_words(facts.copied_bytes)} for {replicas}" if facts.copied_bytes else replicas
    match facts.ending:
        case Ending.COMPLETED if not facts.copies:
            return f"{title} had nothing to copy."
        case Ending.COMPLETED:
            return f"{title} is complete: {copied} in {took}."
        case Ending.RUNNING:
            return f"{title} is still running after {took}: {done_percent(facts):.0f} % is copied."
        case Ending.CANCELLED:
            return f"{title} was cancelled after {took}, with {size_words(facts.copied_bytes)} copied."
        case Ending.OVERTAKEN:
            return f"{title} was taken over by another request after {took}."
        case Ending.MIXED:
            how = Counter(facts.reassigned.values())
            told = [f"{counted(how[each], 'partition')} {each}" for each in Ending if how[each]]
            return f"{title} ended after {took}: {', '.join(told)}."
        case unknown:
            assert_never(unknown)


def setting(facts: Facts) -> str:
    """Return what moved from where to where, and under which throttle."""
    senders = sorted({each.part.broker for each in facts.parts if each.part.role is Role.SENDING})
    receivers = sorted({copy.destination for copy in facts.copies})
    sentences = []
    if senders and receivers:
        moved = counted(len(facts.reassigned), "partition")
        sentences.append(f"New replicas of {moved} were copied from {_brokers(senders)} to {_brokers(receivers)}.")
    if facts.goal:
        sentences.append(f"Its rate was adapted {facts.goal}.")
    throttle = throttles(facts)
    return " ".join([*sentences, f"{_capital(throttle)}."])


def throttles(facts: Facts) -> str:
    """Return the throttle over time, as part of a sentence."""
    bounds = [each.bytes_per_s for each in facts.steps]
    known = [each for each in bounds if each is not None]
    if not known:
        listed = {bound for part in facts.parts for bound in part.quotas if bound is not None}
        if listed:
            return f"lists and rates of {_range(sorted(listed))} throttled it"
        return "it had no throttle"
    if len(bounds) == 1:
        return f"its throttle was {rate_words(known[0])}"
    if len(bounds) > _LEVELS_MAX:
        return f"its throttle was changed {len(bounds) - 1} times, between {_range(sorted(known))}"
    first, *others = facts.steps
    told = [
        _bound(first.bytes_per_s),
        *(f"{_bound(each.bytes_per_s)} from {_at(facts, each.at_ms)} on" for each in others),
    ]
    return f"its throttle was {', then '.join(told)}"


def rates(facts: Facts) -> str:
    """Return what picture 1 shows."""
    if not facts.parts:
        return "The copies were made between two samples of the journal, so there is no rate to show."
    part = longest_part(facts)
    told = [level for level in part.levels if level.length_ms >= _TOLD_MS] or list(part.levels)
    sentences = _stuck(told)
    sentences += _kept(part, [level for level in told if not level.is_too_low])
    worst = [share for each in facts.parts if (share := worst_share(each, facts.start_ms, facts.bin_ms)) is not None]
    if worst:
        share, judged_s = 100 * max(worst), JUDGED_MS // 1_000
        sentences.append(f"No broker sent or received more than {share:.0f} % of its throttle in any {judged_s} s.")
    return " ".join(sentences)


def _stuck(levels: Sequence[Level]) -> list[str]:
    found: dict[float, Level] = {}
    for level in levels:
        if level.is_too_low and level.bound is not None:
            found.setdefault(level.bound, level)
    if len(found) > _LEVELS_MAX:
        return [f"With less than {rate_words(max(each.keep_up for each in found.values()))}, the move could not end."]
    return [
        f"With {rate_words(bound)}, the move could not end: clients wrote {rate_words(level.keep_up)} to the "
        "partitions that it copied, and a new replica must keep up with those writes first."
        for bound, level in found.items()
    ]


def _kept(part: PartFacts, levels: Sequence[Level]) -> list[str]:
    bounds = {level.bound for level in levels}
    if not levels:
        return []
    if bounds == {None}:
        most = rate_words(max(part.rates))
        return [f"Without a throttle, {part.did} {rate_words(mean_rate(part))} on average and {most} at most."]
    throttled = [level for level in levels if level.bound is not None]
    if len(bounds) > _LEVELS_MAX:
        share = used_share(part) or 0.0
        return [f"On average {part.did} at {100 * share:.0f} % of the throttle in force."]
    sentences = []
    for bound in dict.fromkeys(level.bound for level in throttled):
        mine = [level for level in throttled if level.bound == bound]
        rate = sum(level.copied_bytes for level in mine) * 1_000 / sum(level.length_ms for level in mine)
        share = share_of(mine) or 0.0
        sentences.append(
            f"With {rate_words(bound or 0.0)}, {part.did} {rate_words(rate)} on average, {100 * share:.0f} % of that."
        )
    return sentences


def longest_part(facts: Facts) -> PartFacts:
    """Return the part that copied longest; of two, the one that copied more."""
    return max(facts.parts, key=lambda part: (sum(part.is_copying), sum(part.rates)))


def progress(facts: Facts) -> str:
    """Return what picture 2 shows."""
    joined = [(copy.joined_ms, copy) for copy in facts.copies if copy.joined_ms is not None]
    joined.sort(key=lambda each: each[0])
    unfinished = [copy for copy in facts.copies if copy.joined_ms is None]
    sentences = []
    if len(joined) == 1:
        sentences.append(f"The new replica of {_where(joined[0][1])} was in sync {_after(facts, joined[0][0])}.")
    elif joined:
        (first_ms, first), (last_ms, last) = joined[0], joined[-1]
        sentences.append(
            f"The first of {len(joined)} new replicas was in sync {_after(facts, first_ms)} ({_where(first)}), the "
            f"last one {_after(facts, last_ms)} ({_where(last)})."
        )
    if unfinished and facts.ending is Ending.RUNNING:
        sentences.append(
            f"{counted(len(unfinished), 'new replica')} {'is' if len(unfinished) == 1 else 'are'} not in sync yet."
        )
    elif unfinished:
        sentences.append(f"{counted(len(unfinished), 'new replica')} never got in sync.")
    return " ".join(sentences) or "No new replica was copied."


def waits(facts: Facts) -> str:
    """Return what picture 3 shows."""
    ended_ms = facts.end_ms if facts.ended_ms is None else facts.ended_ms
    before = [each for each in facts.waits if each.at_ms <= facts.started_ms]
    during = [each for each in facts.waits if facts.started_ms < each.at_ms <= ended_ms]
    after = [each for each in facts.waits if each.at_ms > ended_ms]
    if not during:
        return "No acks=all waits were recorded during the move: no client used acks=all, or none had to wait."
    told = [
        f"{_wait(_usual_p99_ms(some))} {name}"
        for name, some in (("before the move", before), ("during it", during), ("after it", after))
        if some
    ]
    worst = max(during, key=lambda each: each.max_ms)
    return (
        f"Median p99 of acks=all requests: {', '.join(told)}. The "
        f"slowest during the move took {seconds(worst.max_ms)}, at {_at(facts, worst.at_ms)} (broker {worst.broker})."
    )


def slowest_ms(facts: Facts) -> int | None:
    """Return the longest wait during the move, None if nobody waited."""
    ended_ms = facts.end_ms if facts.ended_ms is None else facts.ended_ms
    return max((each.max_ms for each in facts.waits if facts.started_ms < each.at_ms <= ended_ms), default=None)


def done_percent(facts: Facts) -> float:
    """Return how much of all copies is done."""
    last = [copy.progress[-1] for copy in facts.copies if copy.progress]
    total = sum(each.total_bytes for each in last)
    return 100 * sum(each.done_bytes for each in last) / total if total else 0.0


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 partition, 3 partitions."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _wait(wait_ms: int) -> str:
    return seconds(wait_ms) if wait_ms else "less than 1 ms"


def _usual_p99_ms(samples: Sequence[Wait]) -> int:
    ordered = sorted(each.p99_ms for each in samples)
    return ordered[len(ordered) // 2]


def _range(bounds: Sequence[float]) -> str:
    return rate_words(bounds[0]) if bounds[0] == bounds[-1] else f"{rate_words(bounds[0])} and {rate_words(bounds[-1])}"


def _bound(bytes_per_s: int | None) -> str:
    return "none" if bytes_per_s is None else rate_words(bytes_per_s)


def _at(facts: Facts, at_ms: int) -> str:
    return since(at_ms - facts.started_ms)


def _after(facts: Facts, at_ms: int) -> str:
    return f"after {seconds(at_ms - facts.started_ms)}"


def _where(copy: Copy) -> str:
    return f"{copy.key} on broker {copy.destination}"


def _brokers(brokers: Sequence[int]) -> str:
    if len(brokers) == 1:
        return f"broker {brokers[0]}"
    return f"brokers {', '.join(map(str, brokers[:-1]))} and {brokers[-1]}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
