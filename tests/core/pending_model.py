"""What one follower waits for at its leader (KIP-501), the plainest way: each fetch has an entry for each partition.

No sessions, no stamps, no short cuts: rules R1 to R8 as they read. `test_pending_model` compares.

The rules are those of docs/slow-leaders.md. One thing is looser here: while the follower has everything, the cap of
R5 counts from the arrival of the request that is lost, not of an earlier one. It is in sync anyway then, and what it
waits for later is judged exactly.
"""

from dataclasses import dataclass, field

NEVER = -(1 << 62)


@dataclass
class Ask:
    """One request of the follower, which covers all partitions."""

    seq: int
    incarnation: int
    arrival: int
    lost: int | None = None
    is_answered: bool = False

    @property
    def is_live(self) -> bool:
        """Whether the follower waits for it."""
        return self.lost is None and not self.is_answered


@dataclass
class Entry:
    """What such a request wants of one partition."""

    ask: Ask
    offset: int
    captured: int
    qualifies: bool
    is_read: bool = False


@dataclass
class Side:
    """One partition at its leader."""

    log_end: int
    epoch_start: int
    cap: int | None
    lag: int
    leo: int = -1
    previous: int = -1
    fetched: int = NEVER
    caught_up: int = 0
    is_member: bool = True
    served_seq: int = -1
    since: int | None = None
    entries: list[Entry] = field(default_factory=list)

    def arrives(self, ask: Ask, offset: int) -> Entry:
        """R1."""
        base = self.epoch_start if self.fetched == NEVER and self.previous <= 0 else self.previous
        entry = Entry(ask, offset, self.log_end, offset >= base)
        if entry.qualifies and self.since is None:
            self.since = ask.arrival
        self.entries.append(entry)
        return entry

    def read(self, entry: Entry, now: int) -> None:
        """R3, the end of the partition's own read."""
        if entry not in self.entries or entry.ask.seq < self.served_seq:
            self.ended(entry)
            return
        self.served_seq = entry.ask.seq
        completion = now if entry.ask.lost is None else entry.ask.lost
        if entry.offset >= entry.captured or entry.qualifies:
            self.caught_up = max(self.caught_up, completion)
        elif entry.offset >= self.previous:
            self.caught_up = max(self.caught_up, self.fetched)
        self.leo, self.previous = entry.offset, max(self.previous, entry.captured)
        self.fetched = entry.ask.arrival
        entry.is_read = True
        self.ended(entry)

    def ended(self, entry: Entry) -> None:
        """R5: a dead entry goes when its read ends."""
        if entry in self.entries and entry.ask.lost is not None:
            self.entries.remove(entry)

    def failed(self, entry: Entry) -> None:
        """R4."""
        if entry in self.entries:
            self.entries.remove(entry)

    def answered(self, ask: Ask, now: int) -> None:
        """R3, the end of the whole request."""
        for entry in [each for each in self.entries if each.ask is ask]:
            if entry.qualifies and entry.is_read and ask.seq >= self.served_seq:
                self.caught_up = max(self.caught_up, now)
            self.entries.remove(entry)
        newer = [each.ask.arrival for each in self.entries if each.qualifies and each.ask.seq > ask.seq]
        self.since = min(newer, default=None)

    def lost(self, ask: Ask, now: int) -> None:
        """R5."""
        mine = [each for each in self.entries if each.ask is ask]
        is_protecting = self.is_member and any(each.qualifies and ask.seq >= self.served_seq for each in mine)
        has_everything = self.leo == self.log_end and (self.cap is None or now - ask.arrival <= self.cap)
        if is_protecting and (has_everything or self.is_protected(now)):
            self.caught_up = max(self.caught_up, now)

    def restarted(self) -> None:
        """R6."""
        self.entries, self.since = [], None

    def is_protected(self, now: int) -> bool:
        """R2."""
        waits = any(each.ask.is_live and each.qualifies and each.ask.seq >= self.served_seq for each in self.entries)
        within = self.cap is None or self.since is None or now - self.since <= self.cap
        return self.is_member and waits and within

    def is_out(self, now: int) -> bool:
        """Whether a tick evicts the follower."""
        is_caught_up = self.leo == self.log_end or now - self.caught_up <= self.lag
        return self.is_member and not is_caught_up and not self.is_protected(now)
