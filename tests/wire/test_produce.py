"""Produce: our hands and kio agree on every version, and records are found where they lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.wire import codec
from syncline.wire.errors import DecodeError
from syncline.wire.produce import (
    PARTITIONS_MAX,
    ROWS_PER_STEP,
    LongProduce,
    ProduceRequest,
    ProduceResponse,
    encode_produce_request,
    encode_produce_response,
    parse_produce,
    parse_produce_in_steps,
    parse_produce_response,
)
from tests.strategies import endpoints, int16s, int32s, produce_topics, produced_topics, texts
from tests.wire.entities import produce_request

VERSIONS = range(3, 12)


@given(st.sampled_from(VERSIONS), st.none() | texts, int16s, int32s, produce_topics())
def test_parse_reads_what_kio_wrote(
    version: int, transactional_id: str | None, acks: int, timeout_ms: int, topics: list
) -> None:
    """Every version, null and empty records included, wherever the body begins, bytes behind it ignored."""
    buffer = b"head" + produce_request(version, transactional_id, acks, timeout_ms, topics) + b"more"
    request = parse_produce(memoryview(buffer), version, 4)

    assert request[:3] == (transactional_id, acks, timeout_ms)
    assert topics == [
        (name, [(index, None if end is None else buffer[start:end]) for index, start, end in entries])
        for name, entries in request.topics
    ]


@given(st.sampled_from(VERSIONS), produced_topics(), st.integers(0, 1 << 30), endpoints())
def test_encoded_response_is_what_kio_writes(version: int, topics: list, throttle_ms: int, nodes: list) -> None:
    """Kio reads our answer and writes the same bytes."""
    ours = encode_produce_response(version, topics, throttle_ms, nodes)
    theirs = codec.decode_response(0, version, ours)

    assert codec.encode_response(theirs) == ours
    for (name, rows), topic in zip(topics, theirs.responses, strict=True):
        assert topic.name == name
        for row, partition in zip(rows, topic.partition_responses, strict=True):
            assert partition.index == row.partition
            assert partition.error_code.value == row.error_code
            assert partition.base_offset == row.base_offset
            if version >= 8:
                assert partition.error_message == row.error_message
            if version >= 10:
                leader = (partition.current_leader.leader_id, partition.current_leader.leader_epoch)
                assert leader == (row.current_leader or (-1, -1))


@given(st.sampled_from([10, 11]), produced_topics(), endpoints())
def test_response_reads_back_what_was_written(version: int, topics: list, nodes: list) -> None:
    """A broker that produces to another understands the answer."""
    encoded = encode_produce_response(version, topics, 7, nodes)

    read = [(name, [row._replace(record_errors=list(row.record_errors)) for row in rows]) for name, rows in topics]
    assert parse_produce_response(encoded, version) == ProduceResponse(read, 7, nodes)


@given(
    st.sampled_from([9, 11]), st.none() | texts, st.lists(st.tuples(texts, st.lists(st.tuples(int32s, st.binary()))))
)
def test_request_reads_back_what_was_written(version: int, transactional_id: str | None, topics: list) -> None:
    """Parts in order are the request."""
    parts = encode_produce_request(version, transactional_id=transactional_id, acks=-1, timeout_ms=5, topics=topics)
    buffer = b"".join(parts)
    request = parse_produce(buffer, version)

    assert request[:3] == (transactional_id, -1, 5)
    assert topics == [
        (name, [(index, buffer[start:end]) for index, start, end in entries]) for name, entries in request.topics
    ]


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128])
def test_request_of_one_partition_reads_back_whatever_the_length_of_its_name(size: int) -> None:
    """A short name has one byte for its length, a longer one two; the parser has a way of its own for the first."""
    name = "t" * size
    buffer = produce_request(9, None, 1, 5, [(name, [(3, b"records")])])
    request = parse_produce(memoryview(buffer), 9)
    ((found, ((partition, start, end),)),) = request.topics

    assert (request[:3], found, partition, buffer[start:end]) == ((None, 1, 5), name, 3, b"records")


@pytest.mark.parametrize("at", [-1, -2, -3])
def test_request_of_one_partition_may_have_tagged_fields_anywhere(at: int) -> None:
    """Its last three bytes say that partition, topic and request have none."""
    plain = produce_request(9, None, 1, 5, [("topic", [(3, b"records")])])
    tagged = plain[:at] + b"\x01\x05\x02xy" + bytes(-1 - at)

    assert parse_produce(memoryview(tagged), 9) == parse_produce(memoryview(plain), 9)


@pytest.mark.parametrize(
    "body", ["00 0001 00000005 02 02 61 01 00 00", "00 0001 00000005 02 02 61 02 00000003 00 00 00 00"]
)
def test_request_without_a_partition_or_records_is_no_malformed_one(body: str) -> None:
    """What is refused of it is said in the answer."""
    ((name, partitions),) = parse_produce(memoryview(bytes.fromhex(body)), 9).topics

    assert (name, [(index, end) for index, _, end in partitions]) in [("a", []), ("a", [(3, None)])]


def test_malformed_request_of_one_partition_gets_the_most_exact_reason() -> None:
    """The parser of this form leaves it to the one of all forms."""
    cut = produce_request(9, None, 1, 5, [("topic", [(3, b"records")])])[:12]
    with pytest.raises(DecodeError, match="a string of 5 bytes"):
        parse_produce(memoryview(cut), 9)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", ["id", None])
@pytest.mark.parametrize(
    "topics", [[("topic", [(0, b"records"), (1, b"")]), ("other", [(2, b"x")])], [("topic", [(0, b"records")])]]
)
def test_parse_refuses_a_request_that_is_cut_anywhere(
    version: int, transactional_id: str | None, topics: list[tuple[str, list[tuple[int, bytes]]]]
) -> None:
    """Every proper prefix is malformed, and nothing but DecodeError says so."""
    whole = produce_request(version, transactional_id, -1, 5, topics)
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            parse_produce(memoryview(whole)[:size], version)


@pytest.mark.parametrize(
    ("version", "body"),
    [
        pytest.param(9, b"\x00\x00\x01\x00\x00\x00\x05\xff\xff\xff\xff\x07", id="many topics, compact"),
        pytest.param(9, b"\x00\x00\x01\x00\x00\x00\x05\x00\x00", id="null topics, compact"),
        pytest.param(9, b"\x00\x00\x01\x00\x00\x00\x05\x02\x02a\x00\x00\x00", id="null partitions, compact"),
        pytest.param(9, b"\x00\x00\x01\x00\x00\x00\x05\xff\xff\xff\xff\xff\x7f", id="endless count"),
        pytest.param(7, b"\xff\xff\x00\x01\x00\x00\x00\x05\x7f\xff\xff\xff", id="many topics"),
        pytest.param(7, b"\xff\xff\x00\x01\x00\x00\x00\x05\xff\xff\xff\xff", id="null topics"),
        pytest.param(7, b"\xff\xff\x00\x01\x00\x00\x00\x05\x80\x00\x00\x00", id="negative topics"),
        pytest.param(7, b"\xff\xfe\x00\x01\x00\x00\x00\x05\x00\x00\x00\x00", id="negative string"),
        pytest.param(
            7, b"\xff\xff\x00\x01\x00\x00\x00\x05\x00\x00\x00\x01\x00\x01\xff\x00\x00\x00\x00", id="name not UTF-8"
        ),
        pytest.param(
            7,
            b"\xff\xff\x00\x01\x00\x00\x00\x05\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x01"
            b"\x00\x00\x00\x00\xff\xff\xff\xfe",
            id="negative records",
        ),
    ],
)
def test_parse_refuses_impossible_lengths(version: int, body: bytes) -> None:
    """Counts are held against what is left, before anything is made for them."""
    with pytest.raises(DecodeError):
        parse_produce(body + bytes(20), version)


def test_records_stay_where_they_were_received() -> None:
    """The positions point into the caller's buffer: nothing was copied."""
    buffer = bytearray(produce_request(9, None, 1, 5, [("t", [(0, b"records")])]))
    ((_, ((_, start, end),)),) = parse_produce(memoryview(buffer), 9).topics
    buffer[start:end] = b"RECORDS"

    assert b"RECORDS" in buffer
    assert (end or 0) - start == 7


