"""A scrape with 1,000 groups of 50 partitions each: its time, how long it holds event loops, and its memory.

    python -m benchmarks.lag_scrape [--brokers 1 3] [--groups 1000] [--partitions 50] [--rounds 5]

For each number of brokers a cluster is started, one topic gets records in each partition, and every group commits in
all partitions, at an offset of its own. Then all brokers are scraped one after the other: first with commits whose
place in the log no scrape has needed yet, then with commits that did not change; in each round all change. CPU
time is that of all brokers. A scrape's time and its slowest answer include the time in which the machine ran another
process, so of all rounds the best one counts.

How long a scrape holds the loop comes from the brokers' own metric, over all rounds: the longest turn of a task, or of
a request to a leader, counting only the broker's own work. Meanwhile a client sends one small request after the other
to the scraped broker; its slowest response includes all other work, and of all rounds the best one counts.

Memory is measured in this process: what the commits, ends and standings of so many groups take, by `tracemalloc`.
The command exits with 1 if a limit is broken: 1 s for a scrape, 10 ms for a hold, 200 bytes per group and partition.
"""

import argparse
import re
import socket
import struct
import sys
import threading
import time
import tracemalloc
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers import Peer, start_syncline
from syncline.local.layout import Layout
from syncline.node.lag.commits import Commits
from syncline.node.lag.ends import KnownEnds
from syncline.wire.api import ApiKey
from syncline.wire.frames import frame_request

TOPIC = "lagging"
SCRAPE_S_MAX = 1.0
HOLD_MS_MAX = 10.0
ROW_BYTES_MAX = 200
INTERVALS = 10
# Groups that commit at once while the cluster is filled.
AT_ONCE = 50
QUEUE = {"queue.buffering.max.messages": 1_000_000}
PATIENCE_S = 60.0
# The work of a scrape besides tasks, whose names have a dot: what a queried leader does. Responses of other brokers
# look the same as those that load the coordinator's code while the cluster is filled.
_SCRAPES = (b"Lag", b"_complete")


class Scrape(NamedTuple):
    """One round over all brokers: the longest scrape, the slowest response, CPU time, and what the pages contained."""

    seconds: float
    hold_ms: float
    cpu_s: float
    rows: int
    page_mb: float
    own_hold_ms: float
    """The longest since the brokers began, 0 if none took longer than 10 ms."""


class Probe:
    """A client that sends one small request after the other, and knows the slowest response."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frame = b"".join(frame_request(ApiKey.API_VERSIONS, 0, 1, "probe", (b"",)))
        self._is_over = threading.Event()
        self.slowest_ms = 0.0

    def run(self) -> None:
        """Ask until it is over."""
        while not self._is_over.is_set():
            began_s = time.perf_counter()
            self._socket.sendall(self._frame)
            (size,) = struct.unpack(">i", self._read(4))
            self._read(size)
            self.slowest_ms = max(self.slowest_ms, 1_000 * (time.perf_counter() - began_s))
            time.sleep(0.0005)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._socket.recv(size - len(data))
        return data

    @contextmanager
    def running(self) -> Iterator[None]:
        """Ask in a thread of its own."""
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()
            self._socket.close()


def fill(peer: Peer, groups: int, partitions: int) -> None:
    """Create the topic, and append to each partition more records than there are groups."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    topic = NewTopic(TOPIC, partitions, replication_factor=min(3, len(peer.pids)))
    admin.create_topics([topic], operation_timeout=PATIENCE_S)[TOPIC].result()
    producer = Producer({"bootstrap.servers": peer.bootstrap, "acks": "all", "log_level": 0, **QUEUE})
    for number in range(partitions * (groups + 10)):
        producer.produce(TOPIC, bytes(100), partition=number % partitions)
        producer.poll(0)
    if producer.flush(PATIENCE_S):
        raise RuntimeError("some records could not be appended")


