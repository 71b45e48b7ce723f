"""The groups of the whole cluster and the ends of all partitions, as one broker gathers them for the pages of others.

One hard idea: exporters that run beside a cluster show all of it, and dashboards for them choose one instance. So a
broker that stands in for one asks all coordinators for their groups (`row_messages`), and only then all leaders for
ends: commits are older than ends, and no lag is negative.

Nothing is kept between two gatherings. Units: offsets; bytes; ms, `at_ms` Unix of this broker.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

from syncline.model.ids import BrokerId, TopicPartition
from syncline.model.lag import PartitionEnds
from syncline.node.clock import Clock
from syncline.node.lag.ends import KnownEnds
from syncline.node.lag.group_rows import GroupRows
from syncline.node.lag.leaders import Answers, Leaders
from syncline.node.lag.peers import READ_PER_TURN, LagPeers
from syncline.node.lag.read_positions import ReadPositions
from syncline.node.lag.row_messages import (
    CoordinatedGroup,
    RowsAnswer,
    RowsRequest,
    decode_answer,
    encode_request,
)
from syncline.node.links.peer import PeerLost
from syncline.node.metadata.cluster_view import ClusterView
from syncline.node.partitions.partition import Partition
from syncline.storage.disk import Disk
from syncline.wire.api import ApiKey

PATIENCE_MS: Final = 2_000
# Of writing or reading pages of groups, before the loop is freed.
STEPS_PER_TURN: Final = 5
# Partitions of the cluster that are listed in one turn.
KEYS_PER_TURN: Final = 1_000


class GatheredGroup(NamedTuple):
    """A group, and which broker coordinates it."""

    coordinator: BrokerId
    group: CoordinatedGroup


class ClusterState(NamedTuple):
    """All groups and all partitions, as far as brokers answered in time."""

    at_ms: int
    groups: Sequence[GatheredGroup]
    """In the order of their ids."""
    ends: Mapping[str, Mapping[int, PartitionEnds]]
    """By topic and partition."""
    log_bytes: Mapping[BrokerId, Mapping[str, int]]
    """By broker and topic; empty unless asked for."""
    is_whole: bool
    """Whether every broker and every leader has answered."""


class ClusterGroups:
    """Gathers for one broker."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        cluster: ClusterView,
        disk: Disk,
        partitions: Mapping[TopicPartition, Partition],
        peers: LagPeers,
        rows: GroupRows,
        positions: ReadPositions,
        spawn: Callable[[Coroutine[Any, Any, None]], Awaitable[None]],
    ) -> None:
        self._spawn = spawn
        self._broker_id = broker_id
        self._positions = positions
        self._clock = clock
        self._cluster = cluster
        self._disk = disk
        self._partitions = partitions
        self._peers = peers
        self._rows = rows

    async def gather(self, *, has_sizes: bool = False) -> ClusterState:
        """Return the groups of all coordinators, and then the ends of all partitions."""
        brokers = [broker for broker, record in self._cluster.image.brokers.items() if not record.fenced]
        pages = await asyncio.gather(*(self._groups_of(broker, has_sizes=has_sizes) for broker in brokers))
        found: dict[str, GatheredGroup] = {}
        log_bytes: dict[BrokerId, Mapping[str, int]] = {}
        for broker, told in zip(brokers, pages, strict=True):
            for answer in told or ():
                # While a group moves, two brokers may name it: the second has just taken it.
                found.update((group.group_id, GatheredGroup(broker, group)) for group in answer.groups)
                if answer.log_bytes:
                    log_bytes[broker] = answer.log_bytes
        answers = await self._ends()
        ends: dict[str, dict[int, PartitionEnds]] = {}
        for count, (key, answered) in enumerate(answers.ends.items(), start=1):
            ends.setdefault(key.topic, {})[key.partition] = answered.ends
            if count % KEYS_PER_TURN == 0:
                await asyncio.sleep(0)
        return ClusterState(
            at_ms=self._clock.wall_ms(),
            groups=[found[group_id] for group_id in sorted(found)],
            ends=ends,
            log_bytes=log_bytes,
            is_whole=None not in pages and not answers.errors,
        )

    async def _groups_of(self, broker: BrokerId, *, has_sizes: bool) -> list[RowsAnswer] | None:
        """Return the pages of one coordinator, None if it does not answer in time."""
        pages: list[RowsAnswer] = []
        request = RowsRequest(has_sizes, "")
        try:
            async with asyncio.timeout(PATIENCE_MS / 1_000):
                while True:
                    pages.append(await self._page_of(broker, request))
                    if not pages[-1].has_more:
                        return pages
                    request = RowsRequest(has_sizes=False, after=pages[-1].groups[-1].group_id)
        except (PeerLost, TimeoutError):
            return None

    async def _page_of(self, broker: BrokerId, request: RowsRequest) -> RowsAnswer:
        if broker == self._broker_id:
            body = await _in_turns(self._rows.page(request))
        else:
            body = await self._peers.raw(broker, ApiKey.GROUP_ROWS, encode_request(request))
        # A step is up to `STEP_ROWS` rows, and as a rule a group with a few.
        return await self._peers.read(broker, decode_answer(body), repeat(READ_PER_TURN // STEPS_PER_TURN))

    async def _ends(self) -> Answers:
        """Ask the leaders of all partitions of the cluster."""
        # Of its own: these partitions are not those in which groups of this broker have committed.
        leaders = Leaders(
            broker_id=self._broker_id,
            clock=self._clock,
            cluster=self._cluster,
            disk=self._disk,
            partitions=self._partitions,
            peers=self._peers,
            ends=KnownEnds(1),
            positions=self._positions,
            spawn=self._spawn,
        )
        keys: dict[TopicPartition, tuple[()]] = {}
        for topic in self._cluster.image.topics.values():
            for record in topic.partitions:
                keys[TopicPartition(topic.name, record.partition)] = ()
                if len(keys) % KEYS_PER_TURN == 0:
                    await asyncio.sleep(0)
        answers = Answers()
        await leaders.ask(keys, answers, is_exact=False)
        return answers


async def _in_turns(steps: Generator[None, None, bytes]) -> bytes:
    """Return what the steps return, and free the loop between some of them."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            body: bytes = end.value
            return body
        count += 1
        if count % STEPS_PER_TURN == 0:
            await asyncio.sleep(0)
