"""Frames: the same frames come out, however the bytes come in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.wire.errors import FrameError
from syncline.wire.frames import CLAIM_FACTOR, KEEP_BYTES_MAX, READ_BYTES, SMALL_READS_MAX, FrameParser, Scratch

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
        may_end_a_frame = parser.buffer_updated(len(piece))
        position += len(piece)
        turn += 1
        if not may_end_a_frame:
            parser.check_invariants()
            continue
        while (frame := parser.next_frame()) is not None:
            frames.append(bytes(frame))
        parser.keep()
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
    parser.keep()
    assert len(parser.get_buffer(-1)) == len(data) - len(room)
    assert parser.pending_bytes == len(room)


def test_reads_within_a_large_frame_need_no_look() -> None:
    """Guards: a batch of a megabyte comes in several reads, and each was handled as if it might end a request."""
    parser = FrameParser(LIMIT)
    data = framed(b"x" * 1_000_000, b"y")
    position, looks = 0, []
    while position < len(data):
        room = parser.get_buffer(-1)
        piece = data[position : position + min(100_000, len(room))]
        room[: len(piece)] = piece
        position += len(piece)
        looks.append(parser.buffer_updated(len(piece)))
        if looks[-1]:
            while parser.next_frame() is not None:
                pass
            parser.keep()
        parser.check_invariants()

    assert looks == [True, *[False] * 9, True, True]


def test_each_read_of_a_frame_in_mapped_pages_is_counted() -> None:
    """Of such a buffer, what was written counts as held, while it is being filled."""
    changes: list[int] = []
    parser = FrameParser(64 << 20, count=changes.append)
    data = framed(b"x" * (32 << 20))
    position = 0
    while position < len(data):
        room = parser.get_buffer(-1)
        piece = data[position : position + min(READ_BYTES, len(room))]
        room[: len(piece)] = piece
        position += len(piece)
        if parser.buffer_updated(len(piece)):
            parser.next_frame()
            parser.keep()
        assert sum(changes) == parser.held_bytes <= max(position, KEEP_BYTES_MAX)


def test_frames_that_a_paused_reader_keeps_are_seen_at_the_next_read() -> None:
    """Guards: two whole frames were kept, and what came behind them was taken for a piece of a large one."""
    parser = FrameParser(LIMIT)
    data = framed(b"x" * 40_000, b"y" * 40_000, b"z" * 200_000)
    position, looks = 0, []
    while position < len(data):
        room = parser.get_buffer(-1)
        piece = data[position : position + min(30_000, len(room))]
        room[: len(piece)] = piece
        position += len(piece)
        looks.append(parser.buffer_updated(len(piece)))
        # Nothing is taken: the reader has paused, and bytes that were on their way still come.
        parser.keep()
        parser.check_invariants()

    assert all(looks)
    assert [len(frame) for frame in iter(parser.next_frame, None)] == [40_000, 40_000, 200_000]


def test_a_cleared_parser_expects_no_frame() -> None:
    """What a connection that is closed still gets is no piece of what it was getting."""
    parser = FrameParser(LIMIT)
    piece = framed(b"x" * 1_000_000)[:READ_BYTES]
    room = parser.get_buffer(-1)
    room[: len(piece)] = piece
    parser.buffer_updated(len(piece))
    parser.keep()
    parser.get_buffer(-1)[:1] = b"x"
    assert not parser.buffer_updated(1)
    parser.clear()

    parser.get_buffer(-1)[:5] = framed(b"a")
    assert parser.buffer_updated(5)
    assert parser.next_frame() == b"a"


def test_large_frames_in_a_row_reuse_the_buffer() -> None:
    """A buffer that fits is not made anew for each frame."""
    parser = FrameParser(LIMIT)
    feed(parser, framed(b"x" * 1_000_000), [1 << 20])
    first = parser.get_buffer(-1).obj
    feed(parser, framed(b"y" * 1_000_000, b"z" * 1_000_000), [1 << 20])

    assert parser.get_buffer(-1).obj is first


def test_large_buffer_is_given_back_when_it_is_empty() -> None:
    """One huge request does not cost its memory for the life of the connection, nor until its next one."""
    parser = FrameParser(LIMIT)
    feed(parser, framed(b"x" * (KEEP_BYTES_MAX * 2)), [1 << 20])

    assert parser.held_bytes == 0


def test_buffer_for_large_frames_is_given_back_on_request() -> None:
    """A connection keeps the buffer of its last large frame only as long as it may send more of them."""
    parser = FrameParser(LIMIT)
    feed(parser, framed(b"x" * 1_000_000), [1 << 20])
    kept_bytes = parser.held_bytes
    parser.release()
    parser.check_invariants()

    assert 1_000_000 < kept_bytes < 1_200_000
    assert parser.held_bytes == 0


def test_buffer_for_large_frames_is_given_back_after_many_small_ones() -> None:
    """Connections between brokers are never idle, and were never asked: one large image kept two megabytes each."""
    parser = FrameParser(LIMIT)
    feed(parser, framed(b"x" * 1_000_000), [1 << 20])
    held_bytes = []
    for _ in range(SMALL_READS_MAX + 1):
        held_bytes.append(parser.held_bytes)
        feed(parser, framed(b"heartbeat"), [1 << 20])
    parser.check_invariants()

    assert min(held_bytes) > 1_000_000
    assert parser.held_bytes == 0


def test_large_frames_between_small_ones_reuse_the_buffer() -> None:
    """Each of them says that there may be more."""
    parser = FrameParser(LIMIT)
    buffers = set()
    for _ in range(3):
        feed(parser, framed(b"x" * 1_000_000), [1 << 20])
        buffers.add(id(parser.get_buffer(-1).obj))
        for _ in range(SMALL_READS_MAX - 5):
            feed(parser, framed(b"heartbeat"), [1 << 20])

    assert len(buffers) == 1


def test_buffer_with_a_piece_of_a_frame_is_not_given_back() -> None:
    """What was received stays, whoever asks for the memory."""
    parser = FrameParser(LIMIT)
    feed(parser, framed(b"x" * 1_000_000)[:500_000], [1 << 20])
    parser.release()

    assert feed(parser, framed(b"x" * 1_000_000)[500_000:], [1 << 20]) == [b"x" * 1_000_000]


def test_connections_without_a_large_frame_own_no_buffer() -> None:
    """Between two reads a connection holds what it received of a small frame, and nothing else."""
    scratch = Scratch()
    parsers = [FrameParser(LIMIT, scratch) for _ in range(3)]
    held_bytes = [parser.held_bytes for parser in parsers]
    for parser in parsers:
        feed(parser, framed(b"whole", b"x" * 1_000)[:200], [100])

    assert held_bytes == [0, 0, 0]
    assert [parser.held_bytes for parser in parsers] == [200 - len(framed(b"whole"))] * 3


@given(st.data())
def test_frames_of_connections_that_share_a_buffer_come_out_whole(data: st.DataObject) -> None:
    """Their reads take turns in any order, and some reads find nothing."""
    scratch = Scratch()
    sizes = st.lists(st.integers(0, 200_000) | st.integers(0, 300), max_size=5)
    bodies = [[bytes([65 + index]) * size for size in data.draw(sizes)] for index in range(3)]
    unsent = [framed(*each) for each in bodies]
    parsers = [FrameParser(LIMIT, scratch) for _ in range(3)]
    frames: list[list[bytes]] = [[], [], []]
    while any(unsent):
        index = data.draw(st.sampled_from([index for index in range(3) if unsent[index]]))
        parsers[data.draw(st.integers(0, 2))].get_buffer(-1)
        piece, unsent[index] = unsent[index][:70_000], unsent[index][70_000:]
        frames[index] += feed(parsers[index], piece, [data.draw(st.integers(1, 70_000))])

    assert frames == bodies


def test_frame_that_is_lent_stays_valid_until_the_next_read() -> None:
    """A handler may use the last frame while other connections read; bytes behind it are handled afterwards."""
    scratch = Scratch()
    parser, other = FrameParser(LIMIT, scratch), FrameParser(LIMIT, scratch)
    data = framed(b"slow", b"next", b"third")[:-2]
    parser.get_buffer()[: len(data)] = data
    parser.buffer_updated(len(data))
    frame = parser.next_frame()
    parser.lend()
    parser.check_invariants()
    parser.release()
    feed(other, framed(b"x" * 100), [100])
    lent = bytes(frame or b"")
    held_bytes = parser.held_bytes
    frames = [bytes(parser.next_frame() or b"")]
    parser.keep()
    frames += feed(parser, b"rd", [2])

    assert lent == b"slow"
    assert held_bytes == READ_BYTES
    assert frames == [b"next", b"third"]


def test_lent_bytes_make_room_when_a_read_comes_first() -> None:
    """The transport may read again before the frames that were left are handled."""
    parser = FrameParser(LIMIT, Scratch())
    data = framed(*[b"0123456789"] * 5_000)[:READ_BYTES]
    parser.get_buffer()[:] = data
    parser.buffer_updated(len(data))
    first = parser.next_frame()
    parser.lend()
    room = parser.get_buffer()

    assert first is not None
    assert len(room) > 0
    parser.check_invariants()


def test_what_is_held_is_counted() -> None:
    """The changes add up to what the connection holds: pieces, buffers, and nothing at the end."""
    changes: list[int] = []
    parser = FrameParser(LIMIT, Scratch(), count=changes.append)
    feed(parser, framed(b"x" * 1_000)[:300], [100])
    piece_bytes = sum(changes)
    feed(parser, framed(b"x" * 1_000)[300:] + framed(b"y" * 3_000_000)[:2_500_000], [1 << 20])
    buffer_bytes = sum(changes)
    parser.clear()

    assert piece_bytes == 300
    assert 3_000_000 <= buffer_bytes <= 3_200_000
    assert sum(changes) == 0


def test_large_frame_gets_no_buffer_before_its_header_is_admitted() -> None:
    """Until the first bytes say which request it is, they are kept as those of a small frame."""
    asked: list[tuple[int, int]] = []

    def admit(head: memoryview, size_bytes: int) -> bool:
        asked.append((len(head), size_bytes))
        return len(head) >= 100

    parser = FrameParser(LIMIT, Scratch(), admit=admit)
    data = framed(b"x" * 1_000_000)
    feed(parser, data[:80], [40])
    early_bytes = parser.held_bytes
    feed(parser, data[80:300_000], [120, 1 << 20])

    assert early_bytes == 80
    assert 300_000 < parser.held_bytes < 1_100_000
    assert asked == [(36, 1_000_000), (76, 1_000_000), (196, 1_000_000)]


def test_large_frame_is_refused_when_its_header_does_not_end() -> None:
    """A header longer than the shared buffer is nothing that a client sends."""
    parser = FrameParser(LIMIT, Scratch(), admit=lambda _head, _size: False)

    with pytest.raises(FrameError, match="the header of a frame does not end"):
        feed(parser, framed(b"x" * 1_000_000), [10_000])


def test_claim_alone_gets_no_memory() -> None:
    """A peer that announces eight megabytes and sends ten bytes holds those; with more, some times as much."""
    parser = FrameParser(LIMIT)
    feed(parser, LIMIT.to_bytes(4, "big") + b"0123456789", [100])
    claim_bytes = parser.held_bytes
    feed(parser, bytes(9_986), [100])

    assert claim_bytes == 14
    assert parser.held_bytes <= CLAIM_FACTOR * 10_000 + READ_BYTES


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
        parser.keep()
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
