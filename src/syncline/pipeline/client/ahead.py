"""Reading ahead: many partitions, one connection per leader, and the next responses in flight while one is processed.

Each leader has at most one question to answer. Once its answer is here, the headers of its batches say where the next
question begins, so that one leaves before the records are decoded. A question names the partitions that are likely to
fill its answer, and no more: a broker looks at each of them.

Transient failures are retried by the rules of `cluster`: what was already returned is not requested again.

Units: offsets count records; ends are exclusive.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.fetching import Fetched
from syncline.pipeline.client.refusals import RetriableError, is_fine, name_of
from syncline.pipeline.client.settings import Address

# A first guess; then it is what the answers show.
_RECORD_BYTES_GUESS: Final = 100
_QUESTION_PARTITIONS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Span:
    """The records of a partition that are still to be read."""

    start: int
    end: int


class Arrived(NamedTuple):
    """One partition's part of an answer to the question after `offset`; the next one continues at `next_offset`.

    `is_gone` says that the log does not hold the offset: the partition is not asked for again unless it is moved.
    `is_first` says that the question named it first, so that the broker had room for its records.
    """

    place: TopicPartition
    offset: int
    next_offset: int
    fetched: Fetched
    is_gone: bool
    is_first: bool


class Ahead:
    """Reads spans of partitions to their ends; iterate over `answers`."""

    def __init__(self, cluster: Cluster, wanted: Mapping[TopicPartition, Span]) -> None:
        self._cluster = cluster
        self._open = {place: span for place, span in wanted.items() if span.start < span.end}
        self._asked: dict[Address, dict[TopicPartition, int]] = {}
        self._records_seen = 1
        self._bytes_seen = _RECORD_BYTES_GUESS

    def answers(self) -> Iterator[list[Arrived]]:
        """Yield what one answer holds, until every span is read, moved to its end or dropped.

        Raises `BrokerError` when nothing arrives for as long as the settings allow.
        """
        while self._open:
            first = next(iter(self._open))
            task = f"fetch {first} at offset {self._open[first].start}"
            arrived = self._cluster.persist(task, self._receive)
            # A failure now occurs at the next attempt, too, and is handled there.
            with contextlib.suppress(OSError, RetriableError):
                self._ask()
            yield arrived
        # Partitions that were dropped may have been asked for: no connection is left with an answer to come.
        if any(self._cluster.awaits(address) for address in self._asked):
            self._cluster.close()

    def move(self, place: TopicPartition, span: Span) -> None:
        """Read this span of a partition that is gone or that waits."""
        self.drop(place)
        if span.start < span.end:
            self._open[place] = span

    def drop(self, place: TopicPartition) -> None:
        """Read no more of a partition, and ignore what is in flight."""
        self._open.pop(place, None)

    def _ask(self) -> None:
        """Send a question to each leader of open partitions that has none."""
        self._asked = {address: asked for address, asked in self._asked.items() if self._cluster.awaits(address)}
        if self._asked and not all(self._cluster.knows(place) for place in self._open):
            # Only a connection without open questions can be asked for metadata.
            self._cluster.close()
            self._asked.clear()
        by_leader: dict[Address, list[TopicPartition]] = {}
        for place in self._open:
            by_leader.setdefault(self._cluster.leader(place), []).append(place)
        for address, places in by_leader.items():
            if address not in self._asked:
                asked = self._question(places)
                self._cluster.send_fetch(address, asked)
                self._asked[address] = asked

    def _question(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first of the partitions, as many as probably fill an answer, with their offsets."""
        enough = 2 * self._cluster.settings.fetch_bytes_max * self._records_seen // self._bytes_seen
        asked: dict[TopicPartition, int] = {}
        for place in places[:_QUESTION_PARTITIONS_MAX]:
            span = self._open[place]
            asked[place] = span.start
            enough -= span.end - span.start
            if enough <= 0:
                break
        return asked

    def _receive(self) -> list[Arrived]:
        """Return the oldest answer, and move on behind it; raise `RetriableError` if no partition has one."""
        self._ask()
        address = next(iter(self._asked))
        asked = self._asked.pop(address)
        parts = self._cluster.receive_fetch(address)
        arrived, failed = [], ""
        first = next(iter(asked))
        for place, offset in asked.items():
            fetched = parts.get(place)
            if fetched is None:
                failed = f"the response does not contain {place}"
                continue
            is_gone = fetched.code == ErrorCode.OFFSET_OUT_OF_RANGE
            if not is_gone and not is_fine(fetched.code, f"fetch of {place} at offset {offset}"):
                self._cluster.forget(place)
                failed = f"{place}: {name_of(fetched.code)}"
                continue
            span = self._open.get(place)
            if span is None or span.start != offset:
                continue  # dropped or moved since it was asked for
            next_offset = offset if is_gone else min(fetched.next_offset(offset), span.end)
            arrived.append(Arrived(place, offset, next_offset, fetched, is_gone, place == first))
        if failed and not arrived:
            raise RetriableError(failed)
        for part in arrived:
            self._advance(part)
        return arrived

    def _advance(self, part: Arrived) -> None:
        self._records_seen += part.next_offset - part.offset
        self._bytes_seen += part.fetched.end - part.fetched.start
        if part.is_gone or part.next_offset >= self._open[part.place].end:
            del self._open[part.place]
        else:
            self._open[part.place] = Span(part.next_offset, self._open[part.place].end)
