"""CRC-32C: the wheel's and our own are the same function."""

from hypothesis import given
from hypothesis import strategies as st

from syncline.records.checksum import crc32c, crc32c_in_python


def test_checksum_of_the_check_string_is_the_published_one() -> None:
    """RFC 3720 gives the value that only CRC-32C has."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c_in_python(b"123456789") == 0xE3069283


@given(st.binary(max_size=300))
def test_checksum_in_python_equals_the_fast_one(data: bytes) -> None:
    """The fallback gives the same answer, slower."""
    assert crc32c_in_python(data) == crc32c(memoryview(data))
