"""Bugs planted in the rules of replication: an assertion trips before a wrong answer, proposal or cut leaves.

`tests/core/replication/test_replication_model.py` shows that histories find such bugs in the end; here each is
stopped by the code around it, at the step that would have done the harm.
"""

from collections.abc import Callable
from typing import Any

import pytest

from syncline.core.replication import isr, leader_epochs, truncation, watermark
from syncline.core.replication.follower import FollowerPartition
from syncline.core.replication.in_sync_set import InSyncSet
from syncline.core.replication.leader_epochs import EpochCache, EpochEnd
from syncline.core.replication.slow_leader.waits import FollowerWaits
from syncline.core.replication.truncation import Truncation
from tests.core.s0 import S0, standings
from tests.core.slow_leader import SlowLeader


def append() -> None:
    """Append; with the watermark past its members, a produce with acks=all is acknowledged that only the leader has."""
    S0(log_end=0).append(10, 100)


def fetch_by_a_fenced_broker() -> None:
    """Let a broker fetch that the controller has fenced, with all records."""
    s = S0(isr=(1, 2), log_end=10, high_watermark=10)
    s.brokers.replace(standings(1, 2, 3, fenced=[3]))
    s.f(3, 10, 100)


def member_is_late() -> None:
    """Propose that a member leaves; until the answer the controller may still elect it, so it counts."""
    s = S0(log_end=10, confirms=False)
    s.f(2, 10, 10_000)
    s.tick(10_001)


def stops_counting(propose: Callable[..., Any]) -> Callable[..., Any]:
    """Return a proposal after which only the proposed members count."""

    def hasty(self: InSyncSet, *args: Any) -> Any:
        proposal = propose(self, *args)
        for follower in self.followers:
            follower.counts = follower.broker_id in proposal.broker_ids
        return proposal

    return hasty


def follower_asks_with_an_old_epoch() -> None:
    """Look for the point where histories part; the answer names the asked epoch or an older one."""
    truncation.find_divergence(EpochCache([(3, 0), (5, 10)]), 3, 4, 0, 20)


def log_start_moves() -> None:
    """Drop old records; what remains is known from the epoch on that reaches across the new start."""
    EpochCache([(3, 0), (5, 10)]).truncate_from_start(12)


def histories_diverge() -> None:
    """Let a follower hear that its histories part at 7; it orders a cut within its log."""
    follower = FollowerPartition(1000)
    follower.follow(5, log_start=0, log_end=10, high_watermark=4, latest_epoch=4)
    follower.diverged(EpochEnd(4, 7), EpochCache([(4, 0)]), 10, 4)


def histories_are_compared() -> None:
    """Compare in rounds: each round asks about an older epoch than the one before."""
    truncation.truncation_point(EpochEnd(4, 7), EpochCache([(2, 0), (6, 5)]), 10, 4)


def slow_read_is_answered() -> None:
    """Answer a slow fetch; what waited for it protects no more (KIP-501)."""
    s = SlowLeader()
    s.serve(s.arrive(), 27_000)
    s.partition.check_invariants()


BUGS = [
    pytest.param(
        append,
        watermark,
        "reached",
        lambda log_end, *_: log_end,
        "lacks records below 10",
        id="watermark-past-a-member",
    ),
    pytest.param(
        fetch_by_a_fenced_broker,
        isr,
        "may_join",
        lambda *_: True,
        "proposed to join .* and may not serve",
        id="expansion-by-a-fenced-broker",
    ),
    pytest.param(
        member_is_late,
        InSyncSet,
        "propose",
        stops_counting(InSyncSet.propose),
        r"\[2\] count, the maximal ISR is \[1, 2, 3\]",
        id="leaving-member-does-not-count",
    ),
    pytest.param(
        follower_asks_with_an_old_epoch,
        EpochCache,
        "end_offset_for",
        lambda *_: EpochEnd(5, 20),
        "epoch 5 answers 3",
        id="answer-of-a-newer-epoch",
    ),
    pytest.param(
        log_start_moves,
        leader_epochs,
        "bisect_right",
        lambda *_: 1,
        "epochs out of order from 12",
        id="leader-epochs-out-of-order",
    ),
    pytest.param(
        histories_diverge,
        truncation,
        "truncation_point",
        lambda *_: Truncation(12, is_finished=True, rule="planted"),
        "cutting at 12 would lengthen",
        id="cut-that-lengthens-the-log",
    ),
    pytest.param(
        histories_are_compared,
        EpochCache,
        "end_offset_for",
        lambda *_: EpochEnd(6, 8),
        "asking again about epoch 6 .* never ends",
        id="comparison-that-never-ends",
    ),
    pytest.param(
        slow_read_is_answered,
        FollowerWaits,
        "remove",
        lambda *_: None,
        "a void entry is held",
        id="entry-outlives-its-answer",
    ),
]


@pytest.mark.parametrize(("scene", "place", "name", "bug", "message"), BUGS)
@pytest.mark.interpreted
def test_planted_bug_trips_an_assertion(
    monkeypatch: pytest.MonkeyPatch, scene: Callable[[], None], place: object, name: str, bug: object, message: str
) -> None:
    """The same scene passes without the bug; with it, the message names what does not fit."""
    scene()
    monkeypatch.setattr(place, name, bug)

    with pytest.raises(AssertionError, match=message):
        scene()
