"""The page of `lag-by-records-lies`: two groups measured three ways, each with bars on a linear scale."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Final, NamedTuple

from syncline.pictures import svg
from syncline.pictures.labels import seconds, size
from syncline.pictures.page import PAGE_ROLES, PAGE_RULES, cards, document, figure
from syncline.pictures.palette import sheet
from syncline.pictures.scales import Linear

WIDE: Final = 1180.0
NARROW: Final = 346.0
_LEFT: Final = 14.0
_BAR_PX: Final = 14.0
# Room for the number before the name of its group.
_LABEL_PX: Final = 72.0
_ROW: Final = 46.0
_MEASURE: Final = 2 * _ROW + 62.0

_OWN: Final = {**PAGE_ROLES, "first": ("#0072b2", "#56b4e9"), "second": ("#c4560a", "#f0913d")}
_RULES: Final = "svg .first{fill:var(--first)} svg .second{fill:var(--second)} svg .number{font-weight:650}"
STYLE: Final = sheet(_OWN, PAGE_RULES + _RULES)


class Measured(NamedTuple):
    """One group, as the brokers measured it."""

    group: str
    records: int
    size_bytes: int
    waited_ms: int


class _Measure(NamedTuple):
    title: str
    value: Callable[[Measured], int]
    label: Callable[[Measured], str]


_MEASURES: Final = (
    _Measure("Unread records", lambda each: each.records, lambda each: f"{each.records:,}"),
    _Measure("Unread bytes", lambda each: each.size_bytes, lambda each: size(each.size_bytes)),
    _Measure("How long the next record has waited", lambda each: each.waited_ms, lambda each: waited(each.waited_ms)),
)


def waited(ms: int) -> str:
    """Return a time, from an hour on as hours and minutes."""
    hours, minutes = ms // 3_600_000, ms // 60_000 % 60
    return f"{hours} h {minutes} min" if hours else seconds(ms)


def page(title: str, about: str, groups: Sequence[Measured]) -> str:
    """Return the page."""
    message = "Tools that count records show the first pair of bars. Consumers feel the last one."
    records = sorted({each.records for each in groups})
    return document(
        title,
        STYLE,
        "<header>",
        '<p class="eyebrow">syncline lab run lag-by-records-lies</p>',
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(about)}</p>',
        "</header>",
        cards(
            [
                (" and ".join(f"{each:,}" for each in records), "records that each group has yet to read"),
                *((waited(each.waited_ms), f"waiting time of the next record for {each.group}") for each in groups),
            ]
        ),
        figure(
            "1", "The same groups, measured three ways", message, draw(groups, WIDE), _NOTE, narrow=draw(groups, NARROW)
        ),
    )


_NOTE: Final = (
    "Each pair of bars has its own linear scale. The brokers measured all three when the records of the busy "
    "topic had waited for two seconds: bytes from the batch that holds the next record, and the time since "
    "it was appended."
)


def draw(groups: Sequence[Measured], width: float) -> str:
    """Return the picture."""
    parts: list[str] = []
    for number, measure in enumerate(_MEASURES):
        top = 24 + number * _MEASURE
        parts.append(svg.text(_LEFT, top, measure.title, class_="heading"))
        across = Linear(0, max(1, *(measure.value(each) for each in groups)), _LEFT, width - _LEFT)
        for row, (each, style) in enumerate(zip(groups, ("first", "second"), strict=True)):
            parts += _bar(each, measure, across, top + 26 + row * _ROW, style)
    return svg.drawing(width, len(_MEASURES) * _MEASURE + 10, "Two groups in records, in bytes and in time", *parts)


def _bar(each: Measured, measure: _Measure, across: Linear, baseline: float, style: str) -> list[str]:
    label = measure.label(each)
    return [
        svg.text(_LEFT, baseline, label, class_="number"),
        svg.text(_LEFT + _LABEL_PX, baseline, each.group, class_="muted"),
        # A value too small for this scale still gets a visible bar.
        svg.rect(_LEFT, baseline + 6, max(1.0, across(measure.value(each)) - _LEFT), _BAR_PX, class_=style, rx=2),
    ]
