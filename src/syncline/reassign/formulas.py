"""How long moves take: bytes to copy, traffic that only keeps up, and the broker that takes longest.

One hard idea: while a partition is copied, its log grows. Whatever a throttle lets through first has to keep up with
that growth, so only what is above it copies the past: time = bytes / (quota - keep-up), and none at all below.

Whose keep-up counts depends on the throttle. KIP-73 counts all followers of a listed partition, so in-sync followers
take their part of a leader's quota (KAFKA-4313). A throttle that belongs to a move counts new replicas only.
Units: bytes, bytes per second, seconds. Source: KIP-73, and what follows from it.
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from syncline.model.ids import NONE, TopicPartition


class Role(StrEnum):
    """What a broker does in a move."""

    RECEIVING = "receiving"
    SENDING = "sending"


class Moving(NamedTuple):
    """One partition to move: what a new replica has to copy, and how fast the log grows meanwhile.

    `had_bytes` is what each destination has of it already, in their order; empty if none has anything.
    """

    key: TopicPartition
    size_bytes: int
    write_bytes_per_s: float
    leader: int
    destinations: tuple[int, ...]
    in_sync_followers: int = 0
    had_bytes: tuple[int, ...] = ()

    @property
    def lacking_bytes(self) -> dict[int, int]:
        """Return what each destination has to get."""
        had_bytes = self.had_bytes or (0,) * len(self.destinations)
        return {broker: max(self.size_bytes - had, 0) for broker, had in zip(self.destinations, had_bytes, strict=True)}


class Part(NamedTuple):
    """A broker in one role."""

    broker: int
    role: Role


class Load(NamedTuple):
    """What a part has to do: bytes to copy, and bytes per second to keep up with."""

    copy_bytes: int
    keep_up_bytes_per_s: float

    def time_s(self, quota_bytes_per_s: float) -> float:
        """Return how long it takes at this quota; infinite if keeping up takes all of it."""
        if self.copy_bytes <= 0:
            return 0.0
        if math.isinf(quota_bytes_per_s):
            return 0.0
        left = quota_bytes_per_s - self.keep_up_bytes_per_s
        return self.copy_bytes / left if left > 0 else math.inf

    def quota_for(self, time_s: float) -> float:
        """Return the lowest quota that does it within this time."""
        assert time_s > 0, "a move takes time"
        return self.copy_bytes / time_s + self.keep_up_bytes_per_s


class Bottleneck(NamedTuple):
    """The part that takes longest, and how long."""

    part: Part
    time_s: float


def move_ratio(replicas_created: int, replicas: int) -> float:
    """Return the share of all replicas of the cluster that are created."""
    assert 0 <= replicas_created, "a count"
    return replicas_created / replicas if replicas else 0.0


def loads(partitions: Iterable[Moving], *, counts_in_sync: bool) -> dict[Part, Load]:
    """Return what each broker has to send and to receive, sorted; `counts_in_sync` as KIP-73's throttles do."""
    found: dict[Part, Load] = {}

    def add(part: Part, copy_bytes: int, keep_up: float) -> None:
        before = found.get(part, Load(0, 0.0))
        found[part] = Load(before.copy_bytes + copy_bytes, before.keep_up_bytes_per_s + keep_up)

    for moving in partitions:
        rate = moving.write_bytes_per_s
        lacking = moving.lacking_bytes
        copies = len(lacking)
        for broker, size_bytes in lacking.items():
            add(Part(broker, Role.RECEIVING), size_bytes, rate)
        # Nobody sends what nobody leads.
        if moving.leader != NONE and (copies or counts_in_sync):
            followers = copies + (moving.in_sync_followers if counts_in_sync else 0)
            add(Part(moving.leader, Role.SENDING), sum(lacking.values()), rate * followers)
    return dict(sorted(found.items()))


def bottleneck(parts: Mapping[Part, Load], quotas: Mapping[Part, float] | float) -> Bottleneck | None:
    """Return which part ends last at these quotas (one for all, or one each; missing is unlimited)."""
    times = [
        Bottleneck(part, load.time_s(quotas.get(part, math.inf) if isinstance(quotas, Mapping) else quotas))
        for part, load in parts.items()
        if load.copy_bytes > 0
    ]
    return max(times, key=lambda each: each.time_s, default=None)
