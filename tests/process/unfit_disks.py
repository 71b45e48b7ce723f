"""Disks that say no under acks=all load: how soon others lead, and how soon the broker is back.

    python -m tests.process.unfit_disks                    ten times each, some ten minutes
    python -m tests.process.unfit_disks --times 1 --fault full --fault flip

Three brokers, one topic. The disk of broker 2, which leads a third of the partitions,

    full        is a small file system (tmpfs) filled to its last byte and inode, until that is undone
    no-files    is sound, but the process may open no more files (prlimit), until that is undone
    EIO, EROFS  fails one write of one partition; the broker ends, and its supervisor starts it again
    flip        returns one bit in the middle of a log wrong; broker 3 lost its disk, and copies everything again

`no-files` also strikes the broker that is the controller (`no-files-controller`), and one that leads nothing
(`no-files-follower`). Meanwhile these processes must not end.

Printed per trial: the time until other brokers lead all its partitions, the slowest acknowledgement, the time from the
repair until all replicas are in sync, and what `why` names as the cause. At the end all that was acknowledged must be
there, on three equal logs. The brokers' logs of a trial that failed are kept, and their place is printed.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from syncline.local.faults import Faults
from syncline.local.named_brokers import NamedBrokers
from tests.cluster import LocalCluster, start_cluster
from tests.patience import until
from tests.process import disks
from tests.process.load import QUIET, Load, await_full_isr, check_history, create_topic, read_all
from tests.saying import say

TOPIC = "trial"
PARTITIONS = 3
VICTIM, COPIER = 2, 3
DISK_BYTES = 256 << 20
INODES = 1_500
SEGMENT_BYTES = 1 << 20
RECORDS_PER_S, RECORD_BYTES = 600, 2_000
CONFIG = {
    "broker.heartbeat.interval.ms": "500",
    # A follower that only lagged would stay in the ISR for longer than a trial lasts.
    "replica.lag.time.max.ms": "30000",
    "journal.topic.replication.factor": "3",
}
# Called while a fault lasts and others lead, with the time at which it began.
Look = Callable[[LocalCluster, str, datetime], object]
# What begins a fault on one broker, and returns what repairs it.
Begin = Callable[[LocalCluster, Faults, int], Callable[[], None]]
LED_ELSEWHERE_S = 3.0
SLOWEST_S = 5.0
BACK_S = 10.0


@dataclass(frozen=True)
class Outcome:
    """The times of one trial, in seconds, and the causes that `why` names; None if it was not asked."""

    fault: str
    led_elsewhere_s: float
    slowest_s: float
    back_s: float
    causes: tuple[str, ...] | None = None

    @property
    def is_good(self) -> bool:
        """Whether all times are within their limits, and the cause is among those named."""
        return self.is_good_on(1)

    def is_good_on(self, slowness: float) -> bool:
        """Return the same of a machine that is so many times slower than one that does nothing else."""
        is_named = self.causes is None or FAULTS[self.fault].cause in self.causes
        times = ((self.led_elsewhere_s, LED_ELSEWHERE_S), (self.slowest_s, SLOWEST_S), (self.back_s, BACK_S))
        return is_named and all(took_s <= limit_s * slowness for took_s, limit_s in times)

    def __str__(self) -> str:
        times = f"{self.led_elsewhere_s:12.2f} s{self.slowest_s:12.2f} s{self.back_s:12.2f} s"
        verdict = "" if self.is_good else "   FAILED"
        return f"{self.fault:20}{times}   {', '.join(self.causes or ())}{verdict}"


@contextlib.contextmanager
def ground() -> Iterator[LocalCluster]:
    """Three brokers, the victim's directory on a small file system; raises OSError if none can be mounted."""
    directory = Path(tempfile.mkdtemp(prefix="syncline-disks-"))
    place = directory / f"broker-{VICTIM}"
    place.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},nr_inodes={INODES},mode=0700", "tmpfs", str(place)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    try:
        if mounted.returncode:
            raise OSError(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
        cluster = start_cluster(3, CONFIG, directory=directory)
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False, capture_output=True)
        shutil.rmtree(directory, ignore_errors=True)


