"""Bodies that contradict their header: the fast check against the plain reader, and bodies that try to fool it."""

import struct

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from syncline.model.errors import ErrorCode
from syncline.records.batch import HEADER_BYTES, OVERHEAD_BYTES, BatchHeader, reseal
from syncline.records.body_check import (
    HEADERS_MAX,
    LENGTHS_MAX,
    OPENED_MAX,
    OPENED_OF_MANY,
    BodyCheck,
    Verdict,
    check_body,
)
from syncline.records.builder import BatchBuilder
from syncline.records.compression import Codec
from syncline.records.errors import DecodeError
from syncline.records.record import read_records, timestamps
from syncline.records.validate import InvalidBatch, TopicRules, admit, prepare
from syncline.records.varint import write_signed
from tests.record_batches import build_batch
from tests.strategies import record_fields

T0 = 1_700_000_000_000
RULES = TopicRules(
    topic_partition="t-0",
    message_bytes_max=1 << 30,
    segment_bytes_max=1 << 30,
    append_time=False,
    timestamp_before_max_ms=(1 << 63) - 1,
    timestamp_after_max_ms=3_600_000,
    compacted=False,
)


def varint(value: int) -> bytes:
    """Return a zig-zag varint of up to 64 bits."""
    out = bytearray()
    write_signed(out, value)
    return bytes(out)


def record(
    value: bytes = b"v", *, time: int = 0, offset: int = 0, key: bytes | None = None, size_error: int = 0
) -> bytes:
    """Return one record, whose length may be wrong."""
    body = b"\0" + varint(time) + varint(offset)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(len(value)) + value + varint(0)
    return varint(len(body) + size_error) + body


def batch(body: bytes, count: int) -> bytearray:
    """Return an uncompressed batch that announces `count` records, with a right checksum."""
    whole = build_batch([(T0, None, b"")])
    whole[HEADER_BYTES:] = body
    struct.pack_into(">i", whole, 8, len(whole) - OVERHEAD_BYTES)
    struct.pack_into(">i", whole, 23, count - 1)
    struct.pack_into(">i", whole, 57, count)
    reseal(whole, 0, len(whole))
    return whole


def check(whole: bytes, lengths_max: int | None = LENGTHS_MAX) -> BodyCheck:
    """Return the verdict on a batch that lies in the middle of a buffer, as requests do."""
    buffer = memoryview(bytearray(b"before" + whole + b"\x80after"))
    return check_body(buffer, 6, BatchHeader.parse(buffer, 6), lengths_max)


def prepared(whole: bytes, rules: TopicRules = RULES, now_ms: int = T0) -> BatchHeader:
    """Return the header of the batch as it would be stored."""
    buffer = bytearray(whole)
    return prepare(buffer, 0, admit(buffer, 0, len(buffer), 9), rules, now_ms)


def equal(count: int, value: bytes = b"value") -> bytes:
    """Return records of one size each, as far as their offsets' sizes allow."""
    return b"".join(record(value, offset=index) for index in range(count))


def odd(count: int) -> bytes:
    """Return records of which neighbours differ in size."""
    return b"".join(record(b"x" * (index * 7 % 50), offset=index) for index in range(count))


GOOD = {
    "one": (record(), 1),
    "empty value": (record(b""), 1),
    "equal": (equal(10_000), 10_000),
    "equal and large": (equal(70, b"x" * 5_000), 70),
    "odd": (odd(500), 500),
    "equal, then odd": (equal(100) + odd(100), 200),
    "odd, then equal": (odd(100) + equal(100), 200),
    "times that grow": (b"".join(record(b"v", time=index, offset=index) for index in range(500)), 500),
    "times that grow and shrink": (b"".join(record(b"v", time=index * 37 % 999) for index in range(500)), 500),
    "deltas as they like": (record(offset=5) + record(offset=-3) + record(offset=1 << 30), 3),
    "lengths that are wider than needed": (b"\x8e\x80\x00" + record()[1:], 1),
    "many headers": (b"", 0),
}
many = BatchBuilder()
for _ in range(100):
    many.append(T0, b"k", b"v", [(f"h{number}", b"1") for number in range(80)])
