"""Which partition a row goes to, as Kafka's own producers decide.

A key decides by its hash, murmur2, so that records of one key stay in order and meet those of other producers. Rows
without a key go to one partition for as long as one batch lasts and then to the next: spread evenly, in few batches.

The hash reads four bytes of all keys at once; keys that have ended wait.

Source: KIP-480 and KIP-794 (sticky partitioner); murmur2 is Austin Appleby's, in the public domain.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from syncline.pipeline.encoding.rows import lengths
from syncline.pipeline.encoding.varints import Ints

STICKY_BYTES: Final = 16 << 10
_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_Words = npt.NDArray[np.uint32]


def murmur2(keys: pa.Array) -> Ints:
    """Return the hash of each key, 31 bits; the keys are binary and not null."""
    sizes = lengths(keys)
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys)].astype(np.int64)
    content = keys.buffers()[2]
    # Three bytes behind the end are read with the last word, and masked.
    data = np.concatenate(
        [np.frombuffer(content, np.uint8) if content else np.empty(0, np.uint8), np.zeros(4, np.uint8)]
    )
    hashes = (np.uint32(_SEED) ^ sizes.astype(np.uint32)).astype(np.uint32)
    whole_words = sizes // 4
    for index in range(int(whole_words.max(initial=0))):
        rows = np.flatnonzero(whole_words > index)
        word = _word(data, offsets[rows] + 4 * index) * _MULTIPLIER
        word = (word ^ (word >> np.uint32(24))) * _MULTIPLIER
        hashes[rows] = (hashes[rows] * _MULTIPLIER) ^ word
    left = sizes % 4
    rows = np.flatnonzero(left)
    if len(rows):
        rest = _word(data, offsets[rows] + 4 * whole_words[rows])
        mask = ((np.uint64(1) << (8 * left[rows]).astype(np.uint64)) - np.uint64(1)).astype(np.uint32)
        hashes[rows] = (hashes[rows] ^ (rest & mask)) * _MULTIPLIER
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _MULTIPLIER
    hashes ^= hashes >> np.uint32(15)
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64)


def _word(data: npt.NDArray[np.uint8], places: Ints) -> _Words:
    parts = [data[places + byte].astype(np.uint32) << np.uint32(8 * byte) for byte in range(4)]
    words: _Words = parts[0] | parts[1] | parts[2] | parts[3]
    return words


@dataclass(slots=True)
class Spread:
    """Where rows without a key go; `place_bytes` are those that this task has placed, plus where it began."""

    place_bytes: int = 0

    @classmethod
    def beginning_at(cls, partition: int) -> "Spread":
        """Return a spread that begins at a partition, so that small writes of many tasks meet all partitions."""
        return cls(partition * STICKY_BYTES)

    def place(self, record_bytes: Ints, partition_count: int) -> Ints:
        """Return the partition of each row."""
        ends = self.place_bytes + np.cumsum(record_bytes)
        if len(ends):
            self.place_bytes = int(ends[-1])
        return ((ends - record_bytes) // STICKY_BYTES) % partition_count
