"""Journal tables: the history of a cluster as tables to query.

Each table is a pure function from DataFrame to DataFrame, so it runs on a batch, on a stream's micro-batch or on the
rows of a test. `journal` turns records of the journal topic into events; the others take those.

`isr_timeline` is the hard one. The journal holds changes, and a timeline shows states. Three sources name the ISR of a
partition: an election and an ISR change name the whole ISR after them, and the first progress samples show it where
the journal begins later than the partition. These states, in order of time, hold until the next one; cut into one
question per replica ("in or out, under which leader?"), with equal neighbours merged, they are intervals. An ISR
change does not name the leader, but its leader epoch does.

A name may be given to one topic after another. Each deletion ends a *life* of the name: what happened until then is
kept apart from what happened after it, and only the first life may have begun before the journal.

A journal may lack events: brokers drop some rather than delay the data. So the leaders' samples are a second source. A
sample that contradicts the last reported state, under the same leader, counts as a new state (`observed`), but only two
sample intervals later: a change by the controller takes a moment to reach the leader.

Instants are timestamps in UTC, `ended_at` null while the interval lasts; durations are milliseconds; offsets are
counts of records; bytes are those of logs; unknown numbers are null here and -1 in the journal.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 -- the name that everyone who reads Spark code knows

_PARTITION: Final = ("topic", "partition")
# One partition of one life of its topic: a topic that was deleted and created again has another life.
_LIVED: Final = (*_PARTITION, "life")
_NOT_KNOWN: Final = -1
_SAMPLE_INTERVAL_MS_MIN: Final = 500

# Every field of every event, once. Evidence stays JSON text: its content differs from rule to rule.
EVENT_SCHEMA: Final = """
    v int, type string, ts_ms long, broker int, topic string, partition int, leader_epoch int, partition_epoch int,
    change string, outcome string, before array<int>, after array<int>, rule string, evidence string,
    leader_before int, leader_after int, isr array<int>, isr_before array<int>, reason string, clean boolean,
    leader int, log_end_before long, log_end_after long,
    follower int, log_end long, follower_log_end long, high_watermark long,
    lag_records long, lag_ms long, lag_bytes long, in_sync boolean, interval_ms long,
    inflow_records long, inflow_bytes long, since_ms long, lasted_ms long,
    subject int, state string, kind string, target string, phase string, note string,
    fetches long, read_bytes long, unknown_age_bytes long,
    behind_bytes array<struct<up_to: long, fetches: long, bytes: long>>,
    event_ms array<struct<up_to: long, fetches: long, bytes: long>>,
    age_ms array<struct<up_to: long, fetches: long, bytes: long>>,
    distance_bytes array<struct<up_to: long, fetches: long, bytes: long>>,
    `group` string, status string, status_before string, status_after string, findings string,
    topic_id string, members int, partitions int, missing int, staleness_ms long, event_lag_ms long, lost long,
    rows array<struct<topic: string, partition: int, committed: long, `end`: long, lag_bytes: long,
        staleness_ms: long, event_lag_ms: long, lost: long>>
