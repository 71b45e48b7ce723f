"""Brokers that may just have died, and brokers that just did, as clients should see them.

When a leader's process dies, its clients ask the other brokers at once who leads
now, often some milliseconds before the election, and the answer decides how long
they cannot work:

- An answer that still names the dead leader, or none, satisfies them until their
  next regular look, a second or more later. So when a follower has lost its
  connection to a leader, Metadata about what that broker leads waits for the
  controller's verdict, for a moment.
- An answer that moves a partition and drops its old leader from the list of
  brokers at once makes librdkafka throw the partition out together with the
  broker. So a broker that was fenced stays listed for some seconds.

Neither decides anything: only the controller fences and elects. A connection can
also break without a death, therefore a doubt ends by itself.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from syncline.node.clock import Clock
    from syncline.node.deadlines import Deadlines

DOUBT_MS: Final = 300
LISTED_MS: Final = 3000
_NO_BROKERS: Final[frozenset[int]] = frozenset()


class Departures:
    """Which brokers may have died, or were fenced, a moment ago."""

    def __init__(self, clock: "Clock", deadlines: "Deadlines") -> None:
        self._clock = clock
        self._deadlines = deadlines
        self._doubted_until_ms: dict[int, int] = {}
        self._listed_until_ms: dict[int, int] = {}
        self._waiting: list[Callable[[], None]] = []

    def connection_broke(self, broker_id: int) -> None:
        """Doubt a leader: the connection to it broke."""
        if broker_id not in self._doubted_until_ms:
            end_ms = self._clock.mono_ms() + DOUBT_MS
            self._doubted_until_ms[broker_id] = end_ms
            self._deadlines.park(self, end_ms)

    def answered(self, broker_id: int) -> None:
        """End the doubt about a leader: it has answered."""
        if self._doubted_until_ms and self._doubted_until_ms.pop(broker_id, None) is not None:
            self._resume()

    def fenced(self, broker_id: int) -> None:
        """Keep a broker listed that the controller has just fenced."""
        end_ms = self._clock.mono_ms() + LISTED_MS
        self._listed_until_ms[broker_id] = end_ms
        self._deadlines.park(self, end_ms)
        if self._doubted_until_ms.pop(broker_id, None) is not None:
            self._resume()

    def expired(self, now_ms: int) -> None:
        """End what has lasted long enough; called by the deadlines."""
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

    def when_settled(self, resume: Callable[[], None]) -> None:
        """Call back when a doubt has ended, which may not be the last one."""
        self._waiting.append(resume)

    def _resume(self) -> None:
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()
