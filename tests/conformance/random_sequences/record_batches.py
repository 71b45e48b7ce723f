"""Batches of producers, in sequence and out of it, well formed and not.

Not drawn, since Syncline means to answer otherwise: null records, a wrong maximum timestamp, and compressed batches
whose content is wrong (docs/divergences.md, Produce).
"""

import random
from dataclasses import dataclass, field, replace
from typing import Any

from tests.conformance.batches import GZIP, LZ4, NONE, SNAPPY, T0, ZSTD, Batch, Record, encode
from tests.conformance.random_sequences.drawing import usually, weighted
from tests.conformance.steps import Batches

PRODUCERS = (1_000_000_001, 1_000_000_002)
CODEC_BITS, TRANSACTIONAL = 0x07, 0x10
SEQUENCE_MAX = 2_147_483_647
# With a limit of bytes, Kafka sends a piece of the next batch. With batches of one size, that piece cannot leave
# room for a batch of another partition.
EVEN_BYTES = 200
Rows = list[tuple[Any, list[tuple[int, Any]]]]
TIMES = (T0, T0 + 1, T0 + 5, T0 + 100)
BREAKAGES: tuple[dict[str, Any], ...] = (
    {"bad_checksum": True}, {"magic": 1}, {"magic": 0}, {"magic": 3}, {"count": 0}, {"count": -1}, {"count": 7},
    {"last_offset_delta": 9}, {"last_offset_delta": -1}, {"base_offset": 3}, {"attributes": 0x20}, {"attributes": 0x10},
    {"attributes": 0x08}, {"attributes": 0x80}, {"attributes": 0x40}, {"attributes": 7}, {"length_error": 1},
    {"length_error": -1}, {"length_error": 1000}, {"cut_bytes": 1}, {"cut_bytes": 80}, {"suffix": b"\0"},
    {"suffix": b"\0" * 61}, {"leader_epoch": 5}, {"base_sequence": 4},
    {"producer_id": PRODUCERS[0], "base_sequence": -1}, {"producer_id": PRODUCERS[0], "producer_epoch": -1,
     "base_sequence": 0}, {"producer_epoch": 0}, {"base_timestamp": -2}, {"body": b""}, {"body": b"\x02\0"},
)  # fmt: skip


@dataclass
class Producing:
    """What one sequence has sent to each partition, as far as it was meant to be accepted."""

    dice: random.Random
    even: bool
    sent: dict[tuple[Any, int, int], list[Batch]] = field(default_factory=dict)
    ends: dict[tuple[Any, int], int] = field(default_factory=dict)

    def records(self, topic: Any, partition: int) -> Any:
        """Return what to send to a partition: mostly one batch."""
        kind = weighted(self.dice, {"plain": 4, "sequenced": 4, "broken": 1.5, "two": 0.2, "bytes": 0.2})
        if kind == "bytes":
            return self.dice.choice((b"", b"\0", b"\0" * 61, b"garbage" * 12))
        if kind == "two":
            return Batches((self.plain(), self.plain()))
        batch = self._sequenced(topic, partition) if kind == "sequenced" else self.plain()
        if kind == "broken":
            # What is inside a compressed batch is not looked at.
            return replace(_plainly(batch), **self.dice.choice(BREAKAGES))
        place = (topic, partition)
        self.ends[place] = self.ends.get(place, 0) + len(batch.records)
        return batch

    def answered_each(self, rows: Rows) -> Rows:
        """Return rows of a request of which each is answered by itself.

        Kafka refuses a whole request for one batch of an impossible length or of an unknown codec, and answers a
        partition that it finds twice with the error of one batch though it appends the other.
        """
        for topic, partitions in rows:
            for _, records in partitions:
                if is_odd(records):
                    return [(topic if isinstance(topic, str) else "t", [(0, records)])]
        return rows

    def plain(self) -> Batch:
        """Return a batch of no producer in particular."""
        dice = self.dice
        records = tuple(self._record() for _ in range(dice.randint(1, 3)))
        codec = NONE if self.even else usually(dice, NONE, (GZIP, SNAPPY, LZ4, ZSTD))
        time = usually(dice, dice.choice(TIMES), (-1, 0), 0.1)
        batch = Batch(records=records, codec=codec, base_timestamp=time)
        return _padded(batch) if self.even else batch

    def _record(self) -> Record:
        dice = self.dice
        return Record(
            usually(dice, dice.choice((b"a", b"bb", b"")), (None,), 0.1),
            usually(dice, dice.choice((b"k", b"l")), (None, b""), 0.2),
            timestamp_delta=usually(dice, 0, (0, 1, 5, -1, 50), 0.3),
            headers=usually(dice, (), (((b"h", b"1"), (b"h", None)), ((b"", b""),)), 0.1),
        )

    def _sequenced(self, topic: Any, partition: int) -> Batch:
        """Return the next batch of a producer, one of its last, or one with a number out of order."""
        dice = self.dice
        producer = usually(dice, PRODUCERS[0], PRODUCERS, 0.4)
        sent = self.sent.setdefault((topic, partition, producer), [])
        if sent and dice.random() < 0.25:
            again = dice.choice(sent[-7:])
            if dice.random() < 0.25:
                return replace(again, producer_epoch=min(32_767, again.producer_epoch + dice.choice((-1, 1))))
            return again
        last = sent[-1] if sent else None
        epoch = last.producer_epoch if last else usually(dice, 0, (1, 32_767), 0.3)
        number = _after(last) if last else usually(dice, 0, (1, SEQUENCE_MAX - 1, SEQUENCE_MAX), 0.3)
        kind = weighted(dice, {"next": 6, "gap": 0.5, "back": 0.5, "renewed": 1, "renewed wrongly": 0.4})
        if kind == "gap":
            number = (number + 1) % (SEQUENCE_MAX + 1)
        elif kind == "back":
            number = max(0, number - 1)
        elif kind.startswith("renewed"):
            epoch, number = min(32_767, epoch + 1), 0 if kind == "renewed" else number
        batch = replace(self.plain(), producer_id=producer, producer_epoch=epoch, base_sequence=number)
        sent.append(batch)
        return batch


def is_odd(records: Any) -> bool:
    """Return whether Kafka judges this before it looks at partitions, or may not judge it at all."""
    if not isinstance(records, Batch):
        return True
    form = (records.length_error, records.cut_bytes, records.suffix, records.body)
    is_special = records.attributes is not None and records.attributes & (CODEC_BITS | TRANSACTIONAL)
    return form != (0, 0, b"", None) or records.magic != 2 or bool(is_special) or records.codec == ZSTD


def _plainly(batch: Batch) -> Batch:
    return replace(batch, codec=NONE)


def _after(batch: Batch) -> int:
    return (batch.base_sequence + len(batch.records)) % (SEQUENCE_MAX + 1)


def _padded(batch: Batch) -> Batch:
    """Return the batch with a longer value in its last record, so that it takes EVEN_BYTES."""
    *others, last = batch.records
    missing = EVEN_BYTES - len(encode(batch))
    # A length that takes a second byte leaves one size out; a longer key has it.
    for key in (last.key, (last.key or b"") + b"x"):
        for length in range(max(0, missing - 5), missing + 1):
            value = (last.value or b"") + b"x" * length
            padded = replace(batch, records=(*others, replace(last, key=key, value=value)))
            if len(encode(padded)) == EVEN_BYTES:
                return padded
    raise AssertionError("these records leave no room")
