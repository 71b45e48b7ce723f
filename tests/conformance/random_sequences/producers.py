"""Sequences about producers: long runs of numbered batches, several in flight, and the limits of topics.

Ids come from InitProducerId, or are made up. A producer mostly goes on, so that its batches get older than the five
that a log remembers; numbers often begin just below the largest one. Topics have limits of size and of time, which
change.
"""

import random
from dataclasses import replace
from typing import Any

from tests.conformance.apis import INCREMENTAL_ALTER_CONFIGS, INIT_PRODUCER_ID, PRODUCE
from tests.conformance.batches import GZIP, LZ4, NONE, SNAPPY, T0, ZSTD, Batch, Now, Record, sized
from tests.conformance.random_sequences.barriers import Barriers
from tests.conformance.random_sequences.data import Data
from tests.conformance.random_sequences.drawing import some, usually, version_of, weighted
from tests.conformance.random_sequences.record_batches import BREAKAGES, SEQUENCE_MAX
from tests.conformance.requests import SET, TOPIC_RESOURCE, change_configs, init_producer_id, produce
from tests.conformance.steps import Action, Batches, Receive, Saved, Target, Topic, broker, exact

MADE_UP = (1_000_000_001, 1_000_000_002)
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
EPOCH_MAX = 32_767
IN_FLIGHT_MAX = 6
CONFIGS: tuple[dict[str, str], ...] = (
    {}, {"max.message.bytes": "150"}, {"max.message.bytes": "0"}, {"message.timestamp.type": "LogAppendTime"},
    {"message.timestamp.after.max.ms": str(HOUR_MS)}, {"message.timestamp.before.max.ms": str(HOUR_MS)},
    {"message.timestamp.before.max.ms": "300000"}, {"message.timestamp.after.max.ms": "300000"},
    {"message.timestamp.before.max.ms": str(HOUR_MS), "message.timestamp.type": "LogAppendTime"},
    {"min.insync.replicas": "2"}, {"min.insync.replicas": "3"}, {"cleanup.policy": "compact"},
    {"cleanup.policy": "compact,delete", "message.timestamp.type": "LogAppendTime"},
    {"segment.bytes": "1048576", "max.message.bytes": "3000000"}, {"compression.type": "gzip"},
    {"compression.type": "uncompressed"}, {"compression.type": "zstd"},
)  # fmt: skip
CHANGES = (
    ("max.message.bytes", ("0", "100", "120", "150", "1048588")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime")),
    ("message.timestamp.after.max.ms", ("300000", str(HOUR_MS), "9223372036854775807")),
    ("message.timestamp.before.max.ms", ("300000", str(HOUR_MS), "9223372036854775807")),
    ("min.insync.replicas", ("1", "2", "3")),
    ("cleanup.policy", ("delete", "compact", "compact,delete", "")),
)
# Times within half a day, with their deltas, are "now" to the comparison.
TIMES = (
    T0, T0 + 5, -1, 0, -2, Now(), Now(-10 * MINUTE_MS), Now(-70 * MINUTE_MS), Now(50 * MINUTE_MS),
    Now(70 * MINUTE_MS), Now(-9 * HOUR_MS), Now(9 * HOUR_MS), 1 << 62,
)  # fmt: skip
SEGMENT_BYTES, FRAME_BYTES = 1_048_576, 4_194_304


def draw(dice: random.Random) -> tuple[dict[str, Topic], list[Action]]:
    """Return the topics and actions of one sequence."""
    configs = dice.choice(CONFIGS)
    # Kafka begins a segment by the time of a batch before it refuses that batch for its number, and no answer goes
    # beyond a segment.
    never = {"segment.ms": "9223372036854775807"}
    topics = {"t": Topic(((0,), (0,), (1,)), never), "u": Topic(((0,),), {**never, **configs})}
    return topics, _Producers(dice, configs).actions(dice.randint(8, 20))


class _Producers(Data):
    """One sequence being drawn."""

    def __init__(self, dice: random.Random, configs: dict[str, str]) -> None:
        super().__init__(dice)
        self.even = False
        self.configs = dict(configs)
        self.barriers = Barriers()
        self.ids = 0
        self.sent: dict[tuple[Any, int, Any], list[Batch]] = {}
        self.is_numbered = dice.random() < 0.6

    def actions(self, count: int) -> list[Action]:
        steps = {
            self._produce: 12, self._in_flight: 2, self._producers: 2, self._list_offsets: 1, self._delete: 1.2,
            self._new_id: 0.5, self._fetch: 2, self._change: 1,
        }  # fmt: skip
        found = [*self._new_id(), *self._new_id()]
        for _ in range(count):
            found += weighted(self.dice, steps)()
        return found

    def _to(self) -> Target:
        return usually(self.dice, broker(0), (broker(1),), 0.03)

    def _topic(self) -> Any:
        return weighted(self.dice, {"t": 5, "u": 6, exact("nope"): 0.2})

    def _partition(self, topic: Any) -> int:
        return weighted(self.dice, {0: 6, 1: 2, 2: 0.3, -1: 0.05} if topic == "t" else {0: 9, 9: 0.1})

    def _fetch(self) -> list[Action]:
        if "compression.type" in self.configs:
            # What Kafka stores is another batch.
            return []
        return super()._fetch()

    def _new_id(self) -> list[Action]:
        self.ids += 1
        return [init_producer_id(version_of(self.dice, INIT_PRODUCER_ID), save={f"id {self.ids}": "producer_id"})]

    def _change(self) -> list[Action]:
        dice = self.dice

        def one() -> tuple[str, int, str]:
            key, values = dice.choice(CHANGES)
            return key, SET, dice.choice(values)

        changes = list({each[0]: each for each in some(dice, one, 2)}.values())
        self.configs |= {key: value for key, _, value in changes}
        return self.barriers.after(
            change_configs(version_of(dice, INCREMENTAL_ALTER_CONFIGS), (TOPIC_RESOURCE, "u", changes))
        )

    def _produce(self) -> list[Action]:
        dice = self.dice
        place = (self._topic(), 0)
        place = (place[0], self._partition(place[0]))
        kind = weighted(dice, {"one": 6, "several": 2, "odd": 0.7, "large": 0.4})
        version = version_of(dice, PRODUCE)
        if kind in {"odd", "large"} and not (place[0] == "u" and "compression.type" in self.configs):
            # Kafka refuses a whole request for some of these, and others where it compresses them anew.
            name = place[0] if isinstance(place[0], str) else "t"
            return [produce(version, {name: {0: self._odd(kind, version)}}, to=self._to())]
        places = [place]
        if kind == "several":
            places += [("u", 0), ("t", 0), ("t", 1)][: dice.randint(1, 3)]
        rows: dict[Any, dict[int, Any]] = {}
        for topic, partition in dict.fromkeys(places):
            rows.setdefault(topic, {})[partition] = self._batch(topic, partition, version)
        acks = usually(dice, -1, (1, 1, 2), 0.2)
        return [produce(version, rows, acks=acks, to=self._to(), timeout=usually(dice, 5000, (0, -1), 0.1))]

    def _odd(self, kind: str, version: int) -> Any:
        dice = self.dice
        if kind == "large":
            size = dice.choice((SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 1_048_588, 1_048_589, 2_000_000))
            return sized(size)
        if dice.random() < 0.3:
            return Batches((self._batch("t", 0, version), self._batch("t", 0, version)))
        return replace(self._plain(NONE), **dice.choice(BREAKAGES))

    def _in_flight(self) -> list[Action]:
        """Several requests are sent before the first answer is taken."""
        place: dict[str, Any] = {"to": broker(0), "connection": "pipelined"}
        count = self.dice.randint(2, IN_FLIGHT_MAX)
        topic, partition = self.dice.choice((("t", 0), ("t", 1), ("u", 0)))
        version = version_of(self.dice, PRODUCE)
        sent = [
            produce(version, {topic: {partition: self._batch(topic, partition, version)}}, hold=True, **place)
            for _ in range(count)
        ]
        return [*sent, *(Receive(**place) for _ in range(count))]

    def _batch(self, topic: Any, partition: int, version: int) -> Batch:
        codec = NONE
        if not self._is_timed():
            codec = usually(self.dice, NONE, (GZIP, SNAPPY, LZ4, *((ZSTD,) if version >= 7 else ())))
        batch = self._plain(codec)
        if self.dice.random() < (0.85 if self.is_numbered else 0.4):
            return self._numbered(batch, topic, partition)
        return batch

    def _is_timed(self) -> bool:
        """Return whether old records may be refused: of compressed ones, Syncline looks at the first only."""
        return "message.timestamp.before.max.ms" in self.configs

    def _plain(self, codec: int) -> Batch:
        dice = self.dice
        count = usually(dice, dice.randint(1, 3), (8, 9, 40), 0.1)
        # Kafka compresses anew for some topics, and fails at negative times.
        odd_share = 0 if "compression.type" in self.configs else 0.8 if self.is_timed_topic() else 0.25
        time = usually(dice, T0, TIMES, odd_share)
        # Of a record without a key and another with a wrong time, Syncline names the first.
        keyless = dice.random() < 0.15 and time == T0 and not self.is_timed_topic()

        def record() -> Record:
            return Record(
                dice.choice((b"a", b"bb", b"", None)),
                None if keyless and dice.random() < 0.5 else dice.choice((b"k", b"")),
                timestamp_delta=usually(dice, 0, (1, -1, 50, -2 * HOUR_MS, 2 * HOUR_MS), 0.15),
            )

        records = tuple(record() for _ in range(count))
        changes: dict[str, Any] = {"attributes": codec | 0x08} if dice.random() < 0.04 else {}
        return Batch(records=records, codec=codec, base_timestamp=time, **changes)

    def is_timed_topic(self) -> bool:
        """Return whether the topic has a rule for times."""
        return any(key.startswith("message.timestamp") for key in self.configs)

    def _numbered(self, plain: Batch, topic: Any, partition: int) -> Batch:
        """Return the next batch of a producer, one of its last, or one with a number out of order."""
        dice = self.dice
        producer = weighted(dice, {Saved("id 1"): 4, Saved("id 2"): 1, MADE_UP[0]: 2, MADE_UP[1]: 0.5})
        sent = self.sent.setdefault((topic, partition, producer), [])
        if sent and dice.random() < 0.22:
            again = dice.choice(sent[-8:])
            kind = weighted(dice, {"same": 6, "epoch": 1, "longer": 0.6, "shorter": 0.6, "later": 0.6})
            if kind == "epoch":
                return replace(
                    again, producer_epoch=min(EPOCH_MAX, max(0, again.producer_epoch + dice.choice((-1, 1))))
                )
            if kind == "longer":
                return replace(again, records=(*again.records, again.records[0]))
            if kind == "shorter" and len(again.records) > 1:
                return replace(again, records=again.records[1:])
            if kind == "later":
                return replace(again, base_sequence=_plus(again.base_sequence, 1))
            return again
        last = sent[-1] if sent else None
        epoch = last.producer_epoch if last else usually(dice, 0, (1, EPOCH_MAX - 1, EPOCH_MAX), 0.2)
        odd = (1, SEQUENCE_MAX - 4, SEQUENCE_MAX - 1, SEQUENCE_MAX)
        number = _plus(last.base_sequence, len(last.records)) if last else usually(dice, 0, odd, 0.5)
        kind = weighted(dice, {"next": 12, "gap": 0.6, "back": 0.6, "zero": 0.4, "renewed": 0.8, "renewed wrongly": 0.3,
                               "older": 0.3, "last": 0.1})  # fmt: skip
        if kind == "gap":
            number = _plus(number, 1)
        elif kind == "back":
            number = max(0, number - 1)
        elif kind == "zero":
            number = 0
        elif kind.startswith("renewed"):
            epoch, number = min(EPOCH_MAX, epoch + 1), 0 if kind == "renewed" else number
        elif kind == "older":
            epoch = max(0, epoch - 1)
        elif kind == "last":
            epoch, number = EPOCH_MAX, 0
        batch = replace(plain, producer_id=producer, producer_epoch=epoch, base_sequence=number)
        if kind in {"next", "renewed"}:
            sent.append(batch)
        return batch


def _plus(number: int, count: int) -> int:
    return (number + count) % (SEQUENCE_MAX + 1)
