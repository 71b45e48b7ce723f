"""Operations: CPU use at rest, how fast partitions are created, and how long a dead leader interrupts clients."""

import os
import signal
import time
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers import Peer

MANY = 2_000


def cpu_percent(peer: Peer, seconds: float = 20) -> float:
    """Return the CPU of all brokers at rest, in per cent of one core."""
    before_s = peer.cpu_s()
    time.sleep(seconds)
    return (peer.cpu_s() - before_s) / seconds * 100


def create_many(peer: Peer) -> dict[str, float]:
    """Create 2,000 partitions x 3; return seconds until answered, and until all are led and in sync."""
    factor = len(peer.pids)
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    admin.list_topics(timeout=10)
    began_s = time.monotonic()
    admin.create_topics([NewTopic("many", MANY, factor)], request_timeout=120, operation_timeout=120)["many"].result()
    answered_s = time.monotonic() - began_s
    while True:
        partitions = admin.list_topics("many", timeout=10).topics["many"].partitions.values()
        if len(partitions) == MANY and all(p.leader >= 0 and len(p.isrs) == factor for p in partitions):
            break
        time.sleep(0.02)
    return {"answered_s": answered_s, "in_sync_s": time.monotonic() - began_s}


def failover(peer: Peer) -> float:
    """Kill the leader under a trickle of acks=all records; return the longest time without an acknowledgement."""
    factor = len(peer.pids)
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    topic = NewTopic("failover", 1, factor, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["failover"].result()
    time.sleep(2)
    leader = admin.list_topics("failover").topics["failover"].partitions[0].leader
    gaps_s, last_s = [], [time.monotonic()]

    def acknowledged(error: Any, _: Any) -> None:
        if error is not None:
            raise RuntimeError(f"{peer.name}: a record was lost in the failover: {error}")
        now_s = time.monotonic()
        gaps_s.append(now_s - last_s[0])
        last_s[0] = now_s

    # Defaults except linger: what a user gets without tuning.
    producer = Producer({"bootstrap.servers": peer.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    began_s, killed = time.monotonic(), False
    while time.monotonic() < began_s + 20:
        producer.produce("failover", b"x", on_delivery=acknowledged)
        producer.poll(0)
        time.sleep(0.005)
        if not killed and time.monotonic() > began_s + 3:
            os.kill(peer.pids[leader], signal.SIGKILL)
            killed = True
    producer.flush(30)
    return max(gaps_s)
