"""From what moves and what shall move to KIP-73's lists: which broker sends and which receives each partition.

One hard idea: lists of a topic are set as a whole, so they must name everything that moves in it, also by earlier
requests, not only what the new plan moves. All current replicas are sources, because any of them may become the
leader and then send; an item of a broker that does not lead has no effect.
Source: KIP-73, KIP-455; Kafka's ReassignPartitionsCommand.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from syncline.model.ids import TopicPartition
from syncline.reassign.plan_file import Target


class Running(NamedTuple):
    """A partition that moves: all its replicas, and those of them that are added or removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """Return the replicas after the move."""
        return tuple(each for each in self.replicas if each not in self.removing)


class Movement(NamedTuple):
    """Which brokers may send a partition, and which receive it; both ascending."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


def movements(
    running: Mapping[TopicPartition, Running],
    targets: Iterable[Target],
    current: Mapping[TopicPartition, tuple[int, ...]],
) -> dict[TopicPartition, Movement]:
    """Return the movement of every partition that moves or shall move, sorted.

    `current` has the replicas of each partition among `targets`.
    """
    found = {
        key: Movement(_ascending(set(each.replicas) - set(each.adding)), _ascending(each.adding))
        for key, each in running.items()
    }
    for target in targets:
        known = found.get(target.key) if target.key in running else None
        sources = known.sources if known is not None else _ascending(current[target.key])
        found[target.key] = Movement(sources, _ascending(set(target.replicas) - set(sources)))
    return dict(sorted(found.items()))


def leader_lists(moving: Mapping[TopicPartition, Movement]) -> dict[str, str]:
    """Return the value of `leader.replication.throttled.replicas` of each topic."""
    return _lists((key, movement.sources) for key, movement in moving.items())


def follower_lists(moving: Mapping[TopicPartition, Movement]) -> dict[str, str]:
    """Return the value of `follower.replication.throttled.replicas` of each topic."""
    return _lists((key, movement.destinations) for key, movement in moving.items())


def brokers_of(moving: Mapping[TopicPartition, Movement]) -> list[int]:
    """Return all brokers that send or receive, ascending: those that get rates."""
    return sorted({broker for movement in moving.values() for brokers in movement for broker in brokers})


def _lists(rows: Iterable[tuple[TopicPartition, tuple[int, ...]]]) -> dict[str, str]:
    items: dict[str, set[str]] = {}
    for key, brokers in rows:
        items.setdefault(key.topic, set()).update(f"{key.partition}:{broker}" for broker in brokers)
    # The order of texts, not of numbers, as the tool writes them.
    return {topic: ",".join(sorted(each)) for topic, each in items.items()}


def _ascending(brokers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(brokers))
