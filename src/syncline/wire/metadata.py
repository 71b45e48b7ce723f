"""Metadata, by hand: describes a cluster of thousands of partitions in a millisecond (versions 0-12).

What each version changed: 1 null means all topics, controller id, racks; 2
cluster id; 3 throttle time; 4 auto-creation may be declined; 5 offline
replicas; 7 leader epochs; 8 authorized operations; 9 flexible; 10 topic ids
(KIP-516); 11 no operations of the cluster; 12 names may be null (asked by id).

Clients ask often, and ask all brokers; with a general codec an answer would cost
ten times as much. The rows of a topic can be encoded once and kept
(`encode_partitions`): they depend only on the version.
"""

import struct
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from syncline.records.buffers import Buffer
from syncline.wire.endpoints import NodeEndpoint
from syncline.wire.errors import DecodeError
from syncline.wire.primitives import (
    INT32,
    NO_TOPIC_ID,
    TOPIC_ID_BYTES,
    compact_string,
    not_null,
    nullable_compact_string,
    nullable_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_string,
    read_string,
    skip_tags,
    string,
    varint,
)
from syncline.wire.rows import Countable

# The value of the field if the client did not ask for operations.
NO_OPERATIONS: Final = -(1 << 31)

MetadataBroker = NodeEndpoint

_FLEXIBLE_SINCE: Final = 9
_BOOLEAN: Final = (b"\x00", b"\x01")
_INT16: Final = struct.Struct(">h")
_TOPIC_ID: Final = struct.Struct("16s")


class MetadataRequest(NamedTuple):
    """A client's request for metadata."""

    # (topic id or None, name or None); None instead of the list asks for all topics.
    topics: list[tuple[bytes | None, str | None]] | None
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class MetadataPartition(NamedTuple):
    """One partition as clients see it."""

    error_code: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline_replicas: Sequence[int] = ()


class MetadataTopic(NamedTuple):
    """One topic as clients see it; `partitions` may be the result of `encode_partitions` for the same version."""

    error_code: int
    name: str | None
    topic_id: bytes = NO_TOPIC_ID
    is_internal: bool = False
    partitions: Sequence[MetadataPartition] | bytes = ()
    authorized_operations: int = NO_OPERATIONS


def parse_metadata_request(buffer: Buffer, version: int, position: int = 0) -> MetadataRequest:
    """Return the request whose body begins at `position`. Raises DecodeError."""
    try:
        if version >= _FLEXIBLE_SINCE:
            return _parse_flexible(buffer, version, position)
        return _parse_legacy(buffer, version, position)
    except (struct.error, IndexError):
        raise DecodeError(f"a metadata request (version {version}) of {len(buffer)} bytes ends too early") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"a name in a metadata request is not UTF-8: {error}") from None


def _parse_flexible(buffer: Buffer, version: int, position: int) -> MetadataRequest:
    count, position = read_compact_count(buffer, position, 2)
    topics: list[tuple[bytes | None, str | None]] | None = None if count < 0 else []
    for _ in range(count):
        topic_id, name = None, None
        if version >= 10:
            (raw_id,) = _TOPIC_ID.unpack_from(buffer, position)
            topic_id = None if raw_id == NO_TOPIC_ID else raw_id
            name, position = read_nullable_compact_string(buffer, position + TOPIC_ID_BYTES)
        else:
            name, position = read_compact_string(buffer, position)
        position = skip_tags(buffer, position)
        assert topics is not None, "a null list has no items"
        topics.append((topic_id, name))
    creates = buffer[position] != 0
    of_cluster = False
    if version <= 10:
        position += 1
        of_cluster = buffer[position] != 0
    of_topics = buffer[position + 1] != 0
    skip_tags(buffer, position + 2)
    return MetadataRequest(topics, creates, of_cluster, of_topics)


def _parse_legacy(buffer: Buffer, version: int, position: int) -> MetadataRequest:
    count, position = read_count(buffer, position, 2)
    if version == 0:
        not_null(count)
    topics: list[tuple[bytes | None, str | None]] | None = []
    # In version 0 an empty list asks for everything.
    if count < 0 or (version == 0 and count == 0):
        topics = None
    for _ in range(count):
        name, position = read_string(buffer, position)
        assert topics is not None, "a list with items is not null"
        topics.append((None, name))
    if version < 4:
        return MetadataRequest(topics)
    creates = buffer[position] != 0
    if version < 8:
        return MetadataRequest(topics, creates)
    return MetadataRequest(topics, creates, buffer[position + 1] != 0, buffer[position + 2] != 0)


