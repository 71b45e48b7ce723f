"""`make bench-moves`: whether controlled moves keep their deadlines, and clients their bound.

    python -m benchmarks.moves [--only deadlines|clients|ends ...] [--first N] [--write]

Three brokers, and the command as a user runs it, `syncline reassign execute`, in moves of varied sizes:

deadlines  `--deadline`: from the command's start to its end. One command is killed halfway and resumed; some moves
           are impossible, and must be refused beforehand with the true reason.
clients    `--max-client-impact 10%`: a client with default configuration writes 200 records of 1 kB per second with
           acks=all to a topic of its own with three replicas. Its waits in the 30 s before the command and the 30 s
           after the move, when nothing moves, are compared with those from the beginning of the move to its end, or to
           45 s: then the command is interrupted, and the rest moves without a bound. A move during which other
           processes used more than a fifth of a core is repeated, at most twice.
ends       `status --watch`: the end it announces for a throttled move, also after its throttle was doubled.

It exits with 1 if a promise is not kept, with one sentence for each.
"""

import argparse
import contextlib
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.moves_outcome import BOUND_PERCENT, Bounded, Plan, Said, Timed, unkept
from benchmarks.pages import replace_table
from benchmarks.peers import Peer, start_syncline
from benchmarks.run import machine
from benchmarks.writer import Load, Writer

