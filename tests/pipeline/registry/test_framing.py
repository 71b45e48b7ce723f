"""The bytes before a value, as they stand in a topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.pipeline.registry import framing
from syncline.pipeline.registry.framing import FramingError


def test_frame_is_a_zero_and_four_bytes_of_id() -> None:
    """Big endian, as on the wire."""
    assert framing.frame(258) == b"\0\0\0\1\2"
    assert framing.unframed(b"\0\0\0\1\2rest") == (258, 5)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "0 bytes"),
        (b"\0\0\0\1", "4 bytes"),
        (b'{"a":1}', "0x7b"),
        (bytes([1]) + bytes(20), "GUID"),
    ],
)
def test_value_without_a_frame_is_refused_by_what_it_is(value: bytes, words: str) -> None:
    """Plain JSON is the usual mistake."""
    with pytest.raises(FramingError, match=words):
        framing.unframed(value)


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=8).map(tuple))
def test_message_indexes_come_back(indexes: tuple[int, ...]) -> None:
    """Wherever they begin; the first message of a file is one byte."""
    encoded = framing.encoded_indexes(indexes)

    assert framing.message_indexes(b"frame" + encoded + b"rest", 5) == (indexes, 5 + len(encoded))
    assert (encoded == b"\0") == (indexes == (0,))


@given(st.binary(max_size=12))
def test_indexes_of_noise_are_found_or_refused(value: bytes) -> None:
    """Nothing else is raised, and no more is read than is there."""
    try:
        indexes, position = framing.message_indexes(value, 0)
    except FramingError:
        return
    assert 0 < position <= len(value)
    assert len(indexes) <= 64
