"""The encoding of metadata changes: one line of JSON per batch.

A change is an array: a tag, then the fields in order. The controller's store and
the stream of changes to brokers use the same text, so that it is encoded once.
A reader refuses an unknown tag: skipping it would make images differ. A record that was written before it had all of
its fields has the defaults of the others.

Partitions are an array of records. Many of them that share most are written as the records that differ in more than the
number, the numbers, and which record each has: ten thousand new partitions of three brokers have six records, 70 kB
instead of 490, and take a fifth of the time.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, assert_never
from uuid import UUID

from syncline.model.ids import BrokerId
from syncline.model.metadata import (
    BrokerChanged,
    BrokerRecord,
    BrokerRemoved,
    Change,
    ClusterCreated,
    ConfigResource,
    ConfigsChanged,
    ControllerChanged,
    MoveChanged,
    MoveRecord,
    MoveRemoved,
    PartitionRecord,
    PartitionsChanged,
    ProducerIdsAllocated,
    Recovery,
    ResourceType,
    TopicCreated,
    TopicDeleted,
)

_CLUSTER: Final = "cluster"
_CONTROLLER: Final = "controller"
_BROKER: Final = "broker"
_BROKER_REMOVED: Final = "broker-"
_TOPIC: Final = "topic"
_MANY_IN_TOPIC: Final = "topic+"
_PARTITIONS: Final = "partitions"
_MANY_PARTITIONS: Final = "partitions+"
_TOPIC_DELETED: Final = "topic-"
_CONFIGS: Final = "configs"
_PRODUCER_IDS: Final = "producer-ids"
_MOVE: Final = "move"
_MOVE_REMOVED: Final = "move-"

# So many partitions are many: fewer are written record by record, which a reader of the store understands at a glance.
MANY: Final = 500
# And if there are so many per record that differs: otherwise the short form is the longer one.
DISTINCT_SHARE: Final = 4

_encoder: Final = json.JSONEncoder(ensure_ascii=True, check_circular=False, separators=(",", ":"))


def encode_changes(changes: Iterable[Change]) -> str:
    """Return the changes as one line of JSON: an array of arrays."""
    return _encoder.encode([_as_row(change) for change in changes])


def decode_changes(text: str | bytes) -> tuple[Change, ...]:
    """Return the changes that `encode_changes` wrote."""
    return changes_from_rows(json.loads(text))


def changes_from_rows(rows: Iterable[Any]) -> tuple[Change, ...]:
    """Return the changes of rows that JSON has already parsed."""
    return tuple(_from_row(row) for row in rows)


def _as_row(change: Change) -> tuple[object, ...]:
    match change:
        case PartitionsChanged(topic_id, partitions):
            shared = _shared_rows(partitions)
            if shared is None:
                return (_PARTITIONS, topic_id.hex, partitions)
            return (_MANY_PARTITIONS, topic_id.hex, *shared)
        case BrokerChanged(record):
            return (_BROKER, record)
        case TopicCreated(name, topic_id, partitions):
            shared = _shared_rows(partitions)
            if shared is None:
                return (_TOPIC, name, topic_id.hex, partitions)
            return (_MANY_IN_TOPIC, name, topic_id.hex, *shared)
        case TopicDeleted(topic_id):
            return (_TOPIC_DELETED, topic_id.hex)
        case ConfigsChanged(resource, values):
            return (_CONFIGS, int(resource.kind), resource.name, dict(values))
        case ProducerIdsAllocated(next_producer_id):
            return (_PRODUCER_IDS, next_producer_id)
        case ControllerChanged(broker_id, controller_epoch):
            return (_CONTROLLER, broker_id, controller_epoch)
        case BrokerRemoved(broker_id):
            return (_BROKER_REMOVED, broker_id)
        case ClusterCreated(cluster_id):
            return (_CLUSTER, cluster_id)
        case MoveChanged(move):
            return (_MOVE, move)
        case MoveRemoved(move_id):
            return (_MOVE_REMOVED, move_id)
        case _:
            assert_never(change)


def _from_row(row: Any) -> Change:
    match row[0]:
        case "partitions":
            return PartitionsChanged(UUID(row[1]), _partitions_from_rows(row[2]))
        case "partitions+":
            return PartitionsChanged(UUID(row[1]), _partitions_from_shared(*row[2:]))
        case "broker":
            record = BrokerRecord(*row[1])
            return BrokerChanged(record._replace(failed=tuple(record.failed), impaired=tuple(record.impaired)))
        case "topic":
            return TopicCreated(row[1], UUID(row[2]), _partitions_from_rows(row[3]))
        case "topic+":
            return TopicCreated(row[1], UUID(row[2]), _partitions_from_shared(*row[3:]))
        case "topic-":
            return TopicDeleted(UUID(row[1]))
        case "configs":
            return ConfigsChanged(ConfigResource(ResourceType(row[1]), row[2]), row[3])
        case "producer-ids":
            return ProducerIdsAllocated(row[1])
        case "controller":
            return ControllerChanged(row[1], row[2])
        case "broker-":
            return BrokerRemoved(row[1])
        case "cluster":
            return ClusterCreated(row[1])
        case "move":
            return MoveChanged(MoveRecord(*row[1]))
        case "move-":
            return MoveRemoved(row[1])
        case tag:
            raise ValueError(f"unknown change {tag!r}: the metadata was written by a newer version")


def _partitions_from_rows(rows: Iterable[Any]) -> tuple[PartitionRecord, ...]:
    # Most partitions of a batch share their replica lists: one tuple serves them all.
    shared: dict[tuple[BrokerId, ...], tuple[BrokerId, ...]] = {}
    share = shared.setdefault
    records = []
    for row in rows:
        replicas, isr, elr, last_known_elr, adding, removing = [
            share(ids, ids) if ids else () for ids in map(tuple, row[4:10])
        ]
        original = tuple(row[11]) if len(row) > 11 else ()
        records.append(
            PartitionRecord(
                row[0],
                row[1],
                row[2],
                row[3],
                replicas,
                isr,
                elr,
                last_known_elr,
                adding,
                removing,
                Recovery.RECOVERING if row[10] else Recovery.RECOVERED,
                share(original, original),
                row[12] if len(row) > 12 else "",
            )
        )
    return tuple(records)


def _shared_rows(partitions: Sequence[PartitionRecord]) -> tuple[list[PartitionRecord], list[int], list[int]] | None:
    """Return records that differ in more than their number, the numbers of all, and which of the records each has.

    None if they are few, or share little.
    """
    if len(partitions) < MANY:
        return None
    distinct_max = len(partitions) // DISTINCT_SHARE
    numbers: list[int] = []
    which: list[int] = []
    places: dict[tuple[object, ...], int] = {}
    records: list[PartitionRecord] = []
    for record in partitions:
        numbers.append(record.partition)
        place = places.setdefault(record[1:], len(records))
        if place == len(records):
            if place == distinct_max:
                return None
            records.append(record)
        which.append(place)
    return records, numbers, which


def _partitions_from_shared(rows: Iterable[Any], numbers: list[int], which: list[int]) -> tuple[PartitionRecord, ...]:
    assert len(numbers) == len(which), f"{len(which)} records for {len(numbers)} partitions"
    shared = [record[1:] for record in _partitions_from_rows(rows)]
    make = PartitionRecord._make
    return tuple([make((number, *shared[place])) for number, place in zip(numbers, which, strict=True)])
