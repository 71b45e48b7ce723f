"""The setting of section D of the scenario catalogue: a leader whose disk is slow.

AR = ISR = [1001, 1002, 1003], leader 1001, window 10 000 ms, min ISR 2. Follower 1003 is always prompt and has
everything. Follower 1002 stands, at 1500, at 950/1002/1000/500: it fetched 950 at 1000, when the log ended at 1002,
and was last known to have everything at 500. The log ends at 1100 now, the watermark is 950.
"""

from syncline.core.replication.effects import ProtectionChanged, RelinquishSkipped
from syncline.core.replication.lag_policy import LagPolicy
from syncline.core.replication.slow_leader.pending_fetches import PendingFetches
from syncline.core.replication.slow_leader.rules import SlowReadRules
from syncline.core.replication.slow_leader.slow_leader import SlowLeader as Service
from syncline.core.replication.slow_leader.waits import FollowerWaits, PendingEntry, PendingRequest

from .s0 import S0

LEADER, SLOW, PROMPT = 1001, 1002, 1003
PROTECTS = SlowReadRules(cap_ms=60_000)
RELINQUISHES = SlowReadRules(cap_ms=60_000, relinquishes=True)
WATCH_MS = 250


class SlowLeader(S0):
    """S0 with the brokers of section D, and the fetches that wait."""

    def __init__(
        self,
        rules: SlowReadRules | None = PROTECTS,
        *,
        isr: tuple[int, ...] | None = None,
        policy: LagPolicy | None = None,
        confirms: bool = True,
        leads_since: int = -60_000,
    ) -> None:
        super().__init__(
            replicas=(LEADER, SLOW, PROMPT),
            isr=isr,
            leader=LEADER,
            log_end=1100,
            high_watermark=950,
            min_isr=2,
            policy=policy,
            slow_reads=rules,
            confirms=confirms,
            now=leads_since,
        )
        self.fetches = PendingFetches()
        self.put(SLOW, 950, 1002, 1000, 500)
        self.put(PROMPT, 1100, 1100, 1500, 1500)

    def arrive(self, offset: int = 1002, at: int = 2000, *, broker: int = SLOW) -> PendingEntry | None:
        """Let a fetch arrive whose read does not end at once; return its entry, None if it is not registered."""
        request = self.fetches.open(broker, 10 * broker, at)
        return self.enter(request, offset)

    def enter(self, request: PendingRequest, offset: int) -> PendingEntry | None:
        """Register this partition for a request."""
        slow_leader = self.partition.slow_leader
        return None if slow_leader is None else slow_leader.fetch_pends(request.replica_id, offset, request)

    @property
    def service(self) -> Service:
        """The leader's handling of its own slowness."""
        assert self.partition.slow_leader is not None
        return self.partition.slow_leader

    @property
    def waits(self) -> FollowerWaits:
        """The waits of the slow follower."""
        return self.service.waits_of(self.partition.in_sync.by_id[SLOW])

    def read_ends(self, entry: PendingEntry, at: int, *, captured: int = 1100) -> None:
        """Let the read of an entry end; what was captured is from its arrival."""
        request = entry.request
        entry.ended_ms = at if request.lost_ms is None else request.lost_ms
        effects = self.partition.follower_fetched(
            request.replica_id,
            entry.offset,
            0,
            captured,
            request.broker_epoch,
            entry.leader_epoch,
            request.arrival_ms,
            entry=entry,
        )
        self.note(effects, at)
        if request.lost_ms is not None:
            self.fetches.read_ended(entry)

    def answer_fetch(self, entry: PendingEntry, at: int) -> None:
        """Answer the whole request."""
        self.fetches.answered(entry.request, at)
        self.fetches.check_invariants()

    def serve(self, entry: PendingEntry, at: int) -> None:
        """Let the read end, and answer."""
        self.read_ends(entry, at)
        self.answer_fetch(entry, at)

    def disconnect(self, entry: PendingEntry, at: int) -> None:
        """Let the follower's connection end."""
        rules = self.partition.settings.slow_reads
        self.fetches.lost(entry.request, at, None if rules is None else rules.cap_ms)
        self.fetches.check_invariants()

    def watch(self, at: int) -> None:
        """Run the watchdog."""
        for entry in self.fetches.watch(at, WATCH_MS):
            self.note(entry.server.relinquish(entry, at), at)

    def is_in(self, broker: int = SLOW) -> bool:
        """Return whether a follower is in the committed ISR."""
        return broker in self.isr

    def ticks_until_evicted(self, first: int, last: int, broker: int = SLOW) -> int | None:
        """Run the ticks from `first` to `last`; return the one that evicts, None if none does."""
        for now in range(first, last + 1, 5000):
            self.tick(now)
            if not self.is_in(broker):
                return now
        return None

    def caught_up(self, broker: int = SLOW) -> int | None:
        """Return lastCaughtUp."""
        return self.state(broker)[3]

    @property
    def protections(self) -> list[tuple[str, int]]:
        """Return what was reported of protection: the phase and the follower."""
        return [(each.phase.value, each.broker_id) for each in self.effects if isinstance(each, ProtectionChanged)]

    @property
    def skipped(self) -> list[str]:
        """Return the reasons for which relinquishing was skipped."""
        return [each.reason.value for each in self.effects if isinstance(each, RelinquishSkipped)]
