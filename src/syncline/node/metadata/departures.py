"""How Metadata answers show brokers that may have died, or were fenced, a moment ago.

When a leader's process dies, its clients at once ask the other brokers for the new
leader, often some milliseconds before the election. The answer decides how long
they cannot work:

- An answer that still names the dead leader, or none, satisfies them until their
  next regular refresh, a second or more later. So when a follower has lost its
  connection to a leader, Metadata requests for partitions of that leader wait a
  moment for the controller's decision.
- An answer that moves a partition and drops its old leader from the list of
  brokers at once makes librdkafka drop the partition together with the
  broker. So a fenced broker stays listed for some seconds.

Neither decides anything: only the controller fences and elects. A connection can
also break while the broker lives, so a doubt ends after a while.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from syncline.node.clock import Clock
    from syncline.node.loop.deadlines import Deadlines

DOUBT_MS: Final = 300
LISTED_MS: Final = 3000
_NO_BROKERS: Final[frozenset[int]] = frozenset()


class Departures:
    """The brokers that may have died, or were fenced, a moment ago."""

    def __init__(self, clock: "Clock", deadlines: "Deadlines") -> None:
        self._clock = clock
        self._deadlines = deadlines
        self._doubted_until_ms: dict[int, int] = {}
        self._listed_until_ms: dict[int, int] = {}
        self._waiting: list[Callable[[], None]] = []

    def connection_broke(self, broker_id: int) -> None:
        """Doubt that a leader lives: the connection to it broke."""
        if broker_id not in self._doubted_until_ms:
            end_ms = self._clock.mono_ms() + DOUBT_MS
            self._doubted_until_ms[broker_id] = end_ms
            self._deadlines.park(self, end_ms)

    def answered(self, broker_id: int) -> None:
        """Stop doubting a leader: it has answered."""
        if self._doubted_until_ms and self._doubted_until_ms.pop(broker_id, None) is not None:
            self._resume()

    def fenced(self, broker_id: int) -> None:
        """Keep a broker listed although the controller has just fenced it."""
        end_ms = self._clock.mono_ms() + LISTED_MS
        self._listed_until_ms[broker_id] = end_ms
        self._deadlines.park(self, end_ms)
        if self._doubted_until_ms.pop(broker_id, None) is not None:
            self._resume()

    def expired(self, now_ms: int) -> None:
        """End the doubts and listings whose time has passed."""
        for until_ms in (self._doubted_until_ms, self._listed_until_ms):
            for broker_id in [each for each, end_ms in until_ms.items() if end_ms <= now_ms]:
                del until_ms[broker_id]
        self._resume()

    @property
    def doubted(self) -> frozenset[int]:
        """The brokers that may have died."""
        return frozenset(self._doubted_until_ms) if self._doubted_until_ms else _NO_BROKERS

    @property
    def just_fenced(self) -> frozenset[int]:
        """The brokers that were fenced a moment ago."""
        return frozenset(self._listed_until_ms) if self._listed_until_ms else _NO_BROKERS

    def when_doubt_ends(self, resume: Callable[[], None]) -> None:
        """Call `resume` when a doubt has ended; others may remain."""
        self._waiting.append(resume)

    def _resume(self) -> None:
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()
