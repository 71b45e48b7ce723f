"""When a move ends: from how fast what remains becomes less.

What remains is measured, growth of the log included, so its decrease is already the net speed. It is smoothed, as
throttles let data pass in bursts. A speed that was computed from a throttle is the first measurement, so that there
is an answer at once, also after the throttle was changed; without one there is no answer for two windows of KIP-73.
Units: bytes, ms. Source: KIP-73 (remaining lag), the exponentially weighted mean.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

HALF_LIFE_MS: Final = 30_000
# Two windows of Kafka's quotas, 2 x 11 x 1 s.
UNKNOWN_MS: Final = 22_000


@dataclass(frozen=True, slots=True)
class Eta:
    """What is known of the speed of a move."""

    half_life_ms: int = HALF_LIFE_MS
    is_seeded: bool = False
    speed_bytes_per_s: float | None = None
    begun_ms: int | None = None
    seen_ms: int | None = None
    remaining_bytes: int = 0

    def predicted(self, speed_bytes_per_s: float) -> Self:
        """Return this with a computed speed in place of the measured one, as after a change of the throttle."""
        return replace(self, speed_bytes_per_s=speed_bytes_per_s, is_seeded=True)

    def seen(self, now_ms: int, remaining_bytes: int) -> Self:
        """Return this after a measurement."""
        if self.seen_ms is None:
            return replace(self, begun_ms=now_ms, seen_ms=now_ms, remaining_bytes=remaining_bytes)
        assert now_ms >= self.seen_ms, "time does not go back"
        span_ms = now_ms - self.seen_ms
        if span_ms == 0:
            return replace(self, remaining_bytes=remaining_bytes)
        measured = (self.remaining_bytes - remaining_bytes) * 1000 / span_ms
        speed = measured
        if self.speed_bytes_per_s is not None:
            weight = 1 - 0.5 ** (span_ms / self.half_life_ms)
            speed = self.speed_bytes_per_s + weight * (measured - self.speed_bytes_per_s)
        return replace(self, speed_bytes_per_s=speed, seen_ms=now_ms, remaining_bytes=remaining_bytes)

    @property
    def is_known(self) -> bool:
        """Return whether there was enough to measure, or a computed speed."""
        if self.speed_bytes_per_s is None or self.seen_ms is None or self.begun_ms is None:
            return False
        return self.is_seeded or self.seen_ms - self.begun_ms >= UNKNOWN_MS

    @property
    def is_stalled(self) -> bool:
        """Return whether what remains does not become less."""
        return self.is_known and self.remaining_bytes > 0 and (self.speed_bytes_per_s or 0.0) <= 0

    @property
    def left_s(self) -> float | None:
        """Return the seconds left; None while unknown, and while stalled."""
        if self.remaining_bytes <= 0 and self.seen_ms is not None:
            return 0.0
        if not self.is_known or self.is_stalled:
            return None
        assert self.speed_bytes_per_s, "it moves"
        return self.remaining_bytes / self.speed_bytes_per_s
