"""Produce (key 0), versions 3-11 (0-2 are advertised for old clients and closed, KAFKA-18659).

v3 transactional id (ignored: transactions are not offered), v5 log start offset,
v8 record errors (KIP-467), v10 leader hints (KIP-951).

A batch is validated, stamped and written inside the receive buffer: no record is
decoded (`records.body_check` looks at lengths), no batch is copied. One append per
partition and request.
Ignored: topic compression (`compression.type` other than `producer`).
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Final, Protocol

from syncline.node.producing.operation import ProduceOperation, Topic
from syncline.node.producing.serving import Producing
from syncline.wire.api import ApiKey
from syncline.wire.produce import LongProduce, PartitionRecords, ProduceRequest, parse_produce, parse_produce_in_steps

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps

KEY = ApiKey.PRODUCE
# A request with more partitions is handled in steps: an append takes some 20 microseconds.
PARTITIONS_AT_ONCE: Final = 100


class Host(Protocol):
    """What this handler uses of its broker."""

    @property
    def producing(self) -> Producing:
        """Return what produce requests use."""


def handle(broker: Host, request: "Request") -> "Steps | None":
    """Append the valid batches; answer now, or when acks=all is satisfied."""
    try:
        produce = parse_produce(request.body, request.version, request.position)
    except LongProduce:
        return _handle_long(broker.producing, request)
    topics, partition_count = _last_of_each(produce)
    operation = ProduceOperation(broker.producing, request, produce)
    if partition_count > PARTITIONS_AT_ONCE:
        return operation.append_in_steps(topics)
    operation.append_all(topics)
    return None


def _handle_long(producing: Producing, request: "Request") -> "Steps":
    """Do the same with a request that is too long to be read in one go."""
    produce = yield from parse_produce_in_steps(request.body, request.version, request.position)
    topics = yield from _last_of_many(produce)
    yield from ProduceOperation(producing, request, produce).append_in_steps(topics)


def _last_of_each(produce: ProduceRequest) -> tuple[list[Topic], int]:
    """Return each topic and partition once, of duplicates the last entry; and the number of partitions."""
    if len(produce.topics) == 1 and len(produce.topics[0][1]) == 1:
        return produce.topics, 1
    merging = _last_of_many(produce)
    while True:
        try:
            next(merging)
        except StopIteration as merged:
            topics: list[Topic] = merged.value
            return topics, sum(len(partitions) for _, partitions in topics)


def _last_of_many(produce: ProduceRequest) -> Generator[None, None, list[Topic]]:
    merged: dict[str, dict[int, PartitionRecords]] = {}
    for topic, partitions in produce.topics:
        entries = merged.setdefault(topic, {})
        for entry in partitions:
            entries[entry[0]] = entry
        yield
    topics: list[Topic] = []
    for topic, entries in merged.items():
        if entries:
            topics.append((topic, list(entries.values())))
        yield
    return topics
