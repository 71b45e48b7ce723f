"""The report as one self-contained HTML page, in the style of the other reports."""

from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

from syncline.move_report import progress_picture, rates_picture, waits_picture, words
from syncline.move_report.facts import Copy, Ending, Facts, PartFacts
from syncline.move_report.frame import NARROW, WIDE, since
from syncline.move_report.levels import mean_rate, used_share, worst_share
from syncline.move_report.style import STYLE
from syncline.pictures.labels import seconds
from syncline.pictures.page import cards, document, figure
from syncline.reassign.amounts import rate_words, size_words

_COPIES_MAX: Final = 400


class Origin(NamedTuple):
    """Where the facts come from, and when the page was made (Unix milliseconds); `about` is a sentence more, or ""."""

    cluster: str
    made_at_ms: int
    about: str = ""


def render(facts: Facts, origin: Origin) -> str:
    """Return the whole page."""
    is_bad = facts.ending is not Ending.COMPLETED
    about = f'<p class="lead">{escape(origin.about)}</p>' if origin.about else ""
    return document(
        f"{facts.title}: report",
        STYLE,
        "<header>",
        f'<p class="eyebrow">Report of a move · cluster <code>{escape(origin.cluster)}</code> · {_when(facts)}</p>',
        f'<h1 class="{"bad" if is_bad else "good"}">{escape(words.verdict(facts))}</h1>',
        f'<p class="lead">{escape(words.setting(facts))}</p>',
        about,
        "</header>",
        _cards(facts),
        *_figures(facts),
        _parts(facts),
        _copies(facts),
        _footer(origin),
    )


def _figures(facts: Facts) -> list[str]:
    found = []
    if facts.parts:
        drawing, narrow = (rates_picture.draw(facts, width) for width in (WIDE, NARROW))
        section = figure(
            "1",
            "Bytes per second, against the throttle",
            words.rates(facts),
            drawing,
            _rates_note(facts),
            narrow=narrow,
        )
        found.append(section.removesuffix("</section>") + _held(facts) + "</section>")
    if facts.copies:
        drawing, narrow = (progress_picture.draw(facts, width) for width in (WIDE, NARROW))
        found.append(
            figure(
                str(len(found) + 1),
                "Progress of each new replica",
                words.progress(facts),
                drawing,
                _progress_note(facts),
                narrow=narrow,
            )
        )
    if facts.waits:
        drawing, narrow = (waits_picture.draw(facts, width) for width in (WIDE, NARROW))
        found.append(
            figure(
                str(len(found) + 1),
                "How clients were affected",
                words.waits(facts),
                drawing,
                _WAITS_NOTE,
                narrow=narrow,
            )
        )
    else:
        found.append(
            f'<section><h2><span class="number">{len(found) + 1}</span>How clients were affected</h2><p '
            f'class="message">{escape(words.waits(facts))}</p></section>'
        )
    return found


_WAITS_NOTE: Final = (
    "Measured by brokers, from the append of a request with acks=all to its response, for each interval of "
    "the journal and the broker whose clients waited longest. The network between client and broker comes on "
    "top. Rest the pointer on a dot to see its numbers."
)


def _rates_note(facts: Facts) -> str:
    note = (
        "Bytes of records that new replicas received until they were in sync, in intervals of "
        f"{_span(facts.bin_ms)}, as leaders sampled them. Batches are sent whole, so single intervals may lie "
        "above the throttle. A new replica makes progress while the area is above the dotted line."
    )
    hidden = len(facts.parts) - len(rates_picture.shown(facts))
    return (
        f"{note} {words.counted(hidden, 'panel')} of brokers that copied less {_are(hidden)} left out."
        if hidden
        else note
    )


def _progress_note(facts: Facts) -> str:
    note = (
        "The share of its leader's log that each new replica had; the share falls while clients write more "
        "than is copied. Green marks the moment when the replica joined the ISR."
    )
    hidden = len(facts.copies) - len(progress_picture.shown(facts))
    if not hidden:
        return note
    return f"{note} {words.counted(hidden, 'new replica')} that took less time {_are(hidden)} left out."


