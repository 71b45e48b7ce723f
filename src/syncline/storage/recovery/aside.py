"""Logs set aside: the directories of damaged logs, kept until their replacements are in sync.

    <topic>-<partition>.<n>-aside/    a damaged log as it was found, with a note (`damage_note.py`)

One hard idea: what is damaged in one place is sound in all others, and may be the
last copy of them. So a damaged log loses its name, which a new copy takes, but no
byte, until the node has seen that the new copy holds all that it held.

If a directory has been set aside and nothing has its name, the process ended
between the two: the next start gives the name back, and the note keeps the log
from being served.

Apache Kafka does not know the suffix: it refuses to start on such a name, and
loads nothing, which is right for a log that must not be served.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from syncline.model.ids import TopicPartition
from syncline.storage.checkpoints.formats import METADATA_FILE, decode_partition_metadata
from syncline.storage.disk import Disk
from syncline.storage.errors import StorageError, is_refusal
from syncline.storage.recovery.damage_note import DamageNote, read_note, write_note
from syncline.storage.recovery.salvage import Tail, bases_of
from syncline.storage.segments.segment import LOG_SUFFIX

ASIDE_SUFFIX: Final = "-aside"
NAME_CHARACTERS_MAX: Final = 255


@dataclass(slots=True)
class AsideLog:
    """One log set aside."""

    path: str
    note: DamageNote
    # None if no readable file contains it.
    topic_id: UUID | None
    size_bytes: int
    # Its last sound batch that may have been acknowledged, None if there is none; known when a worker has looked.
    tail: Tail | None = None
    is_surveyed: bool = False

    @property
    def key(self) -> TopicPartition:
        """The partition whose log it was."""
        return self.note.key


class AsideLogs:
    """All logs set aside in one data directory."""

    def __init__(self, disk: Disk, root: str, partition_of: Callable[[str], TopicPartition | None]) -> None:
        self._disk = disk
        self._root = root
        self._partition_of = partition_of
        self._logs: list[AsideLog] = []

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[AsideLog]:
        return iter(tuple(self._logs))

    @property
    def size_bytes(self) -> int:
        """The size of all log files set aside."""
        return sum(each.size_bytes for each in self._logs)

    def load(self, names: Sequence[str]) -> list[str]:
        """Learn which of the directory's names are logs set aside; return the names of logs as they are from now on.

        A log whose place is empty gets its name back, the newest if there are several.
        """
        names = list(names)
        for name in [each for each in names if each.endswith(ASIDE_SUFFIX)]:
            path = f"{self._root}/{name}"
            key = self._partition_of(name.removesuffix(ASIDE_SUFFIX).rpartition(".")[0])
            note = read_note(self._disk, path, key)
            # Without a note it was not set aside by a broker; it stays, and counts for nothing.
            if note is not None:
                self._logs.append(self._look_at(path, path, note))
        for key in dict.fromkeys(each.key for each in self._logs):
            if str(key) not in names:
                newest = max((each for each in self._logs if each.key == key), key=lambda each: _number(each.path))
                self._disk.rename(newest.path, f"{self._root}/{key}")
                self._disk.sync_directory(self._root)
                self._logs.remove(newest)
                names.append(str(key))
        return names

    def put(self, directory: str, note: DamageNote) -> AsideLog:
        """Set a log's directory aside. Raises OSError or StorageError; the log then still has its name."""
        if not self._disk.exists(directory):
            raise StorageError(f"Cannot set {directory} aside: it is not there")
        assert all(each.path != directory for each in self._logs), f"{directory} is set aside already"
        write_note(self._disk, directory, note)
        number = 1 + max((_number(each.path) for each in self._logs if each.key == note.key), default=-1)
        while self._disk.exists(path := f"{self._root}/{_name(note.key, number)}"):
            number += 1
        known = self._look_at(directory, path, note)
        self._disk.rename(directory, path)
        self._logs.append(known)
        try:
            self._disk.sync_directory(self._root)
        except OSError as error:
            # The new copy promises nothing before it has synced the names beside it, and this one among them.
            if not is_refusal(error):
                raise
        return known

    def _look_at(self, place: str, path: str, note: DamageNote) -> AsideLog:
        """Describe the log in the directory `place`, as one in `path`."""
        size_bytes = 0
        for base_offset in bases_of(self._disk, place):
            file = self._disk.open(f"{place}/{base_offset:020d}{LOG_SUFFIX}")
            size_bytes += file.size_bytes
            file.close()
        try:
            topic_id = decode_partition_metadata(self._disk.read_file(f"{place}/{METADATA_FILE}"))
        except FileNotFoundError:
            topic_id = None
        return AsideLog(path, note, topic_id, size_bytes)

    def forget(self, log: AsideLog) -> None:
        """Forget a log that was deleted."""
        assert not self._disk.exists(log.path), f"{log.path} is forgotten, and still there"
        self._logs.remove(log)

    def check_invariants(self) -> None:
        """Assert that no directory is listed twice."""
        paths = [each.path for each in self._logs]
        assert len(set(paths)) == len(paths), f"set aside twice: {paths}"
        assert all(each.path.endswith(ASIDE_SUFFIX) for each in self._logs), f"not set aside: {paths}"


def _name(key: TopicPartition, number: int) -> str:
    """Return the name of a directory set aside; a long one is shortened, and the note has the whole."""
    tail = f".{number}{ASIDE_SUFFIX}"
    return f"{str(key)[: NAME_CHARACTERS_MAX - len(tail)]}{tail}"


def _number(path: str) -> int:
    number = path.removesuffix(ASIDE_SUFFIX).rpartition(".")[2]
    return int(number) if number.isdecimal() else 0
