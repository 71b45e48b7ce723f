"""Every metric: its name, its kind, what it means.

One hard idea: the names are Kafka's. Dashboards for Kafka use the names that the
JMX exporter derives from Kafka's MBeans with its usual rules (`kafka-2_0_0.yml`):
domain, type and name joined by "_" in lower case; a meter exports only its count,
as `..._total` without its `PerSec`; MBean tags become labels. A row names the
MBean, and `exported_name` derives the metric's name.

Two metrics differ: histograms are real ones (the exporter makes quantiles), and
`FetcherStats` has three separate labels (the exporter's rule knows two, and joins
the first with its value). Metrics that Kafka does not have are named
`syncline_...`, with base units.

Source: KIP-96, KIP-227, KIP-352, KIP-489, KIP-501; the exporter's example rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncline.model.immutable import Immutable

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
HISTOGRAM: Final = "histogram"

PARTITION_LABELS: Final = ("topic", "partition")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Family(Immutable):
    """One metric: all samples of a name. `bean` is Kafka's MBean, "" for what Kafka does not have."""

    name: str
    kind: str
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    bean: str = ""
    # Whether there is also a sample without labels, the sum over all.
    has_total: bool = False


FAMILIES: Final[list[Family]] = []


def exported_name(domain: str, bean_type: str, name: str, kind: str) -> str:
    """Return the exporter's name for an attribute of the MBean `kafka.DOMAIN:type=TYPE,name=NAME`."""
    joined = f"kafka_{domain}_{bean_type}_{name.removesuffix('PerSec')}".lower()
    return f"{joined}_total" if kind == COUNTER else joined


def _kafka(
    bean: str, kind: str, unit: str, meaning: str, labels: Sequence[str] = (), *, has_total: bool = False
) -> Family:
    """Add a metric of Kafka's; `bean` is DOMAIN:TYPE:NAME."""
    domain, bean_type, name = bean.split(":")
    tags = "".join(f",{label}=*" for label in labels)
    family = Family(
        exported_name(domain, bean_type, name, kind),
        kind,
        unit,
        meaning,
        tuple(labels),
        f"kafka.{domain}:type={bean_type},name={name}{tags}",
        has_total,
    )
    FAMILIES.append(family)
    return family


def _attribute(bean: str, unit: str, meaning: str) -> Family:
    """Add an attribute of an MBean of Kafka's that has no name; `bean` is DOMAIN:TYPE:ATTRIBUTE."""
    domain, bean_type, attribute = bean.split(":")
    name = f"kafka_{domain}_{bean_type}_{attribute}".lower().replace("-", "_")
    family = Family(name, GAUGE, unit, f"{meaning} Kafka: `kafka.{domain}:type={bean_type}`, attribute `{attribute}`.")
    FAMILIES.append(family)
    return family


def _own(name: str, kind: str, unit: str, meaning: str, labels: Sequence[str] = ()) -> Family:
    family = Family(name, kind, unit, meaning, tuple(labels))
    FAMILIES.append(family)
    return family


# A row takes one or two lines; the formatter would make eight of it.
# fmt: off

# ReplicaManager

UNDER_REPLICATED_PARTITIONS: Final = _kafka(
    "server:ReplicaManager:UnderReplicatedPartitions", GAUGE, "partitions",
    "Partitions led by this broker with fewer replicas in sync than assigned; replicas being added do not "
    "count as assigned.")
UNDER_MIN_ISR_PARTITIONS: Final = _kafka(
    "server:ReplicaManager:UnderMinIsrPartitionCount", GAUGE, "partitions",
    "Partitions led by this broker with fewer replicas in sync than min.insync.replicas requires: acks=all "
    "is refused.")
AT_MIN_ISR_PARTITIONS: Final = _kafka(
    "server:ReplicaManager:AtMinIsrPartitionCount", GAUGE, "partitions",
    "Partitions led by this broker with exactly as many replicas in sync as min.insync.replicas requires.")
REASSIGNING_PARTITIONS: Final = _kafka(
    "server:ReplicaManager:ReassigningPartitions", GAUGE, "partitions",
    "Partitions led by this broker whose replicas are being reassigned.")
LEADER_COUNT: Final = _kafka(
    "server:ReplicaManager:LeaderCount", GAUGE, "partitions", "Partitions led by this broker.")