GOOD["many headers"] = (bytes(many.build())[HEADER_BYTES:], 100)


@pytest.mark.parametrize("name", GOOD)
def test_sound_bodies_pass(name: str) -> None:
    """Whatever their sizes, and wherever these change."""
    body, count = GOOD[name]
    whole = batch(body, count)

    assert check(whole).verdict is Verdict.OK
    assert len(read_records(whole, 0, BatchHeader.parse(whole))) == count


@pytest.mark.parametrize("more", [1, -1, 5, 1_000_000])
@pytest.mark.parametrize("name", [name for name, (_, count) in GOOD.items() if count > 1])
def test_body_is_refused_when_the_header_announces_more_or_fewer_records(name: str, more: int) -> None:
    """Too few: consumers hide the acknowledged records behind them. Too many: consumers stop for ever."""
    body, count = GOOD[name]
    announced = max(1, count + more)
    found = check(batch(body, announced), lengths_max=None)

    assert found.verdict is Verdict.BAD
    assert found.reason


BAD_LAST = {
    "byte behind": record() + b"\0",
    "cut": record()[:-1],
    "nothing": b"",
    "length too large": record(size_error=1),
    "length too small": record(size_error=-1),
    "length beyond the batch": varint(1 << 20) + record()[1:],
    "length of 0": varint(0) + record()[1:],
    "length of 0 and nothing": varint(0),
    "length of 0 in two bytes": b"\x80\x00",
    "length of 5 in two bytes": b"\x8a\x00" + bytes(5),
    "length of 5": varint(5) + b"\0\0\0\1\1",
    "negative length": varint(-1) + record()[1:],
    "largest length": varint((1 << 31) - 1) + record()[1:],
    "length of 64 bits": varint(1 << 62) + record()[1:],
    "length without end": b"\xff" * 40,
    "length that wraps to the right one": b"\x8e\x80\x80\x80\x80\x10" + record()[1:],
    "zeros": bytes(40),
}
# What shows only if a record is opened.
BAD_WITHIN = {
    "key beyond the record": varint(7) + b"\0\0\0" + varint(60) + b"\2v\0",
    "key of 2 GiB": varint(11) + b"\0\0\0" + varint((1 << 31) - 1) + b"\2v\0",
    "value one byte short": varint(8) + b"\0\0\0\1\2vv\0",
    "value beyond the record": varint(7) + b"\0\0\0\1" + varint(60) + b"v\0",
    "headers that are not there": varint(7) + b"\0\0\0\1\2v" + varint(1),
    "headers by the million": varint(10) + b"\0\0\0\1\2v" + varint(1_000_000) + b"\0",
    "negative number of headers": varint(7) + b"\0\0\0\1\2v" + varint(-1),
    "header without key": varint(10) + b"\0\0\0\1\2v" + varint(1) + varint(-1) + varint(1) + b"x",
    "time delta of 11 bytes": varint(17) + b"\0" + b"\x80" * 10 + b"\0" + b"\0\1\2v\0",
    "offset delta of 6 bytes": varint(12) + b"\0\0" + b"\x80" * 5 + b"\0" + b"\1\2v\0",
    "time delta without end": varint(30) + b"\0" + b"\xff" * 29,
}


@pytest.mark.parametrize("body", BAD_LAST.values(), ids=list(BAD_LAST))
@pytest.mark.parametrize("before", [0, 1, OPENED_MAX, 200])
def test_record_that_does_not_fit_is_refused_wherever_it_is(body: bytes, before: int) -> None:
    """Lengths that overflow, are negative or lead beyond the batch, behind records of equal size and of others."""
    for others in (equal(before), odd(before)):
        assert check(batch(others + body, before + 1)).verdict is Verdict.BAD


