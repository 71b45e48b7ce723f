"""The APIs that are compared: their keys, and the versions that both sides advertise."""

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS = 11, 12, 13, 14, 15, 16
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS = 18, 19, 20, 21
INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = 22, 23
DESCRIBE_CONFIGS, ALTER_CONFIGS, DESCRIBE_LOG_DIRS, CREATE_PARTITIONS = 32, 33, 35, 37
DELETE_GROUPS, INCREMENTAL_ALTER_CONFIGS, OFFSET_DELETE, DESCRIBE_CLUSTER = 42, 44, 47, 60
ELECT_LEADERS, DESCRIBE_QUORUM, ALTER_REPLICA_LOG_DIRS = 43, 55, 34
ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS = 45, 46
# What both advertise: the table of Syncline, narrowed to what is served.
RANGES = {
    PRODUCE: (3, 11), FETCH: (4, 17), LIST_OFFSETS: (1, 9), METADATA: (0, 12), OFFSET_COMMIT: (2, 9),
    OFFSET_FETCH: (1, 9), FIND_COORDINATOR: (0, 6), JOIN_GROUP: (0, 9), HEARTBEAT: (0, 4), LEAVE_GROUP: (0, 5),
    SYNC_GROUP: (0, 5), DESCRIBE_GROUPS: (0, 5), LIST_GROUPS: (0, 5), API_VERSIONS: (0, 4), CREATE_TOPICS: (2, 7),
    DELETE_TOPICS: (1, 6), DELETE_RECORDS: (0, 2), INIT_PRODUCER_ID: (0, 5), OFFSET_FOR_LEADER_EPOCH: (2, 4),
    DESCRIBE_CONFIGS: (1, 4), ALTER_CONFIGS: (0, 2), DESCRIBE_LOG_DIRS: (1, 4), CREATE_PARTITIONS: (0, 3),
    DELETE_GROUPS: (0, 2), INCREMENTAL_ALTER_CONFIGS: (0, 1), OFFSET_DELETE: (0, 0), DESCRIBE_CLUSTER: (0, 1),
    ELECT_LEADERS: (0, 2), DESCRIBE_QUORUM: (0, 2), ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    LIST_PARTITION_REASSIGNMENTS: (0, 0), ALTER_REPLICA_LOG_DIRS: (1, 2),
}  # fmt: skip


def every(key: int) -> tuple[int, ...]:
    """Return every version that both advertise."""
    low, high = RANGES[key]
    return tuple(range(low, high + 1))


def edges(key: int) -> tuple[int, ...]:
    """Return the lowest and the highest version that both advertise."""
    return tuple(dict.fromkeys(RANGES[key]))


def latest(key: int) -> int:
    """Return the highest version that both advertise."""
    return RANGES[key][1]
