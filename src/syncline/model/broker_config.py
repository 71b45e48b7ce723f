"""The configuration of a broker: what Syncline reads, each setting declared once, as a field.

The field is the definition: its name with dots is the configuration's name, and
`setting` declares its type, default, documentation, and when it may change. Names
that are stored without effect are in `kept_configs`.

A broker's configuration is resolved from four layers, of which the first with a
value wins: set dynamically for this broker, set dynamically for all, given in
its file or command line, default. It is resolved again when one of the layers
changes; the object itself is immutable.

Units are in Kafka's names: `_ms`, `_bytes`, `_minutes`, `_seconds`.
Source: Kafka's broker configurations, as of 4.3; `own` ones are Syncline's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from syncline.model.config_types import (
    BOOLEAN,
    CLEANUP_POLICIES,
    CLUSTER_WIDE,
    COMPRESSIONS,
    COUNTS_PER_ADDRESS,
    DOUBLE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LONG_MAX,
    NOT_ACTED_ON,
    NOT_YET,
    READ_ONLY,
    SEGMENT_BYTES,
    SHORT,
    STRING,
    TIMESTAMP_TYPES,
    ConfigDefinition,
    ConfigError,
    as_fields,
    at_least,
    between,
    between_or,
    definitions_of,
    one_of,
    parse_all,
    setting,
)
from syncline.model.kept_configs import KEPT_BROKER_CONFIGS, THROTTLE_RATES

PROTECTION_CAP: Final = "follower.fetch.pending.insync.max.ms"

# The Kafka class names that Syncline supports; "" is none.
_REPLICA_SELECTORS: Final = (
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "org.apache.kafka.common.replica.LeaderSelector",
    "",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BrokerConfig:
    """The configuration of one broker. Without arguments: the defaults."""

    # The values from its file and command line as text, as DescribeConfigs shows them.
    static: Mapping[str, str] = field(default_factory=dict)
    # fmt: off
    auto_create_topics_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether asking for the metadata of an unknown topic creates it.")
    auto_leader_rebalance_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether the controller gradually gives leadership back to preferred replicas.")
    broker_heartbeat_interval_ms: int = setting(INT, 2_000, READ_ONLY,
        "How often a broker sends a heartbeat to the controller.")
    broker_rack: str | None = setting(STRING, None, READ_ONLY,
        "The rack of this broker: new replicas are spread over racks.")
    broker_session_timeout_ms: int = setting(INT, 9_000, READ_ONLY,
        "A broker silent for longer is fenced: it leads nothing and is in no in-sync set.")
    clock_offset_ms: int = setting(LONG, 0, READ_ONLY,
        "By how much this broker's wall clock is ahead of the machine's; for demonstrations only.", hidden=True)
    compression_type: str = setting(STRING, "producer", CLUSTER_WIDE,
        "The default of the topic configuration of this name.", check=COMPRESSIONS)
    connections_max_idle_ms: int = setting(LONG, 600_000, READ_ONLY,
        "A client's connection over which nothing has moved for so long, and whose requests are all answered, is"
        " closed; a negative number closes none.")
    controlled_shutdown_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether a stopping broker hands its leaderships over first.")
    default_replication_factor: int = setting(INT, 1, READ_ONLY,
        "Replicas of a topic created without a number of them.")
    delete_topic_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether topics may be deleted.")
    eligible_leader_replicas_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether replicas that left the in-sync set while the high watermark could not advance may lead (KIP-966).",
        own=True)
    fault_injection_enable: bool = setting(BOOLEAN, False, READ_ONLY,
        "Whether faults can be injected into this broker (`syncline fault`); `syncline up` turns it on.",
        hidden=True)
    fetch_max_bytes: int = setting(INT, 57_671_680, READ_ONLY,
        "The upper bound of any fetch answer.", check=at_least(1024))
    follower_fetch_pending_insync_max_ms: int = setting(LONG, 180_000, CLUSTER_WIDE,
        "For how long at most a follower that waits for its leader's disk stays in sync (KIP-501); -1 is without end.",
        check=between_or(1, LONG_MAX, -1), own=True)
    follower_fetch_pending_reads_insync_enable: bool = setting(BOOLEAN, False, CLUSTER_WIDE,
        "Whether a follower that asked in time stays in the in-sync set while its leader serves it slowly (KIP-501).",
        own=True)
    follower_fetch_process_time_max_ms: int = setting(LONG, 500, CLUSTER_WIDE,
        "A leader that takes longer to serve a follower in the in-sync set gives the partition to another one, if"
        " follower.fetch.pending.reads.insync.enable and leader.relinquish.enable are true (KIP-501).",
        check=at_least(1), own=True)
    group_initial_rebalance_delay_ms: int = setting(INT, 3_000, READ_ONLY,
        "How long the first rebalance of a group waits for more members.")
    group_max_session_timeout_ms: int = setting(INT, 1_800_000, READ_ONLY,
        "The longest session timeout that a group member may ask for.")
    group_max_size: int = setting(INT, INT_MAX, READ_ONLY,
        "The largest number of members in one group.", check=at_least(1))
    group_min_session_timeout_ms: int = setting(INT, 6_000, READ_ONLY,
        "The shortest session timeout that a group member may ask for.")
    high_watermark_min_isr_gate: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether the high watermark does not advance while fewer than min.insync.replicas are in sync; it must not"
        " while eligible.leader.replicas.enable is true.", own=True)
    initial_broker_registration_timeout_ms: int = setting(INT, 60_000, READ_ONLY,
        "A broker that cannot register for this long gives up its start.")
    inter_broker_unix_socket_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether brokers of one machine replicate over Unix domain sockets, which takes them less processor time, and"
        " not over TCP, which other programs can record.", own=True)
    internal_log_segment_bytes: int | None = setting(INT, None, CLUSTER_WIDE,
        "Smaller segments than Kafka allows, for tests.", check=at_least(1), hidden=True)
    journal_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether decisions and measurements are written to the journal topic.", own=True)
    journal_group_lag_interval_ms: int = setting(LONG, 5_000, READ_ONLY,
        "How often it is sampled for the journal how far groups are behind, and consumers' fetches.",
        check=at_least(1), own=True)
    journal_progress_interval_ms: int = setting(LONG, 1_000, READ_ONLY,
        "How often the progress of followers is sampled for the journal.", check=at_least(1), own=True)
    journal_topic_replication_factor: int = setting(SHORT, 3, READ_ONLY,
        "Replicas of the journal topic, at most the number of brokers.", check=at_least(1), own=True)
    lag_append_times_flush_interval_ms: int = setting(LONG, 5_000, READ_ONLY,
        "How often it is saved when records were appended; without other replicas, a crash loses that of the time"
        " since.", check=at_least(1), own=True)
    lag_commit_intervals: int = setting(INT, 10, READ_ONLY,
        "How many commits of a group are remembered per partition, to tell whether it keeps up.",
        check=between(1, 255), own=True)
    lag_commit_min_distance_ms: int = setting(LONG, 0, READ_ONLY,
        "A commit that comes sooner than this after the last one takes its place among those remembered.",
        check=at_least(0), own=True)
    lag_metrics_detail: str = setting(STRING, "partition", READ_ONLY,
        "For what the metrics show the lag of groups: each partition, each topic (sums, and the longest wait), or only"
        " the group; group also leaves out what consumers of single topics and single clients read.",
        check=one_of("group", "topic", "partition"), own=True)
    lag_refresh_interval_ms: int = setting(LONG, 30_000, READ_ONLY,
        "How often coordinators sample where partitions end, for the status of their groups and for speeds.",
        check=at_least(1), own=True)
    lag_status_min_window_ms: int = setting(LONG, 0, CLUSTER_WIDE,
        "A group is not judged before its commits, or its silence, are this old; 0 judges as Burrow does.",
        check=at_least(0), own=True)
    leader_imbalance_check_interval_seconds: int = setting(LONG, 300, READ_ONLY,
        "How often the controller looks for partitions not led by their preferred replica.", check=at_least(1))
    leader_relinquish_demotion_ms: int = setting(LONG, 600_000, CLUSTER_WIDE,
        "For how long the balancer does not give a partition back to the broker that gave it up for its slowness.",
        check=at_least(0), own=True)
    leader_relinquish_enable: bool = setting(BOOLEAN, True, CLUSTER_WIDE,
        "Whether slow leaders give up, see follower.fetch.process.time.max.ms; false only keeps followers in sync.",
        own=True)
    leader_relinquish_max_per_window: int = setting(INT, 3, CLUSTER_WIDE,
        "How often a partition may be given up within leader.relinquish.window.ms.", check=at_least(1), own=True)
    leader_relinquish_min_tenure_ms: int = setting(LONG, 30_000, CLUSTER_WIDE,
        "How long a broker leads a partition at least before it gives it up.", check=at_least(0), own=True)
    leader_relinquish_reorder_replicas: bool = setting(BOOLEAN, False, CLUSTER_WIDE,
        "Whether giving up also moves the broker to the end of the assignment: the preferred leader is then another.",
        own=True)
    leader_relinquish_window_ms: int = setting(LONG, 600_000, CLUSTER_WIDE,
        "The window of leader.relinquish.max.per.window.", check=at_least(1), own=True)
    log_cleaner_delete_retention_ms: int = setting(LONG, 86_400_000, CLUSTER_WIDE, NOT_YET, check=at_least(0))
    log_cleaner_max_compaction_lag_ms: int = setting(LONG, LONG_MAX, CLUSTER_WIDE, NOT_YET, check=at_least(1))
    log_cleaner_min_cleanable_ratio: float = setting(DOUBLE, 0.5, CLUSTER_WIDE, NOT_YET, check=between(0, 1))
    log_cleaner_min_compaction_lag_ms: int = setting(LONG, 0, CLUSTER_WIDE, NOT_YET, check=at_least(0))
    log_cleanup_policy: tuple[str, ...] = setting(LIST, ("delete",), CLUSTER_WIDE,
        "The default of cleanup.policy.", check=CLEANUP_POLICIES)
    log_dir_stuck_read_offline: bool = setting(BOOLEAN, False, READ_ONLY,
        "Whether a replica whose disk has not answered a follower's read for follower.fetch.pending.insync.max.ms goes"
        " offline; looked at while follower.fetch.pending.reads.insync.enable is true.", own=True)
    log_flush_interval_messages: int = setting(LONG, LONG_MAX, CLUSTER_WIDE,
        "The default of flush.messages.", check=at_least(1))
    log_flush_interval_ms: int | None = setting(LONG, None, CLUSTER_WIDE,
        NOT_YET, synonyms="log.flush.scheduler.interval.ms")
    log_flush_offset_checkpoint_interval_ms: int = setting(INT, 60_000, READ_ONLY,
        "How often recovery points are checkpointed.", check=at_least(0))
    log_flush_scheduler_interval_ms: int = setting(LONG, LONG_MAX, READ_ONLY, NOT_YET)
    log_flush_start_offset_checkpoint_interval_ms: int = setting(INT, 60_000, READ_ONLY,
        "Log starts are checkpointed together with recovery points: log.flush.offset.checkpoint.interval.ms.",
        check=at_least(0))
    log_index_interval_bytes: int = setting(INT, 4_096, CLUSTER_WIDE,
        "The default of index.interval.bytes.", check=at_least(0))
    log_index_size_max_bytes: int = setting(INT, 10_485_760, CLUSTER_WIDE,
        "The default of segment.index.bytes.", check=at_least(4))
    log_message_timestamp_after_max_ms: int = setting(LONG, 3_600_000, CLUSTER_WIDE,
        "The default of message.timestamp.after.max.ms.", check=at_least(0))
    log_message_timestamp_before_max_ms: int = setting(LONG, LONG_MAX, CLUSTER_WIDE,
        "The default of message.timestamp.before.max.ms.", check=at_least(0))
    log_message_timestamp_type: str = setting(STRING, "CreateTime", CLUSTER_WIDE,
        "The default of message.timestamp.type.", check=TIMESTAMP_TYPES)
    log_retention_bytes: int = setting(LONG, -1, CLUSTER_WIDE,
        "The default of retention.bytes.")
    log_retention_check_interval_ms: int = setting(LONG, 300_000, READ_ONLY,
        "How often a broker looks for segments past retention.", check=at_least(1))
    log_retention_hours: int = setting(INT, 168, READ_ONLY,
        "The default of retention.ms, in hours, while neither the minutes nor the milliseconds are set.")
    log_retention_minutes: int | None = setting(INT, None, READ_ONLY,
        "The default of retention.ms, in minutes, while the milliseconds are unset.", synonyms="log.retention.hours")
    log_retention_ms: int | None = setting(LONG, None, CLUSTER_WIDE,
        "The default of retention.ms.", synonyms="log.retention.minutes log.retention.hours")
    log_roll_hours: int = setting(INT, 168, READ_ONLY,
        "The default of segment.ms, in hours, while log.roll.ms is not set.", check=at_least(1))
    log_roll_jitter_hours: int = setting(INT, 0, READ_ONLY, NOT_ACTED_ON, check=at_least(0))
    log_roll_jitter_ms: int | None = setting(LONG, None, CLUSTER_WIDE, NOT_ACTED_ON, synonyms="log.roll.jitter.hours")
    log_roll_ms: int | None = setting(LONG, None, CLUSTER_WIDE,
        "The default of segment.ms.", synonyms="log.roll.hours")
    log_scrub_bytes_per_second: int = setting(LONG, 4_194_304, CLUSTER_WIDE,
        "How fast a broker reads its finished segments to find damaged ones; 0 turns the scrub off.",
        check=at_least(0), own=True)
    log_scrub_interval_ms: int = setting(LONG, 604_800_000, CLUSTER_WIDE,
        "How long after its last check the scrub reads a log again.", check=at_least(1), own=True)
    log_segment_bytes: int = setting(INT, 1_073_741_824, CLUSTER_WIDE,
        "The default of segment.bytes.", check=SEGMENT_BYTES)
    log_segment_delete_delay_ms: int = setting(LONG, 60_000, CLUSTER_WIDE,
        "The default of file.delete.delay.ms.", check=at_least(0))
    log_truncation_mode: str = setting(STRING, "epoch-fetch", READ_ONLY,
        "How a follower reconciles its log with a new leader's: by epochs, within each fetch or asked for before the"
        " first; or, as before KIP-101, by its own high watermark, which loses committed records.",
        check=one_of("epoch-fetch", "epoch-request", "high-watermark"), own=True)
    max_connection_creation_rate: int = setting(INT, INT_MAX, CLUSTER_WIDE,
        "How many connections of clients per second a broker accepts; others wait in the backlog.", check=at_least(0))
    max_connections: int = setting(INT, INT_MAX, CLUSTER_WIDE,
        "How many connections a broker has; clients beyond it wait in the backlog, and another broker takes the place"
        " of the client that has been silent for longest.", check=at_least(0))
    max_connections_per_ip: int = setting(INT, INT_MAX, CLUSTER_WIDE,
        "How many connections of clients one address may have; those beyond it are reset.", check=at_least(0))
    max_connections_per_ip_overrides: str = setting(STRING, "", CLUSTER_WIDE,
        "Other numbers for some hosts, instead of max.connections.per.ip: host:number, separated by commas.",
        check=COUNTS_PER_ADDRESS)
    max_incremental_fetch_session_cache_slots: int = setting(INT, 1_000, READ_ONLY,
        "How many fetch sessions a broker remembers.", check=at_least(0))
    max_request_partition_size_limit: int = setting(INT, 2_000, READ_ONLY,
        "How many partitions one answer to DescribeTopicPartitions has at most.", check=at_least(1))
    message_max_bytes: int = setting(INT, 1_048_588, CLUSTER_WIDE,
        "The default of max.message.bytes.", check=at_least(0))
    metrics_compatible: tuple[str, ...] = setting(LIST, (), READ_ONLY,
        "Exporters whose metrics are served, too, each at /metrics/NAME: kafka_exporter, kminion, kafka-lag-exporter.",
        check=one_of("kafka_exporter", "kminion", "kafka-lag-exporter"), own=True)
    metrics_label_names: str = setting(STRING, "lowercase", READ_ONLY,
        "How the metrics spell the labels of Kafka that are of several words: delayedoperation, or delayedOperation.",
        check=one_of("lowercase", "kafka"), own=True)
    metrics_port: int = setting(INT, 0, READ_ONLY,
        "Where the metrics are, for Prometheus: 0 takes a free port, -1 none. `syncline up` gives the first broker"
        " this port, and the others those that follow.", check=between(-1, 65_535), own=True)
    min_insync_replicas: int = setting(INT, 1, CLUSTER_WIDE,
        "How many replicas must be in sync for acks=all to be accepted and the high watermark to move.",
        check=at_least(1))
    num_partitions: int = setting(INT, 1, READ_ONLY,
        "Partitions of a topic created without a number of them.", check=at_least(1))
    num_replica_fetchers: int = setting(INT, 1, CLUSTER_WIDE, NOT_YET, check=at_least(1))
    offset_metadata_max_bytes: int = setting(INT, 4_096, READ_ONLY,
        "The longest text that may be stored with a committed offset.")
    offsets_commit_timeout_ms: int = setting(INT, 5_000, READ_ONLY,
        "How long a commit of offsets may take to be replicated.", check=at_least(1))
    offsets_retention_check_interval_ms: int = setting(LONG, 600_000, READ_ONLY,
        "How often a broker looks for expired offsets.", check=at_least(1))
    offsets_retention_minutes: int = setting(INT, 10_080, READ_ONLY,
        "How long offsets of a group without members are kept.", check=at_least(1))
    offsets_topic_num_partitions: int = setting(INT, 50, READ_ONLY,
        "Partitions of the offsets topic.", check=at_least(1))
    offsets_topic_replication_factor: int = setting(SHORT, 3, READ_ONLY,
        "Replicas of the offsets topic.", check=at_least(1))
    offsets_topic_segment_bytes: int = setting(INT, 104_857_600, READ_ONLY,
        "The segment size of the offsets topic.", check=at_least(1))
    page_cache_follower_keep_bytes: int = setting(LONG, 16_777_216, READ_ONLY,
        "Newest bytes of each follower replica that stay in the page cache; -1 keeps all.",
        check=at_least(-1), own=True)
    page_cache_leader_budget_bytes: int = setting(LONG, -2, READ_ONLY,
        "Newest bytes of all led partitions together that stay in the page cache, in equal shares; -1 keeps all; -2"
        " keeps a 32nd of the memory (64 MiB at least), and up to an eighth more of what readers that are behind want.",
        check=at_least(-2), own=True)
    producer_id_expiration_ms: int = setting(INT, 86_400_000, CLUSTER_WIDE,
        "How long the state of a silent idempotent producer is kept.", check=at_least(1))
    queued_max_request_bytes: int = setting(LONG, -1, READ_ONLY,
        "How many bytes a broker holds for clients: receive buffers, answers that are not sent or not read,"
        " unacknowledged records, long requests, fetch sessions (a quarter of it at most) and the metadata of group"
        " members. Above it, the connections that hold most are not read. -1 is a quarter of the memory, at most 4 GiB:"
        " a broker under attack may then take that much, and a cluster on one machine three times as much. Set it where"
        " brokers share a machine; 150000000 keeps each below 400 MB.")
    quick_bounce_enable: bool = setting(BOOLEAN, False, CLUSTER_WIDE,
        "Whether a broker's next process takes its predecessor's place in the in-sync sets unnoticed, as in the"
        " histories behind KIP-101; for demonstrations only.", hidden=True)
    replica_fetch_backoff_ms: int = setting(INT, 1_000, READ_ONLY,
        "How long a follower waits after a failed fetch.", check=at_least(0))
    replica_fetch_max_bytes: int = setting(INT, 1_048_576, READ_ONLY,
        "Bytes per partition that a follower asks for.", check=at_least(0))
    replica_fetch_min_bytes: int = setting(INT, 1, READ_ONLY,
        "Bytes for which a follower's fetch waits.")
    replica_fetch_response_max_bytes: int = setting(INT, 10_485_760, READ_ONLY,
        "Bytes per answer that a follower asks for.", check=at_least(0))
    replica_fetch_wait_max_ms: int = setting(INT, 500, READ_ONLY,
        "How long a follower's fetch waits for data.")
    replica_high_watermark_checkpoint_interval_ms: int = setting(LONG, 5_000, READ_ONLY,
        "How often high watermarks are checkpointed.")
    replica_lag_check_interval_ms: int | None = setting(LONG, None, CLUSTER_WIDE,
        "How often a leader checks its followers' lag; half of replica.lag.time.max.ms when unset.",
        check=at_least(1), own=True)
    replica_lag_max_messages: int = setting(LONG, 4_000, CLUSTER_WIDE,
        "How many records a follower may be behind where replica.lag.mode is messages.", check=at_least(1), own=True)
    replica_lag_mode: str = setting(STRING, "time", CLUSTER_WIDE,
        "The rule by which a follower counts as lagging: time (Kafka since 0.10.2), or for comparison lag-begin (the"
        " letter of KIP-16) and messages (Kafka 0.8.2). See `lag-modes.md`.",
        check=one_of("time", "lag-begin", "messages"), own=True)
    replica_lag_time_max_ms: int = setting(LONG, 30_000, READ_ONLY,
        "A follower that was not caught up for longer leaves the in-sync set.")
    replica_selector_class: str | None = setting(STRING, None, READ_ONLY,
        "How a consumer's replica is chosen: unset, it reads from the leader;"
        " org.apache.kafka.common.replica.RackAwareReplicaSelector names one in the consumer's rack (KIP-392).",
        check=one_of(*_REPLICA_SELECTORS))
    replica_socket_timeout_ms: int = setting(INT, 30_000, READ_ONLY,
        "How long a follower waits for the answer to a fetch.")
    replication_quota_mode: str = setting(STRING, "strict", CLUSTER_WIDE,
        "How quotas on replication are kept: strict holds them over every time, kafka looks only at what was moved, so"
        " that the average may be a multiple of the quota. See `throttling.md`.", check=one_of("strict", "kafka"),
        own=True)
    replication_quota_window_num: int = setting(INT, 11, READ_ONLY,
        "Over how many samples the rate of throttled replication is measured.", check=at_least(1))
    replication_quota_window_size_seconds: int = setting(INT, 1, READ_ONLY,
        "How long each sample of that rate is.", check=at_least(1))
    request_timeout_ms: int = setting(INT, 30_000, READ_ONLY,
        "How long requests between brokers may take.")
    socket_listen_backlog_size: int = setting(INT, 1_024, READ_ONLY,
        "How many connections that are not accepted yet the kernel keeps for each listener, at most net.core.somaxconn;"
        " clients beyond them try again after a second. Kafka's default is 50.", check=at_least(1))
    socket_receive_buffer_bytes: int = setting(INT, 102_400, READ_ONLY, NOT_YET)
    socket_request_max_bytes: int = setting(INT, 104_857_600, READ_ONLY,
        "The largest request that is read.", check=at_least(1))
    socket_send_buffer_bytes: int = setting(INT, 102_400, READ_ONLY, NOT_YET)
    transaction_max_timeout_ms: int = setting(INT, 900_000, READ_ONLY,
        "The longest transaction timeout that a producer may ask for.", check=at_least(1))
    unclean_leader_election_enable: bool = setting(BOOLEAN, False, CLUSTER_WIDE,
        "Whether a replica that is not in sync may lead when no other can.")
    unclean_leader_election_interval_ms: int = setting(LONG, 300_000, READ_ONLY,
        "How often the controller looks for leaderless partitions that may be led uncleanly.",
        check=at_least(1), hidden=True)
    # fmt: on

    def __repr__(self) -> str:
        values = {name.replace(".", "_"): definition.default_value() for name, definition in _SETTINGS.items()}
        changed = [f"{name}={getattr(self, name)!r}" for name in values if getattr(self, name) != values[name]]
        return f"BrokerConfig({', '.join(changed)})"

    @classmethod
    def resolve(
        cls,
        static: Mapping[str, str],
        cluster_defaults: Mapping[str, str] | None = None,
        per_broker: Mapping[str, str] | None = None,
    ) -> "BrokerConfig":
        """Return the configuration that the layers give.

        Raises `ConfigError` for a value that cannot be used and for an unknown
        name in `static`. The controller keeps unknown dynamic names for tools;
        they are ignored here.
        """
        unknown = [name for name in static if name not in BROKER_CONFIGS and name not in THROTTLE_RATES]
        if unknown:
            raise ConfigError(f"Unknown broker config name: {unknown[0]}")
        layers = {**static, **(cluster_defaults or {}), **(per_broker or {})}
        values = parse_all(BROKER_CONFIGS, layers)
        config = cls(static=dict(static), **as_fields(_SETTINGS, values))
        config.check()
        return config

    def check(self) -> None:
        """Raise `ConfigError` if two values contradict each other."""
        wait_ms = self.replica_fetch_wait_max_ms
        if wait_ms > self.replica_socket_timeout_ms:
            raise ConfigError("replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms")
        if wait_ms > self.replica_lag_time_max_ms:
            raise ConfigError(
                "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms"
                " to prevent frequent changes in ISR"
            )
        kept = (self.log_retention_ms, self.log_retention_minutes, self.log_retention_hours)
        if next(each for each in kept if each is not None) == 0:
            raise ConfigError("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
        if self.log_roll_ms is not None and self.log_roll_ms < 1:
            raise ConfigError("log.roll.ms must be greater than or equal to 1")
        if self.log_roll_jitter_ms is not None and self.log_roll_jitter_ms < 0:
            raise ConfigError("log.roll.jitter.ms must be greater than or equal to 0")
        if 0 < self.queued_max_request_bytes < self.socket_request_max_bytes:
            raise ConfigError("queued.max.request.bytes must be larger or equal to socket.request.max.bytes")
        if not self.max_connections_per_ip and not self.max_connections_per_ip_overrides:
            raise ConfigError(
                "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
            )
        if PROTECTION_CAP in self.static:
            check_protection_cap(self.follower_fetch_pending_insync_max_ms, self.replica_lag_time_max_ms)
        if self.eligible_leader_replicas_enable and not self.high_watermark_min_isr_gate:
            # A member that leaves a small ISR stays eligible only because nothing is committed without it (KIP-966).
            raise ConfigError(
                "high.watermark.min.isr.gate should be false only if eligible.leader.replicas.enable is false:"
                " an eligible replica could be elected and lack records that consumers have seen"
            )


def check_protection_cap(cap_ms: int, lag_ms: int) -> None:
    """Raise `ConfigError` if followers that wait for their leader would be spared for less than a lag window."""
    if 0 <= cap_ms < lag_ms:
        raise ConfigError(f"{PROTECTION_CAP} ({cap_ms}) should be -1 or at least replica.lag.time.max.ms ({lag_ms})")


_SETTINGS: Final = {definition.name: definition for definition in definitions_of(BrokerConfig)}

# Every configuration of a broker, in the order of the names.
BROKER_CONFIGS: Final[dict[str, ConfigDefinition]] = dict(sorted((_SETTINGS | KEPT_BROKER_CONFIGS).items()))
