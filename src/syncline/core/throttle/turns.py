"""Turns: which of several requests may use a quota now, so that no quick one takes what a slow one waits for.

A broker fetches from several leaders under one quota. Each time that the bucket is nearly full, each request has one
turn with an equal part of it, first the one whose last turn is longest ago. One that comes a moment later finds its
part still there; one that comes back at once, to ask for more, waits for the next time.

The others wait for a request that has asked in vain since its last turn, for at most 250 ms; then they pass it over.
They do not wait for a request whose turn is not over. Bytes that one request leaves go to the others, as the bucket
fills sooner.

Units: bytes; times in ms.
"""

from typing import Final

from syncline.core.throttle.quota import REFILL_MS, UNLIMITED, Quota
from syncline.core.throttle.shares import request_part

# How long the others wait for one whose turn it is, and how often they look whether it has come.
PATIENCE_MS: Final = 250
LOOK_MS: Final = 50


class Turns:
    """The turns of those that contend for one quota."""

    __slots__ = ("_asking", "_filling", "_order", "_part_bytes", "_since_ms", "_took_ms")

    def __init__(self) -> None:
        # First the one whose last turn is longest ago.
        self._order: dict[object, None] = {}
        # Those that got nothing when they asked, and have to be waited for.
        self._asking: dict[object, None] = {}
        # The round: which filling of the bucket it is, since when, what each may use, and when who took its turn.
        self._filling = -1
        self._since_ms = 0
        self._part_bytes = 0
        self._took_ms: dict[object, int] = {}

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        return f"<turns of {len(self._order)}, {len(self._took_ms)} took theirs, {len(self._asking)} wait>"

    def contend(self, who: object) -> None:
        """Take part from now on."""
        self._order.setdefault(who)

    def concede(self, who: object) -> None:
        """Need nothing more."""
        self._order.pop(who, None)
        self._asking.pop(who, None)
        self._took_ms.pop(who, None)

    def offer(self, who: object, quota: Quota, now_ms: int, used_bytes: int = 0) -> int:
        """Return how many bytes one of them may use now, 0 if it has to wait; `take` then says that it does.

        It has been promised `used_bytes` of this turn already: they are no longer in the allowance, but in its part.
        """
        assert who in self._order, f"{who!r} asks for its turn and does not contend: {self}"
        allowance_bytes = quota.allowance_bytes(now_ms)
        if len(self._order) == 1 or allowance_bytes == UNLIMITED:
            return allowance_bytes
        if allowance_bytes and quota.refill_count != self._filling:
            self._filling, self._since_ms = quota.refill_count, now_ms
            self._part_bytes = request_part(allowance_bytes, quota.promised_bytes, len(self._order))
            self._took_ms.clear()
        if not allowance_bytes or self._had(who, now_ms) or self._waits_for_another(who, now_ms):
            self._asking[who] = None
            return 0
        return min(allowance_bytes, max(0, self._part_bytes - used_bytes))

    def take(self, who: object, now_ms: int) -> None:
        """Note that one of them uses what it was offered."""
        assert who in self._order, f"{who!r} takes a turn and does not contend: {self}"
        del self._order[who]
        self._order[who] = None
        self._asking.pop(who, None)
        self._took_ms[who] = now_ms

    def again_ms(self, who: object, quota: Quota, now_ms: int) -> int | None:
        """Return when one that wants more has to ask again, `now_ms` if it may now, None for never."""
        at_ms = quota.next_ms(now_ms)
        if at_ms is None or at_ms > now_ms or len(self._order) == 1:
            return at_ms
        if not self._had(who, now_ms):
            return now_ms + LOOK_MS if who in self._asking else now_ms
        refilled_ms = quota.refilled_ms(now_ms)
        return refilled_ms if refilled_ms > now_ms else self._took_ms[who] + REFILL_MS

    def _had(self, who: object, now_ms: int) -> bool:
        """Return whether one of them had its turn; one that brought nothing does not count for ever."""
        took_ms = self._took_ms.get(who)
        return took_ms is not None and now_ms - took_ms < REFILL_MS

    def _waits_for_another(self, who: object, now_ms: int) -> bool:
        """Return whether it is the turn of another one, which may still come."""
        for other in self._order:
            if other == who:
                break
            if other in self._asking and not self._had(other, now_ms):
                if now_ms - self._since_ms < PATIENCE_MS:
                    return True
                del self._asking[other]
        return False
