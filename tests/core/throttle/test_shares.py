"""Sharing an allowance among requests and their partitions; how long a quota held something back."""

import pytest

from syncline.core.throttle.held_time import HeldTime
from syncline.core.throttle.shares import SHARE_BYTES_MIN, partition_share, request_part


def test_each_request_takes_its_part() -> None:
    """Two leaders that feed one broker get the same."""
    assert [900, 450, 300] == [request_part(900, 0, contenders) for contenders in (1, 2, 3)]
    assert [450, 450] == [request_part(900, 0, 2), request_part(450, 450, 2)]
    assert (1, 0) == (request_part(1, 0, 5), request_part(0, 900, 5))


def test_partitions_get_their_limit_in_turn_and_the_last_one_a_worthwhile_rest() -> None:
    """A share that is not worth a read is left for another turn, unless it is all there is."""
    left, shares = 2_500_000, []
    while share := partition_share(left, 1_048_576, is_first=not shares):
        shares.append(share)
        left -= share

    assert [1_048_576, 1_048_576, 402_848] == shares
    assert partition_share(SHARE_BYTES_MIN - 1, 1_048_576, is_first=False) == 0
    assert partition_share(1_000, 1_000, is_first=False) == 1_000
    assert partition_share(7, 1_048_576, is_first=True) == 7
    assert partition_share(0, 1_048_576, is_first=True) == 0


def test_held_time_is_the_share_of_the_newest_window() -> None:
    """Exceeded for 4 of the first 10 s; eleven seconds later that is forgotten."""
    held = HeldTime(10, 1_000)
    for second in range(11):
        held.look(second * 1_000, is_exceeded=2 <= second < 6)

    assert held.ratio(10_000) == pytest.approx(0.4, abs=0.05)
    held.look(21_000, is_exceeded=False)
    assert held.ratio(21_000) == 0