PARTITION_COUNT: Final = _kafka(
    "server:ReplicaManager:PartitionCount", GAUGE, "partitions", "Partitions that this broker leads or follows.")
OFFLINE_REPLICA_COUNT: Final = _kafka(
    "server:ReplicaManager:OfflineReplicaCount", GAUGE, "replicas",
    "Replicas of this broker whose log failed or is damaged; the broker does not serve them until the log is "
    "repaired.")
LATE_TRANSACTIONS: Final = _kafka(
    "server:ReplicaManager:PartitionsWithLateTransactionsCount", GAUGE, "partitions",
    "Partitions with a transaction that has been open for too long. Transactions are not supported yet: always 0.")
PRODUCER_ID_COUNT: Final = _kafka(
    "server:ReplicaManager:ProducerIdCount", GAUGE, "producers",
    "Idempotent producers that the broker remembers, counted once per partition that they wrote to.")
ISR_SHRINKS: Final = _kafka(
    "server:ReplicaManager:IsrShrinksPerSec", COUNTER, "changes",
    "In-sync sets that this leader made smaller and the controller confirmed; counted per change, not per replica.")
ISR_EXPANDS: Final = _kafka(
    "server:ReplicaManager:IsrExpandsPerSec", COUNTER, "changes",
    "In-sync sets that this leader made larger and the controller confirmed; counted per change, not per replica.")
FAILED_ISR_UPDATES: Final = _kafka(
    "server:ReplicaManager:FailedIsrUpdatesPerSec", COUNTER, "changes",
    "Proposed in-sync sets that the controller answered with an error, or too late to count.")
PENDING_FOLLOWER_FETCHES: Final = _kafka(
    "server:ReplicaManager:PendingFollowerFetches", GAUGE, "fetches",
    "Unanswered fetches that keep their followers in sync, counted per partition (KIP-501).")
PENDING_PROTECTED_REPLICAS: Final = _kafka(
    "server:ReplicaManager:PendingProtectedReplicas", GAUGE, "replicas",
    "Replicas that are in sync only because their fetches wait for this leader (KIP-501).")
PENDING_CAP_EXCEEDED: Final = _kafka(
    "server:ReplicaManager:PendingCapExceededPerSec", COUNTER, "fetches",
    "Fetches that waited longer than a waiting fetch may keep its follower in sync (KIP-501).")
LEADER_RELINQUISHES: Final = _kafka(
    "server:ReplicaManager:LeaderRelinquishPerSec", COUNTER, "leaderships",
    "Leaderships handed over because this broker's disk was too slow (KIP-501).")
LEADER_RELINQUISHES_SKIPPED: Final = _kafka(
    "server:ReplicaManager:LeaderRelinquishSkippedPerSec", COUNTER, "leaderships",
    "Leaderships not handed over although the disk was slow, by reason (KIP-501).", ("reason",))
FOLLOWER_FETCH_PROCESS_TIME: Final = _kafka(
    "server:ReplicaManager:FollowerFetchProcessTimeMs", HISTOGRAM, "ms",
    "How long this leader took to process a follower's fetch, without the wait for data (KIP-501).")

# Partition

UNDER_REPLICATED: Final = _kafka(
    "cluster:Partition:UnderReplicated", GAUGE, "0 or 1",
    "Whether fewer replicas are in sync than assigned; 0 where this broker does not lead.", PARTITION_LABELS)
UNDER_MIN_ISR: Final = _kafka(
    "cluster:Partition:UnderMinIsr", GAUGE, "0 or 1",
    "Whether fewer replicas are in sync than min.insync.replicas; 0 where this broker does not lead.",
    PARTITION_LABELS)
AT_MIN_ISR: Final = _kafka(
    "cluster:Partition:AtMinIsr", GAUGE, "0 or 1",
    "Whether exactly min.insync.replicas are in sync; 0 where this broker does not lead.", PARTITION_LABELS)
IN_SYNC_REPLICAS: Final = _kafka(
    "cluster:Partition:InSyncReplicasCount", GAUGE, "replicas",
    "Replicas in sync, including the leader; 0 where this broker does not lead.", PARTITION_LABELS)
