"""Frames: the same frames come out, however the bytes come in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.wire.errors import FrameError
from syncline.wire.frames import CLAIM_BYTES_MAX, KEEP_BYTES_MAX, READ_BYTES, FrameParser

LIMIT = 8 << 20


def framed(*bodies: bytes) -> bytes:
    """Return the bytes on the wire."""
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def feed(parser: FrameParser, data: bytes, sizes: list[int]) -> list[bytes]:
    """Give `data` to the parser as a transport does, in pieces of the given sizes at most (the last one repeats)."""
    frames = []
    position = turn = 0
    while position < len(data):
        room = parser.get_buffer(-1)
        piece = data[position : position + min(sizes[min(turn, len(sizes) - 1)], len(room))]
        room[: len(piece)] = piece
        parser.buffer_updated(len(piece))
        parser.check_invariants()
        position += len(piece)
        turn += 1
        while (frame := parser.next_frame()) is not None:
            frames.append(bytes(frame))
            parser.check_invariants()
    return frames


def test_frames_fed_byte_by_byte_come_out_whole() -> None:
    """The slowest peer of all is understood, too."""
    bodies = [b"", b"a", b"hello" * 20, b"", bytes(range(256)) * 3]

    assert feed(FrameParser(LIMIT), framed(*bodies), [1]) == bodies


@given(
    st.lists(st.integers(0, 300_000) | st.integers(0, 300), max_size=8),
    st.lists(st.integers(1, 400_000) | st.integers(1, 100), min_size=1, max_size=20),
)
def test_frames_come_out_whole_whatever_the_pieces(sizes: list[int], pieces: list[int]) -> None:
    """Small and large frames in any order, in any pieces."""
    bodies = [bytes([index + 1]) * size for index, size in enumerate(sizes)]

    assert feed(FrameParser(LIMIT), framed(*bodies), [*pieces, 1 << 20]) == bodies


def test_large_frame_lies_contiguous_and_reads_stop_at_its_end() -> None:
    """The read after a known large frame cannot take bytes of the next one."""
    parser = FrameParser(LIMIT)
    data = framed(b"x" * 1_000_000)
    room = parser.get_buffer(-1)
    room[:] = data[: len(room)]
    parser.buffer_updated(len(room))

    assert parser.next_frame() is None
    assert len(parser.get_buffer(-1)) == len(data) - len(room)
    assert parser.pending_bytes == len(room)


def test_large_frames_in_a_row_reuse_the_buffer() -> None:
    """A buffer that fits is not made anew for each frame."""
    parser = FrameParser(LIMIT)
    feed(parser, framed(b"x" * 1_000_000), [1 << 20])
    first = parser.get_buffer(-1).obj
    feed(parser, framed(b"y" * 1_000_000, b"z" * 1_000_000), [1 << 20])

    assert parser.get_buffer(-1).obj is first


def test_large_buffer_is_given_back_when_it_is_empty() -> None:
    """One huge request does not cost its memory for the life of the connection."""
    parser = FrameParser(LIMIT)
    feed(parser, framed(b"x" * (KEEP_BYTES_MAX * 2)), [1 << 20])
    parser.get_buffer(-1)

    assert parser.capacity_bytes == READ_BYTES


def test_claim_alone_gets_no_more_than_its_share_of_memory() -> None:
    """A peer that announces eight megabytes and sends ten bytes holds two of them at most."""
    parser = FrameParser(LIMIT)
    feed(parser, LIMIT.to_bytes(4, "big") + b"0123456789", [100])
    parser.get_buffer(-1)

    assert parser.capacity_bytes <= CLAIM_BYTES_MAX + READ_BYTES


def test_frame_of_the_largest_size_is_taken() -> None:
    """The limit itself is allowed."""
    body = b"x" * LIMIT

    assert feed(FrameParser(LIMIT), framed(body), [1 << 20]) == [body]


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x80\x00\x01", b"GET "])
def test_impossible_sizes_are_refused(size: bytes) -> None:
    """Negative, one above the limit, and the beginning of another protocol."""
    with pytest.raises(FrameError):
        feed(FrameParser(LIMIT), size + bytes(10), [3])


def test_frames_are_writable_in_place() -> None:
    """A leader stamps a batch where it was received."""
    parser = FrameParser(LIMIT)
    data = framed(b"hello", b"world")
    parser.get_buffer(-1)[: len(data)] = data
    parser.buffer_updated(len(data))
    frame = parser.next_frame()
    assert frame is not None
    frame[0] = ord("H")

    assert bytes(frame) == b"Hello"
    assert bytes(parser.next_frame() or b"") == b"world"


def test_frames_left_behind_by_a_paused_reader_come_later() -> None:
    """Back-pressure: frames stay in the buffer, more bytes may still come, and the order holds."""
    bodies = [bytes([index]) * 9_000 for index in range(1, 30)]
    data = framed(*bodies)
    parser = FrameParser(LIMIT)
    position = 0
    while position < len(data):
        room = parser.get_buffer(-1)
        assert len(room) > 0
        piece = data[position : position + len(room)]
        room[: len(piece)] = piece
        parser.buffer_updated(len(piece))
        parser.check_invariants()
        position += len(piece)
    frames = []
    while (frame := parser.next_frame()) is not None:
        frames.append(bytes(frame))

    assert frames == bodies


def test_many_frames_of_one_read_are_parsed_without_moving() -> None:
    """Small frames share a read; all are views of the same buffer."""
    parser = FrameParser(LIMIT)
    data = framed(*[b"0123456789"] * 1000)
    parser.get_buffer(-1)[: len(data)] = data
    parser.buffer_updated(len(data))
    frames = []
    while (frame := parser.next_frame()) is not None:
        frames.append(frame)

    assert len(frames) == 1000
    assert {bytes(frame) for frame in frames} == {b"0123456789"}
    assert parser.pending_bytes == 0
