"""Sequences about fetch sessions: several at a time, of several topics, which are deleted and made again meanwhile.

All partitions but one have the same leader, and no followers. Topic ids are remembered from the first description of a
topic, so that a request can name a topic that is gone, or the one before it of the same name.
"""

import random
from typing import Any

from tests.conformance.apis import CREATE_TOPICS, DELETE_TOPICS, FETCH
from tests.conformance.random_sequences.barriers import Barriers
from tests.conformance.random_sequences.data import IDS_FROM, Data
from tests.conformance.random_sequences.drawing import some, usually, version_of, weighted
from tests.conformance.random_sequences.record_batches import Producing
from tests.conformance.requests import create_topics, delete_topics, fetch, metadata, new_topic
from tests.conformance.steps import (
    Action,
    BrokerNumber,
    Pause,
    Receive,
    Saved,
    Target,
    Topic,
    broker,
    exact,
    topic,
)

SESSIONS_FROM = 7
SIZES = {"t": 3, "u": 2, "v": 1}
PARKED_MS, HELD_MS = 2_000, 50


def draw(dice: random.Random) -> tuple[dict[str, Topic], list[Action]]:
    """Return the topics and actions of one sequence."""
    topics = {"t": topic((0,), (0,), (1,)), "u": topic((0,), (0,)), "v": topic((0,))}
    return topics, Sessions(dice).actions(dice.randint(8, 20))


class _Plain(Producing):
    """Batches that nothing is wrong with, of no producer in particular: what is refused, is no matter of sessions."""

    def records(self, topic: Any, partition: int) -> Any:
        batch = self.plain()
        place = (topic, partition)
        self.ends[place] = self.ends.get(place, 0) + len(batch.records)
        return batch


class Sessions(Data):
    """One sequence being drawn."""

    other_version_share = 0.1

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.producing = _Plain(dice, self.even)
        self.barriers = Barriers()
        self.lives = dict.fromkeys(SIZES, 0)
        self.gone: set[str] = set()
        self.parked = 0

    def actions(self, count: int) -> list[Action]:
        """Return `count` drawn steps, behind a first session."""
        steps = {
            self._session: 10, self._produce: 5, self._delete: 2, self._fetch: 1, self._recreate: 1, self._parked: 1,
        }  # fmt: skip
        found = [self._remember(each) for each in SIZES]
        found += [*self._produce(), *self._produce(), *self._open_session()]
        for _ in range(count):
            found += weighted(self.dice, steps)()
        return found

    def _to(self) -> Target:
        return usually(self.dice, broker(0), (broker(1),), 0.03)

    def _here(self) -> Target:
        """Return the broker of the sessions."""
        return broker(0)

    def _reader(self) -> dict[str, Any]:
        """Return what the reader says of itself."""
        return {}

    def _topic(self) -> Any:
        return weighted(self.dice, {"t": 4, "u": 4, "v": 3, exact("nope"): 0.4, exact(""): 0.05})

    def _partition(self, topic: Any) -> int:
        weights = dict.fromkeys(range(SIZES.get(topic, 1) if isinstance(topic, str) else 1), 3.0)
        return weighted(self.dice, {**weights, 9: 0.2, -1: 0.05})

    def _identity(self, version: int, topic: Any) -> Any:
        if version < IDS_FROM or not isinstance(topic, str):
            return super()._identity(version, topic)
        life = usually(self.dice, self.lives[topic], range(self.lives[topic] + 1), 0.15)
        return Saved(f"id {topic} {life}")

    def _remember(self, name: str) -> Action:
        return metadata(12, [name], save={f"id {name} {self.lives[name]}": "topics.0.topic_id"}, quiet=True)

    def _recreate(self) -> list[Action]:
        """Delete a topic, and mostly make it again, or one that was deleted before."""
        dice = self.dice
        name = dice.choice(sorted(self.gone) if self.gone and dice.random() < 0.6 else list(SIZES))
        found: list[Action] = []
        if name not in self.gone:
            found += self.barriers.after(delete_topics(version_of(dice, DELETE_TOPICS), name))
            self.gone.add(name)
            for place in [each for each in self.producing.ends if each[0] == name]:
                del self.producing.ends[place]
            if dice.random() < 0.5:
                return found
        self.gone.discard(name)
        self.lives[name] += 1
        rows = [(index, [BrokerNumber(0)]) for index in range(SIZES[name])]
        row = new_topic(name, assignments=rows, configs={"retention.ms": "-1"})
        return [
            *found,
            *self.barriers.after(create_topics(version_of(dice, CREATE_TOPICS), row)),
            self._remember(name),
        ]

    def _forgotten(self, version: int) -> list[tuple[Any, list[int]]]:
        dice = self.dice

        def one() -> tuple[Any, list[int]]:
            topic = self._topic()
            return self._identity(version, topic), some(dice, lambda: self._partition(topic), 3)

        return some(dice, one, 2)

    def _parked(self) -> list[Action]:
        """A fetch of the newest session waits while something happens to its partitions."""
        if not self.sessions:
            return self._open_session()
        self.parked += 1
        number, version, epoch = session = self.sessions[-1]
        session[2] += 1
        place: dict[str, Any] = {"to": self._here(), "connection": f"parked {self.parked}"}
        rows = self._fetch_rows(version) if self.dice.random() < 0.5 else []
        held = fetch(
            version, rows, session_id=Saved(f"session {number}"), session_epoch=epoch,
            max_wait=PARKED_MS, min_bytes=usually(self.dice, 1, (1_000_000,), 0.3), hold=True, in_order=True,
            **place, **self._reader(),
        )  # fmt: skip
        act = weighted(self.dice, {self._produce: 4.0, self._delete: 2.0, self._recreate: 1.0})
        return [held, Pause(HELD_MS), *act(), Pause(HELD_MS), Receive(**place)]

    def _session(self) -> list[Action]:
        dice = self.dice
        if not self.sessions or dice.random() < 0.08:
            return self._open_session()
        number, version, epoch = session = usually(dice, self.sessions[-1], self.sessions, 0.2)
        if dice.random() < self.other_version_share:
            version = version_of(dice, FETCH, SESSIONS_FROM)
        sent = usually(dice, epoch, (epoch + 1, max(1, epoch - 1), 0, 0, -1, -2), 0.12)
        if sent == epoch:
            session[2] += 1
        rows = self._fetch_rows(version, 3) if dice.random() < 0.45 else []
        more = self._fetch_options()
        if dice.random() < 0.25:
            more["forget"] = self._forgotten(version)
        if sent == 0:
            more["save"] = {f"session {number}": "session_id"}
            session[2] = 1
        return [fetch(version, rows, session_id=Saved(f"session {number}"), session_epoch=sent, **more)]
