"""Idempotent producers: ids, duplicates, gaps, epochs, wrap-around."""

from typing import Any

from tests.conformance.apis import INIT_PRODUCER_ID, every
from tests.conformance.batches import Batch, batch
from tests.conformance.requests import delete_records, fetch, init_producer_id, produce
from tests.conformance.steps import Action, Batches, Saved, broker, sequence, topic

PID = Saved("pid")
LAST_SEQUENCE = 2_147_483_647


def _begin() -> Action:
    return init_producer_id(1, save={"pid": "producer_id"})


def _numbered(sequence_number: int, *values: str, epoch: int = 0, pid: Any = PID) -> Batch:
    return batch(*(values or ("a",)), producer_id=pid, producer_epoch=epoch, base_sequence=sequence_number)


def _send(sequence_number: int, *values: str, epoch: int = 0, pid: Any = PID, version: int = 9, **more: Any) -> Action:
    return produce(version, {"t": {0: _numbered(sequence_number, *values, epoch=epoch, pid=pid)}}, **more)


@sequence(*every(INIT_PRODUCER_ID))
def new_ids(version: int) -> list[Action]:
    """Every request gets a new id with epoch 0, whatever the timeout."""
    return [
        init_producer_id(version),
        init_producer_id(version),
        *(init_producer_id(version, timeout=each) for each in (0, -1, 900_001)),
    ]


@sequence(3, 5)
def given_ids(version: int) -> list[Action]:
    """Ids and epochs of a plain producer are ignored; one without the other is 42."""
    return [
        init_producer_id(version, producer_id=5, producer_epoch=0),
        init_producer_id(version, producer_id=5, producer_epoch=3),
        init_producer_id(version, producer_id=5, producer_epoch=-1),
        init_producer_id(version, producer_id=-1, producer_epoch=3),
    ]


@sequence(5)
def ids_of_every_broker(version: int) -> list[Action]:
    """Every broker hands out ids of its own."""
    return [init_producer_id(version, to=broker(rank)) for rank in range(3)]


@sequence(3, 9, 11, t=topic((0,)))
def in_order(version: int) -> list[Action]:
    """Sequences in order are appended."""
    return [_begin(), *(_send(number, version=version) for number in range(3)), fetch(12, {"t": {0: 0}})]


@sequence(3, 9, 11, t=topic((0,)))
def duplicate(version: int) -> list[Action]:
    """A resent batch is answered with its first offset and stored once."""
    return [
        _begin(),
        _send(0, "a", "b", version=version),
        _send(2, "c", version=version),
        _send(0, "a", "b", version=version),
        _send(2, "c", version=version),
        fetch(12, {"t": {0: 0}}),
    ]


@sequence(9, t=topic((0,)))
def five_remembered(_: int) -> list[Action]:
    """The last five batches are known; an older one is 45."""
    return [_begin(), *(_send(number) for number in range(6)), *(_send(number) for number in (5, 1, 0))]


@sequence(3, 9, 11, t=topic((0,)))
def gap(version: int) -> list[Action]:
    """A sequence that skips is 45; the right one goes on."""
    return [
        _begin(),
        _send(0, version=version),
        _send(2, version=version),
        _send(7, version=version),
        _send(1, version=version),
    ]


@sequence(9, t=topic((0,)))
def overlapping(_: int) -> list[Action]:
    """A batch that begins inside a known one, or has another length, is 45."""
    return [_begin(), _send(0, "a", "b", "c"), _send(1, "b"), _send(0, "a"), _send(0, "a", "b", "c", "d"), _send(3)]


@sequence(9, t=topic((0,)))
def first_sequence_of_unknown_producer(_: int) -> list[Action]:
    """An unknown producer may begin at any sequence."""
    pid = 9_000_000_007
    return [_send(7, pid=pid), _send(8, pid=pid), _send(7, pid=pid), _send(10, pid=pid)]


@sequence(3, 9, 11, t=topic((0,)))
def epochs(version: int) -> list[Action]:
    """A new epoch begins at 0; the old one is 47 from then on."""
    return [
        _begin(),
        _send(0, version=version),
        _send(1, epoch=1, version=version),
        _send(0, epoch=1, version=version),
        _send(1, version=version),
        _send(0, version=version),
        _send(1, epoch=1, version=version),
    ]


@sequence(9, t=topic((0,)))
def wrap(_: int) -> list[Action]:
    """Sequences go on from the largest number at 0, also inside a batch."""
    pid = 9_000_000_009
    return [
        _send(LAST_SEQUENCE - 1, "a", "b", pid=pid),
        _send(0, pid=pid),
        _send(LAST_SEQUENCE - 1, "a", "b", pid=pid),
    ]


@sequence(9, t=topic((0,)))
def wrap_inside_a_batch(_: int) -> list[Action]:
    """A batch may contain the wrap."""
    pid = 9_000_000_010
    return [
        _send(LAST_SEQUENCE - 2, pid=pid),
        _send(LAST_SEQUENCE - 1, pid=pid),
        _send(LAST_SEQUENCE, "a", "b", pid=pid),
        _send(1, pid=pid),
        _send(LAST_SEQUENCE, "a", "b", pid=pid),
        _send(3, pid=pid),
    ]


@sequence(9, t=topic((0,)))
def acks_one(_: int) -> list[Action]:
    """Idempotence does not need acks=all."""
    return [_begin(), _send(0, acks=1), _send(0, acks=1), _send(2, acks=1)]


@sequence(9, t=topic((0,)))
def two_batches(_: int) -> list[Action]:
    """Two batches in one request are refused whole."""
    return [_begin(), produce(9, {"t": {0: Batches((_numbered(0), _numbered(1)))}}), _send(0)]


@sequence(9, t=topic((0,), (0,)))
def partitions_are_independent(_: int) -> list[Action]:
    """Each partition has its own sequences."""
    return [_begin(), _send(0), produce(9, {"t": {1: _numbered(0)}}), produce(9, {"t": {1: _numbered(5)}}), _send(1)]


@sequence(9, t=topic((0,)))
def after_delete_records(_: int) -> list[Action]:
    """Deleting all records does not forget the producer."""
    return [_begin(), _send(0), _send(1), delete_records(2, {"t": {0: -1}}), _send(5), _send(1), _send(2)]


@sequence(9, t=topic((0,)))
def two_producers(_: int) -> list[Action]:
    """Producers do not disturb each other, and plain batches disturb none of them."""
    return [
        _begin(),
        init_producer_id(1, save={"second": "producer_id"}),
        _send(0),
        _send(0, pid=Saved("second")),
        produce(9, {"t": {0: batch("plain")}}),
        _send(1),
        _send(1, pid=Saved("second")),
        _send(0),
        fetch(12, {"t": {0: 0}}),
    ]


@sequence(9, t=topic((0, 1, 2)))
def replicated(_: int) -> list[Action]:
    """A duplicate is acknowledged like the first on a replicated partition."""
    return [_begin(), _send(0, timeout=10_000), _send(0, timeout=10_000), _send(2), _send(1)]


@sequence(5)
def transactional_refusals(version: int) -> list[Action]:
    """An empty transactional id is 42."""
    return [init_producer_id(version, transactional_id="")]
