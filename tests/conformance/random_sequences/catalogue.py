"""All random sequences there are: one for each kind and seed, always the same."""

import random
from collections.abc import Callable

from tests.conformance.random_sequences import (
    admin,
    brokers,
    data,
    groups,
    members,
    producers,
    racks,
    replication,
    sessions,
)
from tests.conformance.settings import RACKED, STEADY
from tests.conformance.steps import Action, Sequence, Topic

KINDS: dict[str, Callable[[random.Random], tuple[dict[str, Topic], list[Action]]]] = {
    "data": data.draw,
    "groups": groups.draw,
    "admin": admin.draw,
    "replication": replication.draw,
    "members": members.draw,
    "sessions": sessions.draw,
    "producers": producers.draw,
    "brokers": brokers.draw,
    "racks": racks.draw,
}
# The others are played in the steady world.
WORLD_OF = {"racks": RACKED}


def generated(kind: str, seed: int) -> Sequence:
    """Return the sequence of a kind and seed."""
    topics, actions = KINDS[kind](random.Random(f"{kind} {seed}"))
    world = WORLD_OF.get(kind, STEADY)
    return Sequence(f"random_{kind}.s{seed}", f"drawn from seed {seed}", topics, tuple(actions), world)
