"""The records of batches, decompressed: buffers of bounded size, each with the batches that lie in it.

A batch may decompress to at most the size that brokers accept. Batches are opened group by group, so that an answer
of some megabytes that decompresses to hundreds never lies in memory at once.

Units: bytes.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from syncline.pipeline.decoding.headers import CODEC_MASK, Batch, Buffer
from syncline.pipeline.errors import DecodeError
from syncline.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from syncline.records.errors import DecodeError as BatchError

# A group is closed by the batch that reaches this size. Smaller ones cost more calls, larger ones leave the processor's
# caches; between 1 and 8 MiB it hardly matters.
GROUP_BYTES: Final = 4 << 20


def opened(view: memoryview, batches: Iterable[Batch]) -> Iterator[tuple[Buffer, list[Batch]]]:
    """Yield the batches in groups: one buffer with all records of a group, and its batches with their places in it."""
    group: list[Batch] = []
    bodies: list[Buffer] = []
    size_bytes, is_plain = 0, True
    for batch in batches:
        codec = batch.attributes & CODEC_MASK
        body: Buffer = view[batch.start : batch.end]
        if codec:
            is_plain = False
            body = _decompress(codec, body, batch.base_offset)
        group.append(batch)
        bodies.append(body)
        size_bytes += len(body)
        if size_bytes >= GROUP_BYTES:
            yield (view, group) if is_plain else _joined(group, bodies)
            group, bodies, size_bytes, is_plain = [], [], 0, True
    if group:
        yield (view, group) if is_plain else _joined(group, bodies)


def _joined(batches: list[Batch], bodies: list[Buffer]) -> tuple[Buffer, list[Batch]]:
    moved, position = [], 0
    for batch, body in zip(batches, bodies, strict=True):
        moved.append(batch._replace(start=position, end=position + len(body)))
        position += len(body)
    return b"".join(bodies), moved


def _decompress(codec: int, body: Buffer, base_offset: int) -> Buffer:
    try:
        return decompress(codec, body, DECOMPRESSED_BYTES_MAX)
    except BatchError as error:
        raise DecodeError(f"the batch at offset {base_offset} cannot be decompressed: {error}") from error
