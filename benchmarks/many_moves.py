"""2,000 partitions that move at once: how long commands take, and how long the brokers' event loops are held.

    python -m benchmarks.many_moves [--rounds 3] [--partitions 2000]

Four brokers; all partitions move from two of them to the other two by one request, with a throttle so low that the
move lasts. Meanwhile, the commands that show it are timed from start to end, Python's own start included; throttles are
set and removed by lists with an item for each replica, by wildcards and by rates, and the move gets another rate. Then
the move is cancelled, starts again with almost no throttle, and completes.

Each phase's holds come from the brokers' own metrics. Few machines have a CPU for each broker, and a hold includes the
time in which other processes had all CPUs: the loop waits, or a thread of the broker that has the interpreter's lock.
So two figures are shown. "work" is how long the broker worked during a hold, at most, in all rounds
(`syncline_event_loop_own_hold_seconds`), and counts; "wall" is the hold's time from begin to end, in the best and in
the worst round (`syncline_event_loop_hold_seconds`); what is not work is waiting for a CPU or for the disk. "waited" is
how long one loop itself waited for a CPU in a phase, at most. The metrics are exact only to the bounds of their buckets
(5, 10, 20 ms). A command's time is the median of all rounds. The command exits with 1 if a
limit is broken: 1 s for a command, 10 ms for the work of a hold.
"""

import argparse
import compileall
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers import ROOT, Peer, start_syncline
from syncline.cli.direct import Direct
from syncline.local.layout import Layout
from syncline.model.errors import ErrorCode
from syncline.wire.api import ApiKey

BROKERS = 4
RECORD_BYTES = 2_000
TOPIC = "many"
BEFORE, AFTER = (1, 2), (3, 4)
# So slow that almost nothing arrives while the move is shown, and as fast as possible.
SLOW_BYTES_PER_S, FAST_BYTES_PER_S = 100, 1_000_000_000
COMMAND_S_MAX = 1.0
HOLD_MS_MAX = 10.0
# The pause after each phase: its effects are over by then.
REST_S = 2.0
PATIENCE_S = 120.0

_WALL = 'syncline_event_loop_hold_seconds_bucket{le="'
# Holds that exceed the rule.
_OWN = 'syncline_event_loop_own_hold_seconds_bucket{le="'
_OWN_BY_WORK = 'syncline_event_loop_longest_own_hold_by_work_seconds{work="'
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


class Holds(NamedTuple):
    """The holds of one broker's loop.

    By bound in ms, the number of holds that were no longer, from begin to end and as work; the longest work, by its
    kind; and how many ms in all the loop waited for a CPU.
    """

    wall: dict[float, int]
    own: dict[float, int]
    own_by_work: dict[str, float]
    waited_ms: float


class Phase(NamedTuple):
    """The holds of one phase, at the broker where they were worst."""

    own_ms: float
    wall_ms: float
    waited_ms: float
    # Work that held a loop for longer than ever before.
    works: str


