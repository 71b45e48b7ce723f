"""Frames: a size of four bytes, then that many bytes; parsed in the receive buffer.

One hard idea: how much is read at a time decides whether bytes must be moved.
While frames are small, a read takes up to 64 KB, and many frames are parsed from
one read. Once the size of a large frame is known, reads stop at its end, so that
a batch of a megabyte is contiguous and never moved, and little of the next frame
has to be copied to the front.

Ownership: a frame is a writable view of the receive buffer, valid until the
next `get_buffer`, which a transport calls before it reads again. A handler may
change it (the leader stamps batches in place) and write it to disk, and must copy
what it keeps. A connection that stops reading (back-pressure) may leave whole
frames in the buffer and take them later.

Memory: a peer may announce a size and never send the bytes, so the buffer grows
with what was received, at most doubling, and never beyond the largest frame
allowed. An empty large buffer is freed if the next frame is small. Sizes are
bytes.
"""

from collections.abc import Sequence
from typing import Final

from syncline.records.buffers import Buffer
from syncline.wire.errors import FrameError
from syncline.wire.primitives import INT32
from syncline.wire.request_header import encode_request_header
from syncline.wire.response_header import encode_response_header

SIZE_BYTES: Final = 4
READ_BYTES: Final = 65_536
# An announced size alone gets at most this much room; for more, bytes must have arrived.
CLAIM_BYTES_MAX: Final = 2 << 20
# An empty buffer larger than this is exchanged for a small one.
KEEP_BYTES_MAX: Final = 2 << 20
# Below this a copy is cheaper than one more buffer to write.
JOIN_BYTES_MAX: Final = 16_384


class FrameParser:
    """The receive buffer of one connection."""

    __slots__ = ("_buffer", "_end", "_frame_bytes_max", "_start", "_view")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._start = self._end = 0
        self._replace(READ_BYTES, 0)

    @property
    def capacity_bytes(self) -> int:
        """The size of the buffer."""
        return len(self._buffer)

    def check_invariants(self) -> None:
        """Assert that the positions in the buffer are consistent, and that it is no larger than the largest frame."""
        assert 0 <= self._start <= self._end <= len(self._buffer), (
            f"pending from {self._start} to {self._end} in a buffer of {len(self._buffer)} bytes"
        )
        frame_bytes_max = SIZE_BYTES + self._frame_bytes_max
        assert len(self._buffer) <= max(CLAIM_BYTES_MAX, frame_bytes_max) + READ_BYTES, (
            f"a buffer of {len(self._buffer)} bytes for frames of at most {frame_bytes_max}"
        )
        assert self._view.obj is self._buffer, "frames are views of another buffer"

    @property
    def pending_bytes(self) -> int:
        """The number of received bytes that are not handed out yet."""
        return self._end - self._start

    def get_buffer(self, _size_hint: int = -1) -> memoryview:
        """Return the room for the next bytes, never empty; this invalidates all frames handed out before."""
        pending = self._end - self._start
        if pending == 0:
            self._start = self._end = 0
            if len(self._buffer) > KEEP_BYTES_MAX:
                self._replace(READ_BYTES, 0)
            return self._view[:READ_BYTES]
        wanted = self._frame_end() - self._start
        if wanted <= READ_BYTES:
            return self._room_for_small(pending, wanted)
        return self._room_for_large(pending, wanted)

    def buffer_updated(self, received_bytes: int) -> None:
        """Count bytes that the transport wrote into the room that it got last."""
        self._end += received_bytes
        assert self._end <= len(self._buffer), "more was received than there was room for"

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its size, or None until more bytes arrive.

        Raises FrameError if the size is negative or above the limit; the connection is then unusable.
        """
        start = self._start
        available = self._end - start - SIZE_BYTES
        if available < 0:
            return None
        (size,) = INT32.unpack_from(self._buffer, start)
        if size > available:
            if size > self._frame_bytes_max:
                raise FrameError(f"a frame of {size} bytes is announced, {self._frame_bytes_max} are allowed")
            return None
        if size < 0 or size > self._frame_bytes_max:
            raise FrameError(f"a frame of {size} bytes is announced, 0 to {self._frame_bytes_max} are allowed")
        start += SIZE_BYTES
        self._start = end = start + size
        return self._view[start:end]

    def _frame_end(self) -> int:
        """Return the end of the frame that begins at `_start`, as far as it is known."""
        if self._end - self._start < SIZE_BYTES:
            return self._start + SIZE_BYTES
        (size,) = INT32.unpack_from(self._buffer, self._start)
        return self._start + SIZE_BYTES + min(max(int(size), 0), self._frame_bytes_max)

    def _room_for_small(self, pending: int, wanted: int) -> memoryview:
        missing = max(wanted - pending, 1)
        room = len(self._buffer) - self._end
        # Little room would mean many short reads; the pending bytes are few and cheap to move.
        if room < missing or (room < READ_BYTES // 4 and self._start > 0):
            self._move_to_front(pending + missing)
        return self._view[self._end : self._end + READ_BYTES]

    def _room_for_large(self, pending: int, wanted: int) -> memoryview:
        granted = min(wanted, max(2 * pending, CLAIM_BYTES_MAX))
        # A paused reader may have left a whole frame behind; there must still be room for one byte.
        granted = max(granted, pending + 1)
        if self._start + granted > len(self._buffer):
            self._move_to_front(granted)
        return self._view[self._end : self._start + granted]

    def _move_to_front(self, capacity: int) -> None:
        """Move the pending bytes to the beginning of a buffer of at least `capacity`."""
        pending = self._end - self._start
        if capacity > len(self._buffer):
            kept = self._view[self._start : self._end]
            self._replace(capacity, pending)
            self._view[:pending] = kept
        else:
            self._view[:pending] = self._view[self._start : self._end]
            self._start, self._end = 0, pending

    def _replace(self, capacity: int, pending: int) -> None:
        # A new object, never a resized one: the transport and frames may still have views of the old one.
        self._buffer = bytearray(-(-capacity // READ_BYTES) * READ_BYTES)
        self._view = memoryview(self._buffer)
        self._start, self._end = 0, pending


def frame_request(
    key: int, version: int, correlation_id: int, client_id: str | None, parts: Sequence[Buffer]
) -> list[Buffer]:
    """Return a whole request as buffers to be written in order."""
    return _frame(encode_request_header(key, version, correlation_id, client_id), parts)


def frame_response(correlation_id: int, header_version: int, parts: Sequence[Buffer]) -> list[Buffer]:
    """Return a whole answer as buffers to be written in order."""
    return _frame(encode_response_header(correlation_id, header_version), parts)


def _frame(header: bytes, parts: Sequence[Buffer]) -> list[Buffer]:
    size = len(header)
    for part in parts:
        size += len(part)
    head = INT32.pack(size) + header
    if size < JOIN_BYTES_MAX:
        return [b"".join((head, *parts))]
    return [head, *parts]