def commit(peer: Peer, groups: int, partitions: int, offset: int) -> None:
    """Let every group commit in all partitions, each group another offset, from `offset` on."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    for first in range(0, groups, AT_ONCE):
        futures = []
        for number in range(first, min(first + AT_ONCE, groups)):
            commits = [TopicPartition(TOPIC, each, offset + number) for each in range(partitions)]
            request = [ConsumerGroupTopicPartitions(f"group-{number:04}", commits)]
            futures += admin.alter_consumer_group_offsets(request, request_timeout=PATIENCE_S).values()
        for future in futures:
            future.result()


def scrape(peer: Peer) -> Scrape:
    """Scrape all brokers, one after the other, once they have dropped the pages that they still keep."""
    time.sleep(1.5)
    running = Layout(peer.directory).running()
    if running is None:
        raise RuntimeError(f"the cluster in {peer.directory} has stopped")
    addresses = dict(zip(sorted(running.broker_pids), running.bootstrap.split(","), strict=True))
    seconds, holds, rows, size, own_hold_ms = [], [], 0, 0, 0.0
    before_s = peer.cpu_s()
    for broker, address in addresses.items():
        host, _, port = address.rpartition(":")
        probe = Probe(host, int(port))
        with probe.running():
            began_s = time.perf_counter()
            with urllib.request.urlopen(str(running.metrics_url(broker)), timeout=PATIENCE_S) as response:
                page = response.read()
            seconds.append(time.perf_counter() - began_s)
        holds.append(probe.slowest_ms)
        rows += page.count(b"\nsyncline_group_lag_bytes{")
        size += len(page)
        own_hold_ms = max(own_hold_ms, longest_turn_ms(page))
    return Scrape(max(seconds), max(holds), peer.cpu_s() - before_s, rows, size / 1e6, own_hold_ms)


def longest_turn_ms(page: bytes) -> float:
    """Return the longest hold on a page that is a scrape's or a refresh's."""
    held = re.findall(rb'syncline_event_loop_longest_own_hold_by_work_seconds{work="([^"]*)"} (\S+)', page)
    return max((1_000 * float(each) for work, each in held if b"." in work or work in _SCRAPES), default=0.0)


def row_bytes(groups: int, partitions: int) -> float:
    """Return the bytes that a coordinator keeps per group and partition for lag, with full windows."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    commits = Commits(KnownEnds(INTERVALS), intervals=INTERVALS, min_distance_ms=0)
    term = commits.term_began(0)
    for group in range(groups):
        for number in range(partitions):
            for count in range(INTERVALS):
                term.stored(f"group-{group:04}", TOPIC, number, 100 * count, 1_700_000_000_000 + 1_000 * count)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / (groups * partitions)


def measured(brokers: int, groups: int, partitions: int, rounds: int) -> dict[str, Scrape]:
    """Return the best of some rounds by kind of scrape."""
    peer = start_syncline(brokers, {"offsets.topic.num.partitions": "50"})
    try:
        fill(peer, groups, partitions)
        found: dict[str, list[Scrape]] = {"places unknown": [], "nothing changed": []}
        for number in range(rounds):
            commit(peer, groups, partitions, 1 + number % 2)
            found["places unknown"].append(scrape(peer))
            found["nothing changed"].append(scrape(peer))
        last = scrape(peer)
        return {
            kind: Scrape(
                min(each.seconds for each in several),
                min(each.hold_ms for each in several),
                min(each.cpu_s for each in several),
                min(each.rows for each in several),
                max(each.page_mb for each in several),
                last.own_hold_ms,
            )
            for kind, several in found.items()
        }
    finally:
        peer.stop(rest_s=1)


def main() -> int:
    """Measure, print, and return 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    is_fine = True
    for brokers in asked.brokers:
        for kind, best in measured(brokers, asked.groups, asked.partitions, asked.rounds).items():
            print(
                f"{brokers} broker(s), {kind}: {best.seconds:.2f} s, longest turn"
                f" {f'{best.own_hold_ms:.0f} ms' if best.own_hold_ms else '<= 10 ms'},"
                f" slowest response meanwhile {best.hold_ms:.1f} ms,"
                f" {best.cpu_s:.2f} s of CPU time, {best.rows} rows with bytes, {best.page_mb:.1f} MB",
                flush=True,
            )
            is_fine &= best.seconds <= SCRAPE_S_MAX and max(best.own_hold_ms, best.hold_ms) <= HOLD_MS_MAX
            is_fine &= best.rows == asked.groups * asked.partitions
    kept = row_bytes(asked.groups, asked.partitions)
    print(f"kept per group and partition: {kept:.0f} bytes")
    return 0 if is_fine and kept <= ROW_BYTES_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
