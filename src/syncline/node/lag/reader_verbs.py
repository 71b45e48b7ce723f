"""Who reads what, for tools on this machine: a verb of the control API.

    lag.readers   from, count   -> readers: from where each consumer fetches each partition that this broker serves;
                                   members: who may read what in the groups that this broker coordinates; next

A reader and the group that it reads for may be known to different brokers, so a tool asks all, and puts them together
(`core/lag/readers.py`). Both lists come in pages of the same numbers: those of positions, connection by connection, and
those of groups. A page costs what it has, so it ends early where its groups may read many partitions.
Units: offsets, ms; `held_back_share` is the part of the last minute or two that its connection was not read.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.core.lag.readers import MemberAssignment
from syncline.model.ids import TopicPartition
from syncline.node.lag.pages import next_page, page_of
from syncline.node.lag.read_positions import ReaderPosition

if TYPE_CHECKING:
    from syncline.node.lag.on_demand import LagOnDemand
    from syncline.node.partitions.partition import Partition
    from syncline.node.views.parts import HasPartitions
    from syncline.node.views.values import HasBrokerId, HasClock

    class Host(HasBrokerId, HasClock, HasPartitions, Protocol):
        """What this verb uses of its broker."""

        @property
        def lag(self) -> LagOnDemand:
            """Return what measures lag."""


Answer = dict[str, Any]


# Positions that are looked at before the loop is freed: some milliseconds where all connections have one name.
POSITIONS_PER_TURN: Final = 10
# Groups of a page, whose members may read so many partitions; at least one group.
PARTITIONS_MAX: Final = 20_000


async def readers(broker: "Host", fields: Mapping[str, Any]) -> Answer:
    """Return who reads from this broker, and the members of its groups."""
    first, count = page_of(fields)
    lag, positions = broker.lag.of_groups, broker.lag.positions
    group_ids = [] if lag is None else lag.group_ids()
    members: list[Answer] = []
    told = 0
    for number, group_id in enumerate(group_ids[first : first + count]):
        if lag is None or told > PARTITIONS_MAX:
            count = number
            break
        for each in await lag.assignments([group_id]):
            told += len(each.partitions)
            members.append(_member(each))
            await asyncio.sleep(0)
        # Many groups have commits and no members.
        await asyncio.sleep(0)
    rows: list[Answer] = []
    for at in range(first, min(first + count, len(positions)), POSITIONS_PER_TURN):
        some = min(POSITIONS_PER_TURN, first + count - at)
        rows += _readers(broker, at, some)
        await asyncio.sleep(0)
    return {
        "broker": broker.broker_id,
        "readers": rows,
        "members": members,
        "next": next_page(first, count, max(len(positions), len(group_ids))),
    }


def _readers(broker: "Host", first: int, count: int) -> list[Answer]:
    """Return so many positions from a number on."""

    def high_watermark_of(key: TopicPartition) -> int | None:
        partition = broker.partitions.get(key)
        return None if partition is None else partition.high_watermark

    found = broker.lag.positions.page(first, count, high_watermark_of, broker.clock.mono_ms())
    return [_reader(broker.partitions[key], key, each) for key, each in found]


def _reader(partition: "Partition", key: TopicPartition, reader: ReaderPosition) -> Answer:
    return {
        "topic": key.topic,
        "partition": key.partition,
        "client_id": reader.client_id,
        "host": reader.host,
        "position": reader.offset,
        "end": partition.high_watermark,
        "lag": max(0, partition.high_watermark - reader.offset),
        "fetched_ago_ms": reader.fetched_ago_ms,
        "held_back_share": reader.held_back_share,
        "is_shared": reader.is_shared,
        "is_connected": reader.is_open,
        "is_leader": partition.leader is not None,
    }


def _member(member: MemberAssignment) -> Answer:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(member.partitions):
        topics.setdefault(topic, []).append(partition)
    return {
        "group": member.group_id,
        "member": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "topics": topics,
    }
