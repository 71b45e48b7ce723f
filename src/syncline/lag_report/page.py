"""The report as one self-contained HTML page: a figure for each broker, and how the model and measurements agree."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

from syncline.lag_report import curve_picture, words
from syncline.lag_report.advice import Advice
from syncline.lag_report.agreement import Agreement, agreements
from syncline.lag_report.facts import CacheFacts
from syncline.lag_report.style import STYLE
from syncline.model.shown_names import shown_name
from syncline.pictures.page import cards, document, figure
from syncline.reassign.amounts import rate_words, size_words

_READERS_MAX: Final = 100
_NOTE: Final = (
    "By the broker's own counter of written bytes, for each read: a page that was appended stays until as many bytes "
    "were appended to all logs as the cache holds. Distances are counted in powers of two, so a size is right to that "
    "factor. What followers' fetches read is not in it."
)


class Origin(NamedTuple):
    """Where the facts come from, and when the page was made (Unix milliseconds); `missing` are sentences of silence."""

    cluster: str
    made_at_ms: int
    missing: tuple[str, ...] = ()


def render(brokers: Sequence[tuple[CacheFacts, Advice]], origin: Origin) -> str:
    """Return the whole page."""
    missing = "".join(f'<p class="lead">{escape(sentence)}</p>' for sentence in origin.missing)
    lacking = [facts for facts, advice in brokers if facts.read_bytes and not advice.has_enough]
    return document(
        "Page cache: report",
        STYLE,
        "<header>",
        f'<p class="eyebrow">Page cache · cluster <code>{escape(origin.cluster)}</code> · {_when(origin)}</p>',
        f"<h1>{escape(_title(brokers, lacking))}</h1>",
        f'<p class="lead">{escape(words.agreed(_compared(brokers)))}</p>',
        missing,
        "</header>",
        cards(_cards(brokers)),
        *(_broker(number, facts, advice) for number, (facts, advice) in enumerate(brokers, 1)),
        _agreed(brokers, len(brokers) + 1),
        "<footer>Made by <code>syncline cache</code>.</footer>",
    )


def _title(brokers: Sequence[tuple[CacheFacts, Advice]], lacking: Sequence[CacheFacts]) -> str:
    if not any(facts.read_bytes for facts, _ in brokers):
        return "Nobody has read anything yet."
    is_supposed = any(facts.is_supposed for facts, _ in brokers)
    short = [facts for facts, _ in brokers if words.short_of_curve(facts) is not None]
    if not lacking and short and not is_supposed:
        if len(brokers) == 1:
            return words.verdict(*brokers[0])
        names = ", ".join(str(facts.broker) for facts in short)
        return f"{'Broker' if len(short) == 1 else 'Brokers'} {names}: fewer reads from memory than its size explains."
    if not lacking:
        return f"Every broker {'would serve' if is_supposed else 'serves'} its reads from memory."
    if len(brokers) == 1:
        return words.verdict(*brokers[0])
    names = ", ".join(str(facts.broker) for facts in lacking)
    little = "that would be too little memory" if is_supposed else "too little memory"
    return f"{'Broker' if len(lacking) == 1 else 'Brokers'} {names}: {little} for what is read."


def _cards(brokers: Sequence[tuple[CacheFacts, Advice]]) -> list[tuple[str, str]]:
    read = sum(facts.read_bytes_per_s for facts, _ in brokers)
    missed = sum(advice.now.disk_bytes_per_s for _, advice in brokers)
    needed = [advice.wanted_bytes for facts, advice in brokers if facts.read_bytes]
    total = sum(each for each in needed if each is not None)
    is_supposed = any(facts.is_supposed for facts, _ in brokers)
    return [
        (rate_words(sum(facts.written_bytes_per_s for facts, _ in brokers)), "is written to logs whose pages stay"),
        (rate_words(read), "is read"),
        (rate_words(missed), "of it would come from the disk" if is_supposed else "of it from the disk"),
        (
            size_words(sum(facts.memory_bytes for facts, _ in brokers)),
            "of page cache are supposed" if is_supposed else "of page cache",
        ),
        *([(size_words(total), "would serve 99 % of the reads")] if needed and None not in needed else []),
    ]


def _broker(number: int, facts: CacheFacts, advice: Advice) -> str:
    title = f"Page cache of {facts.title}"
    if not facts.read_bytes:
        return (
            f'<section><h2><span class="number">{number}</span>{escape(title)}</h2>'
            f'<p class="message">{escape(words.verdict(facts, advice))}</p></section>'
        )
    said = [
        words.verdict(facts, advice),
        words.need(facts, advice),
        words.residence(facts, advice),
        words.blame(facts, advice),
    ]
    drawing, narrow = (curve_picture.draw(facts, advice, width) for width in (curve_picture.WIDE, curve_picture.NARROW))
    section = figure(str(number), title, " ".join(filter(None, said)), drawing, _NOTE, narrow=narrow)
    return section.removesuffix("</section>") + _readers(advice) + "</section>"


def _readers(advice: Advice) -> str:
    rows = "".join(
        f"<tr><td>{escape(shown_name(each.reader))}</td>{_number(words.percent(each.hit_ratio))}"
        f"{_number(rate_words(each.disk_bytes_per_s))}{_number(words.percent(each.share))}</tr>"
        for each in advice.misses[:_READERS_MAX]
    )
    heads = "".join(f'<th class="number">{name}</th>' for name in ("from memory", "from disk", "of all misses"))
    return (
        '<div class="scroll readers"><table><thead><tr><th>reader</th>'
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _number(text: str) -> str:
    return f'<td class="number">{escape(text)}</td>'


def _compared(brokers: Sequence[tuple[CacheFacts, Advice]]) -> list[Agreement]:
    return list(agreements([(facts.title, facts) for facts, _ in brokers]))


def _agreed(brokers: Sequence[tuple[CacheFacts, Advice]], number: int) -> str:
    rows = "".join(f"<li>{escape(words.compared_with(each))}.</li>" for each in _compared(brokers))
    if not rows:
        return ""
    return (
        f'<section><h2><span class="number">{number}</span>Model and measurement</h2>'
        '<p class="message">What brokers found in memory when they read, beside what the curve says.</p>'
        f'<ul class="agreed">{rows}</ul></section>'
    )


def _when(origin: Origin) -> str:
    made = datetime.fromtimestamp(origin.made_at_ms / 1000, UTC)
    return f"{made.day} {made.strftime('%B %Y, %H:%M:%S')} UTC"
