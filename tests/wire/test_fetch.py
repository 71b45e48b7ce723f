"""Fetch: our hands and kio agree on every version, on both sides."""

import dataclasses
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.records.unread import Unread
from syncline.wire import codec
from syncline.wire.errors import DecodeError
from syncline.wire.fetch import (
    ROWS_AT_ONCE,
    ROWS_PER_STEP,
    FetchPartition,
    FetchRequest,
    LongFetch,
    encode_fetch_request,
    parse_fetch_in_steps,
    parse_fetch_request,
)
from syncline.wire.fetch_response import ROWS_PER_STEP as ANSWER_ROWS_PER_STEP
from syncline.wire.fetch_response import (
    FetchedPartition,
    FetchedRows,
    FetchResponse,
    encode_fetch_in_steps,
    encode_fetch_response,
    has_more_rows,
    parse_fetch_response,
)
from tests.strategies import fetch_requests, fetch_responses
from tests.wire.entities import fetch_request, request_module

VERSIONS = range(4, 18)
REPLICA_VERSIONS = range(12, 18)
TOPIC_ID = bytes(range(1, 17))


def versioned(versions: range, messages: object) -> st.SearchStrategy:
    """Return (version, message of that version)."""
    return st.sampled_from(versions).flatmap(lambda version: st.tuples(st.just(version), messages(version)))


@given(versioned(VERSIONS, fetch_requests))
def test_parse_reads_what_kio_wrote(example: tuple[int, FetchRequest]) -> None:
    """Every field of every version, wherever the body begins, bytes behind it ignored."""
    version, request = example
    buffer = b"head" + fetch_request(version, request) + b"more"

    assert parse_fetch_request(memoryview(buffer), version, 4) == request


@given(versioned(REPLICA_VERSIONS, fetch_requests))
def test_encoded_request_is_what_kio_writes(example: tuple[int, FetchRequest]) -> None:
    """A follower's request is the bytes that the schema demands."""
    version, request = example

    assert encode_fetch_request(request, version) == fetch_request(version, request)


@given(versioned(VERSIONS, fetch_responses))
def test_response_encoded_in_steps_is_the_same(example: tuple[int, FetchResponse]) -> None:
    """Topic by topic, and rows of one topic in several steps."""
    version, response = example
    response = response._replace(topics=[(topic, [*rows] * 30) for topic, rows in response.topics])
    encoding = encode_fetch_in_steps(response, version)
    steps = 0
    try:
        while True:
            next(encoding)
            steps += 1
    except StopIteration as end:
        parts = end.value

    assert list(map(bytes, parts)) == list(map(bytes, encode_fetch_response(response, version)))
    assert steps >= sum(len(rows) for _, rows in response.topics) // ANSWER_ROWS_PER_STEP


@given(versioned(VERSIONS, fetch_responses))
def test_encoded_response_is_what_kio_writes(example: tuple[int, FetchResponse]) -> None:
    """Kio reads our answer and writes the same bytes."""
    version, response = example
    ours = b"".join(encode_fetch_response(response, version))
    theirs = codec.decode_response(1, version, ours)

    assert codec.encode_response(theirs) == ours
    for (topic, rows), their_topic in zip(response.topics, theirs.responses, strict=True):
        assert topic == (their_topic.topic_id.bytes if version >= 13 else their_topic.topic)
        for row, partition in zip(rows, their_topic.partitions, strict=True):
            assert partition.partition_index == row.partition
            assert partition.error_code.value == row.error_code
            assert partition.high_watermark == row.high_watermark
            assert partition.records == row.records
            if version >= 12 and row.diverging_epoch is not None:
                diverging = (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
                assert diverging == row.diverging_epoch


@given(versioned(REPLICA_VERSIONS, fetch_responses))
def test_response_reads_back_what_was_written(example: tuple[int, FetchResponse]) -> None:
    """A follower sees what the leader said."""
    version, response = example
    data = b"head" + b"".join(encode_fetch_response(response, version))

    assert parse_fetch_response(data, version, 4) == response


APPEND_TIMES = ((7, 1_700_000_000_000), (9, ~1_700_000_000_000), (12, 1_700_000_000_250))


@given(
    versioned(REPLICA_VERSIONS, fetch_responses),
    st.integers(0, 3),
    st.none() | st.builds(Unread, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)),
)
def test_what_only_brokers_tell_each_other_travels(
    example: tuple[int, FetchResponse], count: int, unread: Unread | None
) -> None:
    """Append times, and what is said of unread records: beside the other tagged fields of a row, or alone."""
    version, response = example
    topics = [
        (topic, [row._replace(append_times=APPEND_TIMES[:count], unread=unread) for row in rows])
        for topic, rows in response.topics
    ]
    response = response._replace(topics=topics)

    assert parse_fetch_response(b"".join(encode_fetch_response(response, version)), version) == response


