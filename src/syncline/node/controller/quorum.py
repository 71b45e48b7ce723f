"""DescribeQuorum: the controller, described as Kafka describes its metadata quorum.

Syncline has no quorum: one broker holds the lease, and the store is one file. The
answer still has what administrators look for: which broker decides (the lease
holder is the leader, the lease's number the epoch), which version of the metadata
is committed, and how far each broker has applied it (registered brokers are the
voters: each of them may become controller).

Units: offsets are metadata versions, plus one as log ends are; timestamps are Unix ms, -1 unknown.
Source: KIP-595, KIP-836 (timestamps), KIP-853 (nodes).
"""

from collections.abc import Generator
from typing import Any, Final

from syncline.model.errors import ErrorCode
from syncline.model.ids import NONE
from syncline.model.metadata import BrokerRecord
from syncline.node.controller.active import ActiveController
from syncline.node.loop.list_parts import made_in_steps
from syncline.wire.rows import Rows

METADATA_TOPIC: Final = "__cluster_metadata"


def describe(controller: ActiveController, requested: Any) -> Generator[None, None, dict[str, Any]]:
    """Return the fields of the answer to a DescribeQuorum request, which may name many topics."""
    topics: list[tuple[str, list[int]]] = []
    for topic in requested:
        indexes = yield from made_in_steps(topic.partitions, lambda each: int(each.partition_index))
        topics.append((str(topic.topic_name), indexes))
        yield
    if topics != [(METADATA_TOPIC, [0])]:
        return _unknown(topics)
    image = controller.image
    voters = [_voter(controller, record) for _, record in sorted(image.brokers.items())]
    partition = {
        "partition_index": 0,
        "error_code": ErrorCode.NONE,
        "error_message": "",
        "leader_id": image.controller_id,
        "leader_epoch": controller.lease_epoch,
        "high_watermark": image.version + 1,
        "current_voters": voters,
        "observers": (),
    }
    nodes = [
        {
            "node_id": record.broker_id,
            "listeners": [{"name": "CONTROLLER", "host": record.internal_host, "port": record.internal_port}],
        }
        for _, record in sorted(image.brokers.items())
    ]
    return {
        "error_code": ErrorCode.NONE,
        "error_message": "",
        "topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}],
        "nodes": nodes,
    }


def _voter(controller: ActiveController, record: BrokerRecord) -> dict[str, Any]:
    version = controller.image.version
    session = controller.sessions.of(record.broker_id)
    now_ms, mono_ms = controller.clock.wall_ms(), controller.clock.mono_ms()
    applied_version, last_contact_wall_ms, caught_up_ms = NONE, NONE, NONE
    if record.broker_id == controller.image.controller_id:
        applied_version, last_contact_wall_ms, caught_up_ms = version, now_ms, now_ms
    elif session is not None and session.broker_epoch == record.broker_epoch:
        applied_version = session.metadata_version
        last_contact_wall_ms = now_ms - (mono_ms - session.last_contact_ms)
        if applied_version >= version:
            caught_up_ms = last_contact_wall_ms
        elif session.caught_up_ms is not None:
            caught_up_ms = now_ms - (mono_ms - session.caught_up_ms)
    return {
        "replica_id": record.broker_id,
        "replica_directory_id": None,
        "log_end_offset": applied_version + 1 if applied_version != NONE else NONE,
        "last_fetch_timestamp": last_contact_wall_ms,
        "last_caught_up_timestamp": caught_up_ms,
    }


def _unknown(topics: list[tuple[str, list[int]]]) -> dict[str, Any]:
    """Return the answer to a request about anything but the one metadata partition."""
    row = {
        "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "error_message": "This server does not host this topic-partition.",
        "leader_id": 0,
        "leader_epoch": 0,
        "high_watermark": 0,
        "current_voters": (),
        "observers": (),
    }
    return {
        "error_code": ErrorCode.NONE,
        "error_message": "",
        "topics": Rows(
            topics,
            lambda topic: {
                "topic_name": topic[0],
                "partitions": Rows(topic[1], lambda index: {"partition_index": index, **row}),
            },
            lambda topic: topic[1],
        ),
        "nodes": (),
    }
