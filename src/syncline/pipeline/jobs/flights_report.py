"""The demonstration's job: read the flights and the journal back from the brokers, check them, draw the report.

It does not trust the producer: it checks from a consumer's reads whether every record exists once and in order. It
counts records by their `row`, which is unique, and judges order by `sequence` along the offsets of each key
(`syncline.pipeline.flights` defines both). The journal's tables come from the same brokers.

Units: instants Unix milliseconds, delays minutes, durations milliseconds.
"""

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- the name that everyone who reads Spark code knows

from syncline.pictures.labels import seconds
from syncline.pipeline import tables
from syncline.pipeline.flights import CARRIER_NAMES, FLIGHT_COUNT, FLIGHT_FIELDS
from syncline.pipeline.processor_time import of_tree
from syncline.pipeline.report import words
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
from syncline.pipeline.session import spark_session

# Only the fields that the job uses: Spark's JSON reader skips the others at a third of the cost.
_READ: Final = ("row", "sequence", "carrier", "hour", "departure_delay_min")
_SCHEMA: Final = ", ".join(f"{name} {FLIGHT_FIELDS[name]}" for name in _READ)

_FLIGHT_COLUMNS: Final = "key binary, value binary, partition int, offset long, timestamp timestamp"
_JOURNAL_COLUMNS: Final = "partition int, offset long, value binary"

_FOR_THOUSANDS_OF_ROWS: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_CELL: Final = ("records", "departed", "delay_sum_min")

Fact = TypeVar("Fact")


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of the job: whether all checks hold, where the report is, and eleven lines for a terminal."""

    is_complete: bool
    report: Path
    facts: Facts
    lines: tuple[str, ...]


def run(
    bootstrap: str,
    topic: str,
    journal_topic: str,
    out_path: Path | str,
    expected_rows: int = FLIGHT_COUNT,
    *,
    session: SparkSession | None = None,
    progress: Callable[[str], None] | None = None,
) -> Summary:
    """Return the summary after writing the report to `out_path`.

    The job calls `progress` with a few words as each step begins, and with the time of the step before. It uses
    `session` or the running one and leaves it running; otherwise it makes one and stops it. A failed check is in the
    summary, not an exception.
    """
    steps = Steps(progress or (lambda _: None))
    if session is not None and (spent_s := _processor_time_of_spark_s()) > 0:
        # Of this process, this thread: others may have done other work.
        steps.tell(f"Spark is ready: {spent_s + time.thread_time():.1f} s of CPU time")
    with contextlib.ExitStack() as stack:
        running = session or SparkSession.getActiveSession()
        if running is None:
            steps.begin("starting Spark")
            running = stack.enter_context(started())
        facts = gather(running, bootstrap, topic, journal_topic, expected_rows=expected_rows, say=steps.begin)
    steps.begin("drawing the report")
    report = Path(out_path)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(render(facts), encoding="utf-8")
    steps.end()
    is_complete = all(check.holds for check in facts.checks)
    return Summary(is_complete, report, facts, summary_lines(facts, report))


@contextlib.contextmanager
def started() -> Iterator[SparkSession]:
    """Give a session for this job, and stop it at the end."""
    session = spark_session(name="flights report")
    try:
        yield session
    finally:
        session.stop()


def rehearse(session: SparkSession, bootstrap: str, journal_topic: str) -> None:
    """Do the job once, with the journal in the place of both topics, which is short, and drop what it finds.

    Most of the job's time goes into classes, code and Python processes that are needed for the first time. A
    caller that waits for records anyway can have that done before.
    """
    gather(session, bootstrap, journal_topic, journal_topic, expected_rows=0)


class Steps:
    """Reports what each step of a job takes: time, and CPU time of this process, the JVM and their workers."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.tell = say
        self._began: tuple[str, float, float] | None = None

    def begin(self, text: str) -> None:
        """End the previous step, and report the next."""
        self.end()
        self.tell(text)
        self._began = (text, time.monotonic(), _processor_time_s())

    def end(self) -> None:
        """Report the time of the step."""
        if self._began is None:
            return
        text, began_s, before_s = self._began
        took = f"{text}: {seconds(round((time.monotonic() - began_s) * 1000))}"
        spent_s = _processor_time_s() - before_s
        self.tell(f"{took}, {spent_s:.1f} s of CPU time" if before_s else took)
        self._began = None