DEADLINES: Final = (
    Plan(2, (1,), (2,), 20, deadline_s=30),
    Plan(5, (1,), (3,), 40, load_kb_s=500, deadline_s=30),
    Plan(20, (1, 2), (2, 3), 120, deadline_s=45),
    Plan(10, (1, 2), (3, 1), 60, load_kb_s=1000, deadline_s=40),
    Plan(4, (2,), (2, 3), 30, deadline_s=30),
    Plan(20, (1,), (2, 3), 80, load_kb_s=2000, deadline_s=30),
    Plan(2, (3, 1), (1, 2), 120, load_kb_s=300, deadline_s=60),
    Plan(10, (3,), (1,), 50, deadline_s=30, is_killed=True),
    Plan(
        10,
        (1, 2),
        (2, 3),
        60,
        deadline_s=30,
        options=("--link-capacity", "1MB"),
        reason="broker 1 would have to send 2.",
    ),
    Plan(
        4,
        (2,),
        (3,),
        20,
        load_kb_s=1500,
        deadline_s=60,
        options=("--link-capacity", "1MB"),
        reason="no other time or share would make this move possible",
    ),
)
CLIENTS: Final = (
    Plan(2, (1,), (2,), 20),
    Plan(5, (1,), (3,), 40, load_kb_s=200),
    Plan(10, (1, 2), (2, 3), 60),
    Plan(20, (1, 2), (3, 1), 40, load_kb_s=500),
    Plan(4, (2,), (2, 3), 30),
    Plan(20, (3,), (1, 2), 30, load_kb_s=500),
    Plan(2, (3, 1), (1, 2), 60),
    Plan(10, (3,), (1,), 120),
    Plan(5, (1,), (2,), 80),
    Plan(10, (2, 3), (3, 1), 100, load_kb_s=200),
)
# The client whose waits are measured: its p99 of windows of five seconds.
CLIENT: Final = Load("clients", 3, 200, 1_000)
WITHOUT_S: Final = 30.0
CLIENTS_LIMIT_S: Final = 45.0
# Other processes that use more than this have an impact of their own.
OTHERS_CORES_MAX: Final = 0.2
REPEATED_MAX: Final = 2
RECORD_BYTES: Final = 10_000
PATIENCE_S: Final = 240.0
# The throttled moves whose end is announced: this much to each of two brokers, at this rate.
ENDS: Final = ((20, 1_400_000), (50, 1_600_000))
_NUMBERS: Final = itertools.count(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested parts, print the tables, and report the promises that were not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--first", type=int, default=100, metavar="N", help="run only the first N moves of each part")
    parser.add_argument("--write", action="store_true", help="write the tables to docs/performance.md")
    options = parser.parse_args(arguments)
    unmet: list[str] = []
    for name in options.only:
        with contextlib.closing(Bench()) as bench:
            rows, sentences = PARTS[name](bench, options.first)
        unmet += sentences
        if options.write:
            replace_table(f"moves: {name}", [f"{datetime.now(UTC):%Y-%m-%d}, {machine()}:", "", *rows])
    for sentence in unmet:
        print(sentence, file=sys.stderr)
    return 1 if unmet else 0


def deadlines(bench: "Bench", first: int) -> tuple[list[str], list[str]]:
    """Move by deadlines; return the table, and which promises were not kept."""
    rows, unmet = told(Timed.HEADINGS), []
    for plan in DEADLINES[:first]:
        moved = bench.by_deadline(plan)
        rows += told(moved.row())
        unmet += moved.unmet()
    return rows, unmet


def clients(bench: "Bench", first: int) -> tuple[list[str], list[str]]:
    """Move under a bound on client impact."""
    rows, moves, repeated = told(Bounded.HEADINGS), [], 0
    bench.create(CLIENT.topic, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    with Writer(bench.peer.bootstrap, CLIENT) as client:
        for plan in CLIENTS[:first]:
            for last in (*[False] * REPEATED_MAX, True):
                moved = bench.under_bound(plan, client)
                if max(moved.others_cores) <= OTHERS_CORES_MAX or last:
                    break
                repeated += 1
                print(
                    f"others used {max(moved.others_cores):.2f} cores around or during a move: repeating it", flush=True
                )
            moves.append(moved)
            rows += told(moved.row())
    kept = sum(move.is_kept for move in moves)
    return [*rows, "", *told(f"{kept} of {len(moves)} kept; {repeated} repeated.")], list(unkept(moves))


def ends(bench: "Bench", _first: int) -> tuple[list[str], list[str]]:
    """Compare announced ends with actual ones."""
    said = [bench.watched(size_mb, rate, is_doubled=bool(number)) for number, (size_mb, rate) in enumerate(ENDS)]
    rows = [line for each in said for line in told(f"The end that `reassign status` announced was {each.sentence()}.")]
    return rows, [sentence for each in said for sentence in each.unmet()]


PARTS: Final[dict[str, Callable[["Bench", int], tuple[list[str], list[str]]]]] = {
    "deadlines": deadlines,
    "clients": clients,
    "ends": ends,
}


class Bench:
    """Three brokers, and moves among them."""

    def __init__(self) -> None:
        self.peer: Peer = start_syncline(3)
        self._admin = AdminClient({"bootstrap.servers": self.peer.bootstrap, "log_level": 0})
        self._plans = tempfile.TemporaryDirectory(prefix="syncline-moves-")

    def close(self) -> None:
        """Stop the brokers."""
        self._plans.cleanup()
        self.peer.stop(rest_s=0)

    def create(self, topic: str, places: list[list[int]]) -> None:
        """Create a topic with these replicas."""
        self._admin.create_topics([NewTopic(topic, len(places), replica_assignment=places)])[topic].result(20)

    def by_deadline(self, plan: Plan) -> Timed:
        """Move once by a deadline."""
        with self._filled(plan) as (topic, file), self._load(plan, topic):
            began_s = time.monotonic()
            command = self._command("execute", "-f", file, "--deadline", f"{plan.deadline_s}s", *plan.options)
            if plan.is_killed:
                time.sleep(plan.deadline_s / 2)
                command.send_signal(signal.SIGKILL)
                command.wait()
                command = self._command("resume")
            _, problem = command.communicate(timeout=PATIENCE_S)
            took_s = time.monotonic() - began_s
            if command.returncode and problem.startswith("syncline: "):
                return Timed(plan, took_s, problem.strip().removeprefix("syncline: "))
            is_there = self._replicas(topic) == [list(plan.after)] * plan.partitions
            return Timed(plan, took_s, is_complete=command.returncode == 0 and is_there)

    def under_bound(self, plan: Plan, client: Writer) -> Bounded:
        """Move once under a bound, while a client records its waits."""
        with self._filled(plan) as (topic, file), self._load(plan, topic):
            before_ms, before_cores = _without_moves(client)
            command = self._command("execute", "-f", file, "--max-client-impact", f"{BOUND_PERCENT}%", "--json")
            assert command.stdout is not None, "it was opened"
            facts: dict[str, Any] = {}
            while "move" not in facts:
                line = command.stdout.readline()
                if not line:
                    raise RuntimeError(f"the move does not start: {command.communicate()[1]}")
                facts = json.loads(line)
            client.waits_ms()
            others, began_s = Others(), time.monotonic()
            done_bytes = total_bytes = 0
            for line in command.stdout:
                facts = json.loads(line)
                done_bytes, total_bytes = facts.get("done_bytes", total_bytes), facts.get("total_bytes", total_bytes)
                if time.monotonic() - began_s > CLIENTS_LIMIT_S:
                    break
            took_s, during_ms, during_cores = time.monotonic() - began_s, client.waits_ms(), others.cores()
            if "ended" not in facts:
                # Not SIGINT: a shell's background job ignores it, and so would the command.
                command.terminate()
            command.communicate(timeout=PATIENCE_S)
            self._finish(file)
            after_ms, after_cores = _without_moves(client)
        cores = (before_cores, during_cores, after_cores)
        return Bounded(plan, before_ms, during_ms, after_ms, took_s, done_bytes / 1e6, cores)

    def watched(self, size_mb: int, bytes_per_s: int, *, is_doubled: bool) -> Said:
        """Move to two brokers under a throttle, and note the announced ends; if asked to, double the throttle."""
        plan = Plan(6, (1,), (2, 3), size_mb)
        # The sender decides: it sends what two brokers receive.
        doubled_s = 0.2 * 2e6 * size_mb / bytes_per_s if is_doubled else None
        with self._filled(plan) as (_, file):
            self._command("execute", "-f", file, "--throttle", str(bytes_per_s)).communicate(timeout=PATIENCE_S)
            began_s = time.monotonic()
            status = self._command("status", "--watch", "--json")
            assert status.stdout is not None, "it was opened"
            looks, at_s, doubling = [], 0.0, None
            for line in status.stdout:
                facts, at_s = json.loads(line), time.monotonic() - began_s
                if facts["eta_s"] is not None and facts["replicas"]:
                    looks.append((at_s, float(facts["eta_s"])))
                if doubling is None and doubled_s is not None and at_s >= doubled_s:
                    again = ("execute", "-f", file, "--additional", "--throttle", str(2 * bytes_per_s))
                    doubling = self._command(*again)
            status.communicate(timeout=PATIENCE_S)
            if doubling is not None:
                doubling.communicate(timeout=PATIENCE_S)
        return Said(looks, at_s, doubled_s)

    @contextlib.contextmanager
    def _filled(self, plan: Plan) -> Iterator[tuple[str, str]]:
        """Create and fill the topic of a plan, and write its file; yield both names, then remove the topic."""
        topic = f"moving-{next(_NUMBERS)}"
        self.create(topic, [list(plan.before)] * plan.partitions)
        settings = {"acks": "all", "linger.ms": 5, "batch.size": 100_000, "log_level": 0}
        producer = Producer({"bootstrap.servers": self.peer.bootstrap, **settings})
        value = os.urandom(RECORD_BYTES)
        for number in range(plan.size_mb * 1_000_000 // RECORD_BYTES):
            while True:
                try:
                    producer.produce(topic, value, partition=number % plan.partitions)
                    break
                except BufferError:
                    producer.poll(0.01)
        if left := producer.flush(120):
            raise RuntimeError(f"{topic} could not be filled: {left} records were not acknowledged")
        rows = [{"topic": topic, "partition": each, "replicas": plan.after} for each in range(plan.partitions)]
        file = Path(self._plans.name) / f"{topic}.json"
        file.write_text(json.dumps({"version": 1, "partitions": rows}))
        yield topic, str(file)
        self._admin.delete_topics([topic])[topic].result(20)

    @contextlib.contextmanager
    def _load(self, plan: Plan, topic: str) -> Iterator[None]:
        """Write to the topic that moves."""
        with ExitStack() as stack:
            if plan.load_kb_s:
                per_s = plan.load_kb_s * 1_000 / RECORD_BYTES
                stack.enter_context(Writer(self.peer.bootstrap, Load(topic, plan.partitions, per_s, RECORD_BYTES)))
                time.sleep(1)
            yield

    def _finish(self, file: str) -> None:
        """Let the rest of a move run without a throttle, and wait for its end."""
        if self._moves():
            self._command("execute", "-f", file, "--additional", "--throttle", "200MB").communicate(timeout=PATIENCE_S)
        give_up_s = time.monotonic() + PATIENCE_S
        while self._moves():
            if time.monotonic() > give_up_s:
                raise RuntimeError(f"the move of {file} does not end")
            time.sleep(0.2)

    def _moves(self) -> bool:
        shown, _ = self._command("list", "--json").communicate(timeout=PATIENCE_S)
        return bool(json.loads(shown))

    def _command(self, *arguments: str) -> "subprocess.Popen[str]":
        options = ["--bootstrap-server", self.peer.bootstrap, "--ignore-disk-space"]
        if arguments[0] == "execute":
            options.append("--allow-replication-factor-change")
        else:
            options.pop()
        line = [sys.executable, "-W", "ignore", "-m", "syncline", "reassign", *arguments, *options]
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _replicas(self, topic: str) -> list[list[int]]:
        partitions = self._admin.list_topics(timeout=10).topics[topic].partitions
        return [list(partitions[number].replicas) for number in sorted(partitions)]


def _without_moves(client: Writer) -> tuple[list[float], float]:
    """Return a client's waits while nothing moves, and how many cores other processes use meanwhile."""
    # Copied data that is not yet on disk must not count as impact.
    os.sync()
    time.sleep(2)
    client.waits_ms()
    others = Others()
    time.sleep(WITHOUT_S)
    return client.waits_ms(), others.cores()


class Others:
    """CPU time that this machine spends on processes outside this run."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._busy_s, self._own_s = _busy_s(), _own_s()

    def cores(self) -> float:
        """Return how many cores other processes have used since."""
        spent_s = (_busy_s() - self._busy_s) - (_own_s() - self._own_s)
        return max(spent_s / (time.monotonic() - self._began_s), 0.0)


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def _own_s() -> float:
    """Return the CPU time of this process and all its descendants, ended ones included."""
    spent_s = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        spent_s += usage.ru_utime + usage.ru_stime
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            spent_s += times.user + times.system + times.children_user + times.children_system
    return spent_s


def told(line: str) -> list[str]:
    """Print a line, and return it for the page."""
    print(line, flush=True)
    return [line]


if __name__ == "__main__":
    sys.exit(main())
