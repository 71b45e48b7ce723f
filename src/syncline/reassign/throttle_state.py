"""Which replicas are throttled, by which list, rate or move, and which piece a throttle lacks to have an effect.

KIP-73 needs two pieces: a rate at the broker, and a list at the topic that names the partition with this broker. In
both lists the broker is the one that is slowed: in the leader list the one that sends, in the follower list the one
that receives. A move of Syncline's has its own throttle and needs neither. If both apply, the lower one counts.
In-sync replicas are served whatever the throttle, and their bytes count (KAFKA-4313).
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from syncline.model.ids import NONE, TopicPartition
from syncline.reassign.cluster_state import ClusterState
from syncline.reassign.formulas import Role

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_LIST: Final = "leader.replication.throttled.replicas"
FOLLOWER_LIST: Final = "follower.replication.throttled.replicas"
QUOTA_MODE: Final = "replication.quota.mode"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
LISTS: Final = (LEADER_LIST, FOLLOWER_LIST)
WILDCARD: Final = "*"
_CLEAR: Final = "`syncline throttle clear"

RATE_OF: Final[Mapping[Role, str]] = {Role.SENDING: LEADER_RATE, Role.RECEIVING: FOLLOWER_RATE}
LIST_OF: Final[Mapping[Role, str]] = {Role.SENDING: LEADER_LIST, Role.RECEIVING: FOLLOWER_LIST}


class Rate(NamedTuple):
    """A rate that is set, and where: "broker" for this one, "cluster" for all."""

    bytes_per_s: int
    source: str


class Throttles(NamedTuple):
    """The throttle configurations of a cluster: rates by broker and name, lists by topic and name; only what is set.

    `modes` has each broker's kind of quota, where it has more than one. `unread` are brokers whose rates nobody tells,
    as they are down or silent.
    """

    rates: Mapping[int, Mapping[str, Rate]]
    lists: Mapping[str, Mapping[str, str]]
    modes: Mapping[int, str] = {}
    unread: tuple[int, ...] = ()


class Effect(StrEnum):
    """What a throttle does to one replica now."""

    THROTTLED = "throttled"
    # In sync: served nevertheless, and its bytes count.
    COUNTED = "counted"
    FREE = "free"
    # Named as a sender, and not the leader now.
    DORMANT = "dormant"


class Explained(NamedTuple):
    """One replica in one role: what the throttle does, by what, and what is missing for it to do more."""

    key: TopicPartition
    broker: int
    role: Role
    effect: Effect
    bound_bytes_per_s: int = NONE
    by: str = ""
    missing: str = ""


def names(value: str, partition: int, broker: int) -> bool:
    """Return whether a list names this replica. Blanks and empty items mean nothing."""
    items = _items(value)
    return WILDCARD in items or f"{partition}:{broker}" in items


@lru_cache(maxsize=16)
def _items(value: str) -> frozenset[str]:
    """Return the items of a list, which may name each replica of thousands of partitions that are asked about."""
    return frozenset(item.strip() for item in value.split(","))


def explain(state: ClusterState, throttles: Throttles, keys: Iterable[TopicPartition]) -> list[Explained]:
    """Return what throttles do to each replica of these partitions: each sender, and each that receives."""
    found = []
    for key in sorted(keys):
        partition = state.partitions[key]
        lagging = [broker for broker in partition.replicas if broker not in partition.isr]
        for broker in partition.replicas:
            # A replica is in sync as a sender if all to whom it sends are.
            for role in (Role.SENDING, Role.RECEIVING):
                if (role is Role.RECEIVING) == (broker == partition.leader):
                    if role is Role.SENDING and _list_hit(throttles, key, broker, role):
                        found.append(
                            Explained(
                                key, broker, role, Effect.DORMANT, by=LIST_OF[role], missing="it is not the leader"
                            )
                        )
                    continue
                needs_bytes = bool(lagging) if role is Role.SENDING else broker in lagging
                found.append(_one(state, throttles, key, broker, role, is_lagging=needs_bytes))
    return found


def left_behind(state: ClusterState, throttles: Throttles) -> list[str]:
    """Return a sentence for each throttle that limits nothing that moves: somebody's standing limit, or forgotten."""
    moving = {key.topic for key in state.running}
    sentences = [
        f"topic {topic} has {name}={value}, but none of its partitions is moving: {_CLEAR} --topic {topic}` removes it."
        for topic, lists in sorted(throttles.lists.items())
        for name, value in sorted(lists.items())
        if value.strip() and topic not in moving
    ]
    if not state.running:
        sentences += [
            f"broker {broker} has {name}={rate.bytes_per_s} ({rate.source}), but nothing is moving: "
            f"{_removal(broker, name, rate)}."
            for broker, rates in sorted(throttles.rates.items())
            for name, rate in sorted(rates.items())
        ]
    return sentences


def _removal(broker: int, name: str, rate: Rate) -> str:
    """Return what removes a rate."""
    if rate.source == "broker":
        return f"{_CLEAR} --brokers {broker}` removes it"
    return removal_from_all(name)


def removal_from_all(name: str) -> str:
    """Return what removes a rate that is set for all brokers."""
    return f"`syncline configs alter broker all --unset {name}` removes it from all brokers"


def quota_of(state: ClusterState, throttles: Throttles, key: TopicPartition, broker: int, role: Role) -> float:
    """Return the bytes per second that a replica that lags may have at most in a role; infinite for no bound."""
    rate, _ = _bound(state, throttles, key, broker, role)
    return float("inf") if rate == NONE else float(rate)


def _one(
    state: ClusterState, throttles: Throttles, key: TopicPartition, broker: int, role: Role, *, is_lagging: bool
) -> Explained:
    bound, by = _bound(state, throttles, key, broker, role, is_lagging=is_lagging)
    if bound != NONE:
        effect = Effect.THROTTLED if is_lagging else Effect.COUNTED
        return Explained(key, broker, role, effect, bound, by)
    is_listed = _list_hit(throttles, key, broker, role)
    has_rate = RATE_OF[role] in throttles.rates.get(broker, {})
    missing = ""
    if is_listed and not has_rate:
        missing = f"broker {broker} has no {RATE_OF[role]}"
    elif has_rate and not is_listed:
        missing = f"{LIST_OF[role]} of topic {key.topic} does not name {key.partition}:{broker}"
    return Explained(key, broker, role, Effect.FREE, missing=missing)


def _bound(
    state: ClusterState, throttles: Throttles, key: TopicPartition, broker: int, role: Role, *, is_lagging: bool = True
) -> tuple[int, str]:
    """Return the lowest bound of a replica in a role, and what sets it; NONE and "" without one.

    A move's throttle neither bounds nor counts what needs nothing more of the move.
    """
    bounds = []
    rate = throttles.rates.get(broker, {}).get(RATE_OF[role])
    if rate is not None and _list_hit(throttles, key, broker, role):
        bounds.append((rate.bytes_per_s, f"{LIST_OF[role]} and {RATE_OF[role]} ({rate.source})"))
    move = state.moves.get(state.move_of.get(key, ""))
    running = state.running.get(key)
    if move is not None and running is not None and is_lagging and move.throttle_bytes_per_s != NONE:
        takes_part = broker in running.adding if role is Role.RECEIVING else bool(running.adding)
        if takes_part:
            bounds.append((move.throttle_bytes_per_s, f"move {move.move_id}"))
    return min(bounds, default=(NONE, ""))


def _list_hit(throttles: Throttles, key: TopicPartition, broker: int, role: Role) -> bool:
    value = throttles.lists.get(key.topic, {}).get(LIST_OF[role], "")
    return names(value, key.partition, broker)
