"""Variable-length integers: round trips and refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.records.errors import DecodeError
from syncline.records.varint import read_signed, read_unsigned, write_signed, write_unsigned
from tests.strategies import int64s


@given(st.integers(0, (1 << 35) - 1))
def test_unsigned_reads_back_what_was_written(value: int) -> None:
    """Five bytes carry 35 bits."""
    out = bytearray(b"x")
    write_unsigned(out, value)

    assert read_unsigned(out, 1) == (value, len(out))


@given(int64s)
def test_signed_reads_back_what_was_written(value: int) -> None:
    """Ten bytes carry 64 bits of either sign."""
    out = bytearray()
    write_signed(out, value)

    assert read_signed(out, 0) == (value, len(out))


def test_signed_small_numbers_take_one_byte() -> None:
    """Zig-zag keeps both signs short."""
    out = bytearray()
    for value in (0, -1, 1, -2, 63, -64):
        write_signed(out, value)

    assert out.hex() == "000102037e7f"


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 4, b"\xff" * 11])
def test_reading_refuses_what_does_not_end(data: bytes) -> None:
    """Neither the end of the bytes nor endless continuation is a number."""
    with pytest.raises(DecodeError):
        read_unsigned(data, 0)
    with pytest.raises(DecodeError):
        read_signed(data, 0)
