"""The report is one valid, self-contained page that states the facts."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from syncline.pipeline.report import flights_map, isr_picture, lag_picture, words
from syncline.pipeline.report.facts import (
    Check,
    Facts,
    FaultMark,
    FlightCell,
    IsrInterval,
    LagSample,
    LeaderChange,
)
from syncline.pipeline.report.page import render
from tests.pages import check_page

FACTS = Facts(
    topic="flights",
    bootstrap="127.0.0.1:9092",
    made_at_ms=1_700_000_100_000,
    took_ms=3_210,
    record_count=1_500,
    partition_count=1,
    first_departure_ms=1_357_035_300_000,
    last_departure_ms=1_388_552_340_000,
    cancelled_count=40,
    checks=(Check("Nothing is lost.", holds=True, detail="1,500 of 1,500"),),
    cells=(
        FlightCell("UA", 6, 600, 590, 590),
        FlightCell("UA", 19, 500, 480, 9_600),
        FlightCell("B6", 6, 390, 380, -38),
        FlightCell("B6", 1, 10, 10, 0),
    ),
    carrier_names={"UA": "United", "B6": "Jet <Blue> & Co"},
    intervals=(
        IsrInterval(0, 1, 1_000, None, True, True, 1, 0, "election", "created", None),
        IsrInterval(0, 2, 1_000, 21_000, True, False, 1, 0, "election", "created", None),
        IsrInterval(0, 2, 21_000, 30_000, False, False, 1, 0, "isr_change", "time", '{"behind_ms":3100}'),
        IsrInterval(0, 2, 30_000, None, True, False, 1, 0, "isr_change", "caught_up", "{}"),
    ),
    leader_changes=(LeaderChange(40_000, 0, 2, 1, 1, "process-gone", True),),
    lag=tuple(
        LagSample(1_000 * s, 0, 2, 50 * (18 <= s < 30), 12 + 1_000 * max(0, s - 18) * (s < 30), not 21 <= s < 30)
        for s in range(1, 60)
    ),
    faults=(FaultMark("pause", "broker-2", 18_000, 29_000, "SIGSTOP"), FaultMark("cut", "broker-3", 50_000, None)),
    journal_start_ms=1_000,
    journal_end_ms=61_000,
    journal_event_count=70,
    replica_lag_time_max_ms=3_000,
)
EMPTY = replace(
    FACTS,
    record_count=0,
    partition_count=0,
    cells=(),
    intervals=(),
    leader_changes=(),
    lag=(),
    faults=(),
    journal_start_ms=0,
    journal_end_ms=0,
    replica_lag_time_max_ms=None,
)


@pytest.mark.parametrize("facts", [pytest.param(FACTS, id="full"), pytest.param(EMPTY, id="empty")])
def test_page_is_sound_and_loads_nothing(facts: Facts) -> None:
    """Every tag closes, and the page needs no script, font, picture or address."""
    check_page(render(facts))


@pytest.mark.parametrize("facts", [pytest.param(FACTS, id="full"), pytest.param(EMPTY, id="empty")])
@pytest.mark.parametrize("picture", [flights_map, isr_picture, lag_picture])
def test_picture_is_well_formed_and_stays_inside_its_frame(picture, facts: Facts) -> None:
    """Each drawing is XML, has a name for screen readers, and draws no shape beyond its edges."""
    root = ET.fromstring(picture.draw(facts))

    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert root.attrib["aria-label"]
    for shape in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert 0 <= float(shape.attrib["x"]) <= float(shape.attrib["x"]) + float(shape.attrib["width"]) <= width
        assert 0 <= float(shape.attrib["y"]) <= float(shape.attrib["y"]) + float(shape.attrib["height"]) <= height


def test_page_escapes_what_comes_from_outside() -> None:
    """Names and evidence cannot become markup."""
    page = render(FACTS)

    assert "Jet &lt;Blue&gt; &amp; Co" in page
    assert "<Blue>" not in page


def test_page_says_the_result_first() -> None:
    """The headline is the verdict, with the faults that the data survived."""
    assert "<h1" in render(FACTS)
    assert words.verdict(FACTS) == (
        "All 1,500 records arrived exactly once and in order, although broker 2 was paused and broker 3 was cut off."
    )


def test_page_says_so_when_a_check_fails() -> None:
    """A failed check turns the headline and is marked in the list."""
    failed = replace(FACTS, checks=(*FACTS.checks, Check("Order is kept.", holds=False, detail="3 are out of order")))

    page = render(failed)

    assert words.verdict(failed).startswith("1 of 2 checks failed")
    assert '<li class="bad"><span class="mark" aria-label="fails">✗</span>' in page


def test_words_hold_the_numbers_of_the_pictures() -> None:
    """Sentences are computed: best and worst hour, the longest outage, the worst lag."""
    assert "scheduled at 6:00 leaves 0.6 minutes late on average, at 19:00 it is 20.0 minutes" in words.flights(FACTS)
    assert "left the ISR once, the longest for 9.0 s (broker 2, partition 0)" in words.replication(FACTS)
    assert "Leadership moved once, each time to a replica in sync" in words.replication(FACTS)
    assert "broker 2 was 11.0 s behind on partition 0 (at 0:28)" in words.lag(FACTS)


def test_episodes_count_a_replica_once_that_stays_out_under_a_new_leader() -> None:
    """An outage that spans an election is one outage."""
    lane = [
        IsrInterval(0, 2, 0, 5, True, True, 2, 0, "election", "created", None),
        IsrInterval(0, 2, 5, 9, False, False, 1, 1, "election", "process-gone", None),
        IsrInterval(0, 2, 9, 12, False, False, 3, 2, "election", "process-gone", None),
        IsrInterval(0, 2, 12, None, True, False, 3, 2, "isr_change", "caught_up", None),
    ]

    assert words.episodes(replace(FACTS, intervals=tuple(lane))) == 1


def test_heat_map_leaves_out_hours_that_are_almost_empty() -> None:
    """One early flight in a year makes no column; the note under the picture counts it."""
    assert flights_map.shown_hours(FACTS.cells) == list(range(6, 20))
    assert "left out (10 flights)" in render(FACTS)
