"""Where replicas could be: the tool's proposal from scratch, and one that moves as little as possible.

The tool's proposal ignores where replicas are: leaders go round the brokers, followers follow at a distance that grows
with each round, so that the followers of one broker are spread over all others. With racks, a second replica goes to a
rack only when every other has one. It therefore moves nearly everything.

The other begins with the current placement, and computes the fewest bytes that make replicas, and then preferred
leaders, equally many on all brokers (`balance.py`). A replica that stays needs no copying; a leader that was one
before needs no election; a leader that is there already needs no waiting.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from syncline.model.ids import TopicPartition
from syncline.reassign.balance import Row, balanced
from syncline.reassign.errors import PlanError
from syncline.reassign.plan_file import Target

NOT_ALL_RACKS = (
    "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment "
    "without rack information."
)


class Placed(NamedTuple):
    """A partition as it is: its replicas in order of preference, and the bytes of one of them."""

    key: TopicPartition
    replicas: tuple[int, ...]
    size_bytes: int = 0


def known_racks(brokers: Mapping[int, str | None]) -> dict[int, str]:
    """Return the rack of each broker, empty if none has one. Raises PlanError if only some have."""
    racks = {broker: rack for broker, rack in brokers.items() if rack}
    if racks and len(racks) < len(brokers):
        raise PlanError(NOT_ALL_RACKS)
    return racks


def from_scratch(
    partitions: Sequence[Placed], brokers: Sequence[int], racks: Mapping[int, str], *, start: int = 0, shift: int = 0
) -> list[Target]:
    """Return the tool's proposal, sorted: each topic with as many replicas as its first partition in the list.

    `start` and `shift` say where the round begins; the tool takes random numbers. Raises PlanError.
    """
    topics: dict[str, list[Placed]] = {}
    for placed in partitions:
        topics.setdefault(placed.key.topic, []).append(placed)
    around = _around(brokers, racks)
    proposal = []
    for _, rows in sorted(topics.items()):
        count = len(rows[0].replicas)
        if count > len(around):
            raise PlanError(f"Replication factor: {count} larger than available brokers: {len(around)}.")
        for place, row in enumerate(sorted(rows)):
            distance = shift + place // len(around)
            proposal.append(Target(row.key, _one(around, racks, count, start + place, distance)))
    return sorted(proposal)


def with_fewest_bytes(
    partitions: Sequence[Placed],
    brokers: Sequence[int],
    racks: Mapping[int, str],
    *,
    elsewhere: Sequence[Placed] = (),
) -> list[Target]:
    """Return a balanced proposal that moves the fewest bytes, and of several the fewest replicas, sorted.

    `elsewhere` are partitions that stay and count: brokers are to have equally many replicas, and lead equally many,
    of all. Raises PlanError.
    """
    rows = sorted(partitions)
    replicas_elsewhere = Counter(broker for placed in elsewhere for broker in placed.replicas)
    leaders_elsewhere = Counter(placed.replicas[0] for placed in elsewhere if placed.replicas)
    # Every move costs one more than its bytes, which are counted in units that no sum of ones reaches.
    unit = sum(len(row.replicas) for row in rows) + 1
    sets = balanced(
        [
            Row(
                row.replicas,
                {broker: 0 if broker in row.replicas else row.size_bytes * unit + 1 for broker in brokers},
            )
            for row in rows
        ],
        brokers,
        racks=racks,
        counts_elsewhere=replicas_elsewhere,
    )
    leaders = balanced(
        [
            Row(row.replicas[:1], {broker: _leader_price(row, broker) for broker in replicas})
            for row, replicas in zip(rows, sets, strict=True)
        ],
        brokers,
        counts_elsewhere=leaders_elsewhere,
    )
    return [
        Target(row.key, _ordered(row, replicas, next(iter(leader))))
        for row, replicas, leader in zip(rows, sets, leaders, strict=True)
    ]


def _leader_price(row: Placed, broker: int) -> int:
    if broker == row.replicas[0]:
        return 0
    return 1 if broker in row.replicas else 2


def _ordered(row: Placed, replicas: frozenset[int], leader: int) -> tuple[int, ...]:
    """Return the leader, then those that stay in their order, then those that come."""
    staying = [broker for broker in row.replicas if broker in replicas and broker != leader]
    coming = sorted(replicas - set(row.replicas) - {leader})
    return (leader, *staying, *coming)


def _around(brokers: Sequence[int], racks: Mapping[int, str]) -> list[int]:
    """Return the brokers in the order of a round: one of each rack in turn."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(racks.get(broker, ""), []).append(broker)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def _one(around: Sequence[int], racks: Mapping[int, str], count: int, place: int, distance: int) -> tuple[int, ...]:
    """Return the replicas of one partition: the leader at `place` of the round, followers from `distance` on."""
    first = place % len(around)
    others = [around[(first + 1 + step) % len(around)] for step in range(len(around) - 1)]
    others = others[distance % len(others) :] + others[: distance % len(others)] if others else []
    chosen = [around[first]]
    while len(chosen) < count:
        used = Counter(racks.get(broker) for broker in chosen)
        left = [broker for broker in others if broker not in chosen]
        fewest = min(used[racks.get(broker)] for broker in left)
        chosen.append(next(broker for broker in left if not racks or used[racks.get(broker)] == fewest))
    return tuple(chosen)
