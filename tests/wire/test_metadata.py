"""Metadata: our hands and kio agree on every version."""

import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.wire import codec
from syncline.wire.errors import DecodeError
from syncline.wire.metadata import (
    MetadataPartition,
    MetadataTopic,
    encode_metadata_response,
    encode_partitions,
    parse_metadata_request,
)
from tests.strategies import endpoints, int32s, metadata_topics, texts, topic_ids, topic_names
from tests.wire.entities import request_module

VERSIONS = range(13)


@given(st.sampled_from(VERSIONS), endpoints(), st.none() | texts, int32s, metadata_topics(), int32s)
def test_encoded_response_is_what_kio_writes(
    version: int, brokers: list, cluster_id: str | None, controller_id: int, topics: list, operations: int
) -> None:
    """Kio reads our answer and writes the same bytes."""
    ours = encode_metadata_response(
        version,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
        throttle_ms=5,
        authorized_operations=operations,
    )
    theirs = codec.decode_response(3, version, ours)

    assert codec.encode_response(theirs) == ours
    assert [broker.node_id for broker in theirs.brokers] == [broker.node_id for broker in brokers]
    for topic, their_topic in zip(topics, theirs.topics, strict=True):
        assert their_topic.name == topic.name
        assert not version >= 10 or their_topic.topic_id.bytes == topic.topic_id
        for row, partition in zip(topic.partitions, their_topic.partitions, strict=True):
            assert partition.partition_index == row.partition
            assert partition.leader_id == row.leader
            assert partition.isr_nodes == tuple(row.isr)
            assert not version >= 5 or partition.offline_replicas == tuple(row.offline_replicas)
            assert not version >= 7 or partition.leader_epoch == row.leader_epoch


@given(st.sampled_from(VERSIONS), metadata_topics())
def test_partitions_may_be_encoded_beforehand(version: int, topics: list[MetadataTopic]) -> None:
    """What was kept for a version gives the same answer."""
    kept = [topic._replace(partitions=encode_partitions(version, topic.partitions)) for topic in topics]

    def encode(rows: list[MetadataTopic]) -> bytearray:
        return encode_metadata_response(version, brokers=[], cluster_id="c", controller_id=1, topics=rows)

    assert encode(kept) == encode(topics)


def test_name_is_null_when_an_unknown_id_was_asked_for() -> None:
    """Version 12 may say null; before, the name is empty."""
    rows = [MetadataTopic(100, None, bytes(range(16)))]
    for version, name in ((12, None), (11, "")):
        body = encode_metadata_response(version, brokers=[], cluster_id=None, controller_id=-1, topics=rows)
        assert codec.decode_response(3, version, body).topics[0].name == name


def test_replica_lists_longer_than_a_byte_can_count_are_written() -> None:
    """The fast layout is for fewer than 127 brokers; more are written, too."""
    many = tuple(range(300))
    rows = [MetadataTopic(0, "t", bytes(15) + b"1", partitions=[MetadataPartition(0, 0, 1, 2, many, many, ())])]
    body = encode_metadata_response(12, brokers=[], cluster_id=None, controller_id=-1, topics=rows)

    assert codec.decode_response(3, 12, body).topics[0].partitions[0].replica_nodes == many


@given(
    st.sampled_from(VERSIONS),
    st.none() | st.lists(topic_names, max_size=4),
    st.lists(topic_ids, max_size=2),
    st.tuples(*[st.booleans()] * 3),
)
def test_parse_reads_what_kio_wrote(
    version: int, names: list[str] | None, ids: list[bytes], flags: tuple[bool, bool, bool]
) -> None:
    """Names, ids, null for all, and each flag in the versions that have it."""
    if version == 0 and names is None:
        names = []
    wanted = None if names is None else [(None, name) for name in names]
    module = request_module(3, version)
    topics = [] if names is None else [module.MetadataRequestTopic(**_asked(version, None, name)) for name in names]
    if version >= 12 and wanted is not None:
        topics += [module.MetadataRequestTopic(**_asked(version, topic_id, None)) for topic_id in ids]
        wanted += [(topic_id, None) for topic_id in ids]
    if version == 0 and not wanted:
        wanted = None
    fields: dict = {"topics": None if names is None else tuple(topics)}
    creates, of_cluster, of_topics = True, False, False
    if version >= 4:
        fields["allow_auto_topic_creation"] = creates = flags[0]
    if 8 <= version <= 10:
        fields["include_cluster_authorized_operations"] = of_cluster = flags[1]
    if version >= 8:
        fields["include_topic_authorized_operations"] = of_topics = flags[2]
    body = codec.encode_request(module.MetadataRequest(**fields))

    assert parse_metadata_request(b"head" + body + b"more", version, 4) == (wanted, creates, of_cluster, of_topics)
    for size in range(len(body)):
        with pytest.raises(DecodeError):
            parse_metadata_request(body[:size], version)


def _asked(version: int, topic_id: bytes | None, name: str | None) -> dict:
    fields: dict = {"name": name}
    if version >= 10:
        fields["topic_id"] = None if topic_id is None else uuid.UUID(bytes=topic_id)
    return fields


def test_answer_for_two_thousand_partitions_is_fast() -> None:
    """Every client asks every broker; the bound is ten times what it takes on a slow machine.

    In processor time of this thread: others may use the machine as well.
    """
    rows = [MetadataPartition(0, index, 1, 5, (1, 2, 3), (1, 2, 3), ()) for index in range(2000)]
    topics = [MetadataTopic(0, "topic", bytes(range(16)), partitions=rows)]
    best_s = 1.0
    for _ in range(5):
        started_s = time.thread_time()
        encode_metadata_response(12, brokers=[], cluster_id="c", controller_id=1, topics=topics)
        best_s = min(best_s, time.thread_time() - started_s)

    assert best_s < 0.025
