"""Chaos: SIGKILL a random broker every few seconds under acks=all load, then look at everything.

`python -m tests.process.chaos [--seconds N] [--seed N] [--pauses]`: two minutes
by default. With pauses every other victim is stopped (SIGSTOP) for a while
instead, up to twice its session time-out. The run itself is not repeatable, its
choices are: it prints the seed.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import LocalCluster, start_cluster
from tests.process import disks, processes
from tests.process.load import Load, await_full_isr, check_history, create_topic, read_all
from tests.saying import say

TOPIC = "chaos"
PARTITIONS = 4
# Of runs with pauses, so that some of them outlast it.
SESSION_S = 2.0
PAUSE_CONFIG = {
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "1500",
}


@dataclass(frozen=True)
class Outcome:
    """The results of a run."""

    kills: int
    acknowledged: int
    longest_gap_s: float
    full_isr_s: float
    identical_bytes: int
    took_s: float

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.acknowledged} records acknowledged and read back once in order; "
            f"longest time without an acknowledgement in a partition {self.longest_gap_s:.2f} s; ISR full "
            f"{self.full_isr_s:.2f} s after the load; three identical logs of {self.identical_bytes} bytes"
        )


def run(
    cluster: LocalCluster,
    *,
    seconds: float,
    seed: int,
    min_isr: int = 2,
    pause_s: tuple[float, float] = (1.5, 5.0),
    rate_per_s: float = 2_000.0,
    has_pauses: bool = False,
) -> Outcome:
    """Kill random brokers of a running cluster for so long; assert that nothing acknowledged is lost."""
    rng = random.Random(seed)
    began_s = time.monotonic()
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS, config={"min.insync.replicas": str(min_isr)})
    kills = 0
    settings = {"socket.timeout.ms": 1_000} if has_pauses else {}
    with Load(cluster.bootstrap, TOPIC, PARTITIONS, rate_per_s=rate_per_s, settings=settings) as load:
        load.wait_for_more(200)
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            victim = rng.choice(sorted(cluster.pids))
            pid = cluster.pids[victim]
            # Its successor may not have been announced yet.
            with contextlib.suppress(ProcessLookupError):
                if has_pauses and rng.random() < 0.5:
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(rng.uniform(0.1, 2 * SESSION_S))
                    os.kill(pid, signal.SIGCONT)
                else:
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
            time.sleep(min(left_s, rng.uniform(*pause_s)))
        load.wait_for_more(100)
        load.stop()
        full_isr_s = await_full_isr(cluster.bootstrap, [TOPIC])
    assert load.count >= sum(load.sent) * 0.3, "too little was acknowledged to prove anything"
    check_history(load, read_all(cluster.bootstrap, TOPIC, PARTITIONS))
    identical = disks.check_identical(cluster.directory, TOPIC, PARTITIONS)
    return Outcome(kills, load.count, load.longest_gap_s, full_isr_s, identical, time.monotonic() - began_s)


def main() -> int:
    """Run chaos by itself; the exit code says whether everything held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--min-isr", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep the data directory")
    parser.add_argument("--pauses", action="store_true", help="stop every other victim for a while instead")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 31)
    directory = Path(tempfile.mkdtemp(prefix="syncline-chaos-"))
    say(f"chaos for {arguments.seconds:.0f} s, seed {seed}, in {directory}")
    cluster = start_cluster(3, PAUSE_CONFIG if arguments.pauses else None, directory=directory)
    try:
        outcome = run(
            cluster,
            seconds=arguments.seconds,
            seed=seed,
            min_isr=arguments.min_isr,
            has_pauses=arguments.pauses,
        )
    except AssertionError as error:
        say(f"FAILED (python -m tests.process.chaos --seed {seed}): {error}\nthe data is kept in {directory}")
        return 1
    finally:
        cluster.stop()
    processes.await_none(directory)
    say(f"{outcome}")
    if not arguments.keep:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
