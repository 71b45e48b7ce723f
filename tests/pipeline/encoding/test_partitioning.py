"""Keys go where Kafka's producers send them, and rows without a key are spread evenly in long runs."""

import warnings

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.pipeline.encoding.partitioning import STICKY_BYTES, Spread, murmur2

with warnings.catch_warnings():
    # kafka-python reads its schemas by a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python


@settings(max_examples=200, deadline=None)
@given(keys=st.lists(st.binary(max_size=40), min_size=1, max_size=8), skipped=st.integers(0, 3))
def test_hash_is_that_of_kafkas_producers(keys: list[bytes], skipped: int) -> None:
    """Keys of every length, also behind others in one buffer."""
    column = pa.array([b"other"] * skipped + keys, pa.binary()).slice(skipped)

    found = murmur2(column).tolist()

    assert found == [murmur2_of_kafka_python(key) & 0x7FFFFFFF for key in keys]


def test_rows_without_a_key_fill_one_partition_after_the_other() -> None:
    """Each stays for a batch's length, and in the end all have the same share."""
    spread = Spread.beginning_at(2)
    sizes = np.full(48, STICKY_BYTES // 4)

    places = np.concatenate([spread.place(sizes[:20], 3), spread.place(sizes[20:], 3)])

    assert places[:12].tolist() == [2] * 4 + [0] * 4 + [1] * 4
    assert np.bincount(places).tolist() == [16, 16, 16]