REPLICAS: Final = _kafka(
    "cluster:Partition:ReplicasCount", GAUGE, "replicas",
    "Assigned replicas; 0 where this broker does not lead.", PARTITION_LABELS)
LAST_STABLE_OFFSET_LAG: Final = _kafka(
    "cluster:Partition:LastStableOffsetLag", GAUGE, "offsets",
    "High watermark minus last stable offset. Transactions are not supported yet: always 0.", PARTITION_LABELS)

# Fetchers

MAX_LAG: Final = _kafka(
    "server:ReplicaFetcherManager:MaxLag", GAUGE, "messages",
    "The largest lag of a partition that this broker follows.", ("clientId",))
MIN_FETCH_RATE: Final = _kafka(
    "server:ReplicaFetcherManager:MinFetchRate", GAUGE, "requests/s",
    "Fetch rate of the slowest fetcher since the last scrape; 0 if this broker follows no partition.", ("clientId",))
FAILED_PARTITIONS: Final = _kafka(
    "server:ReplicaFetcherManager:FailedPartitionsCount", GAUGE, "partitions",
    "Partitions that this broker no longer follows until the controller names a new leader epoch.", ("clientId",))
DEAD_THREADS: Final = _kafka(
    "server:ReplicaFetcherManager:DeadThreadCount", GAUGE, "threads",
    "Always 0: fetchers are not threads, and retry after any failure.", ("clientId",))
CONSUMER_LAG: Final = _kafka(
    "server:FetcherLagMetrics:ConsumerLag", GAUGE, "messages",
    "The leader's high watermark minus the next offset to fetch, for each partition that this broker "
    "follows; -1 before the first response. The name is historic.",
    ("clientId", "topic", "partition"))
FETCHER_REQUESTS: Final = _kafka(
    "server:FetcherStats:RequestsPerSec", COUNTER, "requests",
    "Fetches sent to each leader.", ("clientId", "brokerHost", "brokerPort"))
FETCHER_BYTES: Final = _kafka(
    "server:FetcherStats:BytesPerSec", COUNTER, "bytes",
    "Bytes of the batches in each leader's responses.", ("clientId", "brokerHost", "brokerPort"))

# Requests that wait

PURGATORY_SIZE: Final = _kafka(
    "server:DelayedOperationPurgatory:PurgatorySize", GAUGE, "entries",
    "Partitions that waiting requests watch, by kind of request.", ("delayedOperation",))
DELAYED_OPERATIONS: Final = _kafka(
    "server:DelayedOperationPurgatory:NumDelayedOperations", GAUGE, "requests",
    "Requests waiting for their response or their timeout, by kind.", ("delayedOperation",))
PRODUCE_EXPIRES: Final = _kafka(
    "server:DelayedProduceMetrics:ExpiresPerSec", COUNTER, "partitions",
    "Partitions of acks=all requests that timed out before their records were committed.",
    PARTITION_LABELS, has_total=True)
FETCH_EXPIRES: Final = _kafka(
    "server:DelayedFetchMetrics:ExpiresPerSec", COUNTER, "requests",
    "Fetches answered at the end of their wait, with less than they asked for; this is normal for readers at "
    "the end of quiet partitions.", ("fetcherType",))
DELETE_EXPIRES: Final = _kafka(
    "server:DelayedDeleteRecordsMetrics:ExpiresPerSec", COUNTER, "partitions",
    "Partitions of DeleteRecords requests that timed out before all replicas had dropped the records.")

# Fetch sessions

FETCH_SESSIONS: Final = _kafka(
    "server:FetchSessionCache:NumIncrementalFetchSessions", GAUGE, "sessions",
    "Fetch sessions that the broker remembers.")
FETCH_SESSION_PARTITIONS: Final = _kafka(
    "server:FetchSessionCache:NumIncrementalFetchPartitionsCached", GAUGE, "partitions",
    "Partitions remembered in all fetch sessions together.")
FETCH_SESSION_EVICTIONS: Final = _kafka(
    "server:FetchSessionCache:IncrementalFetchSessionEvictionsPerSec", COUNTER, "sessions",
    "Fetch sessions evicted for lack of room.")

# Traffic, by topic

