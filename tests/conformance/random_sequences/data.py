"""Sequences about records: produce, fetch with and without sessions, offsets, epochs, deletion up to an offset.

Every partition has one replica, so nothing depends on how fast a follower is. Fetches do not wait.
"""

import random
from typing import Any

from tests.conformance.apis import (
    DELETE_RECORDS,
    DESCRIBE_LOG_DIRS,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
)
from tests.conformance.batches import T0
from tests.conformance.random_sequences.drawing import some, usually, version_of, weighted
from tests.conformance.random_sequences.record_batches import EVEN_BYTES, PRODUCERS, Producing
from tests.conformance.requests import (
    delete_records,
    describe_log_dirs,
    describe_producers,
    fetch,
    init_producer_id,
    leader_epochs,
    list_offsets,
    metadata,
    produce,
)
from tests.conformance.steps import Action, Name, Pause, Saved, Target, Topic, TopicId, broker, exact, topic

UNKNOWN_ID = "33333333-3333-3333-3333-333333333333"
OTHER_ID = "44444444-4444-4444-4444-444444444444"
IDS_FROM = 13
FAR = 1 << 62
CONFIGS: tuple[dict[str, str], ...] = (
    {}, {}, {"cleanup.policy": "compact"}, {"cleanup.policy": "compact,delete"}, {"max.message.bytes": "120"},
    {"message.timestamp.type": "LogAppendTime"}, {"message.timestamp.after.max.ms": "1000"},
    {"segment.bytes": "1048576"}, {"min.insync.replicas": "2"},
    {"segment.ms": "2"}, {"index.interval.bytes": "0"},
)  # fmt: skip
UNASSIGNED = 7
SPECIAL_TIMES = (-1, -2, -3, -4, -5, -6, -7, -99)
TIMES = (0, 1, T0 - 1, T0, T0 + 1, T0 + 3, T0 + 5, T0 + 100, T0 + 1000, FAR)


def draw(dice: random.Random) -> tuple[dict[str, Topic], list[Action]]:
    """Return the topics and actions of one sequence."""
    topics = {"t": topic((0,), (0,), (1,)), "u": Topic(((0,),), dice.choice(CONFIGS))}
    return topics, Data(dice).actions(dice.randint(8, 18))


