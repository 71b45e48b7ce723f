"""Record batches as real client libraries build them, for tests of the decoder."""

import struct
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import crc32c
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder

with warnings.catch_warnings():
    # kafka-python reads its schemas by a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


class Record(NamedTuple):
    """What a producer sends."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[tuple[str, bytes | None]] = ()


def batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: str = "none",
    leader_epoch: int = 0,
    builder: str = "kafka-python",
    attributes: int = 0,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    deltas: Sequence[int] | None = None,
) -> bytes:
    """Return one batch as it would lie in a broker's log: offset and epoch stamped, attribute bits added.

    `deltas` are the records' offsets after the first one of the batch: all of them, unless compaction removed some.
    """
    build = {"kafka-python": KafkaPythonBuilder, "aiokafka": AiokafkaBuilder}[builder](
        magic=2,
        compression_type=CODECS[codec],
        is_transactional=bool(attributes & TRANSACTIONAL),
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1 << 30,
    )
    for delta, record in zip(deltas or range(len(records)), records, strict=True):
        added = build.append(
            delta,
            timestamp=record.timestamp_ms,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
        assert added is not None, "the builder refused a record"
    raw = bytearray(build.build())
    struct.pack_into(">q", raw, 0, base_offset)
    struct.pack_into(">i", raw, 12, leader_epoch)
    struct.pack_into(">h", raw, 21, struct.unpack_from(">h", raw, 21)[0] | attributes)
    if max_timestamp is not None:
        struct.pack_into(">q", raw, 35, max_timestamp)
    struct.pack_into(">I", raw, 17, crc32c.crc32c(raw[21:]))
    return bytes(raw)


def control_batch(*, base_offset: int, producer_id: int, commit: bool) -> bytes:
    """Return a transaction marker."""
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0)
    return batch(
        [Record(key, value, 0)],
        base_offset=base_offset,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
    )