class Cluster:
    """The brokers, with the commands and requests that are measured."""

    def __init__(self, peer: Peer, partitions: int) -> None:
        self._peer = peer
        self.partitions = range(partitions)
        self.plan = peer.directory / "plan.json"
        self.plan.write_text(
            json.dumps(
                {
                    "version": 1,
                    "partitions": [
                        {"topic": TOPIC, "partition": number, "replicas": list(AFTER)} for number in self.partitions
                    ],
                }
            )
        )
        running = Layout(peer.directory).running()
        if running is None:
            raise RuntimeError(f"the cluster in {peer.directory} has stopped")
        self._places = [(str(running.metrics_url(broker)), pid) for broker, pid in running.broker_pids.items()]

    def holds(self) -> list[Holds]:
        """Return what each broker's metrics say, and how long it waited."""
        return [holds_of(url, pid) for url, pid in self._places]

    def fill(self) -> None:
        """Create the topic on the first two brokers, and append to each partition."""
        admin = AdminClient({"bootstrap.servers": self._peer.bootstrap})
        replicas = [list(BEFORE if number % 2 else reversed(BEFORE)) for number in self.partitions]
        topic = NewTopic(TOPIC, len(replicas), replica_assignment=replicas, config={"file.delete.delay.ms": "1000"})
        admin.create_topics([topic], request_timeout=60, operation_timeout=60)[TOPIC].result()
        producer = Producer({"bootstrap.servers": self._peer.bootstrap, "acks": "all", "log_level": 0})
        for number in self.partitions:
            producer.produce(TOPIC, bytes(RECORD_BYTES), partition=number)
        if producer.flush(PATIENCE_S):
            raise RuntimeError("some records could not be appended")

    def command(self, *words: str) -> float:
        """Run a command of syncline; return the seconds that it took."""
        began_s = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "syncline", *words, "--bootstrap-server", self._peer.bootstrap],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return time.monotonic() - began_s

    def reassign(self, target: Callable[[int], list[int] | None], **others: int | str) -> str:
        """Request replicas for all partitions, in one request; None cancels. Return the id of the move."""
        rows = [{"partition_index": number, "replicas": target(number)} for number in self.partitions]
        with Direct(self._peer.bootstrap) as direct:
            answer = direct.ask(
                ApiKey.ALTER_PARTITION_REASSIGNMENTS,
                {"timeout": 60_000, "topics": [{"name": TOPIC, "partitions": rows}], **others},
            )
        codes = {int(row.error_code) for topic in answer.responses for row in topic.partitions}
        if int(answer.error_code) or codes - {ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}:
            raise RuntimeError(f"the reassignment was refused: {answer.error_message or codes}")
        return str(answer.move_id)

    def change_rate(self, move_id: str) -> None:
        """Give the move another rate a few times."""
        with Direct(self._peer.bootstrap) as direct:
            for number in range(10):
                fields = {"timeout": 60_000, "topics": [], "move_id": move_id, "throttle": SLOW_BYTES_PER_S + number}
                direct.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, fields)

    def alter(self, kind: int, name: str, values: dict[str, str | None]) -> None:
        """Set configurations, or remove those without a value."""
        changes = [
            {"name": key, "config_operation": int(value is None), "value": value} for key, value in values.items()
        ]
        fields = {"resources": [{"resource_type": kind, "resource_name": name, "configs": changes}]}
        with Direct(self._peer.bootstrap) as direct:
            answer = direct.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, {**fields, "validate_only": False})
        if int(answer.responses[0].error_code):
            raise RuntimeError(f"the configuration was refused: {answer.responses[0].error_message}")

    def until_nothing_moves(self) -> None:
        """Wait until all reassignments are over."""
        end_s = time.monotonic() + PATIENCE_S
        with Direct(self._peer.bootstrap) as direct:
            while direct.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, {"timeout": 60_000, "topics": None}).topics:
                if time.monotonic() > end_s:
                    raise RuntimeError(f"partitions are still moving after {PATIENCE_S} s")
                time.sleep(0.2)


def holds_of(url: str, pid: int) -> Holds:
    """Return what the metrics of one broker say, and how long it waited."""
    wall: dict[float, int] = {}
    own: dict[float, int] = {}
    own_by_work: dict[str, float] = {}
    with urllib.request.urlopen(url, timeout=30) as response:
        page = response.read().decode()
    for line in page.splitlines():
        for prefix, counts in ((_WALL, wall), (_OWN, own)):
            if line.startswith(prefix):
                bound, count = line.removeprefix(prefix).split('"} ')
                counts[1_000 * float(bound)] = int(float(count))
        if line.startswith(_OWN_BY_WORK):
            work, seconds = line.removeprefix(_OWN_BY_WORK).rsplit('"} ', 1)
            own_by_work[work] = 1_000 * float(seconds)
    waited_ms = int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e6
    return Holds(wall, own, own_by_work, waited_ms)


def _bound_ms(before: dict[float, int], after: dict[float, int]) -> float:
    """Return the bound that no hold between two looks exceeded; 0 without holds."""
    counts = {bound: count - before[bound] for bound, count in sorted(after.items())}
    total = max(counts.values())
    return next(bound for bound, count in counts.items() if count == total) if total else 0.0


def phase_between(before: list[Holds], after: list[Holds]) -> Phase:
    """Return what held the loops between two looks."""
    own_ms = wall_ms = waited_ms = 0.0
    works: list[str] = []
    for earlier, later in zip(before, after, strict=True):
        wall_ms = max(wall_ms, _bound_ms(earlier.wall, later.wall))
        # A hold within the limit needs no mention.
        kept = {bound: count for bound, count in later.wall.items() if bound <= HOLD_MS_MAX}
        own_ms = max(own_ms, _bound_ms(earlier.wall, kept), _bound_ms(earlier.own, later.own))
        waited_ms = max(waited_ms, later.waited_ms - earlier.waited_ms)
        works += [
            f"{work} {held_ms:.0f} ms"
            for work, held_ms in later.own_by_work.items()
            if held_ms > earlier.own_by_work.get(work, 0.0)
        ]
    return Phase(own_ms, wall_ms, waited_ms, ", ".join(works))


