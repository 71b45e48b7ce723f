"""Memory held for clients: one budget for all connections and groups of a broker.

What counts: receive buffers and pieces of frames, answers that were not sent yet, answers that wait for their turn,
produced bytes that wait for acknowledgement, long requests while they are served (`serving/long_requests.py`), fetch
sessions, and what group members told of themselves. The limit is `queued.max.request.bytes`.

    held > limit           connections that hold more than a small share of the limit are not read
    held <= 90 % of it     they are read again
    in between for 10 s    some of what is held will not go by itself: peers neither complete their requests nor read
                           their answers. Those that hold most of that are closed, until 90 % are left

The share is a quarter of what each would have if the limit were divided among all that hold something. So whatever
their number, those that are still read add at most a quarter of the limit.

A fetch gets an eighth of the room that is left for its answer, so that answers get smaller the less room there is,
and the first batch of a small fetch still fits when large ones have taken nearly everything.

Brokers' own connections have a budget without a limit.
Units: bytes. Source: KIP-72; Kafka has no counterpart to the last row.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from syncline.model.tables import shrink

log = logging.getLogger("syncline.node")

# Kafka's default, no limit, becomes this share of the machine's memory.
MEMORY_SHARE: Final = 4
LIMIT_BYTES_MAX: Final = 4 << 30
# In percent of the limit: below which share connections are read again, and after how much more is held those that
# hold most are looked for again.
LOW_PERCENT: Final = 90
STEP_PERCENT: Final = 2
# Which part of the room that is left an answer may take, and which part of an even share of the limit a connection
# may hold when it is exceeded.
ANSWER_SHARE: Final = 8
READ_SHARE: Final = 4
# How much one client's connection may have of answers that are not sent, the answer to a fetch included.
UNSENT_BYTES_MAX: Final = 16 << 20
# How often a full budget is looked at, and how many looks it may stay full before connections are closed.
LOOK_S: Final = 1.0
LOOKS_MAX: Final = 10


class Holder(Protocol):
    """A connection, as the budget sees it."""

    def update_reading(self) -> None:
        """Read or do not read, whichever `Holding.is_held_back` and the connection's own limits say."""

    def close(self, reason: str, /) -> None:
        """Close; free what is held."""


