"""Fetched chunks of raw record batches to Arrow columns, without touching a record in Python.

One hard idea: only the place of each record has to be found one after the other (`starts`), and often not even that;
everything else works on all records at once (`fields`, `columns`). It drops control batches, batches of aborted
transactions, records outside the wanted offsets and an incomplete batch at the end (`headers`).

A fetch answer holds batches of many partitions. They are decoded together, as one partition's few records are not
worth a call; and in groups of bounded size (`bodies`), as all of them decompressed may be too many.

Units: offsets count records, `end_offset` is exclusive.
Source: KIP-98 (record batch v2), KIP-107, KIP-110 (zstd).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from syncline.pipeline.decoding.bodies import opened
from syncline.pipeline.decoding.columns import column
from syncline.pipeline.decoding.fields import Records
from syncline.pipeline.decoding.headers import Buffer, Part, batches_of


@dataclass(frozen=True, slots=True)
class Decoded:
    """Columns of equal length by name."""

    columns: Mapping[str, pa.Array]
    row_count: int


def decode(chunk: Buffer, parts: Sequence[Part], columns: Sequence[str]) -> Iterator[Decoded]:
    """Yield the wanted `columns` of the records that the parts of a fetched chunk want, in their order.

    Raises `DecodeError`.
    """
    view = memoryview(chunk)
    for buffer, batches in opened(view, (batch for part in parts for batch in batches_of(view, part))):
        records = Records.wanted(buffer, batches)
        if records.count == 0:
            continue
        arrays = {name: column(name, records) for name in columns}
        assert all(len(array) == records.count for array in arrays.values()), "columns of different lengths"
        yield Decoded(arrays, records.count)