@pytest.mark.parametrize("size", [0, 4, 11, 13])
def test_sum_of_another_size_is_refused(size: int) -> None:
    """A peer that sends it is broken."""
    row = FetchedPartition(0, 0, unread=Unread(7, 70))
    data = b"".join(encode_fetch_response(FetchResponse(topics=[(TOPIC_ID, [row])]), 17))
    head, _, tail = data.partition(b"\xa2\x9c\x01\x0c")
    assert tail
    damaged = head + b"\xa2\x9c\x01" + bytes([size]) + bytes(size) + tail[12:]

    with pytest.raises(DecodeError, match="ends too early"):
        parse_fetch_response(damaged, 17)


@pytest.mark.parametrize("size", [1, 8, 15, 17])
def test_append_times_of_half_an_entry_are_refused(size: int) -> None:
    """A peer that sends them is broken; nothing of its answer is used."""
    row = FetchedPartition(0, 0, append_times=APPEND_TIMES[:1])
    data = b"".join(encode_fetch_response(FetchResponse(topics=[(TOPIC_ID, [row])]), 17))
    head, _, tail = data.partition(b"\xa0\x9c\x01\x10")
    damaged = head + b"\xa0\x9c\x01" + bytes([size]) + bytes(size) + tail[16:]

    with pytest.raises(DecodeError, match="ends too early"):
        parse_fetch_response(damaged, 17)


def test_records_are_not_copied_on_either_side() -> None:
    """Large records are a part of their own, and views of the received bytes."""
    records = memoryview(bytearray(10_000))
    response = FetchResponse(topics=[(TOPIC_ID, [FetchedPartition(0, 0, records=records)])])
    parts = encode_fetch_response(response, 17)
    received = bytearray(b"".join(parts))
    parsed = parse_fetch_response(received, 17).topics[0][1][0].records
    received[:] = b"\x01" * len(received)

    assert parts[1] is records
    assert bytes(parsed[:3]) == b"\x01\x01\x01"


def test_number_of_rows_is_known_before_they_are_read() -> None:
    """Of topics, or of the first topic's rows; and nothing is said of an answer that is cut."""
    rows = [FetchedPartition(number, 0, records=b"r") for number in range(300)]
    for count in (0, 100, 101, 300):
        topics = [(bytes(16), rows[:count]), (bytes(16), rows)] if count else []
        short = [(bytes(16), rows[:3])] * count
        for each in (topics, short):
            body = b"".join(encode_fetch_response(FetchResponse(topics=each), 16))
            assert has_more_rows(memoryview(b"head" + body), 16, 4, 100) == (count > 100)
    assert not any(has_more_rows(memoryview(body)[:size], 16, 0, 0) for size in range(10))


