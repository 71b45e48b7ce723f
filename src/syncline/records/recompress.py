"""Changing a batch's codec without looking at its records.

A topic whose `compression.type` is not `producer` stores everything with its
own codec. The records of a batch are compressed as one block, so the block is
decompressed and compressed again; offsets, times and the producer's fields stay.
"""

from syncline.records.batch import COMPRESSION_BITS, HEADER_BYTES, OVERHEAD_BYTES, BatchHeader
from syncline.records.buffers import Buffer
from syncline.records.builder import assemble
from syncline.records.compression import compress
from syncline.records.record import records_block


def recompress(buffer: Buffer, position: int, header: BatchHeader, compression: int) -> bytearray:
    """Return the batch at `position` with another codec. Raises DecodeError if it cannot be decompressed."""
    records = compress(compression, records_block(buffer, position, header))
    changed = header._replace(
        batch_length=HEADER_BYTES - OVERHEAD_BYTES + len(records),
        attributes=header.attributes & ~COMPRESSION_BITS | compression,
    )
    return assemble(changed, records)
