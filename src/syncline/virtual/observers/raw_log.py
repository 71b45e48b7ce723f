"""Partition logs read from the bare files of a simulated disk, without the code that wrote them.

The checks must not trust the storage layer about what it stored, so this is an
independent reader: it reads segment files in the order of their names, batch
after batch, by the first bytes of the batch header.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from syncline.model.ids import TopicPartition
from syncline.virtual.disk.medium import Directory, Inode, Medium

# base offset, length, leader epoch, magic, checksum, attributes, last offset delta
HEADER: Final = struct.Struct(">qiibIhi")
LENGTH_FROM: Final = 12  # the length counts what follows it


class StoredBatch(NamedTuple):
    """A batch as it lies on a disk: its checksum, which covers the records, and fields that it does not cover."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int


def segments(medium: Medium, log_directory: str, key: TopicPartition) -> list[tuple[str, Inode]]:
    """Return the segment files of a partition, oldest first; none if the disk has none."""
    node: object = medium.root
    for name in (*log_directory.strip("/").split("/"), str(key)):
        if not isinstance(node, Directory) or name not in node.names:
            return []
        node = node.names[name]
    assert isinstance(node, Directory)
    return [
        (name, file) for name, file in sorted(node.names.items()) if name.endswith(".log") and isinstance(file, Inode)
    ]


def parse(data: bytes | bytearray, position: int) -> Iterator[tuple[int, int, StoredBatch]]:
    """Yield (position, end position, batch) of the whole batches from `position` on."""
    size = len(data)
    while position + HEADER.size <= size:
        base_offset, length, leader_epoch, _, crc, _, last_offset_delta = HEADER.unpack_from(data, position)
        end = position + LENGTH_FROM + length
        if length <= 0 or end > size:
            return
        yield position, end, StoredBatch(base_offset, base_offset + last_offset_delta + 1, leader_epoch, crc)
        position = end


class RawLog:
    """One replica's log; remembers where it stopped reading, since most reads continue there."""

    def __init__(self, medium: Medium, log_directory: str, key: TopicPartition) -> None:
        self._medium = medium
        self._log_directory = log_directory
        self._key = key
        # The last batch that was read: its file, start, end and contents.
        self._place: tuple[Inode, int, int, StoredBatch] | None = None

    def batches(self, from_offset: int = 0) -> Iterator[StoredBatch]:
        """Yield the batches that end beyond `from_offset`."""
        for file, position in self._start(from_offset):
            for begin, end, batch in parse(file.data, position):
                if batch.next_offset > from_offset:
                    self._place = (file, begin, end, batch)
                    yield batch

    def contents(self, to_offset: int) -> bytes:
        """Return the bytes of all batches that end at or below `to_offset`."""
        parts = []
        for _, file in segments(self._medium, self._log_directory, self._key):
            for position, end, batch in parse(file.data, 0):
                if batch.next_offset <= to_offset:
                    parts.append(bytes(file.data[position:end]))
        return b"".join(parts)

    def _start(self, from_offset: int) -> list[tuple[Inode, int]]:
        """Return the files to read from, each with a position."""
        files = segments(self._medium, self._log_directory, self._key)
        place = self._place
        if place is not None and place[3].next_offset == from_offset:
            for number, (_, file) in enumerate(files):
                # The log may have been cut and rewritten since; then the batch is another one.
                if file is place[0] and next(parse(file.data, place[1]), None) == place[1:]:
                    return [(file, place[2]), *((later, 0) for _, later in files[number + 1 :])]
        # The name of a segment is its first offset; start in the last one that begins at or below.
        first = 0
        for number, (name, _) in enumerate(files):
            if int(name.removesuffix(".log")) <= from_offset:
                first = number
        return [(file, 0) for _, file in files[first:]]
