"""What an ISR tick costs with 50,000 followers: when 100 of them lag, when all lag, when all leave at once.

    python benchmarks/isr_tick.py [--followers 50000] [--lagging 100]

The index, the leaders and the clockwork are those of the broker; the partitions around them are empty. "at a
stretch" is the longest time for which the event loop does nothing else. Aims: with 100 lagging, a tick takes at most
1 ms; with all lagging, at most 150 ms, and at most 10 ms at a stretch. Times are CPU times, so that other processes
do not count. "all leave" proposes 25,000 ISRs with their evidence. The garbage collector is set as a
broker process sets it; each case begins after a full collection.
"""

import argparse
import gc
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from syncline.core.replication.known_brokers import BrokerStanding, KnownBrokers
from syncline.core.replication.lag_policy import lag_policy
from syncline.core.replication.leader import LeaderPartition, PartitionSettings
from syncline.core.replication.slow_leader.rules import SlowReadRules
from syncline.core.replication.tick_index import TickIndex
from syncline.node.partitions.isr_ticks import IsrTicks
from syncline.node.partitions.partition import Partition

LAG_MS = 30_000
REPLICAS = (1, 2, 3)
ROUNDS = 7


class Hosted(Partition):
    """A partition that performs no effects."""

    __slots__ = ()

    def __init__(self) -> None:
        self.leader = None
        self.log = SimpleNamespace(is_offline=False)  # type: ignore[assignment]

    def perform(self, effects: Any) -> None:
        """Do nothing."""


class Turns:
    """An event loop that does nothing but the turns of a tick."""

    def __init__(self) -> None:
        self.due: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Note the next turn."""
        self.due.append(callback)


class Stage:
    """The part of a broker that its ticks see."""

    def __init__(self, followers: int, mode: str, rules: SlowReadRules | None) -> None:
        self.now_ms = 0
        self.turns = Turns()
        self.ticks = TickIndex()
        self.isr_ticks = IsrTicks(
            loop=self.turns,  # type: ignore[arg-type]
            clock=SimpleNamespace(mono_ms=lambda: self.now_ms),  # type: ignore[arg-type]
            configs=SimpleNamespace(),  # type: ignore[arg-type]
            ticks=self.ticks,
            look_at_reads=lambda: None,
            settle=lambda: None,
        )
        brokers = KnownBrokers({each: BrokerStanding(10 * each) for each in REPLICAS})
        settings = PartitionSettings(lag_policy(mode, LAG_MS, 4_000), slow_reads=rules)
        self.partitions = []
        for _ in range(followers // 2):
            hosted = Hosted()
            hosted.leader = LeaderPartition(
                1,
                replicas=REPLICAS,
                isr=REPLICAS,
                leader_epoch=5,
                partition_epoch=20,
                epoch_start_offset=0,
                log_end=100,
                high_watermark=0,
                settings=settings,
                brokers=brokers,
                now_ms=0,
                ticks=self.ticks,
                owner=hosted,
            )
            self.partitions.append(hosted)

    def fetch(self, offset: int, count: int) -> None:
        """Let the followers of `count` partitions fetch."""
        for hosted in self.partitions[:count]:
            leader = hosted.leader
            for follower in (2, 3):
                leader.follower_fetched(follower, offset, 0, leader.log_end, 10 * follower, 5, self.now_ms)

    def append(self, count: int) -> None:
        """Append to `count` partitions."""
        for hosted in self.partitions[:count]:
            hosted.leader.appended(hosted.leader.log_end + 1, self.now_ms)

    def tick(self) -> tuple[float, float]:
        """Run one tick; return what it took, and the longest stretch, in ms."""
        stretches = []
        self.turns.due.append(self.isr_ticks.tick)
        while self.turns.due:
            turn = self.turns.due.pop()
            began_s = time.thread_time()
            turn()
            stretches.append(time.thread_time() - began_s)
        return sum(stretches) * 1000, max(stretches) * 1000


def _best(figures: list[tuple[float, float]]) -> str:
    total, stretch = sorted(figures)[len(figures) // 2]
    return f"{total:8.2f} ms, at most {stretch:5.2f} ms at a stretch"


def _measure(followers: int, lagging: int, mode: str, rules: SlowReadRules | None) -> None:
    stage = Stage(followers, mode, rules)
    stage.fetch(100, len(stage.partitions))
    stage.tick()
    name = f"{mode}{', slow reads protect' if rules else ''}"

    idle = [stage.tick() for _ in range(ROUNDS)]
    print(f"{name}: none lags        {_best(idle)}")
    stage.append(lagging // 2)
    few = [stage.tick() for _ in range(ROUNDS)]
    print(f"{name}: {lagging} of {followers} lag {_best(few)}")
    stage.append(len(stage.partitions))
    every = [stage.tick() for _ in range(ROUNDS)]
    print(f"{name}: all {followers} lag   {_best(every)}")
    stage.now_ms = LAG_MS + 1
    gc.collect()
    leaving = [stage.tick()]
    print(f"{name}: all {followers} leave {_best(leaving)}")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--followers", type=int, default=50_000)
    parser.add_argument("--lagging", type=int, default=100)
    arguments = parser.parse_args()
    gc.set_threshold(50_000, 20, 100)
    for mode, rules in (("time", None), ("time", SlowReadRules()), ("messages", None)):
        _measure(arguments.followers, arguments.lagging, mode, rules)


if __name__ == "__main__":
    main()
