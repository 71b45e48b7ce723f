"""The report of a simulated move: its facts are those of the journal, its sentences true, its pictures legible."""

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from syncline.model.events import Event
from syncline.model.ids import TopicPartition
from syncline.move_report import progress_picture, rates_picture, waits_picture, words
from syncline.move_report.facts import Ending, Facts
from syncline.move_report.frame import NARROW, WIDE
from syncline.move_report.gathering import facts_of
from syncline.move_report.levels import copied_s, mean_rate, used_share, worst_share
from syncline.move_report.moves import chosen, moves_of
from syncline.move_report.page import Origin, render
from syncline.move_report.summary import fields_of, lines_of
from syncline.reassign.formulas import Part, Role
from tests.move_report.story import ENOUGH, TOO_LOW, throttled_move
from tests.node.throttle.quotas import MB
from tests.node.world import World
from tests.pages import check_labels, check_page, labels

ORIGIN = Origin("127.0.0.1:9092", 1_700_000_100_000)
BOLD = {"heading", "strong", "mark-label", "throttle-label", "keep-up-label", "peak"}


@pytest.fixture(scope="module")
def journal() -> list[Event]:
    """Return the journal of a move that was throttled too low, then enough."""
    world, found = World(3, journal_enable="true"), list[Event]()

    async def play() -> None:
        found.extend(await throttled_move(world))

    world.run(play)
    return found


@pytest.fixture(scope="module")
def facts(journal: list[Event]) -> Facts:
    """Return the facts of that move."""
    span = chosen(moves_of(journal), None)
    assert span is not None
    return facts_of(span, journal, max(event.ts_ms for event in journal))


def running(journal: list[Event], at_ms: int) -> Facts:
    """Return the facts as of a moment after the move began."""
    span = chosen(moves_of(journal), None)
    assert span is not None
    known = [event for event in journal if event.ts_ms <= span.started_ms + at_ms]
    then = chosen(moves_of(known), None)
    assert then is not None
    return facts_of(then, known, span.started_ms + at_ms)


def test_facts_are_those_of_the_journal(facts: Facts) -> None:
    """8 MB and what clients wrote went from 1 to 3, under two throttles that hold over ten seconds."""
    (copy,) = facts.copies
    sender, receiver = facts.parts

    assert (facts.ending, facts.name) == (Ending.COMPLETED, "plan.json")
    assert [step.bytes_per_s for step in facts.steps] == [TOO_LOW, ENOUGH]
    assert facts.steps[1].at_ms - facts.started_ms == pytest.approx(12_000, abs=100)
    assert (copy.key, copy.destination, copy.joined_ms) == (TopicPartition("t", 0), 3, facts.ended_ms)
    written = 0.6 * MB * (3 + facts.took_ms / 1_000)
    assert facts.copied_bytes == pytest.approx(8 * MB + written, rel=0.02)
    assert (sender.part, receiver.part) == (Part(1, Role.SENDING), Part(3, Role.RECEIVING))
    for each in facts.parts:
        assert 0.9 <= (used_share(each) or 0) <= 1.02
        assert (worst_share(each, facts.start_ms, facts.bin_ms) or 0) <= 1.05
        assert {quota for quota, copies in zip(each.quotas, each.is_copying, strict=True) if copies} == {
            TOO_LOW,
            ENOUGH,
        }
        assert max(each.keep_up) == pytest.approx(600_000, rel=0.1)
        assert mean_rate(each) * copied_s(each) == pytest.approx(facts.copied_bytes, rel=0.001)


def test_doctor_tells_of_the_time_in_which_the_throttle_was_too_low(facts: Facts) -> None:
    """Of both sides, and of no other time."""
    assert [(each.broker, each.role) for each in facts.held_back] == [(1, Role.SENDING), (3, Role.RECEIVING)]
    for each in facts.held_back:
        assert each.start_ms <= facts.started_ms + 1_000
        assert each.end_ms == pytest.approx(facts.steps[1].at_ms, abs=1_000)
        assert re.search("keep-up traffic alone takes 60\\d kB/s, but the throttle is 400 kB/s", each.sentence)


