"""Seeds in which every new partition arrives in a slice of its own, while time passes and faults strike."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from syncline.node.hosting import arrivals, image_application
from syncline.virtual.simulation import RunSettings, run_seed

pytestmark = [pytest.mark.virtual, pytest.mark.interpreted]

SEEDS = 12
PAUSES_S = (0, 0.001, 0.05, 0.3, 1.0)
# Seeds that once failed, and what they found.
FAILED_ONCE = {60: "a follower that had to cut never got the watermark of a partition without new records"}


class Slowly:
    """A loop whose turns are some time apart."""

    def __init__(self, loop: asyncio.AbstractEventLoop, dice: random.Random) -> None:
        self.loop = loop
        self.dice = dice

    def call_soon(self, callback: Callable[[], None]) -> object:
        """Call back after a pause."""
        return self.loop.call_later(self.dice.choice(PAUSES_S), callback)


@pytest.mark.parametrize("seed", [*range(SEEDS), *FAILED_ONCE])
def test_nothing_is_lost_while_partitions_arrive(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker acts on an image of which it does not host everything yet: every check of the room holds."""
    dice = random.Random(seed)
    begin = arrivals.ArrivingPartitions.__init__
    slices = []

    def begin_slowly(self: Any, loop: asyncio.AbstractEventLoop, *arguments: Any, **named: Any) -> None:
        begin(self, Slowly(loop, dice), *arguments, **named)  # type: ignore[arg-type]
        on_hosted = self._on_hosted
        self._on_hosted = lambda: (slices.append(1), on_hosted())

    monkeypatch.setattr(image_application, "PARTITIONS_PER_SLICE", 0)
    monkeypatch.setattr(arrivals, "PARTITIONS_PER_SLICE", 1)
    monkeypatch.setattr(arrivals.ArrivingPartitions, "__init__", begin_slowly)

    result = run_seed(seed, RunSettings(seconds=40))

    assert result.failures == []
    assert len(slices) > 3
