"""Phrases: numbers, times, reasons and conditions in words, as sentences use them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from syncline.explain.diagnosis.condition import Condition, Kind
from syncline.explain.diagnosis.findings import Finding
from syncline.explain.words import wording
from syncline.model.events import Json
from syncline.model.reasons import Reason

# Converts Unix milliseconds to the reader's time of day.
Show = Callable[[int], str]

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS


def span(duration_ms: object) -> str:
    """Return a duration as text, in a readable unit."""
    if not isinstance(duration_ms, int):
        return wording.UNKNOWN_NUMBER
    if duration_ms < 1_000:
        return wording.MILLISECONDS.format(number=duration_ms)
    if duration_ms < 2 * MINUTE_MS:
        return wording.SECONDS.format(number=_decimal(duration_ms / 1_000))
    if duration_ms < 2 * HOUR_MS:
        return wording.MINUTES.format(number=_decimal(duration_ms / MINUTE_MS))
    if duration_ms < 2 * DAY_MS:
        return wording.HOURS.format(number=_decimal(duration_ms / HOUR_MS))
    return wording.DAYS.format(number=_decimal(duration_ms / DAY_MS))


def _decimal(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


class Count(str):
    """A number in a template: "{lost}" is the number, and "{lost:record}" is 1 record or 2 records."""

    __slots__ = ()

    def __format__(self, noun: str) -> str:
        """Return the number with separated thousands; with a noun, if one is given, in its singular or plural."""
        return f"{self!s} {noun}{'' if self == ONE else 's'}" if noun else str(self)


ONE: Final = "1"


def count(value: object) -> Count:
    """Return a number with separated thousands."""
    return Count(f"{value:,}" if isinstance(value, int) else wording.UNKNOWN_NUMBER)


def listed(words: Sequence[str]) -> str:
    """Return a list as text: "a, b and c"."""
    assert words, "an empty list has no words"
    if len(words) == 1:
        return words[0]
    return wording.LIST.format(all_but_last=", ".join(words[:-1]), last=words[-1])


def reason_in_words(reason: Reason, numbers: Mapping[str, Json]) -> str:
    """Return the controller's reason in words."""
    return wording.REASONS[reason].format(
        silent=span(numbers.get("silent_ms")),
        timeout=span(numbers.get("timeout_ms")),
        failed=count(numbers.get("failed_count")),
    )


def title_of(finding: Finding) -> str:
    """Return the cause of a finding, with the broker or connection that it affected."""
    condition = finding.condition
    title = wording.TITLES[finding.cause]
    if condition is None:
        return title
    if condition.kind is Kind.CUT:
        return wording.TITLE_OF_CUT.format(title=title, directions=_directions(condition))
    return wording.TITLE_OF_BROKER.format(title=title, broker=condition.broker)


def short(condition: Condition, show: Show) -> str:
    """Return a condition in a few words."""
    end = wording.UP_TO.format(end=show(condition.end_ms)) if condition.is_over else wording.STILL_ON
    who = _pair(condition) if condition.kind is Kind.CUT else wording.OF_BROKER.format(broker=condition.broker)
    return wording.CONDITION.format(
        kind=wording.KINDS[condition.kind], who=who, begin=show(condition.begin_ms), end=end
    )


def _directions(condition: Condition) -> str:
    if len(condition.lost) == 1:
        ((source, target),) = condition.lost
        return wording.ONE_DIRECTION.format(source=source, target=target)
    return _pair(condition)


def _pair(condition: Condition) -> str:
    return wording.BOTH_DIRECTIONS.format(one=condition.broker, other=condition.other)
