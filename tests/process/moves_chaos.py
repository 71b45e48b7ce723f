"""Moves under kills: partitions move under load while SIGKILL strikes the command, controller, source and destination.

`python -m tests.process.moves_chaos [--moves N] [--seed N]`: 30 moves by default. Each is started by the real
`syncline reassign execute`, with a throttle or with a deadline, which is often killed at a random point; another
process then looks, goes on (`resume`), starts again what never began, or cancels. The run itself is not repeatable, its
choices are: it prints the seed.

At the end each move was completed or cancelled, nothing of it is left (no reassignment, move, throttle, or directory
of a broker that is no replica), every acknowledged record is read once and in order, and the replicas of each
partition are identical.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from syncline.model.metadata import MetadataImage
from tests.cli.terminal import ENVIRONMENT, as_json, command
from tests.cluster import LocalCluster, start_cluster
from tests.patience import until
from tests.process import disks, processes
from tests.process.load import Load, await_full_isr, check_history, create_topic, read_all
from tests.saying import say

TOPIC: Final = "moving"
BROKERS: Final = (1, 2, 3, 4, 5)
PARTITIONS: Final = 4
REPLICAS: Final = 3
DELETE_DELAY_MS: Final = 1_000
CONFIG: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "log.segment.delete.delay.ms": str(DELETE_DELAY_MS),
    # Leaders stay where a move has put them, so that each move begins with another one.
    "auto.leader.rebalance.enable": "false",
}
RATE_PER_S: Final = 800.0
SIZE_BYTES: Final = 500
# How long the copying of a move shall take, if nothing strikes; longer if a command cancels it, which has to start.
COPYING_S: Final = (0.5, 3.0)
COPYING_S_MORE: Final = 3.0
DEADLINE_S: Final = (3, 6)
# A command takes about so long from its start to its end, if it does not stay.
COMMAND_S: Final = 1.5
# A killed broker is back, and what it had to copy copied, within this time.
MOVE_S_MAX: Final = 60.0
COMMAND_S_MAX: Final = 90.0
DELETED_S_MAX: Final = 20.0
AGAIN_S: Final = 0.3
# More than this happens to a move that gets nowhere.
EVENTS_MAX: Final = 40
CANCELLED_SHARE: Final = 0.25
DEADLINE_SHARE: Final = 0.3
COMMAND_KILLED_SHARE: Final = 0.6
VICTIMS: Final = ("controller", "source", "destination")

Say = Callable[[str], object]


@dataclass(frozen=True)
class Outcome:
    """The results of a run."""

    ends: Counter[str]
    kills: Counter[str]
    acknowledged: int
    longest_gap_s: float
    identical_bytes: int

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {end}" for end, count in sorted(self.ends.items()))
        kills = ", ".join(f"{count} {victim}" for victim, count in sorted(self.kills.items()))
        return (
            f"{sum(self.ends.values())} moves: {ends}; killed: {kills}; {self.acknowledged} records acknowledged"
            f" and read back once in order; longest time without one in a partition {self.longest_gap_s:.2f} s;"
            f" identical logs of {self.identical_bytes} bytes; no throttle, no move and no directory left"
        )


class Strike(NamedTuple):
    """Who is killed so many seconds after the start of a move; `pick` chooses among several, from 0 to 1."""

    at_s: float
    victim: str
    pick: float


@dataclass
class Move:
    """One move: what shall be where, and what became of it."""

    number: int
    before: dict[int, tuple[int, ...]]
    targets: dict[int, tuple[int, ...]]
    bytes_per_s: int
    options: tuple[str, ...]
    is_cancelled: bool
    # Seconds after which the command is killed, None if it is not.
    command_killed_s: float | None
    strikes: list[Strike]
    file: Path
    events: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        where = ", ".join(
            f"{TOPIC}-{key} {list(self.before[key])} -> {list(target)}" for key, target in self.targets.items()
        )
        return f"move {self.number}: {where}, {' '.join(self.options)}"


class Chaos:
    """A cluster in which partitions move, and what strikes it."""

    def __init__(self, cluster: LocalCluster, rng: random.Random, say: Say, scratch: Path) -> None:
        self._cluster = cluster
        self._rng = rng
        self._say = say
        self._scratch = scratch
        self.kills: Counter[str] = Counter()

    # The state of the cluster, from the outside.

    @property
    def image(self) -> MetadataImage:
        """The metadata as the store has it."""
        return processes.stored_metadata(self._cluster.directory)

    def replicas(self) -> dict[int, tuple[int, ...]]:
        """Return the replicas of each partition."""
        records = self.image.topics[TOPIC].partitions
        return {record.partition: tuple(map(int, record.replicas)) for record in records}

    def is_moving(self) -> bool:
        """Return whether something is being reassigned."""
        image = self.image
        return bool(image.moves) or any(
            each.is_reassigned for topic in image.topics.values() for each in topic.partitions
        )

    # One move.

    def drawn(self, number: int) -> Move:
        """Choose the next move, and what strikes it."""
        rng = self._rng
        before = self.replicas()
        targets = {}
        for key in sorted(rng.sample(range(PARTITIONS), rng.choice((1, 1, 2)))):
            others = [each for each in BROKERS if each not in before[key]]
            kept = rng.sample(before[key], REPLICAS - rng.choice((1, 1, 2)))
            targets[key] = tuple(rng.sample([*kept, *rng.sample(others, REPLICAS - len(kept))], REPLICAS))
        copied = sum(
            len(disks.log_bytes(self._cluster.directory, before[key][0], TOPIC, key))
            * len(set(target).difference(before[key]))
            for key, target in targets.items()
        )
        is_cancelled = rng.random() < CANCELLED_SHARE
        copying_s = rng.uniform(*COPYING_S) + COPYING_S_MORE * is_cancelled
        bytes_per_s = int(copied / copying_s + RATE_PER_S * SIZE_BYTES)
        options = ("--throttle", str(bytes_per_s))
        stays_s = COMMAND_S
        if rng.random() < DEADLINE_SHARE:
            stays_s = copying_s = rng.randint(*DEADLINE_S)
            options = ("--deadline", f"{copying_s}s")
        strikes = [
            Strike(rng.uniform(0.0, COMMAND_S + copying_s), rng.choice(VICTIMS), rng.random())
            for _ in range(rng.choice((0, 1, 2)))
        ]
        # A command that stays until the end leaves nothing to cancel.
        is_killed = not strikes or (is_cancelled and stays_s > COMMAND_S) or rng.random() < COMMAND_KILLED_SHARE
        killed_s = rng.uniform(0.0, stays_s) if is_killed else None
        file = self._scratch / f"move-{number}.json"
        rows = [{"topic": TOPIC, "partition": key, "replicas": target} for key, target in targets.items()]
        file.write_text(json.dumps({"version": 1, "partitions": rows}))
        return Move(number, before, targets, bytes_per_s, options, is_cancelled, killed_s, sorted(strikes), file)

    def play(self, move: Move) -> str:
        """Carry out a move with all that strikes it; return how it ended."""
        began_s = time.monotonic()
        striking = threading.Thread(target=self._strike, args=(move, began_s))
        striking.start()
        try:
            self._begin(move)
            self._go_on(move)
        finally:
            striking.join()
        until(lambda: not self.is_moving(), MOVE_S_MAX, otherwise=lambda: f"{move} did not end: {move.events}")
        after = self.replicas()
        for key, now in after.items():
            allowed = (move.before[key], move.targets.get(key, move.before[key]))
            assert now in allowed, f"{move}: {TOPIC}-{key} ended on {now}: {move.events}"
        is_complete = all(after[key] == target for key, target in move.targets.items())
        assert is_complete or move.is_cancelled, f"{move} was cancelled by nobody: {move.events}"
        end = "completed" if is_complete else "cancelled"
        self._say(f"{move}: {'; '.join(move.events)}; {end} after {time.monotonic() - began_s:.1f} s")
        return end

    def _begin(self, move: Move) -> None:
        """Start the command, and kill it if that is planned."""
        with self._started(move, "execute", "-f", str(move.file), *move.options) as process:
            try:
                process.wait(COMMAND_S_MAX if move.command_killed_s is None else move.command_killed_s)
            except subprocess.TimeoutExpired:
                assert move.command_killed_s is not None, f"{move}: the command does not end: {move.events}"
                self.kills["command"] += 1
                move.events.append(f"command killed after {move.command_killed_s:.2f} s")
            finally:
                process.kill()
        if process.returncode != -signal.SIGKILL:
            move.events.append(f"execute: {self._said(move)}")

    def _strike(self, move: Move, began_s: float) -> None:
        for strike in move.strikes:
            time.sleep(max(0.0, began_s + strike.at_s - time.monotonic()))
            broker = self._struck(move, strike)
            # Nobody leads for a moment, or a restarted broker has not been announced yet.
            with contextlib.suppress(ProcessLookupError, KeyError):
                os.kill(self._cluster.pids[broker], signal.SIGKILL)
                self.kills[strike.victim] += 1
                move.events.append(f"{strike.victim} {broker} killed after {strike.at_s:.2f} s")

    def _struck(self, move: Move, strike: Strike) -> int:
        if strike.victim == "controller":
            return processes.lease(self._cluster.directory)[0]
        keys = sorted(move.targets)
        key = keys[int(strike.pick * len(keys))]
        if strike.victim == "source":
            return int(self.image.topics[TOPIC].partitions[key].leader)
        added = sorted(set(move.targets[key]).difference(move.before[key]))
        return added[int(strike.pick * len(added))]

    def _go_on(self, move: Move) -> None:
        """Do what an operator does whose command may have died: look, start what never began, then cancel or resume."""
        plan = ("-f", str(move.file))
        while not self._has_begun(move):
            self._run(move, "execute", *plan, "--throttle", str(move.bytes_per_s))
        if move.is_cancelled:
            self._until_done(move, "cancel", *plan)
            return
        if "--deadline" in move.options and self.is_moving():
            self._run(move, "resume")
        self._until_done(move, "verify", *plan)

    def _has_begun(self, move: Move) -> bool:
        now = self.replicas()
        return self.is_moving() or all(now[key] == target for key, target in move.targets.items())

    def _until_done(self, move: Move, *arguments: str) -> None:
        while not self._run(move, *arguments):
            time.sleep(AGAIN_S)

    def _run(self, move: Move, *arguments: str) -> bool:
        """Run a command to its end; return whether it succeeded."""
        assert len(move.events) < EVENTS_MAX, f"{move} neither begins nor ends: {move.events}"
        with self._started(move, *arguments) as process:
            try:
                process.wait(COMMAND_S_MAX)
            finally:
                process.kill()
        move.events.append(f"{arguments[0]}: {self._said(move)}")
        return process.returncode == 0

    def _log(self, move: Move) -> Path:
        return move.file.with_suffix(".log")

    def _said(self, move: Move) -> str:
        lines = self._log(move).read_text(errors="replace").split("\n")
        assert "Traceback (most recent call last):" not in lines, f"{move}: a command failed: {lines}"
        return next((line for line in reversed(lines) if line.strip()), "nothing")

    def _started(self, move: Move, action: str, *arguments: str) -> "subprocess.Popen[bytes]":
        words = command("reassign", action, *arguments, "--data", str(self._cluster.directory))
        with self._log(move).open("wb") as output:
            return subprocess.Popen(words, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


# What must be true at the end.


def check_nothing_left(cluster: LocalCluster) -> None:
    """Assert that no reassignment, move or throttle is left, in the metadata and as the commands show it."""
    image = processes.stored_metadata(cluster.directory)
    assert not image.moves, f"moves are left: {dict(image.moves)}"
    moving = [each for topic in image.topics.values() for each in topic.partitions if each.is_reassigned or each.move]
    assert not moving, f"reassignments are left: {moving}"
    names = [name for values in image.configs.values() for name in values if "throttled" in name]
    assert not names, f"throttle configurations are left: {names}"
    where = ("--data", str(cluster.directory))
    assert as_json("reassign", "list", *where) == []
    shown = as_json("throttle", "show", *where)
    assert (shown["rates"], shown["lists"], shown["moves"]) == ([], [], []), f"throttles are left: {shown}"


def check_directories(cluster: LocalCluster) -> None:
    """Assert that each broker has exactly the directories of its replicas, once what was deleted has left the disk."""
    image = processes.stored_metadata(cluster.directory)
    replicas = {
        f"{topic.name}-{record.partition}": set(map(int, record.replicas))
        for topic in image.topics.values()
        for record in topic.partitions
    }
    expected = {name: sorted(brokers) for name, brokers in replicas.items() if name.startswith(f"{TOPIC}-")}

    def strays() -> list[str]:
        found = {broker: _directories(cluster.directory, broker) for broker in BROKERS}
        return [
            f"broker-{broker}/{name}"
            for broker, names in found.items()
            for name in names
            if broker not in replicas.get(name, ())
        ]

    until(lambda: not strays(), DELETED_S_MAX, otherwise=lambda: f"directories are left: {strays()}")
    present = {
        name: [broker for broker in BROKERS if name in _directories(cluster.directory, broker)] for name in expected
    }
    assert present == expected, f"directories of {present}, replicas of {expected}"


def _directories(data: Path, broker: int) -> list[str]:
    return sorted(path.name for path in (data / f"broker-{broker}").iterdir() if path.is_dir())


def check_identical(cluster: LocalCluster) -> int:
    """Assert that the replicas of each partition hold the same bytes; return how many."""
    records = processes.stored_metadata(cluster.directory).topics[TOPIC].partitions
    return sum(
        disks.check_identical_replicas(cluster.directory, TOPIC, record.partition, tuple(map(int, record.replicas)))
        for record in records
    )


def run(
    cluster: LocalCluster, *, moves: int, seed: int, scratch: Path, say: Say, first_bytes: int = 1 << 20
) -> Outcome:
    """Move partitions of a running cluster to and fro; assert that all is well in the end."""
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS, replicas=REPLICAS, config={"min.insync.replicas": "2"})
    chaos = Chaos(cluster, random.Random(seed), say, scratch)
    ends: Counter[str] = Counter()
    with Load(cluster.bootstrap, TOPIC, PARTITIONS, rate_per_s=4 * RATE_PER_S, size_bytes=SIZE_BYTES) as load:
        load.wait_for_more(first_bytes // SIZE_BYTES)
        load.change_rate(RATE_PER_S)
        for number in range(1, moves + 1):
            ends[chaos.play(chaos.drawn(number))] += 1
            load.wait_for_more(PARTITIONS)
        load.stop()
    await_full_isr(cluster.bootstrap, [TOPIC])
    check_nothing_left(cluster)
    check_history(load, read_all(cluster.bootstrap, TOPIC, PARTITIONS))
    check_directories(cluster)
    return Outcome(ends, chaos.kills, load.count, load.longest_gap_s, check_identical(cluster))


def main() -> int:
    """Run the moves by themselves; the exit code says whether everything held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", action="store_true", help="keep the data directory")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 31)
    directory = Path(tempfile.mkdtemp(prefix="syncline-moves-"))
    scratch = Path(tempfile.mkdtemp(prefix="syncline-moves-plans-"))

    say(f"{arguments.moves} moves, seed {seed}, in {directory}")
    cluster = start_cluster(len(BROKERS), CONFIG, directory=directory)
    try:
        outcome = run(cluster, moves=arguments.moves, seed=seed, scratch=scratch, say=say)
    except AssertionError as error:
        say(f"FAILED (python -m tests.process.moves_chaos --seed {seed}): {error}")
        say(f"the data is kept in {directory}, plans and output of commands in {scratch}")
        return 1
    finally:
        cluster.stop()
    processes.await_none(directory)
    say(str(outcome))
    if not arguments.keep:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
