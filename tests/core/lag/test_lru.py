"""The model of the page cache against a cache of pages."""

from collections import Counter
from typing import NamedTuple

from syncline.core.lag.lru import PAGE_BYTES, PageCache
from syncline.core.lag.miss_ratio import Demand, Drawn, hit_ratio

MIB = 1 << 20


class Follower(NamedTuple):
    """A reader of one partition, which reads as fast as that is written, so many pages of all behind."""

    partition: int
    behind: int


def play(memory_bytes: int, pages: int, readers: list[Follower], partitions: int = 4) -> tuple[float, float]:
    """Write pages to partitions in turn, and let readers follow.

    Returns the hit ratio of a cache of pages and that of the model, which sees stack distances alone. Reading begins
    when the last reader has something to read.
    """
    cache, distances = PageCache(memory_bytes), Counter[int]()
    first = max(reader.behind for reader in readers)
    for written in range(pages):
        cache.write(written)
        if written < first:
            continue
        for partition, behind in readers:
            if (written - behind) % partitions == partition:
                cache.read(written - behind)
                distances[behind * PAGE_BYTES] += 1
    reads, steps = distances.total(), [(0.0, 0.0)]
    for distance_bytes in sorted(distances):
        within = steps[-1][1]
        steps += [(distance_bytes, within), (distance_bytes, within + distances[distance_bytes] / reads)]
    steps[-1] = (steps[-1][0], 1.0)
    demand = Demand(1.0, reads / (pages - first), Drawn(steps))
    return cache.hit_ratio, hit_ratio(demand, memory_bytes, with_pollution=True).hit_ratio


def test_l25_reader_300_mb_behind_hits_a_cache_of_512_and_misses_one_of_256() -> None:
    """1 GB in 4 KiB pages to four partitions in turn: the border is sharp, and the model has it."""
    pages, reader = 1_000_000_000 // PAGE_BYTES, Follower(partition=2, behind=300_000_000 // PAGE_BYTES)

    assert play(256 * MIB, pages, [reader]) == (0.0, 0.0)
    assert play(512 * MIB, pages, [reader]) == (1.0, 1.0)


def test_l25_mixed_readers_are_within_three_points() -> None:
    """Each partition has one at the tail, three have others 8, 40 and 200 MiB behind; caches from 16 to 320 MiB."""
    readers = [Follower(partition, 0) for partition in range(4)]
    readers += [Follower(0, 8 * 256), Follower(1, 40 * 256), Follower(2, 200 * 256)]
    for memory_mib in (16, 64, 128, 320):
        measured, modelled = play(memory_mib * MIB, 90_000, readers)

        assert abs(measured - modelled) <= 0.03, f"{memory_mib} MiB: {measured} measured, {modelled} by the model"


def test_reader_that_hits_keeps_pages_that_nobody_else_reads() -> None:
    """The limit of the model: reading everything 40 MiB behind takes 80 MiB, as each page stays twice."""
    readers = [Follower(partition, 40 * 256) for partition in range(4)]

    assert play(48 * MIB, 60_000, readers)[0] < 0.5
    assert play(48 * MIB, 60_000, readers)[1] == 1.0
    assert play(81 * MIB, 60_000, readers) == (1.0, 1.0)


def test_cache_forgets_what_was_used_longest_ago() -> None:
    """A read counts as use."""
    cache = PageCache(2 * PAGE_BYTES)
    cache.write("a")
    cache.write("b")

    assert [cache.read(page) for page in ("a", "c", "b", "a")] == [True, False, False, False]
    assert (cache.hits, cache.misses, cache.hit_ratio) == (1, 3, 0.25)
    assert PageCache(PAGE_BYTES).hit_ratio == 1.0
