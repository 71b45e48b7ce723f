"""Records in every codec: ours read by other libraries, theirs read by us, and noise refused."""

import contextlib
import io
import struct
import tracemalloc
import zlib

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from syncline.records.batch import BatchHeader, crc_matches
from syncline.records.builder import BatchBuilder, assemble
from syncline.records.compression import Codec, compress, decompress
from syncline.records.errors import DecodeError
from syncline.records.record import Record, first_at_or_after, keyless, latest, read_records
from tests.record_batches import build_batch
from tests.records.vector import VECTOR
from tests.strategies import batches, codecs, damaged, record_fields


def test_g01_records_of_the_reference_batch_are_read() -> None:
    """Two records: one with a key, one without."""
    records = read_records(VECTOR, 0, BatchHeader.parse(VECTOR))

    assert records == [Record(0, 1000, b"k1", b"v1"), Record(1, 1005, None, b"hello")]


def test_g01_builder_makes_the_reference_batch() -> None:
    """The same two records give the same 84 bytes."""
    assert build_batch([(1000, b"k1", b"v1"), (1005, None, b"hello")]) == VECTOR


@given(st.lists(record_fields, min_size=1, max_size=8), codecs)
def test_records_read_back_what_was_built(fields: list, codec: Codec) -> None:
    """Build and read are inverse in every codec, wherever the batch lies."""
    builder = BatchBuilder(base_offset=7)
    for each in fields:
        builder.append(*each)
    batch = b"abc" + builder.build(codec)
    header = BatchHeader.parse(batch, 3)

    assert crc_matches(batch, 3, header)
    assert header.compression == codec
    assert header.max_timestamp == max(each[0] for each in fields)
    assert read_records(batch, 3, header) == [Record(7 + index, *each) for index, each in enumerate(fields)]


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_batches_are_read_by_another_library(codec: Codec) -> None:
    """Aiokafka reads what we build, checksum included."""
    values = [b"value %d" % index * 50 for index in range(200)]
    batch = build_batch([(1000 + index, b"key", value) for index, value in enumerate(values)], compression=codec)
    theirs = DefaultRecordBatch(bytes(batch))

    assert theirs.validate_crc()
    assert [(record.offset, record.timestamp, record.value) for record in theirs] == [
        (index, 1000 + index, value) for index, value in enumerate(values)
    ]


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_batches_of_another_library_are_read(codec: Codec) -> None:
    """We read what aiokafka builds."""
    theirs = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for index in range(200):
        theirs.append(index, 1000 + index, b"key", b"value" * 40, [("h", b"1")])
    batch = bytes(theirs.build())
    records = read_records(batch, 0, BatchHeader.parse(batch))

    assert records == [Record(index, 1000 + index, b"key", b"value" * 40, (("h", b"1"),)) for index in range(200)]


@given(damaged(batches()))
def test_reading_damaged_batches_ends_in_records_or_a_decode_error(data: bytes) -> None:
    """Whatever a disk or a peer did to the bytes, nothing else leaves the reader."""
    try:
        header = BatchHeader.parse(data)
        read_records(data, 0, header)
        latest(data, 0, header)
        keyless(data, 0, header)
    except DecodeError:
        pass


@given(st.binary(max_size=60), st.integers(1, 7), st.integers(0, 1 << 31))
def test_reading_noise_ends_in_records_or_a_decode_error(noise: bytes, codec: int, count: int) -> None:
    """Noise in place of the records, with any claim of their number, is refused without being believed."""
    header = BatchHeader.parse(VECTOR)._replace(
        batch_length=49 + len(noise), attributes=codec, record_count=count % (1 << 31)
    )
    data = assemble(header, noise)
    with contextlib.suppress(DecodeError):
        read_records(data, 0, BatchHeader.parse(data))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_decompression_stops_when_the_result_would_be_too_large(codec: Codec) -> None:
    """A few kilobytes that claim to be megabytes cost no more than the bound."""
    packed = compress(codec, bytes(4 << 20))

    assert len(decompress(codec, packed, 4 << 20)) == 4 << 20
    with pytest.raises(DecodeError, match=r"more than [0-9]+ bytes"):
        decompress(codec, packed, 1_000_000)


