"""What a leader accepts from a client, row by row as Kafka 4.3 was observed to."""

import struct

import pytest
from hypothesis import given

from syncline.model.errors import ErrorCode
from syncline.records.batch import BatchHeader, crc_matches, reseal
from syncline.records.builder import BatchBuilder
from syncline.records.compression import Codec
from syncline.records.validate import Fault, InvalidBatch, TopicRules, admit, prepare
from tests.record_batches import build_batch
from tests.records.vector import VECTOR
from tests.strategies import batches, damaged

HOUR_MS = 3_600_000
NOW_MS = 2000
RULES = TopicRules(
    topic_partition="t-0",
    message_bytes_max=1_048_588,
    segment_bytes_max=1 << 30,
    append_time=False,
    timestamp_before_max_ms=(1 << 63) - 1,
    timestamp_after_max_ms=HOUR_MS,
    compacted=False,
)


def changed(place: int, layout: str, value: int, *, seal: bool = True) -> bytearray:
    """Return the reference batch with one field changed, and a checksum that agrees."""
    batch = bytearray(VECTOR)
    struct.pack_into(layout, batch, place, value)
    if seal:
        reseal(batch, 0, len(batch))
    return batch


def validate(data: bytes, rules: TopicRules = RULES, version: int = 9, now_ms: int = NOW_MS) -> tuple:
    """Return (batch as it would be stored, header)."""
    buffer = bytearray(b"head" + data + b"tail")
    view = memoryview(buffer)
    header = prepare(view, 4, admit(view, 4, 4 + len(data), version), rules, now_ms)
    return bytes(view[4 : 4 + header.size_bytes]), header


def refusal(data: bytes, rules: TopicRules = RULES, version: int = 9, now_ms: int = NOW_MS) -> InvalidBatch:
    """Return why the batch is refused."""
    with pytest.raises(InvalidBatch) as caught:
        validate(data, rules, version, now_ms)
    assert caught.value.message
    return caught.value


def test_g02_good_batch_passes_unchanged() -> None:
    """Nothing is rewritten when nothing must be: the batch is appended as it lies."""
    stored, header = validate(VECTOR)

    assert stored == VECTOR
    assert header == BatchHeader.parse(VECTOR)


def test_g03_append_time_topic_gets_the_time_of_the_append() -> None:
    """Attributes 8, max 2000, crc DD9AF3AE."""
    stored, header = validate(VECTOR, RULES._replace(append_time=True))

    assert (header.attributes, header.base_timestamp, header.max_timestamp, header.crc) == (8, 1000, 2000, 0xDD9AF3AE)
    assert crc_matches(stored, 0, header)


TWO = VECTOR + VECTOR
TRUE_START = True
NO_START = False


