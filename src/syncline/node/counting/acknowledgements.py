"""How long clients wait for followers: the requests with acks=all that were answered in each interval, for the journal.

The wait begins when all batches of a request are appended, and ends with its answer; a request that timed out waited
all its time. What clients feel besides, the network and the append itself, does not depend on replication.

An interval without such a request is not sampled. Waits are whole milliseconds, so counting them by their length is
exact, and takes less memory than they do.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from syncline.model.events import Acknowledgements
from syncline.model.ids import BrokerId
from syncline.node.clock import Clock


class Summary(NamedTuple):
    """How many requests were answered, and how long half of them, 99 of 100 and all of them waited at most."""

    answered: int
    p50_ms: int
    p99_ms: int
    max_ms: int


class Waits:
    """The waits since the last question."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def note(self, wait_ms: int) -> None:
        """Count one wait."""
        assert wait_ms >= 0, f"a request was answered {-wait_ms} ms before it waited"
        self._counts[wait_ms] = self._counts.get(wait_ms, 0) + 1

    def take(self) -> Summary | None:
        """Return what was noted since the last call, None if nothing was."""
        counts, self._counts = self._counts, {}
        return _summary(counts) if counts else None


def _summary(counts: Mapping[int, int]) -> Summary:
    ordered = sorted(counts.items())
    total = sum(counts.values())

    def within(percent: int) -> int:
        """Return the wait that this part of all did not exceed."""
        left = -(-total * percent // 100)
        for wait_ms, count in ordered:
            left -= count
            if left <= 0:
                return wait_ms
        raise AssertionError(f"{percent} % of {total} are more than there are")

    return Summary(total, within(50), within(99), ordered[-1][0])


class AcknowledgementSampler:
    """Samples the waits of one broker's clients."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        waits: Waits,
        interval_ms: int,
        note: Callable[[Acknowledgements], None],
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._waits = waits
        self._interval_ms = interval_ms
        self._note = note

    def sample(self) -> None:
        """Journal the waits since the last sample, if there were any."""
        found = self._waits.take()
        if found is not None:
            self._note(
                Acknowledgements(
                    ts_ms=self._clock.wall_ms(),
                    broker=self._broker_id,
                    interval_ms=self._interval_ms,
                    count=found.answered,
                    p50_ms=found.p50_ms,
                    p99_ms=found.p99_ms,
                    max_ms=found.max_ms,
                )
            )