"""
# This share of the bytes read in an interval is at most as far behind as the quantile.
_QUANTILES: Final = {"p50": 0.5, "p99": 0.99}
_HISTOGRAMS: Final = ("behind_bytes", "event_ms", "age_ms", "distance_bytes")


def journal(records: DataFrame) -> DataFrame:
    """Return events from records of the journal topic, which need the columns `partition`, `offset` and `value`.

    Records without an event are dropped. An event that a broker's retry appended twice occurs twice here; the
    tables below count it once.
    """
    parsed = records.select(
        F.col("partition").alias("journal_partition"),
        F.col("offset").alias("journal_offset"),
        F.from_json(F.col("value").cast("string"), EVENT_SCHEMA).alias("event"),
    )
    return parsed.where("event.type is not null and event.ts_ms is not null").select(
        "event.*", F.timestamp_millis("event.ts_ms").alias("at"), "journal_partition", "journal_offset"
    )


def isr_timeline(events: DataFrame) -> DataFrame:
    """Return when each replica was in the ISR, under which leader, and what began each interval.

    Columns: topic, partition, replica, started_at, ended_at, duration_ms (up to the journal's end while it lasts),
    in_isr, leader, leader_epoch, is_leader, cause (election, isr_change, observed), rule, evidence. The last interval
    of a topic that was deleted ends with it; which topics were deleted is read from the events at once.
    """
    journal_end = F.broadcast(events.agg(F.max("ts_ms").alias("journal_end_ms")))
    topic_changes = F.broadcast(_topic_changes(events))
    events = _with_lives(events, topic_changes)
    reported = _states(events).join(_replicas(events), [*_LIVED])
    reported = reported.withColumn("in_isr", F.array_contains("isr", F.col("replica"))).drop("isr")
    in_time = Window.partitionBy(*_LIVED, "replica").orderBy("ts_ms", "leader_epoch", "journal_offset")
    known = _with_witnesses(reported, events, in_time)

    def differs(name: str) -> Column:
        return ~F.col(name).eqNullSafe(F.lag(name).over(in_time))

    changed = differs("in_isr") | differs("leader") | differs("leader_epoch") | (F.row_number().over(in_time) == 1)
    begun = known.withColumn("begins", changed).where("begins")
    return (
        begun.withColumn("next_ms", F.lead("ts_ms").over(in_time))
        .join(topic_changes, "topic", "left")
        .withColumn("deletions", F.filter("changes", lambda each: each["is_end"]))
        .withColumn("end_ms", F.coalesce("next_ms", F.get("deletions", F.col("life"))["moment"]["ts_ms"]))
        .crossJoin(journal_end)
        .select(
            *_PARTITION,
            "replica",
            F.timestamp_millis("ts_ms").alias("started_at"),
            F.timestamp_millis("end_ms").alias("ended_at"),
            (F.coalesce("end_ms", "journal_end_ms") - F.col("ts_ms")).alias("duration_ms"),
            "in_isr",
            "leader",
            "leader_epoch",
            F.col("leader").eqNullSafe(F.col("replica")).alias("is_leader"),
            "cause",
            "rule",
            "evidence",
        )
    )


def follower_lag(events: DataFrame) -> DataFrame:
    """Return how far each follower was behind its leader, one row per sample.

    Columns: at, topic, partition, follower, leader, leader_epoch, log_end, follower_log_end, high_watermark,
    lag_records, lag_ms, lag_bytes, in_sync, interval_ms.
    """
    samples = events.where("type = 'follower_progress'").dropDuplicates(["ts_ms", "broker", *_PARTITION, "follower"])
    return samples.select(
        "at",
        *_PARTITION,
        "follower",
        F.col("broker").alias("leader"),
        "leader_epoch",
        "log_end",
        "follower_log_end",
        "high_watermark",
        *(_known(name).alias(name) for name in ("lag_records", "lag_ms", "lag_bytes")),
        "in_sync",
        _known("interval_ms").alias("interval_ms"),
    )


def fetch_lag(events: DataFrame) -> DataFrame:
    """Return how far behind consumers read, one row per sample of a broker and a topic ("": topics beyond a bound).

    Columns: at, broker, topic, interval_ms, fetches, read_bytes, unknown_age_bytes; of `behind_bytes`, `event_ms`,
    `age_ms` and `distance_bytes` each the histogram, whose buckets can be added, and `_p50`, `_p99`: the bound of the
    bucket that half of the bytes, or 99 %, do not exceed; null where that is above all bounds or nothing is known.
    """
    samples = events.where("type = 'fetch_lag'").dropDuplicates(["ts_ms", "broker", "topic"])
    quantiles = [
        _quantile(name, share).alias(f"{name}_{suffix}") for name in _HISTOGRAMS for suffix, share in _QUANTILES.items()
    ]
    return samples.select(
        *("at", "broker", "topic", "interval_ms", "fetches", "read_bytes", "unknown_age_bytes"),
        *quantiles,
        *_HISTOGRAMS,
    )


def group_lag(events: DataFrame) -> DataFrame:
    """Return how far each group was behind in each partition, one row per sample and partition.

    Columns: at, group, topic, partition, committed, end_offset, lag_records, lag_bytes, staleness_ms, event_lag_ms,
    lost; of the whole group: coordinator, state, members, status, partitions, missing (leaders that did not answer),
    interval_ms. A sample names the 100 partitions with the largest lag at most. Between two samples nothing moved.
    """
    samples = events.where("type = 'group_lag'").dropDuplicates(["ts_ms", "broker", "group"])
    whole = ("state", "members", "status", "partitions", "missing", "interval_ms")
    rows = samples.select("at", "group", F.col("broker").alias("coordinator"), *whole, F.explode("rows").alias("row"))
    lag = F.greatest(F.col("row.end") - F.col("row.committed"), F.lit(0))
    return rows.select(
        *("at", "group", "row.topic", "row.partition", "row.committed"),
        F.col("row.end").alias("end_offset"),
        lag.alias("lag_records"),
        *(_known(f"row.{name}").alias(name) for name in ("lag_bytes", "staleness_ms", "event_lag_ms")),
        "row.lost",
        "coordinator",
        *whole,
    )


def faults(events: DataFrame) -> DataFrame:
    """Return injected faults as intervals: kind, target, started_at, ended_at (null while it lasts), note."""
    # Two faults of one kind and target may overlap: the notes of brokers begin with the id. Pauses and kills have none.
    marks = (
        events.where("type = 'fault'")
        .withColumn("fault_id", F.regexp_extract("note", r"^fault ([^,:]+)", 1))
        .dropDuplicates(["ts_ms", "kind", "target", "phase", "fault_id"])
    )
    in_time = Window.partitionBy("kind", "target", "fault_id").orderBy(
        "ts_ms", F.when(F.col("phase") == "begin", 1).otherwise(0)
    )
    paired = marks.withColumn("ended_at", F.when(F.lead("phase").over(in_time) == "end", F.lead("at").over(in_time)))
    return paired.where("phase = 'begin'").select("kind", "target", F.col("at").alias("started_at"), "ended_at", "note")


def observations(events: DataFrame) -> DataFrame:
    """Return the observations of brokers, one row each, as last reported.

    Columns: broker (the writer), kind, subject, topic, partition (null if it is about none), started_at, lasted_ms,
    is_over, evidence.
    """
    name = ("broker", "kind", "subject", *_PARTITION, "since_ms")
    reported = events.where("type = 'observation'")
    return (
        reported.groupBy(*name)
        .agg(
            F.max("lasted_ms").alias("lasted_ms"),
            F.max(F.col("phase") == "end").alias("is_over"),
            F.max_by("evidence", "lasted_ms").alias("evidence"),
        )
        .select(
            *("broker", "kind", "subject"),
            F.when(F.col("topic") != "", F.col("topic")).alias("topic"),
            _known("partition").alias("partition"),
            F.timestamp_millis("since_ms").alias("started_at"),
            *("lasted_ms", "is_over", "evidence"),
        )
    )


def elections(events: DataFrame) -> DataFrame:
    """Return changes of leaders, without the first election of a new partition."""
    return (
        events.where("type = 'election' and leader_before <> leader_after and leader_before >= 0")
        .dropDuplicates(["ts_ms", *_PARTITION, "leader_epoch", "leader_after"])
        .select("at", *_PARTITION, "leader_before", "leader_after", "leader_epoch", "isr", "reason", "clean")
    )


def topics(events: DataFrame) -> DataFrame:
    """Return topics that were created or deleted, one row each.

    Columns: topic, topic_id, created_at (null: before the journal began), deleted_at (null: it exists), partitions.
    """

    def at(change: str) -> Column:
        return F.min(F.when(F.col("change") == change, F.col("at"))).alias(f"{change}_at")

    changes = events.where("type = 'topic_change'")
    return changes.groupBy("topic", "topic_id").agg(
        at("created"), at("deleted"), F.max("partitions").alias("partitions")
    )


def _topic_changes(events: DataFrame) -> DataFrame:
    """Return when topics that were deleted were created and deleted: an array of (moment, is_end), in order of time.

    They are few, and computed now: otherwise Spark would read all events again for each use.
    """
    change = F.struct(_moment().alias("moment"), (F.col("change") == "deleted").alias("is_end"))
    changes = events.where("type = 'topic_change' and change <> 'grown'").groupBy("topic")
    of_deleted = changes.agg(F.sort_array(F.collect_set(change)).alias("changes")).where(
        "exists(changes, each -> each.is_end)"
    )
    return events.sparkSession.createDataFrame(of_deleted.toArrow())


def _with_lives(events: DataFrame, topic_changes: DataFrame) -> DataFrame:
    """Return the events of topics with `life`: how often their topic had been deleted.

    What a leader reports after the deletion, because it did not know of it yet, or because its clock is ahead, is left
    out: a topic begins with elections.
    """
    lived = events.where("topic <> '' and type <> 'topic_change'").join(topic_changes, "topic", "left")
    return (
        lived.withColumn("earlier", F.filter("changes", lambda each: each["moment"] < _moment()))
        .where(
            "type not in ('follower_progress', 'isr_change') or not coalesce(try_element_at(earlier, -1).is_end, false)"
        )
        .withColumn("life", F.coalesce(F.array_size(F.filter("earlier", lambda each: each["is_end"])), F.lit(0)))
        .drop("earlier", "changes")
    )


def _moment() -> Column:
    return F.struct("ts_ms", "journal_offset")


def _known(name: str) -> Column:
    return F.when(F.col(name) > _NOT_KNOWN, F.col(name))


def _quantile(name: str, share: float) -> Column:
    """Return the bound of the first bucket up to which there is this share of the bytes."""
    buckets = F.col(name)
    total = F.aggregate(buckets, F.lit(0).cast("long"), lambda sum_, bucket: sum_ + bucket["bytes"])
    start = F.struct(F.lit(0).cast("long").alias("below"), F.lit(None).cast("long").alias("bound"))
    found = F.aggregate(
        buckets,
        start,
        lambda state, bucket: F.struct(
            (state["below"] + bucket["bytes"]).alias("below"),
            F.when((state["below"] < total * share) & (total > 0), bucket["up_to"])
            .otherwise(state["bound"])
            .alias("bound"),
        ),
        lambda state: state["bound"],
    )
    return F.when(found > _NOT_KNOWN, found)


def _with_witnesses(reported: DataFrame, events: DataFrame, in_time: WindowSpec) -> DataFrame:
    """Return the reported states of each replica, and the samples that are late enough after them to count."""
    seen = events.where("type = 'follower_progress'").select(
        "ts_ms",
        *_LIVED,
        "leader_epoch",
        "journal_offset",
        F.col("broker").alias("leader"),
        F.lit("observed").alias("cause"),
        F.lit("later samples").alias("rule"),
        F.lit(None).cast("string").alias("evidence"),
        F.col("follower").alias("replica"),
        F.col("in_sync").alias("in_isr"),
        F.greatest("interval_ms", F.lit(_SAMPLE_INTERVAL_MS_MIN)).alias("interval_ms"),
    )
    both = reported.unionByName(seen, allowMissingColumns=True)
    is_reported = F.col("interval_ms").isNull()
    last = F.last(F.when(is_reported, F.struct("ts_ms", "leader_epoch")), ignorenulls=True).over(in_time)
    is_late = F.col("ts_ms") - F.col("last.ts_ms") >= 2 * F.col("interval_ms")
    is_same_term = F.col("leader_epoch") == F.col("last.leader_epoch")
    return both.withColumn("last", last).where(is_reported | (is_late & is_same_term)).drop("last", "interval_ms")


def _states(events: DataFrame) -> DataFrame:
    """Return the ISR and leader of each partition from `ts_ms` on."""
    changes = events.where("type = 'isr_change' and outcome = 'committed'").select(
        "ts_ms",
        *_LIVED,
        "leader_epoch",
        "journal_offset",
        F.col("after").alias("isr"),
        F.lit(None).cast("int").alias("named_leader"),
        F.lit("isr_change").alias("cause"),
        "rule",
        "evidence",
    )
    elected = events.where("type = 'election'").select(
        "ts_ms",
        *_LIVED,
        "leader_epoch",
        "journal_offset",
        "isr",
        F.col("leader_after").alias("named_leader"),
        F.lit("election").alias("cause"),
        F.col("reason").alias("rule"),
        F.lit(None).cast("string").alias("evidence"),
    )
    reported = changes.unionByName(elected)
    states = reported.unionByName(_observed(events, reported))
    epochs = _leaders(events)
    return states.join(epochs, [*_LIVED, "leader_epoch"], "left").select(
        "ts_ms",
        *_LIVED,
        "leader_epoch",
        "journal_offset",
        "isr",
        F.coalesce("named_leader", "epoch_leader").alias("leader"),
        "cause",
        "rule",
        "evidence",
    )


def _observed(events: DataFrame, reported: DataFrame) -> DataFrame:
    """Return each partition's state by its first progress samples, where these precede all reported states."""
    first_reported = reported.groupBy(*_LIVED).agg(F.min("ts_ms").alias("reported_ms"))
    samples = events.where("type = 'follower_progress'").join(first_reported, [*_LIVED], "left")
    early = samples.where("reported_ms is null or ts_ms < reported_ms")
    firsts = early.groupBy(*_LIVED, "follower").agg(
        F.min("ts_ms").alias("ts_ms"), F.min_by(F.struct("broker", "leader_epoch", "in_sync"), "ts_ms").alias("first")
    )
    in_sync = F.collect_set(F.when(F.col("first.in_sync"), F.col("follower")))
    together = firsts.groupBy(*_LIVED).agg(
        F.min("ts_ms").alias("ts_ms"), F.min_by("first", "ts_ms").alias("first"), in_sync.alias("followers")
    )
    return together.select(
        "ts_ms",
        *_LIVED,
        F.col("first.leader_epoch").alias("leader_epoch"),
        F.lit(-1).cast("long").alias("journal_offset"),
        F.array_sort(F.array_union("followers", F.array("first.broker"))).alias("isr"),
        F.col("first.broker").alias("named_leader"),
        F.lit("observed").alias("cause"),
        F.lit("first samples").alias("rule"),
        F.lit(None).cast("string").alias("evidence"),
    )


def _leaders(events: DataFrame) -> DataFrame:
    """Return the leader of each partition in each leader epoch, by elections and by the leaders' own samples."""
    epoch = (*_LIVED, "leader_epoch")
    elected = events.where("type = 'election'").select(*epoch, F.col("leader_after").alias("leader_id"))
    sampled = events.where("type = 'follower_progress'").select(*epoch, F.col("broker").alias("leader_id"))
    return elected.unionByName(sampled).groupBy(*epoch).agg(F.max("leader_id").alias("epoch_leader"))


def _replicas(events: DataFrame) -> DataFrame:
    """Return every replica that the journal mentions, by partition."""
    sampler = F.when(F.col("type") == "follower_progress", F.col("broker"))
    named = ("before", "after", "isr", F.array("follower"), F.array("leader_after"), F.array(sampler))
    mentioned = F.flatten(F.array_compact(F.array(*named)))
    return (
        events.where("topic is not null")
        .select(*_LIVED, F.explode(mentioned).alias("replica"))
        .where("replica >= 0")
        .distinct()
    )