class Results:
    """What was measured, by phase and by command."""

    def __init__(self) -> None:
        self.phases: dict[str, list[Phase]] = {}
        self.commands: dict[str, list[float]] = {}

    @contextmanager
    def phase(self, cluster: Cluster, name: str) -> Iterator[None]:
        """Measure the holds of one phase."""
        before = cluster.holds()
        yield
        time.sleep(REST_S)
        self.phases.setdefault(name, []).append(phase_between(before, cluster.holds()))

    def table(self) -> tuple[list[str], bool]:
        """Return the lines of the table, and whether all limits are kept."""
        lines, is_kept = [f"{'command':42}{'median':>9}{'worst':>9}{'limit':>9}"], True
        for name, seconds in self.commands.items():
            median_s = statistics.median(seconds)
            is_kept = is_kept and median_s <= COMMAND_S_MAX
            verdict = "" if median_s <= COMMAND_S_MAX else "  BROKEN"
            lines.append(f"{name:42}{median_s:8.2f}s{max(seconds):8.2f}s{COMMAND_S_MAX:8.0f}s{verdict}")
        header = f"{'event loop holds, in ms up to':42}{'work':>9}{'limit':>9}{'wall':>9}{'worst':>9}{'waited':>9}"
        lines += ["", header]
        for name, found in self.phases.items():
            own_ms = max(each.own_ms for each in found)
            is_kept = is_kept and own_ms <= HOLD_MS_MAX
            works = "; ".join(each.works for each in found if each.works)
            verdict = "" if own_ms <= HOLD_MS_MAX else f"  BROKEN: {works}"
            walls_ms = sorted(each.wall_ms for each in found)
            waited_ms = max(each.waited_ms for each in found)
            figures = f"{own_ms:7.0f}ms{HOLD_MS_MAX:7.0f}ms{walls_ms[0]:7.0f}ms{walls_ms[-1]:7.0f}ms{waited_ms:7.0f}ms"
            lines.append(f"{name:42}{figures}{verdict}")
        return lines, is_kept


def one_round(cluster: Cluster, results: Results) -> None:
    """Measure everything once; afterwards the partitions are where they were."""
    with results.phase(cluster, "the move starts"):
        move_id = cluster.reassign(lambda _number: list(AFTER), throttle=SLOW_BYTES_PER_S)
    with results.phase(cluster, "commands show the running move"):
        for words in (
            ("reassign", "list"),
            ("reassign", "status"),
            ("reassign", "verify", "-f", str(cluster.plan)),
            ("throttle", "show"),
        ):
            results.commands.setdefault(" ".join(words[:2]), []).append(cluster.command(*words))
    with results.phase(cluster, "its rate changes ten times"):
        cluster.change_rate(move_id)
    with results.phase(cluster, "lists name each replica"):
        items = {
            name: ",".join(f"{number}:{broker}" for number in cluster.partitions for broker in brokers)
            for name, brokers in zip(LISTS, (BEFORE, AFTER), strict=True)
        }
        cluster.alter(BROKER_RESOURCE, "", dict.fromkeys(RATES, str(SLOW_BYTES_PER_S)))
        cluster.alter(TOPIC_RESOURCE, TOPIC, dict(items))
    with results.phase(cluster, "lists become wildcards"):
        cluster.alter(TOPIC_RESOURCE, TOPIC, dict.fromkeys(LISTS, "*"))
    with results.phase(cluster, "rates change twenty times"):
        for number in range(20):
            cluster.alter(BROKER_RESOURCE, "", dict.fromkeys(RATES, str(SLOW_BYTES_PER_S + number)))
    with results.phase(cluster, "lists and rates are removed"):
        cluster.alter(TOPIC_RESOURCE, TOPIC, dict.fromkeys(LISTS))
        cluster.alter(BROKER_RESOURCE, "", dict.fromkeys(RATES))
    with results.phase(cluster, "the move is cancelled"):
        cluster.reassign(lambda _number: None)
        cluster.until_nothing_moves()
    with results.phase(cluster, "it starts again and completes"):
        cluster.reassign(lambda _number: list(AFTER), throttle=FAST_BYTES_PER_S)
        cluster.until_nothing_moves()
    cluster.reassign(lambda number: list(BEFORE if number % 2 else reversed(BEFORE)))
    cluster.until_nothing_moves()
    time.sleep(REST_S)


def main() -> None:
    """Measure, print, and exit with 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=2_000)
    options = parser.parse_args()
    compileall.compile_dir(Path(ROOT / "src"), quiet=1)
    peer = start_syncline(BROKERS)
    results = Results()
    try:
        cluster = Cluster(peer, options.partitions)
        cluster.fill()
        time.sleep(REST_S)
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds} ...", flush=True)
            one_round(cluster, results)
    finally:
        peer.stop(rest_s=0)
    lines, is_kept = results.table()
    print("\n".join(["", *lines]))
    sys.exit(0 if is_kept else 1)


if __name__ == "__main__":
    main()