@pytest.mark.parametrize("body", BAD_WITHIN.values(), ids=list(BAD_WITHIN))
@pytest.mark.parametrize("before", [0, 1, OPENED_MAX - 1])
def test_record_whose_fields_do_not_fit_is_refused_where_it_is_opened(body: bytes, before: int) -> None:
    """The length of each record is right here. An encoder that is wrong is wrong from the beginning."""
    for others in (equal(before), odd(before)):
        assert check(batch(others + body, before + 1)).verdict is Verdict.BAD
        if before < OPENED_OF_MANY:
            assert check(batch(others + body + equal(500), before + 501)).verdict is Verdict.BAD


@given(st.lists(record_fields, min_size=1, max_size=OPENED_MAX), st.data())
def test_small_batches_are_judged_as_a_reader_judges_them(fields: list, data: st.DataObject) -> None:
    """With a byte changed, added or missing, the check and the plain reader agree."""
    builder = BatchBuilder()
    for each in fields:
        builder.append(*each)
    body = bytearray(builder.build()[HEADER_BYTES:])
    at = data.draw(st.integers(0, len(body) - 1))
    change = data.draw(st.sampled_from(["none", "set", "insert", "remove"]))
    byte = data.draw(st.integers(0, 255))
    if change == "set":
        body[at] = byte
    elif change == "insert":
        body.insert(at, byte)
    elif change == "remove":
        del body[at]
    whole = batch(bytes(body), len(fields))

    assert (check(whole).verdict is Verdict.OK) == _is_readable(whole)


def _is_readable(whole: bytes) -> bool:
    try:
        read_records(whole, 0, BatchHeader.parse(whole))
    except DecodeError as error:
        # A broker does not read the names of headers, and the reader goes no further.
        assume("not UTF-8" not in str(error))
        return False
    return True


@given(
    st.lists(st.tuples(st.integers(1, 90), st.integers(0, 3), st.integers(-70, 70)), min_size=1, max_size=8),
    st.integers(-3, 3),
)
@example([(90, 0, 0)], 1)
def test_runs_of_equal_records_are_judged_as_a_reader_judges_them(runs: list, more: int) -> None:
    """Runs of any length, with any change of size or time between them; the header may announce the wrong number."""
    records = [(size, time) for count, size, time in runs for _ in range(count)]
    body = b"".join(record(b"x" * size, time=time, offset=index) for index, (size, time) in enumerate(records))
    whole = batch(body, max(1, len(records) + more))
    found = check(whole)

    assert (found.verdict is Verdict.OK) == _is_readable(whole) == (max(1, len(records) + more) == len(records))
    if found.delta_max_ms is not None:
        assert all(abs(time) <= found.delta_max_ms for _, time in records)


def test_very_many_headers_are_not_read() -> None:
    """One record could have half a million, and reading these would hold up all other clients."""
    for count, verdict in ((HEADERS_MAX, Verdict.BAD), (HEADERS_MAX + 1, Verdict.OK)):
        headers = varint(count) + b"\1\1" * count
        body = b"\0\0\0\1\2v" + headers
        assert check(batch(varint(len(body)) + body, 1)).verdict is verdict


@pytest.mark.parametrize("run", [1, 15, 16, 17, 40])
def test_short_runs_are_read_one_by_one_after_some(run: int) -> None:
    """Thousands of runs would cost more than the lengths alone, so their number has a limit; so has that of lengths."""
    runs = 20_000 // run
    body = b"".join(record(bytes(number % 2)) * run for number in range(runs))
    count = runs * run

    assert check(batch(body, count)).verdict is Verdict.NEEDS_WALK
    assert check(batch(body, count), lengths_max=None).verdict is Verdict.OK
    assert check(batch(body, count - 1), lengths_max=None).verdict is Verdict.BAD


