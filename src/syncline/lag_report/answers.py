"""From the answer to the control verb `cache.show` to facts.

Buckets are rows [exponent, fetches, bytes] of those that have something: bytes of fetches whose distance is at most
2 ** exponent and above the bucket before. The exponent behind the last bound stands for all that is larger, and for
pages that nothing kept.

A reader has a client id and a host, and a group if exactly one is known to read with them. The answer names a bounded
number of readers; what is left of the total is read by "others".
"""

from collections.abc import Mapping, Sequence
from typing import Any

from syncline.core.lag.buckets import BYTES, Weighted
from syncline.lag_report.facts import OTHERS, CacheFacts, Reader


def facts_of(broker: int, answer: Mapping[str, Any], memory_bytes: int | None) -> CacheFacts:
    """Return the facts of one broker; `memory_bytes` is what its cache is supposed to have, None: what it says it has.

    Raises ValueError if a bucket is none of ours.
    """
    total = _weighted(answer["buckets"])
    # Where old records cannot be measured, only reads of new ones are, and those are hits.
    is_measured = not answer.get("unmeasured_bytes", 0)
    is_supposed, known_bytes = memory_bytes is not None, answer["memory_bytes"]
    return CacheFacts(
        broker=broker,
        memory_bytes=known_bytes if memory_bytes is None else memory_bytes,
        written_bytes_per_s=answer["written_bytes_per_s"],
        read_bytes_per_s=answer["read_bytes_per_s"],
        distances=total,
        hit_bytes=answer["hit_bytes"] if is_measured else 0,
        miss_bytes=answer["miss_bytes"] if is_measured else 0,
        readers=_readers(answer["readers"], total),
        present_bytes=known_bytes if is_supposed and known_bytes > 0 else None,
        is_supposed=is_supposed,
    )


def _readers(rows: Sequence[Mapping[str, Any]], total: Weighted) -> tuple[Reader, ...]:
    """Return each group and each client without one, then what none of them read."""
    found: dict[str, Weighted] = {}
    for row in rows:
        found.setdefault(_name(row), Weighted(BYTES)).add(_weighted(row["buckets"]))
    left = Weighted(BYTES)
    for index, size_bytes in enumerate(total.bytes):
        known_bytes = sum(each.bytes[index] for each in found.values())
        known_fetches = sum(each.fetches[index] for each in found.values())
        if size_bytes < known_bytes:
            raise ValueError(f"readers read {known_bytes} bytes of {size_bytes} in bucket {index}")
        if size_bytes > known_bytes:
            left.bytes[index] = size_bytes - known_bytes
            left.fetches[index] = max(1, total.fetches[index] - known_fetches)
    if any(left.bytes):
        found.setdefault(OTHERS, Weighted(BYTES)).add(left)
    return tuple(Reader(name, distances) for name, distances in found.items() if any(distances.bytes))


def _name(row: Mapping[str, Any]) -> str:
    if row.get("group") is not None:
        return f"group {row['group']}"
    return f"client {row['client_id'] or '-'} at {row['host']}"


def _weighted(buckets: Sequence[Sequence[int]]) -> Weighted:
    found = Weighted(BYTES)
    for exponent, fetches, size_bytes in buckets:
        index = exponent - BYTES.first_exponent
        if not 0 <= index <= BYTES.bound_count:
            raise ValueError(f"there is no bucket of distances up to 2^{exponent} bytes")
        found.fetches[index] += fetches
        found.bytes[index] += size_bytes
    return found
