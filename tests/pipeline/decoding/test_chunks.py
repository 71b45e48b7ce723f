"""The decoder gives back what real producers packed, and refuses what is broken."""

import struct
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import cramjam
import crc32c
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.pipeline.decoding import bodies
from syncline.pipeline.decoding.chunks import decode
from syncline.pipeline.decoding.columns import COLUMNS
from syncline.pipeline.decoding.headers import Part
from syncline.pipeline.errors import DecodeError
from syncline.records.compression import DECOMPRESSED_BYTES_MAX
from tests.pipeline.batches import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, Record, batch, control_batch

EVERYTHING = tuple(COLUMNS)
END = 2**62

_bytes = st.none() | st.binary(max_size=200)
_headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3)
_records = st.builds(Record, key=_bytes, value=_bytes, timestamp_ms=st.integers(0, 2**40), headers=_headers)
_batches = st.lists(st.lists(_records, min_size=1, max_size=8), min_size=1, max_size=4)


def _decode(chunk: bytes, *, first: int = 0, end: int = END, columns=EVERYTHING, aborted=()) -> pa.Table:
    return _decode_parts(chunk, [Part("flights", 3, 0, len(chunk), first, end, aborted)], columns)


def _decode_parts(chunk: bytes, parts: list[Part], columns=EVERYTHING) -> pa.Table:
    schema = pa.schema([(name, COLUMNS[name]) for name in columns])
    groups = list(decode(chunk, parts, columns))
    assert all(group.row_count > 0 for group in groups)
    return pa.Table.from_batches(
        [pa.RecordBatch.from_arrays(list(group.columns.values()), schema=schema) for group in groups], schema
    )


def _instant(timestamp_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)


def _as_row(record: Record, offset: int, *, batch_bytes: int, leader_epoch: int = 0) -> dict:
    return {
        "key": record.key,
        "value": record.value,
        "topic": "flights",
        "partition": 3,
        "offset": offset,
        "timestamp": _instant(record.timestamp_ms),
        "timestampType": 0,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
        "leaderEpoch": leader_epoch,
        "producerId": -1,
        "batchBytes": batch_bytes,
        "isTransactional": False,
    }


