"""Raw record batches: the request Fetch 11, which every broker from Apache Kafka 2.8 to 4.x serves, by hand.

Client libraries create one object a record, which costs more than the rest of the pipeline; here the records of an
answer are places in the bytes that came from the socket. One request asks one broker for many partitions; the broker
fills its answer in their order until it is full, so the first one always gets records and the last ones often get none.

Units: offsets count records; a high watermark is an exclusive end.
Source: the Kafka protocol guide; KIP-74 (a fetch always returns its first batch whole), KIP-98 (aborted list).
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from syncline.model.errors import ErrorCode
from syncline.model.ids import TopicPartition
from syncline.pipeline.client.messages import Api
from syncline.pipeline.client.settings import ClientSettings

FETCH: Final = Api(1, 11, is_flexible=False)
_WAIT_MS_MAX: Final = 500
_PARTITION: Final = struct.Struct(">iiqqi")
_PARTITION_ANSWER: Final = struct.Struct(">ihqqqi")
_BATCH_START: Final = struct.Struct(">qi11xi")
_BATCH_HEADER_BYTES: Final = 61
_BATCH_LENGTH_END: Final = 12


@dataclass(frozen=True, slots=True)
class Fetched:
    """One partition's part of a fetch response: its batches lie from `start` to `end` in the bytes of all of it.

    `end_offset` is the end of what this client may read: the last stable offset, if it reads committed records only.
    """

    code: int
    answer: memoryview
    start: int
    end: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    aborted: tuple[tuple[int, int], ...]

    @property
    def records(self) -> memoryview:
        """Return the batches; they stay valid as long as a reference to them exists."""
        return self.answer[self.start : self.end]

    def next_offset(self, offset: int) -> int:
        """Return the offset after the last whole batch, `offset` if there is none: where the next fetch continues.

        This stops at a malformed batch, which the decoder reports.
        """
        position = self.start
        while position + _BATCH_HEADER_BYTES <= self.end:
            base, length, last_delta = _BATCH_START.unpack_from(self.answer, position)
            position += _BATCH_LENGTH_END + length
            if length < _BATCH_HEADER_BYTES - _BATCH_LENGTH_END or position > self.end:
                break
            offset = max(offset, base + last_delta + 1)
        return offset


def request(asked: Mapping[TopicPartition, int], settings: ClientSettings) -> bytes:
    """Return the question after batches of partitions that one broker leads, each from the one that holds its offset.

    They are asked for in the order of the mapping, as far as partitions of one topic come together.
    """
    by_topic: dict[str, list[bytes]] = {}
    for place, offset in asked.items():
        row = _PARTITION.pack(place.partition, -1, offset, -1, settings.fetch_bytes_max)
        by_topic.setdefault(place.topic, []).append(row)
    pieces = [
        struct.pack(
            ">iiiibiii",
            *(-1, _WAIT_MS_MAX, 1, settings.fetch_bytes_max, int(settings.read_committed)),
            *(0, -1),  # no fetch session
            len(by_topic),
        )
    ]
    for topic, rows in by_topic.items():
        name = topic.encode()
        pieces += [struct.pack(f">h{len(name)}si", len(name), name, len(rows)), *rows]
    pieces.append(struct.pack(">ih", 0, 0))  # nothing forgotten, no rack
    return b"".join(pieces)


def answer(view: memoryview) -> tuple[int, dict[TopicPartition, Fetched]]:
    """Return the error code of an answer and its parts by partition; the records are not copied."""
    _, code, _, topic_count = struct.unpack_from(">ihii", view, 0)
    position, found = 14, {}
    if code:
        return code, {}
    for _ in range(topic_count):
        (name_bytes,) = struct.unpack_from(">h", view, position)
        position += 2
        topic = bytes(view[position : position + name_bytes]).decode()
        (partition_count,) = struct.unpack_from(">i", view, position + name_bytes)
        position += name_bytes + 4
        for _ in range(partition_count):
            partition, part = _part(view, position)
            found[TopicPartition(topic, partition)] = part
            position = part.end
    return ErrorCode.NONE, found


def _part(view: memoryview, position: int) -> tuple[int, Fetched]:
    partition, code, high_watermark, last_stable, log_start, aborted_count = _PARTITION_ANSWER.unpack_from(
        view, position
    )
    position += _PARTITION_ANSWER.size
    aborted_bytes = 16 * max(aborted_count, 0)
    aborted = tuple(
        (first_offset, producer_id)
        for producer_id, first_offset in struct.iter_unpack(">qq", view[position : position + aborted_bytes])
    )
    position += aborted_bytes + 4  # a replica that would be preferred
    (size,) = struct.unpack_from(">i", view, position)
    start = position + 4
    return partition, Fetched(code, view, start, start + max(size, 0), high_watermark, last_stable, log_start, aborted)
