"""When a move ends: from how fast what remains becomes less.

What remains is measured, growth of the log included, so its decrease is already the net speed. It is smoothed, as
throttles let data pass in bursts. A speed that was computed from a throttle is the first measurement, so that there
is an answer at once; without one there is no answer for two windows of KIP-73. When the throttle is changed, the
measured speed changes in proportion: a copy that got half of the one before is expected to get half of this one.
Each broker has an end for what it sends and one for what it receives; the last of them is the move's.

Units: bytes, ms. Source: KIP-73 (remaining lag), the exponentially weighted mean.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from syncline.reassign.formulas import Load, Part

HALF_LIFE_MS: Final = 30_000
# Where throttles are strict, data passes twice a second, and less of it must be remembered.
STEADY_HALF_LIFE_MS: Final = 6_000
# A computed speed that differs by less is the same one: keep-up traffic is measured, and never twice the same.
SAME: Final = 0.1
# Two windows of Kafka's quotas, 2 x 11 x 1 s.
UNKNOWN_MS: Final = 22_000


@dataclass(frozen=True, slots=True)
class Eta:
    """What is known of the speed of one copy."""

    half_life_ms: int = HALF_LIFE_MS
    # The speed that was last computed from a throttle.
    computed_bytes_per_s: float | None = None
    speed_bytes_per_s: float | None = None
    begun_ms: int | None = None
    seen_ms: int | None = None
    remaining_bytes: int = 0

    def predicted(self, speed_bytes_per_s: float) -> Self:
        """Return this after a throttle was set or changed, which would let it go at this speed."""
        before, computed = self.speed_bytes_per_s, self.computed_bytes_per_s
        speed = speed_bytes_per_s
        if before is not None and before > 0 and computed is not None and computed > 0:
            # More than was computed is a burst, and no promise of more than the new throttle allows.
            speed *= min(before / computed, 1.0)
        return replace(self, speed_bytes_per_s=speed, computed_bytes_per_s=speed_bytes_per_s)

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
        return self.computed_bytes_per_s is not None or self.seen_ms - self.begun_ms >= UNKNOWN_MS

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


class Ends(NamedTuple):
    """The ends of all parts of what moves, under quotas and keep-up traffic that may change."""

    is_steady: bool = False
    etas: Mapping[Part, Eta] = {}

    def seen(self, now_ms: int, parts: Mapping[Part, Load], quotas: Mapping[Part, float]) -> "Ends":
        """Return this after a look; a part without a quota is unlimited. Parts that are over are forgotten."""
        half_life_ms = STEADY_HALF_LIFE_MS if self.is_steady else HALF_LIFE_MS
        etas = {}
        for part, load in parts.items():
            eta, quota = self.etas.get(part, Eta(half_life_ms)), quotas.get(part, math.inf)
            if not math.isinf(quota):
                speed = max(quota - load.keep_up_bytes_per_s, 0.0)
                known = eta.computed_bytes_per_s
                if known is None or abs(speed - known) > SAME * known:
                    eta = eta.predicted(speed)
            etas[part] = eta.seen(now_ms, load.copy_bytes)
        return self._replace(etas=etas)

    def left_of(self, parts: Iterable[Part]) -> dict[Part, float | None]:
        """Return the seconds left of each of these."""
        return {part: self.etas[part].left_s if part in self.etas else None for part in parts}

    @property
    def left_s(self) -> float | None:
        """Return the seconds until all parts have ended; None if that of any is unknown, or if there are none."""
        spans = [eta.left_s for eta in self.etas.values()]
        known = [span for span in spans if span is not None]
        return max(known) if known and len(known) == len(spans) else None
