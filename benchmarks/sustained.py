"""`make bench-sustained`: ten gigabytes without a pause, Syncline beside Apache Kafka in the same run.

    python -m benchmarks.sustained [--gigabytes N] [--memory fresh|used] [--client confluent-kafka|batches]
                                   [--no-kafka] [--write]

Three brokers, four partitions with three replicas, records of 1 KB, acks=all. Each side has a cluster of its own,
starts it, warms it with 100 MB, and removes its data afterwards. One side is three processes that only pass bytes on
and write them (`bare_cluster.py`): no broker of three processes in Python is faster. One client, of two:

confluent-kafka  A real one, as fast as it can be: it gets a hundred records with each call, and wants reports of
                 failures alone, since those of successes would take more processor time than our brokers. It still
                 takes some 2 s/GB, so what is measured is the client as well.
batches          One that sends batches of 500 records which it has made before (`batch_producer.py`), for 0.3 s/GB:
                 what is measured is the brokers.

What is measured depends on the memory that files find. `fresh`: nearly all of it is free, and on a virtual machine most
of it was never touched, or given back to the host; the first touch is dear. `used`: it is full of clean pages of a file
(as on a machine that has run for a while), which the kernel reclaims.

Units: a gigabyte is 1e9 bytes. It exits with 1 unless Syncline keeps its bounds, with a sentence for each it does not.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import load
from benchmarks.bare_cluster import start_bare
from benchmarks.batch_producer import produce_batches
from benchmarks.pages import replace_table
from benchmarks.peers import KAFKA_VERSION, ROOT, WORK, Peer, kafka_jars, start_kafka, start_syncline
from benchmarks.run import KEPT as KEEPING
from benchmarks.run import machine
from benchmarks.sustained_outcome import BARE, BOUNDS, KEPT, OURS, THEIRS, Outcome, Sample, table
from benchmarks.sustained_picture import draw
from syncline.records.builder import BatchBuilder

RECORD_BYTES: Final = 1_000
# What the real client gets with one call, and what it may have in its queue, of 200 MB.
CALL_RECORDS: Final = 100
QUEUED_RECORDS_MAX: Final = 150_000
# What the other one sends at once.
BATCH_RECORDS: Final = 500
SAMPLE_S: Final = 1.0
GIGABYTES_MIN: Final = 0.1
# Three copies, and some room.
ROOM: Final = 3.5
# With less free memory than this the kernel reclaims.
FULL_BYTES: Final = 600_000_000
PIECE_BYTES: Final = 8 << 20

SIDES: Final[Mapping[str, Callable[[], Peer]]] = {
    OURS: lambda: start_syncline(3),
    KEPT: lambda: start_syncline(3, KEEPING),
    BARE: lambda: start_bare(3),
    THEIRS: lambda: start_kafka(3),
}


Client: TypeAlias = Callable[[Peer, str, int], list[Sample]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all sides, print the table, and say which bounds were not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--memory", choices=["fresh", "used"], default="fresh")
    parser.add_argument("--client", choices=list(CLIENTS), default=next(iter(CLIENTS)))
    parser.add_argument("--no-kafka", action="store_true", help="measure Syncline alone, and write nothing")
    parser.add_argument("--write", action="store_true", help="write table and picture to docs")
    options = parser.parse_args(arguments)
    if not options.gigabytes >= GIGABYTES_MIN:
        parser.error(f"{options.gigabytes:g} GB are too few to measure: name at least {GIGABYTES_MIN:g}")
    WORK.mkdir(exist_ok=True)
    free_bytes = psutil.disk_usage(str(WORK)).free
    if free_bytes < options.gigabytes * 1e9 * ROOM:
        parser.error(f"{WORK} has {free_bytes / 1e9:.0f} GB free; {options.gigabytes * ROOM:.0f} GB are needed")
    if not options.no_kafka:
        kafka_jars()
    outcomes = {}
    for side, start in SIDES.items():
        if side == THEIRS and options.no_kafka:
            continue
        print(f"{side} ...", file=sys.stderr, flush=True)
        with memory(options.memory):
            outcomes[side] = measure(side, start, options.gigabytes, CLIENTS[options.client])
        print(outcomes[side], flush=True)
    if options.no_kafka:
        return 0
    print("\n".join(lines := table(outcomes)))
    if options.write:
        write(options.memory, options.client, options.gigabytes, outcomes, lines)
    unmet = [bound.sentence(outcomes) for bound in BOUNDS if not bound.is_met(outcomes)]
    for sentence in unmet:
        print(sentence, file=sys.stderr)
    return 1 if unmet else 0


def write(
    memory_state: str, client: str, gigabytes: float, outcomes: Mapping[str, Outcome], lines: Sequence[str]
) -> None:
    """Write the table and the picture."""
    picture = ROOT / "docs" / f"sustained-{memory_state}-{client}.svg"
    picture.write_text(draw(outcomes), encoding="utf-8")
    when = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}, Apache Kafka {KAFKA_VERSION}, {gigabytes:g} GB a side:"
    label = "Megabytes per second and processor time per gigabyte, over time"
    replace_table(f"sustained: {memory_state} memory, {client}", [when, "", *lines, "", f"![{label}]({picture.name})"])


@contextmanager
def memory(state: str) -> Iterator[None]:
    """Leave the memory as it is, or fill it with pages of a file without contents."""
    if state == "fresh":
        yield
        return
    filler = WORK / "filler"
    try:
        fill(filler)
        yield
    finally:
        filler.unlink(missing_ok=True)


def fill(filler: Path) -> None:
    """Read a file that has no blocks on the disk until nearly no memory is free."""
    with filler.open("wb") as file:
        file.truncate(psutil.virtual_memory().total)
    piece = bytearray(PIECE_BYTES)
    with filler.open("rb", buffering=0) as file:
        while psutil.virtual_memory().free > FULL_BYTES and file.readinto(piece):
            pass


def measure(side: str, start: Callable[[], Peer], gigabytes: float, client: Client) -> Outcome:
    """Produce so much to a cluster of its own; its data is gone afterwards."""
    peer = start()
    try:
        for topic in ("warm", "sustained"):
            # One that only passes on takes any topic for one of its own.
            if side != BARE:
                load.create_topic(peer, topic)
        load.produce(peer, "warm", RECORD_BYTES, 100_000)
        count = round(gigabytes * 1e9 / RECORD_BYTES / BATCH_RECORDS) * BATCH_RECORDS
        samples = client(peer, "sustained", count)
        stored = count if side == BARE else records_of(peer, "sustained")
        if stored != count:
            raise RuntimeError(f"{side}: {count} records were acknowledged, {stored} are there")
        return Outcome(side, samples)
    finally:
        peer.stop()


def produce(peer: Peer, topic: str, count: int) -> list[Sample]:
    """Produce `count` records as fast as they are taken; return a sample each second, of what is acknowledged.

    `count` is a multiple of what one call takes.
    """
    assert count % CALL_RECORDS == 0, f"{count} records are no whole number of calls"
    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "acks": "all",
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 200_000,
            "delivery.report.only.error": True,
            "error_cb": failed.append,
            "on_delivery": lambda error, _: failed.append(error),
        }
    )
    value = os.urandom(RECORD_BYTES)
    began_s, cpu_s = time.perf_counter(), peer.cpu_s()
    samples = [Sample(0.0, 0, 0.0)]

    def sample(produced: int) -> None:
        """Take a sample; what is not acknowledged is still in the client."""
        acknowledged = (produced - len(producer)) * RECORD_BYTES
        samples.append(Sample(time.perf_counter() - began_s, acknowledged, peer.cpu_s() - cpu_s))

    messages = [{"value": value}] * CALL_RECORDS
    for number in range(0, count, CALL_RECORDS):
        while len(producer) > QUEUED_RECORDS_MAX:
            producer.poll(0.01)
        queued = producer.produce_batch(topic, messages, partition=number // CALL_RECORDS % load.PARTITIONS)
        if queued != CALL_RECORDS:
            raise RuntimeError(f"the client took {queued} of {CALL_RECORDS} records")
        producer.poll(0)
        if time.perf_counter() - began_s - samples[-1].at_s >= SAMPLE_S:
            sample(number + CALL_RECORDS)
    left = producer.flush(120)
    sample(count)
    if failed or left:
        raise RuntimeError(f"{peer.name}: {left} records were not acknowledged, {len(failed)} errors: {failed[:1]}")
    return samples


def produce_in_batches(peer: Peer, topic: str, count: int) -> list[Sample]:
    """Do the same with copies of one batch; `count` is a multiple of its records."""
    assert count % BATCH_RECORDS == 0, f"{count} records are no whole number of batches"
    builder, now_ms = BatchBuilder(), int(time.time() * 1_000)
    value = os.urandom(RECORD_BYTES)
    for _ in range(BATCH_RECORDS):
        builder.append(now_ms, None, value)
    began_s, cpu_s = time.perf_counter(), peer.cpu_s()
    samples = [Sample(0.0, 0, 0.0)]
    acknowledged_bytes = 0

    def sample() -> None:
        samples.append(Sample(time.perf_counter() - began_s, acknowledged_bytes, peer.cpu_s() - cpu_s))

    def acknowledged(batches: int) -> None:
        nonlocal acknowledged_bytes
        acknowledged_bytes = batches * BATCH_RECORDS * RECORD_BYTES
        if time.perf_counter() - began_s - samples[-1].at_s >= SAMPLE_S:
            sample()

    produce_batches(peer.bootstrap, topic, builder.build(), count // BATCH_RECORDS, acknowledged)
    sample()
    return samples


def records_of(peer: Peer, topic: str) -> int:
    """Return how many records the topic has, by the offsets of its ends."""
    with closing(Consumer({"bootstrap.servers": peer.bootstrap, "group.id": "sustained"})) as consumer:
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, index), 10) for index in range(load.PARTITIONS)]
        return sum(high - low for low, high in ends)


CLIENTS: Final[Mapping[str, Client]] = {"confluent-kafka": produce, "batches": produce_in_batches}

if __name__ == "__main__":
    sys.exit(main())