def _span(ms: int) -> str:
    return f"{ms // 1_000} s" if ms < 60_000 else f"{ms // 60_000} min"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _held(facts: Facts) -> str:
    rows = "".join(
        f'<li><span class="dot">{number}</span><time>{since(each.start_ms - facts.started_ms)} to '
        f"{since(each.end_ms - facts.started_ms)}</time><span>{escape(each.sentence)}</span></li>"
        for number, each in enumerate(facts.held_back, 1)
    )
    return f'<ol class="held" aria-label="What held the move back">{rows}</ol>' if rows else ""


def _cards(facts: Facts) -> str:
    copied = f"copied to {words.counted(len(facts.copies), 'new replica')}"
    numbers = [
        *([(size_words(facts.copied_bytes), copied)] if facts.copied_bytes else []),
        (seconds(facts.took_ms), "from begin to end" if facts.ended_ms is not None else "so far"),
    ]
    if facts.parts:
        part = words.longest_part(facts)
        numbers.append((rate_words(mean_rate(part)), f"{part.title}, on average"))
        share = used_share(part)
        if share is not None:
            numbers.append((f"{100 * share:.0f} %", "of its throttle was used"))
    slowest = words.slowest_ms(facts)
    if slowest is not None:
        numbers.append((seconds(slowest), "slowest acknowledgement during the move"))
    return cards(numbers)


def _parts(facts: Facts) -> str:
    if not facts.parts:
        return ""
    rows = "".join(
        f"<tr><td>{escape(each.title)}</td>{''.join(_number(value) for value in _numbers(facts, each))}</tr>"
        for each in facts.parts
    )
    heads = ("mean", "highest interval", "of its throttle", "most in 10 s", "of the time something waited")
    head = "".join(f'<th class="number">{name}</th>' for name in heads)
    return (
        '<details><summary>Each broker in numbers</summary><div class="scroll"><table><thead><tr><th>broker</th>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _numbers(facts: Facts, part: PartFacts) -> tuple[str, ...]:
    return (
        rate_words(mean_rate(part)),
        rate_words(max(part.rates)),
        _percent(used_share(part)),
        _percent(worst_share(part, facts.start_ms, facts.bin_ms)),
        _percent(part.held_share),
    )


def _number(text: str) -> str:
    return f'<td class="number">{escape(text)}</td>'


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _copies(facts: Facts) -> str:
    rows = "".join(
        f"<tr><td>{escape(copy.name)}</td>{''.join(_number(value) for value in _times(facts, copy))}"
        f"<td>{escape(copy.ending)}</td></tr>"
        for copy in facts.copies[:_COPIES_MAX]
    )
    if not rows:
        return ""
    return (
        f"<details><summary>{'All' if len(facts.copies) <= _COPIES_MAX else _COPIES_MAX} new replicas</summary>"
        '<div class="scroll"><table><thead><tr><th>new replica</th><th class="number">began</th>'
        '<th class="number">in sync</th><th class="number">bytes</th><th>its reassignment</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def _times(facts: Facts, copy: Copy) -> tuple[str, ...]:
    return (
        since(copy.started_ms - facts.started_ms),
        "–" if copy.joined_ms is None else since(copy.joined_ms - facts.started_ms),
        "–" if copy.copied_bytes is None else size_words(copy.copied_bytes),
    )


def _when(facts: Facts) -> str:
    begun = datetime.fromtimestamp(facts.started_ms / 1000, UTC)
    ended = datetime.fromtimestamp((facts.ended_ms or facts.end_ms) / 1000, UTC)
    day = f"{begun.day} {begun.strftime('%B %Y')}"
    return f"{day}, {begun.strftime('%H:%M:%S')} to {ended.strftime('%H:%M:%S')} UTC"


def _footer(origin: Origin) -> str:
    made = datetime.fromtimestamp(origin.made_at_ms / 1000, UTC).strftime("%d %B %Y, %H:%M:%S UTC").lstrip("0")
    return f"<footer>Generated on {made} from the journal of <code>{escape(origin.cluster)}</code>.</footer>"
