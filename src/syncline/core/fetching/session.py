"""Fetch sessions, the server's side: a reader's partition set, remembered.

One hard idea: an incremental fetch is a fetch of *all* partitions of its
session, but only those that the request lists, or that changed since they were
last answered, can have a new answer. So each entry is either *pending* or
*quiet*, and a fetch looks at the pending ones only; a thousand idle partitions
cost nothing. The fetch also proves that the follower is still at the same offset
of the others; one time stamp, shared by all of them, records that.

An entry becomes quiet when it was answered at its bound without error and has not
changed since the look; `watchers` makes it pending again. A request without a
session gets one without an id, so that all fetches share one code path. If it is answered at once, nothing remembers
it; if it waits, its partitions are watched, and counted for its client, like those of a session (`FetchContext.stay`).

A throttle holds entries back: a lagging follower's partition for which a quota (its *gate*) has nothing left is not
looked at again before the gate opens, whatever is appended to it. So 2,000 throttled partitions cost nothing, either.

Units: session epochs count requests: 0 opens, -1 ends, after 2^31-1 comes 1. Times in ms of the node's monotonic clock.
Invariants: `pending()` keeps the session's order; served partitions move to its end; what is held is not pending.
Source: KIP-227, KIP-516 (names or ids, never both in one session), KIP-73 (throttles).
"""

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from syncline.core.fetching.session_bytes import PARTITION_BYTES, Payer, session_bytes
from syncline.core.replication.follower_state import NEVER_MS
from syncline.core.replication.slow_leader.waits import SlowFetches
from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE, BrokerEpoch, BrokerId, LeaderEpoch, Offset
from syncline.model.tables import shrink

NO_SESSION_ID: Final = 0
OPENING_EPOCH: Final = 0
CLOSING_EPOCH: Final = -1
SESSION_EPOCH_MAX: Final = 2**31 - 1

_NEVER_SENT: Final = Offset(-2)


class FetchSpec(NamedTuple):
    """What a reader requests from one partition."""

    fetch_offset: Offset
    max_bytes: int
    log_start: Offset = Offset(NONE)
    current_leader_epoch: LeaderEpoch = LeaderEpoch(NONE)
    last_fetched_epoch: LeaderEpoch = LeaderEpoch(NONE)


class SessionClock:
    """When a session fetched; its entries share it. `slow_fetches` is None until the first slow one (KIP-501)."""

    __slots__ = ("last_fetch_ms", "previous_fetch_ms", "slow_fetches")

    def __init__(self, now_ms: int) -> None:
        self.last_fetch_ms = now_ms
        self.previous_fetch_ms = now_ms
        self.slow_fetches: SlowFetches | None = None

    def touch(self, now_ms: int) -> None:
        """Record one more fetch."""
        assert now_ms >= self.last_fetch_ms, f"a fetch at {now_ms}, after the one at {self.last_fetch_ms}"
        self.previous_fetch_ms = self.last_fetch_ms
        self.last_fetch_ms = now_ms


