"""Rows go where option, columns and keys say, in order."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.model.ids import TopicPartition
from syncline.pipeline.encoding.partitioning import STICKY_BYTES
from syncline.pipeline.errors import PipelineError
from syncline.pipeline.sink.columns import read_rows
from syncline.pipeline.sink.placing import Placing

COUNTS = {"a": 3, "b": 1, "c": 5}

_rows = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 0), st.none() | st.binary(max_size=4)), min_size=1
)


def _placed(placing: Placing, **columns: pa.Array) -> dict[TopicPartition, list[bytes | None]]:
    batch = pa.record_batch(columns)
    parts = placing.place(batch, read_rows(batch, 0))
    return {place: rows.values.to_pylist() for place, rows in parts.items()}


@settings(max_examples=100, deadline=None)
@given(content=_rows)
def test_every_row_is_placed_once_in_order_under_its_topic(content: list[tuple]) -> None:
    """Whatever is null: a partition that is named is the row's, and equal keys of a topic meet."""
    topics, partitions, keys = (list(column) for column in zip(*content, strict=True))
    values = [b"%06d" % number for number in range(len(content))]

    found = _placed(
        Placing(None, COUNTS.__getitem__),
        topic=pa.array(topics),
        partition=pa.array(partitions, pa.int32()),
        key=pa.array(keys, pa.binary()),
        value=pa.array(values),
    )

    assert sorted(value for some in found.values() for value in some) == values
    assert all(some == sorted(some) for some in found.values())
    place_of = {value: place for place, some in found.items() for value in some}
    by_key: dict[tuple, set[int]] = {}
    for value, topic, partition, key in zip(values, topics, partitions, keys, strict=True):
        place = place_of[value]
        assert place.topic == topic
        assert partition is None or place.partition == partition
        if partition is None and key is not None:
            by_key.setdefault((topic, key), set()).add(place.partition)
    assert all(len(places) == 1 for places in by_key.values())


def test_option_topic_goes_before_the_column() -> None:
    """As in the connector."""
    found = _placed(Placing("b", COUNTS.__getitem__), topic=pa.array(["a", None]), value=pa.array([b"1", b"2"]))

    assert found == {TopicPartition("b", 0): [b"1", b"2"]}


def test_rows_without_a_key_go_on_where_the_last_ones_were() -> None:
    """Several batches of a task fill partitions one after the other."""
    placing = Placing("a", COUNTS.__getitem__, spread_from=4)
    value = pa.array([bytes(STICKY_BYTES)])

    found = [next(iter(_placed(placing, value=value))).partition for _ in range(4)]

    assert found == [1, 2, 0, 1]


def test_partition_that_does_not_exist_is_refused_by_its_topic() -> None:
    """A number may be fine for another topic of the same rows."""
    with pytest.raises(PipelineError, match=r"topic b has no partition 1: its partitions are 0 to 0"):
        _placed(
            Placing(None, COUNTS.__getitem__),
            topic=pa.array(["a", "b"]),
            partition=pa.array(np.array([1, 1], np.int32)),
            value=pa.array([b"1", b"2"]),
        )