@given(versioned(REPLICA_VERSIONS[1:], fetch_responses), st.integers(0, 5))
def test_rows_that_are_read_one_by_one_are_those_of_the_answer(
    example: tuple[int, FetchResponse], kept_at: int
) -> None:
    """Also when the rest is kept somewhere else on the way, before the buffer is used again."""
    version, response = example
    received = bytearray(b"".join((b"head", *encode_fetch_response(response, version))))
    rows = FetchedRows(memoryview(received), version, 4)
    whole = parse_fetch_response(bytes(received), version, 4)
    expected = [(topic_id, row) for topic_id, of_topic in whole.topics for row in of_topic]

    first = [(topic_id, row._replace(records=bytes(row.records))) for topic_id, row in islice(rows, kept_at)]
    rows.keep()
    received[:] = bytes(len(received))

    assert (rows.error_code, rows.session_id) == (whole.error_code, whole.session_id)
    assert [*first, *rows] == expected
    assert list(rows) == []


def test_answer_that_ends_too_early_is_read_up_to_there() -> None:
    """Wherever it was cut."""
    rows = [FetchedPartition(number, 0, records=b"records") for number in range(9)]
    topics = [(TOPIC_ID, rows[:8]), (TOPIC_ID, rows[8:])]
    body = b"".join(encode_fetch_response(FetchResponse(topics=topics), 17))
    read = []
    for size in range(len(body) - 2):
        count = 0
        with pytest.raises(DecodeError):  # noqa: PT012 - how far it comes is part of it
            for _ in FetchedRows(memoryview(body)[:size], 17, 0):
                count += 1
        read.append(count)

    assert read == sorted(read)
    assert (read[0], read[-1]) == (0, 8)


def test_small_answers_are_one_part() -> None:
    """A few hundred bytes are cheaper to copy than to write separately."""
    response = FetchResponse(topics=[(TOPIC_ID, [FetchedPartition(0, 0, records=bytes(300))] * 3)])

    assert len(encode_fetch_response(response, 17)) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_parse_refuses_a_request_that_is_cut_anywhere(version: int) -> None:
    """Every proper prefix is malformed, and nothing but DecodeError says so."""
    topic = TOPIC_ID if version >= 13 else "topic"
    request = FetchRequest(
        5,
        -1,
        500,
        1,
        1000,
        0,
        7,
        8,
        [(topic, [FetchPartition(0, 1, 2, 3, 4, 5)] * 3)],
        [(topic, [1, 2])] if version >= 7 else [],
        "rack" if version >= 11 else "",
    )
    whole = fetch_request(version, request)
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            parse_fetch_request(memoryview(whole)[:size], version)


def drained(body: bytes, version: int, partitions_max: int = 20_000) -> tuple[FetchRequest, int]:
    """Return a request that is read in steps, and how many steps it takes."""
    steps = parse_fetch_in_steps(memoryview(body), version, partitions_max=partitions_max)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


def outcome(parse: Callable[[], object]) -> object:
    """Return what a parser returns, or that it refuses."""
    try:
        return parse()
    except DecodeError:
        return DecodeError


