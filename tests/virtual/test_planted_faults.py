"""Faults planted in the rules themselves: a proof room that lets them pass proves nothing.

Each must be caught within 200 seeds; the seeds run in order until one fails.
"""

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from syncline.core.cluster import elections
from syncline.core.replication import truncation
from syncline.core.replication.leader import LeaderPartition
from syncline.core.replication.leader_epochs import EpochEnd
from syncline.model.errors import ErrorCode
from syncline.virtual.simulation import RunSettings, run_seed

pytestmark = pytest.mark.virtual

SEEDS_MAX = 200
SETTINGS = RunSettings(seconds=30)


def first_caught(*marks: str) -> list[str]:
    """Return what is wrong with the first seed that fails by one of the checks in `marks`."""
    for seed in range(SEEDS_MAX):
        failures = run_seed(seed, SETTINGS).failures
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
    """The same fault, seen in the end: what a client was told is there is on no disk."""
    monkeypatch.setattr(LeaderPartition, "acknowledgement", hasty)

    assert first_caught("H2")


def test_keeping_the_stale_tail_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """M03: a follower whose log has diverged is not told, and goes on behind its stale records."""
    original = truncation.find_divergence

    def blind(*args: Any, **options: Any) -> Any:
        answer = original(*args, **options)
        return None if isinstance(answer, EpochEnd) else answer

    replace_everywhere(monkeypatch, original, blind)

    assert first_caught("S1", "S3")


def test_two_leaders_in_one_epoch_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """M31: an election that does not begin a new leader epoch."""
    original = elections.next_state

    def lazy(record: Any, *args: Any, **options: Any) -> Any:
        return original(record, *args, **options)._replace(leader_epoch=record.leader_epoch)

    replace_everywhere(monkeypatch, original, lazy)

    assert first_caught("I6", "S7")
