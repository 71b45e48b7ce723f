"""A quota on replicated bytes: whether more may move now, how much, and when to look again.

Bytes that have moved are always recorded; a quota refuses only further ones. Two rules, behind one protocol:

    KafkaQuota   exceeded while the rate of `rate.py` is *above* the quota. Optimistic: everything that is asked for
                 while it is not exceeded passes, so that a round of answers may be many seconds of quota.
    StrictQuota  a bucket of tokens that fills at the quota's rate up to half a second's worth, and goes into debt
                 when a batch is larger than what is left. Bytes promised to reads under way are reserved. Over any
                 time T the average of what it may hold back is at most `quota x (1 + 0.5 s / T)` and one batch.

One hard idea of the strict rule: once empty it stays exhausted until it is nearly full again. Otherwise a fetch per
batch would spend the tokens as they drip in; so there are some two fetches per second instead.

In-sync replicas are never held back, but counted (KAFKA-4313): their bytes are `exempt`. They put the bucket into debt
by at most a second's worth, or a quota below their need would hold back others long after it was raised. So a burst of
them comes on top of the quota, but for that second. A second's worth is measured by the quota that is in force: a lower
one forgives the rest. What a batch of others owes is paid whatever the quota becomes; only without any is it forgotten.

Units: bytes and bytes per second; times in ms. Tokens count thousandths of bytes, because a quota of q bytes per second
is q thousandths per ms: all arithmetic is exact.
Source: KIP-73; KIP-599 (a bucket with debt).
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from syncline.core.throttle.mode import ThrottleMode
from syncline.core.throttle.rate import WindowedRate
from syncline.model.ids import BrokerId, TopicPartition

UNLIMITED: Final = 2**63 - 1
# How much of a quota the bucket holds, and how full it is before it is used again after it was empty.
CAPACITY_MS: Final = 500
REFILL_MS: Final = 450
# The debt, as time of the quota, that in-sync replicas can cause.
EXEMPT_DEBT_MS: Final = 1_000
# When to look again at a quota in Kafka's mode (`replica.fetch.backoff.ms`).
RETRY_MS: Final = 1_000
_BYTE: Final = 1_000


class Quota(Protocol):
    """A bound on bytes per second."""

    @property
    def limit_bytes_per_s(self) -> int:
        """Return the bound, `UNLIMITED` if there is none."""

    @property
    def promised_bytes(self) -> int:
        """Return what is promised to reads and requests under way."""

    @property
    def refill_count(self) -> int:
        """Return how often the bucket has become full enough to use; 0 without one."""

    def set_limit(self, bytes_per_s: int, now_ms: int) -> None:
        """Bound from now on by another rate; `rate` remembers what was recorded."""

    def is_exceeded(self, now_ms: int) -> bool:
        """Return whether nothing more may move now."""

    def allowance_bytes(self, now_ms: int) -> int:
        """Return how many bytes may move now, 0 if the quota is exceeded."""

    def reserve(self, size_bytes: int) -> None:
        """Promise bytes to a read or a request; `release` takes all of them back when it has ended."""

    def release(self, size_bytes: int) -> None:
        """Take back what was promised; what really moved is then recorded."""

    def cut_short(self) -> None:
        """Note that the rest of the allowance is not worth another read: wait until the bucket is nearly full."""

    def record(self, size_bytes: int, now_ms: int, *, exempt_bytes: int = 0) -> None:
        """Count bytes that moved; `exempt_bytes` of them are those of in-sync replicas."""

    def rate(self, now_ms: int) -> float:
        """Return the bytes per second that moved, as `byte-rate` shows it."""

    def next_ms(self, now_ms: int) -> int | None:
        """Return when to look again if the quota is exceeded, `now_ms` if it is not, None for never."""

    def refilled_ms(self, now_ms: int) -> int:
        """Return when there is nearly all again of what may move at once, if nothing else moves until then."""

    def check_invariants(self) -> None:
        """Assert what holds between two calls."""


class HeldBack(NamedTuple):
    """What waits for the same quotas: each partition, and the broker whose replica of it waits."""

    quotas: tuple[Quota, ...]
    replicas: Iterator[tuple[TopicPartition, BrokerId]]


def make_quota(mode: ThrottleMode, rate: WindowedRate, limit_bytes_per_s: int, now_ms: int) -> Quota:
    """Return a quota of this mode that counts with `rate`, which may have a history."""
    quota: Quota = StrictQuota(rate) if mode is ThrottleMode.STRICT else KafkaQuota(rate)
    quota.set_limit(limit_bytes_per_s, now_ms)
    return quota


class KafkaQuota:
    """A quota that is exceeded while the measured rate is above it."""

    __slots__ = ("_limit", "_rate")

    def __init__(self, rate: WindowedRate) -> None:
        self._rate = rate
        self._limit = UNLIMITED

    def __repr__(self) -> str:
        return f"KafkaQuota({self._limit} B/s, {self._rate})"

    @property
    def limit_bytes_per_s(self) -> int:
        """Return the bound."""
        return self._limit

    @property
    def promised_bytes(self) -> int:
        """Return 0: what is under way does not count."""
        return 0

    @property
    def refill_count(self) -> int:
        """Return 0: there is no bucket."""
        return 0

    def set_limit(self, bytes_per_s: int, now_ms: int) -> None:
        """Bound from now on by another rate."""
        assert 0 <= bytes_per_s <= UNLIMITED, f"a quota of {bytes_per_s} B/s"
        self._limit = bytes_per_s

    def is_exceeded(self, now_ms: int) -> bool:
        """Return whether the rate is above the bound; equal is still fine."""
        return self._rate.rate(now_ms) > self._limit

    def allowance_bytes(self, now_ms: int) -> int:
        """Return 0 or everything."""
        return 0 if self.is_exceeded(now_ms) else UNLIMITED

    def reserve(self, size_bytes: int) -> None:
        """Ignore what is under way, as Kafka does."""

    def release(self, size_bytes: int) -> None:
        """Ignore what was under way."""

    def cut_short(self) -> None:
        """Cut nothing: the allowance is everything."""

    def record(self, size_bytes: int, now_ms: int, *, exempt_bytes: int = 0) -> None:
        """Count bytes; those of in-sync replicas like all others."""
        assert 0 <= exempt_bytes <= size_bytes, f"{exempt_bytes} of {size_bytes} bytes"
        self._rate.record(size_bytes, now_ms)

    def rate(self, now_ms: int) -> float:
        """Return the measured rate."""
        return self._rate.rate(now_ms)

    def next_ms(self, now_ms: int) -> int | None:
        """Return the end of Kafka's pause."""
        return now_ms + RETRY_MS if self.is_exceeded(now_ms) else now_ms

    def refilled_ms(self, now_ms: int) -> int:
        """Return `now_ms`: there is no bucket."""
        return now_ms

    def check_invariants(self) -> None:
        """Assert that the rate is possible."""
        self._rate.check_invariants()


