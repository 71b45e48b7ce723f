"""Brokers that may just have died, and brokers that just did, as clients should see them.

When a leader's process dies, its clients ask the other brokers at once who leads
now, often some milliseconds before the election, and what they are told decides
how long they stand still:

- An answer that still names the dead leader satisfies them until their next
  regular look, a second or more later. So for a moment after a follower lost
  its connection to a leader, Metadata says LEADER_NOT_AVAILABLE for what that
  broker leads, and clients ask again soon.
- An answer that moves a partition and drops its old leader from the list of
  brokers at once makes librdkafka throw the partition out together with the
  broker. So a broker that was fenced stays listed for some seconds.

Neither decides anything: only the controller fences and elects. A connection can
also break without a death, therefore a doubt ends by itself.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from syncline.node.clock import Clock

DOUBT_MS: Final = 1000
LISTED_MS: Final = 3000
_NOBODY: Final[frozenset[int]] = frozenset()


class Departures:
    """Who may have gone, and who went, a moment ago."""

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock
        self._doubted_until_ms: dict[int, int] = {}
        self._listed_until_ms: dict[int, int] = {}

    def connection_broke(self, broker_id: int) -> None:
        """Note that a leader may have died."""
        self._doubted_until_ms[broker_id] = self._clock.mono_ms() + DOUBT_MS

    def answered(self, broker_id: int) -> None:
        """Note that a leader lives."""
        if self._doubted_until_ms:
            self._doubted_until_ms.pop(broker_id, None)

    def fenced(self, broker_id: int) -> None:
        """Note that the controller fenced a broker just now."""
        self._listed_until_ms[broker_id] = self._clock.mono_ms() + LISTED_MS

    def doubted(self) -> frozenset[int]:
        """Return the brokers that may have died."""
        return self._present(self._doubted_until_ms)

    def just_fenced(self) -> frozenset[int]:
        """Return the brokers that were fenced a moment ago."""
        return self._present(self._listed_until_ms)

    def _present(self, until_ms: dict[int, int]) -> frozenset[int]:
        if not until_ms:
            return _NOBODY
        now_ms = self._clock.mono_ms()
        for broker_id in [each for each, end_ms in until_ms.items() if end_ms <= now_ms]:
            del until_ms[broker_id]
        return frozenset(until_ms)
