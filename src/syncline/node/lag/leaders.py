"""Asking the leaders of many partitions at once where these end and where offsets lie.

One hard idea: leaders change while they are asked. An answer counts for the leader that gave it, in its life and its
epoch (`ends.KnownEnds` numbers these), and places found under another one are worth nothing. A partition without a
leader that can answer is asked again for a while; after that its error is the answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from typing import Any, Final, NamedTuple

from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, BrokerId, Offset, TopicPartition
from syncline.model.lag import OffsetPlace, PartitionEnds
from syncline.node.clock import Clock
from syncline.node.lag.answering import (
    Measured,
    MeasuredPartition,
    ToldReaders,
    answer_partition,
    completed,
    no_readers,
)
from syncline.node.lag.ends import KnownEnds, SeenEnds
from syncline.node.lag.messages import (
    OFFSETS_MAX,
    PARTITIONS_MAX,
    STEP_OFFSETS_MAX,
    AskedPartition,
    LagAnswer,
    LagRequest,
)
from syncline.node.lag.peers import READ_PER_TURN, LagPeers
from syncline.node.lag.read_positions import ReaderPosition, ReadPositions
from syncline.node.links.peer import PeerLost
from syncline.node.metadata.cluster_view import ClusterView
from syncline.storage.disk import Disk

Questions = Mapping[TopicPartition, Collection[Offset]]

# How long a refresh goes on asking, and the pause between two attempts.
PATIENCE_MS: Final = 2_000
PAUSE_MS: Final = 100
# What passes by itself: an election, a new leader that does not know yet what was committed, metadata on its way.
_PASSING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class ToldPlaces(NamedTuple):
    """Where offsets of one partition lie, by the offset that was asked for, and under which number they count.

    None where a leader before this one had told it.
    """

    namespace: int
    by_offset: dict[Offset, OffsetPlace | None]


_NO_PLACES: Final = ToldPlaces(NONE, {})


class AnsweredEnds(NamedTuple):
    """The ends of a partition, and under which number places of this answer are kept."""

    ends: PartitionEnds
    namespace: int
    skew_ms: int
    seen: SeenEnds
    """What was heard of the partition before."""


class Answers:
    """What leaders have answered."""

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, AnsweredEnds] = {}
        # Those that a leader told last.
        self.places: dict[TopicPartition, ToldPlaces] = {}
        # Who reads, where that was asked for.
        self.readers: dict[TopicPartition, tuple[ReaderPosition, ...]] = {}
        # Partitions that no leader has answered for.
        self.errors: dict[TopicPartition, ErrorCode] = {}

    def place(self, key: TopicPartition, offset: Offset) -> OffsetPlace | None:
        """Return where an offset lies, by the leader that also gave the ends; None if that is not known."""
        answered, told = self.ends.get(key), self.places.get(key, _NO_PLACES)
        return None if answered is None or told.namespace != answered.namespace else told.by_offset.get(offset)

    def has_place(self, key: TopicPartition, offset: Offset) -> bool:
        """Return whether a leader has told where an offset lies, also if another one gave the ends since."""
        return offset in self.places.get(key, _NO_PLACES).by_offset


class Leaders:
    """The leaders of all partitions, as one broker asks them; it may be one of them itself."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        cluster: ClusterView,
        disk: Disk,
        partitions: Mapping[TopicPartition, MeasuredPartition],
        positions: ReadPositions,
        peers: LagPeers,
        ends: KnownEnds,
        spawn: Callable[[Coroutine[Any, Any, None]], Awaitable[None]],
    ) -> None:
        self._spawn = spawn
        self._broker_id = broker_id
        self._clock = clock
        self._cluster = cluster
        self._disk = disk
        self._partitions = partitions
        self._positions = positions
        self._peers = peers
        self._ends = ends

    async def ask(
        self,
        questions: Questions,
        answers: Answers,
        *,
        is_exact: bool,
        with_readers: bool = False,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        """Add what the leaders of these partitions answer; the ends are later than this call.

        Other brokers have `patience_ms` to answer.
        """
        deadline_ms = self._clock.mono_ms() + patience_ms
        while questions:
            pages = await self._pages(questions, answers)
            requests = [(leader, page, LagRequest(is_exact, page.asked, with_readers)) for leader, page in pages]
            await asyncio.gather(*(self._spawn(self._ask(*each, answers, deadline_ms)) for each in requests))
            questions = {
                key: offsets
                for key, offsets in questions.items()
                if answers.errors.get(key, ErrorCode.NONE) in _PASSING
            }
            if not questions or self._clock.mono_ms() + PAUSE_MS >= deadline_ms:
                return
            await asyncio.sleep(PAUSE_MS / 1_000)

    async def _ask(
        self, leader: BrokerId, page: "_Page", request: LagRequest, answers: Answers, deadline_ms: int
    ) -> None:
        asked_ms = self._clock.mono_ms()
        try:
            if leader == self._broker_id:
                # Work of its own, in turns of the loop: it waits for no other broker.
                answer = await self._here(request)
            else:
                async with asyncio.timeout(max(PAUSE_MS, deadline_ms - asked_ms) / 1_000):
                    answer = await self._peers.ask(leader, request)
        except (PeerLost, TimeoutError):
            answers.errors.update(dict.fromkeys(page.keys, ErrorCode.NETWORK_EXCEPTION))
            return
        skew_ms = self._clock.mono_ms() - asked_ms
        read = 0
        for key, asked, answered in zip(page.keys, page.asked, answer.partitions, strict=True):
            read += 1 + len(asked.offsets)
            if read >= READ_PER_TURN:
                read = 0
                await asyncio.sleep(0)
            if answered.ends is None:
                answers.errors[key] = answered.error
                continue
            seen = self._ends.take(key, answered.ends, answer.broker_epoch)
            assert seen.last is not None, f"{key} was answered for and has no ends"
            answers.errors.pop(key, None)
            answers.ends[key] = AnsweredEnds(seen.last, seen.namespace, skew_ms, seen)
            if request.with_readers:
                answers.readers[key] = answered.readers
            if not asked.offsets:
                continue
            told = answers.places.get(key, _NO_PLACES)
            if told.namespace != seen.namespace:
                told = answers.places[key] = ToldPlaces(seen.namespace, dict.fromkeys(told.by_offset))
            by_offset = told.by_offset
            for offset, place in zip(asked.offsets, answered.places, strict=True):
                if place is not None:
                    by_offset[offset] = place

    async def _pages(self, questions: Questions, answers: Answers) -> list[tuple[BrokerId, "_Page"]]:
        """Return requests that are not too long; partitions without a leader get their error."""
        by_leader: dict[BrokerId, _Page] = {}
        for count, (key, offsets) in enumerate(questions.items(), start=1):
            if count % READ_PER_TURN == 0:
                await asyncio.sleep(0)
            image = self._cluster.image
            topic, record = image.topics.get(key.topic), image.partition(*key)
            if topic is None or record is None:
                answers.errors[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            if record.leader < 0:
                answers.errors[key] = ErrorCode.LEADER_NOT_AVAILABLE
                continue
            page = by_leader.setdefault(record.leader, _Page([], []))
            wanted = tuple(offsets)
            for start in range(0, max(1, len(wanted)), STEP_OFFSETS_MAX):
                part = wanted[start : start + STEP_OFFSETS_MAX]
                page.keys.append(key)
                page.asked.append(AskedPartition(topic.topic_id, key.partition, record.leader_epoch, part))
        return [(leader, part) for leader, page in by_leader.items() for part in page.parts()]

    async def _here(self, request: LagRequest) -> LagAnswer:
        """Measure partitions that this broker leads itself, as the handler of LAG does for others."""
        image = self._cluster.image
        readers = ToldReaders(self._positions, self._clock.mono_ms) if request.with_readers else no_readers
        measured: list[Measured] = []
        read = 0
        for each in request.partitions:
            key = TopicPartition(image.topic_names.get(each.topic_id, ""), each.partition)
            measured.append(
                answer_partition(
                    self._partitions.get(key),
                    each,
                    broker_id=self._broker_id,
                    wall_ms=self._clock.wall_ms,
                    is_exact=request.is_exact,
                    readers=readers,
                )
            )
            read += 1 + len(each.offsets)
            if read >= READ_PER_TURN:
                read = 0
                await asyncio.sleep(0)
        epoch = image.brokers[self._broker_id].broker_epoch if self._broker_id in image.brokers else -1
        return LagAnswer(epoch, await completed(measured, self._disk))


class _Page(NamedTuple):
    """What one request asks one leader; a partition may be there several times."""

    keys: list[TopicPartition]
    asked: list[AskedPartition]

    def parts(self) -> Iterator["_Page"]:
        """Yield the same as pages that are not too long."""
        first, offset_count = 0, 0
        for index, each in enumerate(self.asked):
            if index - first == PARTITIONS_MAX or offset_count + len(each.offsets) > OFFSETS_MAX:
                yield _Page(self.keys[first:index], self.asked[first:index])
                first, offset_count = index, 0
            offset_count += len(each.offsets)
        yield _Page(self.keys[first:], self.asked[first:])
