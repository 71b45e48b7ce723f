"""Whether two attempts wrote the same rows, whatever their order: a number of 64 bits that is cheap to compute.

A row counts with its length and the sum of its bytes, mixed; rows add up. It does not protect against forgery: it
distinguishes parts of a data set, for instance after the number of tasks has changed.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from syncline.pipeline.encoding.rows import Rows, joined, lengths

_FIRST: Final = np.uint64(0x9E3779B97F4A7C15)
_SECOND: Final = np.uint64(0xBF58476D1CE4E5B9)


def fingerprint(rows: Rows) -> int:
    """Return the sum over all rows, modulo 2^64; sums of parts may be added."""
    whole = joined(rows.keys, rows.values, rows.tails)
    starts = np.frombuffer(whole.buffers()[1], np.int32)[: len(whole) + 1]
    # A row has at least the number of its headers, so none is empty and the sums begin where they should.
    sums = np.add.reduceat(np.frombuffer(whole.buffers()[2], np.uint8), starts[:-1], dtype=np.uint64)
    key_bytes = _unsigned(lengths(rows.keys))
    mixed = (sums + (_unsigned(lengths(whole)) << np.uint64(32)) + (key_bytes << np.uint64(48))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _SECOND
    return int(np.add.reduce(mixed ^ (mixed >> np.uint64(32)), dtype=np.uint64))


def _unsigned(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    return values.astype(np.uint64)