def leaders(cluster: LocalCluster) -> list[int]:
    """Return the leader of each partition; none if the cluster does not answer."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    try:
        topic = admin.list_topics(TOPIC, timeout=2).topics[TOPIC]
    except KafkaException:
        return []
    return [partition.leader for partition in topic.partitions.values()]


def prefer(cluster: LocalCluster, victim: int) -> None:
    """Return the leaderships to the preferred replicas, of which the victim is one."""
    command = [sys.executable, "-m", "syncline", "topics", "elect-leaders", "--data", str(cluster.directory)]

    answers: list[subprocess.CompletedProcess[str]] = []

    def leads_again() -> bool:
        if victim in leaders(cluster):
            return True
        answers.append(subprocess.run(command, capture_output=True, text=True, check=False))
        return False

    until(leads_again, 60, otherwise=lambda: f"broker {victim} gets no leadership back: {answers[-1:]}")


# The faults: each begins, and returns what repairs it.


def fill(cluster: LocalCluster, _faults: Faults, victim: int) -> Callable[[], None]:
    """Use up all space, for data and for names."""
    ballast = cluster.directory / f"broker-{victim}" / "ballast"
    ballast.mkdir()
    with (ballast / "data").open("wb", buffering=0) as file:
        for size in (1 << 20, 4096):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    with contextlib.suppress(OSError):
        for number in range(INODES):
            (ballast / str(number)).touch()
    return lambda: shutil.rmtree(ballast)


def take_descriptors(cluster: LocalCluster, _faults: Faults, victim: int) -> Callable[[], None]:
    """Forbid the process to open another file; what is open stays open."""
    pid = cluster.pids[victim]
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))

    def give_back() -> None:
        assert cluster.pids[victim] == pid, f"broker {victim} has ended, though it only lacked descriptors"
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    return give_back


def fail_with(error: str) -> Begin:
    """Return a fault: one write fails for good; the restart is the repair."""

    def begin(_cluster: LocalCluster, faults: Faults, victim: int) -> Callable[[], None]:
        faults.add("disk-fail", broker=victim, topic=TOPIC, direction="write", errno=error, trigger="once")
        return lambda: None

    return begin


def flip(cluster: LocalCluster, _faults: Faults, victim: int) -> Callable[[], None]:
    """Flip a bit in the middle of each log that the victim leads, and let the third broker copy all of it."""
    supervisor = cluster.running.supervisor_pid
    directory = cluster.directory / f"broker-{COPIER}"
    os.kill(supervisor, signal.SIGSTOP)
    try:
        pid = cluster.pids[COPIER]
        os.kill(pid, signal.SIGKILL)
        until(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z", otherwise="it does not die")
        shutil.rmtree(directory)
        for partition, leader in enumerate(leaders(cluster)):
            if leader == victim:
                segments = sorted((cluster.directory / f"broker-{victim}" / f"{TOPIC}-{partition}").glob("*.log"))
                disks.flip_bit(segments[(len(segments) - 1) // 2])
    finally:
        os.kill(supervisor, signal.SIGCONT)
    return lambda: None


# The brokers that faults strike.


def the_victim(_cluster: LocalCluster) -> int:
    """Return the broker whose disk can be filled."""
    return VICTIM


def the_controller(cluster: LocalCluster) -> int:
    """Return the controller."""
    (controller,) = NamedBrokers(cluster.directory).named(["controller"])
    return controller


class Fault(NamedTuple):
    """A fault, the broker that it strikes, and how `why` calls it."""

    begin: Begin
    cause: str
    strikes: Callable[[LocalCluster], int] = the_victim
    # Whether it strikes after another broker has got all leaderships.
    is_follower: bool = False


FAULTS: dict[str, Fault] = {
    "full": Fault(fill, "disk-full"),
    "no-files": Fault(take_descriptors, "no-descriptors"),
    "no-files-controller": Fault(take_descriptors, "no-descriptors", the_controller),
    "no-files-follower": Fault(take_descriptors, "no-descriptors", is_follower=True),
    "EIO": Fault(fail_with("EIO"), "disk-failed"),
    "EROFS": Fault(fail_with("EROFS"), "disk-failed"),
    "flip": Fault(flip, "log-damaged"),
}


def isr_without(cluster: LocalCluster, victim: int) -> bool:
    """Return whether every partition has an ISR and the victim is in none, so that nobody waits for it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    try:
        topic = admin.list_topics(TOPIC, timeout=2).topics[TOPIC]
    except KafkaException:
        return False
    return all(partition.isrs and victim not in partition.isrs for partition in topic.partitions.values())


def is_led_elsewhere(cluster: LocalCluster, victim: int) -> bool:
    """Return whether every partition has a leader, and the victim leads none."""
    found = leaders(cluster)
    return bool(found) and victim not in found and -1 not in found


