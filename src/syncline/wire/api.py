"""Which messages each listener serves, in which versions.

One hard idea: the table is a promise. Clients derive the broker's release and its
features from it, so a broker serves exactly what the table lists. Produce is the
one exception: its floor is advertised as 0 although 3 is the lowest version
served, because old librdkafka turns compression off at any higher floor
(KAFKA-18659).

A message is "flexible" from some version on: compact lengths, tagged fields,
and the request header that has tags, too (KIP-482).
Source: the Kafka protocol guide; KIP-896 (floors).
"""

from enum import IntEnum
from typing import Final, NamedTuple


class ApiKey(IntEnum):
    """Messages by their official numbers; those from 20000 on are Syncline's own."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    ALLOCATE_PRODUCER_IDS = 67
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    METADATA_DELTAS = 20000
    FORWARD = 20001
    CONTROL = 20002
    PEER_BEAT = 20003
    STOP_TOGETHER = 20004
    DOUBT = 20005
    COPIES = 20006
    LAG = 20007
    APPEND_TIMES = 20008
    GROUP_ROWS = 20009


class VersionRange(NamedTuple):
    """Versions from `min` to `max`, both included."""

    min: int
    max: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.min <= version <= self.max


# What the client listener serves.
CLIENT_VERSIONS: Final[dict[ApiKey, VersionRange]] = {
    ApiKey.PRODUCE: VersionRange(3, 11),
    ApiKey.FETCH: VersionRange(4, 17),
    ApiKey.LIST_OFFSETS: VersionRange(1, 9),
    ApiKey.METADATA: VersionRange(0, 12),
    ApiKey.OFFSET_COMMIT: VersionRange(2, 9),
    ApiKey.OFFSET_FETCH: VersionRange(1, 9),
    ApiKey.FIND_COORDINATOR: VersionRange(0, 6),
    ApiKey.JOIN_GROUP: VersionRange(0, 9),
    ApiKey.HEARTBEAT: VersionRange(0, 4),
    ApiKey.LEAVE_GROUP: VersionRange(0, 5),
    ApiKey.SYNC_GROUP: VersionRange(0, 5),
    ApiKey.DESCRIBE_GROUPS: VersionRange(0, 6),
    ApiKey.LIST_GROUPS: VersionRange(0, 5),
    ApiKey.SASL_HANDSHAKE: VersionRange(0, 1),
    ApiKey.API_VERSIONS: VersionRange(0, 4),
    ApiKey.CREATE_TOPICS: VersionRange(2, 7),
    ApiKey.DELETE_TOPICS: VersionRange(1, 6),
    ApiKey.DELETE_RECORDS: VersionRange(0, 2),
    ApiKey.INIT_PRODUCER_ID: VersionRange(0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: VersionRange(2, 4),
    ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 4),
    ApiKey.ALTER_CONFIGS: VersionRange(0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: VersionRange(1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: VersionRange(1, 4),
    ApiKey.SASL_AUTHENTICATE: VersionRange(0, 2),
    ApiKey.CREATE_PARTITIONS: VersionRange(0, 3),
    ApiKey.DELETE_GROUPS: VersionRange(0, 2),
    ApiKey.ELECT_LEADERS: VersionRange(0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: VersionRange(0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: VersionRange(0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: VersionRange(0, 0),
    ApiKey.OFFSET_DELETE: VersionRange(0, 0),
    ApiKey.DESCRIBE_QUORUM: VersionRange(0, 2),
    ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 2),
    ApiKey.DESCRIBE_PRODUCERS: VersionRange(0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: VersionRange(0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: VersionRange(0, 0),
}

# What ApiVersions answers on the client listener.
ADVERTISED_VERSIONS: Final[dict[ApiKey, VersionRange]] = CLIENT_VERSIONS | {ApiKey.PRODUCE: VersionRange(0, 11)}

# What brokers send to each other, besides all that clients may send.
INTERNAL_VERSIONS: Final[dict[ApiKey, VersionRange]] = CLIENT_VERSIONS | {
    ApiKey.ALTER_PARTITION: VersionRange(2, 3),
    ApiKey.BROKER_REGISTRATION: VersionRange(0, 4),
    ApiKey.BROKER_HEARTBEAT: VersionRange(0, 1),
    ApiKey.ALLOCATE_PRODUCER_IDS: VersionRange(0, 0),
    ApiKey.METADATA_DELTAS: VersionRange(0, 0),
    ApiKey.FORWARD: VersionRange(0, 0),
    ApiKey.CONTROL: VersionRange(0, 0),
    ApiKey.PEER_BEAT: VersionRange(0, 0),
    ApiKey.STOP_TOGETHER: VersionRange(0, 0),
    ApiKey.DOUBT: VersionRange(0, 0),
    ApiKey.COPIES: VersionRange(0, 0),
    ApiKey.LAG: VersionRange(0, 0),
    ApiKey.APPEND_TIMES: VersionRange(0, 0),
    ApiKey.GROUP_ROWS: VersionRange(0, 0),
}

# Records, the metadata of group members and forwarded client requests may be as large as
# socket.request.max.bytes. All other messages are lists of small items, which take time to read.
LISTS_BYTES_MAX: Final = 4 << 20
_MAY_BE_LARGE: Final = frozenset({ApiKey.PRODUCE, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.FORWARD})

# Looking up an enumeration member costs as much as a call, and every request needs this one.
_API_VERSIONS: Final = ApiKey.API_VERSIONS

_LISTENERS: Final = {"client": CLIENT_VERSIONS, "internal": INTERNAL_VERSIONS}

_NEVER: Final = 1 << 15
# From which version on a message is flexible.
FLEXIBLE_SINCE: Final[dict[int, int]] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.METADATA: 9,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 6,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.JOIN_GROUP: 6,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 4,
    ApiKey.SYNC_GROUP: 4,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 3,
    ApiKey.SASL_HANDSHAKE: _NEVER,
    ApiKey.API_VERSIONS: 3,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 4,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 2,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 2,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.CREATE_PARTITIONS: 2,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.OFFSET_DELETE: _NEVER,
    ApiKey.DESCRIBE_QUORUM: 0,
    ApiKey.ALTER_PARTITION: 0,
    ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.LIST_CONFIG_RESOURCES: 0,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
    ApiKey.BROKER_REGISTRATION: 0,
    ApiKey.BROKER_HEARTBEAT: 0,
    ApiKey.ALLOCATE_PRODUCER_IDS: 0,
    ApiKey.METADATA_DELTAS: 0,
    ApiKey.FORWARD: 0,
    ApiKey.CONTROL: 0,
    ApiKey.PEER_BEAT: 0,
    ApiKey.STOP_TOGETHER: 0,
    ApiKey.DOUBT: 0,
    ApiKey.COPIES: 0,
    ApiKey.LAG: 0,
    ApiKey.APPEND_TIMES: 0,
    ApiKey.GROUP_ROWS: 0,
}

assert FLEXIBLE_SINCE.keys() == set(ApiKey), "every message has a first flexible version, or none"


def is_served(key: int, version: int, listener: str) -> bool:
    """Return whether the listener ("client" or "internal") serves this version of the message."""
    # A plain int finds its IntEnum member, because the two are equal and hash alike.
    served = _LISTENERS[listener].get(key)  # type: ignore[call-overload]
    return served is not None and served.min <= version <= served.max


def is_too_large(key: int, size_bytes: int) -> bool:
    """Return whether a request has more bytes than any sensible one of its kind."""
    return size_bytes > LISTS_BYTES_MAX and key not in _MAY_BE_LARGE


def request_header_version(key: int, version: int) -> int:
    """Return 2 (with tagged fields) or 1."""
    return 2 if version >= FLEXIBLE_SINCE[key] else 1


def response_header_version(key: int, version: int) -> int:
    """Return 1 (with tagged fields) or 0.

    For ApiVersions it is 0 in every version: a client reads that answer before it knows the broker's versions.
    """
    return 1 if version >= FLEXIBLE_SINCE[key] and key != _API_VERSIONS else 0
