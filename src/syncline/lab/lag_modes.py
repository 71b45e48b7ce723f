"""The three lag modes side by side: the same events, judged by each rule (KIP-16, KAFKA-4485).

This starts no brokers: each situation plays 40 seconds of one partition through the rules that brokers call, on its own
clock. The lag window is 10,000 ms, ticks come every 5,000 ms, and `replica.lag.max.messages` is 4,000.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from syncline.core.replication.effects import Effects, IsrAnswer, ProposeIsr
from syncline.core.replication.known_brokers import BrokerStanding, KnownBrokers
from syncline.core.replication.lag_policy import lag_policy
from syncline.core.replication.leader import LeaderPartition, PartitionSettings
from syncline.core.replication.slow_leader.pending_fetches import PendingFetches
from syncline.core.replication.slow_leader.rules import SlowReadRules
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from syncline.pictures.labels import seconds

MODES: Final = ("messages", "lag-begin", "time")
LAG_MS: Final = 10_000
TICK_MS: Final = 5_000
MESSAGES_MAX: Final = 4_000
LAST_MS: Final = 40_000

LEADER: Final = BrokerId(1)
FOLLOWER: Final = BrokerId(2)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict of one rule: when a tick evicted the follower, when it returned, whether it is in at the end."""

    evicted_ms: int | None
    returned_ms: int | None
    is_in: bool

    def __str__(self) -> str:
        if self.evicted_ms is None:
            return "in"
        back = f", back after {seconds(self.returned_ms - self.evicted_ms)}" if self.returned_ms is not None else ""
        return f"out at {self.evicted_ms / 1000:g} s{back}"


@dataclass(frozen=True, slots=True)
class Row:
    """One situation, and the outcome under each mode."""

    situation: str
    outcomes: dict[str, Outcome]


class _Stage:
    """A leader, one follower, and a controller that confirms at once; time is in ms."""

    def __init__(self, mode: str, log_end: int = 0, *, protects: bool = False) -> None:
        self.mode = mode
        self.evicted_ms: int | None = None
        self.returned_ms: int | None = None
        self.fetches = PendingFetches()
        self.leader = LeaderPartition(
            LEADER,
            replicas=(LEADER, FOLLOWER),
            isr=(LEADER, FOLLOWER),
            leader_epoch=LeaderEpoch(1),
            partition_epoch=PartitionEpoch(1),
            epoch_start_offset=Offset(0),
            log_end=Offset(log_end),
            high_watermark=Offset(0),
            settings=PartitionSettings(
                lag_policy(mode, LAG_MS, MESSAGES_MAX), slow_reads=SlowReadRules(cap_ms=60_000) if protects else None
            ),
            brokers=KnownBrokers({each: BrokerStanding(BrokerEpoch(each)) for each in (LEADER, FOLLOWER)}),
            now_ms=0,
        )

    def append(self, count: int, now_ms: int) -> None:
        """Append `count` records."""
        self._perform(self.leader.appended(Offset(self.leader.log_end + count), now_ms), now_ms)

    def fetch(self, offset: int, now_ms: int, *, captured: int | None = None, read_ms: int = 0) -> None:
        """Serve a fetch that arrived `read_ms` ago."""
        self._perform(
            self.leader.follower_fetched(
                FOLLOWER,
                Offset(offset),
                Offset(0),
                Offset(self.leader.log_end if captured is None else captured),
                BrokerEpoch(FOLLOWER),
                self.leader.leader_epoch,
                now_ms - read_ms,
            ),
            now_ms,
        )

    def tick(self, now_ms: int) -> None:
        """Run an ISR tick."""
        self._perform(self.leader.tick(now_ms), now_ms)

    def _perform(self, effects: Effects, now_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, ProposeIsr):
                answer = IsrAnswer(
                    ErrorCode.NONE,
                    effect.leader_epoch,
                    PartitionEpoch(effect.partition_epoch + 1),
                    effect.broker_ids,
                )
                self._perform(self.leader.alter_partition_answered(effect, answer, now_ms), now_ms)
                is_in = FOLLOWER in effect.broker_ids
                if not is_in and self.evicted_ms is None:
                    self.evicted_ms = now_ms
                elif is_in and self.returned_ms is None:
                    self.returned_ms = now_ms

    @property
    def outcome(self) -> Outcome:
        """When the follower left the ISR and returned, and whether it is in."""
        return Outcome(self.evicted_ms, self.returned_ms, FOLLOWER in self.leader.isr)


# One event of a situation.
_Event = Callable[[_Stage, int], None]


def _play(stage: _Stage, events_of: Callable[[], Iterator[tuple[int, _Event]]]) -> Outcome:
    """Play the events in order of time, each tick after the events of the same time."""
    events = [(now_ms, 0, order, event) for order, (now_ms, event) in enumerate(events_of())]
    events += [(now_ms, 1, 0, _tick) for now_ms in range(0, LAST_MS + 1, TICK_MS)]
    for now_ms, _, _, event in sorted(events, key=_when):
        event(stage, now_ms)
    return stage.outcome


def _when(event: tuple[int, int, int, _Event]) -> tuple[int, int, int]:
    return event[:3]


