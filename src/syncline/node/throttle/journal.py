"""Throttles in the journal: a sample when a quota begins to hold replicas back, while it does, and when it ends.

What holds nothing back is not sampled, so an idle throttle journals nothing.

Times in ms: of the node's clock, and Unix time in events.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Literal

from syncline.model.events import Throttle
from syncline.model.ids import JOURNAL_TOPIC, BrokerId
from syncline.node.clock import Clock
from syncline.node.throttle.role import QuotaState, RoleThrottle

log = logging.getLogger("syncline.node")

INTERVAL_MS: Final = 5_000
# The first sample comes so long after the first refusal: by then it is known what waits.
BEGIN_MS: Final = 1_000
# The replicas that a sample names; it counts all.
REPLICAS_MAX: Final = 100


class ThrottleJournal:
    """Samples the throttles of one broker."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        roles: Sequence[RoleThrottle],
        note: Callable[[Throttle], None],
    ) -> None:
        self._broker_id = broker_id
        self._loop = loop
        self._clock = clock
        self._note = note
        # By role and move: since when it holds something back.
        self._since_ms: dict[tuple[RoleThrottle, str], int] = {}
        # Those with a sample.
        self._begun: dict[tuple[RoleThrottle, str], None] = {}
        # What has held something back since the last sample.
        self._recent: dict[tuple[RoleThrottle, str], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        for role in roles:
            role.on_hold = self._holds

    def __repr__(self) -> str:
        return f"<{len(self._since_ms)} throttles hold something back>"

    def close(self) -> None:
        """Sample nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _holds(self, role: RoleThrottle, move_id: str) -> None:
        """Take note that a quota holds something back now."""
        name = (role, move_id)
        self._recent[name] = None
        if name in self._since_ms:
            return
        self._since_ms[name] = self._clock.wall_ms()
        if not move_id:
            # What was taken while nobody waited matters to nobody.
            role.taken.take()
        if self._timer is None:
            self._timer = self._loop.call_later(BEGIN_MS / 1_000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        recent, self._recent = self._recent, {}
        for name in list(self._since_ms):
            role, move_id = name
            if name not in self._begun:
                self._begun[name] = None
                self._sample(name, "begin")
            elif name in recent:
                self._sample(name, "ongoing")
            else:
                self._sample(name, "end")
                del self._since_ms[name], self._begun[name]
                continue
            if role.is_holding(move_id):
                self._recent[name] = None
        if self._since_ms:
            self._timer = self._loop.call_later(INTERVAL_MS / 1_000, self._fire)

    def _sample(self, name: tuple[RoleThrottle, str], phase: Literal["begin", "ongoing", "end"]) -> None:
        role, move_id = name
        state: QuotaState | None = role.states.get(move_id)
        now_ms, wall_ms = self._clock.mono_ms(), self._clock.wall_ms()
        # The journal's own replicas are not named: a sample would cause further ones.
        held = [each for each in role.held() if each[0].topic != JOURNAL_TOPIC] if phase != "end" else []
        self._note(
            Throttle(
                ts_ms=wall_ms,
                broker=self._broker_id,
                role=role.role,
                move=move_id,
                taken=() if move_id else role.taken.take(),
                phase=phase,
                since_ms=self._since_ms[name],
                lasted_ms=max(0, wall_ms - self._since_ms[name]),
                quota_bytes_per_s=-1 if state is None else state.limit_bytes_per_s,
                rate_bytes_per_s=0 if state is None else round(state.rate.rate(now_ms)),
                held=len(held),
                replicas=tuple(f"{key}@{replica}" for key, replica in islice(held, REPLICAS_MAX)),
                ratio=0.0 if state is None else round(state.held.ratio(now_ms), 3),
                mode=role.mode.value,
            )
        )
