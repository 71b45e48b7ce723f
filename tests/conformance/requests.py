"""Requests as steps, in a few words each; what differs between versions of one API is settled here.

Topics and groups given as `str` are names of the sequence; other values (`exact(...)`, saved ones) are sent as is.
Every function takes the version first and passes what it does not know to `Step`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.apis import (
    ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_REPLICA_LOG_DIRS,
    API_VERSIONS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_QUORUM,
    DESCRIBE_TOPIC_PARTITIONS,
    ELECT_LEADERS,
    FETCH,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LIST_CONFIG_RESOURCES,
    LIST_OFFSETS,
    LIST_PARTITION_REASSIGNMENTS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
)
from tests.conformance.steps import Step, Target, TopicId, exact, leader, name

IDS_FROM = 13
Partitions = Mapping[int, Any]


def _leader_of_first(topics: Any) -> Target:
    topic, partitions = topic_rows(topics)[0]
    return leader(topic, partition_pairs(partitions)[0][0])


def topic_rows(topics: Any) -> list[tuple[Any, Partitions]]:
    """Return (topic, partitions) of a mapping, or of pairs that may name a topic twice."""
    return list(topics.items()) if isinstance(topics, Mapping) else list(topics)


def partition_pairs(partitions: Any) -> list[tuple[int, Any]]:
    """Return (partition, value) of a mapping, or of pairs that may name a partition twice."""
    return list(partitions.items()) if isinstance(partitions, Mapping) else list(partitions)


def produce(version: int, topics: Any, *, acks: int = -1, timeout: int = 5000, **more: Any) -> Step:
    """Return a Produce; `topics` maps names to partitions to batches, or is a list of pairs for duplicates."""
    body = {
        "transactional_id": more.pop("transactional_id", None),
        "acks": acks,
        "timeout": timeout,
        "topic_data": [
            {
                "name": name(topic),
                "partition_data": [
                    {"index": index, "records": records} for index, records in partition_pairs(partitions)
                ],
            }
            for topic, partitions in topic_rows(topics)
        ],
    }
    more.setdefault(
        "to",
        _leader_of_first(topics) if topic_rows(topics) and partition_pairs(topic_rows(topics)[0][1]) else leader("t"),
    )
    return Step(key=PRODUCE, version=version, body=body, **more)


def fetch(version: int, topics: Any, *, max_wait: int = 0, min_bytes: int = 1, **more: Any) -> Step:
    """Return a Fetch; partitions map to an offset, or to fields of the partition."""
    rows = []
    for topic, partitions in topic_rows(topics):
        rows.append(
            {
                **_fetch_identity(version, topic),
                "partitions": [_fetch_partition(index, wanted) for index, wanted in partition_pairs(partitions)],
            }
        )
    replica_id = more.pop("replica_id", None)
    body: dict[str, Any] = {"max_wait": max_wait, "min_bytes": min_bytes, "topics": rows, "forgotten_topics_data": []}
    for option in ("max_bytes", "isolation_level", "session_id", "session_epoch", "rack_id"):
        if option in more:
            body[option] = more.pop(option)
    for topic, partitions in topic_rows(more.pop("forget", {})):
        body["forgotten_topics_data"].append({**_fetch_identity(version, topic), "partitions": list(partitions)})
    if replica_id is not None:
        body.update({"replica_state": {"replica_id": replica_id}} if version >= 15 else {"replica_id": replica_id})
    elif version < 15:
        body["replica_id"] = -1
    more.setdefault("to", _leader_of_first(topics) if rows and rows[0]["partitions"] else leader("t"))
    return Step(key=FETCH, version=version, body=body, **more)


def _fetch_identity(version: int, topic: Any) -> dict[str, Any]:
    if version < IDS_FROM:
        return {"topic": name(topic)}
    return {"topic_id": TopicId(topic) if isinstance(topic, str) else topic}


def _fetch_partition(index: int, wanted: Any) -> dict[str, Any]:
    fields = {"fetch_offset": wanted} if isinstance(wanted, int) else dict(wanted)
    return {"partition": index, "partition_max_bytes": 1_048_576, **fields}


def list_offsets(version: int, topics: Any, **more: Any) -> Step:
    """Return a ListOffsets; partitions map to a timestamp, or to fields of the partition."""
    rows = [
        {
            "name": name(topic),
            "partitions": [
                {"partition_index": index, **(wanted if isinstance(wanted, Mapping) else {"timestamp": wanted})}
                for index, wanted in partition_pairs(partitions)
            ],
        }
        for topic, partitions in topic_rows(topics)
    ]
    body = {"replica_id": more.pop("replica_id", -1), "isolation_level": more.pop("isolation_level", 0), "topics": rows}
    more.setdefault(
        "to", _leader_of_first(topics) if rows and partition_pairs(topic_rows(topics)[0][1]) else leader("t")
    )
    return Step(key=LIST_OFFSETS, version=version, body=body, **more)


def leader_epochs(version: int, topics: Any, **more: Any) -> Step:
    """Return an OffsetForLeaderEpoch; partitions map to an epoch, or to fields of the partition."""
    rows = [
        {
            "topic": name(topic),
            "partitions": [
                {"partition": index, **(wanted if isinstance(wanted, Mapping) else {"leader_epoch": wanted})}
                for index, wanted in partition_pairs(partitions)
            ],
        }
        for topic, partitions in topic_rows(topics)
    ]
    body = {"replica_id": more.pop("replica_id", -1), "topics": rows}
    more.setdefault(
        "to", _leader_of_first(topics) if rows and partition_pairs(topic_rows(topics)[0][1]) else leader("t")
    )
    return Step(key=OFFSET_FOR_LEADER_EPOCH, version=version, body=body, **more)


def delete_records(version: int, topics: Any, *, timeout: int = 5000, **more: Any) -> Step:
    """Return a DeleteRecords; partitions map to the offset to delete up to."""
    rows = [
        {
            "name": name(topic),
            "partitions": [
                {"partition_index": index, "offset": offset} for index, offset in partition_pairs(partitions)
            ],
        }
        for topic, partitions in topic_rows(topics)
    ]
    more.setdefault(
        "to", _leader_of_first(topics) if rows and partition_pairs(topic_rows(topics)[0][1]) else leader("t")
    )
    return Step(key=DELETE_RECORDS, version=version, body={"topics": rows, "timeout": timeout}, **more)


def metadata(version: int, topics: Sequence[Any] | None, *, create: bool = False, **more: Any) -> Step:
    """Return a Metadata; topics are names, `TopicId`s (from v10) or whole rows; None asks for all."""
    rows = None
    if topics is not None:
        rows = [_metadata_row(topic) for topic in topics]
    body = {"topics": rows, "allow_auto_topic_creation": create}
    for option in ("include_topic_authorized_operations", "include_cluster_authorized_operations"):
        body[option] = more.pop(option, False)
    return Step(key=METADATA, version=version, body=body, **more)


def _metadata_row(topic: Any) -> dict[str, Any]:
    if isinstance(topic, Mapping):
        return dict(topic)
    if isinstance(topic, TopicId):
        return {"topic_id": topic, "name": None}
    return {"name": name(topic)}


def init_producer_id(version: int, **more: Any) -> Step:
    """Return an InitProducerId; ids and epochs may be given."""
    body = {"transactional_id": more.pop("transactional_id", None), "transaction_timeout": more.pop("timeout", 60_000)}
    for option in ("producer_id", "producer_epoch"):
        if option in more:
            body[option] = more.pop(option)
    return Step(key=INIT_PRODUCER_ID, version=version, body=body, **more)


def new_topic(
    topic: Any, partitions: int = 1, factor: int = 1, *, assignments: Any = None, configs: Any = ()
) -> dict[str, Any]:
    """Return a row of CreateTopics; `configs` is a mapping or a list of pairs."""
    if assignments is not None:
        partitions, factor = -1, -1
    return {
        "name": name(topic),
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [
            {"partition_index": index, "broker_ids": list(ids)} for index, ids in partition_pairs(assignments or [])
        ],
        "configs": [{"name": key, "value": value} for key, value in partition_pairs(configs)],
    }


def create_topics(version: int, *rows: Any, timeout: int = 10_000, validate_only: bool = False, **more: Any) -> Step:
    """Return a CreateTopics."""
    body = {
        "topics": [row if isinstance(row, Mapping) else new_topic(row) for row in rows],
        "timeout": timeout,
        "validate_only": validate_only,
    }
    return Step(key=CREATE_TOPICS, version=version, body=body, **more)


def delete_topics(version: int, *topics: Any, timeout: int = 10_000, **more: Any) -> Step:
    """Return a DeleteTopics; topics are names, `TopicId`s (v6) or whole rows (v6)."""
    body: dict[str, Any] = {"timeout": timeout}
    if version >= 6:
        body["topics"] = [
            topic
            if isinstance(topic, Mapping)
            else (
                {"name": None, "topic_id": topic}
                if isinstance(topic, TopicId)
                else {"name": name(topic), "topic_id": None}
            )
            for topic in topics
        ]
    else:
        body["topic_names"] = [name(topic) for topic in topics]
    return Step(key=DELETE_TOPICS, version=version, body=body, **more)


def create_partitions(
    version: int, *rows: Any, timeout: int = 10_000, validate_only: bool = False, **more: Any
) -> Step:
    """Return a CreatePartitions; rows are (topic, count) or (topic, count, assignments)."""
    topics = [
        {
            "name": name(topic),
            "count": count,
            "assignments": None if not rest else [{"broker_ids": list(ids)} for ids in rest[0]],
        }
        for topic, count, *rest in rows
    ]
    body = {"topics": topics, "timeout": timeout, "validate_only": validate_only}
    return Step(key=CREATE_PARTITIONS, version=version, body=body, **more)


TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE = 2, 4, 8, 16, 32


def describe_configs(
    version: int, *resources: Any, synonyms: bool = False, documentation: bool = False, **more: Any
) -> Step:
    """Return a DescribeConfigs; resources are (type, name, keys or None)."""
    rows = [
        {
            "resource_type": kind,
            "resource_name": name(resource),
            "configuration_keys": None if keys is None else list(keys),
        }
        for kind, resource, keys in resources
    ]
    body = {"resources": rows, "include_synonyms": synonyms, "include_documentation": documentation}
    return Step(key=DESCRIBE_CONFIGS, version=version, body=body, **more)


def alter_configs(version: int, *resources: Any, validate_only: bool = False, **more: Any) -> Step:
    """Return an AlterConfigs; resources are (type, name, pairs of config and value)."""
    rows = [
        {
            "resource_type": kind,
            "resource_name": name(resource),
            "configs": [{"name": key, "value": value} for key, value in partition_pairs(configs)],
        }
        for kind, resource, configs in resources
    ]
    return Step(key=ALTER_CONFIGS, version=version, body={"resources": rows, "validate_only": validate_only}, **more)


SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def change_configs(version: int, *resources: Any, validate_only: bool = False, **more: Any) -> Step:
    """Return an IncrementalAlterConfigs; resources are (type, name, list of (config, operation, value))."""
    rows = [
        {
            "resource_type": kind,
            "resource_name": name(resource),
            "configs": [
                {"name": key, "config_operation": operation, "value": value} for key, operation, value in changes
            ],
        }
        for kind, resource, changes in resources
    ]
    body = {"resources": rows, "validate_only": validate_only}
    return Step(key=INCREMENTAL_ALTER_CONFIGS, version=version, body=body, **more)


def describe_cluster(version: int, **more: Any) -> Step:
    """Return a DescribeCluster."""
    body = {
        "include_cluster_authorized_operations": more.pop("authorized", False),
        "endpoint_type": more.pop("endpoint_type", 1),
        "include_fenced_brokers": more.pop("fenced", False),
    }
    return Step(key=DESCRIBE_CLUSTER, version=version, body=body, **more)


def describe_topics(version: int, *topics: Any, limit: int = 2_000, cursor: Any = None, **more: Any) -> Step:
    """Return a DescribeTopicPartitions; `cursor` is a topic and a partition."""
    place = None if cursor is None else {"topic_name": name(cursor[0]), "partition_index": cursor[1]}
    body = {"topics": [{"name": name(each)} for each in topics], "response_partition_limit": limit, "cursor": place}
    return Step(key=DESCRIBE_TOPIC_PARTITIONS, version=version, body=body, **more)


def list_config_resources(version: int, *kinds: int, **more: Any) -> Step:
    """Return a ListConfigResources; of topics, the sequence's own are kept."""
    body = {} if version == 0 else {"resource_types": list(kinds)}
    return Step(key=LIST_CONFIG_RESOURCES, version=version, body=body, own_rows=True, **more)


