"""What throttles leave of the fetches from one leader: which partitions the next one lists, and how much of each.

A partition is left out of a fetch when this replica is not known to be in sync, a throttle concerns it, and the quota
is exceeded. One request has throttled and other partitions alike. With a strict quota each throttled partition that
takes part gets a share of the allowance, promised to it until the answer is there; the others wait for their turn, and
whichever got records goes to the end. In Kafka's mode the allowance is everything or nothing.

In sync is a replica that lacks nothing below the watermark, as of the last answer; or, while that is unknown because
the leader is new, one that the controller counts among the members: the new leader's watermark waits for it.

Cost is proportional to the partitions that change, not to those that a list names.

Units: bytes; times in ms of the node's clock.
Source: KIP-73 (throttling by leaving out); KAFKA-4313; Kafka's AbstractFetcherThread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Final

from syncline.core.fetching.fetcher import Fetcher
from syncline.core.replication.follower import UNKNOWN_LAG
from syncline.core.throttle.quota import UNLIMITED, HeldBack, Quota
from syncline.core.throttle.shares import partition_share
from syncline.core.throttle.turns import Turns
from syncline.model.ids import BrokerId
from syncline.node.partitions.partition import Partition
from syncline.node.replication.leader_questions import Key
from syncline.node.throttle.role import RoleThrottle

Quotas = tuple[Quota, ...]

# So many partitions get a share of one request, at most: an answer has ten or so whose shares are used up, and to share
# a gigabyte among two thousand held the loop for 20 ms.
SHARES_MAX: Final = 100
# So long a request waits for data while others could have its partitions' shares.
CROWDED_WAIT_MS: Final = 10


class _Queue:
    """Partitions that catch up under the same quotas, in the order of their turns."""

    __slots__ = ("is_open", "keys", "quotas", "shares")

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas
        self.keys: dict[Key, None] = {}
        # What is promised to those that the last request listed; without limits if the queue is open.
        self.shares: dict[Key, int] = {}
        self.is_open = False

    @property
    def is_empty(self) -> bool:
        return not self.keys

    def put_last(self, some: Iterable[Key]) -> None:
        """Let the others have their turns before these."""
        for key in some:
            del self.keys[key]
            self.keys[key] = None

    def end_shares(self, now_ms: int, limit_bytes: int) -> None:
        """Return the reserved bytes to their quotas: the answer has come, or none is expected."""
        short = False
        for share_bytes in self.shares.values():
            short = short or share_bytes < limit_bytes
            for quota in self.quotas:
                quota.release(share_bytes)
        if short:
            for quota in self.quotas:
                if 4 * quota.allowance_bytes(now_ms) < min(self.shares.values()):
                    # The rest is less than a batch, or too little to be worth another request.
                    quota.cut_short()
        self.shares.clear()


class ThrottledFetches:
    """The throttled partitions that one fetcher follows."""

    def __init__(
        self,
        throttle: RoleThrottle,
        fetcher: Fetcher[Key],
        partitions: Mapping[Key, Partition],
        broker_id: BrokerId,
        go: Callable[[], None],
    ) -> None:
        self._throttle = throttle
        self._fetcher = fetcher
        self._partitions = partitions
        self._broker_id = broker_id
        self._go = go
        self._queues: dict[Quotas, _Queue] = {}
        self._queue_of: dict[Key, _Queue] = {}
        self._turns: dict[Quota, Turns] = {}
        self._limit_bytes = 0

    def __repr__(self) -> str:
        return f"<{len(self._queue_of)} throttled partitions, {self._fetcher.held_count} of them left out>"

    @property
    def held_count(self) -> int:
        """Return how many partitions the next request leaves out."""
        return self._fetcher.held_count

    def held(self) -> Iterator[HeldBack]:
        """Iterate over what is left out: by the quotas for which it waits."""
        for queue in self._queues.values():
            keys = (self._partitions[key].key for key in queue.keys if self._fetcher.is_held(key))
            yield HeldBack(queue.quotas, zip(keys, repeat(self._broker_id)))

    def throttle_opened(self) -> None:
        """Fetch again: a quota may have something left."""
        self._go()

    def look_at(self, key: Key, partition: Partition) -> None:
        """Find out whether a partition is throttled: it is new, or its lag or what throttles it is."""
        quotas = () if self._is_in_sync(partition) else self._quotas_of(partition)
        queue = self._queue_of.get(key)
        if queue is None and not quotas:
            return
        if queue is not None:
            if quotas == queue.quotas:
                return
            self.leave(key)
        if not quotas:
            return
        queue = self._queues.get(quotas)
        if queue is None:
            queue = self._queues[quotas] = _Queue(quotas)
            for quota in quotas:
                self._turns[quota] = self._throttle.contend(quota, self)
        queue.keys[key] = None
        self._queue_of[key] = queue
        if not queue.is_open:
            self._fetcher.hold(key)

    def leave(self, key: Key) -> None:
        """Stop throttling a partition: it is in sync, or no longer followed."""
        queue = self._queue_of.pop(key, None)
        if queue is None:
            return
        del queue.keys[key]
        share_bytes = queue.shares.pop(key, 0)
        for quota in queue.quotas:
            quota.release(share_bytes)
        self._fetcher.release(key)
        if queue.is_empty:
            del self._queues[queue.quotas]
            for quota in queue.quotas:
                if not any(quota in other.quotas for other in self._queues.values()):
                    del self._turns[quota]
                    self._throttle.concede(quota, self)

    def close(self, now_ms: int) -> None:
        """Throttle nothing more."""
        self.ended(now_ms)
        for key in list(self._queue_of):
            self.leave(key)
        self._throttle.forget(self)

    def check_invariants(self) -> None:
        """Assert that each partition is in one queue, and held unless it has a share."""
        assert sum(len(queue.keys) for queue in self._queues.values()) == len(self._queue_of), f"{self}: two queues"
        for key, queue in self._queue_of.items():
            assert key in queue.keys, f"{key} is missing in its queue"
            assert queue.is_open or key in queue.shares or self._fetcher.is_held(key), f"{key} is fetched for nothing"

    def _is_in_sync(self, partition: Partition) -> bool:
        follower, record = partition.follower, partition.record
        if follower is None or follower.lag_records == 0:
            return True
        return follower.lag_records == UNKNOWN_LAG and record is not None and self._broker_id in record.isr

    def _quotas_of(self, partition: Partition) -> Quotas:
        found = (self._throttle.listed(partition.key), self._throttle.moving(partition.key, self._broker_id))
        return tuple(each for each in found if each is not None and each.limit_bytes_per_s != UNLIMITED)

    def share_out(self, now_ms: int, limit_bytes: int) -> int | None:
        """Decide which throttled partitions the next request lists; return when to decide again if some are left out.

        `limit_bytes` is what the request asks for per partition.
        """
        self._limit_bytes = limit_bytes
        used_bytes = dict.fromkeys(self._turns, 0)
        for queue in list(self._queues.values()):
            before = queue.keys if queue.is_open else dict(queue.shares)
            queue.end_shares(now_ms, limit_bytes)
            left_bytes = min(self._turns[quota].offer(self, quota, now_ms, used_bytes[quota]) for quota in queue.quotas)
            if left_bytes == UNLIMITED:
                self._open(queue)
                continue
            if len(before) == SHARES_MAX:
                # Some that were asked for and got nothing may never get anything: the others have their turn, too.
                queue.put_last([key for key in before if self._fetcher.sent(key) is not None])
            self._share(queue, left_bytes, limit_bytes)
            for key in before:
                if key not in queue.shares:
                    self._fetcher.hold(key)
            queue.is_open = False
            if queue.shares:
                for quota in queue.quotas:
                    used_bytes[quota] += sum(queue.shares.values())
                # The others come first next time, if they share a quota.
                self._queues[queue.quotas] = self._queues.pop(queue.quotas)
        for quota, size_bytes in used_bytes.items():
            if size_bytes:
                self._turns[quota].take(self, now_ms)
        return self._wait_for_turns(now_ms)

    def _wait_for_turns(self, now_ms: int) -> int | None:
        """Wait if some partitions are left out; return until when."""
        holding = [
            queue for queue in self._queues.values() if not queue.is_open and len(queue.shares) < len(queue.keys)
        ]
        if not holding:
            self._throttle.forget(self)
            return None
        quotas = dict.fromkeys(quota for queue in holding for quota in queue.quotas)
        self._throttle.wait(self, quotas)
        if any(len(queue.shares) == SHARES_MAX for queue in holding):
            return now_ms + CROWDED_WAIT_MS
        times_ms = [self._turns[quota].again_ms(self, quota, now_ms) for quota in quotas]
        # A quota with something left is no reason to hurry: it was too little to share out.
        return min((at_ms for at_ms in times_ms if at_ms is not None and at_ms > now_ms), default=None)

    def _open(self, queue: _Queue) -> None:
        if not queue.is_open:
            queue.is_open = True
            for key in queue.keys:
                self._fetcher.release(key)

    def _share(self, queue: _Queue, left_bytes: int, limit_bytes: int) -> None:
        for key in queue.keys:
            share_bytes = partition_share(left_bytes, limit_bytes, is_first=not queue.shares)
            if not share_bytes or len(queue.shares) == SHARES_MAX:
                break
            left_bytes -= share_bytes
            queue.shares[key] = share_bytes
            self._fetcher.release(key, share_bytes)
            for quota in queue.quotas:
                quota.reserve(share_bytes)

    def ended(self, now_ms: int) -> None:
        """Take back what was promised to the request: its answer is there, or its connection is lost."""
        for queue in self._queues.values():
            if queue.shares:
                listed = list(queue.shares)
                queue.end_shares(now_ms, self._limit_bytes)
                for key in listed:
                    self._fetcher.hold(key)

    def received(self, key: Key, partition: Partition, size_bytes: int, now_ms: int) -> None:
        """Count the records of an answer; the partition's next turn is the last one."""
        if not size_bytes:
            return
        queue = self._queue_of.get(key)
        listed = self._throttle.listed(partition.key)
        if listed is not None:
            listed.record(size_bytes, now_ms, exempt_bytes=0 if queue is not None else size_bytes)
            self._throttle.taken.note(partition.key, self._broker_id, partition.record, size_bytes)
        if queue is not None:
            for quota in queue.quotas:
                if quota is not listed:
                    quota.record(size_bytes, now_ms)
            queue.put_last((key,))