class StrictQuota:
    """A quota that holds over every time, with a bucket of tokens."""

    __slots__ = (
        "_exempt_debt",
        "_filled_ms",
        "_is_exhausted",
        "_is_full",
        "_limit",
        "_rate",
        "_refill_count",
        "_reserved_bytes",
        "_tokens",
    )

    def __init__(self, rate: WindowedRate) -> None:
        self._rate = rate
        self._limit = UNLIMITED
        # In thousandths of bytes; a new bound starts with an empty bucket.
        self._tokens = 0
        # Which part of a debt in-sync replicas have caused; tokens that come pay for others' batches first.
        self._exempt_debt = 0
        self._filled_ms = 0
        self._reserved_bytes = 0
        self._is_exhausted = True
        # Whether it was nearly full, and nothing has been taken since.
        self._is_full = False
        self._refill_count = 0

    def __repr__(self) -> str:
        state = "exhausted" if self._is_exhausted else "open"
        return (
            f"StrictQuota({self._limit} B/s, {self._tokens / _BYTE} tokens, {self._reserved_bytes} promised, {state})"
        )

    @property
    def limit_bytes_per_s(self) -> int:
        """Return the bound."""
        return self._limit

    @property
    def promised_bytes(self) -> int:
        """Return what is promised."""
        return self._reserved_bytes

    @property
    def refill_count(self) -> int:
        """Return how often the bucket has become full enough to use."""
        return self._refill_count

    def set_limit(self, bytes_per_s: int, now_ms: int) -> None:
        """Bound from now on by another rate; tokens and debts stay as far as this rate allows them."""
        assert 0 <= bytes_per_s <= UNLIMITED, f"a quota of {bytes_per_s} B/s"
        self._fill(now_ms)
        self._limit = bytes_per_s
        if bytes_per_s == UNLIMITED:
            self._tokens, self._exempt_debt = 0, 0
            self._is_exhausted, self._is_full = True, False
            return
        self._tokens = min(self._tokens, self._capacity)
        forgiven = max(0, self._exempt_debt - bytes_per_s * EXEMPT_DEBT_MS)
        self._exempt_debt -= forgiven
        self._tokens += forgiven

    def is_exceeded(self, now_ms: int) -> bool:
        """Return whether the bucket is empty, or has yet to fill again."""
        if self._limit == UNLIMITED:
            return False
        self._fill(now_ms)
        return self._is_exhausted or self._free <= 0

    def allowance_bytes(self, now_ms: int) -> int:
        """Return the tokens that are not promised."""
        if self._limit == UNLIMITED:
            return UNLIMITED
        return 0 if self.is_exceeded(now_ms) else max(1, self._free // _BYTE)

    def reserve(self, size_bytes: int) -> None:
        """Promise bytes to a read or a request."""
        assert size_bytes >= 0, f"{size_bytes} bytes are promised"
        self._reserved_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Take back what was promised."""
        self._reserved_bytes -= size_bytes
        assert self._reserved_bytes >= 0, f"{size_bytes} bytes are taken back and were not promised: {self}"

    def cut_short(self) -> None:
        """Wait until the bucket is nearly full."""
        self._is_exhausted = True

    def record(self, size_bytes: int, now_ms: int, *, exempt_bytes: int = 0) -> None:
        """Take tokens for bytes that moved, going into debt if need be."""
        assert 0 <= exempt_bytes <= size_bytes, f"{exempt_bytes} of {size_bytes} bytes"
        self._rate.record(size_bytes, now_ms)
        if self._limit == UNLIMITED:
            return
        self._fill(now_ms)
        self._tokens -= (size_bytes - exempt_bytes) * _BYTE
        if exempt_bytes:
            before = self._tokens
            deepest = min(before, -self._limit * EXEMPT_DEBT_MS)
            self._tokens = max(before - exempt_bytes * _BYTE, deepest)
            self._exempt_debt = min(self._exempt_debt + before - self._tokens, max(0, -self._tokens))
        self._is_full = False
        if self._tokens <= 0:
            self._is_exhausted = True

    def rate(self, now_ms: int) -> float:
        """Return the measured rate."""
        return self._rate.rate(now_ms)

    def next_ms(self, now_ms: int) -> int | None:
        """Return when the bucket is full enough, not counting what else moves until then."""
        if not self.is_exceeded(now_ms):
            return now_ms
        if not self._limit:
            return None
        missing = self._enough - (self._tokens if self._is_exhausted else self._free)
        return now_ms + max(1, -(-missing // self._limit))

    def refilled_ms(self, now_ms: int) -> int:
        """Return when the bucket is nearly full, whatever is promised."""
        if not 0 < self._limit < UNLIMITED:
            return now_ms
        self._fill(now_ms)
        return now_ms + max(0, -(-(self._enough - self._tokens) // self._limit))

    def check_invariants(self) -> None:
        """Assert that the rate is possible, and that the bucket does not run over."""
        self._rate.check_invariants()
        assert self._limit == UNLIMITED or self._tokens <= self._capacity, f"too many tokens: {self}"
        assert 0 <= self._exempt_debt <= max(0, -self._tokens), f"more debt of some than of all: {self}"
        assert self._exempt_debt <= self._limit * EXEMPT_DEBT_MS, f"in-sync replicas owe more than a second: {self}"
        assert self._reserved_bytes >= 0, f"a negative promise: {self}"

    @property
    def _capacity(self) -> int:
        return max(_BYTE, self._limit * CAPACITY_MS) if self._limit else 0

    @property
    def _enough(self) -> int:
        return max(_BYTE, self._limit * REFILL_MS)

    @property
    def _free(self) -> int:
        return self._tokens - self._reserved_bytes * _BYTE

    def _fill(self, now_ms: int) -> None:
        # A caller may have read the clock a millisecond before somebody else did: then no time has passed.
        elapsed_ms = max(0, now_ms - self._filled_ms)
        self._filled_ms += elapsed_ms
        if self._limit == UNLIMITED:
            return
        self._tokens = min(self._capacity, self._tokens + self._limit * elapsed_ms)
        self._exempt_debt = min(self._exempt_debt, max(0, -self._tokens))
        # What is promised does not count: otherwise one who waits would wait for the reads of all others to end.
        if self._limit and self._tokens >= self._enough:
            self._is_exhausted = False
            self._refill_count += not self._is_full
            self._is_full = True