def _processor_time_s() -> float:
    """Return the CPU time of this process and of Spark's, 0 where the machine does not report it."""
    spent_s = _processor_time_of_spark_s()
    return time.process_time() + spent_s if spent_s else 0.0


def _processor_time_of_spark_s() -> float:
    """Return the CPU time of the JVM and all that it started, 0 where the machine does not report it."""
    # PySpark has no public name for the process that it started.
    jvm = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    return (of_tree(jvm.pid) or 0.0) if jvm is not None else 0.0


def gather(
    session: SparkSession,
    bootstrap: str,
    topic: str,
    journal_topic: str,
    *,
    expected_rows: int,
    say: Callable[[str], None] = lambda _: None,
) -> Facts:
    """Return everything that the report shows, read from the brokers."""
    began = time.monotonic()
    say(f"reading {topic} and checking every record")
    tallies = _rows(flight_tallies(read_flights(session, bootstrap, topic)))
    integrity = flights_integrity(tallies)
    say(f"reading {journal_topic} and building its tables")
    with _settings_for_thousands_of_rows(session):
        # In one partition, so that nothing has to be exchanged between tasks.
        events = tables.journal(_read(session, bootstrap, journal_topic, _JOURNAL_COLUMNS)).coalesce(1).cache()
        span = journal_span(events)
        replication = replication_facts(events, topic)
        events.unpersist()
    return Facts(
        topic=topic,
        bootstrap=bootstrap,
        made_at_ms=time.time_ns() // 1_000_000,
        took_ms=round((time.monotonic() - began) * 1000),
        record_count=integrity["records"],
        partition_count=integrity["partitions"],
        first_departure_ms=integrity["first_ms"] or 0,
        last_departure_ms=integrity["last_ms"] or 0,
        cancelled_count=integrity["cancelled"],
        checks=checks(integrity, expected_rows),
        cells=flight_cells(tallies),
        carrier_names=CARRIER_NAMES,
        **span,
        **replication,
    )


@contextlib.contextmanager
def _settings_for_thousands_of_rows(session: SparkSession) -> Iterator[None]:
    """Let queries run as they are planned, without code that is compiled for them and joins that are jobs of their own.

    That is what the journal's queries would spend most of their time on.
    """
    kept = {name: session.conf.get(name) for name in _FOR_THOUSANDS_OF_ROWS}
    try:
        for name, value in _FOR_THOUSANDS_OF_ROWS.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, before in kept.items():
            session.conf.set(name, before)


