"""Draws from small domains, the usual value more often than the odd ones."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tests.conformance.apis import every

Drawn = TypeVar("Drawn")


def usually(dice: random.Random, usual: Drawn, odd: Sequence[Drawn], share: float = 0.2) -> Drawn:
    """Return `usual`, or with probability `share` one of `odd`."""
    return dice.choice(odd) if dice.random() < share else usual


def weighted(dice: random.Random, weights: Mapping[Drawn, float]) -> Drawn:
    """Return a key of `weights`, by its weight."""
    return dice.choices(list(weights), list(weights.values()))[0]


def some(dice: random.Random, draw: Callable[[], Drawn], most: int, least: int = 1, repeat: float = 0.1) -> list[Drawn]:
    """Return `least` to `most` draws; with probability `repeat` one of them stands there twice."""
    drawn = [draw() for _ in range(dice.randint(least, most))]
    if drawn and dice.random() < repeat:
        drawn.insert(dice.randrange(len(drawn) + 1), dice.choice(drawn))
    return drawn


def version_of(dice: random.Random, key: int, least: int = 0) -> int:
    """Return a version of this API that both advertise."""
    return dice.choice([version for version in every(key) if version >= least])
