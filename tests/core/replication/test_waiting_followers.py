"""Followers that have everything, but could not be proposed when they proved it: they have nothing more to fetch."""

import pytest

from syncline.core.replication.effects import ProposeIsr
from syncline.core.replication.watermark import waits_for
from syncline.model.errors import ErrorCode
from tests.core.s0 import S0, standings


def test_a_follower_is_proposed_when_it_becomes_eligible() -> None:
    """It fetched while it was fenced, and has no reason to fetch again."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=10, fenced=(2,), confirms=False)
    s.f(2, 10, 100)
    assert s.sent == []

    s.brokers.replace(standings(1, 2, 3, 4))
    s.note(s.partition.brokers_changed(200), 200)

    assert s.requested == [[1, 3, 2]]


def test_a_follower_whose_log_failed_does_not_hold_the_watermark() -> None:
    """It is caught up, and was about to join: acks=all would wait a whole lag window for it."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=10, confirms=False)
    s.f(2, 10, 100)
    s.answer(s.sent[0], 100, error=ErrorCode.INELIGIBLE_REPLICA)
    s.append(12, 110)
    s.f(3, 12, 120)
    held = s.partition.high_watermark
    s.note(s.partition.brokers_changed(130, failed=(2,)), 130)

    assert (held, s.partition.high_watermark) == (10, 12)


def test_a_follower_that_left_the_isr_does_not_hold_the_watermark() -> None:
    """It was caught up a moment ago, and that is all that is known: acks=all waited a whole lag window for it."""
    s = S0(log_end=10, high_watermark=10)
    s.f(2, 10, 100)
    s.f(3, 10, 100)
    s.append(12, 110)
    s.f(3, 12, 120)
    s.metadata([1, 3], at=130)

    assert s.partition.high_watermark == 12


def is_awaited(s: S0, broker: int, at: int) -> bool:
    """Return whether the watermark waits for a follower."""
    partition = s.partition
    return waits_for(partition.in_sync.by_id[broker], partition.log_end, partition.settings.lag, s.brokers, at)


@pytest.mark.parametrize("lost", [0, 10], ids=["lost-nothing", "lost-its-log"])
def test_a_follower_that_returns_holds_the_watermark_when_it_has_caught_up_again(lost: int) -> None:
    """A throttle may hold it back meanwhile, and nobody waits; near its end it is waited for, as any that joins."""
    s = S0(log_end=10, high_watermark=10)
    s.f(2, 10, 100)
    s.f(3, 10, 100)
    s.metadata([1, 3], at=130)
    s.append(20, 140)
    s.f(3, 20, 150)
    s.f(2, 10 - lost, 1_000)
    s.append(30, 1_010)
    s.f(3, 30, 1_020)
    behind, waits_behind = s.partition.high_watermark, is_awaited(s, 2, 1_020)
    s.f(2, 20, 1_030)
    s.append(40, 1_040)
    s.f(3, 40, 1_050)
    near, waits_near = s.partition.high_watermark, is_awaited(s, 2, 1_050)
    s.f(2, 40, 1_060)

    assert (behind, waits_behind) == (30, False)
    assert (near, waits_near) == (30, True)
    assert (s.partition.high_watermark, s.isr) == (40, [1, 3, 2])


def test_a_follower_whose_log_serves_again_is_proposed_at_once() -> None:
    """On a quiet partition no later fetch would do it."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=10, confirms=False)
    s.note(s.partition.brokers_changed(90, failed=(2,)), 90)
    s.f(2, 10, 100)
    assert s.requested == []

    s.note(s.partition.brokers_changed(200), 200)

    assert s.requested == [[1, 3, 2]]


def test_a_tick_looks_at_a_follower_that_newer_metadata_made_eligible() -> None:
    """The record of the partition may come again before the leader hears of the brokers."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=10, fenced=(2,), confirms=False)
    s.f(2, 10, 100)
    s.f(3, 10, 100)
    s.tick(150)
    s.brokers.replace(standings(1, 2, 3, 4))
    s.note(
        s.partition.metadata_changed(replicas=(1, 2, 3), isr=(1, 3), leader_epoch=5, partition_epoch=20, now_ms=200),
        200,
    )

    assert s.partition.is_ticked


def test_the_second_of_two_followers_is_proposed_when_the_first_has_joined() -> None:
    """Both proved it while only one proposal can be pending."""
    s = S0(isr=(1,), log_end=10, high_watermark=10, confirms=False)
    s.f(2, 10, 100)
    s.f(3, 10, 110)
    assert s.requested == [[1, 2]]

    s.answer(s.sent[0], 120)

    assert s.requested == [[1, 2], [1, 2, 3]]


def test_the_second_follower_is_proposed_when_metadata_brings_the_first() -> None:
    """The controller's record may overtake its answer."""
    s = S0(isr=(1,), log_end=10, high_watermark=10, confirms=False)
    s.f(2, 10, 100)
    s.f(3, 10, 110)

    s.metadata([1, 2], at=120)

    assert s.requested == [[1, 2], [1, 2, 3]]


def test_a_refused_follower_is_proposed_again_by_the_tick_only() -> None:
    """If the controller refuses by newer metadata, proposing again at once would never end."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=10, confirms=False)
    s.f(2, 10, 100)
    s.answer(s.sent[0], 110, error=ErrorCode.INELIGIBLE_REPLICA)
    assert len(s.sent) == 1

    s.tick(5_000)

    assert s.requested == [[1, 3, 2], [1, 3, 2]]


def test_a_follower_without_everything_waits_for_its_next_fetch() -> None:
    """An old proof does not suffice to join: the follower gets records, and its next fetch proves what it has."""
    s = S0(isr=(1, 3), log_end=10, high_watermark=8, fenced=(2,), confirms=False)
    s.f(2, 9, 100)

    s.brokers.replace(standings(1, 2, 3, 4))
    effects = s.partition.brokers_changed(200)

    assert not any(isinstance(effect, ProposeIsr) for effect in effects)
