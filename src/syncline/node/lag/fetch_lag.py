"""How far behind consumers read, by reader and topic: histograms of what their answered fetches found.

One hard idea: a fetch may look and wait many times, and is answered once. So nothing is counted at a read; an answer
counts each partition whose records it carries, by the facts of that read (`storage/arrivals/read_facts.py`), or, if
it carries none, once as empty. One cell per reader and topic has four histograms; what is wanted of a broker, a client
or a topic is a sum of cells, made when somebody asks.

An answer takes samples, and they wait. They are counted some at a time, and before anything is told: the same work in a
row takes a third of what it takes between the other work of a request, whose code and data are in the processor then.

Counted are consumers alone (replica id -1), also those that read from a follower (KIP-392); followers and errors never.

Units: bytes as stored; times in ms. Invariants: a bounded number of cells, however many clients there are: readers and
topics beyond the bounds share one cell each, under an empty name; a bounded number of samples waits.
Source: KIP-489, with one zero for each answered fetch without records.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from syncline.core.lag.buckets import BYTES, TIMES_MS, Weighted
from syncline.model.ids import TopicPartition
from syncline.node.lag.read_ahead import ReadAhead
from syncline.storage.arrivals.read_facts import DROPPED, Noted, ReadFacts, facts_of
from syncline.storage.disk import UNMEASURED

# Cells of all readers, not counting those for other topics: 14 MB, and two thirds of that in notes (`cache_window.py`).
CELLS_MAX: Final = 4_096
READERS_MAX: Final = 512
TOPICS_MAX: Final = 64
# Samples that wait until they are counted; an answer may add some more. It takes some 0.1 ms to count them.
WAITING_MAX: Final = 64
# The name of what does not fit.
OTHER: Final = ""


# Client id, host; a partition, and what its read has noted, both None for an answer without records; the largest
# timestamp of its first batch (-1: it has none), its bytes, how many of them came from the disk; when it was answered.
Sample: TypeAlias = tuple[str | None, str, TopicPartition | None, Noted | None, int, int, int, int]


class Cell:
    """What the fetches of one reader found in one topic, or a sum of cells."""

    __slots__ = (
        "age_ms",
        "behind_bytes",
        "distance_bytes",
        "event_ms",
        "missed_bytes",
        "unknown_age_bytes",
        "unmeasured_bytes",
    )

    def __init__(self) -> None:
        # From the first batch to the end of its log.
        self.behind_bytes = Weighted(BYTES)
        # By how much the first batch is older than the newest of its log, by the producers' own times.
        self.event_ms = Weighted(TIMES_MS)
        # How long ago it was appended, and what this broker has since written to logs whose pages stay.
        self.age_ms = Weighted(TIMES_MS)
        self.distance_bytes = Weighted(BYTES)
        # The bytes of reads of which these two are unknown, except that nothing kept what some of them read.
        self.unknown_age_bytes = 0
        # What came from the disk, and what came from nobody knows where; all other bytes were in memory.
        self.missed_bytes = 0
        self.unmeasured_bytes = 0

    def note(self, facts: ReadFacts, event_ms: int, size_bytes: int, wall_ms: int) -> None:
        """Count one partition of an answer, whose first batch has this largest timestamp; -1: it has none."""
        end_bytes, coordinate_bytes, newest_event_ms, append_ms, distance_bytes, _ = facts
        self.behind_bytes.note(end_bytes - coordinate_bytes, size_bytes)
        # A record of the future, or of another clock, may be newer than the newest: that is no lag.
        self.event_ms.note(newest_event_ms - event_ms if event_ms >= 0 else 0, size_bytes)
        if append_ms >= 0:
            self.age_ms.note(wall_ms - append_ms, size_bytes)
            if distance_bytes < DROPPED:
                self.distance_bytes.note(distance_bytes, size_bytes)
            else:
                self.distance_bytes.note_beyond(size_bytes)
        else:
            self.unknown_age_bytes += size_bytes
            if distance_bytes == DROPPED:
                self.distance_bytes.note_beyond(size_bytes)

    def missed(self, missed_bytes: int, size_bytes: int) -> None:
        """Record that so much of an answered partition came from the disk; UNMEASURED: nobody knows."""
        if missed_bytes == UNMEASURED:
            self.unmeasured_bytes += size_bytes
        else:
            assert 0 <= missed_bytes <= size_bytes, f"{missed_bytes} of {size_bytes} bytes came from the disk"
            self.missed_bytes += missed_bytes

    @property
    def hit_bytes(self) -> int:
        """What was in memory."""
        return sum(self.behind_bytes.bytes) - self.missed_bytes - self.unmeasured_bytes

    def add(self, other: "Cell") -> None:
        """Add what another cell has counted."""
        self.behind_bytes.add(other.behind_bytes)
        self.event_ms.add(other.event_ms)
        self.age_ms.add(other.age_ms)
        self.distance_bytes.add(other.distance_bytes)
        self.unknown_age_bytes += other.unknown_age_bytes
        self.missed_bytes += other.missed_bytes
        self.unmeasured_bytes += other.unmeasured_bytes


class _Room:
    """For how many cells there is room."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = CELLS_MAX