class Data:
    """One sequence being drawn."""

    current_epochs: tuple[int, ...] = (0, 0, 1, -2)
    replicas: tuple[Any, ...] = (UNASSIGNED,)
    odd_replicas_share = 0.06

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.even = dice.random() < 0.5
        self.producing = Producing(dice, self.even)
        self.sessions: list[list[int]] = []
        self.session_ids = 0
        self.in_session = False
        self.mute = 0

    def actions(self, count: int) -> list[Action]:
        """Return `count` drawn steps, behind a first one that writes."""
        steps = {
            self._produce: 8, self._fetch: 4, self._session: 4, self._list_offsets: 4, self._epochs: 1.5,
            self._delete: 2, self._producers: 1, self._producer_id: 0.5, self._metadata: 0.3, self._sizes: 0.5,
        }  # fmt: skip
        found = self._produce()
        for _ in range(count):
            found += weighted(self.dice, steps)()
        return found

    def _to(self) -> Target:
        return usually(self.dice, broker(0), (broker(1), broker(2)), 0.06)

    def _topic(self) -> Any:
        return weighted(self.dice, {"t": 6, "u": 3, exact("nope"): 0.3, exact(""): 0.1})

    def _partition(self, topic: Any) -> int:
        weights = {0: 6, 1: 4, 2: 1, 9: 0.3, -1: 0.2} if topic == "t" else {0: 9, 1: 0.3, -1: 0.2}
        return weighted(self.dice, weights)

    def _rows(self, value: Any, most: int = 2) -> list[tuple[Any, list[tuple[int, Any]]]]:
        """Return rows of topics with rows of partitions; `value` draws what belongs to a partition."""

        def one_topic() -> tuple[Any, list[tuple[int, Any]]]:
            topic = self._topic()

            def one_partition() -> tuple[int, Any]:
                partition = self._partition(topic)
                return partition, value(topic, partition)

            return topic, some(self.dice, one_partition, 3, least=usually(self.dice, 1, (0,), 0.05))

        return some(self.dice, one_topic, most, repeat=0.05)

    def _offset(self, topic: Any, partition: int) -> int:
        end = self.producing.ends.get((topic, partition), 0)
        return usually(self.dice, self.dice.randint(0, max(end, 1)), (end, end + 1, 100, -1, -2, FAR), 0.3)

    def _epoch(self) -> int:
        return usually(self.dice, -1, self.current_epochs, 0.25)

    def _produce(self) -> list[Action]:
        dice = self.dice
        version = version_of(dice, PRODUCE)
        rows = self._rows(self.producing.records)
        answered_each = self.producing.answered_each(rows)
        is_odd = answered_each is not rows
        # An odd batch shall be refused for what it is, not for the acks.
        acks = usually(dice, -1, (1, 1) if is_odd else (1, 1, 1, 2, -2, 0), 0.3)
        more: dict[str, Any] = {"acks": acks, "to": self._to(), "timeout": usually(dice, 5000, (0, -1), 0.05)}
        # A transaction that nobody has begun is a matter of its own.
        more["transactional_id"] = None if is_odd else usually(dice, None, ("x",), 0.03)
        if acks == 0:
            # Nothing answers it: it has a connection of its own, and time to arrive before the next request.
            self.mute += 1
            more.update(connection=f"mute {self.mute}", hold=True)
        step = produce(version, answered_each, **more)
        return [step, Pause(100)] if acks == 0 else [step]

    def _fetched(self, topic: Any, partition: int) -> dict[str, Any]:
        dice = self.dice
        row: dict[str, Any] = {"fetch_offset": self._offset(topic, partition)}
        if dice.random() < 0.25:
            row["current_leader_epoch"] = self._epoch()
        if dice.random() < 0.15 and not self.in_session:
            row["last_fetched_epoch"] = dice.choice((-1, 0, 0, 1, 2, -2))
        if self.even and dice.random() < 0.4:
            row["partition_max_bytes"] = dice.choice((0, 1, EVEN_BYTES - 1, EVEN_BYTES, EVEN_BYTES + 1, 400, -1))
        return row

    def _fetch_rows(self, version: int, most: int = 2, *, in_session: bool = True) -> list[tuple[Any, Any]]:
        # After a diverging answer, sessions go on differently on purpose.
        self.in_session = in_session
        return [(self._identity(version, topic), rows) for topic, rows in self._rows(self._fetched, most)]

    def _identity(self, version: int, topic: Any) -> Any:
        if version < IDS_FROM or isinstance(topic, str):
            return topic
        return exact(OTHER_ID if topic == exact("") else UNKNOWN_ID)

    def _fetch_options(self) -> dict[str, Any]:
        dice = self.dice
        more: dict[str, Any] = {
            "to": self._to(),
            "isolation_level": usually(dice, 0, (1,), 0.3),
            "min_bytes": usually(dice, 1, (0, 0, -1, 1_000_000), 0.2),
            "max_wait": usually(dice, 0, (-1,), 0.05),
            "in_order": True,
        }
        if self.even and dice.random() < 0.4:
            more["max_bytes"] = dice.choice((0, 1, EVEN_BYTES, 2 * EVEN_BYTES, 2 * EVEN_BYTES + 1, 500))
        if dice.random() < 0.05:
            more["rack_id"] = "a"
        return more

    def _fetch(self) -> list[Action]:
        version = version_of(self.dice, FETCH)
        more = self._fetch_options()
        if self.dice.random() < self.odd_replicas_share:
            more["replica_id"] = self.dice.choice((*self.replicas, -2, -3))
        if self.dice.random() < 0.1:
            more.update(session_id=usually(self.dice, 0, (123_456,), 0.5), session_epoch=self.dice.choice((-1, 5, -2)))
        return [fetch(version, self._fetch_rows(version, in_session=False), **more)]

    def _session(self) -> list[Action]:
        """Open a session, or go on with one; its epoch is mostly the next one."""
        dice = self.dice
        if not self.sessions or dice.random() < 0.15:
            return self._open_session()
        number, version, epoch = session = usually(dice, self.sessions[-1], self.sessions, 0.2)
        if dice.random() < 0.1:
            version = version_of(dice, FETCH, 7)
        sent = usually(dice, epoch, (epoch + 1, max(1, epoch - 1), 0, -1, -2), 0.15)
        if sent == epoch:
            session[2] += 1
        rows = self._fetch_rows(version) if dice.random() < 0.4 else []
        forget: list[tuple[str, list[int]]] = []
        if dice.random() < 0.2:
            forget = some(dice, lambda: (dice.choice("ttu"), some(dice, lambda: dice.choice((0, 1, 2)), 2)), 2)
        more = self._fetch_options()
        if sent == 0:
            more["save"] = {f"session {number}": "session_id"}
            session[2] = 1
        return [fetch(version, rows, session_id=Saved(f"session {number}"), session_epoch=sent, forget=forget, **more)]

    def _open_session(self) -> list[Action]:
        version = version_of(self.dice, FETCH, 7)
        self.session_ids += 1
        self.sessions.append([self.session_ids, version, 1])
        more = self._fetch_options()
        more["save"] = {f"session {self.session_ids}": "session_id"}
        rows = self._fetch_rows(version, 3) if self.dice.random() < 0.9 else []
        return [fetch(version, rows, session_id=0, session_epoch=0, **more)]

    def _list_offsets(self) -> list[Action]:
        dice = self.dice

        def wanted(topic: Any, partition: int) -> dict[str, Any]:
            row = {"timestamp": dice.choice(SPECIAL_TIMES if dice.random() < 0.6 else TIMES)}
            if dice.random() < 0.2:
                row["current_leader_epoch"] = self._epoch()
            return row

        version = version_of(dice, LIST_OFFSETS)
        more = {"isolation_level": usually(dice, 0, (1, 3), 0.2), "replica_id": self._replica_id()}
        return [list_offsets(version, self._rows(wanted), to=self._to(), **more)]

    def _epochs(self) -> list[Action]:
        dice = self.dice

        def wanted(topic: Any, partition: int) -> dict[str, Any]:
            row = {"leader_epoch": dice.choice((0, 0, 1, 5, -1, -2))}
            if dice.random() < 0.2:
                row["current_leader_epoch"] = self._epoch()
            return row

        version = version_of(dice, OFFSET_FOR_LEADER_EPOCH)
        return [leader_epochs(version, self._rows(wanted), to=self._to(), replica_id=self._replica_id())]

    def _replica_id(self) -> Any:
        return usually(self.dice, -1, (*self.replicas, -2), self.odd_replicas_share)

    def _delete(self) -> list[Action]:
        version = version_of(self.dice, DELETE_RECORDS)
        timeout = usually(self.dice, 5000, (0,), 0.05)
        return [delete_records(version, self._rows(self._offset), to=self._to(), timeout=timeout)]

    def _producers(self) -> list[Action]:
        rows = [(topic, [index for index, _ in pairs]) for topic, pairs in self._rows(lambda *_: None)]
        return [describe_producers(0, rows, to=self._to())]

    def _producer_id(self) -> list[Action]:
        dice = self.dice
        version = version_of(dice, INIT_PRODUCER_ID)
        more: dict[str, Any] = {"timeout": usually(dice, 60_000, (0, -1, 900_001), 0.3)}
        if dice.random() < 0.4:
            more.update(producer_id=dice.choice((PRODUCERS[0], -1, 0)), producer_epoch=dice.choice((-1, 0, 1, 32_767)))
        return [init_producer_id(version, **more)]

    def _metadata(self) -> list[Action]:
        # Older versions create what they name.
        version = version_of(self.dice, METADATA, 4)
        names = some(self.dice, lambda: self.dice.choice(["t", "u", Name("nope")]), 3, least=0)
        if version >= 12 and self.dice.random() < 0.3:
            names = [TopicId("t"), *names]
        return [metadata(version, names, to=self._to())]

    def _sizes(self) -> list[Action]:
        rows = [(topic, [index for index, _ in pairs]) for topic, pairs in self._rows(lambda *_: None)]
        return [describe_log_dirs(version_of(self.dice, DESCRIBE_LOG_DIRS), rows, to=self._to())]
