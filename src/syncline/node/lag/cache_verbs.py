"""The page cache for tools on this machine: a verb of the control API.

    cache.show  {} -> interval_s; written_bytes_per_s, read_bytes_per_s; memory_bytes; buckets; hit_bytes, miss_bytes,
                      unmeasured_bytes; readers; members

`buckets` are rows [exponent, fetches, bytes] of what consumers read whose distance is at most 2 ** exponent; a reader
has its own, by topic. `members` are those of the groups that this broker coordinates: a fetch does not name its
group, so a tool asks all brokers and joins readers with members.

Units: bytes, seconds; `memory_bytes` is what the page cache may take, -1 unknown.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from syncline.core.lag.buckets import BYTES
from syncline.model.errors import RequestError
from syncline.node.lag.cache_window import CacheWindow, ReaderKey, Reads, is_other
from syncline.node.lag.members import members_of

if TYPE_CHECKING:
    from syncline.node.lag.on_demand import LagOnDemand
    from syncline.node.views.values import HasBrokerId

    class Host(HasBrokerId, Protocol):
        """What this verb uses of its broker."""

        @property
        def lag(self) -> LagOnDemand:
            """Return what measures lag."""

        @property
        def cache(self) -> CacheWindow:
            """Return what was read of late."""


Answer = dict[str, Any]

# Readers of the most bytes; the answer's total has the others, too. Groups of one broker whose members it has.
READERS_MAX: Final = 200
GROUPS_MAX: Final = 500


async def show(broker: "Host", _fields: Mapping[str, Any]) -> Answer:
    """Return what consumers have read since the last note, and what the broker has written."""
    began = broker.cache.began
    known: list[tuple[int, ReaderKey, Reads]] = []
    total = _Total()
    for some in broker.cache.since(began):
        for key, reads in some:
            total.add(reads)
            if not is_other(key) and any(reads.bytes):
                known.append((-sum(reads.bytes), key, reads))
        await asyncio.sleep(0)
    lasted_ms, written_bytes = broker.cache.lasted(began)
    interval_s = max(1, lasted_ms) / 1000
    # A reader has one row for a topic, so this compares no reads.
    known.sort()
    readers = []
    for _, key, reads in known[:READERS_MAX]:
        readers.append(_reader(key, reads))
        await asyncio.sleep(0)
    return {
        "broker": broker.broker_id,
        "interval_s": round(interval_s, 3),
        "written_bytes_per_s": written_bytes / interval_s,
        "read_bytes_per_s": (total.hit_bytes + total.missed_bytes + total.unmeasured_bytes) / interval_s,
        "memory_bytes": broker.lag.disk.cache_memory_bytes(),
        "buckets": _buckets(total.fetches, total.bytes),
        "hit_bytes": total.hit_bytes,
        "miss_bytes": total.missed_bytes,
        "unmeasured_bytes": total.unmeasured_bytes,
        "readers": readers,
        "members": await _members(broker.lag),
    }


class _Total:
    """What all readers have read."""

    __slots__ = ("bytes", "fetches", "hit_bytes", "missed_bytes", "unmeasured_bytes")

    def __init__(self) -> None:
        self.fetches = [0] * (BYTES.bound_count + 1)
        self.bytes = [0] * (BYTES.bound_count + 1)
        self.hit_bytes = self.missed_bytes = self.unmeasured_bytes = 0

    def add(self, reads: Reads) -> None:
        """Add what one reader has read of a topic."""
        for index, fetches in enumerate(reads.fetches):
            # Most buckets are empty.
            if fetches:
                self.fetches[index] += fetches
                self.bytes[index] += reads.bytes[index]
        self.hit_bytes += reads.hit_bytes
        self.missed_bytes += reads.missed_bytes
        self.unmeasured_bytes += reads.unmeasured_bytes


def _reader(key: ReaderKey, reads: Reads) -> Answer:
    client_id, host, topic = key
    return {
        "client_id": client_id,
        "host": host.removeprefix("/"),
        "topic": topic,
        "group": None,
        "buckets": _buckets(reads.fetches, reads.bytes),
        "hit_bytes": reads.hit_bytes,
        "miss_bytes": reads.missed_bytes,
    }


def _buckets(fetches: Sequence[int], sizes_bytes: Sequence[int]) -> list[list[int]]:
    """Return the buckets that are not empty."""
    return [[BYTES.first_exponent + index, count, sizes_bytes[index]] for index, count in enumerate(fetches) if count]


async def _members(lag: "LagOnDemand") -> list[Answer]:
    """Return what members of the groups of this broker may read, by topic."""
    coordinator = lag.coordinator
    if coordinator is None:
        return []
    try:
        groups = coordinator.list_groups()[:GROUPS_MAX]
    except RequestError:
        # It still reads them.
        return []
    rows = []
    for group in groups:
        topics: dict[tuple[str, str], set[str]] = {}
        for partition, reader in (await members_of(coordinator, group.group_id)).readers.items():
            topics.setdefault((reader.client_id, reader.host), set()).add(partition.topic)
        rows += [
            {"group": group.group_id, "client_id": client_id, "host": host, "topics": sorted(names)}
            for (client_id, host), names in topics.items()
        ]
        await asyncio.sleep(0)
    return rows