class Reader:
    """One client at one address, as its fetches name it."""

    __slots__ = ("_cells", "_room", "client_id", "empty_fetches", "host")

    def __init__(self, client_id: str, host: str, room: _Room) -> None:
        self._room = room
        self.client_id = client_id
        self.host = host
        # Answered fetches without records.
        self.empty_fetches = 0
        self._cells: dict[str, Cell] = {}

    def cell(self, topic: str) -> Cell:
        """Return what counts its fetches of a topic."""
        cell = self._cells.get(topic)
        if cell is None:
            name = topic if len(self._cells) < TOPICS_MAX and self._room.left else OTHER
            cell = self._cells.get(name)
            if cell is None:
                self._room.left -= name != OTHER
                cell = self._cells[name] = Cell()
        return cell

    def by_topic(self) -> Iterator[tuple[str, Cell]]:
        """Iterate over its cells by topic."""
        return iter(self._cells.items())


class FetchLag:
    """What the consumers of one broker read."""

    def __init__(self) -> None:
        self._room = _Room()
        self.read_ahead = ReadAhead()
        self.waiting: list[Sample] = []
        self._readers: dict[tuple[str, str], Reader] = {}

    def count_waiting(self) -> None:
        """Count the samples that wait."""
        waiting, self.waiting = self.waiting, []
        for client_id, host, key, noted, event_ms, size_bytes, missed_bytes, wall_ms in waiting:
            reader = self.reader(client_id, host)
            if key is None or noted is None:
                reader.empty_fetches += 1
                continue
            cell = reader.cell(key.topic)
            cell.note(facts_of(*noted), event_ms, size_bytes, wall_ms)
            if missed_bytes:
                cell.missed(missed_bytes, size_bytes)

    def reader(self, client_id: str | None, host: str) -> Reader:
        """Return what counts the fetches of a client."""
        key = (client_id or OTHER, host)
        reader = self._readers.get(key)
        if reader is None:
            key = key if len(self._readers) < READERS_MAX else (OTHER, OTHER)
            reader = self._readers.get(key)
            if reader is None:
                reader = self._readers[key] = Reader(*key, self._room)
        return reader

    def readers(self) -> Iterator[Reader]:
        """Iterate over the clients, with everything that has been answered."""
        self.count_waiting()
        return iter(self._readers.values())

    @property
    def empty_fetches(self) -> int:
        """The answered fetches without records, of all clients."""
        return sum(reader.empty_fetches for reader in self.readers())

    def cells(self) -> Iterator[Cell]:
        """Iterate over the cells of all readers and topics."""
        for reader in self.readers():
            for _, cell in reader.by_topic():
                yield cell

    def check_invariants(self) -> None:
        """Assert that the number of cells is bounded, and that their histograms agree."""
        assert len(self._readers) <= READERS_MAX + 1, f"{len(self._readers)} readers"
        for reader in self.readers():
            cells = list(reader.by_topic())
            assert len(cells) <= TOPICS_MAX + 1, f"{len(cells)} topics of {reader.client_id}"
            for _, cell in cells:
                for each in (cell.behind_bytes, cell.event_ms, cell.age_ms, cell.distance_bytes):
                    each.check_invariants()
                assert sum(cell.behind_bytes.bytes) == sum(cell.event_ms.bytes), "a fetch counts once in each histogram"
                assert cell.hit_bytes >= 0, f"{cell.missed_bytes} bytes missed, and {cell.hit_bytes} in memory"
        cell_count = sum(topic != OTHER for reader in self._readers.values() for topic, _ in reader.by_topic())
        assert cell_count == CELLS_MAX - self._room.left <= CELLS_MAX, f"{cell_count} cells, room for {self._room.left}"