def encode_metadata_response(
    version: int,
    *,
    brokers: Sequence[MetadataBroker],
    cluster_id: str | None,
    controller_id: int,
    topics: Countable,
    throttle_ms: int = 0,
    authorized_operations: int = NO_OPERATIONS,
) -> bytearray:
    """Return the body of an answer, with the fields that `version` has."""
    steps = encode_metadata_in_steps(
        version,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
        throttle_ms=throttle_ms,
        authorized_operations=authorized_operations,
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            body: bytearray = end.value
            return body


def encode_metadata_in_steps(
    version: int,
    *,
    brokers: Sequence[MetadataBroker],
    cluster_id: str | None,
    controller_id: int,
    topics: Countable,
    throttle_ms: int = 0,
    authorized_operations: int = NO_OPERATIONS,
) -> Generator[None, None, bytearray]:
    """Return what `encode_metadata_response` returns, in a step per topic.

    `topics` may yield None between two topics, as often as it has worked for long: then, too, a step ends.
    """
    flexible = version >= _FLEXIBLE_SINCE
    nullable = nullable_compact_string if flexible else nullable_string
    out = bytearray(INT32.pack(throttle_ms) if version >= 3 else b"")
    out += _count(len(brokers), flexible=flexible)
    for node_id, host, port, rack in brokers:
        out += INT32.pack(node_id) + nullable(host) + INT32.pack(port)
        if version >= 1:
            out += nullable(rack)
        if flexible:
            out.append(0)
    if version >= 2:
        out += nullable(cluster_id)
    if version >= 1:
        out += INT32.pack(controller_id)
    out += _count(len(topics), flexible=flexible)
    for topic in topics:
        if topic is not None:
            _add_topic(out, version, topic)
        yield
    if 8 <= version <= 10:
        out += INT32.pack(authorized_operations)
    if flexible:
        out.append(0)
    return out


def _add_topic(out: bytearray, version: int, topic: MetadataTopic) -> None:
    error_code, name, topic_id, is_internal, partitions, operations = topic
    out += _INT16.pack(error_code)
    if version >= 12:
        out += nullable_compact_string(name)
    else:
        # Before version 12 a name cannot be null; Kafka writes an empty one.
        out += (compact_string if version >= _FLEXIBLE_SINCE else string)(name or "")
    if version >= 10:
        out += topic_id
    if version >= 1:
        out += _BOOLEAN[is_internal]
    out += partitions if isinstance(partitions, bytes) else encode_partitions(version, partitions)
    if version >= 8:
        out += INT32.pack(operations)
    if version >= _FLEXIBLE_SINCE:
        out.append(0)


def encode_partitions(version: int, partitions: Sequence[MetadataPartition]) -> bytes:
    """Return the partitions of one topic, preceded by their count."""
    return encode_partition_count(version, len(partitions)) + encode_partition_rows(version, partitions)


def encode_partition_count(version: int, count: int) -> bytes:
    """Return what precedes the partitions of a topic."""
    return _count(count, flexible=version >= _FLEXIBLE_SINCE)


def encode_partition_rows(version: int, partitions: Iterable[MetadataPartition]) -> bytes:
    """Return some partitions of one topic, without their count."""
    flexible = version >= _FLEXIBLE_SINCE
    rows: list[bytes] = []
    for error_code, partition, leader, leader_epoch, replicas, isr, offline in partitions:
        if flexible:
            layout = _flexible_row(len(replicas), len(isr), len(offline))
            if layout is not None:
                rows.append(
                    layout.pack(
                        error_code,
                        partition,
                        leader,
                        leader_epoch,
                        len(replicas) + 1,
                        *replicas,
                        len(isr) + 1,
                        *isr,
                        len(offline) + 1,
                        *offline,
                        0,
                    )
                )
                continue
        rows.append(struct.pack(">hii", error_code, partition, leader))
        if version >= 7:
            rows.append(INT32.pack(leader_epoch))
        for brokers in (replicas, isr, offline) if version >= 5 else (replicas, isr):
            rows.append(_count(len(brokers), flexible=flexible))
            rows.append(struct.pack(f">{len(brokers)}i", *brokers))
        if flexible:
            rows.append(b"\x00")
    return b"".join(rows)


@lru_cache(maxsize=256)
def _flexible_row(replica_count: int, isr_count: int, offline_count: int) -> struct.Struct | None:
    """Return the layout of a whole row whose counts fit one byte each."""
    if max(replica_count, isr_count, offline_count) > 126:
        return None
    return struct.Struct(f">hiiiB{replica_count}iB{isr_count}iB{offline_count}iB")


def _count(number: int, *, flexible: bool) -> bytes:
    return varint(number + 1) if flexible else INT32.pack(number)