def _numbered(count: int) -> list[Record]:
    return [Record(b"k%d" % n, b"v%d" % n, n) for n in range(count)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("builder", ["kafka-python", "aiokafka"])
@settings(max_examples=25, deadline=None)
@given(content=_batches, first=st.integers(0, 2**40))
def test_decoder_gives_back_every_record_when_a_client_built_the_batches(
    codec: str, builder: str, content: list[list[Record]], first: int
) -> None:
    """Keys, values, nulls, headers, offsets and times survive, whatever the codec and the library."""
    chunk, expected, offset = b"", [], first
    for records in content:
        raw = batch(records, base_offset=offset, codec=codec, builder=builder, leader_epoch=7)
        chunk += raw
        expected += [
            _as_row(record, offset + n, leader_epoch=7, batch_bytes=len(raw)) for n, record in enumerate(records)
        ]
        offset += len(records)

    decoded = _decode(chunk, first=first)

    assert decoded.to_pylist() == expected


_runs = st.lists(st.tuples(st.integers(0, 70), st.integers(1, 90), st.integers(0, 200)), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(runs=_runs, batch_size=st.integers(1, 400), step_ms=st.integers(0, 40), removed=st.integers(2, 9) | st.none())
def test_decoder_gives_back_every_record_when_runs_of_them_have_one_size(
    runs: list[tuple[int, int, int]], batch_size: int, step_ms: int, removed: int | None
) -> None:
    """Runs found at once, shorter ones, and records walked one by one are read alike, after compaction too."""
    sent: list[Record] = []
    for size, count, wait_ms in runs:
        sent += [Record(b"k" * (n % 2), bytes([n]) * size, 1_000 + wait_ms + n * step_ms) for n in range(count)]
    kept = [(offset, record) for offset, record in enumerate(sent) if removed is None or offset % removed]
    chunk = b""
    for first in range(0, len(sent), batch_size):
        held = [(offset, record) for offset, record in kept if first <= offset < first + batch_size]
        if held:
            deltas = [offset - first for offset, _ in held]
            chunk += batch([record for _, record in held], base_offset=first, builder="aiokafka", deltas=deltas)

    decoded = _decode(chunk, columns=("offset", "timestamp", "key", "value"))

    assert decoded.to_pylist() == [
        {"offset": offset, "timestamp": _instant(record.timestamp_ms), "key": record.key, "value": record.value}
        for offset, record in kept
    ]


def test_decoder_finds_runs_of_records_at_once_and_walks_varied_ones() -> None:
    """The two ways meet within one batch: equal records, varied ones, and equal ones of another size."""
    sizes = [100] * 300 + [n * 37 % 90 for n in range(300)] + [9_000] * 60 + [70] * 500
    sent = [Record(None, bytes([n % 251]) * size, n) for n, size in enumerate(sizes)]

    decoded = _decode(batch(sent, builder="aiokafka"), columns=("value", "offset", "timestamp"))

    assert decoded["value"].to_pylist() == [record.value for record in sent]
    assert decoded["offset"].to_pylist() == list(range(len(sent)))
    assert decoded["timestamp"].to_pylist() == [_instant(n) for n in range(len(sent))]


def test_decoder_reads_parts_of_many_partitions_at_once() -> None:
    """Each part has its own partition, wanted offsets and aborted transactions, and rows come in the order of parts."""
    send = {"attributes": TRANSACTIONAL, "producer_id": 9}
    marker = control_batch(base_offset=9, producer_id=9, commit=False)
    raw = [
        (("flights", 2, 3, END), (), batch(_numbered(5))),
        (("delays", 0, 0, 2), (), batch(_numbered(5))),
        (
            ("flights", 1, 0, END),
            ((7, 9),),
            batch(_numbered(1), base_offset=6) + batch(_numbered(2), base_offset=7, **send),
        ),
        (("flights", 0, 0, END), (), b""),
        (("flights", 7, 0, END), (), batch(_numbered(2), base_offset=7, codec="zstd", **send) + marker),
    ]
    chunk, parts = b"an answer's head", []
    for (topic, partition, first, end), aborted, batches in raw:
        parts.append(Part(topic, partition, len(chunk), len(chunk) + len(batches), first, end, aborted))
        chunk += batches + b"and more"

    decoded = _decode_parts(chunk, parts, ("topic", "partition", "offset", "isTransactional", "producerId"))

    assert [tuple(row.values()) for row in decoded.to_pylist()] == [
        ("flights", 2, 3, False, -1),
        ("flights", 2, 4, False, -1),
        ("delays", 0, 0, False, -1),
        ("delays", 0, 1, False, -1),
        ("flights", 1, 6, False, -1),
        ("flights", 7, 7, True, 9),
        ("flights", 7, 8, True, 9),
    ]


def test_decoder_keeps_offsets_of_a_compacted_batch() -> None:
    """Where records were removed, offsets come from the records and not from their number."""
    chunk = batch(_numbered(4), base_offset=10, deltas=[0, 3, 4, 9])

    assert _decode(chunk, first=11, end=15, columns=("offset", "value")).to_pylist() == [
        {"offset": 13, "value": b"v1"},
        {"offset": 14, "value": b"v2"},
    ]


def test_decoder_imports_no_pandas() -> None:
    """It takes each of Spark's processes half a second, and nobody there needs it."""
    program = (
        "import sys; from tests.pipeline.decoding import test_chunks as ours;"
        "sys.modules.pop('pandas', None);"
        "raw = ours.batch([ours.Record(None, b'v', 1, [('k', b'1')]), ours.Record(b'k', None, 2, [])]);"
        "assert len(ours._decode(raw)) == 2; assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_decoder_reads_batches_of_different_codecs_in_one_chunk() -> None:
    """Compressed and plain batches stand side by side in a log whose producers differ."""
    codecs = ["none", "zstd", "none", "snappy", "gzip", "lz4"]
    chunk = b"".join(batch(_numbered(5), base_offset=5 * n, codec=codec) for n, codec in enumerate(codecs))

    decoded = _decode(chunk)

    assert decoded["offset"].to_pylist() == list(range(30))
    assert decoded["value"].to_pylist() == [b"v%d" % n for n in range(5)] * 6


def test_decoder_reads_snappy_in_java_framing_and_as_one_raw_block() -> None:
    """Java's library writes a header and blocks, others a raw block; both are snappy to Kafka."""
    plain = batch(_numbered(3))
    raw = bytes(cramjam.snappy.compress_raw(plain[61:]))
    middle = 20
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in (plain[61 : 61 + middle], plain[61 + middle :])]
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)

    for body in (raw, framed):
        head = bytearray(plain[:61])
        struct.pack_into(">i", head, 8, 49 + len(body))
        struct.pack_into(">h", head, 21, 2)
        struct.pack_into(">I", head, 17, crc32c.crc32c(bytes(head[21:]) + body))
        decoded = _decode(bytes(head) + body)

        assert decoded["value"].to_pylist() == [b"v0", b"v1", b"v2"]


def test_decoder_drops_records_outside_the_wanted_offsets() -> None:
    """A fetch answers with whole batches; only the records asked for become rows."""
    chunk = batch(_numbered(10), base_offset=100) + batch(_numbered(10), base_offset=110)

    decoded = _decode(chunk, first=104, end=113)

    assert decoded["offset"].to_pylist() == list(range(104, 113))
    assert decoded["key"].to_pylist() == [b"k%d" % n for n in (4, 5, 6, 7, 8, 9, 0, 1, 2)]


def test_decoder_drops_an_incomplete_batch_at_the_end() -> None:
    """A fetch may be cut at any byte."""
    whole, cut = batch(_numbered(3)), batch(_numbered(3), base_offset=3)

    for size in range(len(cut)):
        decoded = _decode(whole + cut[:size])

        assert decoded.num_rows == 3


def test_decoder_uses_the_append_time_when_the_broker_stamped_it() -> None:
    """With LogAppendTime all records of a batch have its largest timestamp."""
    chunk = batch(_numbered(3), attributes=LOG_APPEND_TIME, max_timestamp=1_700_000_000_123)

    decoded = _decode(chunk)

    assert decoded["timestamp"].to_pylist() == [_instant(1_700_000_000_123)] * 3
    assert decoded["timestampType"].to_pylist() == [1, 1, 1]


def test_decoder_steps_over_control_batches() -> None:
    """Transaction markers are no rows."""
    chunk = batch(_numbered(2)) + control_batch(base_offset=2, producer_id=9, commit=True)

    decoded = _decode(chunk)

    assert decoded["offset"].to_pylist() == [0, 1]


def test_decoder_hides_aborted_transactions_and_nothing_else() -> None:
    """An abort hides the batches of its producer from its first offset up to its marker."""
    send = {"attributes": TRANSACTIONAL}
    chunk = b"".join(
        [
            batch(_numbered(1), base_offset=0, producer_id=9, **send),
            control_batch(base_offset=1, producer_id=9, commit=True),
            batch(_numbered(1), base_offset=2, producer_id=9, **send),
            batch(_numbered(1), base_offset=3, producer_id=8, **send),
            batch(_numbered(1), base_offset=4),
            control_batch(base_offset=5, producer_id=9, commit=False),
            batch(_numbered(1), base_offset=6, producer_id=9, **send),
        ]
    )

    decoded = _decode(chunk, aborted=[(2, 9)])

    assert decoded["offset"].to_pylist() == [0, 3, 4, 6]


def test_decoder_returns_the_wanted_columns_only() -> None:
    """Other columns are not decoded."""
    decoded = _decode(batch(_numbered(4)), columns=("timestamp", "offset"))

    assert decoded.column_names == ["timestamp", "offset"]
    assert decoded.num_rows == 4


def test_decoder_makes_a_missing_timestamp_null() -> None:
    """-1 on the wire is no time at all, not the last millisecond of 1969."""
    chunk = batch(_numbered(1), attributes=LOG_APPEND_TIME, max_timestamp=-1)

    assert _decode(chunk)["timestamp"].to_pylist() == [None]


def test_decoder_returns_no_rows_when_the_chunk_is_empty() -> None:
    """An empty fetch is normal at the end of a log."""
    decoded = _decode(b"", first=42)

    assert decoded.num_rows == 0


def test_decoder_refuses_a_batch_whose_checksum_is_wrong() -> None:
    """Rotten bytes are an error with the offset in it, never rows."""
    rotten = bytearray(batch(_numbered(3), base_offset=77))
    rotten[-1] ^= 1

    with pytest.raises(DecodeError, match="77 does not match its checksum"):
        _decode(bytes(rotten))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_decoder_refuses_a_batch_that_becomes_too_large(codec: str) -> None:
    """A batch of some hundred kilobytes that holds more than brokers would open is one error that says so."""
    bomb = batch([Record(None, bytes(DECOMPRESSED_BYTES_MAX), 0)], base_offset=77, codec=codec)
    assert len(bomb) < DECOMPRESSED_BYTES_MAX // 20

    with pytest.raises(DecodeError, match=r"batch at offset 77 cannot be decompressed: .* more than 67108864 bytes"):
        _decode(bomb)


def test_decoder_opens_compressed_batches_in_groups_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer whose batches become large only together never lies in memory as a whole."""
    monkeypatch.setattr(bodies, "GROUP_BYTES", 5_000)
    codecs = ["zstd", "none", "zstd", "gzip", "zstd"]
    chunk = b"".join(
        batch([Record(None, bytes(2_000), 0)], base_offset=n, codec=codec) for n, codec in enumerate(codecs)
    )

    groups = list(decode(chunk, [Part("flights", 3, 0, len(chunk), 0, END)], ["offset", "value"]))

    assert [group.columns["offset"].to_pylist() for group in groups] == [[0, 1, 2], [3, 4]]
    assert all(value == bytes(2_000) for group in groups for value in group.columns["value"].to_pylist())


def test_decoder_refuses_a_codec_that_does_not_exist() -> None:
    """Codes 5 to 7 are free."""
    with pytest.raises(DecodeError, match="batch at offset 5 cannot be decompressed: compression 6 does not exist"):
        _decode(batch(_numbered(1), base_offset=5, attributes=6))


def _sealed(records: bytes, count: int, *, attributes: int = 0) -> bytes:
    """Return a batch with any bytes for its records, under a sound checksum."""
    raw = bytearray(batch(_numbered(1), base_offset=77, attributes=attributes)[:61] + records)
    struct.pack_into(">i", raw, 8, len(raw) - 12)
    struct.pack_into(">i", raw, 57, count)
    struct.pack_into(">I", raw, 17, crc32c.crc32c(bytes(raw[21:])))
    return bytes(raw)


_HUGE = b"\xfe" + b"\xff" * 8 + b"\x01"


@pytest.mark.parametrize(
    ("sealed", "message"),
    [
        pytest.param(
            _sealed(cramjam.zstd.compress(bytes(1 << 20)).read(), 1 << 20, attributes=4),
            "claims 1048576 records in 1048576 bytes",
            id="a-bomb-of-empty-records",
        ),
        pytest.param(_sealed(bytes(70), 2**31 - 1), "claims 2147483647 records in 70 bytes", id="every-record"),
        pytest.param(_sealed(b"\xff" * 1_000, 1), "has an unterminated integer", id="a-length-without-end"),
        pytest.param(
            _sealed(b"\x20\x00\x00\x00" + _HUGE + bytes(6), 1), "longer than all records", id="a-key-of-8-exabytes"
        ),
        pytest.param(
            _sealed(b"\x20\x00\x00\x00\x01" + _HUGE + bytes(6), 1), "longer than all records", id="a-value-as-long"
        ),
        pytest.param(
            _sealed(b"\x22\x00\x00\x00\x01\x01\x02" + _HUGE + b"\x00", 1),
            "longer than all records",
            id="a-header-as-long",
        ),
        pytest.param(_sealed(b"", 1, attributes=CONTROL), "control record ends before", id="no-control-record"),
        pytest.param(_sealed(b"\xff" * 5, 1, attributes=CONTROL), "control record ends before", id="half-of-one"),
    ],
)
def test_decoder_refuses_what_no_record_can_be_with_the_one_error(sealed: bytes, message: str) -> None:
    """Sizes and numbers that a producer made up are checked before they are added, followed or counted."""
    with pytest.raises(DecodeError, match=message):
        _decode(sealed)


@settings(deadline=None)
@given(data=st.data())
def test_decoder_refuses_or_decodes_but_never_breaks_on_sealed_nonsense(data: st.DataObject) -> None:
    """A producer may put nonsense under a sound checksum: the answer is rows or one error, no crash."""
    raw = bytearray(batch(_numbered(3)))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(57, len(raw) - 1))] = data.draw(st.integers(0, 255))
    struct.pack_into(">I", raw, 17, crc32c.crc32c(bytes(raw[21:])))

    try:
        decoded = _decode(bytes(raw))
    except DecodeError:
        return
    decoded.validate(full=True)
