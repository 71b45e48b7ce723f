"""What a leader says of records that it sends unread, so that the receiver can tell others from them.

Until the receiver reads them they are pages of a file, which may be cut and written anew meanwhile. Then the receiver
finds any mixture of both contents. The checksum of a batch covers neither where it belongs nor its leader epoch. So the
leader says the epoch of all, and a sum over the batches that it has written there.
"""

from typing import Final, NamedTuple

# Sums stay below 2**63, as they travel and are kept as i64.
MARK_MASK: Final = (1 << 63) - 1


class Unread(NamedTuple):
    """Of the batches of one answer: the leader epoch of each, and the sum of their `mark_of`."""

    leader_epoch: int
    check_sum: int


def mark_of(crc: int, next_offset: int) -> int:
    """Return what one batch adds to the sum: its checksum, weighted by its place, so that the order counts."""
    return (crc + 1) * (2 * next_offset + 1) & MARK_MASK


def sum_of(total: int) -> int:
    """Return the sum of marks as it is compared."""
    return total & MARK_MASK