@pytest.mark.parametrize(
    ("data", "code", "fills_log_start"),
    [
        pytest.param(b"", ErrorCode.INVALID_RECORD, NO_START, id="no records"),
        pytest.param(VECTOR[:11], ErrorCode.INVALID_RECORD, NO_START, id="fewer bytes than a length"),
        pytest.param(VECTOR[:60], ErrorCode.INVALID_RECORD, NO_START, id="fewer bytes than a header"),
        pytest.param(VECTOR[:-1], ErrorCode.INVALID_RECORD, NO_START, id="cut"),
        pytest.param(changed(8, ">i", 73, seal=False), ErrorCode.INVALID_RECORD, NO_START, id="length 1 too long"),
        pytest.param(changed(8, ">i", 71, seal=False), ErrorCode.CORRUPT_MESSAGE, NO_START, id="length 1 too short"),
        pytest.param(changed(8, ">i", 0, seal=False), ErrorCode.CORRUPT_MESSAGE, NO_START, id="length 0"),
        pytest.param(changed(8, ">i", -5, seal=False), ErrorCode.CORRUPT_MESSAGE, NO_START, id="length negative"),
        pytest.param(b"\x00" * 61, ErrorCode.CORRUPT_MESSAGE, NO_START, id="zeros"),
        pytest.param(changed(16, "b", 0, seal=False), ErrorCode.INVALID_RECORD, NO_START, id="magic 0"),
        pytest.param(changed(16, "b", 1, seal=False), ErrorCode.INVALID_RECORD, NO_START, id="magic 1"),
        pytest.param(changed(16, "b", 3, seal=False), ErrorCode.CORRUPT_MESSAGE, NO_START, id="magic 3"),
        pytest.param(changed(16, "b", -1, seal=False), ErrorCode.CORRUPT_MESSAGE, NO_START, id="magic -1"),
        pytest.param(changed(80, "b", 1, seal=False), ErrorCode.CORRUPT_MESSAGE, NO_START, id="bad checksum"),
        pytest.param(VECTOR + bytes(61), ErrorCode.CORRUPT_MESSAGE, NO_START, id="zeros behind the batch"),
        pytest.param(TWO, ErrorCode.INVALID_RECORD, NO_START, id="g04 two batches"),
        pytest.param(TWO[:-1] + b"x", ErrorCode.INVALID_RECORD, NO_START, id="two batches, the second corrupt"),
        pytest.param(changed(0, ">q", 3), ErrorCode.INVALID_RECORD, TRUE_START, id="g04 base offset 3"),
        pytest.param(changed(21, ">h", 32), ErrorCode.INVALID_RECORD, TRUE_START, id="g04 control bit"),
        pytest.param(changed(57, ">i", 3), ErrorCode.INVALID_RECORD, TRUE_START, id="g04 count 3 with last delta 1"),
        pytest.param(changed(57, ">i", 0), ErrorCode.INVALID_RECORD, TRUE_START, id="count 0"),
        pytest.param(changed(57, ">i", -1), ErrorCode.INVALID_RECORD, TRUE_START, id="count -1"),
        pytest.param(changed(23, ">i", -1), ErrorCode.INVALID_RECORD, TRUE_START, id="last delta -1"),
        pytest.param(changed(43, ">q", 9), ErrorCode.INVALID_RECORD, TRUE_START, id="producer without sequence"),
        pytest.param(changed(21, ">h", 5), ErrorCode.UNKNOWN_SERVER_ERROR, TRUE_START, id="codec 5"),
        pytest.param(changed(21, ">h", 7), ErrorCode.UNKNOWN_SERVER_ERROR, TRUE_START, id="codec 7"),
    ],
)
def test_g04_malformed_batch_is_refused(data: bytes, code: ErrorCode, fills_log_start: bool) -> None:
    """Each defect has the code, and the log start, that Kafka gives it."""
    refused = refusal(bytes(data))

    assert (refused.code, refused.fills_log_start) == (code, fills_log_start)
    assert refused.record_errors == ()


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        pytest.param(changed(16, "b", 1, seal=False), Fault.MAGIC, id="magic 1"),
        pytest.param(changed(16, "b", 3, seal=False), Fault.MAGIC, id="magic 3"),
        pytest.param(changed(80, "b", 1, seal=False), Fault.CHECKSUM, id="bad checksum"),
        pytest.param(changed(0, ">q", 3), Fault.OFFSETS, id="base offset 3"),
        pytest.param(changed(57, ">i", 3), Fault.OFFSETS, id="count 3 with last delta 1"),
        pytest.param(changed(43, ">q", 9), Fault.OFFSETS, id="producer without sequence"),
        pytest.param(changed(21, ">h", 32), Fault.OTHER, id="control bit"),
        pytest.param(b"", Fault.OTHER, id="no records"),
    ],
)
def test_malformed_batch_is_refused_with_its_kind_of_fault(data: bytes, fault: Fault) -> None:
    """Brokers count them by kind, as Kafka's do."""
    assert refusal(bytes(data)).fault is fault


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(VECTOR + b"x", id="a byte behind the batch"),
        pytest.param(VECTOR + VECTOR[:70], id="an incomplete batch behind the batch"),
        pytest.param(bytes(changed(51, ">h", 4)), id="producer epoch without producer"),
        pytest.param(bytes(changed(53, ">i", 7)), id="sequence without producer"),
        pytest.param(bytes(changed(12, ">i", 99)), id="leader epoch of a client"),
        pytest.param(bytes(changed(21, ">h", 0x180)), id="unassigned attribute bits"),
        pytest.param(bytes(changed(21, ">h", 0x40)), id="delete horizon bit"),
    ],
)
def test_harmless_oddities_are_accepted(data: bytes) -> None:
    """What Kafka drops or keeps without complaint is stored as it came, trailing bytes left out."""
    stored, header = validate(data)

    assert stored == data[:84]
    assert crc_matches(stored, 0, header)


def test_g05_compacted_topic_refuses_records_without_key() -> None:
    """The answer names each record, the message the first three at most."""
    batch = build_batch([(1000, None, b"a"), (1000, b"k", b"b"), *[(1000, None, b"c")] * 3])
    refused = refusal(batch, RULES._replace(compacted=True))

    text = "Compacted topic cannot accept message without key in topic partition t-0"
    assert refused.code == ErrorCode.INVALID_RECORD
    assert refused.fills_log_start
    assert list(refused.record_errors) == [(index, text) for index in (0, 2, 3, 4)]
    assert refused.message == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=0, message='{text}'), RecordError(batchIndex=2, message='{text}'), "
        f"RecordError(batchIndex=3, message='{text}')]"
    )


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_g05_compacted_topic_accepts_empty_keys(codec: Codec) -> None:
    """An empty key is a key, compressed or not."""
    batch = build_batch([(1000, b"", b"a")], compression=codec)

    assert validate(batch, RULES._replace(compacted=True))[0] == batch


