"""The buffer types that move through the data path.

`collections.abc.Buffer` exists only from Python 3.12 on, so these are unions of
the concrete types. The data path passes views and never copies them.

A `FileRange` stands for bytes that need not even be read: the kernel sends them from where they lie.
"""

from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
WritableBuffer: TypeAlias = bytearray | memoryview


class SendableFile(Protocol):
    """A file whose bytes the kernel can send over a socket."""

    def read(self, position: int, size: int) -> Buffer:
        """Return up to `size` bytes, fewer only at the end of the file."""

    def send(self, socket_descriptor: int, position: int, size: int) -> int:
        """Send up to `size` bytes without reading them; return how many the socket took.

        BlockingIOError if it takes none just now; another OSError if the socket or the file fails.
        """


class FileRange:
    """Bytes of a file, to be sent during the callback that found them: later they may be others."""

    __slots__ = ("_file", "_position", "_size")

    def __init__(self, file: SendableFile, position: int, size: int) -> None:
        self._file = file
        self._position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def send(self, socket_descriptor: int, skip: int) -> int:
        """Send what lies behind the first `skip` bytes, or some of it; return how many bytes the socket took."""
        assert 0 <= skip < self._size, f"{skip} of {self._size} bytes are sent"
        return self._file.send(socket_descriptor, self._position + skip, self._size - skip)

    def read(self, skip: int = 0) -> Buffer:
        """Return what lies behind the first `skip` bytes; EOFError if the file ends before."""
        wanted = self._size - skip
        data = self._file.read(self._position + skip, wanted)
        if len(data) != wanted:
            raise EOFError(f"{wanted} bytes expected at {self._position + skip}, {len(data)} are there")
        return data


# What an answer is made of.
Part: TypeAlias = Buffer | FileRange
