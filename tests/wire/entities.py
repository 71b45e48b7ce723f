"""kio entities from plain values, as the other side of every round trip."""

import datetime as dt
import sys
import uuid
from types import ModuleType

from syncline.wire import codec
from syncline.wire.fetch import FetchRequest


def request_module(key: int, version: int) -> ModuleType:
    """Return the `kio` module of a request, which holds its nested types, too."""
    return sys.modules[codec.request_type(key, version).__module__]


def milliseconds(count: int) -> dt.timedelta:
    """Return a span of time as kio wants it."""
    return dt.timedelta(milliseconds=count)


def produce_request(version: int, transactional_id: str | None, acks: int, timeout_ms: int, topics: list) -> bytes:
    """Return a produce request as kio writes it."""
    module = request_module(0, version)
    return codec.encode_request(
        module.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout=milliseconds(timeout_ms),
            topic_data=tuple(
                module.TopicProduceData(
                    name=name,
                    partition_data=tuple(
                        module.PartitionProduceData(index=index, records=records) for index, records in entries
                    ),
                )
                for name, entries in topics
            ),
        )
    )


def fetch_request(version: int, request: FetchRequest) -> bytes:
    """Return a fetch request as kio writes it."""
    module = request_module(1, version)
    fields = {
        "max_wait": milliseconds(request.max_wait_ms),
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "topics": tuple(_fetch_topic(module, version, *topic) for topic in request.topics),
    }
    if version >= 15:
        fields["replica_state"] = module.ReplicaState(
            replica_id=request.replica_id, replica_epoch=request.replica_epoch
        )
    else:
        fields["replica_id"] = request.replica_id
    if version >= 7:
        fields["session_id"] = request.session_id
        fields["session_epoch"] = request.session_epoch
        fields["forgotten_topics_data"] = tuple(
            module.ForgottenTopic(**_topic(version, topic), partitions=tuple(numbers))
            for topic, numbers in request.forgotten
        )
    if version >= 11:
        fields["rack_id"] = request.rack_id
    return codec.encode_request(module.FetchRequest(**fields))


def _topic(version: int, topic: str | bytes) -> dict:
    return {"topic_id": uuid.UUID(bytes=topic)} if version >= 13 else {"topic": topic}


def _fetch_topic(module: ModuleType, version: int, topic: str | bytes, partitions: list) -> object:
    rows = []
    for row in partitions:
        fields = {
            "partition": row.partition,
            "fetch_offset": row.fetch_offset,
            "partition_max_bytes": row.partition_max_bytes,
        }
        if version >= 5:
            fields["log_start_offset"] = row.log_start_offset
        if version >= 9:
            fields["current_leader_epoch"] = row.current_leader_epoch
        if version >= 12:
            fields["last_fetched_epoch"] = row.last_fetched_epoch
        rows.append(module.FetchPartition(**fields))
    return module.FetchTopic(**_topic(version, topic), partitions=tuple(rows))
