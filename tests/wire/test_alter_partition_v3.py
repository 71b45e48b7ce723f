"""AlterPartition between our own brokers: Kafka's message, and one more field."""

import io
from typing import Any
from uuid import UUID

from kio.schema.alter_partition.v3 import request as kafkas
from kio.serial import entity_reader, entity_writer

from syncline.wire.alter_partition_v3 import RELINQUISH_TAG
from syncline.wire.api import ApiKey
from syncline.wire.codec import decode_request, encode_request, request_type
from syncline.wire.entities import build


def fields(**partition: Any) -> dict[str, Any]:
    """Return the fields of a request for one partition."""
    row = {
        "partition_index": 3,
        "leader_epoch": 5,
        "new_isr_with_epochs": [{"broker_id": 1, "broker_epoch": 10}],
        "leader_recovery_state": 0,
        "partition_epoch": 20,
        **partition,
    }
    return {"broker_id": 1, "broker_epoch": 10, "topics": [{"topic_id": UUID(int=7), "partitions": [row]}]}


def encoded(**partition: Any) -> bytes:
    """Return our request's bytes."""
    return encode_request(build(request_type(ApiKey.ALTER_PARTITION, 3), fields(**partition)))


def test_request_without_the_wish_is_kafkas_byte_for_byte() -> None:
    """A leader that does not give up sends Kafka's message."""
    out = io.BytesIO()
    entity_writer(kafkas.AlterPartitionRequest)(out, build(kafkas.AlterPartitionRequest, fields()))

    assert encoded() == encoded(relinquish=False) == out.getvalue()


def test_wish_is_one_tagged_field() -> None:
    """It comes back as it was sent; the rest is as before."""
    body = encoded(relinquish=True)
    row = decode_request(ApiKey.ALTER_PARTITION, 3, body).topics[0].partitions[0]

    assert (row.relinquish, row.partition_index, row.partition_epoch) == (True, 3, 20)
    assert len(body) - len(encoded()) == 4
    assert RELINQUISH_TAG >= 10_000


def test_kafkas_own_request_is_read_as_one_without_the_wish() -> None:
    """The default is no."""
    row = decode_request(ApiKey.ALTER_PARTITION, 3, encoded()).topics[0].partitions[0]

    assert row.relinquish is False
    assert entity_reader(kafkas.AlterPartitionRequest)(memoryview(encoded()), 0)[0].topics[0].partitions
