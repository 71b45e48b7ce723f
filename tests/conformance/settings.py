"""The clusters that are compared: how many brokers, and the configs with which both start.

The offsets topic is replicated as in production; rebalances begin at once, so that sequences do not wait; leadership
stays where it was put; the largest frame is small enough to be exceeded by a test.
"""

from collections.abc import Mapping
from dataclasses import dataclass

CONFIGS = {
    "replica.lag.time.max.ms": "3000",
    "auto.leader.rebalance.enable": "false",
    "socket.request.max.bytes": "4194304",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "3",
}


@dataclass(frozen=True)
class World:
    """One cluster; its broker number `leaves` (from 0) is stopped in good order between two halves of its sequences.

    A module of sequences names its world in `WORLD`, and is played in "steady" otherwise.
    """

    brokers: int
    configs: Mapping[str, str]
    racks: tuple[str, ...] = ()
    leaves: int | None = None


STEADY = "steady"
BY_RACK = {**CONFIGS, "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
# Leadership, epochs and in-sync sets that are not as they were at first need a broker that goes.
DEPARTED = "departed"
# Of random sequences alone.
RACKED = "racked"
WORLDS = {
    STEADY: World(3, CONFIGS),
    DEPARTED: World(4, BY_RACK, racks=("a", "b", "c", "a"), leaves=3),
    RACKED: World(3, BY_RACK, racks=("a", "b", "c")),
}