BYTES_IN: Final = _kafka(
    "server:BrokerTopicMetrics:BytesInPerSec", COUNTER, "bytes",
    "Bytes of batches that this broker appended as leader, without those that it copied from other brokers.",
    ("topic",), has_total=True)
BYTES_OUT: Final = _kafka(
    "server:BrokerTopicMetrics:BytesOutPerSec", COUNTER, "bytes",
    "Bytes of batches sent to consumers.", ("topic",), has_total=True)
MESSAGES_IN: Final = _kafka(
    "server:BrokerTopicMetrics:MessagesInPerSec", COUNTER, "messages",
    "Records that this broker appended as leader.", ("topic",), has_total=True)
BYTES_REJECTED: Final = _kafka(
    "server:BrokerTopicMetrics:BytesRejectedPerSec", COUNTER, "bytes",
    "Bytes of batches refused because they were larger than max.message.bytes.", ("topic",), has_total=True)
PRODUCE_REQUESTS: Final = _kafka(
    "server:BrokerTopicMetrics:TotalProduceRequestsPerSec", COUNTER, "partitions",
    "Produce requests, counted once per partition that they name.", ("topic",), has_total=True)
FAILED_PRODUCE_REQUESTS: Final = _kafka(
    "server:BrokerTopicMetrics:FailedProduceRequestsPerSec", COUNTER, "partitions",
    "Partitions of produce requests refused for a reason other than a wrong leader, an unknown topic, a "
    "batch too large or corrupt, or a failed disk.", ("topic",), has_total=True)
FETCH_REQUESTS: Final = _kafka(
    "server:BrokerTopicMetrics:TotalFetchRequestsPerSec", COUNTER, "partitions",
    "Fetch requests, counted once per partition that they made this broker look at.", ("topic",), has_total=True)
FAILED_FETCH_REQUESTS: Final = _kafka(
    "server:BrokerTopicMetrics:FailedFetchRequestsPerSec", COUNTER, "partitions",
    "Partitions of fetch requests that failed unexpectedly.", ("topic",), has_total=True)

# Traffic, all topics

REPLICATION_BYTES_IN: Final = _kafka(
    "server:BrokerTopicMetrics:ReplicationBytesInPerSec", COUNTER, "bytes", "Bytes of batches fetched from leaders.")
REPLICATION_BYTES_OUT: Final = _kafka(
    "server:BrokerTopicMetrics:ReplicationBytesOutPerSec", COUNTER, "bytes", "Bytes of batches sent to followers.")
REASSIGNMENT_BYTES_IN: Final = _kafka(
    "server:BrokerTopicMetrics:ReassignmentBytesInPerSec", COUNTER, "bytes",
    "Bytes fetched by replicas being added.")
REASSIGNMENT_BYTES_OUT: Final = _kafka(
    "server:BrokerTopicMetrics:ReassignmentBytesOutPerSec", COUNTER, "bytes",
    "Bytes sent to replicas being added.")
INVALID_MAGIC: Final = _kafka(
    "server:BrokerTopicMetrics:InvalidMagicNumberRecordsPerSec", COUNTER, "batches",
    "Batches refused because of their format.")
INVALID_CRC: Final = _kafka(
    "server:BrokerTopicMetrics:InvalidMessageCrcRecordsPerSec", COUNTER, "batches",
    "Batches refused because of their checksum.")
INVALID_OFFSETS: Final = _kafka(
    "server:BrokerTopicMetrics:InvalidOffsetOrSequenceRecordsPerSec", COUNTER, "batches",
    "Batches refused because their offsets, counts or sequences contradict each other.")
NO_KEY: Final = _kafka(
    "server:BrokerTopicMetrics:NoKeyCompactedTopicRecordsPerSec", COUNTER, "batches",
    "Batches refused because a compacted topic needs records with a key.")
FETCH_LAG_TIME: Final = _kafka(
    "server:BrokerTopicMetrics:ConsumerFetchLagTimeInMs", HISTOGRAM, "ms",
    "How much older the batches that consumers fetched were than the newest batch of their partition, by the "
    "records' timestamps; 0 for a response without records (KIP-489, which Kafka never took).")
FETCH_LAG_BYTES: Final = _kafka(
    "server:BrokerTopicMetrics:ConsumerFetchLagBytes", HISTOGRAM, "bytes",
    "Distance from where consumers fetched to the end of the log; 0 for a response without records (KIP-489, "
    "which Kafka never took).")
