"""Mistakes about lag planted in the brokers: each is found from outside, in a seed that has what it takes.

`tests/virtual/test_seeds.py` runs the checks in every seed.
"""

import asyncio
import gc
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from syncline.storage.arrivals.append_times import AppendTimes, CopiedTime
from syncline.storage.segments.segment_list import SegmentList
from syncline.storage.writing import segment_writer
from syncline.virtual.simulation import RunSettings, run_seed
from syncline.virtual.time.clock import MILLION, world_wall_ns
from syncline.virtual.time.loop import VirtualLoop

pytestmark = [
    pytest.mark.virtual,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

# What the broker asserts of itself is off.
FROM_OUTSIDE = RunSettings(seconds=15, check_invariants=False)
SEEDS_MAX = 200


@pytest.fixture(autouse=True)
def clients_are_collected() -> Iterator[None]:
    """Collect the clients of a run before the next test, whose warnings they would be."""
    yield
    gc.collect()


def is_found(name: str, seed: int) -> bool:
    """Return whether a seed violates a property: this one, or, should seeds mean something else by now, any of many."""
    return any(
        text.startswith(f"{name} ")
        for each in (seed, *range(SEEDS_MAX))
        for text in run_seed(each, FROM_OUTSIDE).failures
    )


@pytest.mark.interpreted
def test_follower_that_stamps_its_own_clock_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that was away for a second would say that all it missed came when it fetched it."""
    original = segment_writer.copy_times

    def stamped(kept: Any, batches: Any, shift: int, copied: Sequence[CopiedTime], written_bytes: int) -> bool:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        now_ms = world_wall_ns(loop) // MILLION
        own = [(offset, now_ms if append_ms >= 0 else append_ms) for offset, append_ms in copied]
        return original(kept, batches, shift, own, written_bytes)

    monkeypatch.setattr(segment_writer, "copy_times", stamped)

    assert is_found("H12", 49)


@pytest.mark.interpreted
def test_cut_that_keeps_entries_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of records that are gone would speak for those in their place."""
    monkeypatch.setattr(AppendTimes, "cut", lambda *_: None)

    assert is_found("H12", 110)


@pytest.mark.interpreted
def test_roll_that_forgets_the_bytes_before_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinate of the log end would begin at 0 again."""
    original = SegmentList.add

    def forgetful(self: SegmentList, *args: Any) -> Any:
        segment = original(self, *args)
        segment.bytes_before = 0
        return segment

    monkeypatch.setattr(SegmentList, "add", forgetful)

    assert is_found("H13", 0)


@pytest.mark.interpreted
def test_watched_run_is_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking draws no number, opens no file and meets no fault: the trace is that of a run in which nobody asks."""
    settings = RunSettings(seconds=10)
    watched = run_seed(3, settings)
    monkeypatch.setattr("syncline.virtual.observers.lag_watch.LagWatch.sweep", lambda *_: None)

    assert watched.counts["lag places"] > 20
    assert run_seed(3, settings).digest == watched.digest


def test_no_time_is_estimated_without_faults() -> None:
    """Nothing was lost, so every broker knows when each record came."""
    result = run_seed(1, RunSettings(seconds=15, with_faults=False))

    assert result.failures == []
    assert result.counts["lag places"] > 40
    assert "lag places estimated" not in result.counts
