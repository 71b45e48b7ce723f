"""Whose turn it is under one quota."""

from syncline.core.throttle.mode import ThrottleMode
from syncline.core.throttle.quota import UNLIMITED, Quota, make_quota
from syncline.core.throttle.rate import WindowedRate
from syncline.core.throttle.turns import LOOK_MS, PATIENCE_MS, Turns

Q = 1_000_000


def made(*names: str, mode: ThrottleMode = ThrottleMode.STRICT) -> tuple[Turns, Quota]:
    """Return the turns of some under a quota that has just been filled: half a megabyte, at 1 s."""
    turns = Turns()
    for name in names:
        turns.contend(name)
    quota = make_quota(mode, WindowedRate(11, 1_000), Q, 0)
    assert quota.allowance_bytes(1_000)
    return turns, quota


def use(turns: Turns, quota: Quota, who: str, now_ms: int) -> int:
    """Let one of them use all that it is offered; return how much."""
    size_bytes = turns.offer(who, quota, now_ms)
    if size_bytes:
        turns.take(who, now_ms)
        quota.record(size_bytes, now_ms)
    return size_bytes


def test_one_alone_uses_everything() -> None:
    """As often as there is something."""
    turns, quota = made("a")

    assert [500_000, 0] == [use(turns, quota, "a", 1_000) for _ in range(2)]
    assert turns.again_ms("a", quota, 1_000) == 1_450


def test_what_one_was_promised_in_its_turn_is_taken_from_its_part_once() -> None:
    """It has several lists of partitions: one alone finds the rest of the allowance, of two each that of its part."""
    alone, quota = made("a")
    quota.reserve(200_000)
    both, shared = made("a", "b")
    first = both.offer("a", shared, 1_000)
    shared.reserve(200_000)

    assert alone.offer("a", quota, 1_000, 200_000) == 300_000
    assert (first, both.offer("a", shared, 1_000, 200_000)) == (250_000, 50_000)


def test_each_has_one_turn_with_an_equal_part() -> None:
    """However often the first one asks; the second comes later, and finds its part."""
    turns, quota = made("a", "b")

    assert [250_000, 0, 0] == [use(turns, quota, "a", at_ms) for at_ms in (1_000, 1_002, 1_100)]
    assert turns.again_ms("a", quota, 1_100) == 1_200
    assert use(turns, quota, "b", 1_150) == 250_000
    # The bucket is nearly full again at 1,450: it had 150,000 left.
    assert [0, 240_000] == [max(use(turns, quota, who, at_ms) for who in "ab") for at_ms in (1_430, 1_480)]


def test_the_one_whose_last_turn_is_longest_ago_comes_first() -> None:
    """A batch larger than the bucket leaves nothing to the other, which has its turn next time."""
    turns, quota = made("a", "b")
    assert use(turns, quota, "a", 1_000)
    quota.record(1_000_000, 1_000)
    assert use(turns, quota, "b", 1_100) == 0
    full_ms = quota.next_ms(1_100)
    assert full_ms is not None

    assert (use(turns, quota, "a", full_ms), turns.again_ms("a", quota, full_ms)) == (0, full_ms + LOOK_MS)
    assert use(turns, quota, "b", full_ms + 20) > 0
    assert use(turns, quota, "a", full_ms + LOOK_MS) > 0


def test_one_that_does_not_come_is_passed_over_until_it_asks() -> None:
    """The others wait for it once; when it comes, its part is there."""
    turns, quota = made("b", "a")
    quota.record(500_000, 1_000)
    assert use(turns, quota, "b", 1_000) == 0

    assert use(turns, quota, "a", 1_500) == 0
    assert use(turns, quota, "a", 1_500 + PATIENCE_MS) == 250_000
    assert use(turns, quota, "a", 2_000) == 250_000
    assert use(turns, quota, "b", 2_010) == 250_000
    assert use(turns, quota, "b", 2_020) == 0
    assert [250_000, 250_000] == [use(turns, quota, who, 2_600) for who in "ba"]


def test_turn_that_brought_nothing_does_not_last() -> None:
    """The bucket stays full, so no other filling would end it."""
    turns, quota = made("a", "b")
    turns.offer("a", quota, 1_000)
    turns.take("a", 1_000)

    assert (turns.offer("a", quota, 1_100), turns.again_ms("a", quota, 1_100)) == (0, 1_450)
    turns.offer("b", quota, 1_100)
    turns.take("b", 1_100)
    assert turns.offer("a", quota, 1_450) == 250_000


def test_kafkas_rule_has_no_turns() -> None:
    """Everything or nothing, for everybody."""
    turns, quota = made("a", "b", mode=ThrottleMode.KAFKA)

    assert [UNLIMITED, UNLIMITED] == [turns.offer(who, quota, 1_000) for who in "ab"]
    quota.record(20 * Q, 1_000)
    assert [0, 0] == [turns.offer(who, quota, 1_001) for who in "ab"]
    assert turns.again_ms("a", quota, 1_001) == 2_001


def test_one_that_concedes_is_not_waited_for() -> None:
    """It needs nothing more."""
    turns, quota = made("b", "a")
    turns.concede("b")

    assert len(turns) == 1
    assert use(turns, quota, "a", 1_000) == 500_000
