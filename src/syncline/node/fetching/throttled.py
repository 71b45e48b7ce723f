"""What throttles leave of a follower's fetch: which partitions are read, how much, and what is counted (KIP-73).

A partition is sent empty when its replica is not in sync, a throttle concerns it, and the quota is exceeded. The read
is not even tried: the answer has the partition's watermark and no records, and none of the fetch's limits are used up.
The fetch counts as progress all the same: a throttled follower is as alive as any other.

In-sync replicas are served whatever the quota says, but counted (KAFKA-4313). So is every other replica that the
watermark waits for: one that the leader has proposed as a member, and one that is caught up and about to join.
Otherwise producers would wait for the quota.

Bytes are promised to the read when it begins, and counted when the answer is made: the encoded size of what concerns
the listed partitions, and for a move the records that its new replicas get.

Units: bytes; times in ms of the node's clock. Source: KIP-73; Kafka's ReplicaManager.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple, cast

from syncline.core.fetching.session import FetchSession, SessionPartition
from syncline.core.fetching.session_cache import SessionCache
from syncline.core.replication.leader import LeaderPartition
from syncline.core.replication.watermark import waits_for
from syncline.core.throttle.quota import HeldBack, Quota
from syncline.core.throttle.shares import request_part
from syncline.model.ids import BrokerId, TopicPartition
from syncline.node.fetching.row import Row
from syncline.node.partitions.partition import Partition
from syncline.node.throttle.role import RoleThrottle
from syncline.wire.fetch_response import FetchedPartition, FetchResponse, encode_fetch_response

# How many held partitions a look takes up when their quota has something left: more would hold the loop for nothing.
RELEASED_MAX: Final = 100
_LENGTH_PREFIX_BYTES: Final = 4

# The rows of an answer, by topic.
Topics = Sequence[tuple[str | bytes, Sequence[FetchedPartition]]]


class _Served(NamedTuple):
    """A throttled partition that is read: `is_exempt` because the watermark waits for it, or limited by a quota."""

    quotas: tuple[Quota, ...]
    is_exempt: bool = True
    limited_by: Quota | None = None
    limit_bytes: int = 0


_UNTHROTTLED: Final = _Served(())


class ThrottledReads:
    """The throttled reads of one follower's fetch."""

    __slots__ = (
        "_cut_short",
        "_dropped",
        "_follower_id",
        "_holds",
        "_now_ms",
        "_parts",
        "_promised",
        "_served",
        "_throttle",
    )

    def __init__(self, throttle: RoleThrottle, follower_id: BrokerId, *, is_full: bool) -> None:
        self._throttle = throttle
        self._follower_id = follower_id
        # The answer to a full request has a row for each partition, so that each is looked at until it is made.
        self._holds = not is_full
        self._now_ms = 0
        self._served: dict[Row, _Served] = {}
        self._dropped: dict[Row, Quota] = {}
        self._promised: list[tuple[Quota, int]] = []
        # What this fetch may use of each allowance: others wait for theirs.
        self._parts: dict[Quota, int] = {}
        # Quotas of whose allowance too little is left to be worth another fetch, as soon as the answer is counted.
        self._cut_short: dict[Quota, None] = {}

    def __repr__(self) -> str:
        return f"<{len(self._served)} reads for {self._follower_id}, {len(self._dropped)} dropped>"

    def look(self, session: FetchSession, now_ms: int) -> None:
        """Begin a look: forget the one before, and take up what was held back and now may be read."""
        self.end()
        self.free(session, now_ms)

    def free(self, session: FetchSession, now_ms: int) -> None:
        """Look again at entries whose quota has something left."""
        self._now_ms = now_ms
        for gate in session.gates:
            if not cast("Quota", gate).is_exceeded(now_ms):
                session.release(gate, RELEASED_MAX)

    def end(self) -> None:
        """Take back what was promised."""
        for quota, size_bytes in self._promised:
            quota.release(size_bytes)
        self._promised.clear()
        self._parts.clear()
        self._cut_short.clear()
        self._served.clear()
        self._dropped.clear()

    def awaited(self, session: FetchSession) -> frozenset[Quota]:
        """Return the quotas for which the look sent a partition empty, or the session leaves one out."""
        return frozenset((*self._dropped.values(), *cast("tuple[Quota, ...]", session.gates)))

    def allow(self, row: Row, partition: Partition, limit_bytes: int) -> int | None:
        """Return how much of a grant a partition may read; None if it is sent empty."""
        quotas, is_exempt = self._quotas(partition)
        if not quotas:
            return limit_bytes
        limited_by = None
        if not is_exempt:
            for quota in quotas:
                allowed_bytes = quota.allowance_bytes(self._now_ms)
                part_bytes = min(allowed_bytes, self._part(quota, allowed_bytes))
                if not part_bytes:
                    self._dropped[row] = quota
                    return None
                if part_bytes < limit_bytes:
                    limit_bytes, limited_by = part_bytes, quota if part_bytes == allowed_bytes else None
        self._served[row] = _Served(quotas, is_exempt, limited_by, limit_bytes)
        return limit_bytes

    def _part(self, quota: Quota, allowed_bytes: int) -> int:
        """Return what is left of this fetch's part of an allowance; the others that wait get theirs afterwards."""
        part_bytes = self._parts.get(quota)
        if part_bytes is None:
            contenders = self._throttle.waiting_count + 1
            part_bytes = self._parts[quota] = request_part(allowed_bytes, quota.promised_bytes, contenders)
        return part_bytes

    def reads(self, row: Row, size_bytes: int) -> None:
        """Promise the bytes of a read."""
        served = self._served.get(row, _UNTHROTTLED)
        if served.is_exempt:
            return
        for quota in served.quotas:
            quota.reserve(size_bytes)
            self._parts[quota] = max(0, self._parts[quota] - size_bytes)
            self._promised.append((quota, size_bytes))
        if served.limited_by is not None and 2 * size_bytes >= served.limit_bytes:
            self._cut_short[served.limited_by] = None

    def is_closed(self, entry: SessionPartition, partition: Partition) -> bool:
        """Return whether a partition would be sent empty now; then look at it only when its quota has something."""
        quotas, is_exempt = self._quotas(partition)
        quota = None if is_exempt else next((each for each in quotas if each.is_exceeded(self._now_ms)), None)
        if quota is None:
            return False
        if self._holds and entry.session is not None and entry.fetch_offset < partition.high_watermark:
            entry.session.hold(entry, quota)
        return True

    def _quotas(self, partition: Partition) -> tuple[tuple[Quota, ...], bool]:
        """Return the quotas that count what is sent of a partition, and whether the watermark waits for its replica."""
        throttle, leader = self._throttle, partition.leader
        if leader is None:
            return (), True
        is_awaited = self._is_awaited(leader)
        listed = throttle.listed(partition.key)
        # What a replica needs once it is in sync is no longer the move's.
        moving = None if is_awaited else throttle.moving(partition.key, self._follower_id)
        return tuple(each for each in (listed, moving) if each is not None), is_awaited

    def hold(self, session: FetchSession, *, is_answered: bool) -> None:
        """Look at what was sent empty only when its quota has something left.

        A follower that has all below the watermark is looked at each time, since it may become a member meanwhile.
        """
        if not (self._holds or is_answered):
            return
        for row, quota in self._dropped.items():
            entry = row.entry
            is_unchanged = entry.session is session and entry.change_count == entry.looked_change_count
            if is_unchanged and entry.fetch_offset < row.high_watermark and not self._is_awaited_by_now(row):
                session.hold(entry, quota)

    def _is_awaited_by_now(self, row: Row) -> bool:
        """Return whether the replica is awaited now that this fetch has been counted as its progress."""
        leader = None if row.partition is None else row.partition.leader
        return leader is not None and self._is_awaited(leader)

    def _is_awaited(self, leader: LeaderPartition) -> bool:
        """Return whether the watermark waits for the follower."""
        follower = leader.in_sync.by_id.get(self._follower_id)
        return follower is not None and waits_for(
            follower, leader.log_end, leader.settings.lag, leader.in_sync.brokers, self._now_ms
        )

    def count(self, rows: Sequence[Row], topics: Topics, version: int, now_ms: int) -> None:
        """Count what the answer, or a part of it, sends."""
        for quota, size_bytes in self._promised:
            quota.release(size_bytes)
        self._promised.clear()
        listed: Quota | None = None
        keys = set()
        copied_bytes = 0
        for row in rows:
            partition = row.partition
            if partition is None:
                continue
            by_list = self._throttle.listed(partition.key)
            served = self._served.get(row, _UNTHROTTLED)
            if by_list is not None:
                listed = by_list
                keys.add(row.entry.key)
                if row.records:
                    self._throttle.taken.note(partition.key, self._follower_id, partition.record, len(row.records))
                copied_bytes += 0 if served.is_exempt else len(row.records)
            for each in served.quotas:
                if each is not by_list and row.records:
                    each.record(len(row.records), now_ms)
        if listed is not None:
            size_bytes = _encoded_bytes(topics, keys, version)
            listed.record(size_bytes, now_ms, exempt_bytes=size_bytes - min(size_bytes, copied_bytes))

    def counted(self) -> None:
        """End the look: all of the answer is counted."""
        for quota in self._cut_short:
            quota.cut_short()
        self.end()