@pytest.mark.parametrize(
    ("codec", "code"),
    [
        pytest.param(0, ErrorCode.INVALID_RECORD, id="plain"),
        pytest.param(1, ErrorCode.UNKNOWN_SERVER_ERROR, id="gzip"),
        pytest.param(2, ErrorCode.UNKNOWN_SERVER_ERROR, id="snappy"),
        pytest.param(3, ErrorCode.UNKNOWN_SERVER_ERROR, id="lz4"),
        pytest.param(4, ErrorCode.UNKNOWN_SERVER_ERROR, id="zstd"),
    ],
)
def test_unreadable_body_is_refused_where_it_must_be_read(codec: int, code: ErrorCode) -> None:
    """On a compacted topic every body is opened; elsewhere a compressed one is stored unopened."""
    batch = changed(21, ">h", codec)
    batch[61:] = b"\xff" * 23
    reseal(batch, 0, len(batch))

    assert refusal(bytes(batch), RULES._replace(compacted=True)).code == code
    if codec:
        assert validate(bytes(batch))[0] == batch
    else:
        assert refusal(bytes(batch)).code == code


def test_g06_batch_is_refused_when_larger_than_the_topic_allows() -> None:
    """The limit itself still passes; the true log start is not given."""
    assert validate(VECTOR, RULES._replace(message_bytes_max=84))[0] == VECTOR
    refused = refusal(VECTOR, RULES._replace(message_bytes_max=83))

    assert (refused.code, refused.fills_log_start) == (ErrorCode.MESSAGE_TOO_LARGE, False)


def test_batch_is_refused_when_larger_than_a_segment() -> None:
    """A batch is never split, so it must fit."""
    assert validate(VECTOR, RULES._replace(segment_bytes_max=84))[0] == VECTOR
    refused = refusal(VECTOR, RULES._replace(segment_bytes_max=83))

    assert (refused.code, refused.fills_log_start) == (ErrorCode.RECORD_LIST_TOO_LARGE, False)


@pytest.mark.parametrize("version", [3, 6, 7, 9])
def test_zstd_needs_a_produce_version_that_knows_it(version: int) -> None:
    """Before version 7 consumers of the same age could not read it (KIP-110)."""
    batch = build_batch([(1000, b"k", b"v")], compression=Codec.ZSTD)
    if version >= 7:
        assert validate(batch, version=version)[0] == batch
        return

    refused = refusal(batch, version=version)
    assert (refused.code, refused.fills_log_start) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, False)


@pytest.mark.parametrize(
    ("wrong_ms", "codec"),
    [
        pytest.param(-1, Codec.NONE, id="none"),
        pytest.param(999, Codec.NONE, id="too small"),
        pytest.param(-1, Codec.GZIP, id="compressed"),
        pytest.param(1 << 50, Codec.NONE, id="absurd"),
    ],
)
def test_max_timestamp_is_corrected_when_it_contradicts_the_records(wrong_ms: int, codec: Codec) -> None:
    """The header is made to agree, and the checksum with it."""
    batch = build_batch([(1000, b"k1", b"v1"), (1005, None, b"hello")], compression=codec)
    struct.pack_into(">q", batch, 35, wrong_ms)
    reseal(batch, 0, len(batch))
    stored, header = validate(bytes(batch))

    assert header.max_timestamp == 1005
    assert crc_matches(stored, 0, header)


def test_timestamps_pass_when_there_are_none() -> None:
    """-1 passes every limit and stays -1."""
    batch = build_batch([(-1, b"k", b"v")])
    rules = RULES._replace(timestamp_before_max_ms=10, timestamp_after_max_ms=10)

    assert validate(batch, rules, now_ms=1 << 40)[0] == batch


@pytest.mark.parametrize(
    ("timestamp_ms", "now_ms", "accepted"),
    [
        pytest.param(HOUR_MS + NOW_MS, NOW_MS, True, id="an hour ahead"),
        pytest.param(HOUR_MS + NOW_MS + 1, NOW_MS, False, id="more than an hour ahead"),
        pytest.param(0, 10 * 365 * 24 * HOUR_MS, True, id="ten years old"),
    ],
)
def test_timestamps_are_held_against_the_limits(timestamp_ms: int, now_ms: int, accepted: bool) -> None:
    """An hour ahead is the default limit; the past has none."""
    batch = build_batch([(timestamp_ms, b"k", b"v")])
    if accepted:
        assert validate(batch, now_ms=now_ms)[0] == batch
        return

    refused = refusal(batch, now_ms=now_ms)
    assert (refused.code, refused.fills_log_start) == (ErrorCode.INVALID_TIMESTAMP, True)


