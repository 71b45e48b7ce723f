"""Sequences about consumers that say in which rack they are, at leaders and at followers, in sessions and without.

Each broker has a rack of its own. A sequence has one reader, and so one rack, and a session one version: where they
change within a session, Syncline means to answer otherwise (docs/divergences.md, Fetch).
"""

import random
from typing import Any

from tests.conformance.random_sequences.barriers import BROKERS
from tests.conformance.random_sequences.drawing import usually, weighted
from tests.conformance.random_sequences.replication import SETTLED_MS
from tests.conformance.random_sequences.sessions import SIZES, Sessions
from tests.conformance.steps import Action, Pause, Target, Topic, broker, topic

RACKS = ("a", "b", "c", "z", "")


def draw(dice: random.Random) -> tuple[dict[str, Topic], list[Action]]:
    """Return the topics and actions of one sequence."""
    topics = {"t": topic((0, 1), (1, 2), (2, 0)), "u": topic((0, 2), (1, 0)), "v": topic((0, 1, 2))}
    return topics, _Racks(dice).actions(dice.randint(6, 12))


class _Racks(Sessions):
    """One sequence being drawn."""

    other_version_share = 0.0

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.rack = dice.choice(RACKS)
        self.home = dice.choice((0, 0, 1, 2))

    def actions(self, count: int) -> list[Action]:
        writes = {self._produce: 4.0, self._delete: 1.0, self._recreate: 0.3}
        reads = {self._session: 7.0, self._fetch: 3.0, self._parked: 1.0, self._list_offsets: 0.5}
        found = [*(self._remember(each) for each in SIZES), *self._produce(), *self._produce()]
        is_settled = False
        for _ in range(count):
            step = weighted(self.dice, {**writes, **reads})
            if step in reads and not is_settled:
                found.append(Pause(SETTLED_MS))
            is_settled = step in reads and step != self._parked
            found += step()
        return found

    def _to(self) -> Target:
        return broker(usually(self.dice, self.home, range(BROKERS), 0.3))

    def _fetch_options(self) -> dict[str, Any]:
        # A session lives at one broker.
        to = broker(usually(self.dice, self.home, range(BROKERS), 0.03))
        return {**super()._fetch_options(), **self._reader(), "to": to}

    def _reader(self) -> dict[str, Any]:
        return {"rack_id": self.rack}

    def _here(self) -> Target:
        return broker(self.home)
