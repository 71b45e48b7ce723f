"""What a controller remembers of its commits to tell which brokers apply them late."""

import sys

from syncline.model.ids import BrokerId
from syncline.node.controller.broker_watch import COMMITS_MAX, BrokerWatch

# Beyond the small numbers, of which the interpreter has one object each.
FIRST = 1_000


class Clock:
    """A clock that moves by a millisecond per look."""

    def __init__(self) -> None:
        self.now_ms = FIRST

    def mono_ms(self) -> int:
        """Return the time."""
        self.now_ms += 1
        return self.now_ms

    def wall_ms(self) -> int:
        """Return the time."""
        return self.mono_ms()


def test_commits_are_remembered_without_an_object_each() -> None:
    """Thousands of small objects among those of a large request would keep its memory from being given back."""
    watch = BrokerWatch(BrokerId(1), Clock(), lambda _: None)
    watch.committed(FIRST)
    before = sys.getallocatedblocks()
    for version in range(FIRST + 1, FIRST + 2 * COMMITS_MAX):
        watch.committed(version)

    assert sys.getallocatedblocks() - before < COMMITS_MAX / 10
