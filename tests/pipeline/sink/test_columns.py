"""Columns are checked by name and type before a task starts, and read as record fields."""

import pyarrow as pa
import pytest

from syncline.pipeline.errors import OptionError
from syncline.pipeline.sink.columns import check_columns, read_rows

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
INSTANT = pa.timestamp("us", tz="UTC")


def test_every_column_may_be_there() -> None:
    """Strings and bytes alike."""
    schema = {"key": pa.string(), "value": pa.binary(), "headers": HEADERS, "topic": pa.string()}

    check_columns(pa.schema({**schema, "partition": pa.int32(), "timestamp": INSTANT}), has_topic=False)
    check_columns(pa.schema({"value": pa.string()}), has_topic=True)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        pytest.param(
            {"valeu": pa.string()}, "column valeu cannot be written: a record has the columns key", id="unknown"
        ),
        pytest.param({"key": pa.string()}, "column value is missing", id="no value"),
        pytest.param({"value": pa.int64()}, "column value must be string or binary, not int64", id="number"),
        pytest.param({"value": pa.string(), "partition": pa.int64()}, "column partition must be int", id="long"),
        pytest.param(
            {"value": pa.string(), "headers": pa.string()}, "column headers must be array<struct", id="headers"
        ),
        pytest.param(
            {"value": pa.string(), "timestamp": pa.timestamp("us")}, "column timestamp must be timestamp", id="no zone"
        ),
    ],
)
def test_column_that_cannot_be_written_is_refused(columns: dict, sentence: str) -> None:
    """The sentence names the column and what it must be."""
    with pytest.raises(OptionError) as caught:
        check_columns(pa.schema(columns), has_topic=True)

    assert str(caught.value).startswith(sentence)


def test_topic_is_an_option_or_a_column() -> None:
    """One of the two must be there."""
    with pytest.raises(OptionError, match="set the option topic, or add a column topic"):
        check_columns(pa.schema({"value": pa.string()}), has_topic=False)


def test_times_are_milliseconds_and_missing_ones_now() -> None:
    """Microseconds of Spark are cut, nulls and a missing column filled."""
    times = pa.array([1_999_999, None, 0], INSTANT)
    batch = pa.record_batch({"value": pa.array(["a", "b", None]), "timestamp": times})

    assert read_rows(batch, now_ms=77).timestamps_ms.tolist() == [1_999, 77, 0]
    assert read_rows(batch.select(["value"]), now_ms=77).timestamps_ms.tolist() == [77] * 3
    assert read_rows(batch, now_ms=77).values.to_pylist() == [b"a", b"b", None]
