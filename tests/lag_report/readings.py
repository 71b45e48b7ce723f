"""Answers to `cache.show` with known curves: a group at the tail, one two hours behind, and what the cache measured."""

from typing import Any

MB, GB = 10**6, 10**9
W, R = 100 * MB, 120 * MB
TAIL, FAR = 16, 40
"""Exponents: 64 KiB behind, and two hours at 100 MB/s: 720 GB, which is between 2^39 and 2^40."""


def reader(client_id: str, buckets: list[list[int]], *, group: str | None = None) -> dict[str, Any]:
    """Return what a broker says of one reader."""
    return {"client_id": client_id, "host": "10.0.0.7", "group": group, "buckets": buckets}


def answer(**changed: Any) -> dict[str, Any]:
    """Return an answer: 100 MB/s read at the tail by group A, 20 MB/s two hours behind by group B."""
    return {
        "written_bytes_per_s": W,
        "read_bytes_per_s": R,
        "memory_bytes": 40 * GB,
        "buckets": [[TAIL, 1_000, 100 * GB], [FAR, 200, 20 * GB]],
        "hit_bytes": 99 * GB,
        "miss_bytes": 21 * GB,
        "readers": [
            reader("a1", [[TAIL, 600, 60 * GB]], group="A"),
            reader("a2", [[TAIL, 400, 40 * GB]], group="A"),
            reader("b", [[FAR, 200, 20 * GB]], group="B"),
        ],
        **changed,
    }


def falling(**changed: Any) -> dict[str, Any]:
    """Return an answer whose reads lie at all distances, most of them near the tail."""
    buckets = [[exponent, 10, round(100 * GB * 0.8 ** (exponent - 12))] for exponent in range(12, 45)]
    return answer(buckets=buckets, readers=[reader("c", buckets[:20])], **changed)


def quiet() -> dict[str, Any]:
    """Return an answer of a broker from which nobody has read."""
    return answer(read_bytes_per_s=0, written_bytes_per_s=0, buckets=[], readers=[], hit_bytes=0, miss_bytes=0)
