"""Batches of the encoder are, byte for byte, those of the record code that brokers use, and clients read them."""

import random
import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.pipeline.encoding.batches import HEADER_BYTES, ProducerId, cuts, encode, following, seal
from syncline.pipeline.encoding.fingerprint import fingerprint
from syncline.pipeline.encoding.rows import Rows
from syncline.pipeline.errors import PipelineError
from syncline.records.builder import BatchBuilder
from syncline.records.compression import Codec
from tests.pipeline.batches import Record

with warnings.catch_warnings():
    # kafka-python reads its schemas by a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.memory_records import MemoryRecords

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

_bytes = st.none() | st.binary(max_size=300)
_headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=200)), max_size=3)
_records = st.builds(Record, key=_bytes, value=_bytes, timestamp_ms=st.integers(0, 2**45), headers=_headers)
_content = st.lists(_records, min_size=1, max_size=12)
_producers = st.builds(ProducerId, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.booleans())


def rows_of(records: list[Record]) -> Rows:
    """Return records as the sink sees them."""
    pairs = [[{"key": key, "value": value} for key, value in record.headers] or None for record in records]
    return Rows.of(
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array(pairs, HEADERS),
        np.array([record.timestamp_ms for record in records], np.int64),
    )


def _built(records: list[Record], producer: ProducerId, sequence: int) -> bytes:
    builder = BatchBuilder(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        is_transactional=producer.is_transactional,
    )
    for record in records:
        builder.append(record.timestamp_ms, record.key, record.value, record.headers)
    return bytes(builder.build())


@settings(max_examples=150, deadline=None)
@given(content=_content, producer=_producers, sequence=st.integers(0, 2**31 - 1))
def test_batch_is_the_one_that_the_record_code_builds(
    content: list[Record], producer: ProducerId, sequence: int
) -> None:
    """Lengths, deltas, nulls, headers, attributes, sequence and checksum agree in every byte."""
    sealed = seal(rows_of(content), producer, base_sequence=sequence, codec=Codec.NONE)

    assert sealed == _built(content, producer, sequence)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
@settings(max_examples=25, deadline=None)
@given(content=_content)
def test_client_library_reads_the_batch_with_codec(codec: Codec, content: list[Record]) -> None:
    """kafka-python finds the checksum right, and every key, value, header and time."""
    sealed = seal(rows_of(content), ProducerId(7, 3), base_sequence=5, codec=codec)

    batch = MemoryRecords(sealed).next_batch()
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 5)
    read = [Record(each.key, each.value, each.timestamp, list(each.headers)) for each in batch]
    assert read == content


@settings(max_examples=50, deadline=None)
@given(content=_content, start=st.integers(0, 11), end=st.integers(1, 12), seed=st.integers(0, 99))
def test_rows_that_were_taken_and_sliced_are_encoded_alone(
    content: list[Record], start: int, end: int, seed: int
) -> None:
    """A partition's rows are a slice of reordered columns; Arrow's offsets into larger buffers do not show."""
    order = list(range(len(content)))
    random.Random(seed).shuffle(order)
    start = min(start, len(content) - 1)
    end = max(start + 1, min(end, len(content)))
    expected = [content[index] for index in order[start:end]]

    part = rows_of(content).take(np.array(order)).between(start, end)

    assert bytes(encode(part)) == bytes(encode(rows_of(expected)))


@settings(max_examples=50, deadline=None)
@given(content=_content, batch_bytes_max=st.integers(1_500, 4_000))
def test_cuts_cover_all_rows_in_batches_within_the_limit(content: list[Record], batch_bytes_max: int) -> None:
    """Every row is in one batch, in order, and no batch exceeds the limit."""
    rows = rows_of(content)

    bounds = list(cuts(rows, batch_bytes_max))

    assert [row for start, end in bounds for row in range(start, end)] == list(range(len(content)))
    for start, end in bounds:
        sealed = seal(rows.between(start, end), ProducerId(1, 0), base_sequence=0, codec=Codec.NONE)
        assert HEADER_BYTES < len(sealed) <= batch_bytes_max


def test_row_that_is_larger_than_a_request_is_refused_in_a_sentence() -> None:
    """The limit's option is named, and the topic's."""
    rows = rows_of([Record(b"k", b"small", 1), Record(b"k", bytes(5_000), 1)])

    with pytest.raises(
        PipelineError, match=r"a record of 50\d\d bytes is larger than kafka.max.request.size, 2000 bytes"
    ):
        list(cuts(rows, 2_000))


def test_header_without_a_key_is_refused_in_a_sentence() -> None:
    """Brokers would refuse the whole batch, without saying why."""
    headers = pa.array([[{"key": None, "value": b"x"}]], HEADERS)

    with pytest.raises(PipelineError, match="a header without a key"):
        Rows.of(pa.nulls(1, pa.binary()), pa.array([b"v"]), headers, np.array([1]))


def test_sequences_wrap_behind_the_largest() -> None:
    """2^31 - 1 is followed by 0."""
    assert following(2**31 - 1, 1) == 0
    assert following(2**31 - 3, 5) == 2
    assert following(4, 6) == 10


@settings(max_examples=50, deadline=None)
@given(content=_content, seed=st.integers(0, 99))
def test_fingerprint_does_not_depend_on_order_or_parts(content: list[Record], seed: int) -> None:
    """Two attempts may get their rows in another order, and cut them elsewhere."""
    shuffled = content[:]
    random.Random(seed).shuffle(shuffled)
    middle = len(shuffled) // 2
    parts = [part for part in (shuffled[:middle], shuffled[middle:]) if part]

    assert sum(fingerprint(rows_of(part)) for part in parts) % 2**64 == fingerprint(rows_of(content))


def test_fingerprint_differs_when_rows_are_others() -> None:
    """Other values, a byte that moves from key to value, a row more: all are seen."""
    base = [Record(b"k1", b"v1", 0), Record(b"k2", b"v2", 0)]
    others = [
        [Record(b"k1", b"v1", 0), Record(b"k3", b"v2", 0)],
        [Record(b"k", b"1v1", 0), Record(b"k2", b"v2", 0)],
        [*base, base[0]],
        base[:1],
    ]

    found = {fingerprint(rows_of(each)) for each in (base, *others)}

    assert len(found) == 1 + len(others)