def _tick(stage: _Stage, now_ms: int) -> None:
    stage.tick(now_ms)


def _append(count: int) -> _Event:
    return lambda stage, now_ms: stage.append(count, now_ms)


def _fetch(offset: int) -> _Event:
    return lambda stage, now_ms: stage.fetch(offset, now_ms)


def _burst(at_ms: int) -> Iterator[tuple[int, _Event]]:
    """10,000 records at once; the follower, which fetches every 500 ms, has them all 300 ms later."""
    for now_ms in range(0, LAST_MS + 1, 500):
        if not at_ms - 500 < now_ms <= at_ms + 300:
            yield now_ms, _fetch(0 if now_ms < at_ms else 10_000)
    yield at_ms, _append(10_000)
    yield at_ms + 300, _fetch(10_000)


def _steady() -> Iterator[tuple[int, _Event]]:
    """A record every 10 ms; each fetch, every 100 ms, asks for what the previous one did not bring."""
    yield 0, _fetch(0)
    for now_ms in range(10, LAST_MS + 1, 10):
        yield now_ms, _append(1)
        if now_ms % 100 == 0:
            yield now_ms, _fetch((now_ms - 100) // 10)


def _idle_and_dead() -> Iterator[tuple[int, _Event]]:
    """The follower has everything, and never fetches again."""
    yield 1_000, _fetch(0)


def _far_behind() -> Iterator[tuple[int, _Event]]:
    """A record every second; the follower fetches twice a second, always 3,000 records behind."""
    for now_ms in range(500, LAST_MS + 1, 500):
        if now_ms % 1_000 == 0:
            yield now_ms, _append(1)
        yield now_ms, _fetch(now_ms // 1_000)


def _too_slow() -> Iterator[tuple[int, _Event]]:
    """2,000 records arrive every second; the follower copies 1,000 of them."""
    yield 0, _fetch(0)
    for second in range(1, LAST_MS // 1_000 + 1):
        yield second * 1_000, _append(2_000)
        yield second * 1_000, _fetch((second - 1) * 1_000)


def _slow_leader() -> Iterator[tuple[int, _Event]]:
    """A fetch that arrives at 2,000 ms is served at 27,000 ms, because the disk is slow."""
    yield 500, _fetch(0)
    yield 900, _append(52)
    yield 1_000, _fetch(0)
    yield 1_500, _append(98)
    yield 27_000, lambda stage, now_ms: stage.fetch(52, now_ms, captured=150, read_ms=25_000)
    for now_ms in range(27_500, LAST_MS + 1, 500):
        yield now_ms, _fetch(150)


def _slow_leader_protected(mode: str) -> Outcome:
    """Return the outcome for the same follower while slow reads protect it (KIP-501)."""
    stage = _Stage(mode, protects=True)

    def events_of() -> Iterator[tuple[int, _Event]]:
        yield 500, _fetch(0)
        yield 900, _append(52)
        yield 1_000, _fetch(0)
        yield 1_500, _append(98)
        yield 2_000, _ask
        yield 27_000, _serve
        for now_ms in range(27_500, LAST_MS + 1, 500):
            yield now_ms, _fetch(150)

    return _play(stage, events_of)


def _ask(stage: _Stage, now_ms: int) -> None:
    request = stage.fetches.open(FOLLOWER, BrokerEpoch(FOLLOWER), now_ms)
    assert stage.leader.slow_leader is not None, "slow reads protect in this situation"
    stage.leader.slow_leader.fetch_pends(FOLLOWER, Offset(52), request)


def _serve(stage: _Stage, now_ms: int) -> None:
    (request,) = stage.fetches.requests.values()
    (entry,) = request.entries
    entry.ended_ms = now_ms
    stage.leader.follower_fetched(
        FOLLOWER,
        Offset(52),
        Offset(0),
        Offset(150),
        request.broker_epoch,
        stage.leader.leader_epoch,
        request.arrival_ms,
        entry=entry,
    )
    stage.fetches.answered(request, now_ms)


_SITUATIONS: Final[tuple[tuple[str, Callable[[], Iterator[tuple[int, _Event]]], int], ...]] = (
    ("one burst of 10,000 records, a tick within the 300 ms that the follower needs", lambda: _burst(14_900), 0),
    ("the same burst between two ticks", lambda: _burst(12_000), 0),
    ("a record every 10 ms, fetches every 100 ms that never reach the end", _steady, 0),
    ("an idle partition with a dead follower", _idle_and_dead, 0),
    ("a record a second, the follower 3,000 behind but fetching", _far_behind, 3_000),
    ("2,000 records a second; the follower copies 1,000 of them", _too_slow, 0),
    ("the leader takes 25 s to read for the follower", _slow_leader, 0),
)


def rows() -> list[Row]:
    """Return every situation with the outcome under each mode, in the order of `MODES`."""
    table = [
        Row(situation, {mode: _play(_Stage(mode, log_end), events_of) for mode in MODES})
        for situation, events_of, log_end in _SITUATIONS
    ]
    name = "the same with follower.fetch.pending.reads.insync.enable (KIP-501)"
    table.append(Row(name, {mode: _slow_leader_protected(mode) for mode in MODES}))
    return table