def test_words_tell_the_story(facts: Facts) -> None:
    """What could not end, what did, and what clients felt."""
    told = words.rates(facts)

    assert re.fullmatch(
        r"Move \w+ \(plan\.json\) is complete: 2[01][.\d]* MB for 1 new replica in 18\.\d s\.", words.verdict(facts)
    )
    assert re.match(
        "With 400 kB/s, the move could not end: clients wrote 60\\d kB/s to the partitions that it copied", told
    )
    assert re.search(r"With 2\.5 MB/s, broker 1 sent 2\.\d+ MB/s on average, 9\d % of that\.", told)
    assert re.search("No broker sent or received more than 10[0-5] % of its throttle in any 10 s\\.", told)
    assert words.setting(facts).endswith("Its throttle was 400 kB/s, then 2.5 MB/s from 0:12 on.")
    assert re.fullmatch(r"The new replica of t-0 on broker 3 was in sync after 18\.\d s\.", words.progress(facts))
    assert "The slowest during the move took 1 ms" in words.waits(facts)
    assert re.match(r"Median p99 of acks=all requests: [^:;]+ before the move, [^:;]+ during it\b", words.waits(facts))
    assert words.waits(replace(facts, waits=())).startswith("No acks=all waits were recorded")


def test_move_that_still_runs_is_told_so_far(journal: list[Event]) -> None:
    """A report in the middle: what is done, and that it is not over."""
    found = running(journal, 9_000)

    assert found.ending is Ending.RUNNING
    assert re.fullmatch(
        "Move \\w+ \\(plan\\.json\\) is still running after 9\\.0 s: 2\\d % is copied\\.", words.verdict(found)
    )
    assert words.progress(found) == "1 new replica is not in sync yet."
    check_page(render(found, ORIGIN))


def test_page_is_sound_and_loads_nothing(facts: Facts) -> None:
    """It holds the sentences of the facts, and what comes from outside is escaped."""
    page = render(replace(facts, name="<b>plan</b>"), Origin("a&b:9092", 0, "More."))

    check_page(page)
    assert "&lt;b&gt;plan&lt;/b&gt;" in page
    assert "a&amp;b:9092" in page
    assert facts.held_back[0].sentence in page


def test_summary_and_fields_have_the_same_numbers(facts: Facts) -> None:
    """For a terminal, and for scripts."""
    lines, fields = lines_of(facts), fields_of(facts)

    assert lines[0] == words.verdict(facts)
    assert any(line.startswith("broker 3 receives ") and "of its throttle, at most" in line for line in lines)
    assert fields["copied_bytes"] == facts.copied_bytes
    assert [each["role"] for each in fields["brokers"]] == ["sending", "receiving"]
    assert {len(each["bytes_per_s"]) for each in fields["brokers"]} == {len(facts.parts[0].rates)}


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("picture", [rates_picture, progress_picture, waits_picture])
@pytest.mark.parametrize("at_ms", [4_000, 17_000, None])
def test_words_in_pictures_stay_inside_and_touch_nothing(
    picture: Any, width: float, at_ms: int | None, facts: Facts, journal: list[Event]
) -> None:
    """At both widths, of a move that has just begun, is nearly done, or is over."""
    root = ET.fromstring(picture.draw(facts if at_ms is None else running(journal, at_ms), width))
    _, _, drawn_width, _ = map(float, root.attrib["viewBox"].split())

    assert drawn_width == width
    assert root.attrib["aria-label"]
    check_labels(root, BOLD)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_throttle_far_above_what_moved_does_not_flatten_the_picture(width: float, facts: Facts) -> None:
    """Its line lies above the panels, and its label says so; the axis ends where the data do."""
    high = [
        replace(
            part,
            quotas=(100.0 * MB,) * len(part.quotas),
            levels=tuple(level._replace(bound=100.0 * MB) for level in part.levels[:1]),
        )
        for part in facts.parts
    ]
    root = ET.fromstring(rates_picture.draw(replace(facts, parts=tuple(high)), width))
    told = [text for text, *_ in labels(root, BOLD)]

    assert told.count("throttle 100 MB/s ↑") == 2
    assert "4 MB/s" in told
    assert not any(text.startswith(("20 MB", "50 MB", "100 MB")) for text in told)