def test_large_batch_of_odd_sizes_is_walked_only_when_allowed() -> None:
    """The caller decides who waits for it."""
    count = LENGTHS_MAX + 100
    sound, broken = batch(odd(count), count), batch(odd(count), count + 1)

    assert check(sound).verdict is check(broken).verdict is Verdict.NEEDS_WALK
    assert check(sound, lengths_max=None).verdict is Verdict.OK
    assert check(broken, lengths_max=None).verdict is Verdict.BAD
    # Behind produce requests, one of the two is stored.
    assert prepared(sound).record_count == count
    with pytest.raises(InvalidBatch, match="contradict its header"):
        prepared(broken)


def test_compressed_batch_stays_closed() -> None:
    """Opening it costs more than everything else."""
    whole = build_batch([(T0, None, b"v")], compression=Codec.GZIP)
    struct.pack_into(">i", whole, 57, 2)

    assert check(whole) == BodyCheck(Verdict.OK)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param(record() + record(), 1, id="a record behind the count"),
        pytest.param(record(), 2, id="fewer than the count"),
        pytest.param(equal(500), 499, id="a record behind equal ones"),
        pytest.param(equal(500), 501, id="fewer equal ones"),
        pytest.param(odd(500), 499, id="a record behind odd ones"),
        pytest.param(odd(500), 501, id="fewer odd ones"),
    ],
)
def test_produce_refuses_a_count_that_contradicts_the_body(body: bytes, count: int) -> None:
    """As Kafka does: INVALID_RECORD, with the log start."""
    with pytest.raises(InvalidBatch, match="contradict its header") as caught:
        prepared(batch(body, count))

    assert (caught.value.code, caught.value.fills_log_start) == (ErrorCode.INVALID_RECORD, True)


HOUR_MS = 3_600_000


@pytest.mark.parametrize("filler", [0, 10, 100, 1_000])
@pytest.mark.parametrize("is_odd", [False, True], ids=["equal sizes", "odd sizes"])
def test_second_record_older_than_the_topic_takes_is_refused(filler: int, is_odd: bool) -> None:
    """The header has the first timestamp and the largest one; the smallest one is in the records alone."""
    sizes = [index * 7 % 50 if is_odd else 9 for index in range(filler)]
    late = batch(
        record() + record(time=-HOUR_MS, offset=1) + b"".join(record(b"x" * size, offset=2) for size in sizes),
        filler + 2,
    )
    assert prepared(late).record_count == filler + 2
    with pytest.raises(InvalidBatch) as caught:
        prepared(late, RULES._replace(timestamp_before_max_ms=HOUR_MS - 1))

    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in caught.value.record_errors] == [1]
    assert prepared(late, RULES._replace(timestamp_before_max_ms=HOUR_MS)).max_timestamp == T0


@pytest.mark.parametrize("filler", [0, OPENED_MAX - 2])
def test_second_record_from_the_future_is_refused_though_the_header_conceals_it(filler: int) -> None:
    """Of a small batch. A header that is right bounds all timestamps from above."""
    fake = batch(record() + record(time=2 * HOUR_MS, offset=1) + equal(filler), filler + 2)
    with pytest.raises(InvalidBatch) as caught:
        prepared(fake)

    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP


@given(st.lists(st.integers(-(1 << 62), 1 << 62), min_size=1, max_size=40))
def test_no_time_delta_is_larger_than_the_bound(deltas: list[int]) -> None:
    """Of whatever size."""
    whole = batch(b"".join(record(time=delta) for delta in deltas), len(deltas))
    bound = check(whole).delta_max_ms
    header = BatchHeader.parse(whole)

    assert bound is None or all(abs(at_ms - T0) <= bound for _, at_ms in timestamps(whole, 0, header))
    assert bound is not None or len(deltas) > OPENED_MAX


def test_widths_of_lengths_that_no_encoder_writes_are_read_right() -> None:
    """A length may have more bytes than it needs, up to five."""
    for width in (2, 3, 4, 5):
        wide = b"\x8e" + b"\x80" * (width - 2) + b"\x00"
        assert check(batch(wide + record()[1:], 1)).verdict is Verdict.OK
        assert check(batch(equal(300) + (wide + record()[1:]) * 300, 600)).verdict is Verdict.OK
