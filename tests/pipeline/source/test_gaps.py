"""Rows for records that are gone: a table that says what it lacks, from real brokers, without and with Spark."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.errors import DataLossError, OptionError
from syncline.pipeline.source.data_loss import Gap, GapReason, gap_rows
from syncline.pipeline.source.options import SourceOptions
from syncline.pipeline.source.planning import whole_batch
from syncline.pipeline.source.reading import _Task, read
from syncline.pipeline.source.stream import Stream

SCHEMA = pa.schema(
    [
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("gap", pa.struct([("end", pa.int64()), ("reason", pa.string())])),
    ]
)


def _records(count: int, partition: int = 0):
    return [(partition, None, b"v", 1_600_000_000_000, ()) for _ in range(count)]


@pytest.fixture
def plan(bootstrap: str) -> Callable[..., Callable[[], list[dict[str, Any]]]]:
    """Return a function that plans a query with rows for gaps, and returns what reads its rows later."""

    def make(**given: str) -> Callable[[], list[dict[str, Any]]]:
        options = SourceOptions.parse({"bootstrap": bootstrap, "includeGaps": "true", **given}, streaming=False)
        with Cluster(options.client) as cluster:
            batch = whole_batch(cluster, options)
            known = cluster.whereabouts(item.place for item in batch.ranges)

        def rows() -> list[dict[str, Any]]:
            found = gap_rows(batch.gaps, SCHEMA).to_pylist()
            for part in read(options, SCHEMA, batch.ranges, known, batch.ids):
                found += part.to_pylist()
            return found

        return rows

    return make


def _gaps(rows: list[dict[str, Any]]) -> list[tuple[int, int | None, str]]:
    return [(row["offset"], row["gap"]["end"], row["gap"]["reason"]) for row in rows if row["gap"] is not None]


def test_row_of_a_gap_has_its_place_and_nothing_else() -> None:
    """The reason is one of few words; an end that nobody knows is null."""
    place = TopicPartition("flights", 2)
    rows = gap_rows(
        [Gap(place, 3, 7, GapReason.EXPIRED), Gap(place, 9, None, GapReason.TOPIC_CREATED_AGAIN)], SCHEMA
    ).to_pylist()

    assert rows[0] == {
        "value": None,
        "topic": "flights",
        "partition": 2,
        "offset": 3,
        "gap": {"end": 7, "reason": "expired"},
    }
    assert rows[1]["gap"] == {"end": None, "reason": "topic created again"}


@pytest.mark.process
def test_records_that_were_deleted_after_planning_are_a_row(broker, plan) -> None:
    """Those that are left follow; together they are what was planned."""
    topic = broker.topic()
    broker.produce(topic, _records(10))
    rows_of = plan(subscribe=topic)
    broker.delete_records(topic, 0, 6)
    rows = rows_of()

    assert _gaps(rows) == [(0, 6, "expired")]
    assert [row["offset"] for row in rows if row["gap"] is None] == [6, 7, 8, 9]


@pytest.mark.process
@pytest.mark.parametrize(
    ("places", "gaps", "kept"),
    [
        ({"startingOffsets": '{"%s": {"0": 2}}'}, [(2, 5, "expired")], [5, 6, 7, 8, 9]),
        ({"startingOffsets": '{"%s": {"0": 1}}', "endingOffsets": '{"%s": {"0": 4}}'}, [(1, 4, "expired")], []),
        ({"startingOffsets": '{"%s": {"0": 8}}', "endingOffsets": '{"%s": {"0": 12}}'}, [(10, 12, "cut")], [8, 9]),
    ],
)
def test_offsets_outside_of_the_log_are_rows(broker, plan, places, gaps, kept) -> None:
    """What the options name, and the log does not hold."""
    topic = broker.topic()
    broker.produce(topic, _records(10))
    broker.delete_records(topic, 0, 5)
    rows = plan(subscribe=topic, **{name: text % topic for name, text in places.items()})()

    assert _gaps(rows) == gaps
    assert [row["offset"] for row in rows if row["gap"] is None] == kept


@pytest.mark.process
@pytest.mark.parametrize(
    ("places", "sentence"),
    [
        pytest.param(
            {"startingOffsets": '{"%s": {"0": 50}}'},
            "startingOffsets names offset 50 of .*-0, which holds the offsets from 5 below 10",
            id="start above the log",
        ),
        pytest.param(
            {"endingOffsets": '{"%s": {"0": 3}}'},
            "endingOffsets names offset 3 of .*-0, which holds the offsets from 5 below 10",
            id="end below the log",
        ),
    ],
)
def test_one_place_outside_of_the_log_is_loss_and_no_contradiction(
    broker, bootstrap: str, plan, places, sentence: str
) -> None:
    """The other end is where the log is: the user wrote no order of the two that could be wrong."""
    topic = broker.topic()
    broker.produce(topic, _records(10))
    broker.delete_records(topic, 0, 5)
    given = {"subscribe": topic, **{name: text % topic for name, text in places.items()}}
    options = SourceOptions.parse({"bootstrap": bootstrap, **given}, streaming=False)
    with Cluster(options.client) as cluster, pytest.raises(DataLossError, match=sentence):
        whole_batch(cluster, options)

    assert plan(**given)() == []


@pytest.mark.process
def test_stream_has_a_row_for_what_it_had_not_read_of_a_topic_that_was_created_again(
    broker, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows where the old one ended. The same batch, planned again, has the same row."""
    monkeypatch.setattr("syncline.pipeline.source.presence._LATE_METADATA_MS_MAX", 200)
    topic = broker.topic()
    broker.produce(topic, _records(4))
    given = {"bootstrap": bootstrap, "subscribe": topic, "startingOffsets": "earliest", "includeGaps": "true"}
    options = SourceOptions.parse(given, streaming=True)
    with Cluster(options.client) as cluster:
        query = Stream(options, cluster)
        first = query.latest(query.initial(), everything=True)
        broker.recreate(topic)
        broker.produce(topic, _records(2))
        second = query.latest(first, everything=True)

        wanted = (Gap(TopicPartition(topic, 0), 4, None, GapReason.TOPIC_CREATED_AGAIN),)
        assert query.batch(first, second).gaps == wanted
        assert Stream(options, cluster).batch(first, second).gaps == wanted


