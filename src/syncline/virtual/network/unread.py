"""Connections over which files are sent unread, as `sendfile` does over Unix domain sockets: what arrives is late.

The kernel passes on pages of the file, not copies. Until the receiver reads them, a cut of the file may clear them, and
what is written then may replace them; or the kernel keeps the old page for the receiver, and gives the file a new one.
Which of the two happens is drawn for each piece of a file, since the size of what the kernel keeps together differs.
"""

import errno
import random
from collections.abc import Callable
from typing import Final, TypeAlias

from syncline.records.batch import HEADER_BYTES, OVERHEAD_BYTES
from syncline.virtual.disk.medium import Inode
from syncline.virtual.network.transport import VirtualTransport

# The kernel keeps this much of a file together, or more.
PAGE_BYTES: Final = 4_096
# So often a socket takes a part only, although it has room.
SHORT_PROBABILITY: Final = 0.05

# Makes what a protocol sends files with: of the connection, its descriptor, and what writes to it at once.
MakeSender: TypeAlias = Callable[[VirtualTransport, int, Callable[[int, memoryview], int]], object]


class Pages:
    """Bytes of a file on their way; they are what the file has when they are read."""

    __slots__ = ("_position", "_sent", "_unread", "inode")

    def __init__(self, unread: "UnreadFiles", inode: Inode, position: int, sent: bytes) -> None:
        self._unread = unread
        self.inode = inode
        self._position = position
        self._sent = sent

    def __len__(self) -> int:
        return len(self._sent)

    def __getitem__(self, places: slice) -> "Pages":
        start, _, _ = places.indices(len(self._sent))
        return Pages(self._unread, self.inode, self._position + start, self._sent[places])

    def read(self) -> bytes:
        """Return what the receiver finds."""
        size = len(self._sent)
        now = bytes(self.inode.data[self._position : self._position + size]).ljust(size, b"\0")
        if now == self._sent:
            return now
        self._unread.changed += 1
        rng = self._unread.rng
        if rng.random() < 0.5:
            # A receiver may stop in the midst of a header, and read the rest later.
            place = rng.choice(self._batch_starts()) + rng.randint(0, HEADER_BYTES)
            first, rest = (self._sent, now) if rng.random() < 0.8 else (now, self._sent)
            return first[:place] + rest[place:]
        # Pages that the kernel keeps together change together.
        together = rng.choice((PAGE_BYTES, 16 * PAGE_BYTES, 1 << 30))
        found = bytearray()
        while len(found) < size:
            at = len(found)
            end = min(size, at + together - (self._position + at) % together)
            found += rng.choice((self._sent, now))[at:end]
        return bytes(found)

    def _batch_starts(self) -> list[int]:
        """Return where batches begin in what was sent, if it begins with one."""
        starts, place = [0], 0
        while place + OVERHEAD_BYTES < len(self._sent):
            place += OVERHEAD_BYTES + max(0, int.from_bytes(self._sent[place + 8 : place + OVERHEAD_BYTES]))
            starts.append(min(place, len(self._sent)))
        return starts


class UnreadFiles:
    """The connections of one network over which files are sent unread."""

    def __init__(self, rng: random.Random, window_bytes: int) -> None:
        self.rng = rng
        self._window_bytes = window_bytes
        self._ends: list[VirtualTransport] = []
        # How often files were sent unread, and had changed when they were read.
        self.sent = 0
        self.changed = 0

    def sender_of(self, end: VirtualTransport, make: MakeSender) -> object:
        """Return what a protocol sends files with over this end."""
        self._ends.append(end)
        return make(end, len(self._ends) - 1, self._write)

    def _write(self, descriptor: int, data: memoryview) -> int:
        """Write what the socket takes at once; return how many bytes that were."""
        end = self._ends[descriptor]
        taken = self._room(end, len(data))
        end.outgoing.send(bytes(data[:taken]))
        return taken

    def send(self, descriptor: int, inode: Inode, position: int, size: int) -> int:
        """Send what the socket takes at once of a file; return how many bytes that were."""
        end = self._ends[descriptor]
        there = bytes(inode.data[position : position + size])
        if not there:
            return 0
        taken = self._room(end, len(there))
        end.outgoing.send(Pages(self, inode, position, there[:taken]))
        self.sent += 1
        return taken

    def _room(self, end: VirtualTransport, wanted: int) -> int:
        """Return how much of this a socket takes; BlockingIOError if nothing."""
        if end.is_closing():
            raise BrokenPipeError(errno.EPIPE, "the connection is closed")
        room = min(wanted, self._window_bytes - end.outgoing.in_flight_bytes)
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "the socket is full")
        return self.rng.randint(1, room) if self.rng.random() < SHORT_PROBABILITY else room
