"""The report about the page cache: its sentences are true, its chart and picture legible, its page sound."""

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from syncline.core.lag.buckets import BYTES
from syncline.lag_report import curve_picture, terminal, words
from syncline.lag_report.advice import Advice, advise
from syncline.lag_report.agreement import agreements
from syncline.lag_report.answers import facts_of
from syncline.lag_report.curve_picture import NARROW, WIDE
from syncline.lag_report.facts import CacheFacts
from syncline.lag_report.memory_axis import axis_of
from syncline.lag_report.page import Origin, render
from syncline.lag_report.summary import fields_of
from tests.lag_report.readings import GB, MB, TAIL, answer, falling, quiet, reader
from tests.pages import check_labels, check_page

ORIGIN = Origin("syncline-data", 1_700_000_100_000)
BOLD = {"now-label", "advised-label"}
ANSWERS: dict[str, dict[str, Any]] = {
    "far reader": answer(),
    "too little": falling(memory_bytes=4 * MB),
    "enough": falling(hit_bytes=GB, miss_bytes=0),
    "less than the curve says": falling(hit_bytes=GB, miss_bytes=9 * GB),
    "all at the tail": answer(buckets=[[TAIL, 1, GB]], readers=[], hit_bytes=GB, miss_bytes=0),
    "out of reach": answer(buckets=[[TAIL, 1, 9 * GB], [45, 1, GB]], readers=[]),
    "nothing written": answer(written_bytes_per_s=0),
    "tiny": falling(memory_bytes=1),
    "huge": falling(memory_bytes=10**18),
}


def told(**changed: Any) -> tuple[CacheFacts, Advice]:
    """Return facts and advice of an answer."""
    facts = facts_of(1, answer(**changed), None)
    return facts, advise(facts)


def test_l26_report_names_the_group_that_reads_from_the_disk() -> None:
    """A group at the tail, one two hours behind: what is served, what is needed, who is to blame."""
    facts, advice = told()

    assert words.verdict(facts, advice) == (
        "Broker 1 serves 83.3 % of its reads from its page cache of 40 GB; the rest, 20 MB/s, comes from disk."
    )
    assert words.need(facts, advice) == (
        "To serve 99 % of the reads from memory, this broker needs 1.07 TB of page cache."
    )
    assert words.residence(facts, advice) == "With 100 MB/s written, a page stays in memory for 5 min 33 s."
    assert words.blame(facts, advice) == (
        "Group B causes 100 % of the misses; without it, 65.5 kB would serve 99 % of the rest."
    )


def test_words_of_what_is_enough_or_impossible() -> None:
    """All in memory; enough; no memory suffices; nobody reads."""
    tail = told(buckets=[[TAIL, 1, GB]], readers=[], hit_bytes=GB, miss_bytes=0)
    assert words.verdict(*tail) == "Broker 1 serves all reads from its page cache of 40 GB."
    assert words.need(*tail) == "To serve 99 % of the reads from memory, this broker needs 65.5 kB, which it has."
    assert words.blame(*tail) == ""
    beyond = BYTES.first_exponent + BYTES.bound_count
    assert words.need(*told(buckets=[[TAIL, 1, 9 * GB], [beyond, 1, GB]], readers=[])) == (
        "No amount of memory serves 99 % of the reads: 10 % of the bytes were in pages that nothing kept "
        "(page.cache.leader.budget.bytes, page.cache.follower.keep.bytes)."
    )
    assert words.verdict(*told(**quiet())) == "No client has read from broker 1."


def test_verdict_is_what_was_measured_where_the_curve_is_wrong() -> None:
    """Guards: "Broker 1 serves all reads from its page cache" stood above a measurement of 10 %."""
    assert words.verdict(*told(buckets=[[TAIL, 1, GB]], readers=[], hit_bytes=GB, miss_bytes=9 * GB)) == (
        "Broker 1 found 10 % of its reads in memory, although by the curve its page cache of 40 GB would "
        "hold all of them."
    )
    assert words.verdict(*told(hit_bytes=GB, miss_bytes=9 * GB)).endswith(
        "its page cache of 40 GB would hold 83.3 % of them."
    )


def test_words_of_pollution() -> None:
    """Reads from the disk that take room are told in points."""
    facts = facts_of(1, falling(memory_bytes=MB // 4, read_bytes_per_s=2_000 * MB), None)
    said = words.residence(facts, advise(facts))

    assert "Reads from disk take up memory, too: without them, the broker would serve" in said
    assert said.endswith(" points more.")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100 %"),
        (0.99999, "over 99.9 %"),
        (0.0, "0 %"),
        (0.0001, "under 0.1 %"),
        (0.934, "93.4 %"),
        (0.99, "99 %"),
    ],
)
def test_percent_never_rounds_to_all_or_nothing(share: float, text: str) -> None:
    """What is not all is not called all."""
    assert words.percent(share) == text


def test_words_of_agreement() -> None:
    """The curve may be trusted, or what a difference means; without measurements neither."""
    close, few = told()[0], facts_of(2, falling(memory_bytes=4 * MB, hit_bytes=40, miss_bytes=60), None)

    assert words.agreed(agreements([("broker 1", close)])) == (
        "Model and measurement differ by 0.8 points: the curve can be trusted."
    )
    assert words.agreed(agreements([("a", close), ("b", few)])).endswith(
        "over 2 measurements: use the curve with care."
    )
    assert words.agreed(()).startswith("No reads have been measured yet")
    (told_few,) = map(words.compared_with, agreements([("0:30", few)]))
    assert told_few.startswith("0:30: 40 % measured, ")
    assert told_few.endswith("something else uses memory, or pages are dropped early")