class SessionPartition:
    """One partition of one session, and what the leader last sent to its reader.

    `target` is what the session's owner has for the partition, kept here: the object itself, or its name.
    """

    __slots__ = (
        "_clock",
        "change_count",
        "current_leader_epoch",
        "fetch_offset",
        "gate",
        "is_follower",
        "is_pending",
        "is_unproved",
        "key",
        "last_fetched_epoch",
        "log_start",
        "looked_change_count",
        "max_bytes",
        "order",
        "sent_high_watermark",
        "sent_log_start",
        "session",
        "target",
    )

    def __init__(self, session: "FetchSession", key: Hashable, spec: FetchSpec, order: int) -> None:
        self.session: FetchSession | None = session
        self.key = key
        self.is_follower = session.is_follower
        self.order = order
        self.sent_high_watermark = _NEVER_SENT
        self.sent_log_start = _NEVER_SENT
        self.change_count = 0
        self.looked_change_count = 0
        self.is_pending = False
        # Whether the reader's latest request for it proves progress that is not counted yet.
        self.is_unproved = True
        # The quota that holds it back.
        self.gate: object | None = None
        self.target: object | None = None
        self._clock = session.clock
        # As `ask`, in line.
        (self.fetch_offset, self.max_bytes, self.log_start, self.current_leader_epoch, self.last_fetched_epoch) = spec

    def __repr__(self) -> str:
        return f"SessionPartition({self.key} at {self.fetch_offset}{', pending' if self.is_pending else ''})"

    @property
    def is_gone(self) -> bool:
        """Whether the session ended or forgot this partition."""
        return self.session is None

    @property
    def last_fetch_ms(self) -> int:
        """The latest fetch of the session that covered this partition."""
        return self._clock.last_fetch_ms

    @property
    def previous_fetch_ms(self) -> int:
        """The fetch before the latest."""
        return self._clock.previous_fetch_ms

    @property
    def served_ms(self) -> int:
        """When the latest slow fetch of the session was answered."""
        slow_fetches = self._clock.slow_fetches
        return NEVER_MS if slow_fetches is None else slow_fetches.served_ms

    @property
    def slow_fetches(self) -> SlowFetches | None:
        """The slow fetches of the session."""
        return self._clock.slow_fetches

    def ask(self, spec: FetchSpec) -> None:
        """Store the reader's new request."""
        self.is_unproved = True
        (self.fetch_offset, self.max_bytes, self.log_start, self.current_leader_epoch, self.last_fetched_epoch) = spec

    def follow(self, clock: SessionClock) -> None:
        """Use the session's new clock; the old one keeps what was proved before."""
        self._clock = clock

    def changed(self, *, wakes: bool, frees: bool = False) -> None:
        """Mark the partition as changed; wake the parked fetch if that may have made it answerable.

        `frees`: its role changed, so that no throttle may hold it. More records make no difference to a throttle.
        """
        session = self.session
        if session is None:
            return
        self.change_count += 1
        if not self.is_pending:
            if self.gate is not None and not frees:
                return
            session.make_pending(self)
        if wakes and session.on_change is not None:
            session.on_change(self)

    def leave(self) -> None:
        """End the membership; the clock stops for this partition, as the session continues without it."""
        if not self.is_follower:
            # Nobody asks for a consumer's clock, and its session may have thousands of partitions.
            self.session = self.target = None
            return
        clock = self._clock
        self._clock = SessionClock(clock.last_fetch_ms)
        if clock.slow_fetches is not None:
            self._clock.slow_fetches = clock.slow_fetches.outlived()
        self.session = None
        # The partition may keep this entry among its watchers: references in a circle would keep both in memory.
        self.target = None


