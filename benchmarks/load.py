"""Load: throughput, latency and request rate of a running cluster, with confluent-kafka as the client."""

import os
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers import Peer

PARTITIONS = 4


def create_topic(peer: Peer, name: str, partitions: int = PARTITIONS) -> None:
    """Create a topic replicated as widely as the cluster allows, and let it settle."""
    factor = min(3, len(peer.pids))
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    topic = NewTopic(name, partitions, factor, config={"min.insync.replicas": str(min(2, factor))})
    admin.create_topics([topic])[name].result()
    time.sleep(1)


def produce(peer: Peer, topic: str, size_bytes: int, count: int, acks: str = "all") -> dict[str, float]:
    """Produce `count` records; return MB/s, records/s and broker CPU seconds per GB."""
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "acks": acks,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 200_000,
        }
    )
    value, failed = os.urandom(size_bytes), []

    def delivered(error: Any, _: Any) -> None:
        if error:
            failed.append(error)

    cpu_s, began_s = peer.cpu_s(), time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1024 == 0:
            producer.poll(0)
    producer.flush(120)
    seconds, gigabytes = time.perf_counter() - began_s, count * size_bytes / 1e9
    if failed:
        raise RuntimeError(f"{peer.name}: {len(failed)} of {count} records failed: {failed[0]}")
    return {
        "mb_s": gigabytes * 1e3 / seconds,
        "records_s": count / seconds,
        "cpu_s_gb": (peer.cpu_s() - cpu_s) / gigabytes,
    }


def consume(peer: Peer, topic: str, size_bytes: int, count: int) -> dict[str, float]:
    """Read `count` records back; return MB/s and broker CPU seconds per GB."""
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": f"load-{topic}",
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 1 << 20,
            "queued.max.messages.kbytes": 1 << 17,
            # By default the client stops fetching for a second when its queue is full, and would measure its own pause.
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    got, cpu_s, began_s = 0, peer.cpu_s(), time.perf_counter()
    while got < count and time.perf_counter() - began_s < 60:
        got += sum(1 for message in consumer.consume(10_000, 0.1) if not message.error())
    seconds, gigabytes = time.perf_counter() - began_s, count * size_bytes / 1e9
    consumer.close()
    if got < count:
        raise RuntimeError(f"{peer.name}: read {got} of {count}")
    return {"mb_s": got * size_bytes / 1e6 / seconds, "cpu_s_gb": (peer.cpu_s() - cpu_s) / gigabytes}


def one_at_a_time(peer: Peer, topic: str, acks: str = "all", count: int = 3000) -> dict[str, float]:
    """Send records one after the other, each when the previous one is acknowledged; return p50 and p99 in ms."""
    producer = Producer(
        {"bootstrap.servers": peer.bootstrap, "linger.ms": 0, "acks": acks, "socket.nagle.disable": True}
    )
    latencies_s = []
    for _ in range(count):
        done: list[object] = []
        began_s = time.perf_counter()
        producer.produce(topic, b"x" * 100, partition=0, on_delivery=lambda error, _, done=done: done.append(error))
        while not done:
            producer.poll(0.1)
        latencies_s.append(time.perf_counter() - began_s)
    warm = sorted(latencies_s[count // 3 :])
    return {"p50_ms": warm[len(warm) // 2] * 1e3, "p99_ms": warm[int(len(warm) * 0.99)] * 1e3}


def single_record_requests(peer: Peer, topic: str, acks: str = "all", count: int = 30_000) -> dict[str, float]:
    """Send one record per request, ten in flight; return requests/s and broker CPU per 10,000."""
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "acks": acks,
            "max.in.flight": 10,
        }
    )
    cpu_s, began_s = peer.cpu_s(), time.perf_counter()
    for number in range(count):
        producer.produce(topic, b"x" * 100, partition=number % PARTITIONS)
        if number % 256 == 0:
            producer.poll(0)
    producer.flush(120)
    seconds = time.perf_counter() - began_s
    return {"requests_s": count / seconds, "cpu_s_10k": (peer.cpu_s() - cpu_s) / count * 1e4}