def changed(whole: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield a message with each of its bytes changed to others, and where."""
    for at in range(len(whole)):
        for value in (0, 1, 2, 3, 13, 14, 0x7F, 0x80, 0xFF):
            yield at, whole[:at] + bytes([value]) + whole[at + 1 :]


@pytest.mark.parametrize("version", [15, 16, 17])
def test_request_for_one_partition_is_read_in_one_go_only_if_it_is_one(version: int) -> None:
    """Whatever byte of it differs, a reader that takes field by field sees the same."""
    partition = FetchPartition(3, 4, 5_000_000_000, 4, 6, 1 << 20)
    request = FetchRequest(2, 70_001, 500, 1, 10 << 20, 0, 7, 8, [(TOPIC_ID, [partition])], [], "")
    whole = bytes(encode_fetch_request(request, version))

    assert whole == fetch_request(version, request)
    assert parse_fetch_request(whole, version) == request
    for at, body in changed(whole):
        one_go, in_steps = (outcome(partial(parse, body)) for parse in parsers_of(version))
        assert one_go == in_steps, f"byte {at} is {body[at]}"


def parsers_of(version: int) -> tuple[Callable[[bytes], FetchRequest], Callable[[bytes], FetchRequest]]:
    """Return the parser of whole requests, and the one that takes one field after the other."""
    return lambda body: parse_fetch_request(body, version), lambda body: drained(body, version)[0]


@pytest.mark.parametrize("records", [b"", b"records", bytes(200)])
@pytest.mark.parametrize("aborted", [None, []])
def test_answer_with_one_row_is_read_in_one_go_only_if_it_is_one(records: bytes, aborted: list | None) -> None:
    """Whatever byte of it differs, a reader that takes row by row sees the same."""
    row = FetchedPartition(3, 0, 5_000_000_000, 5_000_000_000, 6, records, aborted)
    whole = b"".join(encode_fetch_response(FetchResponse(0, 0, 7, [(TOPIC_ID, [row])], []), 17))

    assert parse_fetch_response(whole, 17).topics == [(TOPIC_ID, [row])]
    for at, body in changed(whole):
        answer = outcome(partial(parse_fetch_response, body, 17))
        rows = outcome(lambda body=body: list(FetchedRows(memoryview(body), 17, 0)))
        if answer is DecodeError:
            # A number that has become longer, near the end, leaves too little for what follows the last row.
            assert rows is DecodeError or at >= len(whole) - 4, f"byte {at} is {body[at]}"
        else:
            assert [(topic, each) for topic, of_topic in answer.topics for each in of_topic] == rows, f"byte {at}"


@pytest.mark.parametrize("version", VERSIONS)
def test_steps_read_what_one_go_reads(version: int) -> None:
    """Whatever is cut off, both refuse it."""
    topic = TOPIC_ID if version >= 13 else "t"
    partition = FetchPartition(
        3, 1 if version >= 9 else -1, 2, 4 if version >= 12 else -1, 5 if version >= 5 else -1, 6
    )
    topics = [(topic, [partition]), (topic, []), (topic, [partition] * (ROWS_PER_STEP + 1))]
    request = FetchRequest(
        -1, -1, 500, 1, 1000, 0, 7 if version >= 7 else 0, 8 if version >= 7 else -1, topics,
        [(topic, [1, 2])] if version >= 7 else [], "rack" if version >= 11 else "",
    )  # fmt: skip
    body = bytes(fetch_request(version, request))

    assert drained(body, version)[0] == parse_fetch_request(body, version) == request
    for size in range(0, len(body), 11):
        with pytest.raises(DecodeError):
            drained(body[:size], version)


@pytest.mark.parametrize("version", [4, 11, 17])
@pytest.mark.parametrize(
    ("topic_count", "partition_count", "forgotten_count"),
    [(1, 10_000, 0), (10_000, 0, 0), (0, 0, 10_000)],
    ids=["partitions", "topics-without-partitions", "forgotten"],
)
def test_long_request_is_read_in_steps_only(
    version: int, topic_count: int, partition_count: int, forgotten_count: int
) -> None:
    """A hundred thousand topics without partitions took 145 ms in one go."""
    if forgotten_count and version < 7:
        pytest.skip("this version forgets nothing")
    topic = TOPIC_ID if version >= 13 else "t"
    partition = FetchPartition(0, -1, 2, -1, -1, 5)
    listed: list[tuple[str | bytes, list[FetchPartition]]] = [(topic, [partition] * partition_count)] * topic_count
    request = FetchRequest(-1, -1, 500, 1, 1000, 0, 7, 8, listed, [(topic, [1])] * forgotten_count, "")
    body = bytes(fetch_request(version, request))
    with pytest.raises(LongFetch):
        parse_fetch_request(body, version, rows_max=ROWS_AT_ONCE)
    read, steps = drained(body, version)

    assert (len(read.topics), len(read.forgotten)) == (topic_count, forgotten_count)
    assert steps >= 10_000 / ROWS_PER_STEP


@pytest.mark.parametrize("version", [4, 7, 12, 17])
def test_request_has_at_most_so_many_partitions_to_fetch_and_to_forget(version: int) -> None:
    """Over all topics together."""
    topic = TOPIC_ID if version >= 13 else "t"
    rows, no_more = [(topic, [FetchPartition(0, -1, 2, -1, -1, 5)] * 3)], [(topic, [1, 2, 3])]

    def parsed(listed: int, forgotten: int) -> FetchRequest:
        request = FetchRequest(-1, -1, 500, 1, 1000, 0, 7, 8, rows * listed, no_more * forgotten, "")
        return drained(fetch_request(version, request), version, partitions_max=6)[0]

    assert len(parsed(2, 2 if version >= 7 else 0).topics) == 2
    for listed, forgotten in ((3, 0), (0, 3)) if version >= 7 else ((3, 0),):
        with pytest.raises(DecodeError, match="3 partitions more than a fetch request may have"):
            parsed(listed, forgotten)


@pytest.mark.parametrize("version", REPLICA_VERSIONS)
def test_parse_refuses_a_response_that_is_cut_anywhere(version: int) -> None:
    """A follower does not take half an answer for a whole one."""
    topic = TOPIC_ID if version >= 13 else "topic"
    row = FetchedPartition(0, 6, 1, 2, 3, b"records", [(1, 2)], -1, (3, 4), (5, 6))
    whole = b"".join(encode_fetch_response(FetchResponse(0, 0, 5, [(topic, [row, row])]), version))
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            parse_fetch_response(whole[:size], version)


def test_directory_ids_of_version_17_are_skipped() -> None:
    """A follower of a newer broker sends its directory in a tag of each partition."""
    module = request_module(1, 17)
    partition = module.FetchPartition(
        partition=3, fetch_offset=9, partition_max_bytes=1, replica_directory_id=uuid.UUID(int=5)
    )
    topic = module.FetchTopic(topic_id=uuid.UUID(bytes=TOPIC_ID), partitions=(partition, partition))
    plain = parse_fetch_request(fetch_request(17, FetchRequest(-1, -1, 5, 1, 1, 0, 0, -1, [], [], "")), 17)
    entity = codec.decode_request(1, 17, fetch_request(17, plain))
    request = parse_fetch_request(codec.encode_request(dataclasses.replace(entity, topics=(topic,))), 17)

    assert request.topics == [(TOPIC_ID, [FetchPartition(3, -1, 9, -1, -1, 1)] * 2)]


@pytest.mark.parametrize(
    ("version", "body"),
    [
        pytest.param(17, bytes(21) + b"\xff\xff\xff\xff\x07", id="many topics, compact"),
        pytest.param(17, bytes(21) + b"\x00", id="null topics, compact"),
        pytest.param(17, bytes(21) + b"\x02" + TOPIC_ID + b"\xff\xff\xff\xff\x07", id="many partitions, compact"),
        pytest.param(17, bytes(21) + b"\x01\x02" + TOPIC_ID + b"\xff\xff\xff\xff\x07", id="many forgotten"),
        pytest.param(17, bytes(21) + b"\x01\x01\x01\xff\xff\xff\xff\x07", id="many tags"),
        pytest.param(17, bytes(21) + b"\x01\x01\x01\x01\x01\x02\x00\x00", id="short replica state"),
        pytest.param(11, bytes(25) + b"\x7f\xff\xff\xff", id="many topics"),
        pytest.param(11, bytes(25) + b"\x00\x00\x00\x01\x00\x01a\x7f\xff\xff\xff", id="many partitions"),
        pytest.param(11, bytes(25) + b"\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff", id="null partitions"),
    ],
)
def test_parse_refuses_impossible_lengths(version: int, body: bytes) -> None:
    """Counts are held against what is left, before anything is made for them."""
    with pytest.raises(DecodeError):
        parse_fetch_request(body, version)
