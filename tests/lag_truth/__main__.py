"""Ten minutes of real clients and killed leaders, and whether every lag that the brokers told is true.

    python -m tests.lag_truth [--minutes 10] [--seed N] [--keep]

Three brokers; confluent-kafka, aiokafka, kafka-python and franz-go produce to six partitions and read them, at random
speeds, with pauses, restarts and commits; the leader of a partition is killed after a third and after two thirds of the
time. Each group's rows are taken twice a second. Afterwards the lag is computed from the files and what the clients
logged, by brute force; every row must be right within 250 ms, 0 records, one index interval and one batch in bytes.

A run is not repeatable, its choices are: it prints the seed.
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.cluster import QUICK_GROUPS, LocalCluster, start_cluster
from tests.interop.agent import Agent
from tests.interop.clients import CLIENTS
from tests.interop.toolchains import Launch, MissingError
from tests.lag_truth.actors import Actor, ConsumerActor, ProducerActor
from tests.lag_truth.history import History, now_ms
from tests.lag_truth.sampling import Sample, Sampler
from tests.lag_truth.truth import PartitionTruth, Verdict
from tests.process import disks, processes
from tests.process.load import await_full_isr, create_topic
from tests.saying import say

LIBRARIES = ("confluent-kafka", "aiokafka", "kafka-python", "franz-go")
TOPIC = "truth"
PARTITIONS = 6
# Small, so that most of the log lies in finished segments.
TOPIC_CONFIG = {"min.insync.replicas": "2", "internal.segment.bytes": "131072"}
# Of all producers together.
RECORDS_PER_S = 60.0
SAMPLES_MIN_PER_MIN = 1_000
# After a kill, for so long a sample counts as "right after an election".
SOON_MS = 5_000
SHOWN = 10


def launches(names: Sequence[str]) -> dict[str, Launch]:
    """Return how to start each client library that can be had here, and say which cannot."""
    found = {}
    for name in names:
        try:
            found[name] = CLIENTS[name].ready()
        except MissingError as error:
            say(f"SKIPPED {name}: {error}")
    return found


def leader_of(cluster: LocalCluster, partition: int) -> int:
    """Return the leader of a partition, as a client sees it."""
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(TOPIC, timeout=10)
    return int(metadata.topics[TOPIC].partitions[partition].leader)


def play(
    cluster: LocalCluster, clients: dict[str, Launch], *, seconds: float, seed: int, history: History
) -> tuple[list[Sample], list[Sampler], list[float]]:
    """Let clients work while leaders are killed; return the samples, who took them, and when a leader was killed."""
    rng = random.Random(seed)

    def starter(launch: Launch) -> Agent:
        return Agent(launch.command, cluster.bootstrap, launch.environment)

    actors: list[Actor] = []
    samplers: list[Sampler] = []
    for name, launch in clients.items():
        start = lambda launch=launch: starter(launch)  # noqa: E731
        rate = RECORDS_PER_S / len(clients) * rng.choice((0.5, 1, 2))
        actors.append(ProducerActor(name, start, seed, history, TOPIC, PARTITIONS, rate))
        consumer = ConsumerActor(name, start, seed, history, TOPIC, PARTITIONS)
        actors.append(consumer)
        samplers.append(Sampler(cluster.directory, consumer.group))
    threads = [each.thread for each in (*actors, *samplers)]
    for thread in threads:
        thread.start()
    killed_ms = []
    for _ in range(2):
        time.sleep(seconds / 3)
        victim = leader_of(cluster, rng.randrange(PARTITIONS))
        killed_ms.append(now_ms())
        cluster.kill(victim)
        say(f"  killed broker {victim}, {sum(len(each.samples) for each in samplers)} rows so far")
    time.sleep(seconds / 3)
    for each in (*samplers, *actors):
        each.is_over.set()
    for thread in threads:
        thread.join(90)
    failures = [f"{actor.name}: {actor.failure!r}" for actor in actors if actor.failure is not None]
    assert not failures, failures
    assert not [thread.name for thread in threads if thread.is_alive()], "threads that do not end"
    return [sample for sampler in samplers for sample in sampler.samples], samplers, killed_ms


def longest_gap_s(samples: Sequence[Sample]) -> float:
    """Return the longest time in which some row of some group was missing."""
    taken: dict[tuple[str, int], list[float]] = {}
    for sample in samples:
        taken.setdefault((sample.group, sample.row["partition"]), []).append(sample.answered_ms)
    gaps = [later - earlier for times in taken.values() for earlier, later in pairwise(sorted(times))]
    return max(gaps, default=0.0) / 1_000


def judge(cluster: LocalCluster, samples: Sequence[Sample], history: History) -> Verdict:
    """Compare all samples with what the stopped brokers' files and the clients' log say."""
    disks.check_identical(cluster.directory, TOPIC, PARTITIONS)
    truths = [
        PartitionTruth(disks.log_bytes(cluster.directory, 1, TOPIC, partition), partition, history)
        for partition in range(PARTITIONS)
    ]
    verdict = Verdict(truths, history)
    for sample in samples:
        verdict.judge(sample)
    return verdict


def run(cluster: LocalCluster, clients: dict[str, Launch], *, seconds: float, seed: int) -> int:
    """Play and judge; stop the cluster in between. Return how many rows are wrong."""
    history = History()
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS, config=TOPIC_CONFIG)
    samples, samplers, killed_ms = play(cluster, clients, seconds=seconds, seed=seed, history=history)
    await_full_isr(cluster.bootstrap, [TOPIC])
    cluster.stop()
    verdict = judge(cluster, samples, history)
    soon = sum(any(0 <= each.answered_ms - at_ms <= SOON_MS for at_ms in killed_ms) for each in samples)
    lags = sorted(sample.row["lag_hw"] for sample in samples if sample.row["committed"] is not None)
    say(f"  {len(history.sent_ms)} records sent, {len(history.acknowledged_ms)} acknowledged; {dict(history.counts)}")
    say(
        f"  {verdict.samples} rows judged ({soon} of all within {SOON_MS // 1000} s of a kill, {verdict.estimated}"
        f" estimated), {verdict.without_commit} without a commit, {verdict.incomplete} without a place;"
        f" partitions without an answer {sum(each.unanswered for each in samplers)}, questions without one"
        f" {sum(each.silent for each in samplers)}; longest time without a row {longest_gap_s(samples):.1f} s"
    )
    if lags:
        say(f"  lags in records: half above {lags[len(lags) // 2]}, the largest {lags[-1]}")
    worst = verdict.worst
    say(
        f"  worst errors: {worst.time_ms:.1f} ms of 250, {worst.records:g} records of 0, {worst.size_bytes} bytes of"
        f" {verdict.bytes_limit}"
    )
    for errors, sample in verdict.violations[:SHOWN]:
        say(f"  WRONG {errors}: {sample}")
    few = SAMPLES_MIN_PER_MIN * seconds / 60
    if verdict.samples < few:
        say(f"  only {verdict.samples} rows were judged, {few:.0f} are needed")
        return len(verdict.violations) + 1
    return len(verdict.violations)


def main() -> int:
    """Run; return 0 if every row was right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", action="store_true", help="keep the data directory")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 31)
    clients = launches(LIBRARIES)
    directory = Path(tempfile.mkdtemp(prefix="syncline-lag-truth-"))
    say(f"lag truth for {arguments.minutes:g} min, seed {seed}, with {', '.join(clients)}, in {directory}")
    cluster = start_cluster(3, QUICK_GROUPS, directory=directory)
    wrong = -1
    try:
        wrong = run(cluster, clients, seconds=60 * arguments.minutes, seed=seed)
    finally:
        if cluster.process.poll() is None:
            cluster.stop()
    processes.await_none(directory)
    if wrong or arguments.keep:
        say(f"the data is kept in {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    say("every row was right" if not wrong else f"FAILED: {wrong} rows are wrong")
    left = [
        thread.name for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()
    ]
    assert not left, f"threads are left: {left}"
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
