"""LAG as bytes: what is written is what is read, and nothing else is taken for it."""

from collections.abc import Generator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerId, LeaderEpoch, Offset
from syncline.model.lag import OffsetPlace, PartitionEnds
from syncline.node.lag.messages import (
    OFFSETS_MAX,
    PARTITIONS_MAX,
    STEP_OFFSETS_MAX,
    AnsweredPartition,
    AskedPartition,
    LagAnswer,
    LagRequest,
    decode_answer,
    decode_request,
    encode_head,
    encode_partition,
    encode_request,
)
from syncline.node.lag.read_positions import ReaderPosition
from syncline.wire.errors import DecodeError

LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
OFFSETS = st.builds(Offset, LONGS)
ASKED = st.builds(AskedPartition, st.uuids(), INTS, INTS, st.lists(OFFSETS, max_size=3).map(tuple))
LEADER = BrokerId(3)
ENDS = st.builds(
    PartitionEnds,
    st.just(LEADER),
    st.builds(LeaderEpoch, INTS),
    *[LONGS] * 8,
    newest_event_ms=LONGS,
    written_bytes_per_s=st.floats(allow_nan=False),
    retention_ms=LONGS,
    retention_bytes=LONGS,
    held_since_ms=LONGS,
    readable_below_watermark=LONGS,
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
READERS = st.builds(
    ReaderPosition,
    NAMES,
    NAMES,
    OFFSETS,
    LONGS,
    st.floats(allow_nan=False),
    is_shared=st.booleans(),
    is_open=st.booleans(),
)
PLACES = st.none() | st.builds(OffsetPlace, OFFSETS, *[LONGS] * 6, is_estimated=st.booleans())


def finish(steps: Generator[None, None, Any]) -> Any:
    """Return what a generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


@given(st.booleans(), st.booleans(), st.lists(ASKED, max_size=4))
def test_request_is_read_as_it_was_written(is_exact: bool, with_readers: bool, asked: list[AskedPartition]) -> None:
    """The body begins behind a header."""
    request = LagRequest(is_exact, asked, with_readers)

    assert finish(decode_request(b"head" + encode_request(request), 4)) == request


@given(st.data(), LONGS, st.lists(ASKED, max_size=4))
def test_answer_is_read_as_it_was_written(data: st.DataObject, epoch: int, asked: list[AskedPartition]) -> None:
    """Also where a partition has an error, and where a place was not found."""
    answered = [
        AnsweredPartition(
            ErrorCode.NONE,
            data.draw(ENDS),
            tuple(data.draw(PLACES) for _ in each.offsets),
            data.draw(st.lists(READERS, max_size=2).map(tuple)),
        )
        if data.draw(st.booleans())
        else AnsweredPartition(ErrorCode.FENCED_LEADER_EPOCH)
        for each in asked
    ]
    body = b"".join((encode_head(epoch, len(answered)), *map(encode_partition, answered)))

    assert finish(decode_answer(body, LEADER, asked)) == LagAnswer(epoch, answered)


@given(st.lists(ASKED, max_size=3), st.integers(0, 400), st.binary(max_size=20))
def test_request_that_is_cut_short_or_goes_on_is_refused(asked: list[AskedPartition], length: int, more: bytes) -> None:
    """The connection of a broker that sends something else is closed."""
    body = encode_request(LagRequest(is_exact=True, partitions=asked))
    strange = body[:length] if length < len(body) else body + b"\0" + more

    with pytest.raises(DecodeError):
        finish(decode_request(strange, 0))


def test_lists_are_bounded() -> None:
    """A count takes no memory before it is known to be small."""
    topic_id = UUID(int=1)
    many = encode_request(LagRequest(False, [AskedPartition(topic_id, 0, 0, tuple([Offset(0)] * (OFFSETS_MAX + 1)))]))
    in_all = encode_request(
        LagRequest(False, [AskedPartition(topic_id, 0, 0, tuple([Offset(0)] * STEP_OFFSETS_MAX))] * 101)
    )
    too_many = b"\0" + (PARTITIONS_MAX + 1).to_bytes(4) + many[5:]

    for body in (many, in_all, too_many, b"\0\xff\xff\xff\xff", b"\0\x7f\xff\xff\xff"):
        with pytest.raises(DecodeError):
            finish(decode_request(body, 0))


def test_answer_about_something_else_is_refused() -> None:
    """An asker takes no row for another partition's."""
    asked = [AskedPartition(UUID(int=1), 0, 0, ())]
    body = encode_head(2, 1) + encode_partition(AnsweredPartition(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    assert finish(decode_answer(body, LEADER, asked)).partitions[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    for strange in (encode_head(2, 0), body + b"\0", body[:-1], encode_head(2, 1) + b"\x7f\xff"):
        with pytest.raises(DecodeError):
            finish(decode_answer(strange, LEADER, asked))