def test_timestamps_outside_the_limits_are_named_record_by_record() -> None:
    """The answer lists the records, their values and the right ones."""
    batch = build_batch([(1000, b"k", b"v"), (1900, b"k", b"v"), (5000, b"k", b"v")])
    rules = RULES._replace(timestamp_before_max_ms=500, timestamp_after_max_ms=100)
    refused = refusal(batch, rules)

    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert refused.message == "One or more records have been rejected due to invalid timestamp"
    limits = "The timestamp should be within [1500, 2100]"
    assert list(refused.record_errors) == [
        (0, f"Timestamp 1000 of message with offset 0 is out of range. {limits}"),
        (2, f"Timestamp 5000 of message with offset 2 is out of range. {limits}"),
    ]


def test_append_time_bit_of_a_client_is_cleared_on_a_create_time_topic() -> None:
    """The times of the records stay what the client said."""
    stored, header = validate(bytes(changed(21, ">h", 8)))

    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (0, 1000, 1005)
    assert stored == VECTOR


def test_append_time_bit_of_a_client_is_refused_on_an_append_time_topic() -> None:
    """Only the broker knows when it appended."""
    refused = refusal(bytes(changed(21, ">h", 8)), RULES._replace(append_time=True))

    assert (refused.code, refused.fills_log_start) == (ErrorCode.INVALID_TIMESTAMP, True)
    assert [index for index, _ in refused.record_errors] == [0, 1]


def test_append_time_topic_takes_times_from_the_future() -> None:
    """The client's times do not matter there."""
    batch = build_batch([(1 << 45, b"k", b"v")])

    assert validate(batch, RULES._replace(append_time=True))[1].max_timestamp == NOW_MS


def test_form_is_judged_before_the_rest() -> None:
    """`admit` accepts a bad checksum: who leads is asked before what the batch holds."""
    broken = changed(80, "b", 1, seal=False)
    header = admit(broken, 0, len(broken), 9)

    with pytest.raises(InvalidBatch):
        prepare(broken, 0, header, RULES, NOW_MS)


@given(damaged(batches()))
def test_damaged_batches_are_refused_or_stored_valid(data: bytes) -> None:
    """Whatever arrives, the log gets a batch whose checksum holds, or nothing."""
    try:
        stored, header = validate(data, RULES._replace(compacted=True), now_ms=1 << 42)
    except InvalidBatch:
        return
    assert crc_matches(stored, 0, header)


def test_transactional_bit_is_left_to_others() -> None:
    """Transactions are a matter of the request, not of the batch's form."""
    builder = BatchBuilder(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    builder.append(1000, b"k", b"v")
    batch = bytes(builder.build())

    assert validate(batch)[1].is_transactional


def test_batches_with_very_many_bad_records_are_refused_in_few_words() -> None:
    """The answer lists a thousand records at fault; the message counts them all."""
    builder = BatchBuilder()
    for _ in range(3_000):
        builder.append(NOW_MS, None, b"value")

    keyless = refusal(bytes(builder.build()), RULES._replace(compacted=True))
    late = refusal(bytes(builder.build()), RULES._replace(timestamp_before_max_ms=1), now_ms=NOW_MS * 2)

    assert (keyless.code, len(keyless.record_errors)) == (ErrorCode.INVALID_RECORD, 1_000)
    assert "3000 record errors in total" in str(keyless.message)
    assert (late.code, len(late.record_errors)) == (ErrorCode.INVALID_TIMESTAMP, 1_000)


def test_batch_that_claims_millions_of_records_is_not_opened() -> None:
    """A megabyte may hold them, compressed; all other clients would have to wait."""
    batch = build_batch([(1000, b"k", b"v")], compression=Codec.GZIP)
    struct.pack_into(">i", batch, 57, 9_000_000)
    struct.pack_into(">i", batch, 23, 8_999_999)
    reseal(batch, 0, len(batch))

    assert refusal(bytes(batch), RULES._replace(compacted=True)).code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_timestamp_beyond_its_field_is_refused() -> None:
    """A topic may have no limits; a delta that leads beyond 64 bits can still not be stored."""
    builder = BatchBuilder()
    builder.append(0, b"key", b"value")
    builder.append((1 << 63) - 1, b"key", b"value")
    batch = bytearray(builder.build())
    struct.pack_into(">qq", batch, 27, 5, -5)
    reseal(batch, 0, len(batch))

    assert (
        refusal(bytes(batch), RULES._replace(timestamp_after_max_ms=(1 << 63) - 1)).code == ErrorCode.INVALID_TIMESTAMP
    )