class Holding:
    """What one connection holds."""

    __slots__ = (
        "_budget",
        "_held_back_s",
        "_held_since_s",
        "_holder",
        "free_unused",
        "is_held_back",
        "kept_bytes",
        "received_bytes",
        "unsent_bytes",
        "waiting_bytes",
    )

    def __init__(self, budget: "MemoryBudget", holder: Holder) -> None:
        self._budget = budget
        self._holder: Holder | None = holder
        # Receive buffers, and pieces of frames.
        self.received_bytes = 0
        # Answers that the peer has not read, as far as they do not fit into the kernel's buffers.
        self.unsent_bytes = 0
        # Bytes that wait for acknowledgement, and answers behind others.
        self.waiting_bytes = 0
        # The partitions that its fetch sessions remember, and those of a fetch without a session.
        self.kept_bytes = 0
        # Frees an empty receive buffer.
        self.free_unused: Callable[[], object] = _nothing
        # Whether the budget wants it not to be read; since when, and for how long before that.
        self.is_held_back = False
        self._held_since_s = 0.0
        self._held_back_s = 0.0

    def __repr__(self) -> str:
        return (
            f"<{self.received_bytes} bytes received, {self.unsent_bytes} not read by the peer,"
            f" {self.waiting_bytes} waiting, {self.kept_bytes} of sessions>"
        )

    @property
    def held_bytes(self) -> int:
        """Everything."""
        return self.received_bytes + self.unsent_bytes + self.waiting_bytes + self.kept_bytes

    @property
    def is_open(self) -> bool:
        """Whether the connection is there."""
        return self._holder is not None

    @property
    def held_back_ms(self) -> int:
        """For how long it has been held back, in all."""
        is_waiting = self.is_held_back and self._holder is not None
        now_s = self._budget.now_s() if is_waiting else self._held_since_s
        return round(1_000 * (self._held_back_s + now_s - self._held_since_s))

    @property
    def stuck_bytes(self) -> int:
        """What only the peer can make go: by sending the rest of a request, by reading, or by leaving."""
        return self.received_bytes + self.unsent_bytes + self.kept_bytes

    def receive(self, change_bytes: int) -> None:
        """Count a change of the receive buffer."""
        if self._holder is None:
            return
        self.received_bytes += change_bytes
        self._budget.add(change_bytes)

    def wait(self, change_bytes: int) -> None:
        """Count bytes that wait, or (negative) wait no longer; nothing waits for a closed connection."""
        if self._holder is None:
            return
        self.waiting_bytes += change_bytes
        assert self.waiting_bytes >= 0, f"{-self.waiting_bytes} bytes wait no longer that never waited"
        # As `add`, in line: this is called twice per produce request.
        budget = self._budget
        budget.held_bytes += change_bytes
        if not budget.ease_bytes < budget.held_bytes <= budget.look_bytes:
            budget.judge()

    def keep(self, change_bytes: int) -> None:
        """Count what is remembered for the client, or (negative) no longer; nothing is for a closed connection."""
        if self._holder is None:
            return
        self.kept_bytes += change_bytes
        assert self.kept_bytes >= 0, f"{-self.kept_bytes} bytes are forgotten that were never kept"
        self._budget.add(change_bytes)

    def set_unsent(self, size_bytes: int) -> None:
        """Count the answers that the peer has not read."""
        if self._holder is None:
            return
        change_bytes = size_bytes - self.unsent_bytes
        self.unsent_bytes = size_bytes
        self._budget.add(change_bytes)

    def answer_bytes_max(self) -> int:
        """Return how large the next answer may be if it is to be of several batches; 0: there is no room for one."""
        budget = self._budget
        unsent_bytes = budget.unsent_bytes_max - self.unsent_bytes - self.waiting_bytes
        room_bytes = (budget.limit_bytes - budget.held_bytes) // ANSWER_SHARE
        # Each look of a fetch asks this, and a call of `min` takes as long as the rest of its line.
        if unsent_bytes < room_bytes:  # noqa: PLR1730
            room_bytes = unsent_bytes
        return room_bytes if room_bytes > 0 else 0  # noqa: FURB136

    def hold_back(self, *, is_held_back: bool) -> None:
        """Pause or resume reading from the connection."""
        if self.is_held_back != is_held_back and self._holder is not None:
            now_s = self._budget.now_s()
            if self.is_held_back:
                self._held_back_s += now_s - self._held_since_s
            self._held_since_s = now_s
            self.is_held_back = is_held_back
            self._holder.update_reading()

    def close(self, reason: str) -> None:
        """Close the connection."""
        if self._holder is not None:
            self._holder.close(reason)

    def end(self) -> None:
        """Count nothing any more: the connection is closed."""
        if self._holder is None:
            return
        # Without this, holder and holding would keep each other until the next garbage collection.
        self._holder = None
        self.free_unused = _nothing
        self._budget.forget(self)
        held_bytes = self.held_bytes
        self.received_bytes = self.unsent_bytes = self.waiting_bytes = self.kept_bytes = 0
        self._budget.add(-held_bytes)


