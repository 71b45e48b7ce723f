"""Sharing an allowance: how much of it each follower's request, and each partition of one, may use.

A request that took the whole allowance would leave nothing to the others, each time again: so each takes its part, in
turns (`turns.py`). Within a request, partitions get up to their limit in the order of their turns; for those that get
nothing it is worth waiting, since who got data goes to the end.

Units: bytes.
Source: KIP-73 (inclusion), KIP-74 (limits).
"""

from typing import Final

# A partition that could read less does not take part: its turn comes with the next allowance.
SHARE_BYTES_MIN: Final = 65_536


def request_part(allowance_bytes: int, promised_bytes: int, contenders: int) -> int:
    """Return how much of an allowance one of several requests may use; never nothing while there is an allowance.

    What is promised to the requests of others counts, or the first would get half, the second half of the rest.
    """
    assert contenders >= 1, f"an allowance for {contenders} requests"
    assert allowance_bytes >= 0, f"an allowance of {allowance_bytes} bytes"
    assert promised_bytes >= 0, f"{promised_bytes} bytes are promised"
    return min(allowance_bytes, max(1, (allowance_bytes + promised_bytes) // contenders))


def partition_share(left_bytes: int, limit_bytes: int, *, is_first: bool) -> int:
    """Return what the next partition may read of what is left; 0 if it waits for another turn.

    The first partition takes part however little is left: its first batch is sent whole, and the debt repaid.
    """
    assert left_bytes >= 0, f"{left_bytes} bytes are left"
    if not left_bytes or (not is_first and left_bytes < min(limit_bytes, SHARE_BYTES_MIN)):
        return 0
    return max(1, min(left_bytes, limit_bytes))
