"""Sentences about a broker's page cache."""

from collections.abc import Sequence

from syncline.lag_report.advice import WANTED, Advice
from syncline.lag_report.agreement import AGREED_POINTS, Agreement, Outcome, agreements, mean_points
from syncline.lag_report.facts import CacheFacts
from syncline.model.shown_names import shown_name
from syncline.reassign.amounts import rate_words, size_words, span_words


def percent(share: float) -> str:
    """Return 93.4 %, and never 100 % or 0 % of what is not all or nothing."""
    if 0.9995 <= share < 1:
        return "over 99.9 %"
    if 0 < share < 0.0005:
        return "under 0.1 %"
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def verdict(facts: CacheFacts, advice: Advice) -> str:
    """Return what the cache does now, or would do with the memory that is supposed."""
    if not facts.read_bytes:
        return f"No client has read from {facts.title}."
    if facts.is_supposed:
        return _supposed(facts, advice)
    cache = f"its page cache of {size_words(facts.memory_bytes)}"
    found = short_of_curve(facts)
    if found is not None:
        return (
            f"{_capital(facts.title)} found {percent(found.measured)} of its reads in memory, although by the "
            f"curve {cache} would hold {'all' if found.predicted >= 1 else percent(found.predicted)} of them."
        )
    if advice.now.hit_ratio >= 1:
        return f"{_capital(facts.title)} serves all reads from {cache}."
    return (
        f"{_capital(facts.title)} serves {percent(advice.now.hit_ratio)} of its reads from {cache}; the rest, "
        f"{rate_words(advice.now.disk_bytes_per_s)}, comes from disk."
    )


def short_of_curve(facts: CacheFacts) -> Agreement | None:
    """Return what was measured, if that is clearly less than the curve says; None if the curve can be trusted."""
    found = next(iter(agreements([(facts.title, facts)])), None)
    return found if found is not None and found.outcome is Outcome.FEWER_HITS else None


def _supposed(facts: CacheFacts, advice: Advice) -> str:
    said = f"With {size_words(facts.memory_bytes)} of page cache, {facts.title} would serve"
    if advice.now.hit_ratio >= 1:
        said = f"{said} all reads from memory."
    else:
        said = (
            f"{said} {percent(advice.now.hit_ratio)} of its reads from memory; the rest, "
            f"{rate_words(advice.now.disk_bytes_per_s)}, would come from disk."
        )
    if advice.present is None:
        return said
    present = "all of them" if advice.present.hit_ratio >= 1 else percent(advice.present.hit_ratio)
    return f"{said} Now, with {size_words(advice.present.memory_bytes)}, it serves {present}."


def need(facts: CacheFacts, advice: Advice) -> str:
    """Return how much memory would do, or that none does."""
    wanted = percent(WANTED)
    if not facts.read_bytes:
        return "How much memory it needs will be known once a client reads."
    if advice.wanted_bytes is None:
        return (
            f"No amount of memory serves {wanted} of the reads: {percent(facts.out_of_reach)} of the bytes "
            "were in pages that nothing kept (page.cache.leader.budget.bytes, "
            "page.cache.follower.keep.bytes)."
        )
    what = f"To serve {wanted} of the reads from memory, this broker needs {size_words(advice.wanted_bytes)}"
    has = "would have" if facts.is_supposed else "has"
    return f"{what}, which it {has}." if advice.has_enough else f"{what} of page cache."


def residence(facts: CacheFacts, advice: Advice) -> str:
    """Return for how long pages stay, and what misses cost besides."""
    if not facts.written_bytes_per_s:
        return "Nothing is written to logs whose pages stay in memory."
    stays = "would stay" if facts.is_supposed else "stays"
    span = span_words(advice.now.residence_s)
    said = f"With {rate_words(facts.written_bytes_per_s)} written, a page {stays} in memory for {span}."
    lost_points = 100 * (advice.without_pollution.hit_ratio - advice.now.hit_ratio)
    if lost_points < 0.05:
        return said
    return (
        f"{said} Reads from disk take up memory, too: without them, the broker would serve "
        f"{percent(advice.without_pollution.hit_ratio)}, {lost_points:.1f} points more."
    )


def blame(facts: CacheFacts, advice: Advice) -> str:
    """Return who makes the misses, "" if there are none or no reader stands out."""
    if advice.worst is None or not advice.now.disk_bytes_per_s:
        return ""
    worst = advice.misses[0]
    makes = "would cause" if facts.is_supposed else "causes"
    said = f"{_capital(shown_name(worst.reader))} {makes} {percent(worst.share)} of the misses"
    if advice.needed_without_worst is None:
        return f"{said}."
    if not advice.needed_without_worst:
        return f"{said}; the others need hardly any memory for {percent(WANTED)}."
    return f"{said}; without it, {size_words(advice.needed_without_worst)} would serve {percent(WANTED)} of the rest."


def mark(facts: CacheFacts, advice: Advice) -> str:
    """Return what stands beside the memory in a picture."""
    misses = percent(1 - advice.now.hit_ratio)
    return f"{'with' if facts.is_supposed else 'now'} {size_words(facts.memory_bytes)}: {misses} from disk"


def agreed(compared: Sequence[Agreement]) -> str:
    """Return how the model and the measured hits agree, over all intervals."""
    mean = mean_points(compared)
    if mean is None:
        return "No reads have been measured yet, so nothing shows whether the curve is right."
    several = f" on average over {len(compared)} measurements" if len(compared) > 1 else ""
    if mean <= AGREED_POINTS:
        return f"Model and measurement differ by {mean:.1f} points{several}: the curve can be trusted."
    return f"Model and measurement differ by {mean:.1f} points{several}: use the curve with care."


def compared_with(each: Agreement) -> str:
    """Return what was measured in one interval beside what the model says, and what a difference means."""
    said = f"{each.name}: {percent(each.measured)} measured, {percent(each.predicted)} predicted"
    if each.outcome is Outcome.AGREES or each.behaves_like_bytes is None:
        return said
    like = f"{said}; it behaves like a cache of {size_words(each.behaves_like_bytes)}"
    if each.outcome is Outcome.MORE_HITS:
        return f"{like}: it has more memory than assumed, or readers follow each other"
    return f"{like}: something else uses memory, or pages are dropped early"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
