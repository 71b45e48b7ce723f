"""One offset per partition: what is in memory, on its way to the file, and in it.

One hard idea: entries that were handed to a worker may or may not be on the disk.
Until the worker is done, the file holds either the older entries or the newer
ones, so questions about the disk look at both.

Units: offsets, as in `log.py`.
"""

from collections.abc import Container, Iterable, Mapping

from syncline.model.ids import Offset, TopicPartition
from syncline.storage.checkpoints.formats import CheckpointFile, decode_offsets, encode_offsets
from syncline.storage.disk import Disk


class OffsetCheckpoint:
    """One offset per partition, in memory as it is on the disk."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._file = CheckpointFile(disk, path)
        # The entries last handed over for writing, and those that are surely on the disk.
        self._written: dict[TopicPartition, Offset] = {}
        self._arrived: dict[TopicPartition, Offset] = {}
        self._is_writing = False

    def load(self) -> None:
        """Read the file. Raises CheckpointError when it is damaged."""
        self._written = self._arrived = decode_offsets(self._file.path, self._file.read())

    def of(self, key: TopicPartition) -> Offset:
        """Return the offset last written for a partition, 0 if there is none."""
        return self._written.get(key, Offset(0))

    def on_disk(self) -> list[tuple[TopicPartition, Offset]]:
        """Return every entry that is surely on the disk."""
        return list(self._arrived.items())

    def is_on_disk(self, key: TopicPartition) -> bool:
        """Return whether the file may have an entry above 0 for the partition."""
        return self._arrived.get(key, 0) > 0 or self._written.get(key, 0) > 0

    def has_others(self, *known: Container[TopicPartition]) -> bool:
        """Return whether an entry above 0 is surely on the disk for a partition that is in none of `known`."""
        return any(offset > 0 and not any(key in each for each in known) for key, offset in self._arrived.items())

    def write(self, offsets: dict[TopicPartition, Offset], kept: Mapping[TopicPartition, str], *, later: bool) -> None:
        """Replace the entries; keep those of the `kept` partitions."""
        offsets.update((key, self._written[key]) for key in kept if key in self._written)
        if offsets == self._arrived == self._written or (later and self._is_writing):
            return
        self._written = offsets
        if not later:
            self._file.write(encode_offsets(offsets))
            self._arrived = offsets
            return
        self._is_writing = True
        # Nobody changes entries that were handed over, and to encode those of thousands takes milliseconds.
        self._file.write_later(lambda: encode_offsets(offsets), lambda error: self._finished(offsets, error))

    def _finished(self, offsets: dict[TopicPartition, Offset], error: Exception | None) -> None:
        """Record the outcome of a background write; the next checkpoint repeats a failed one."""
        self._is_writing = False
        if error is None and offsets is self._written:
            self._arrived = offsets

    def check_at_most(self, offsets: Iterable[tuple[TopicPartition, Offset]]) -> None:
        """Assert that the file promises at most `offsets`, whichever entries are on the disk."""
        for key, offset in offsets:
            promised = max(self._written.get(key, 0), self._arrived.get(key, 0))
            assert promised <= offset, f"{self._file.path} promises offset {promised} of {key}, true is {offset}"
