"""What the consumers of a broker have read in the last five to ten minutes, and from where.

What a broker counts since it began says little of now. So totals are noted from time to time, and an answer is what was
added since the last note but one, or since the start.

Units: bytes; times are those of the node's clock, in ms. Invariant: counts never fall.
"""

from array import array
from collections.abc import Generator, Iterator, Mapping
from typing import Final, NamedTuple

from syncline.node.clock import Clock
from syncline.node.lag.fetch_lag import OTHER, Cell, FetchLag
from syncline.storage.pages.written import Written

NOTE_INTERVAL_MS: Final = 300_000
# Who reads: client id, host as it says it, topic.
ReaderKey = tuple[str, str, str]


class Reads(NamedTuple):
    """What was read: fetches and bytes by bucket of their distance, and where the bytes came from."""

    fetches: "array[int]"
    bytes: "array[int]"
    hit_bytes: int
    missed_bytes: int
    unmeasured_bytes: int

    @property
    def size_bytes(self) -> int:
        """The bytes, wherever they came from and whatever their distance."""
        return self.hit_bytes + self.missed_bytes + self.unmeasured_bytes

    def since(self, before: "Reads | None") -> "Reads":
        """Return what was read after `before`."""
        if before is None or before.missed_bytes > self.missed_bytes or before.hit_bytes > self.hit_bytes:
            return self
        return Reads(
            array("Q", [now - then for now, then in zip(self.fetches, before.fetches, strict=True)]),
            array("Q", [now - then for now, then in zip(self.bytes, before.bytes, strict=True)]),
            self.hit_bytes - before.hit_bytes,
            self.missed_bytes - before.missed_bytes,
            self.unmeasured_bytes - before.unmeasured_bytes,
        )


class Note(NamedTuple):
    """The totals of one moment."""

    mono_ms: int
    written_bytes: int
    reads: Mapping[ReaderKey, Reads]


class CacheWindow:
    """Notes of what was read."""

    def __init__(self, clock: Clock, lag: FetchLag, written: Written) -> None:
        self._clock = clock
        self._lag = lag
        self._written = written
        self._earlier = self._later = Note(clock.mono_ms(), written.total_bytes, {})

    @property
    def began(self) -> Note:
        """The note with which the interval of an answer begins."""
        return self._earlier

    def note(self) -> Generator[None, None, None]:
        """Note the totals, reader by reader."""
        now_ms, written_bytes = self._clock.mono_ms(), self._written.total_bytes
        reads: dict[ReaderKey, Reads] = {}
        for reader in list(self._lag.readers()):
            for topic, cell in reader.by_topic():
                reads[(reader.client_id, reader.host, topic)] = _reads_of(cell)
            yield
        self._earlier, self._later = self._later, Note(now_ms, written_bytes, reads)

    def since(self, note: Note) -> Iterator[list[tuple[ReaderKey, Reads]]]:
        """Yield what was read since a note, by topic: a list for each reader, of those that have read something."""
        for reader in list(self._lag.readers()):
            found = []
            for topic, cell in reader.by_topic():
                key = (reader.client_id, reader.host, topic)
                reads = _reads_of(cell).since(note.reads.get(key))
                if reads.size_bytes:
                    found.append((key, reads))
            yield found

    def lasted(self, note: Note) -> tuple[int, int]:
        """Return how long ago a note was made, in ms, and how many bytes were written since."""
        return self._clock.mono_ms() - note.mono_ms, self._written.total_bytes - note.written_bytes


def is_other(key: ReaderKey) -> bool:
    """Return whether this stands for all readers who are not counted one by one."""
    return key[:2] == (OTHER, OTHER)


def _reads_of(cell: Cell) -> Reads:
    distances = cell.distance_bytes
    return Reads(
        array("Q", distances.fetches),
        array("Q", distances.bytes),
        cell.hit_bytes,
        cell.missed_bytes,
        cell.unmeasured_bytes,
    )