class HeldForFollowers:
    """What throttles hold back from the followers of one broker."""

    def __init__(self, sessions: SessionCache, partitions: Mapping[TopicPartition, Partition]) -> None:
        self._sessions = sessions
        self._partitions = partitions

    def held(self) -> Iterator[HeldBack]:
        """Iterate over what is held back: by the follower and the quota for which it waits."""
        for session, gate, entries in self._sessions.held():
            keys = (entry.target.key for entry in entries if isinstance(entry.target, Partition))
            yield HeldBack((cast("Quota", gate),), zip(keys, repeat(session.replica_id)))

    def throttle_changed(self, keys: Collection[TopicPartition]) -> None:
        """Look again at what is held back of these partitions."""
        for key in keys:
            partition = self._partitions.get(key)
            if partition is not None:
                partition.watchers.throttle_changed()


def _encoded_bytes(topics: Topics, keys: set[object], version: int) -> int:
    """Return the size of an answer, restricted to some partitions, with its length."""
    listed = [(topic, [row for row in rows if (topic, row.partition) in keys]) for topic, rows in topics]
    restricted = FetchResponse(topics=[(topic, rows) for topic, rows in listed if rows])
    if not restricted.topics:
        return 0
    return _LENGTH_PREFIX_BYTES + sum(len(part) for part in encode_fetch_response(restricted, version))