def drained(version: int, body: bytes) -> tuple[ProduceRequest, int]:
    """Return a request that is read in steps, and how many steps it takes."""
    steps = parse_produce_in_steps(memoryview(body), version)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_steps_read_what_one_go_reads(version: int) -> None:
    """Whatever is cut off, both refuse it."""
    topics = [("a", [(0, b"x"), (1, None)]), ("b", []), ("c", [(index, b"yz") for index in range(ROWS_PER_STEP + 1)])]
    body = produce_request(version, "tx" if version > 3 else None, -1, 7, topics)

    assert drained(version, body)[0] == parse_produce(body, version)
    for size in range(0, len(body), 7):
        with pytest.raises(DecodeError):
            drained(version, body[:size])


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize(
    "topics",
    [[("t", [(index, None) for index in range(20_000)])], [(f"t{number}", []) for number in range(20_000)]],
    ids=["partitions", "topics-without-partitions"],
)
def test_long_request_is_read_in_steps_only(version: int, topics: list[tuple[str, list[tuple[int, None]]]]) -> None:
    """A hundred thousand topics without partitions took 145 ms in one go."""
    body = produce_request(version, None, 1, 0, topics)
    with pytest.raises(LongProduce):
        parse_produce(body, version)
    request, steps = drained(version, body)

    assert sum(len(partitions) or 1 for _, partitions in request.topics) == 20_000
    assert steps >= 20_000 / ROWS_PER_STEP


@pytest.mark.parametrize("version", [3, 9])
def test_parse_refuses_more_partitions_than_any_use_has(version: int) -> None:
    """Over all topics together; each costs time that other requests wait for."""
    topics = [("t", [(index, None) for index in range(PARTITIONS_MAX // 2)])] * 2
    drained(version, produce_request(version, None, 1, 0, topics))

    with pytest.raises(DecodeError, match="20001 partitions"):
        drained(version, produce_request(version, None, 1, 0, [*topics, ("u", [(0, None)])]))
