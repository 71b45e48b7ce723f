"""Batch headers, stamps and checksums, against the reference batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.records.batch import (
    BatchHeader,
    crc_matches,
    iterate,
    reseal,
    stamp,
    stamp_append_time,
)
from syncline.records.errors import DecodeError
from tests.records.vector import VECTOR
from tests.strategies import batches


def test_g01_header_of_the_reference_batch_is_read() -> None:
    """Every field stands where the format puts it."""
    header = BatchHeader.parse(VECTOR)

    assert header == BatchHeader(0, 72, -1, 2, 0x51893C4D, 0, 1, 1000, 1005, -1, -1, -1, 2)
    assert (header.size_bytes, header.last_offset, header.next_offset) == (84, 1, 2)
    assert (header.compression, header.is_control, header.is_transactional) == (0, 0, 0)
    assert header.last_sequence == -1


@pytest.mark.parametrize("place", range(21, 84))
def test_g01_crc_fails_when_a_byte_behind_it_changes(place: int) -> None:
    """No byte of 21..83 can change unnoticed."""
    damaged = bytearray(VECTOR)
    damaged[place] ^= 0x10

    assert not crc_matches(damaged, 0, BatchHeader.parse(damaged))


def test_g01_crc_holds_when_the_leader_epoch_changes() -> None:
    """Byte 12 lies before the CRC's range."""
    stamped = bytearray(VECTOR)
    stamped[12] ^= 0x10

    assert crc_matches(VECTOR, 0, BatchHeader.parse(VECTOR))
    assert crc_matches(stamped, 0, BatchHeader.parse(stamped))


def test_g02_stamp_changes_offset_and_epoch_only() -> None:
    """A leader of epoch 7 appends at offset 42: twelve bytes differ, the checksum does not."""
    stamped = bytearray(b"xx" + VECTOR)
    stamp(stamped, 2, 42, 7)

    assert stamped[2:10].hex() == "000000000000002a"
    assert stamped[14:18].hex() == "00000007"
    assert stamped[10:14] + stamped[18:] == VECTOR[8:12] + VECTOR[16:]
    assert crc_matches(stamped, 2, BatchHeader.parse(stamped, 2))


def test_g03_append_time_is_stamped_with_a_new_checksum() -> None:
    """LogAppendTime 2000: attributes 8, max 2000, base kept, crc DD9AF3AE."""
    stamped = bytearray(VECTOR)
    header = stamp_append_time(stamped, 0, BatchHeader.parse(stamped), 2000)

    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (8, 1000, 2000)
    assert header.crc == 0xDD9AF3AE
    assert header.is_append_time
    assert crc_matches(stamped, 0, header)


def test_last_sequence_wraps_when_it_passes_the_largest_number() -> None:
    """Sequences go on at 0 after 2^31 - 1."""
    header = BatchHeader.parse(VECTOR)._replace(base_sequence=0x7FFFFFFF, last_offset_delta=2)

    assert header.last_sequence == 1


@given(st.lists(batches(), max_size=4), st.integers(0, 3))
def test_iterate_finds_every_whole_batch_and_drops_the_tail(whole: list[bytes], cut: int) -> None:
    """Batches follow each other; the last one, cut anywhere, is left out."""
    data = b"".join(whole) + VECTOR[: cut * 20]
    found = list(iterate(memoryview(data), 0, len(data)))

    assert [header.size_bytes for _, header in found] == [len(batch) for batch in whole]


@pytest.mark.parametrize(
    ("place", "change"),
    [
        pytest.param(8, b"\x00\x00\x00\x30", id="too short for a header"),
        pytest.param(8, b"\xff\xff\xff\xff", id="negative length"),
        pytest.param(16, b"\x01", id="old magic"),
    ],
)
def test_iterate_refuses_what_cannot_be_a_batch(place: int, change: bytes) -> None:
    """A log holds whole batches of one format; anything else is damage, not an end."""
    data = VECTOR + VECTOR[:place] + change + VECTOR[place + len(change) :]

    with pytest.raises(DecodeError):
        list(iterate(data, 0, len(data)))


def test_parse_refuses_a_header_that_is_cut() -> None:
    """60 bytes are no header."""
    with pytest.raises(DecodeError, match="61 bytes"):
        BatchHeader.parse(VECTOR[:60])


def test_crc_does_not_match_when_the_batch_is_cut() -> None:
    """A batch that reaches past the buffer is not judged by the bytes that are there."""
    assert not crc_matches(VECTOR[:80], 0, BatchHeader.parse(VECTOR))


def test_reseal_makes_a_changed_batch_valid() -> None:
    """The checksum follows what was changed on purpose."""
    changed = bytearray(VECTOR)
    changed[80] ^= 1
    header = reseal(changed, 0, len(changed))

    assert crc_matches(changed, 0, header)


def test_a_placed_header_is_that_of_the_stamped_batch() -> None:
    """What the leader keeps in memory is what a reader of the log parses."""
    stamped = bytearray(VECTOR)
    header = BatchHeader.parse(stamped)
    stamp(stamped, 0, 42, 7)

    assert header.placed(42, 7) == BatchHeader.parse(stamped)
    assert type(header.placed(42, 7)) is BatchHeader