REQUESTS: Final = _kafka(
    "network:RequestMetrics:RequestsPerSec", COUNTER, "requests",
    "Requests whose processing began, by API and version; Fetch is split into FetchConsumer and FetchFollower.",
    ("request", "version"))

# Connections of clients

MEMORY_POOL_USED: Final = _kafka(
    "network:SocketServer:MemoryPoolUsed", GAUGE, "bytes",
    "Memory held for clients: receive buffers, responses not sent or not read, unacknowledged records, group "
    "members.")
MEMORY_POOL_AVAILABLE: Final = _kafka(
    "network:SocketServer:MemoryPoolAvailable", GAUGE, "bytes", "What is left of queued.max.request.bytes.")
EXPIRED_CONNECTIONS: Final = _kafka(
    "network:SocketServer:ExpiredConnectionsKilledCount", GAUGE, "connections",
    "Connections closed because they were idle for connections.max.idle.ms.")

# Logs

NUM_LOG_SEGMENTS: Final = _kafka("log:Log:NumLogSegments", GAUGE, "segments", "Segments of the log.", PARTITION_LABELS)
LOG_START_OFFSET: Final = _kafka(
    "log:Log:LogStartOffset", GAUGE, "offset", "The first offset that can be read.", PARTITION_LABELS)
LOG_END_OFFSET: Final = _kafka(
    "log:Log:LogEndOffset", GAUGE, "offset", "The offset of the next record to be appended.", PARTITION_LABELS)
LOG_SIZE: Final = _kafka("log:Log:Size", GAUGE, "bytes", "Size of all segments.", PARTITION_LABELS)

# Controller

ACTIVE_CONTROLLER: Final = _kafka(
    "controller:KafkaController:ActiveControllerCount", GAUGE, "0 or 1",
    "Whether this broker is the controller. The metrics below are 0 at a broker that is not.")
ACTIVE_BROKERS: Final = _kafka(
    "controller:KafkaController:ActiveBrokerCount", GAUGE, "brokers", "Brokers that are registered and not fenced.")
FENCED_BROKERS: Final = _kafka(
    "controller:KafkaController:FencedBrokerCount", GAUGE, "brokers", "Brokers that are registered and fenced.")
GLOBAL_TOPICS: Final = _kafka("controller:KafkaController:GlobalTopicCount", GAUGE, "topics", "Topics in the cluster.")
GLOBAL_PARTITIONS: Final = _kafka(
    "controller:KafkaController:GlobalPartitionCount", GAUGE, "partitions", "Partitions in the cluster.")
OFFLINE_PARTITIONS: Final = _kafka(
    "controller:KafkaController:OfflinePartitionsCount", GAUGE, "partitions", "Partitions without a leader.")
PREFERRED_IMBALANCE: Final = _kafka(
    "controller:KafkaController:PreferredReplicaImbalanceCount", GAUGE, "partitions",
    "Partitions not led by the first of their replicas.")
TIMED_OUT_HEARTBEATS: Final = _kafka(
    "controller:KafkaController:TimedOutBrokerHeartbeatCount", GAUGE, "brokers",
    "Brokers fenced, since this broker became the controller, because they sent no heartbeat for their whole "
    "session timeout.")
METADATA_ERRORS: Final = _kafka(
    "controller:KafkaController:MetadataErrorCount", GAUGE, "errors",
    "Always 0: a broker that cannot apply metadata stops.")
UNCLEAN_ELECTIONS: Final = _kafka(
    "controller:ControllerStats:UncleanLeaderElectionsPerSec", COUNTER, "elections",
    "Elections, since this broker became the controller, of leaders that may not have all committed records.")

# Syncline's own

BROKER_STATE: Final = _kafka(
    "server:KafkaServer:BrokerState", GAUGE, "state",
    "3 while the broker may lead, 1 while it is fenced, 6 while it hands its leaderships over before it stops.")
BROKER_INFO: Final = _own(
    "syncline_broker_info", GAUGE, "1",
    "The identity of this broker, in the labels.", ("broker", "cluster", "rack", "version"))
METADATA_VERSION: Final = _own(
    "syncline_metadata_version", GAUGE, "version", "Version of the cluster's metadata that this broker has applied.")
