"""What consumers' fetches find, for the journal: the counts of each topic in each interval.

The histograms of `fetch_lag` grow for as long as the broker runs. A sample is the difference of two looks, so that the
samples of an interval can be added over brokers and intervals. A topic without fetches has none.

Work is in proportion to readers and topics, a reader per step. Invariant: at most `TOPICS_MAX` topics have a sample of
their own; all others share one sample, under an empty name, as do topics beyond the bound of one reader.
"""

from collections.abc import Callable, Iterator
from typing import Final

from syncline.core.lag.buckets import Weighted
from syncline.model.ids import JOURNAL_TOPIC, BrokerId
from syncline.model.lag import UNKNOWN
from syncline.model.lag_events import Entry, FetchLagSample
from syncline.node.clock import Clock
from syncline.node.lag.fetch_lag import OTHER, Cell, FetchLag

# Two cells of 3 kB are kept for each.
TOPICS_MAX: Final = 256


class FetchLagSampler:
    """Samples the reads of one broker's consumers."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        lag: FetchLag,
        interval_ms: int,
        note: Callable[[FetchLagSample], None],
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._lag = lag
        self._interval_ms = interval_ms
        self._note = note
        # Topics with a sample of their own, and what was counted in each at the last look.
        self._told: dict[str, None] = {}
        self._before: dict[str, Cell] = {}

    def sample(self) -> Iterator[None]:
        """Journal what was read since the last sample; yields after each reader and topic."""
        now: dict[str, Cell] = {}
        for reader in list(self._lag.readers()):
            yield
            for topic, cell in list(reader.by_topic()):
                # A reader of the journal reads each sample, too.
                if topic != JOURNAL_TOPIC:
                    now.setdefault(self._name(topic), Cell()).add(cell)
        before, self._before = self._before, now
        for topic, cell in now.items():
            yield
            self._compare(topic, before.get(topic) or Cell(), cell)

    def _name(self, topic: str) -> str:
        # Once told apart a topic stays so, or what it had before would count as read now.
        if topic not in self._told and len(self._told) < TOPICS_MAX:
            self._told[topic] = None
        return topic if topic in self._told else OTHER

    def _compare(self, topic: str, before: Cell, now: Cell) -> None:
        fetches = sum(now.behind_bytes.fetches) - sum(before.behind_bytes.fetches)
        assert fetches >= 0, f"{-fetches} fetches of {topic} were counted and are no more"
        if not fetches:
            return
        self._note(
            FetchLagSample(
                ts_ms=self._clock.wall_ms(),
                broker=self._broker_id,
                topic=topic,
                interval_ms=self._interval_ms,
                fetches=fetches,
                read_bytes=sum(now.behind_bytes.bytes) - sum(before.behind_bytes.bytes),
                behind_bytes=_buckets(before.behind_bytes, now.behind_bytes),
                event_ms=_buckets(before.event_ms, now.event_ms),
                age_ms=_buckets(before.age_ms, now.age_ms),
                distance_bytes=_buckets(before.distance_bytes, now.distance_bytes),
                unknown_age_bytes=now.unknown_age_bytes - before.unknown_age_bytes,
            )
        )


def _buckets(before: Weighted, now: Weighted) -> tuple[Entry, ...]:
    """Return the buckets that have more than before, with what came."""
    found: list[Entry] = []
    for index, count in enumerate(now.fetches):
        fetches = count - before.fetches[index]
        if fetches:
            is_bounded = index < now.scale.bound_count
            up_to = now.scale.bound(index) if is_bounded else UNKNOWN
            found.append({"up_to": up_to, "fetches": fetches, "bytes": now.bytes[index] - before.bytes[index]})
    return tuple(found)