class FetchSession:
    """A reader's partitions in serving order, and the epoch that its next request must carry.

    `on_change` is set while a fetch is parked. `payer` is the client's connection for which its memory is counted, None
    for a broker's session.
    """

    __slots__ = (
        "_held",
        "_next_order",
        "_pending",
        "broker_epoch",
        "clock",
        "created_ms",
        "is_follower",
        "last_used_ms",
        "next_epoch",
        "on_change",
        "partitions",
        "payer",
        "replica_id",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        *,
        uses_topic_ids: bool,
        replica_id: BrokerId,
        broker_epoch: BrokerEpoch,
        now_ms: int,
    ) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.is_follower = replica_id >= 0
        self.next_epoch = 1
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.clock = SessionClock(now_ms)
        self.partitions: dict[Hashable, SessionPartition] = {}
        self.on_change: Callable[[SessionPartition], None] | None = None
        # A dict as an ordered set: the order of a set is not deterministic.
        self._pending: dict[SessionPartition, None] = {}
        # By gate, what a throttle holds back.
        self._held: dict[object, dict[SessionPartition, None]] = {}
        self._next_order = 0
        self.payer: Payer | None = None

    def __repr__(self) -> str:
        return f"FetchSession({self.session_id} of {self.replica_id}: {len(self.partitions)} partitions)"

    def ask(self, listed: Iterable[tuple[Hashable, FetchSpec]]) -> None:
        """Store the partitions that a request lists."""
        partitions = self.partitions
        before_count = len(partitions)
        for key, spec in listed:
            entry = partitions.get(key)
            if entry is None:
                entry = partitions[key] = SessionPartition(self, key, spec, self._next_order)
                self._next_order += 1
                # As `make_pending`, in line: there may be thousands.
                entry.is_pending = True
                self._pending[entry] = None
                continue
            entry.ask(spec)
            if not entry.is_pending:
                self.make_pending(entry)
        if self.payer is not None and len(partitions) > before_count:
            self.payer.keep((len(partitions) - before_count) * PARTITION_BYTES)

    @property
    def size_bytes(self) -> int:
        """The memory that it takes."""
        return session_bytes(len(self.partitions))

    @property
    def is_brokers(self) -> bool:
        """Whether it is a follower's; a client that says it is one has a payer."""
        return self.is_follower and self.payer is None

    def count_for(self, payer: Payer | None) -> None:
        """Count the memory for another connection."""
        if self.payer is not None:
            self.payer.keep(-self.size_bytes)
        self.payer = payer
        if payer is not None:
            payer.keep(self.size_bytes)

    def slow_fetches(self) -> SlowFetches:
        """Return the slow fetches of this session; create them at the first one."""
        if self.clock.slow_fetches is None:
            self.clock.slow_fetches = SlowFetches()
        return self.clock.slow_fetches

    def forget(self, keys: Iterable[Hashable]) -> None:
        """Drop partitions that the reader no longer wants."""
        for key in keys:
            entry = self.partitions.pop(key, None)
            if entry is not None:
                shrink(self.partitions)
                self._pending.pop(entry, None)
                if entry.gate is not None:
                    self._let_go(entry)
                entry.leave()
                if self.payer is not None:
                    self.payer.keep(-PARTITION_BYTES)

    def make_pending(self, entry: SessionPartition) -> None:
        """Let the next fetch look at `entry`."""
        if entry.gate is not None:
            self._let_go(entry)
        entry.is_pending = True
        self._pending[entry] = None

    @property
    def held_count(self) -> int:
        """Return how many entries throttles hold back."""
        return sum(len(entries) for entries in self._held.values())

    @property
    def held(self) -> Mapping[object, Collection[SessionPartition]]:
        """Return the entries that throttles hold back, by the quota that each waits for."""
        return self._held

    @property
    def gates(self) -> tuple[object, ...]:
        """Return the quotas that hold entries back."""
        return tuple(self._held)

    def hold(self, entry: SessionPartition, gate: object) -> None:
        """Skip `entry` until its gate opens."""
        assert entry.session is self, f"{entry!r} is not part of {self!r}"
        self.make_quiet(entry)
        if entry.gate is not None:
            self._let_go(entry)
        entry.gate = gate
        self._held.setdefault(gate, {})[entry] = None

    def release(self, gate: object, count: int) -> None:
        """Look at up to `count` entries that a gate held back, those first whose turn it is."""
        held = self._held.get(gate, {})
        for entry in heapq.nsmallest(count, held, key=_order_of) if len(held) > count else list(held):
            self.make_pending(entry)

    def _let_go(self, entry: SessionPartition) -> None:
        held = self._held[entry.gate]
        del held[entry]
        if not held:
            del self._held[entry.gate]
        entry.gate = None

    def make_quiet(self, entry: SessionPartition) -> None:
        """Skip `entry` until something changes."""
        entry.is_pending = False
        self._pending.pop(entry, None)

    def pending(self) -> list[SessionPartition]:
        """Return the entries to look at, in serving order."""
        return sorted(self._pending, key=_order_of)

    def move_to_end(self, entry: SessionPartition) -> None:
        """Serve `entry` last the next time."""
        entry.order = self._next_order
        self._next_order += 1

    def new_incarnation(self, broker_epoch: BrokerEpoch, now_ms: int) -> None:
        """Look at everything again: another process of the follower took over the session, or the old one is stale."""
        self.broker_epoch = broker_epoch
        slow_fetches = self.clock.slow_fetches
        self.clock = SessionClock(now_ms)
        if slow_fetches is not None:
            slow_fetches.new_incarnation()
            self.clock.slow_fetches = slow_fetches
        for entry in self.partitions.values():
            entry.follow(self.clock)
            if not entry.is_pending:
                self.make_pending(entry)

    def check_invariants(self) -> None:
        """Assert how the entries relate to the session and to its list of pending ones."""
        for entry in self._pending:
            assert self.partitions.get(entry.key) is entry, f"{entry!r} is pending in {self!r} and not part of it"
        orders: set[int] = set()
        for key, entry in self.partitions.items():
            assert entry.key == key, f"{entry!r} is kept under {key}"
            assert entry.session is self, f"{entry!r} belongs to {entry.session!r}, not to {self!r}"
            assert entry.is_pending is (entry in self._pending), (
                f"{entry!r} and {self!r} disagree on whether it is pending"
            )
            assert entry.looked_change_count <= entry.change_count, f"{entry!r} was looked at before it changed"
            assert entry.gate is None or not entry.is_pending, f"{entry!r} is held back and looked at"
            assert entry.gate is None or entry in self._held[entry.gate], f"{entry!r} is held back by nobody"
            orders.add(entry.order)
        assert len(orders) == len(self.partitions), f"two entries of {self!r} have the same turn"
        assert max(orders, default=-1) < self._next_order, f"turn {max(orders)} of {self!r} is yet to be given"
        assert 1 <= self.next_epoch <= SESSION_EPOCH_MAX, f"{self!r} expects epoch {self.next_epoch}"

    def close(self) -> None:
        """End the session."""
        if self.payer is not None:
            self.count_for(None)
        if self.is_follower:
            for entry in self.partitions.values():
                entry.leave()
        else:
            # As `leave`, in line: there may be thousands.
            for entry in self.partitions.values():
                entry.session = entry.target = None
        self.partitions = {}
        self._pending = {}
        self._held = {}
        self.on_change = None


