"""Faults planted in the rules themselves: simulations that let them pass would prove nothing.

Each must be caught within 200 seeds. They run until one fails: first the one that showed the fault once, then all in
order.
"""

import gc
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from syncline.core.cluster import elections
from syncline.core.replication import truncation
from syncline.core.replication.leader import LeaderPartition
from syncline.core.replication.leader_epochs import EpochEnd
from syncline.model.errors import ErrorCode
from syncline.records import batch
from syncline.storage.segments.segment import Segment
from syncline.virtual.simulation import RunSettings, run_seed

# Clients that never got an answer are not closed when a run breaks off; `clients_are_collected` collects them.
pytestmark = [
    pytest.mark.virtual,
    pytest.mark.interpreted,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

SEEDS_MAX = 200
SETTINGS = RunSettings(seconds=30)
# What watches a run from outside must find these mistakes by itself.
FROM_OUTSIDE = RunSettings(seconds=30, check_invariants=False)


@pytest.fixture(autouse=True)
def clients_are_collected() -> Iterator[None]:
    """Collect the clients of a run before the next test, whose warnings they would be."""
    yield
    gc.collect()


def first_caught(*marks: str, first: int = 0, settings: RunSettings = FROM_OUTSIDE) -> list[str]:
    """Return what is wrong with the first seed that fails by one of the checks in `marks`; `first` is the first."""
    for seed in (first, *range(SEEDS_MAX)):
        failures = run_seed(seed, settings).failures
        if any(re.search(rf"(^|: ){mark} ", text) for text in failures for mark in marks):
            return failures
    raise AssertionError(f"{SEEDS_MAX} seeds passed {marks} with a fault planted")


def replace_everywhere(
    monkeypatch: pytest.MonkeyPatch, original: Callable[..., Any], planted: Callable[..., Any]
) -> None:
    """Put `planted` in the place of `original` in every module that has it by name."""
    for name, module in list(sys.modules.items()):
        if name.startswith("syncline.") and getattr(module, original.__name__, None) is original:
            monkeypatch.setattr(module, original.__name__, planted)


def hasty(self: LeaderPartition, required_offset: int) -> ErrorCode | None:
    """Acknowledge whatever the leader itself has."""
    return ErrorCode.NONE if required_offset <= self.log_end else None


def test_acknowledging_before_the_isr_has_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """M40: acks=all answered as soon as the leader has appended; seen at the moment of the answer."""
    monkeypatch.setattr(LeaderPartition, "acknowledgement", hasty)

    assert first_caught("S9")


def test_losing_what_was_acknowledged_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same fault, seen in the end: an acknowledged record is on no disk."""
    monkeypatch.setattr(LeaderPartition, "acknowledgement", hasty)

    assert first_caught("H2")


def test_keeping_the_stale_tail_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """M03: the leader does not report a divergence, and the follower appends behind its stale records."""
    original = truncation.find_divergence

    def blind(*args: Any, **options: Any) -> Any:
        answer = original(*args, **options)
        return None if isinstance(answer, EpochEnd) else answer

    replace_everywhere(monkeypatch, original, blind)

    assert first_caught("S1", "S3", first=4)


def plant_epochs_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let elections begin no new leader epoch."""
    original = elections.next_state

    def lazy(record: Any, *args: Any, **options: Any) -> Any:
        return original(record, *args, **options)._replace(leader_epoch=record.leader_epoch)

    replace_everywhere(monkeypatch, original, lazy)


def test_two_leaders_in_one_epoch_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """M31: an election that does not begin a new leader epoch."""
    plant_epochs_that_stay(monkeypatch)

    assert first_caught("I6", "S7")


def test_two_leaders_in_one_epoch_trip_an_assertion_of_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """M31 again: the decision itself is refused, and the run ends although clients would retry for ever."""
    plant_epochs_that_stay(monkeypatch)

    failures = run_seed(4, SETTINGS).failures

    assert "two leaders have one epoch" in failures[0]


def test_wrong_stamp_trips_an_assertion_before_any_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaders of later terms stamp the term before theirs: no such batch is acknowledged, so no other check fails."""

    def outdated(buffer: Any, position: int, base_offset: int, leader_epoch: int) -> None:
        original(buffer, position, base_offset, max(0, leader_epoch - 1))

    original = batch.stamp
    replace_everywhere(monkeypatch, original, outdated)

    failures = run_seed(0, SETTINGS).failures

    assert any("is stamped with" in text for text in failures)
    assert not [text for text in failures if re.search(r"(^|: )[SHI]\d+ ", text)]


def test_broken_log_is_found_close_to_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A roll leaves the tail of the old segment in memory, which no client notices; the invariants report it."""
    monkeypatch.setattr(Segment, "drop_tail", lambda _: None)

    assert any(
        "remembers where its newest batches lie" in text for text in first_caught("invariant:", settings=SETTINGS)
    )
