"""Pending fetches against their plain model: sessions, stamps and clocks must not change what the rules say."""

import random

import pytest

from syncline.core.fetching.session import FetchContext, FetchSpec, SessionPartition
from syncline.core.fetching.session_cache import SessionCache
from syncline.core.replication.known_brokers import BrokerStanding
from syncline.core.replication.slow_leader.pending_fetches import PendingFetches
from syncline.core.replication.slow_leader.rules import SlowReadRules
from syncline.core.replication.slow_leader.waits import PendingEntry, PendingRequest
from tests.core.pending_model import Ask, Entry, Side
from tests.core.s0 import LAG_MS, S0, standings

COUNT = 3
CAP_MS = 40_000
FOLLOWER = 2


class Operation:
    """A fetch under way, in both worlds: the reads that it waits for, by partition."""

    def __init__(self, context: FetchContext, request: PendingRequest, ask: Ask) -> None:
        self.context = context
        self.request = request
        self.ask = ask
        self.looked: dict[int, SessionPartition] = {}
        self.slow: dict[int, tuple[SessionPartition, PendingEntry, Entry]] = {}
        self.got: dict[int, int] = {}
        self.is_over = False


class Worlds:
    """Some partitions of one leader, and the same in the model."""

    def __init__(self, rng: random.Random, cap: int | None) -> None:
        self.rng = rng
        self.cap = cap
        rules = SlowReadRules(cap_ms=cap)
        self.real = [S0(replicas=(1, FOLLOWER), log_end=10, high_watermark=10, slow_reads=rules) for _ in range(COUNT)]
        self.model = [Side(10, 0, cap, LAG_MS) for _ in range(COUNT)]
        self.cache = SessionCache(10, lambda: rng.randrange(1, 1 << 30), self.real[0].brokers)
        self.fetches = PendingFetches()
        self.now = 0
        self.seq = 0
        self.incarnation = 20
        self.offsets = [10] * COUNT
        self.said = [-1] * COUNT
        self.session = 0
        self.epoch = 0
        self.outstanding: Operation | None = None
        self.dead: list[Operation] = []
        self.evictions = 0

    # The follower.

    def fetch(self) -> None:
        """Send the next fetch of the session, or the first of a new one; some reads have to wait."""
        is_full = self.session == 0
        listed = [
            (index, FetchSpec(offset, 1 << 20))
            for index, offset in enumerate(self.offsets)
            if is_full or offset != self.said[index]
        ]
        context = self.cache.open(
            self.session,
            0 if is_full else self.epoch,
            listed=listed,
            forgotten=(),
            uses_topic_ids=False,
            replica_id=FOLLOWER,
            broker_epoch=self.incarnation,
            now_ms=self.now,
        )
        assert isinstance(context, FetchContext)
        self.session, self.epoch, self.said = context.session_id, 1 if is_full else self.epoch + 1, self.offsets[:]
        self.seq += 1
        ask = Ask(self.seq, self.incarnation, self.now)
        looks = {int(str(entry.key)): entry for entry in context.pending()}
        late = {index for index in looks if self.offsets[index] < self.real[index].partition.log_end}
        slow = {index for index in late if self.rng.random() < 0.4}
        entries = [side.arrives(ask, self.offsets[index]) for index, side in enumerate(self.model)]
        for index, side in enumerate(self.model):
            if index not in slow:
                side.read(entries[index], self.now)
        if not slow:
            for index, entry in looks.items():
                self.note(index, entry, None, None)
                self.record_sent(context, index, entry)
            for index, side in enumerate(self.model):
                side.answered(ask, self.now)
                if index in looks:
                    self.offsets[index] = side.log_end
            return
        request = self.fetches.open(FOLLOWER, self.incarnation, self.now, cover=context.session.slow_fetches())
        operation = self.outstanding = Operation(context, request, ask)
        operation.looked = looks
        for index, entry in looks.items():
            known = self.real[index].partition.slow_leader.fetch_pends(FOLLOWER, self.offsets[index], request)
            assert known is not None
            request.looked[entry] = known
            operation.got[index] = self.model[index].log_end
            if index in slow:
                operation.slow[index] = (entry, known, entries[index])
            else:
                self.note(index, entry, known, None)

    def note(
        self,
        index: int,
        asker: SessionPartition,
        known: PendingEntry | None,
        served: int | None,
        *,
        fetched: tuple[int, int, int] | None = None,
    ) -> None:
        """Let a leader learn what a fetch proves; `fetched` is (offset, captured log end, time) of a slow one."""
        s = self.real[index]
        offset, captured, at = fetched or (self.offsets[index], s.partition.log_end, self.now)
        epoch = self.incarnation if known is None else known.request.broker_epoch
        if known is not None:
            known.ended_ms = served
        effects = s.partition.follower_fetched(FOLLOWER, offset, 0, captured, epoch, 5, at, stamp=asker, entry=known)
        s.note(effects, self.now)

    def record_sent(self, context: FetchContext, index: int, entry: SessionPartition) -> None:
        """Let the session record its answer."""
        context.record_sent(
            entry,
            record_bytes=0,
            high_watermark=0,
            log_start=0,
            at_bound=entry.fetch_offset >= self.real[index].partition.log_end,
        )

    def read_ends(self) -> None:
        """Let one slow read end, well or not."""
        operations = [each for each in (self.outstanding, *self.dead) if each is not None and each.slow]
        if not operations:
            return
        operation = self.rng.choice(operations)
        index = self.rng.choice(sorted(operation.slow))
        asker, known, entry = operation.slow.pop(index)
        lost = operation.ask.lost
        if self.rng.random() < 0.1:
            self.fetches.read_ended(known)
            self.model[index].failed(entry)
            operation.got.pop(index)
        else:
            fetched = (entry.offset, entry.captured, entry.ask.arrival)
            self.note(index, asker, known, self.now if lost is None else lost, fetched=fetched)
            if lost is not None:
                self.fetches.read_ended(known)
            self.model[index].read(entry, self.now)
        if operation is self.outstanding and not operation.slow:
            self.answer(operation)

    def covered(self, operation: Operation, *, is_lost: bool) -> None:
        """End the request for partitions that moved and that it had not looked at."""
        for entry in operation.context.session.pending():
            if entry not in operation.request.looked:
                partition = self.real[int(str(entry.key))].partition
                partition.slow_leader.covered_fetch_ended(FOLLOWER, operation.request, entry, self.now, is_lost=is_lost)

    def answer(self, operation: Operation) -> None:
        """Answer the request that is outstanding."""
        self.outstanding = None
        self.covered(operation, is_lost=False)
        self.fetches.answered(operation.request, self.now)
        operation.ask.is_answered = True
        for side in self.model:
            side.answered(operation.ask, self.now)
        for index, end in operation.got.items():
            self.record_sent(operation.context, index, operation.looked[index])
            self.offsets[index] = end

    def disconnect(self) -> None:
        """Let the connection break; the follower begins a new session."""
        operation, self.outstanding = self.outstanding, None
        if operation is not None:
            self.covered(operation, is_lost=True)
            self.fetches.lost(operation.request, self.now, self.cap)
            for side in self.model:
                side.lost(operation.ask, self.now)
            operation.ask.lost = self.now
            for side in self.model:
                side.entries = [each for each in side.entries if each.ask is not operation.ask or not each.is_read]
            self.dead.append(operation)
        if self.rng.random() < 0.5:
            self.cache.close(self.session)
        self.session = 0

    def restart(self) -> None:
        """Replace the follower's process by a new one."""
        self.disconnect()
        self.incarnation += 1
        for s in self.real:
            s.brokers.replace({**standings(1), FOLLOWER: BrokerStanding(self.incarnation)})
        self.fetches.drop_older(FOLLOWER, self.incarnation)
        for side in self.model:
            side.restarted()

    def append(self) -> None:
        """Append somewhere, and mark the partition in its session."""
        index = self.rng.randrange(COUNT)
        side = self.model[index]
        side.log_end += self.rng.randrange(1, 4)
        self.real[index].append(side.log_end, self.now)
        session = self.cache.find(self.session)
        if session is not None:
            session.partitions[index].changed(wakes=False)

    def tick(self) -> None:
        """Judge the follower everywhere, and compare."""
        for index, (s, side) in enumerate(zip(self.real, self.model, strict=True)):
            is_out = side.is_out(self.now)
            was_in = FOLLOWER in s.isr
            # Only evictions: another rule decides which followers join.
            s.tick(self.now)
            evicted = was_in and any(each == [1] for each in s.requested)
            s.sent.clear()
            assert evicted is is_out, f"t-{index} at {self.now}: {s.partition.in_sync.by_id[FOLLOWER]!r} {side!r}"
            self.evictions += evicted

    def compare(self) -> None:
        """Compare what the leaders know with the model."""
        self.fetches.check_invariants()
        self.cache.check_invariants()
        for index, (s, side) in enumerate(zip(self.real, self.model, strict=True)):
            s.partition.check_invariants()
            s.sent.clear()
            side.is_member = FOLLOWER in s.isr
            leo, _, _, caught_up = s.state(FOLLOWER)
            seen = (leo, None if leo == s.partition.log_end else caught_up)
            assert seen == (side.leo, None if side.leo == side.log_end else side.caught_up), f"t-{index} at {self.now}"


def history(seed: int, cap: int | None, steps: int) -> int:
    """Run one random history; return how often the follower was evicted."""
    rng = random.Random(seed)
    worlds = Worlds(rng, cap)
    worlds.fetch()
    for _ in range(steps):
        worlds.now += rng.choice((1, 20, 500, 3000, 6000))
        event = rng.random()
        if event < 0.25:
            worlds.append()
        elif event < 0.55:
            if worlds.outstanding is None:
                worlds.fetch()
        elif event < 0.7:
            worlds.read_ends()
        elif event < 0.96:
            worlds.tick()
        elif event < 0.99:
            worlds.disconnect()
        else:
            worlds.restart()
        worlds.compare()
    return worlds.evictions


@pytest.mark.parametrize("cap", [CAP_MS, None])
def test_pending_fetches_do_what_the_plain_rules_say(cap: int | None) -> None:
    """The same log ends, caught-up times and evictions in every random history."""
    assert sum(history(seed, cap, 150) for seed in range(100)) > 50