# A function of our own would be a call per entry.
_order_of: Final = attrgetter("order")


class FetchContext:
    """One fetch request, seen through its session.

    `payer` is the client's connection for which its memory is counted if it stays, None if it is counted already.
    """

    __slots__ = ("_payer", "is_full", "session", "session_id")

    def __init__(self, session: FetchSession, *, is_full: bool, payer: Payer | None = None) -> None:
        self.session = session
        self.session_id = session.session_id
        self.is_full = is_full
        self._payer = payer

    def stay(self) -> None:
        """Count the memory of a request that is not answered at once."""
        if self._payer is not None:
            self.session.count_for(self._payer)
            self._payer = None

    @property
    def partition_count(self) -> int:
        """The number of partitions that the fetch covers."""
        return len(self.session.partitions)

    def look_at_all(self) -> None:
        """Let the next look cover the quiet entries, too: their answer may depend on more than what they watch."""
        session = self.session
        for entry in session.partitions.values():
            if not entry.is_pending:
                session.make_pending(entry)

    def pending(self) -> list[SessionPartition]:
        """Return the entries to look at, in serving order; call it again after waking."""
        entries = self.session.pending()
        for entry in entries:
            entry.looked_change_count = entry.change_count
        return entries

    def record_sent(
        self,
        entry: SessionPartition,
        record_bytes: int,
        high_watermark: Offset,
        log_start: Offset,
        at_bound: bool,
        error: ErrorCode = ErrorCode.NONE,
        is_notable: bool = False,
    ) -> bool:
        """Record what the answer has for `entry`; return whether its row belongs in the answer.

        `is_notable`: the row names a diverging epoch or a preferred replica. `at_bound`: the reader has all
        that its isolation shows. After an error, and after a notable row, of which no reader takes the watermark, the
        remembered one is void: the partition is listed once more when it is healed, or cut.
        """
        if error:
            entry.sent_high_watermark = _NEVER_SENT
            return True
        is_news = (
            record_bytes > 0
            or is_notable
            or high_watermark != entry.sent_high_watermark
            or log_start != entry.sent_log_start
        )
        entry.sent_high_watermark = _NEVER_SENT if is_notable else high_watermark
        entry.sent_log_start = log_start
        if at_bound and not is_notable and entry.change_count == entry.looked_change_count:
            self.session.make_quiet(entry)
        if record_bytes > 0 and not self.is_full:
            self.session.move_to_end(entry)
        return is_news or self.is_full

    def finish(self) -> None:
        """End the request, answered or with its connection lost: it is no longer parked."""
        self.session.on_change = None
        if self.session.session_id == NO_SESSION_ID:
            self.session.close()