class MemoryBudget:
    """The bytes held for all connections that share one limit."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit_bytes: int, *, unsent_bytes_max: int = UNSENT_BYTES_MAX
    ) -> None:
        assert limit_bytes > 0, f"a limit of {limit_bytes} bytes"
        self._loop = loop
        self.limit_bytes = limit_bytes
        self.unsent_bytes_max = unsent_bytes_max
        self.held_bytes = 0
        self._low_bytes = limit_bytes * LOW_PERCENT // 100
        # Between these bounds nothing changes. Above the second, it is time to look for the connections that hold most;
        # at the first or below, to read all again (-1: all are read).
        self.ease_bytes = -1
        self.look_bytes = limit_bytes
        # In the order in which the connections were made.
        self._holdings: dict[Holding, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looks = 0
        # Connections closed because the budget stayed full.
        self.closed_count = 0

    def open(self, holder: Holder) -> Holding:
        """Return the account of a new connection."""
        holding = Holding(self, holder)
        self._holdings[holding] = None
        return holding

    def forget(self, holding: Holding) -> None:
        """Forget a connection that is closed."""
        self._holdings.pop(holding, None)
        shrink(self._holdings)

    def add(self, change_bytes: int) -> None:
        """Count a change of what is held."""
        self.held_bytes += change_bytes
        if not self.ease_bytes < self.held_bytes <= self.look_bytes:
            self.judge()

    def judge(self) -> None:
        """Act on what is held, which has left the bounds."""
        if self.held_bytes > self.look_bytes:
            self._press()
        elif self._timer is not None:
            self._ease()

    def now_s(self) -> float:
        """Return the time by which connections are held back, in seconds from any origin."""
        return self._loop.time()

    def room_bytes(self) -> int:
        """Return how many more bytes may be held."""
        return max(0, self.limit_bytes - self.held_bytes)

    @property
    def held_back_count(self) -> int:
        """How many connections are not read because the budget is full."""
        return sum(holding.is_held_back for holding in self._holdings)

    def close(self) -> None:
        """Stop looking: the broker is stopping."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.ease_bytes = -1

    def check_invariants(self) -> None:
        """Assert that connections hold no more than what is counted, and that none is held back without need."""
        held_bytes = sum(holding.held_bytes for holding in self._holdings)
        assert 0 <= held_bytes <= self.held_bytes, f"connections hold {held_bytes} of {self.held_bytes} bytes"
        for holding in self._holdings:
            parts = (holding.received_bytes, holding.unsent_bytes, holding.waiting_bytes, holding.kept_bytes)
            assert min(parts) >= 0, f"less than nothing is held: {holding}"
        assert self._timer is not None or not self.held_back_count, "connections are held back, and nothing ends it"
        assert (self._timer is None) == (self.ease_bytes < 0), f"a budget is eased at {self.ease_bytes} bytes"

    def _press(self) -> None:
        """Do not read the connections that hold more than their share."""
        self.look_bytes = self.held_bytes + self.limit_bytes * STEP_PERCENT // 100
        if self._timer is None:
            log.warning(
                "%s bytes are held for clients, and queued.max.request.bytes is %s; the connections that "
                "hold most are not read",
                self.held_bytes,
                self.limit_bytes,
            )
            self._looks = 0
            self._timer = self._loop.call_later(LOOK_S, self._look)
            self.ease_bytes = self._low_bytes
        for holding in list(self._holdings):
            holding.free_unused()
        if self.ease_bytes < 0:
            # That was enough, and the budget is eased.
            return
        for holding in holding_most(self._holdings, self.limit_bytes):
            holding.hold_back(is_held_back=True)

    def _ease(self) -> None:
        """Read all connections again."""
        self.close()
        self.look_bytes = self.limit_bytes
        for holding in list(self._holdings):
            holding.hold_back(is_held_back=False)

    def _look(self) -> None:
        """Close connections if what is held does not go by itself."""
        self._timer = self._loop.call_later(LOOK_S, self._look)
        self._looks += 1
        if self._looks < LOOKS_MAX:
            self._press()
            return
        stuck = stuck_most(self._holdings, self.held_bytes - self._low_bytes)
        self.closed_count += len(stuck)
        for holding in stuck:
            holding.close(
                f"the broker's memory for clients is full, and this connection holds {holding.stuck_bytes} bytes"
            )


def _nothing() -> None:
    """Free nothing: the connection is closed."""


def limit_bytes(configured_bytes: int, memory_bytes: int) -> int:
    """Return the limit for a value of `queued.max.request.bytes`, of which 0 and below stand for a share of memory."""
    return configured_bytes if configured_bytes > 0 else min(memory_bytes // MEMORY_SHARE, LIMIT_BYTES_MAX)


def holding_most(holdings: Iterable[Holding], limit_bytes: int) -> list[Holding]:
    """Return the connections that hold more than their share of a limit, which is exceeded."""
    holding_something = [(holding, held_bytes) for holding in holdings if (held_bytes := holding.held_bytes)]
    most_bytes = limit_bytes // (READ_SHARE * max(1, len(holding_something)))
    return [holding for holding, held_bytes in holding_something if held_bytes > most_bytes]


def stuck_most(holdings: Iterable[Holding], excess_bytes: int) -> list[Holding]:
    """Return the connections with most stuck bytes, so many that they have `excess_bytes`; fewer if all have less."""
    found: list[Holding] = []
    for holding in sorted(holdings, key=lambda each: each.stuck_bytes, reverse=True):
        if excess_bytes <= 0 or not holding.stuck_bytes:
            break
        found.append(holding)
        excess_bytes -= holding.stuck_bytes
    return found