@pytest.mark.process
def test_stream_has_a_row_for_what_expired_before_it_started(broker, bootstrap: str) -> None:
    """Guards: starting offsets below the log were moved into it, and no row said so."""
    topic = broker.topic()
    broker.produce(topic, _records(10))
    broker.delete_records(topic, 0, 6)
    starts = f'{{"{topic}": {{"0": 2}}}}'
    given = {"bootstrap": bootstrap, "subscribe": topic, "startingOffsets": starts, "includeGaps": "true"}
    options = SourceOptions.parse(given, streaming=True)
    with Cluster(options.client) as cluster:
        query = Stream(options, cluster)
        first = query.initial()
        batch = query.batch(first, query.latest(first, everything=True))
        known = cluster.whereabouts(item.place for item in batch.ranges)
    rows = [row for part in read(options, SCHEMA, batch.ranges, known, batch.ids) for row in part.to_pylist()]

    assert _gaps(rows) == [(2, 6, "expired")]
    assert [row["offset"] for row in rows if row["gap"] is None] == [6, 7, 8, 9]


@pytest.mark.process
def test_rows_that_are_dropped_with_their_topic_are_in_its_gap(
    broker, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards: one answer has rows of a partition, and shows by another one that the topic was created again."""
    monkeypatch.setattr("syncline.pipeline.client.retrying._LATE_METADATA_MS_MAX", 200)
    topic = f"{broker.topic()}-placed"
    # Both partitions on the same broker, before and after, so that one answer has both.
    broker.create_on_first_broker(topic, partitions=2)
    broker.produce(topic, _records(10) + _records(10, partition=1))
    given = {"bootstrap": bootstrap, "subscribe": topic, "includeGaps": "true"}
    options = SourceOptions.parse(given, streaming=False)
    with Cluster(options.client) as cluster:
        batch = whole_batch(cluster, options)
        known = cluster.whereabouts(item.place for item in batch.ranges)
    with Cluster.known(options.client, known, batch.ids) as cluster:
        task = _Task(cluster, options, batch.ranges)
        task.confirm()
        broker.delete(topic)
        broker.create_on_first_broker(topic, partitions=2)
        broker.produce(topic, _records(10))
        yielded = [arrived for answer in task.answers() for arrived in answer]

    assert yielded == []
    assert [(*gap.place, gap.start, gap.end, gap.reason.value) for gap in task.gaps] == [
        (topic, 0, 0, 10, "topic gone"),
        (topic, 1, 0, 10, "topic gone"),
    ]


@pytest.mark.process
@pytest.mark.spark
def test_dataframe_tells_gaps_from_records(broker, load) -> None:
    """Through Spark: the default columns and gap."""
    topic = broker.topic(partitions=2)
    broker.produce(topic, _records(6) + _records(3, partition=1))
    broker.delete_records(topic, 0, 4)
    starts = f'{{"{topic}": {{"0": 0, "1": 0}}}}'
    rows = load(subscribe=topic, includeGaps="true", startingOffsets=starts).collect()

    assert [(row.partition, row.offset, row.gap.end, row.gap.reason) for row in rows if row.gap] == [
        (0, 0, 4, "expired")
    ]
    assert sorted((row.partition, row.offset) for row in rows if not row.gap) == [
        (0, 4),
        (0, 5),
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert all(row.value is None and row.timestamp is None for row in rows if row.gap)


@pytest.mark.process
@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ("value binary", {"includeGaps": "true"}, "option includeGaps needs the column gap"),
        ("offset long, gap struct<end: bigint, reason: string>", {}, "column gap needs the option includeGaps"),
    ],
)
def test_gaps_need_both_the_option_and_the_column(broker, load, columns, options, sentence) -> None:
    """Rows of gaps without the column would be taken for records."""
    with pytest.raises(Exception, match=sentence):
        load(columns, subscribe=broker.topic(), **options).collect()


def test_gaps_and_failing_exclude_each_other() -> None:
    """A query that fails has no rows for what is gone."""
    with pytest.raises(OptionError, match="remove one of the two"):
        SourceOptions.parse(
            {"bootstrap": "h:1", "subscribe": "t", "includeGaps": "true", "failOnDataLoss": "true"}, streaming=False
        )