@pytest.mark.parametrize("width", [20, 80, 120, 161])
@pytest.mark.parametrize("name", ANSWERS)
def test_chart_fits_the_terminal_and_marks_the_memory(name: str, width: int) -> None:
    """No line is longer; the line through the memory of now stands above its label."""
    facts = facts_of(1, ANSWERS[name], None)
    advice = advise(facts)
    lines = terminal.chart(facts, advice, width)
    (now,) = (line for line in lines if "now " in line)

    assert all(len(line) <= max(width, terminal.WIDTH_MIN) for line in terminal.lines_of(facts, advice, width)[5:20])
    if width >= terminal.WIDTH_MIN:
        assert all(len(line) <= width for line in lines)
        column = now.index("▲")
        for line in lines[1:11]:
            assert line[column : column + 1] in {"│", "▒"}


def test_chart_falls_with_memory() -> None:
    """What stands higher on the left is never lower than on its right."""
    facts = facts_of(1, falling(memory_bytes=4 * MB), None)
    lines = terminal.chart(facts, advise(facts), 100)[1:11]
    heights = [sum(line[column : column + 1].strip() != "" for line in lines) for column in range(9, 100)]
    marked = {line.index("▲") - 9 for line in terminal.chart(facts, advise(facts), 100) if "▲" in line}
    plain = [height for column, height in enumerate(heights) if column not in marked]

    assert plain == sorted(plain, reverse=True)
    assert plain[0] > plain[-1] > 0
    assert "".join(lines).count("%") >= 2


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", ANSWERS)
def test_words_in_the_picture_stay_inside_and_touch_nothing(name: str, width: float) -> None:
    """At both widths, whatever the numbers."""
    facts = facts_of(1, ANSWERS[name], None)
    root = ET.fromstring(curve_picture.draw(facts, advise(facts), width))
    _, _, drawn_width, _ = map(float, root.attrib["viewBox"].split())

    assert drawn_width == width
    assert root.attrib["aria-label"].startswith("Share of what is read from broker 1")
    check_labels(root, BOLD)


@pytest.mark.parametrize("name", ANSWERS)
def test_axis_has_the_memory_inside_and_round_sizes(name: str) -> None:
    """Ticks rise, and are as many as asked for or a little fewer."""
    facts = facts_of(1, ANSWERS[name], None)
    axis = axis_of(facts, advise(facts))

    assert axis.low_bytes <= facts.memory_bytes <= axis.high_bytes
    assert axis.at(axis.share(facts.memory_bytes)) == pytest.approx(facts.memory_bytes)
    for count in (3, 8, 13):
        ticks = axis.ticks(count)
        assert ticks == sorted(ticks)
        assert all(axis.low_bytes <= tick <= axis.high_bytes for tick in ticks)


def test_page_is_sound_and_loads_nothing() -> None:
    """It has a figure per broker, both widths, and what comes from outside is escaped."""
    facts = [facts_of(1, answer(readers=[reader("<b>", [[TAIL, 1, GB]])]), None), facts_of(2, quiet(), None)]
    page = render([(each, advise(each)) for each in facts], Origin("a&b", 0, ("broker 3 is away.",)))

    check_page(page)
    assert page.count("<svg") == 2
    assert "client &lt;b&gt; at 10.0.0.7" in page
    assert "a&amp;b" in page
    assert "broker 3 is away." in page
    assert "No client has read from broker 2." in page


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["far reader"], "Broker 1 serves 83.3 % of its reads"),
        (["enough"], "Every broker serves its reads from memory."),
        (["less than the curve says"], "Broker 1 found 10 % of its reads in memory, although by the curve its page "),
        (["enough", "less than the curve says"], "Broker 1: fewer reads from memory than its size explains."),
        (["enough", "far reader"], "Broker 1: too little memory for its reads."),
        ([], "No client has read anything yet."),
    ],
)
def test_title_says_what_is_wrong(names: list[str], title: str) -> None:
    """One broker in full, of several those that lack memory."""
    facts = [facts_of(1, ANSWERS[name], None) for name in names] or [facts_of(1, quiet(), None)]
    page = render([(each, advise(each)) for each in facts], ORIGIN)

    check_page(page)
    assert f"<h1>{title}" in page


def test_fields_have_the_same_numbers() -> None:
    """For scripts: the curve, the memory for three shares, the readers."""
    facts, advice = told()
    fields = fields_of(facts, advice)

    assert fields["hit_ratio"] == advice.now.hit_ratio
    assert fields["memory_for"]["0.99"] == advice.wanted_bytes
    assert [each["reader"] for each in fields["readers"]] == ["group B", "group A"]
    far, near = (each["memory_for"] for each in fields["readers"])
    assert list(far) == list(near) == list(fields["memory_for"])
    assert far["0.99"] > fields["memory_for"]["0.99"] > 10**6 * near["0.99"]
    assert [size for size, _ in fields["curve"]] == sorted(size for size, _ in fields["curve"])
    assert fields_of(*told(**quiet()))["residence_s"] is None