def describe_producers(version: int, topics: Any, **more: Any) -> Step:
    """Return a DescribeProducers; topics map to partition indexes."""
    rows = [{"name": name(topic), "partition_indexes": list(indexes)} for topic, indexes in topic_rows(topics)]
    more.setdefault("to", leader("t"))
    return Step(key=DESCRIBE_PRODUCERS, version=version, body={"topics": rows}, **more)


def describe_log_dirs(version: int, topics: Any, **more: Any) -> Step:
    """Return a DescribeLogDirs; None asks for all topics, of which the sequence's own are kept."""
    rows = None
    if topics is not None:
        rows = [{"topic": name(topic), "partitions": list(indexes)} for topic, indexes in topic_rows(topics)]
    return Step(key=DESCRIBE_LOG_DIRS, version=version, body={"topics": rows}, own_rows=True, **more)


def alter_log_dirs(version: int, *directories: tuple[Any, Any], **more: Any) -> Step:
    """Return an AlterReplicaLogDirs; each directory comes with partition indexes by topic."""
    rows = [
        {
            "path": path,
            "topics": [{"name": name(topic), "partitions": list(indexes)} for topic, indexes in topic_rows(topics)],
        }
        for path, topics in directories
    ]
    return Step(key=ALTER_REPLICA_LOG_DIRS, version=version, body={"dirs": rows}, **more)