BROKER_EPOCH: Final = _own(
    "syncline_broker_epoch", GAUGE, "epoch", "Epoch of this process's registration.")
CONTROLLER_EPOCH: Final = _own(
    "syncline_controller_epoch", GAUGE, "epoch", "Epoch of the controller that the metadata names.")
HIGH_WATERMARK: Final = _own(
    "syncline_partition_high_watermark", GAUGE, "offset",
    "The offset below which everything is committed, as far as this replica knows.", PARTITION_LABELS)
LEADER_EPOCH: Final = _own(
    "syncline_partition_leader_epoch", GAUGE, "epoch", "The leader epoch that this replica has applied.",
    PARTITION_LABELS)
FOLLOWER_LAG_RECORDS: Final = _own(
    "syncline_follower_lag_records", GAUGE, "records",
    "Records that the leader does not know the follower to have; all records before its first fetch.",
    ("topic", "partition", "follower"))
FOLLOWER_LAG_SECONDS: Final = _own(
    "syncline_follower_lag_seconds", GAUGE, "s",
    "Time since a follower was last caught up, as its leader sees it; 0 while it has everything, no sample "
    "if it was never caught up.", ("topic", "partition", "follower"))
FETCHED_BYTES: Final = _own(
    "syncline_fetch_read_bytes_total", COUNTER, "bytes",
    "Bytes read from logs for fetches, by source: found in memory, or waited for from disk.",
    ("source",))
LOOP_HOLDS: Final = _own(
    "syncline_event_loop_hold_seconds", HISTOGRAM, "s",
    "How long single callbacks (requests, responses of other brokers, slices of long requests, periodic "
    "work, turns of tasks such as scrapes) kept everything else waiting.")
LONGEST_LOOP_HOLD: Final = _own(
    "syncline_event_loop_longest_hold_seconds", GAUGE, "s", "The longest hold since the process began.")
LONGEST_HOLD_BY_WORK: Final = _own(
    "syncline_event_loop_longest_hold_by_work_seconds", GAUGE, "s",
    "The longest hold of each kind of work, if it exceeds 10 ms: requests by API, tasks by their function, "
    "other work by name.", ("work",))
OWN_LOOP_HOLDS: Final = _own(
    "syncline_event_loop_own_hold_seconds", HISTOGRAM, "s",
    "How long the broker worked during holds longer than 10 ms. For the rest of a hold, it waited for a "
    "processor that others used, or for the disk.")
LONGEST_OWN_HOLD_BY_WORK: Final = _own(
    "syncline_event_loop_longest_own_hold_by_work_seconds", GAUGE, "s",
    "The longest time that the broker worked during a hold, for each kind of work, if it exceeds 10 ms.", ("work",))
ASIDE_LOGS: Final = _own(
    "syncline_aside_logs", GAUGE, "logs",
    "Damaged logs that are set aside: new copies are replacing them, or lack records that they hold.")
ASIDE_BYTES: Final = _own("syncline_aside_bytes", GAUGE, "bytes", "Size of the damaged logs that are set aside.")
UNFIT_REPLICAS: Final = _own(
    "syncline_unfit_replicas", GAUGE, "replicas",
    "Replicas that this broker serves but another broker should lead: all replicas while the disk refuses "
    "writes, and those on damaged logs.")
REFUSED_WRITES: Final = _own(
    "syncline_refused_writes_total", COUNTER, "writes",
    "Appends that the disk refused for lack of room or file descriptors.")
MENDED_LOGS: Final = _own(
    "syncline_mended_logs_total", COUNTER, "logs", "Damaged logs that were repaired from other copies.")
SCRUBBED_BYTES: Final = _own(
    "syncline_scrubbed_bytes_total", COUNTER, "bytes", "Bytes of finished segments that the scrub has checked.")
SCRUB_DAMAGED: Final = _own(
    "syncline_scrub_damaged_total", COUNTER, "places", "Damaged places that the scrub has found.")
SCRUB_OLDEST: Final = _own(
    "syncline_scrub_oldest_check_seconds", GAUGE, "s",
    "Time since the scrub checked the log that it has left unchecked for longest; since this broker's start "
    "if it never checked that log.")
