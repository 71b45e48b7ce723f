"""The report is one valid, self-contained page that states the facts."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from syncline.pipeline.report import flights_map, group_lag_picture, isr_picture, lag_picture, words
from syncline.pipeline.report.facts import (
    Check,
    Facts,
    FaultMark,
    FlightCell,
    GroupLagSample,
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
    group_lag=tuple(
        GroupLagSample(1_000 * s, "readers", p, 100 * (1 + 9 * (18 <= s < 29)) * (p + 1), 20_000, 300 + p)
        for s in range(1, 60)
        for p in range(2)
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
    group_lag=(),
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
@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(flights_map.draw, id="flights"),
        pytest.param(isr_picture.draw, id="isr"),
        pytest.param(lag_picture.draw, id="lag"),
        pytest.param(lambda facts: group_lag_picture.draw(facts, group_lag_picture.WIDE), id="group-lag"),
        pytest.param(lambda facts: group_lag_picture.draw(facts, group_lag_picture.NARROW), id="group-lag-narrow"),
    ],
)
def test_picture_is_well_formed_and_stays_inside_its_frame(draw, facts: Facts) -> None:
    """Each drawing is XML, has a name for screen readers, and draws no shape beyond its edges."""
    root = ET.fromstring(draw(facts))

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
    assert "scheduled at 6:00 leave 0.6 minutes late on average, those at 19:00 20.0 minutes" in words.flights(FACTS)
    assert "left the ISR once, the longest for 9.0 s (broker 2, partition 0)" in words.replication(FACTS)
    assert "Leadership moved once, each time to a replica in sync" in words.replication(FACTS)
    assert "broker 2 was 11.0 s behind on partition 0 (at 0:28)" in words.lag(FACTS)
    assert words.group_lag(FACTS) == (
        "Group readers: when broker 2 was paused, it was up to 3,000 records, 40 kB and 301 ms behind; "
        "when broker 3 was cut off, it was up to 300 records, 40 kB and 301 ms behind. "
        "Without a fault it was usually 300 records, 40 kB and 301 ms behind."
    )


def test_group_is_a_sum_over_its_partitions_and_waits_as_long_as_the_slowest() -> None:
    """Records and bytes add up, times do not; without a fault the words tell the largest numbers."""
    calm = replace(FACTS, faults=())

    assert group_lag_picture.moments(FACTS, "readers")[0] == (1_000, 300, 40_000, 301)
    assert words.group_lag(calm) == "Group readers was up to 3,000 records, 40 kB and 301 ms behind."
    assert words.group_lag(EMPTY) == "The journal holds no samples of consumers."


def test_line_of_a_group_ends_where_nobody_could_measure_it() -> None:
    """A straight line over a gap would say that somebody knew; a group at rest is not measured and stays at 0."""
    lags = [5, 5, 5, 0, 0, 5, 5]
    times_s = [1, 2, 3, 20, 21, 40, 41]

    def drawn(values: list[int]) -> int:
        samples = [GroupLagSample(1_000 * s, "g", 0, lag, 0, 0) for s, lag in zip(times_s, values, strict=True)]
        return group_lag_picture.draw(replace(FACTS, group_lag=tuple(samples)), 1280.0).count('class="series series0"')

    assert drawn(lags) - drawn([0] * 7) == 1


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


def test_heat_map_writes_thousands_as_texts_do() -> None:
    """Guards: its colours stood for 1000+ flights, in a report whose sentences have 336,776."""
    assert ">1,000+<" in "".join(flights_map.draw(FACTS))