def trial(cluster: LocalCluster, load: Load, fault: str, look: Look) -> Outcome:
    """Begin a fault, wait until others lead, look, repair it, wait until all are in sync; return the times."""
    begin, _, strikes, is_follower = FAULTS[fault]
    await_full_isr(cluster.bootstrap, [TOPIC])
    victim = strikes(cluster)
    faults = Faults(cluster.directory)
    if is_follower:
        if victim in leaders(cluster):
            give_back = begin(cluster, faults, victim)
            until(lambda: is_led_elsewhere(cluster, victim), 30, otherwise=f"broker {victim} still leads")
            give_back()
            await_full_isr(cluster.bootstrap, [TOPIC])
    else:
        prefer(cluster, victim)
    load.wait_for_more(600)
    load.take_slowest_s()
    began = datetime.now().astimezone()
    repair = begin(cluster, faults, victim)
    # Filling a disk takes seconds on a busy machine, and before its end nothing is wrong.
    began_s = time.monotonic()
    until(
        lambda: is_led_elsewhere(cluster, victim) and (not is_follower or isr_without(cluster, victim)),
        30,
        otherwise=lambda: f"{fault}: broker {victim} still leads: {leaders(cluster)}",
        pause_s=0.02,
    )
    led_elsewhere_s = time.monotonic() - began_s
    load.wait_for_more(600)
    causes = look(cluster, fault, began)
    repair()
    back_s = await_full_isr(cluster.bootstrap, [TOPIC], 60)
    load.wait_for_more(300)
    named = tuple(sorted(causes)) if isinstance(causes, set) else None
    return Outcome(fault, led_elsewhere_s, load.take_slowest_s(), back_s, named)


def ask_why(cluster: LocalCluster, _fault: str, began: datetime) -> set[str]:
    """Return what `why` names as the causes of what happened since a fault began, for all partitions of the topic."""
    since = began.isoformat()
    command = [sys.executable, "-m", "syncline", "why", "--json", "--since", since, "--data", str(cluster.directory)]

    def cause(partition: int) -> str:
        asked = subprocess.run([*command, f"{TOPIC}:{partition}"], capture_output=True, text=True, check=False)
        return str(json.loads(asked.stdout)["cause"]) if not asked.returncode else asked.stderr.strip()

    return {cause(partition) for partition in range(PARTITIONS)}


def run(
    faults: list[str],
    times: int,
    say: Callable[[str], object],
    look: Look = lambda *_: None,
    keep: Path | None = None,
) -> list[Outcome]:
    """Run the trials, each round on a new cluster; assert after each that nothing acknowledged is lost.

    The brokers' logs of a round that fails are copied into `keep`.
    """
    outcomes: list[Outcome] = []
    for number in range(times):
        with ground() as cluster, kept_logs(cluster, keep, outcomes):
            configs = {"min.insync.replicas": "2", "segment.bytes": str(SEGMENT_BYTES)}
            create_topic(cluster.bootstrap, TOPIC, PARTITIONS, config=configs)
            with Load(cluster.bootstrap, TOPIC, PARTITIONS, rate_per_s=RECORDS_PER_S, size_bytes=RECORD_BYTES) as load:
                # More than one segment each.
                load.wait_for_more(PARTITIONS * SEGMENT_BYTES // RECORD_BYTES)
                for fault in faults:
                    outcomes.append(trial(cluster, load, fault, look))
                    say(f"{number + 1:3}  {outcomes[-1]}")
                load.stop()
            await_full_isr(cluster.bootstrap, [TOPIC])
            check_history(load, read_all(cluster.bootstrap, TOPIC, PARTITIONS))
            disks.check_identical(cluster.directory, TOPIC, PARTITIONS)
            say(f"     {load.count} acknowledged records are there, once and in order, on three equal logs")
    return outcomes


@contextlib.contextmanager
def kept_logs(cluster: LocalCluster, keep: Path | None, outcomes: list[Outcome]) -> Iterator[None]:
    """Copy the brokers' logs into `keep` if what happens meanwhile fails, or an outcome is bad."""
    before = len(outcomes)
    is_good = False
    try:
        yield
        is_good = all(each.is_good for each in outcomes[before:])
    finally:
        if keep is not None and not is_good:
            shutil.copytree(cluster.directory / "logs", keep / f"round-{before}", dirs_exist_ok=True)
            sys.stderr.write(f"the brokers' logs are kept in {keep / f'round-{before}'}\n")


def main() -> int:
    """Run, and return 0 if all times are within their limits."""
    parser = argparse.ArgumentParser(prog="python -m tests.process.unfit_disks", description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=10, help="how often each fault strikes (default: 10)")
    parser.add_argument("--fault", action="append", choices=list(FAULTS), help="only this one; repeatable")
    parser.add_argument("--keep", type=Path, help="where to keep the logs of a failed trial (default: a new directory)")
    options = parser.parse_args()
    keep = options.keep or Path(tempfile.mkdtemp(prefix="unfit-disks-"))

    faults = options.fault or list(FAULTS)
    say(f"     {'fault':20}{'led elsewhere':>14}{'slowest ack':>14}{'back in sync':>14}   causes")
    outcomes = run(faults, options.times, say, ask_why, keep)
    for fault in faults:
        mine = [each for each in outcomes if each.fault == fault]
        say(f"{fault:20}{sum(each.is_good for each in mine):4} of {len(mine)} within the limits")
    return 0 if all(each.is_good for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
