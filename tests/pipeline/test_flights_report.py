"""The demonstration's job finds every flight, notices every flaw, and writes the report."""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncline.model.events import journal_key, to_json
from syncline.pipeline import flights
from tests.pipeline import journal_story as told

T0 = 1_357_035_300_000


def _flights(count: int) -> Iterator[dict]:
    """Yield made-up flights that keep the contract."""
    sequences: defaultdict[str, int] = defaultdict(int)
    for row in range(count):
        carrier = ("UA", "B6", "DL")[row % 7 % 3]
        delay = None if row % 40 == 0 else row % 25 - 5
        yield {
            "row": row,
            "sequence": sequences[carrier],
            "carrier": carrier,
            "hour": 6 + row % 12,
            "departure_delay_min": delay,
        }
        sequences[carrier] += 1


def test_flight_records_keep_their_contract() -> None:
    """Key, time and fields are as documented, for the real data set's first flights."""
    first = list(itertools.islice(flights.flight_records(), 500))

    values = [json.loads(record.value) for record in first]
    assert [value["row"] for value in values] == list(range(500))
    assert all(record.key.decode() == value["carrier"] for record, value in zip(first, values, strict=True))
    assert all(tuple(value) == tuple(flights.FLIGHT_FIELDS) for value in values)
    # United 1545 was scheduled for 5:15 in New York on the first of January: 10:15 UTC.
    assert (values[0]["carrier"], values[0]["flight"], first[0].timestamp_ms) == ("UA", 1545, 1_357_035_300_000)
    by_carrier = defaultdict(list)
    for value in values:
        by_carrier[value["carrier"]].append(value["sequence"])
    assert all(sequences == list(range(len(sequences))) for sequences in by_carrier.values())


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("flaw", "failing"),
    [
        pytest.param("none", [], id="sound"),
        pytest.param("lost", ["Nothing is lost.", "Order is kept."], id="one is lost"),
        pytest.param("twice", ["Nothing is duplicated.", "Order is kept."], id="one is there twice"),
        pytest.param("swapped", ["Order is kept."], id="two are swapped"),
        pytest.param("scattered", ["Order is kept."], id="a key in two partitions"),
        pytest.param("foreign", ["Every record is valid."], id="a key is wrong"),
    ],
)
def test_checks_notice(spark, flaw: str, failing: list[str]) -> None:
    """Each kind of damage fails the checks that are about it, and no other."""
    from syncline.pipeline.jobs import flights_report

    placed = [(flight["carrier"], 0, offset, flight) for offset, flight in enumerate(_flights(60))]
    match flaw:
        case "lost":
            del placed[20]
        case "twice":
            placed.append((placed[20][0], 0, 99, placed[20][3]))
        case "swapped":
            one, other = (n for n in (0, 7))
            assert placed[one][0] == placed[other][0], "two flights of one carrier"
            placed[one], placed[other] = (
                (*placed[one][:3], placed[other][3]),
                (*placed[other][:3], placed[one][3]),
            )
        case "scattered":
            last = max(n for n, row in enumerate(placed) if row[0] == "UA")
            placed[last] = ("UA", 1, 0, placed[last][3])
        case "foreign":
            placed[5] = (placed[5][0], 0, 5, {**placed[5][3], "carrier": "??"})
    rows = [
        (key, partition, offset, T0 + offset, *(flight[name] for name in flights_report._READ))
        for key, partition, offset, flight in placed
    ]
    schema = f"key string, partition int, offset long, departure_ms long, {flights_report._SCHEMA}"

    tallies = flights_report.flight_tallies(spark.createDataFrame(rows, schema)).toArrow().to_pylist()
    checks = flights_report.checks(flights_report.flights_integrity(tallies), 60)

    assert [check.claim for check in checks if not check.holds] == failing


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_run_reads_topic_and_journal_and_writes_the_report(spark, broker, tmp_path: Path) -> None:
    """From the brokers to a page: all checks hold, faults and elections are on it, eleven lines sum it up."""
    from syncline.pipeline.jobs import flights_report

    topic, journal = broker.topic(partitions=3), broker.topic(partitions=2)
    made = list(_flights(600))
    broker.produce(topic, [(0, f["carrier"].encode(), json.dumps(f).encode(), T0 + f["row"], ()) for f in made])
    events = [(0, journal_key(event), to_json(event), event.ts_ms, ()) for event in told.story(topic)]
    broker.produce(journal, events, codec="zstd")
    steps: list[str] = []

    summary = flights_report.run(
        broker.bootstrap, topic, journal, tmp_path / "out" / "report.html", expected_rows=600, progress=steps.append
    )

    page, lines = (tmp_path / "out" / "report.html").read_text(encoding="utf-8"), summary.lines
    assert summary.is_complete
    assert len(summary.lines) == 11
    assert "600 flights read back" in summary.lines[0]
    assert "Faults injected: kill broker 2, pause broker 3" in summary.lines
    assert len(steps) == 6, "three steps, and what each of them took"
    assert all(" s of CPU time" in step or "ms, " in step for step in steps[1::2])
    assert "All 600 records arrived exactly once and in order" in page
    assert page.count("<svg") == 5, "four pictures, and the last one for small screens, too"
    assert summary.facts.replica_lag_time_max_ms == told.LAG_MAX_MS
    assert len(summary.facts.leader_changes) == 2
    assert len({each.at_ms for each in summary.facts.group_lag}) == told.SECONDS - 2, "all but an incomplete sample"
    assert any("when broker 2 was killed, it was up to 6,500 records, 1.3 MB and 13.0 s" in each for each in lines)
    assert sum(cell.flight_count for cell in summary.facts.cells) == 600


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_rehearsal_needs_nothing_but_a_journal_and_leaves_the_session_as_it_was(spark, broker) -> None:
    """The demonstration rehearses as soon as Spark runs, when the journal may be as good as empty."""
    from syncline.pipeline.jobs import flights_report

    journal = broker.topic()
    before = {name: spark.conf.get(name) for name in flights_report._FOR_THOUSANDS_OF_ROWS}

    flights_report.rehearse(spark, broker.bootstrap, journal)

    assert {name: spark.conf.get(name) for name in flights_report._FOR_THOUSANDS_OF_ROWS} == before
