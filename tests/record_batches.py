"""Whole batches for tests, from plain records."""

from collections.abc import Iterable

from syncline.records.builder import BatchBuilder
from syncline.records.compression import Codec


def build_batch(
    records: Iterable[tuple[int, bytes | None, bytes | None]],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: int = Codec.NONE,
) -> bytearray:
    """Return a batch of (timestamp, key, value) records."""
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=leader_epoch)
    for timestamp_ms, key, value in records:
        builder.append(timestamp_ms, key, value)
    return builder.build(compression)
