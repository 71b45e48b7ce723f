"""For how much of the time a quota held something back: what the KIP's throttle time became.

The state is known when it is looked at; between two looks it counts as it was at the first.

Units: ms in, a ratio from 0 to 1 out.
Source: KIP-73, where nothing is delayed any more.
"""

from syncline.core.throttle.rate import WindowedRate


class HeldTime:
    """The share of the newest time in which a quota was exceeded."""

    __slots__ = ("_exceeded", "_is_exceeded", "_since_ms")

    def __init__(self, num: int, sample_ms: int) -> None:
        self._exceeded = WindowedRate(num, sample_ms)
        self._is_exceeded = False
        self._since_ms = 0

    def look(self, now_ms: int, *, is_exceeded: bool) -> None:
        """Note the state of the quota."""
        # A caller may have read the clock a millisecond before somebody else did.
        now_ms = max(now_ms, self._since_ms)
        self._exceeded.record(now_ms - self._since_ms if self._is_exceeded else 0, now_ms)
        self._is_exceeded = is_exceeded
        self._since_ms = now_ms

    def ratio(self, now_ms: int) -> float:
        """Return the share of the time."""
        return min(1.0, self._exceeded.rate(now_ms) / 1_000)
