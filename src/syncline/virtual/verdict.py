"""Judging a finished run: the answers that clients got against what is on the disks.

Names of the checks: H1 (an offset has one value), H2 (an acknowledged record is
there), H5 (once, when the producer is idempotent), H7 and H10 are judged while
consumers read, H9 (a producer's records are in its order), S3 (replicas
agree below the mark), L3 (replicas are whole), L5 (every request got an answer,
every consumer is at the end).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from syncline.model.ids import TopicPartition
from syncline.records.batch import iterate
from syncline.records.record import read_records
from syncline.virtual.clients.workload import ConsumerClient, ProducerClient, Sent
from syncline.virtual.cluster import CONFIG, VirtualCluster

# Returns the replicas of a partition that a throttle of a user keeps out of the in-sync set.
Held = Callable[[TopicPartition], frozenset[int]]


def nothing_held(_key: TopicPartition) -> frozenset[int]:
    """Return no replica."""
    return frozenset()


class Verdict(NamedTuple):
    """Violations, and the number of duplicates from producers that may write them."""

    violations: list[str]
    duplicates: int


def unsettled(
    cluster: VirtualCluster,
    keys: Iterable[TopicPartition],
    producers: Sequence[ProducerClient],
    consumers: Sequence[ConsumerClient],
    held: Held = nothing_held,
) -> str | None:
    """Return what is still missing after all faults have ended; None if the cluster is whole.

    Replicas that `held` names need not be whole. Partitions that have too few others accept nothing.
    """
    refusing = set()
    for key in keys:
        missing = _not_whole(cluster, key, held(key))
        if missing:
            return missing
        if held(key) and _accepts_nothing(cluster, key):
            refusing.add(key.topic)
    for producer in producers:
        if not producer.task.done() and producer.topic not in refusing:
            return f"L5 {producer.name} still waits for an answer"
    for consumer in consumers:
        for key in consumer.reads:
            end = cluster.ghost.committed_end(key)
            if not consumer.has_read(key, end):
                return f"L5 {consumer.name} has not read {key} up to {end}"
    return None


def _not_whole(cluster: VirtualCluster, key: TopicPartition, held: frozenset[int]) -> str | None:
    record = cluster.store.image.partition(key.topic, key.partition)
    if record is None:
        return f"L1 {key} does not exist"
    if cluster.hosts.get(record.leader) is None:
        return f"L1 {key} has no leader; in sync {record.isr}, eligible {record.elr}"
    replicas = [each for each in record.replicas if each not in held]
    if not set(replicas) <= set(record.isr):
        return f"L3 {key}: only {record.isr} of {replicas} are in sync"
    partitions = {broker_id: cluster.hosts[broker_id].partition(key) for broker_id in replicas}
    if any(partition is None for partition in partitions.values()):
        return f"L2 {key} is not hosted by all of {replicas}"
    ends = {broker_id: partition.log.log_end for broker_id, partition in partitions.items() if partition}
    marks = {broker_id: partition.high_watermark for broker_id, partition in partitions.items() if partition}
    if held and _accepts_nothing(cluster, key):
        return None if len({*marks.values()}) == 1 else f"L3 {key}: high watermarks {marks}"
    if len({*ends.values(), *marks.values()}) > 1:
        return f"L3 {key}: log ends {ends}, high watermarks {marks}"
    return None


def _accepts_nothing(cluster: VirtualCluster, key: TopicPartition) -> bool:
    """Return whether the in-sync set is too small to commit anything."""
    record = cluster.store.image.partition(key.topic, key.partition)
    return record is not None and len(record.isr) < int(CONFIG["min.insync.replicas"])


def judge(
    cluster: VirtualCluster,
    keys: Sequence[TopicPartition],
    producers: Sequence[ProducerClient],
    consumers: Sequence[ConsumerClient],
) -> Verdict:
    """Return what is wrong with the logs on the disks of all replicas."""
    violations: list[str] = []
    duplicates = 0
    for key in keys:
        log = _agreed_log(cluster, key, violations)
        values = _values(log)
        for producer in producers:
            if producer.topic == key.topic:
                sent = [each for each in producer.history if each.key == key]
                duplicates += _judge_producer(key, producer, sent, values, violations)
        for consumer in consumers:
            if key in consumer.reads:
                _judge_consumer(key, consumer, values, violations)
    return Verdict(violations, duplicates)


def _agreed_log(cluster: VirtualCluster, key: TopicPartition, violations: list[str]) -> bytes:
    """Return the log below the highest mark; report replicas that differ below the lower of their marks."""
    record = cluster.store.image.partition(key.topic, key.partition)
    if record is None:
        violations.append(f"L1 {key} does not exist")
        return b""
    marks = {
        broker_id: partition.high_watermark
        for broker_id in record.replicas
        if (partition := cluster.hosts[broker_id].partition(key)) is not None
    }
    if len(marks) < len(record.replicas):
        violations.append(f"L2 {key}: only {list(marks)} of {record.replicas} host it")
    if not marks:
        return b""
    longest = max(marks, key=marks.__getitem__)
    for broker_id, mark in marks.items():
        ours = cluster.ghost.raw(longest, key).contents(mark)
        theirs = cluster.ghost.raw(broker_id, key).contents(mark)
        if ours != theirs:
            size = min(len(ours), len(theirs))
            at = next((place for place in range(size) if ours[place] != theirs[place]), size)
            violations.append(
                f"S3 {key}: brokers {longest} and {broker_id} differ below {mark} from byte {at} on"
                f" ({len(ours)} and {len(theirs)} bytes)"
            )
    return cluster.ghost.raw(longest, key).contents(marks[longest])


def _values(log: bytes) -> dict[int, bytes]:
    """Return the value at each offset."""
    values: dict[int, bytes] = {}
    for position, header in iterate(log, 0, len(log)):
        for record in read_records(log, position, header):
            values[record.offset] = record.value or b""
    return values


def _judge_producer(
    key: TopicPartition, producer: ProducerClient, sent: list[Sent], values: dict[int, bytes], violations: list[str]
) -> int:
    """Judge one producer's records in one partition; return how many were stored more than once."""
    places: dict[bytes, list[int]] = {}
    for offset, value in values.items():
        places.setdefault(value, []).append(offset)
    known = {each.value for each in sent}
    duplicates = 0
    for value, offsets in places.items():
        if value.startswith(f"{producer.name}:".encode()):
            duplicates += len(offsets) - 1
            if value not in known:
                violations.append(f"H6 {key}: {value.decode()} is stored, no producer sent it")
            if len(offsets) > 1 and producer.is_idempotent:
                violations.append(f"H5 {key}: {value.decode()} of an idempotent producer is stored at {offsets}")
    last = -1
    for each in sorted((each for each in sent if each.is_ok), key=lambda each: int(each.value.rsplit(b":", 1)[1])):
        offsets = places.get(each.value, [])
        if not offsets:
            violations.append(
                f"H2 {key}: {each.value.decode()} was acknowledged at {each.done_ns / 1e9:.3f} s"
                f" with offset {each.offset} and is gone"
            )
            continue
        if each.offset >= 0 and each.offset not in offsets:
            violations.append(f"H1 {key}: {each.value.decode()} was acknowledged at {each.offset}, it is at {offsets}")
        if offsets[0] < last:
            violations.append(f"H9 {key}: {each.value.decode()} is at {offsets[0]}, an earlier one at {last}")
        last = max(last, offsets[0])
    return duplicates


def _judge_consumer(
    key: TopicPartition, consumer: ConsumerClient, values: dict[int, bytes], violations: list[str]
) -> None:
    seen: dict[int, bytes] = {}
    for read in consumer.reads[key]:
        seen[read.offset] = read.value
        if values.get(read.offset) != read.value:
            stored = values.get(read.offset)
            violations.append(
                f"H4 {key}: {consumer.name} read {read.value.decode()} at {read.offset}, there is {stored!r}"
            )
    for offset, value in values.items():
        if offset not in seen:
            violations.append(f"H3 {key}: {consumer.name} never read {value.decode()} at {offset}")
