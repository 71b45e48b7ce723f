"""Writing record batches: the request Produce 8, which every broker from Apache Kafka 2.8 to 4.x serves, by hand.

One batch a partition and request, and the next one when it is acknowledged by all in-sync replicas (acks=all): so the
order of a partition survives all retries, and an idempotent producer never leaves a gap.

Units: sizes are bytes; offsets count records.
Source: the Kafka protocol guide; KIP-98 (idempotent and transactional producers), KIP-467.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.pipeline.client.cluster import Cluster
from syncline.pipeline.client.messages import Api
from syncline.pipeline.client.refusals import RetriableError, is_fine, name_of
from syncline.pipeline.client.settings import Address
from syncline.pipeline.errors import BrokerError

PRODUCE: Final = Api(0, 8, is_flexible=False)
_ACKS_ALL: Final = -1
_FENCED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)


class FencedError(BrokerError):
    """Another attempt at the same work has begun since; this one must write no more."""


class OutOfOrderError(BrokerError):
    """The partition holds other records of this producer than expected: another attempt is writing, or has written."""


def request(batches: Mapping[TopicPartition, bytes], *, transactional_id: str | None, timeout_ms: int) -> bytes:
    """Return the question to one broker to append a batch to each of these partitions."""
    parts = [_nullable(transactional_id), struct.pack(">hi", _ACKS_ALL, timeout_ms)]
    by_topic = {topic: list(places) for topic, places in groupby(sorted(batches), key=lambda place: place.topic)}
    parts.append(struct.pack(">i", len(by_topic)))
    for topic, places in by_topic.items():
        parts += (_nullable(topic), struct.pack(">i", len(places)))
        for place in places:
            parts += (struct.pack(">ii", place.partition, len(batches[place])), batches[place])
    return b"".join(parts)


def answer(view: memoryview) -> dict[TopicPartition, int]:
    """Return the error code of each partition; raise `RetriableError` if the answer cannot be read."""
    try:
        return dict(_rows(view))
    except (struct.error, UnicodeDecodeError) as error:
        raise RetriableError(f"a response cannot be read: {error!r}") from error


def _rows(view: memoryview) -> Iterator[tuple[TopicPartition, int]]:
    (topic_count,), position = struct.unpack_from(">i", view), 4
    for _ in range(topic_count):
        topic, position = _text(view, position)
        (partition_count,) = struct.unpack_from(">i", view, position)
        position += 4
        for _ in range(partition_count):
            index, code = struct.unpack_from(">ih", view, position)
            (error_count,) = struct.unpack_from(">i", view, position + 30)
            position += 34
            for _ in range(error_count):
                _, position = _text(view, position + 4)
            _, position = _text(view, position)
            yield TopicPartition(topic or "", index), code


def _nullable(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def _text(view: memoryview, position: int) -> tuple[str | None, int]:
    (size,) = struct.unpack_from(">h", view, position)
    if size < 0:
        return None, position + 2
    return bytes(view[position + 2 : position + 2 + size]).decode(), position + 2 + size


@dataclass(frozen=True, slots=True)
class Producer:
    """Appends batches to partitions of a cluster, and retries until all are acknowledged."""

    cluster: Cluster
    request_bytes_max: int
    transactional_id: str | None = None

    def send(self, batches: Mapping[TopicPartition, bytes]) -> None:
        """Append one batch to each partition.

        Raises `FencedError`, `OutOfOrderError`, and `BrokerError` for other refusals. Batches of a failed call
        may have been appended or not.
        """
        unacknowledged = dict(batches)

        def attempt() -> None:
            failures = []
            for address, some in self._requests(unacknowledged):
                question = request(
                    some,
                    transactional_id=self.transactional_id,
                    timeout_ms=self.cluster.settings.request_timeout_ms,
                )
                for place, code in answer(self.cluster.ask(address, PRODUCE, question)).items():
                    if _is_appended(code, place):
                        unacknowledged.pop(place, None)
                    else:
                        failures.append(f"{place}: {name_of(code)}")
            if unacknowledged:
                raise RetriableError("; ".join(failures) or "a broker left out partitions in its response")

        if unacknowledged:
            self.cluster.persist(f"write to {_named(batches)}", attempt)

    def _requests(
        self, batches: Mapping[TopicPartition, bytes]
    ) -> Iterator[tuple[Address, dict[TopicPartition, bytes]]]:
        """Yield requests by leader, each of at least one batch and at most `request_bytes_max`."""
        by_leader: dict[Address, list[TopicPartition]] = {}
        for place in batches:
            by_leader.setdefault(self.cluster.leader(place), []).append(place)
        for address, places in by_leader.items():
            some: dict[TopicPartition, bytes] = {}
            size = 0
            for place in places:
                if some and size + len(batches[place]) > self.request_bytes_max:
                    yield address, some
                    some, size = {}, 0
                some[place] = batches[place]
                size += len(batches[place])
            yield address, some


def _is_appended(code: int, place: TopicPartition) -> bool:
    """Return False where a retry may help; raise for a refusal."""
    if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return True
    if code in _FENCED:
        raise FencedError(
            f"another attempt at the same task has taken over, so this one may no longer write to {place}: "
            "if Spark started it, do nothing; otherwise two queries share one checkpoint: stop one"
        )
    if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        raise OutOfOrderError(
            f"{place} holds records that another attempt at the same task has just written: "
            "restart the query, which continues after them"
        )
    if code in {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}:
        raise BrokerError(
            f"a batch for {place} is larger than the broker accepts: lower the option kafka.max.request.size, "
            "or raise max.message.bytes of the topic"
        )
    return is_fine(code, f"records for {place}")


def _named(batches: Mapping[TopicPartition, bytes]) -> str:
    first = min(batches)
    return str(first) if len(batches) == 1 else f"{first} and {len(batches) - 1} more partitions"
