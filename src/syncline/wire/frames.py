"""Frames: a size of four bytes, then that many bytes; parsed in the receive buffer.

One hard idea: most connections have nothing to receive, so they own no buffer. Reads go into a *scratch* buffer that
all connections of a listener share, and whole frames are handled there. What is left at the end of the read is moved
before another connection reads:

    nothing                        no memory
    a piece of a small frame       a copy of its bytes, put in front of the next read
    a piece of a large frame       a buffer of the connection's own, in which reads stop at the frame's end, so that a
                                   batch of a megabyte is contiguous and little of the next frame has to be copied

A frame is large above 64 KiB. Before it gets a buffer, its header is parsed and must be admitted.

Ownership: a frame is a writable view, valid until `keep`, which the connection calls when it has handled the frames
of a read; with `lend` instead, until the next read, which the connection then puts off. A handler may change a frame
(the leader stamps batches in place) and write it to disk, and must copy what it keeps. A connection that stops reading
(back-pressure) may keep whole frames, and take them later.

Memory: a peer may announce a size and never send the bytes, so a buffer grows with what was received, up to 2 MiB, and
stays for the next large frame until `release`, or until 32 reads in a row brought small frames only. A frame of which
more has arrived gets a buffer for all of it, which is freed with it. Beyond 8 MiB that is address space, of which the
system provides pages as they are written.
Sizes are bytes.
"""

import mmap
import struct
from collections.abc import Callable, Sequence
from typing import Final

from syncline.records.buffers import Buffer, Part
from syncline.wire.errors import FrameError
from syncline.wire.primitives import INT32
from syncline.wire.request_header import encode_request_header

SIZE_BYTES: Final = 4
READ_BYTES: Final = 65_536
# An announced size gets so many times the room of the bytes that have arrived: a first read of 64 KiB gets 2 MiB.
CLAIM_FACTOR: Final = 32
# A connection keeps an empty buffer up to this size for its next large frame.
KEEP_BYTES_MAX: Final = 2 << 20
# That many reads in a row with nothing else than small frames say that large ones were an exception.
SMALL_READS_MAX: Final = 32
# For a frame larger than this, pages are mapped. Below, the allocator's recycled memory saves the page faults.
ALLOCATED_BYTES_MAX: Final = 8 << 20
# Below this a copy is cheaper than one more buffer to write.
JOIN_BYTES_MAX: Final = 16_384

_SIZE_AND_HEADER: Final = struct.Struct(">ii")
_SIZE_AND_TAGGED_HEADER: Final = struct.Struct(">iiB")

# Gets the first bytes of a large frame (without its size) and the frame's size; returns False if the header is not
# complete yet, and raises `DecodeError` if the frame is refused.
Admit = Callable[[memoryview, int], bool]


class Scratch:
    """The buffer for the reads of many connections."""

    __slots__ = ("view",)

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_BYTES))

    def give_away(self) -> memoryview:
        """Return the buffer, for one connection alone; the others get a new one."""
        given, self.view = self.view, memoryview(bytearray(READ_BYTES))
        return given


def _admit_all(_head: memoryview, _size_bytes: int) -> bool:
    return True


def _count_nothing(_change_bytes: int) -> None:
    """Ignore how many bytes are held."""