LEADER_BYTE_RATE: Final = _attribute(
    "server:LeaderReplication:byte-rate", "bytes/s",
    "Rate sent to followers for listed replicas, in sync or not, over the window of replication.quota.window.")
FOLLOWER_BYTE_RATE: Final = _attribute(
    "server:FollowerReplication:byte-rate", "bytes/s",
    "Rate fetched from leaders for listed replicas, in sync or not, over the window of replication.quota.window.")
THROTTLE_LIMIT: Final = _own(
    "syncline_throttle_limit_bytes_per_second", GAUGE, "bytes/s",
    "The quota in force, by role (leader sends, follower receives) and move (empty: set by rates and lists); "
    "no sample while there is none.", ("role", "move"))
THROTTLE_RATE: Final = _own(
    "syncline_throttle_rate_bytes_per_second", GAUGE, "bytes/s", "How much of a quota is used, by role and move.",
    ("role", "move"))
THROTTLED_PARTITIONS: Final = _own(
    "syncline_throttled_partitions", GAUGE, "partitions",
    "Replicas held back now, by role; a leader counts a replica once per follower.", ("role",))
THROTTLE_TIME_RATIO: Final = _own(
    "syncline_throttle_time_ratio", GAUGE, "0 to 1",
    "Share of the window in which a quota held something back, by role and move.", ("role", "move"))
THROTTLE_STRICT: Final = _own(
    "syncline_throttle_strict", GAUGE, "0 or 1",
    "1 if quotas are enforced strictly, 0 if they are enforced as in Kafka (replication.quota.mode).")
SUM_REPLICA_LAG: Final = _own(
    "syncline_sum_replica_lag_records", GAUGE, "records",
    "Records below the leaders' high watermarks that this broker lacks, over all partitions that it follows "
    "(KIP-73's SumReplicaLag).")
UNKNOWN_REPLICA_LAG: Final = _own(
    "syncline_unknown_replica_lag", GAUGE, "replicas",
    "Partitions that this broker follows and whose lag no response has reported yet; the sum does not include them.")
SUM_REPLICA_LAG_BYTES: Final = _own(
    "syncline_sum_replica_lag_bytes", GAUGE, "bytes",
    "Records that a follower lacks, over all partitions that this broker leads; the sum over all leaders is "
    "that follower's SumReplicaLag.",
    ("follower",))
PARTITION_BYTES_IN: Final = _own(
    "syncline_partition_bytes_in_per_second", GAUGE, "bytes/s",
    "Rate of bytes appended to the log since the last scrape, produced or replicated (KIP-73's "
    "PartitionBytesInRate); from the second scrape on.", PARTITION_LABELS)
CONNECTIONS: Final = _own(
    "syncline_connections", GAUGE, "connections", "Open connections, by listener.", ("listener",))
CONNECTIONS_HELD_BACK: Final = _own(
    "syncline_connections_held_back", GAUGE, "connections",
    "Connections that the broker does not read because the memory for clients is full or because there is no "
    "place (max.connections), by reason.",
    ("reason",))
CONNECTIONS_REFUSED: Final = _own(
    "syncline_connections_refused_total", COUNTER, "connections",
    "Connections closed because of a limit: address (max.connections.per.ip), place (to make room for "
    "another broker), memory (the broker's memory for clients stayed full).", ("reason",))
FAULT_HITS: Final = _own(
    "syncline_fault_hits_total", COUNTER, "hits", "How often injected faults took effect, by rule.", ("fault", "kind"))

# The process

CPU_SECONDS: Final = _own(
    "process_cpu_seconds_total", COUNTER, "s", "User and system CPU time of this broker's process.")
RESIDENT_MEMORY: Final = _own("process_resident_memory_bytes", GAUGE, "bytes", "Resident memory.")
VIRTUAL_MEMORY: Final = _own("process_virtual_memory_bytes", GAUGE, "bytes", "Virtual memory.")
OPEN_FDS: Final = _own("process_open_fds", GAUGE, "descriptors", "Open file descriptors.")
MAX_FDS: Final = _own("process_max_fds", GAUGE, "descriptors", "Most file descriptors allowed.")
START_TIME: Final = _own("process_start_time_seconds", GAUGE, "s", "When the process started, as Unix time.")

# fmt: on
