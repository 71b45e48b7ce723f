"""Throttles in the journal: a sample when a quota begins to hold replicas back, while it does, and when it ends.

What holds nothing back is not sampled, so an idle throttle journals nothing. A sample names what waits for its own
quota, and not what waits for others of the same role. There may be hundreds of moves, so that samples are made in
slices, each of which looks once at what is held back.

Times in ms: of the node's clock, and Unix time in events.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from syncline.core.throttle.quota import Quota
from syncline.model.events import Throttle
from syncline.model.ids import JOURNAL_TOPIC, BrokerId, TopicPartition
from syncline.node.clock import Clock
from syncline.node.throttle.role import QuotaState, RoleThrottle

INTERVAL_MS: Final = 5_000
# The first sample comes so long after the first refusal: by then it is known what waits.
BEGIN_MS: Final = 1_000
# The replicas that a sample names; it counts all.
REPLICAS_MAX: Final = 100
# Samples of one callback.
_SAMPLED_AT_ONCE: Final = 20

# A role and one of its quotas by its name in `states`: "" or a move.
_Name = tuple[RoleThrottle, str]


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
        self._since_ms: dict[_Name, int] = {}
        # Those with a sample.
        self._begun: dict[_Name, None] = {}
        # What has held something back since the last sample.
        self._recent: dict[_Name, None] = {}
        self._timer: asyncio.Handle | None = None
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
        """Record that a quota holds something back now."""
        name = (role, move_id)
        self._recent[name] = None
        if name in self._since_ms:
            return
        self._since_ms[name] = self._clock.wall_ms()
        if not move_id:
            role.taken.begin()
        if self._timer is None:
            self._timer = self._loop.call_later(BEGIN_MS / 1_000, self._fire)

    def _fire(self) -> None:
        recent, self._recent = self._recent, {}
        self._sample_some(list(self._since_ms), recent)

    def _sample_some(self, names: Sequence[_Name], recent: Mapping[_Name, None]) -> None:
        """Sample some quotas, and the rest later."""
        some, rest = names[:_SAMPLED_AT_ONCE], names[_SAMPLED_AT_ONCE:]
        held = self._held_back(some)
        for name in some:
            role, move_id = name
            if name in self._begun and name not in recent:
                self._sample(name, "end", _Held())
                if not move_id:
                    role.taken.end()
                del self._since_ms[name], self._begun[name]
                continue
            self._sample(name, "ongoing" if name in self._begun else "begin", held[name])
            self._begun[name] = None
            if role.is_holding(move_id):
                self._recent[name] = None
        self._timer = None
        if rest:
            self._timer = self._loop.call_soon(self._sample_some, rest, recent)
        elif self._since_ms:
            self._timer = self._loop.call_later(INTERVAL_MS / 1_000, self._fire)

    def _held_back(self, names: Sequence[_Name]) -> "Mapping[_Name, _Held]":
        """Return what each of these quotas holds back."""
        now_ms = self._clock.mono_ms()
        found = {name: _Held() for name in names}
        for role in dict.fromkeys(role for role, _ in names):
            of_quota: dict[Quota, _Held] = {
                role.states[move_id].quota: held
                for (each, move_id), held in found.items()
                if each is role and move_id in role.states
            }
            for group in role.held():
                # Under two quotas, those that are exceeded hold it back, or else neither has enough for it.
                blamed = [quota for quota in group.quotas if quota.is_exceeded(now_ms)] or group.quotas
                concerned = [of_quota[quota] for quota in blamed if quota in of_quota]
                if concerned:
                    for key, replica in group.replicas:
                        for held in concerned:
                            held.add(key, replica)
        return found

    def _sample(self, name: _Name, phase: Literal["begin", "ongoing", "end"], held: "_Held") -> None:
        role, move_id = name
        state: QuotaState | None = role.states.get(move_id)
        now_ms, wall_ms = self._clock.mono_ms(), self._clock.wall_ms()
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
                held=held.count,
                replicas=tuple(held.replicas),
                ratio=0.0 if state is None else round(state.held.ratio(now_ms), 3),
                mode=role.mode.value,
            )
        )


class _Held:
    """What a quota holds back: how many replicas, and the first of them by name."""

    __slots__ = ("count", "replicas")

    def __init__(self) -> None:
        self.count = 0
        self.replicas: list[str] = []

    def add(self, key: TopicPartition, replica: BrokerId) -> None:
        # The journal's own replicas are not named: a sample would cause further ones.
        if key.topic != JOURNAL_TOPIC:
            self.count += 1
            if len(self.replicas) < REPLICAS_MAX:
                self.replicas.append(f"{key}@{replica}")