PREFERRED, UNCLEAN = 0, 1
METADATA_TOPIC = exact("__cluster_metadata")


def elect_leaders(version: int, topics: Any, kind: int = PREFERRED, *, timeout: int = 10_000, **more: Any) -> Step:
    """Return an ElectLeaders; topics map to partition indexes, None asks for all partitions."""
    rows = None
    if topics is not None:
        rows = [{"topic": name(topic), "partitions": list(indexes)} for topic, indexes in topic_rows(topics)]
    body = {"election_type": kind, "topic_partitions": rows, "timeout": timeout}
    return Step(key=ELECT_LEADERS, version=version, body=body, own_rows=topics is None, **more)


def reassign(version: int, topics: Any, *, timeout: int = 10_000, allow: bool = True, **more: Any) -> Step:
    """Return an AlterPartitionReassignments; topics map partitions to replicas, None cancels; `allow` is of v1."""
    rows = [
        {
            "name": name(topic),
            "partitions": [
                {"partition_index": index, "replicas": replicas} for index, replicas in partition_pairs(partitions)
            ],
        }
        for topic, partitions in topic_rows(topics)
    ]
    body: dict[str, Any] = {"timeout": timeout, "topics": rows}
    if version >= 1:
        body["allow_replication_factor_change"] = allow
    return Step(key=ALTER_PARTITION_REASSIGNMENTS, version=version, body=body, **more)


def list_reassignments(topics: Any = None, *, version: int = 0, timeout: int = 10_000, **more: Any) -> Step:
    """Return a ListPartitionReassignments; topics map to partition indexes, None asks for all."""
    rows = None
    if topics is not None:
        rows = [{"name": name(topic), "partition_indexes": list(indexes)} for topic, indexes in topic_rows(topics)]
    body = {"timeout": timeout, "topics": rows}
    return Step(key=LIST_PARTITION_REASSIGNMENTS, version=version, body=body, own_rows=topics is None, **more)


def describe_quorum(version: int, topics: Any = ((METADATA_TOPIC, (0,)),), **more: Any) -> Step:
    """Return a DescribeQuorum; topics map to partition indexes."""
    rows = [
        {"topic_name": name(topic), "partitions": [{"partition_index": index} for index in indexes]}
        for topic, indexes in topic_rows(topics)
    ]
    return Step(key=DESCRIBE_QUORUM, version=version, body={"topics": rows}, **more)


def api_versions(version: int, software: str = "conformance", software_version: str = "1", **more: Any) -> Step:
    """Return an ApiVersions."""
    body = {"client_software_name": software, "client_software_version": software_version}
    return Step(key=API_VERSIONS, version=version, body=body, **more)
