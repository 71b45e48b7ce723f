"""Rows of variable-length integers, all at once: zigzag varints of seven bits a byte, least significant first.

Each integer is spread over as many columns of a byte matrix as the widest one needs; the bytes in use, read row by row,
are the result.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]


def sizes_of(values: Ints) -> Ints:
    """Return how many bytes each integer takes."""
    sizes = np.ones(len(values), np.int64)
    rest = _zigzag(values) >> np.uint64(7)
    while rest.any():
        sizes += rest != 0
        rest = rest >> np.uint64(7)
    return sizes


def rows_of(fields: Sequence[Ints]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Return each row's integers as bytes, one row after the other, and the places where rows begin and the last ends.

    `fields` are columns of equal length; a row holds its integer of each field.
    """
    row_count = len(fields[0])
    columns: list[npt.NDArray[np.uint8]] = []
    used: list[npt.NDArray[np.bool_]] = []
    for field in fields:
        rest, in_use = _zigzag(field), np.ones(row_count, np.bool_)
        while True:
            more = rest >> np.uint64(7)
            columns.append(
                ((rest & np.uint64(0x7F)) | ((more != 0).astype(np.uint64) << np.uint64(7))).astype(np.uint8)
            )
            used.append(in_use)
            if not more.any():
                break
            rest, in_use = more, more != 0
    matrix, mask = np.stack(columns, axis=1), np.stack(used, axis=1)
    starts = np.zeros(row_count + 1, np.int32)
    np.cumsum(mask.sum(axis=1), out=starts[1:])
    return matrix[mask], starts


def _zigzag(values: Ints) -> npt.NDArray[np.uint64]:
    return ((values << 1) ^ (values >> 63)).astype(np.uint64)
