"""`make bench-throttle`: how well a replication throttle holds its quota, beside Apache Kafka in the same run.

    python -m benchmarks.throttle [--quotas MB_S ...] [--layouts NAME ...] [--seconds N] [--no-kafka] [--write]

The test plan of KIP-73: data moves from one broker to one, from one to two and from two to one, each with and without
a producer on the moving partitions. Both sides get the same calls, in Kafka's own terms: rates and lists of throttled
replicas as configurations, and AlterPartitionReassignments. Each move has a cluster of its own.

What is measured is what the quota applies to: what arrives at a new replica until its move ends, which includes what
producers write meanwhile. What a source sent is what arrived of the partitions that it leads. Figures are multiples of
the quota, each for the broker with the most bytes. A pause is a time in which nothing arrived there.

It exits with 1 if Syncline exceeds a limit, with one sentence for each.

Source: KIP-73, "Test plan".
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka import KafkaAdminClient, TopicPartition

from benchmarks.flows import Arrivals, Flow
from benchmarks.peers import KAFKA_VERSION, Peer, kafka_jars, start_kafka, start_syncline
from benchmarks.run import machine
from benchmarks.steady_producer import SteadyProducer
from benchmarks.throttle_outcome import BATCH_BYTES, HEADINGS, LAYOUTS, Layout, Outcome, summary, write

TOPIC: Final = "moving"
# One partition on each broker that does not move: its waits are not caused by moves.
STILL: Final = "still"
STILL_BYTES_S: Final = 30_000
RECORD_BYTES: Final = 10_000
PRODUCED_BYTES_S: Final = 300_000
POLL_S: Final = 0.05
# How long a producer writes before a move, and after its end, when clients have to find the new leaders.
BEFORE_S: Final = 1.0
AFTER_S: Final = 2.0
UNFENCED_S: Final = 60.0
# The benchmark gives up a move that takes this many times longer than it should.
GIVE_UP: Final = 6.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the plan, print the table, and report the promises that were not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [layout.name for layout in LAYOUTS]
    parser.add_argument("--quotas", type=float, nargs="+", default=[1, 2, 5], metavar="MB_S")
    parser.add_argument("--layouts", nargs="+", choices=names, default=names)
    parser.add_argument("--seconds", type=float, default=28, help="how long the data of each move takes at its quota")
    parser.add_argument("--no-kafka", action="store_true", help="measure only Syncline")
    parser.add_argument("--write", action="store_true", help="write the table to docs/performance.md")
    options = parser.parse_args(arguments)
    starts: dict[str, Callable[[int], Peer]] = {"Syncline": start_syncline}
    if not options.no_kafka:
        kafka_jars()
        starts["Apache Kafka"] = start_kafka
    plan = [
        (layout, int(quota * 1e6), has_producer, start)
        for layout in LAYOUTS
        if layout.name in options.layouts
        for quota in options.quotas
        for has_producer in (False, True)
        for start in starts.values()
    ]
    print(HEADINGS, flush=True)
    outcomes = []
    for number, (layout, quota_bytes_s, has_producer, start) in enumerate(plan, start=1):
        print(f"{number} of {len(plan)}", end="\r", file=sys.stderr, flush=True)
        outcomes.append(measure(start, layout, quota_bytes_s, options.seconds, has_producer=has_producer))
        print(outcomes[-1].row(), flush=True)
    for line in summary(outcomes):
        print(line)
    if options.write:
        when = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}, Apache Kafka {KAFKA_VERSION}"
        write(outcomes, f"{when}; each move has {options.seconds:g} s of the quota to copy.")
    unmet = [sentence for outcome in outcomes if outcome.peer == "Syncline" for sentence in outcome.unmet()]
    for sentence in unmet:
        print(sentence, file=sys.stderr)
    return 1 if unmet else 0


# One move.


def measure(
    start: Callable[[int], Peer], layout: Layout, quota_bytes_s: int, seconds: float, *, has_producer: bool
) -> Outcome:
    """Move the partitions of a layout once, in a cluster of its own; whatever happens, nothing is left running."""
    with ExitStack() as stack:
        peer = start(layout.broker_count)
        stack.callback(peer.stop, rest_s=0)
        brokers = sorted(peer.pids)
        fill(peer, layout, brokers, int(quota_bytes_s * seconds / len(layout.moves)))
        throttle(peer, layout, brokers, quota_bytes_s)
        producers = []
        if has_producer:
            rates = {TOPIC: (len(layout.moves), PRODUCED_BYTES_S), STILL: (len(brokers), STILL_BYTES_S)}
            producers = [
                stack.enter_context(SteadyProducer(peer.bootstrap, topic, partition_count, bytes_per_s))
                for topic, (partition_count, bytes_per_s) in rates.items()
            ]
            time.sleep(BEFORE_S)
            for producer in producers:
                producer.begin()
        logs = [log_of(peer, brokers[place], number) for number, place in enumerate(layout.side("received"))]
        admin = stack.enter_context(closing(KafkaAdminClient(bootstrap_servers=peer.bootstrap.split(","))))
        with Arrivals(logs) as arrivals:
            taken_s = move(admin, layout, brokers, arrivals, limit_s=GIVE_UP * seconds)
        if producers:
            time.sleep(AFTER_S)
        felt = [producer.end() for producer in producers]
        flows = {side: busiest(arrivals, layout.side(side)) for side in ("sent", "received")}
        return Outcome(peer.name, layout, quota_bytes_s, flows, taken_s, *felt)


def log_of(peer: Peer, broker: int, partition: int) -> Path:
    """Return the directory of a replica."""
    directory = f"broker-{broker}" if peer.name == "Syncline" else f"node-{broker}/data"
    return peer.directory / directory / f"{TOPIC}-{partition}"


def create(admin: AdminClient, topics: Sequence[NewTopic]) -> None:
    """Create topics; a broker that has just started may still be fenced, and then has no place for a replica."""
    until_s = time.monotonic() + UNFENCED_S
    for topic in topics:
        while True:
            try:
                admin.create_topics([topic])[topic.topic].result()
                break
            except KafkaException as error:
                is_fenced = error.args[0].code() == KafkaError.INVALID_REPLICA_ASSIGNMENT
                if not is_fenced or time.monotonic() > until_s:
                    raise
                time.sleep(POLL_S)


def fill(peer: Peer, layout: Layout, brokers: Sequence[int], partition_bytes: int) -> None:
    """Create and fill the topic that moves, on the sources, and one that stays where it is."""
    places = [[brokers[source]] for source in layout.side("sent")]
    topics = {TOPIC: places, STILL: [[broker] for broker in brokers]}
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    new = [NewTopic(name, num_partitions=len(each), replica_assignment=each) for name, each in topics.items()]
    create(admin, new)
    settings = {"acks": "all", "linger.ms": 5, "batch.size": BATCH_BYTES, "log_level": 0}
    producer = Producer({"bootstrap.servers": peer.bootstrap, **settings})
    value = os.urandom(RECORD_BYTES)
    for _ in range(partition_bytes // RECORD_BYTES):
        for partition in range(len(places)):
            while True:
                try:
                    producer.produce(TOPIC, value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.01)
    if left := producer.flush(120):
        raise RuntimeError(f"{peer.name}: the topic could not be filled, {left} records were not acknowledged")


def throttle(peer: Peer, layout: Layout, brokers: Sequence[int], quota_bytes_s: int) -> None:
    """Set lists and rates as Kafka's tool does."""
    values = {
        name: ",".join(f"{partition}:{brokers[place]}" for partition, place in enumerate(layout.side(side)))
        for name, side in (("leader", "sent"), ("follower", "received"))
    }
    rates = {f"{name}.replication.throttled.rate": str(quota_bytes_s) for name in values}
    lists = {f"{name}.replication.throttled.replicas": items for name, items in values.items()}
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    configure(admin, ResourceType.TOPIC, TOPIC, lists)
    # The client takes one broker per call.
    for broker in brokers:
        configure(admin, ResourceType.BROKER, str(broker), rates)


