"""From where each consumer fetched last, as the broker that serves it knows: also of consumers that never commit.

One hard idea: a Fetch request names a client id, and several programs may have the same one. So what is remembered
belongs to one connection; two open ones that fetch a partition under one name at one host are *shared*: then it is not
known whose position it is.

A position is noted once per request, when its partitions were looked at first: what a consumer asks for is what it has
not got yet. A session's quiet partitions are fetched with each request, without being named. They are at the end, so
for a position at the end the last request of its connection counts.

Bounded: the newest of `READERS_MAX` connections, `TOPICS_MAX` topics of each, `POSITIONS_MAX` positions in all; what
exceeds that is not remembered. A connection that is gone keeps its place as long as there is room, since a consumer
that is stuck may have lost it; a sweep forgets those that fetched for a moment only, as a tool does that prints some
records. It also forgets the positions of partitions that are no longer here, and of those that a connection does not
fetch any more: it has fetched others for an hour since. A consumer that has paused a partition, or has a buffer full of
it, leaves it out of its requests, too, so a position is not forgotten sooner.

Units: ms of the node's monotonic clock; offsets.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from syncline.model.ids import Offset, TopicPartition
from syncline.model.tables import shrink

READERS_MAX: Final = 512
TOPICS_MAX: Final = 64
POSITIONS_MAX: Final = 65_536
# Longer names are not remembered: they travel between brokers.
NAME_CHARS_MAX: Final = 255
# Of one partition, the consumers that fetched last.
SHOWN_MAX: Final = 32
# Two connections read at the same time if both fetched so recently: clients fetch at least each half second.
SHARED_MS: Final = 5_000
# Of what share of the last minute, or two, a connection was held back.
INTERVAL_MS: Final = 60_000
# When there is no room, a connection that fetched so long ago makes some; without one, it is looked for again later.
IDLE_MS: Final = 600_000
LOOK_AGAIN_MS: Final = 1_000
# How often positions are looked at that may be forgotten; and when they are: so long before the last fetch of their
# connection, or `IDLE_MS` if it fetches more topics than are remembered.
SWEEP_MS: Final = 60_000
STALE_MS: Final = 3_600_000
# A connection that is gone and had fetched for less than this was not a consumer worth watching.
MOMENT_MS: Final = 10_000


class HeldConnection(Protocol):
    """What one connection holds."""

    @property
    def is_open(self) -> bool:
        """Return whether the connection is there."""

    @property
    def held_back_ms(self) -> int:
        """Return for how long it has not been read for want of memory, in all."""


class ReaderPosition(NamedTuple):
    """From where one consumer fetches a partition."""

    client_id: str
    host: str
    offset: Offset
    """What it asked for last."""
    fetched_ago_ms: int
    held_back_share: float
    """Which part of the last minute or two its connection was not read."""
    is_shared: bool
    """Whether several programs fetch it under this name."""
    is_open: bool
    """Whether its connection is there."""


class Reading:
    """One connection of a consumer, and from where it fetched which partition: [offset, when]."""

    __slots__ = (
        "_held_before",
        "_held_since",
        "began_ms",
        "client_id",
        "due_ms",
        "fetched_ms",
        "holding",
        "host",
        "lacks_room",
        "positions",
        "topics",
    )

    def __init__(self, client_id: str, host: str, holding: HeldConnection, now_ms: int) -> None:
        self.client_id = client_id
        self.host = host
        self.began_ms = self.fetched_ms = now_ms
        self.due_ms = now_ms + INTERVAL_MS
        self.positions: dict[TopicPartition, list[int]] = {}
        # How many positions there are of each topic.
        self.topics: dict[str, int] = {}
        # Whether it has fetched a topic that was one too many.
        self.lacks_room = False
        self.holding = holding
        # (When, for how long it had been held back in all): of an interval ago, and of the one before.
        self._held_since = self._held_before = (now_ms, holding.held_back_ms)

    def __repr__(self) -> str:
        return f"<{self.client_id} at {self.host} reads {len(self.positions)} partitions>"

    @property
    def is_open(self) -> bool:
        """Whether its connection is there."""
        return self.holding.is_open

    def interval_ended(self, now_ms: int) -> None:
        """Begin another interval of which it is known for how long the connection was held back."""
        self.due_ms = now_ms + INTERVAL_MS
        self._held_before, self._held_since = self._held_since, (now_ms, self.holding.held_back_ms)

    def held_back_share(self, now_ms: int) -> float:
        """Return which part of the last interval or two its connection was not read."""
        began_ms, held_ms = self._held_before
        return min(1.0, (self.holding.held_back_ms - held_ms) / max(now_ms - began_ms, INTERVAL_MS))


class ReadPositions:
    """The positions of the consumers of one broker."""

    def __init__(self) -> None:
        self._readings: dict[HeldConnection, Reading] = {}
        # Those that have positions of a topic.
        self._by_topic: dict[str, dict[Reading, None]] = {}
        self._count = 0
        # When it makes sense to look again for one that can be forgotten.
        self._full_until_ms = 0

    def __len__(self) -> int:
        return self._count

    def reading(self, client_id: str | None, host: str, holding: HeldConnection, now_ms: int) -> Reading | None:
        """Return what notes the positions of a connection that fetches now; None if there is no room for it."""
        reading = self._readings.get(holding)
        if reading is None:
            name = client_id or ""
            if len(name) > NAME_CHARS_MAX or (len(self._readings) >= READERS_MAX and not self._make_room(now_ms)):
                return None
            reading = self._readings[holding] = Reading(name, host.removeprefix("/"), holding, now_ms)
        reading.fetched_ms = now_ms
        if now_ms >= reading.due_ms:
            reading.interval_ended(now_ms)
        return reading

    def note(self, reading: Reading, key: TopicPartition, offset: int, now_ms: int) -> None:
        """Remember what a consumer asked for."""
        noted = reading.positions.get(key)
        if noted is None:
            self.add(reading, key, offset, now_ms)
        else:
            noted[0], noted[1] = offset, now_ms

    def add(self, reading: Reading, key: TopicPartition, offset: int, now_ms: int) -> None:
        """Remember what a consumer asked for first, if there is room."""
        topics = reading.topics
        if key.topic not in topics and len(topics) >= TOPICS_MAX:
            reading.lacks_room = True
            return
        # A connection that makes room may have no positions.
        while self._count >= POSITIONS_MAX:
            if not self._make_room(now_ms):
                return
        if key.topic not in topics:
            self._by_topic.setdefault(key.topic, {})[reading] = None
        topics[key.topic] = topics.get(key.topic, 0) + 1
        self._count += 1
        reading.positions[key] = [offset, now_ms]

    def forget(self, reading: Reading, key: TopicPartition) -> None:
        """Forget a position, as when the consumer was sent to another broker."""
        if reading.positions.pop(key, None) is None:
            return
        self._count -= 1
        reading.topics[key.topic] -= 1
        if not reading.topics[key.topic]:
            del reading.topics[key.topic]
            self._no_longer_reads(reading, key.topic)

    def _no_longer_reads(self, reading: Reading, topic: str) -> None:
        readings = self._by_topic[topic]
        del readings[reading]
        if not readings:
            del self._by_topic[topic]
            shrink(self._by_topic)

    def _make_room(self, now_ms: int) -> bool:
        """Forget the connection that fetched longest ago, a closed one first; return whether there was one."""
        if now_ms < self._full_until_ms:
            return False
        oldest = min(self._readings.values(), key=lambda each: (each.is_open, each.fetched_ms))
        if (oldest.is_open and now_ms - oldest.fetched_ms < IDLE_MS) or now_ms == oldest.fetched_ms:
            self._full_until_ms = now_ms + LOOK_AGAIN_MS
            return False
        self._count -= len(oldest.positions)
        for topic in oldest.topics:
            self._no_longer_reads(oldest, topic)
        del self._readings[oldest.holding]
        return True

    def sweep(self, high_watermark_of: Callable[[TopicPartition], int | None]) -> Iterator[None]:
        """Forget what is not fetched any more, and partitions without a high watermark; yields after each position.

        A position at the end may be of a session, which does not name it in its requests: it is kept unless its
        connection lacks room for what it fetches now.
        """
        for reading in list(self._readings.values()):
            if not reading.is_open and reading.fetched_ms - reading.began_ms < MOMENT_MS:
                yield from self._forgotten(reading)
                continue
            lacks_room, reading.lacks_room = reading.lacks_room, False
            stale_ms = reading.fetched_ms - (IDLE_MS if lacks_room else STALE_MS)
            for key in list(reading.positions):
                yield
                noted = reading.positions.get(key)
                if noted is None or self._readings.get(reading.holding) is not reading:
                    # Forgotten between two steps.
                    continue
                high_watermark = high_watermark_of(key)
                is_old = noted[1] < stale_ms
                if high_watermark is None or (is_old and (lacks_room or noted[0] < high_watermark)):
                    self.forget(reading, key)
            shrink(reading.positions)

    def _forgotten(self, reading: Reading) -> Iterator[None]:
        """Forget a connection; yields after each of its positions. Another one may take its room meanwhile."""
        for key in list(reading.positions):
            yield
            if self._readings.get(reading.holding) is not reading:
                return
            self.forget(reading, key)
        if self._readings.get(reading.holding) is reading:
            # Positions that it noted meanwhile.
            for key in list(reading.positions):
                self.forget(reading, key)
            del self._readings[reading.holding]

    def of(self, key: TopicPartition, high_watermark: int, now_ms: int) -> tuple[ReaderPosition, ...]:
        """Return who reads a partition that ends at `high_watermark`, those who fetched last first."""
        by_name: dict[tuple[str, str], list[Reading]] = {}
        for reading in self._by_topic.get(key.topic, ()):
            if key in reading.positions:
                by_name.setdefault((reading.client_id, reading.host), []).append(reading)
        found = [_position(several, key, high_watermark, now_ms) for several in by_name.values()]
        return tuple(sorted(found, key=lambda each: each.fetched_ago_ms)[:SHOWN_MAX])

    def page(
        self, first: int, count: int, high_watermark_of: Callable[[TopicPartition], int | None], now_ms: int
    ) -> list[tuple[TopicPartition, ReaderPosition]]:
        """Return what connections read: positions from the number `first` on, connection by connection.

        Several connections with one name have one row for a partition, with the first of them. So there may be fewer
        rows than `count`; partitions without a high watermark have none, either. A page costs what it has, and a look
        at each connection.
        """
        by_name: dict[tuple[str, str], list[Reading]] = {}
        for reading in self._readings.values():
            by_name.setdefault((reading.client_id, reading.host), []).append(reading)
        rows = []
        for reading in self._readings.values():
            if count <= 0:
                break
            some = list(islice(reading.positions, first, first + count))
            first = max(0, first - len(reading.positions))
            count -= len(some)
            for key in some:
                several = by_name[reading.client_id, reading.host]
                is_first = next(each for each in several if key in each.positions) is reading
                high_watermark = high_watermark_of(key)
                if is_first and high_watermark is not None:
                    rows.append((key, _position(several, key, high_watermark, now_ms)))
        return rows

    def check_invariants(self) -> None:
        """Assert that what is remembered is bounded and counted."""
        assert len(self._readings) <= READERS_MAX, f"{len(self._readings)} connections are remembered"
        count = sum(len(each.positions) for each in self._readings.values())
        assert count == self._count <= POSITIONS_MAX, f"{count} positions are remembered, {self._count} counted"
        for holding, reading in self._readings.items():
            assert reading.holding is holding, f"{reading} is remembered for another connection"
            assert len(reading.topics) <= TOPICS_MAX, f"{len(reading.topics)} topics of {reading}"
            assert sum(reading.topics.values()) == len(reading.positions), f"{reading}, of which {reading.topics}"
            for topic in reading.topics:
                assert reading in self._by_topic[topic], f"{reading} is not found by its topic {topic}"
        topic_count = sum(len(each.topics) for each in self._readings.values())
        found_count = sum(map(len, self._by_topic.values()))
        assert found_count == topic_count, f"{found_count} readers are found by topic, of {topic_count}"


def _position(several: Sequence[Reading], key: TopicPartition, high_watermark: int, now_ms: int) -> ReaderPosition:
    """Return from where connections with one name fetch a partition: of those that do, the last one counts."""
    found = []
    for reading in several:
        noted = reading.positions.get(key)
        if noted is not None:
            offset, fetched_ms = noted
            found.append((now_ms - (reading.fetched_ms if offset >= high_watermark else fetched_ms), offset, reading))
    ago_ms, offset, newest = min(found, key=itemgetter(0))
    # Two are enough to know, and a name may have hundreds.
    at_once = list(islice((each for ago, _, each in found if ago <= SHARED_MS and each.is_open), 2))
    return ReaderPosition(
        newest.client_id,
        newest.host,
        Offset(offset),
        ago_ms,
        newest.held_back_share(now_ms),
        is_shared=len(at_once) > 1,
        is_open=newest.is_open,
    )