def read_flights(session: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Return the flights as rows, with their places in the topic."""
    records = _read(session, bootstrap, topic, _FLIGHT_COLUMNS)
    return records.select(
        F.col("key").cast("string").alias("key"),
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("departure_ms"),
        F.from_json(F.col("value").cast("string"), _SCHEMA).alias("flight"),
    ).select("key", "partition", "offset", "departure_ms", "flight.*")


def flight_tallies(flights: DataFrame) -> DataFrame:
    """Return counts by key, partition, carrier and scheduled local hour: what all checks and the map are sums of.

    One pass over the flights, and some hundred rows. `rows` counts each row number once in all the tallies, so that
    their sum is the number of different rows.
    """
    along = Window.partitionBy("key", "partition").orderBy("offset")
    same = Window.partitionBy("row").orderBy("row", "partition", "offset")
    placed = flights.withColumn("before", F.lag("sequence").over(along))
    numbered = placed.withColumn("copy", F.row_number().over(same))
    return numbered.groupBy("key", "partition", "carrier", "hour").agg(
        F.count("*").alias("records"),
        F.count_if((F.col("copy") == 1) & F.col("row").isNotNull()).alias("rows"),
        F.min("row").alias("row_min"),
        F.max("row").alias("row_max"),
        F.count_if(F.col("row").isNull() | (F.col("key") != F.col("carrier"))).alias("malformed"),
        F.count_if(F.col("sequence") != F.coalesce(F.col("before") + 1, F.lit(0))).alias("out_of_order"),
        F.count("departure_delay_min").alias("departed"),
        F.coalesce(F.sum("departure_delay_min"), F.lit(0)).alias("delay_sum_min"),
        F.min("departure_ms").alias("first_ms"),
        F.max("departure_ms").alias("last_ms"),
    )


def flights_integrity(tallies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return counts that show whether every flight is there once, and in order; `flight_tallies` has the rows."""

    def total(name: str) -> int:
        return sum(tally[name] for tally in tallies)

    def known(name: str) -> list[int]:
        return [tally[name] for tally in tallies if tally[name] is not None]

    places = {(tally["key"], tally["partition"]) for tally in tallies if tally["key"] is not None}
    return {
        **{name: total(name) for name in ("records", "rows", "malformed", "out_of_order")},
        "row_min": min(known("row_min"), default=None),
        "row_max": max(known("row_max"), default=None),
        "first_ms": min(known("first_ms"), default=None),
        "last_ms": max(known("last_ms"), default=None),
        "keys": len({key for key, _ in places}),
        "key_places": len(places),
        "partitions": len(set(known("partition"))),
        "cancelled": total("records") - total("departed"),
    }


def checks(found: Mapping[str, Any], expected_rows: int) -> tuple[Check, ...]:
    """Return the checks of the topic, each with its result."""
    records, rows = found["records"], found["rows"]
    numbered = expected_rows == 0 or (found["row_min"], found["row_max"]) == (0, expected_rows - 1)
    return (
        Check(
            "Nothing is lost.",
            holds=rows == expected_rows and numbered,
            detail=f"{rows:,} of {expected_rows:,} flights were found, by their row numbers.",
        ),
        Check(
            "Nothing is duplicated.",
            holds=records == rows,
            detail=f"{records:,} records hold {rows:,} different flights.",
        ),
        Check(
            "Order is kept.",
            holds=found["out_of_order"] == 0 and found["key_places"] == found["keys"],
            detail=f"Along the offsets of {found['keys']} keys, {found['out_of_order']} sequence numbers do not follow "
            f"the one before; each key is in one partition"
            f"{'' if found['key_places'] == found['keys'] else ' — or should'}.",
        ),
        Check(
            "Every record is valid.",
            holds=found["malformed"] == 0,
            detail=f"{found['malformed']} records cannot be read or have another carrier's key.",
        ),
    )


def flight_cells(tallies: Sequence[Mapping[str, Any]]) -> tuple[FlightCell, ...]:
    """Return the flights by carrier and scheduled local hour."""
    cells: defaultdict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for tally in tallies:
        if tally["carrier"] is not None and tally["hour"] is not None:
            cells[tally["carrier"], tally["hour"]].update({name: tally[name] for name in _CELL})
    return tuple(
        FlightCell(carrier, hour, cell["records"], cell["departed"], cell["delay_sum_min"])
        for (carrier, hour), cell in sorted(cells.items())
    )


def journal_span(events: DataFrame) -> dict[str, Any]:
    """Return the journal's first and last instant and its size, by the names of the fields in `Facts`."""
    # This job is a consumer, too: what brokers record about its reads comes after everything shown.
    told_ms = F.when(F.col("type") != "fetch_lag", F.col("ts_ms"))
    (span,) = _rows(
        events.agg(F.min(told_ms).alias("start_ms"), F.max(told_ms).alias("end_ms"), F.count("*").alias("count"))
    )
    return {
        "journal_start_ms": span["start_ms"] or 0,
        "journal_end_ms": span["end_ms"] or 0,
        "journal_event_count": span["count"],
    }


def replication_facts(events: DataFrame, topic: str) -> dict[str, Any]:
    """Return what the journal records about a topic, by the names of the fields in `Facts`."""
    about = events.where((F.col("topic") == topic) | F.col("topic").isNull())
    timeline = tables.isr_timeline(about).select(
        "partition",
        "replica",
        F.unix_millis("started_at").alias("start_ms"),
        F.unix_millis("ended_at").alias("end_ms"),
        "in_isr",
        "is_leader",
        "leader",
        "leader_epoch",
        "cause",
        "rule",
        "evidence",
    )
    changes = tables.elections(about).select(
        F.unix_millis("at").alias("at_ms"),
        "partition",
        F.col("leader_before").alias("before"),
        F.col("leader_after").alias("after"),
        "leader_epoch",
        "reason",
        "clean",
    )
    samples = tables.follower_lag(about).select(
        F.unix_millis("at").alias("at_ms"), "partition", "follower", "lag_records", "lag_ms", "in_sync"
    )
    # A sum over some of the partitions would look like a group that has caught up.
    behind = (
        tables.group_lag(about)
        .where((F.col("topic") == topic) & (F.col("missing") == 0))
        .select(F.unix_millis("at").alias("at_ms"), "group", "partition", "lag_records", "lag_bytes", "staleness_ms")
    )
    injected = tables.faults(about).select(
        "kind",
        "target",
        F.unix_millis("started_at").alias("start_ms"),
        F.unix_millis("ended_at").alias("end_ms"),
        "note",
    )
    limit = F.max(F.get_json_object("evidence", "$.replica_lag_time_max_ms").cast("int")).alias("limit")
    limits = _rows(about.where("type = 'isr_change'").agg(limit))
    return {
        "intervals": _sorted(IsrInterval, timeline, "partition", "replica", "start_ms"),
        "leader_changes": _sorted(LeaderChange, changes, "at_ms", "partition"),
        "lag": _sorted(LagSample, samples, "at_ms", "partition", "follower"),
        "group_lag": _sorted(GroupLagSample, behind, "at_ms", "group", "partition"),
        "faults": _sorted(FaultMark, injected, "start_ms"),
        "replica_lag_time_max_ms": limits[0]["limit"] if limits else None,
    }


def summary_lines(facts: Facts, report: Path) -> tuple[str, ...]:
    """Return the eleven lines that the demonstration prints."""
    faults = ", ".join(fault.label for fault in facts.faults) or "none"
    outages = [item for item in facts.intervals if not item.in_isr]
    worst = max((sample.lag_ms or 0 for sample in facts.lag), default=0)
    marks = [f"{'ok ' if check.holds else 'BAD'} {check.claim} {check.detail}" for check in facts.checks]
    longest = max(((item.end_ms or facts.journal_end_ms) - item.start_ms for item in outages), default=0)
    return (
        f"{facts.record_count:,} flights read back from {facts.partition_count} partitions in {seconds(facts.took_ms)}",
        *marks,
        f"Mean departure delay {words.mean_delay(facts.cells):.1f} min; {facts.cancelled_count:,} flights never left",
        f"Faults injected: {faults}",
        (
            f"Replicas left the ISR {words.times(words.episodes(facts))}, for at most {seconds(longest)}; "
            f"{sum(item.end_ms is None for item in outages)} still out"
        ),
        f"Leadership moved {words.times(len(facts.leader_changes))}; largest follower lag {seconds(worst)}",
        words.group_lag(facts),
        f"Report: {report}",
    )


def _read(session: SparkSession, bootstrap: str, topic: str, schema: str) -> DataFrame:
    reader = session.read.format("syncline").schema(schema)
    return reader.option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Return a small table as dictionaries, through Arrow: many times faster than collecting Spark's rows."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def _sorted(make: Callable[..., Fact], frame: DataFrame, *order: str) -> tuple[Fact, ...]:
    """Return a table's rows as facts, sorted here: Spark would look at all of them twice."""
    return tuple(make(**row) for row in sorted(_rows(frame), key=lambda row: [row[name] for name in order]))