def configure(admin: AdminClient, kind: ResourceType, name: str, values: Mapping[str, str]) -> None:
    """Set configurations of a broker or topic."""
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in values.items()]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result()


def move(
    admin: KafkaAdminClient, layout: Layout, brokers: Sequence[int], arrivals: Arrivals, *, limit_s: float
) -> float | None:
    """Move all partitions; return how long it took, None if it was given up."""
    wanted = {TopicPartition(TOPIC, number): [brokers[to]] for number, to in enumerate(layout.side("received"))}
    began_s = time.monotonic()
    admin.alter_partition_reassignments(wanted)
    while moving := admin.list_partition_reassignments():
        arrivals.still_moving(each.partition for each in moving)
        if time.monotonic() - began_s > limit_s:
            return None
        time.sleep(POLL_S)
    arrivals.still_moving(())
    return time.monotonic() - began_s


def busiest(arrivals: Arrivals, brokers: Sequence[int]) -> Flow:
    """Return the flow of the broker with the most bytes: the quota is each broker's own."""
    flows = [
        arrivals.flow(number for number, each in enumerate(brokers) if each == broker)
        for broker in sorted(set(brokers))
    ]
    return max(flows, key=lambda flow: flow.total_bytes)


if __name__ == "__main__":
    sys.exit(main())