class FrameParser:
    """The received bytes of one connection that are not handled yet.

    `scratch` is shared with connections on the same event loop, or None for a buffer of its own. `count` is told by
    how many bytes the memory that this connection holds has changed.
    """

    __slots__ = (
        "_admit",
        "_count",
        "_end",
        "_frame_bytes_max",
        "_frame_end",
        "_held_bytes",
        "_is_admitted",
        "_is_lent",
        "_own",
        "_rest",
        "_room_end",
        "_scratch",
        "_small_reads",
        "_start",
        "_view",
    )

    def __init__(
        self,
        frame_bytes_max: int,
        scratch: Scratch | None = None,
        *,
        admit: Admit = _admit_all,
        count: Callable[[int], object] = _count_nothing,
    ) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._admit = admit
        self._count = count
        self._scratch = Scratch() if scratch is None else scratch
        # The buffer for large frames.
        self._own: memoryview | None = None
        # How many reads began in it since a frame last needed it.
        self._small_reads = 0
        # A piece of a small frame, outside of any buffer; the next read puts it in front.
        self._rest = b""
        # Unhandled bytes lie from start to end of the view, which is the scratch buffer or this connection's own.
        self._view = self._scratch.view
        self._start = self._end = 0
        # Where the room that `keep` made in the own buffer ends.
        self._room_end = 0
        # Before so much of a large frame has arrived, nothing can be done with it; 0: any byte may be the last.
        self._frame_end = 0
        # Whether the header of the large frame being filled was admitted.
        self._is_admitted = False
        # Whether a handler uses the last frame, so that all bytes stay where they are.
        self._is_lent = False
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """The memory that this connection holds between two reads."""
        return self._held_bytes

    def check_invariants(self) -> None:
        """Assert that no bytes lie in the shared buffer between two reads, and that what is held is counted."""
        assert 0 <= self._start <= self._end <= len(self._view), (
            f"pending from {self._start} to {self._end} in a buffer of {len(self._view)} bytes"
        )
        assert self._view is self._own or self._start == self._end, "unhandled bytes lie in the shared buffer"
        assert not self._rest or self._start == self._end, "a piece of a frame lies outside of the buffer with others"
        assert self._held_bytes == self._own_bytes() + len(self._rest), (
            f"{self._held_bytes} bytes are counted for a buffer of {self._own_bytes()} and {len(self._rest)} more"
        )
        capacity_bytes = 0 if self._own is None else len(self._own)
        frame_bytes_max = SIZE_BYTES + self._frame_bytes_max
        assert capacity_bytes <= max(KEEP_BYTES_MAX, frame_bytes_max) + 2 * READ_BYTES, (
            f"a buffer of {capacity_bytes} bytes for frames of at most {frame_bytes_max}"
        )

    @property
    def pending_bytes(self) -> int:
        """The number of received bytes that are not handed out yet."""
        return len(self._rest) + self._end - self._start

    def get_buffer(self, _size_hint: int = -1) -> memoryview:
        """Return the room for the next bytes, never empty; this invalidates all frames handed out before."""
        if self._is_lent:
            self.keep()
        if self._end > self._start:
            return self._view[self._end : self._room_end]
        if rest := self._rest:
            # They also stay where they are: a read that finds nothing does not call `buffer_updated`.
            size = len(rest)
            self._scratch.view[:size] = rest
            self._view = self._scratch.view
            self._start = self._end = 0
            return self._view[size:]
        self._start = self._end = 0
        if self._own is not None:
            self._small_reads += 1
            if self._small_reads <= SMALL_READS_MAX:
                self._view = self._own
                return self._own[:READ_BYTES]
            self._drop_own()
            self._recount()
        self._view = self._scratch.view
        return self._view

    def buffer_updated(self, received_bytes: int) -> bool:
        """Count bytes that the transport wrote into the room that it got last.

        Returns False if they surely end no frame; then there is nothing to handle, and nothing for `keep` to do.
        """
        if self._rest:
            self._end = len(self._rest)
            self._rest = b""
        self._end += received_bytes
        assert self._end <= len(self._view), "more was received than there was room for"
        return self._end >= self._frame_end

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its size, or None until more bytes arrive.

        Raises FrameError if the size is negative or above the limit; the connection is then unusable.
        """
        start = self._start
        available = self._end - start - SIZE_BYTES
        if available < 0:
            if not self._rest:
                return None
            # Whole frames may have been kept during a pause.
            self._restore()
            start = 0
            available = self._end - SIZE_BYTES
            if available < 0:
                return None
        (size,) = INT32.unpack_from(self._view, start)
        if size > available:
            if size > self._frame_bytes_max:
                raise FrameError(f"a frame of {size} bytes is announced, {self._frame_bytes_max} are allowed")
            return None
        if size < 0 or size > self._frame_bytes_max:
            raise FrameError(f"a frame of {size} bytes is announced, 0 to {self._frame_bytes_max} are allowed")
        start += SIZE_BYTES
        self._start = end = start + size
        self._is_admitted = False
        return self._view[start:end]

    def keep(self) -> None:
        """Free the shared buffer: move unhandled bytes out of it, and make room for more of a large frame.

        Raises `DecodeError` if a large frame is refused.
        """
        self._is_lent = False
        self._frame_end = 0
        pending = self._end - self._start
        if not pending and not self._held_bytes:
            return
        if pending:
            granted = self._granted_bytes(pending)
            if granted <= READ_BYTES and pending < READ_BYTES:
                self._rest = bytes(self._view[self._start : self._end])
                self._start = self._end = 0
            else:
                # A paused reader may have left whole frames behind; there must still be room for other bytes.
                self._make_room(pending, granted if granted > pending else pending + READ_BYTES)
                # Of mapped pages, each read is counted.
                if granted > pending and self._own is not None and len(self._own) <= ALLOCATED_BYTES_MAX:
                    # A frame that gets its room in two steps gets the second when half of the first is filled.
                    first = self._room_end if pending >= KEEP_BYTES_MAX // 2 else self._start + KEEP_BYTES_MAX // 2
                    self._frame_end = min(self._room_end, first)
        own = self._own
        if own is not None and self._start == self._end and len(own) > KEEP_BYTES_MAX:
            self._drop_own()
        self._recount()

    def lend(self) -> None:
        """Leave all bytes where they are, instead of `keep`: a handler uses the last frame until the next read."""
        if self._view is self._scratch.view:
            self._own = self._view = self._scratch.give_away()
        self._is_lent = True
        self._recount()

    def release(self) -> None:
        """Free an empty buffer, which was kept for another large frame."""
        if not self._is_lent and self._own is not None and self._start == self._end:
            self._drop_own()
            self._recount()

    def clear(self) -> None:
        """Free everything: the connection is closed."""
        self._rest = b""
        self._start = self._end = self._frame_end = 0
        self._drop_own()
        self._recount()

    def _granted_bytes(self, pending: int) -> int:
        """Return how much room the frame that begins at `_start` gets for all of its bytes and its size."""
        if pending < SIZE_BYTES:
            return SIZE_BYTES
        (size,) = INT32.unpack_from(self._view, self._start)
        wanted = SIZE_BYTES + min(max(int(size), 0), self._frame_bytes_max)
        if wanted > READ_BYTES and not self._is_admitted:
            self._is_admitted = self._admit(self._view[self._start + SIZE_BYTES : self._end], wanted - SIZE_BYTES)
            if not self._is_admitted:
                if pending >= READ_BYTES:
                    raise FrameError(f"the header of a frame does not end within {pending} bytes")
                return READ_BYTES
        if wanted > KEEP_BYTES_MAX and pending < KEEP_BYTES_MAX // 2:
            return min(CLAIM_FACTOR * pending, KEEP_BYTES_MAX)
        return wanted

    def _make_room(self, pending: int, granted: int) -> None:
        """Have the unhandled bytes in the own buffer, with room for more of their frame."""
        self._small_reads = 0
        own = self._own
        kept = self._view[self._start : self._end]
        if own is None or granted > len(own):
            # A new object, never a resized one: the transport may still have a view of the old one.
            own = self._own = _new_buffer(-(-granted // READ_BYTES) * READ_BYTES)
            own[:pending] = kept
        elif self._view is not own or self._start + granted > len(own):
            own[:pending] = kept
        else:
            self._room_end = self._start + granted
            return
        self._view = own
        self._start, self._end = 0, pending
        self._room_end = granted

    def _restore(self) -> None:
        rest, self._rest = self._rest, b""
        self._scratch.view[: len(rest)] = rest
        self._view = self._scratch.view
        self._start, self._end = 0, len(rest)

    def _drop_own(self) -> None:
        self._own = None
        self._view = self._scratch.view
        self._start = self._end = 0

    def _own_bytes(self) -> int:
        """Return the memory of the own buffer: of mapped pages, those that were written."""
        if self._own is None:
            return 0
        capacity_bytes = len(self._own)
        return capacity_bytes if capacity_bytes <= ALLOCATED_BYTES_MAX else self._end

    def _recount(self) -> None:
        held_bytes = len(self._rest) + self._own_bytes()
        if held_bytes != self._held_bytes:
            change_bytes = held_bytes - self._held_bytes
            self._held_bytes = held_bytes
            self._count(change_bytes)


def _new_buffer(size_bytes: int) -> memoryview:
    if size_bytes <= ALLOCATED_BYTES_MAX:
        return memoryview(bytearray(size_bytes))
    return memoryview(mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def frame_request(
    key: int, version: int, correlation_id: int, client_id: str | None, parts: Sequence[Buffer]
) -> list[Buffer]:
    """Return a whole request as buffers to be written in order."""
    header = encode_request_header(key, version, correlation_id, client_id)
    size = len(header)
    for part in parts:
        size += len(part)
    head = INT32.pack(size) + header
    return [b"".join([head, *parts])] if size < JOIN_BYTES_MAX else [head, *parts]


def frame_response(correlation_id: int, header_version: int, parts: Sequence[Part]) -> list[Part]:
    """Return a whole answer as parts to be written in order."""
    # The header is the correlation id and, in its newer version, the number of tagged fields.
    size = INT32.size + header_version
    for part in parts:
        size += len(part)
    if header_version:
        head = _SIZE_AND_TAGGED_HEADER.pack(size, correlation_id, 0)
    else:
        head = _SIZE_AND_HEADER.pack(size, correlation_id)
    if size < JOIN_BYTES_MAX:
        # What lies in a file is larger.
        return [b"".join([head, *parts])]  # type: ignore[list-item]
    return [head, *parts]