def test_gzip_is_refused_when_its_end_is_missing() -> None:
    """A cut stream is not a shorter one."""
    with pytest.raises(DecodeError, match="ends too early"):
        decompress(Codec.GZIP, compress(Codec.GZIP, b"hello" * 100)[:-9])


def test_snappy_is_read_when_it_comes_as_one_bare_block() -> None:
    """Some producers leave the stream's frame away."""
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"hello" * 100))) == b"hello" * 100


def test_lz4_blocks_do_not_depend_on_each_other_when_compressed_here() -> None:
    """Java refuses dependent blocks: bit 5 of the frame's flags must be set."""
    packed = compress(Codec.LZ4, bytes(200_000))

    assert packed[:4] == bytes.fromhex("04224d18")
    assert packed[4] & 0x20
    assert bytes(cramjam.lz4.decompress(packed)) == bytes(200_000)


def test_gzip_is_what_others_call_gzip() -> None:
    """The frame is RFC 1952, not bare deflate."""
    assert zlib.decompress(compress(Codec.GZIP, b"hello"), wbits=31) == b"hello"


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_first_at_or_after_looks_inside_the_batch(codec: Codec) -> None:
    """The first record in offset order counts, not the one nearest in time; compression changes nothing."""
    batch = build_batch([(1000, None, b"a"), (1020, None, b"b"), (1010, None, b"c")], base_offset=5, compression=codec)
    header = BatchHeader.parse(batch)

    assert first_at_or_after(batch, 0, header, 1) == (5, 1000)
    assert first_at_or_after(batch, 0, header, 1005) == (6, 1020)
    assert first_at_or_after(batch, 0, header, 1021) is None
    assert latest(batch, 0, header) == (6, 1020)


def test_first_at_or_after_is_the_first_record_when_the_batch_has_one_time() -> None:
    """With LogAppendTime every record has the batch's time."""
    header = BatchHeader.parse(VECTOR)._replace(attributes=8, max_timestamp=2000, base_offset=40)

    assert first_at_or_after(VECTOR, 0, header, 2000) == (40, 2000)
    assert first_at_or_after(VECTOR, 0, header, 2001) is None
    assert latest(VECTOR, 0, header) == (40, 2000)
    assert [record.timestamp_ms for record in read_records(VECTOR, 0, header)] == [2000, 2000]


def test_keyless_names_the_places_in_the_batch() -> None:
    """An empty key is a key."""
    batch = build_batch([(1, None, b"a"), (1, b"", b"b"), (1, None, b"c")])

    assert keyless(batch, 0, BatchHeader.parse(batch)) == [0, 2]


def test_header_key_must_not_be_null() -> None:
    """A record's header without a name is malformed."""
    record = io.BytesIO(b"\x00\x00\x00\x01\x01\x02\x01\x01").getvalue()
    body = struct.pack("b", len(record) * 2) + record
    header = BatchHeader.parse(VECTOR)._replace(record_count=1, last_offset_delta=0, batch_length=49 + len(body))
    batch = assemble(header, body)

    with pytest.raises(DecodeError, match="header is null"):
        read_records(batch, 0, BatchHeader.parse(batch))


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_refusal_of_a_bomb_keeps_nothing_of_what_it_became(codec: Codec) -> None:
    """An error keeps the frames that it came through; they had the buffer into which the bomb did not fit."""
    bomb = compress(codec, bytes(32 << 20))
    tracemalloc.start()
    with pytest.raises(DecodeError, match="when decompressed") as raised:
        decompress(codec, bomb, 16 << 20)
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert raised.value.__context__ is not None
    assert kept_bytes < 1 << 20
