"""In which partition of `__consumer_offsets` a group lives: Java's hash of its id, made positive (Kafka's `Utils.abs`).

A group's id may have 32,767 characters, and each of its requests asks: so the hash is taken in runs, each of which is
one sum of products.
"""

import struct
from operator import mul
from typing import Final

# A run of UTF-16 units, and what the hash before it is multiplied by: 31 to the power of as many.
RUN: Final = 256
_FACTORS: Final = tuple(pow(31, RUN - 1 - index, 1 << 32) for index in range(RUN))
_SHIFTS: Final = tuple(pow(31, count, 1 << 32) for count in range(RUN + 1))


def partition_of(group_id: str, partition_count: int) -> int:
    """Return the partition in which a group lives, of so many."""
    assert partition_count > 0, f"the offsets topic has {partition_count} partitions"
    encoded = group_id.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(encoded) // 2}H", encoded)
    value = 0
    for first in range(0, len(units), RUN):
        run = units[first : first + RUN]
        value = (value * _SHIFTS[len(run)] + sum(map(mul, run, _FACTORS[RUN - len(run) :]))) & 0xFFFFFFFF
    signed = value - (1 << 32) if value & 0x80000000 else value
    # The absolute value of the smallest int does not fit an int; Kafka takes 0.
    return 0 if signed == -(1 << 31) else abs(signed) % partition_count
