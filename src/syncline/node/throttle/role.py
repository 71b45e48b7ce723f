"""The throttle of one broker in one role: as a leader that sends, or as a follower that receives.

A partition must pass the broker's own quota if a list names it (KIP-73), and the quota of its move while that adds a
replica. Fetches that wait for a quota are called when one of theirs may have something left, first those that wait
longest: one timer per role, set to the first time at which a quota is no longer exceeded.

Units: bytes per second; times in ms of the node's clock.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, Protocol

from syncline.core.throttle.held_time import HeldTime
from syncline.core.throttle.mode import ThrottleMode
from syncline.core.throttle.quota import UNLIMITED, HeldBack, Quota, make_quota
from syncline.core.throttle.rate import WindowedRate
from syncline.core.throttle.throttled_replicas import ListedPartitions
from syncline.core.throttle.turns import Turns
from syncline.model.ids import NONE, BrokerId, TopicPartition
from syncline.node.clock import Clock
from syncline.node.throttle.moves import Moving
from syncline.node.throttle.taken import Taken

log = logging.getLogger("syncline.node")

Role = Literal["leader", "follower"]

_NOTHING: Final[frozenset[int]] = frozenset()


class Throttled(Protocol):
    """What waits for a quota."""

    def throttle_opened(self) -> None:
        """Look again: a quota may have something left."""


class QuotaState:
    """One quota, with what lasts when its rule or limit changes."""

    __slots__ = ("held", "limit_bytes_per_s", "partition_count", "quota", "rate")

    def __init__(self, num: int, sample_ms: int, mode: ThrottleMode) -> None:
        self.rate = WindowedRate(num, sample_ms)
        self.held = HeldTime(num, sample_ms)
        self.limit_bytes_per_s = UNLIMITED
        # The partitions that it bounds, if it is a move's.
        self.partition_count = 0
        self.quota: Quota = make_quota(mode, self.rate, UNLIMITED, 0)

    def set_mode(self, mode: ThrottleMode, now_ms: int) -> None:
        """Keep the quota by another rule; promises of the one before end with it."""
        self.quota = make_quota(mode, self.rate, self.limit_bytes_per_s, now_ms)

    def set_limit(self, bytes_per_s: int, now_ms: int) -> None:
        """Bound by another rate."""
        self.limit_bytes_per_s = bytes_per_s
        self.quota.set_limit(bytes_per_s, now_ms)


class RoleThrottle:
    """What bounds the bytes that one broker sends, or receives."""

    def __init__(
        self,
        role: Role,
        *,
        broker_id: BrokerId,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        window: tuple[int, int],
        mode: ThrottleMode,
    ) -> None:
        self.role = role
        # Whether any partition is throttled; while it is False, nobody asks for more.
        self.is_active = False
        self.mode = mode
        self._loop = loop
        self._clock = clock
        # The number of samples and their length in ms.
        self._window = window
        self._lists = ListedPartitions(broker_id)
        # The broker's own quota under "", those of moves by their ids.
        self._states: dict[str, QuotaState] = {"": QuotaState(*window, mode)}
        self._moving: dict[TopicPartition, Moving] = {}
        # Of the quotas that fetchers contend for.
        self._turns: dict[Quota, Turns] = {}
        # With the quotas for which each waits.
        self._waiting: dict[Throttled, Collection[Quota]] = {}
        self._timer: asyncio.TimerHandle | None = None
        # Who got the bytes of the broker's own quota; those who send or receive them note it.
        self.taken = Taken()
        # Called when a quota, by its name in `states`, holds something back.
        self.on_hold: Callable[[RoleThrottle, str], None] = lambda _role, _name: None
        # Returns what is held back.
        self.held: Callable[[], Iterable[HeldBack]] = tuple

    def __repr__(self) -> str:
        return f"<{self.role} throttle, {self.mode.value}: {self._states['']}, {len(self._waiting)} wait>"

    def listed(self, key: TopicPartition, /) -> Quota | None:
        """Return the broker's quota if a list names the partition."""
        return self._states[""].quota if key in self._lists else None

    def moving(self, key: TopicPartition, receiver: BrokerId, /) -> Quota | None:
        """Return the quota of the move that gives `receiver` a replica of the partition."""
        moving = self._moving.get(key)
        if moving is None or receiver not in moving.adding:
            return None
        return self._states[moving.move_id].quota

    def contend(self, quota: Quota, who: object, /) -> Turns:
        """Note that a fetcher needs some of a quota; return whose turn it is."""
        turns = self._turns.setdefault(quota, Turns())
        turns.contend(who)
        return turns

    def concede(self, quota: Quota, who: object, /) -> None:
        """Note that it needs nothing more."""
        turns = self._turns.get(quota)
        if turns is not None:
            turns.concede(who)
            if not len(turns):
                del self._turns[quota]

    @property
    def waiting_count(self) -> int:
        """Return how many fetches wait for a quota."""
        return len(self._waiting)

    def wait(self, waiting: Throttled, quotas: Collection[Quota], /) -> None:
        """Call `waiting`, which waits for these quotas, each time one of them may have something left."""
        self._waiting[waiting] = quotas
        self._arm()

    def forget(self, waiting: Throttled, /) -> None:
        """Stop notifying `waiting`."""
        if waiting in self._waiting:
            del self._waiting[waiting]
            self.look(self._clock.mono_ms())

    def look(self, now_ms: int) -> Sequence[Quota]:
        """Note and return which quotas hold something back now: they are exceeded, and a fetch waits for them."""
        awaited: set[Quota] = set().union(*self._waiting.values())
        holding = []
        for name, state in self._states.items():
            is_exceeded = state.quota in awaited and state.quota.is_exceeded(now_ms)
            state.held.look(now_ms, is_exceeded=is_exceeded)
            if is_exceeded:
                holding.append(state.quota)
                self.on_hold(self, name)
        return holding

    def is_holding(self, name: str) -> bool:
        """Return whether a quota, by its name in `states`, holds something back now."""
        state = self._states.get(name)
        if state is None or not state.quota.is_exceeded(self._clock.mono_ms()):
            return False
        return any(state.quota in quotas for quotas in self._waiting.values())

    def _arm(self) -> None:
        now_ms = self._clock.mono_ms()
        holding = self.look(now_ms)
        if self._timer is not None or not holding:
            return
        if self.role == "leader" and self.mode is ThrottleMode.KAFKA:
            # There, only data that is not throttled, or its deadline, ends a fetch's wait.
            return
        times_ms = [at_ms for quota in holding if (at_ms := quota.next_ms(now_ms)) is not None]
        if times_ms:
            self._timer = self._loop.call_later(max(1, min(times_ms) - now_ms) / 1_000, self._fire)

    def _fire(self) -> None:
        """Wake those for whom a quota has something left."""
        now_ms = self._clock.mono_ms()
        is_open = {quota: not quota.is_exceeded(now_ms) for quota in set[Quota]().union(*self._waiting.values())}
        self._wake([waiting for waiting, quotas in self._waiting.items() if any(map(is_open.__getitem__, quotas))])

    def _wake(self, some: Iterable[Throttled]) -> None:
        self._timer = None
        for waiting in some:
            try:
                waiting.throttle_opened()
            except Exception:
                # The others wait, too.
                log.exception("a fetch failed when its throttle opened")
        self._arm()

    def close(self) -> None:
        """Stop waking waiters."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()

    def set_mode(self, mode: ThrottleMode) -> bool:
        """Keep all quotas by this rule; return whether it is another one."""
        if mode is self.mode:
            return False
        self.mode = mode
        for state in self._states.values():
            state.set_mode(mode, self._clock.mono_ms())
        return True

    def set_limit(self, bytes_per_s: int) -> bool:
        """Bound listed partitions by this rate; return whether it is another one."""
        state = self._states[""]
        if state.limit_bytes_per_s == bytes_per_s:
            return False
        state.set_limit(bytes_per_s, self._clock.mono_ms())
        return True

    def set_list(self, topic: str, items: Sequence[str]) -> Collection[int] | None:
        """Replace the list of a topic; return the partitions for which that makes a difference, None: all of them."""
        before = self._lists.topics.get(topic, _NOTHING)
        self._lists.set_topic(topic, items)
        after = self._lists.topics.get(topic, _NOTHING)
        if before is None or after is None:
            return _NOTHING if before is after else None
        return before ^ after

    def set_moving(self, key: TopicPartition, moving: Moving | None) -> bool:
        """Bound a partition by its move; return whether it is another move, or adds other replicas, than before."""
        if moving is not None and (moving.throttle_bytes_per_s == NONE or not moving.adding):
            moving = None
        before = self._moving.get(key)
        if moving is None:
            if before is None:
                return False
            del self._moving[key]
        else:
            self._moving[key] = moving
            state = self._states.get(moving.move_id)
            if state is None:
                state = self._states[moving.move_id] = QuotaState(*self._window, self.mode)
            if before is None or before.move_id != moving.move_id:
                state.partition_count += 1
            self.set_move_limit(moving.move_id, moving.throttle_bytes_per_s)
        if before is not None and (moving is None or before.move_id != moving.move_id):
            state = self._states[before.move_id]
            state.partition_count -= 1
            if not state.partition_count:
                del self._states[before.move_id]
        if before is None or moving is None:
            return True
        return (before.move_id, before.adding) != (moving.move_id, moving.adding)

    def set_move_limit(self, move_id: str, bytes_per_s: int) -> bool:
        """Bound all partitions of a move together; return whether that is another rate than before."""
        state = self._states.get(move_id)
        if state is None or state.limit_bytes_per_s == bytes_per_s:
            return False
        state.set_limit(bytes_per_s, self._clock.mono_ms())
        return True

    def changed(self, *, is_in_force: bool = True) -> None:
        """Use what was changed; then `wake`. Until it is in force for all partitions, the throttle stays on."""
        self.is_active = bool(self._lists) or bool(self._moving) or not is_in_force

    def wake(self) -> None:
        """Wake all that waits: its quota may be another one now."""
        if self._timer is not None:
            self._timer.cancel()
        self._wake(list(self._waiting))

    def check_invariants(self) -> None:
        """Assert that each quota is sound, and that no fetch waits for a throttle that is off."""
        for state in self._states.values():
            state.quota.check_invariants()
        counts = Counter(moving.move_id for moving in self._moving.values())
        known = {move_id: state.partition_count for move_id, state in self._states.items() if move_id}
        assert counts == known, f"{self}: moves bound {counts} partitions, and should bound {known}"
        assert self.is_active or not self._turns, f"{self}: there are turns for nothing: {self._turns}"

    @property
    def states(self) -> Mapping[str, QuotaState]:
        """Return the broker's own quota under "", and those of moves by their ids."""
        return self._states

    @property
    def lists(self) -> ListedPartitions:
        """Return the listed partitions."""
        return self._lists
