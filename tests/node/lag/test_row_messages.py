"""GROUP_ROWS as bytes: what is written is what is read, and nothing else is taken for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.node.lag.row_messages import (
    CoordinatedGroup,
    GroupMember,
    GroupRow,
    RowsAnswer,
    RowsRequest,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from syncline.wire.errors import DecodeError
from tests.node.lag.test_messages import finish

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LONGS = st.integers(-(2**63), 2**63 - 1)
ROWS = st.builds(GroupRow, st.integers(0, 2**31 - 1), LONGS, st.integers(-1, 1))
GROUPS = st.builds(
    CoordinatedGroup,
    TEXTS,
    TEXTS,
    TEXTS,
    TEXTS,
    LONGS,
    st.lists(st.builds(GroupMember, TEXTS, TEXTS, TEXTS), min_size=2, max_size=3),
    st.dictionaries(TEXTS, st.lists(ROWS, max_size=3), max_size=3),
)
ANSWERS = st.builds(RowsAnswer, st.booleans(), st.dictionaries(TEXTS, LONGS, max_size=3), st.lists(GROUPS, max_size=3))


@given(st.builds(RowsRequest, st.booleans(), TEXTS))
def test_request_is_read_as_it_was_written(request: RowsRequest) -> None:
    """Behind a header of any length."""
    assert decode_request(b"head" + encode_request(request), 4) == request


@given(ANSWERS)
def test_answer_is_read_as_it_was_written(answer: RowsAnswer) -> None:
    """With all its groups, members and rows."""
    assert finish(decode_answer(finish(encode_answer(answer)))) == answer


@given(ANSWERS, st.data())
def test_what_is_cut_short_or_too_long_is_refused(answer: RowsAnswer, data: st.DataObject) -> None:
    """Never an index error, and never a group that is not there."""
    body = finish(encode_answer(answer))
    length = data.draw(st.integers(0, len(body) - 1))

    with pytest.raises(DecodeError):
        finish(decode_answer(body[:length]))
    with pytest.raises(DecodeError, match="1 bytes follow"):
        finish(decode_answer(body + b"\0"))


def test_row_of_a_member_that_is_not_there_is_refused() -> None:
    """A page would show another one, or fail."""
    group = CoordinatedGroup("g", "Stable", "consumer", "range", 1, [], {"t": [GroupRow(0, 5, 0)]})

    with pytest.raises(DecodeError, match="names member 0 of 0"):
        finish(decode_answer(finish(encode_answer(RowsAnswer(has_more=False, log_bytes={}, groups=[group])))))


def test_count_beyond_the_message_is_refused_before_it_is_believed() -> None:
    """Four bytes may say two billion."""
    with pytest.raises(DecodeError, match="2147483647 items"):
        finish(decode_answer(b"\0\x7f\xff\xff\xff"))
