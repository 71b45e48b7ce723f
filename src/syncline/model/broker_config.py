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
        "Whether a metadata request for an unknown topic creates the topic.")
    auto_leader_rebalance_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether the controller gradually gives leadership back to preferred replicas.")
    broker_heartbeat_interval_ms: int = setting(INT, 2_000, READ_ONLY,
        "How often a broker sends a heartbeat to the controller.")
    broker_rack: str | None = setting(STRING, None, READ_ONLY,
        "The rack of this broker; new replicas are spread over racks.")
    broker_session_timeout_ms: int = setting(INT, 9_000, READ_ONLY,
        "The controller fences a broker that has sent no heartbeat for this long: the broker leads no "
        "partition and leaves all in-sync sets.")
    clock_offset_ms: int = setting(LONG, 0, READ_ONLY,
        "By how much this broker's wall clock is ahead of the machine's; for demonstrations only.", hidden=True)
    compression_type: str = setting(STRING, "producer", CLUSTER_WIDE,
        "The default of the topic configuration of the same name.", check=COMPRESSIONS)
    connections_max_idle_ms: int = setting(LONG, 600_000, READ_ONLY,
        "How long a client's connection may be idle, with all its requests answered, before the broker "
        "closes it; a negative number closes none.")
    controlled_shutdown_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether a broker hands over its leaderships before it stops.")
    default_replication_factor: int = setting(INT, 1, READ_ONLY,
        "How many replicas a topic gets if its creator names no number.")
    delete_topic_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether topics may be deleted.")
    eligible_leader_replicas_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether replicas that left the in-sync set while the high watermark could not advance may lead (KIP-966).",
        own=True)
    fault_injection_enable: bool = setting(BOOLEAN, False, READ_ONLY,
        "Whether faults can be injected into this broker (`syncline fault`); `syncline up` turns it on.",
        hidden=True)
    fetch_max_bytes: int = setting(INT, 57_671_680, READ_ONLY,
        "The upper limit of the size of a fetch response.", check=at_least(1024))
    follower_fetch_pending_insync_max_ms: int = setting(LONG, 180_000, CLUSTER_WIDE,
        "How long a follower that waits for its leader's disk stays in sync at most (KIP-501); -1 sets no limit.",
        check=between_or(1, LONG_MAX, -1), own=True)
    follower_fetch_pending_reads_insync_enable: bool = setting(BOOLEAN, False, CLUSTER_WIDE,
        "Whether a follower that fetched in time stays in the in-sync set while its leader serves it slowly "
        "(KIP-501).",
        own=True)
    follower_fetch_process_time_max_ms: int = setting(LONG, 500, CLUSTER_WIDE,
        "A leader that takes longer than this to serve an in-sync follower hands the partition over to "
        "another broker, if follower.fetch.pending.reads.insync.enable and leader.relinquish.enable are true "
        "(KIP-501).",
        check=at_least(1), own=True)
    group_initial_rebalance_delay_ms: int = setting(INT, 3_000, READ_ONLY,
        "How long the first rebalance of a group waits for more members.")
    group_max_session_timeout_ms: int = setting(INT, 1_800_000, READ_ONLY,
        "The longest session timeout that a group member may request.")
    group_max_size: int = setting(INT, INT_MAX, READ_ONLY,
        "The largest number of members in one group.", check=at_least(1))
    group_min_session_timeout_ms: int = setting(INT, 6_000, READ_ONLY,
        "The shortest session timeout that a group member may request.")
    high_watermark_min_isr_gate: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether the high watermark stands still while fewer than min.insync.replicas are in sync; this must "
        "be true while eligible.leader.replicas.enable is true.", own=True)
    initial_broker_registration_timeout_ms: int = setting(INT, 60_000, READ_ONLY,
        "How long a starting broker tries to register before it gives up.")
    inter_broker_unix_socket_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether brokers on one machine replicate over Unix domain sockets, which take less processor time, "
        "instead of TCP, which other programs can record.", own=True)
    internal_log_segment_bytes: int | None = setting(INT, None, CLUSTER_WIDE,
        "Smaller segments than Kafka allows, for tests.", check=at_least(1), hidden=True)
    journal_enable: bool = setting(BOOLEAN, True, READ_ONLY,
        "Whether decisions and measurements are written to the journal topic.", own=True)
    journal_group_lag_interval_ms: int = setting(LONG, 5_000, READ_ONLY,
        "How often brokers sample the lag of groups and the fetches of consumers for the journal.",
        check=at_least(1), own=True)
    journal_progress_interval_ms: int = setting(LONG, 1_000, READ_ONLY,
        "How often brokers sample the progress of followers for the journal.", check=at_least(1), own=True)
    journal_topic_replication_factor: int = setting(SHORT, 3, READ_ONLY,
        "How many replicas the journal topic has, at most the number of brokers.", check=at_least(1), own=True)
    lag_append_times_flush_interval_ms: int = setting(LONG, 5_000, READ_ONLY,
        "How often brokers save when records were appended; without other replicas, a crash loses the append "
        "times since the last save.", check=at_least(1), own=True)
    lag_commit_intervals: int = setting(INT, 10, READ_ONLY,
        "How many commits of a group the coordinator remembers per partition, to judge whether the group keeps up.",
        check=between(1, 255), own=True)
    lag_commit_min_distance_ms: int = setting(LONG, 0, READ_ONLY,
        "A commit that comes sooner than this after the previous one replaces it among the remembered commits.",
        check=at_least(0), own=True)
    lag_metrics_detail: str = setting(STRING, "partition", READ_ONLY,
        "In what detail the metrics show the lag of groups: for each partition, for each topic (sums, and "
        "the longest wait), or only for the group; group also leaves out what consumers read per topic and "
        "per client.",
        check=one_of("group", "topic", "partition"), own=True)
    lag_refresh_interval_ms: int = setting(LONG, 30_000, READ_ONLY,
        "How often coordinators sample the ends of partitions, for the status and the speeds of their groups.",
        check=at_least(1), own=True)
    lag_status_min_window_ms: int = setting(LONG, 0, CLUSTER_WIDE,
        "How long a group must have committed, or been silent, before it is judged; 0 judges as Burrow does.",
        check=at_least(0), own=True)
    leader_imbalance_check_interval_seconds: int = setting(LONG, 300, READ_ONLY,
        "How often the controller looks for partitions not led by their preferred replica.", check=at_least(1))
    leader_relinquish_demotion_ms: int = setting(LONG, 600_000, CLUSTER_WIDE,
        "How long the balancer does not return a partition to the broker that gave it up because it was slow.",
        check=at_least(0), own=True)
    leader_relinquish_enable: bool = setting(BOOLEAN, True, CLUSTER_WIDE,
        "Whether slow leaders hand partitions over, see follower.fetch.process.time.max.ms; false only keeps "
        "followers in sync.",
        own=True)
    leader_relinquish_max_per_window: int = setting(INT, 3, CLUSTER_WIDE,
        "How often a partition may be handed over within leader.relinquish.window.ms.", check=at_least(1), own=True)
    leader_relinquish_min_tenure_ms: int = setting(LONG, 30_000, CLUSTER_WIDE,
        "How long a broker must have led a partition before it may hand it over.", check=at_least(0), own=True)
    leader_relinquish_reorder_replicas: bool = setting(BOOLEAN, False, CLUSTER_WIDE,
        "Whether handing over also moves the broker to the end of the assignment, so that another broker is "
        "the preferred leader.",
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
        "Whether a replica whose disk has not answered a follower's read for "
        "follower.fetch.pending.insync.max.ms goes offline; checked while "
        "follower.fetch.pending.reads.insync.enable is true.", own=True)
    log_flush_interval_messages: int = setting(LONG, LONG_MAX, CLUSTER_WIDE,
        "The default of flush.messages.", check=at_least(1))
    log_flush_interval_ms: int | None = setting(LONG, None, CLUSTER_WIDE,
        NOT_YET, synonyms="log.flush.scheduler.interval.ms")
    log_flush_offset_checkpoint_interval_ms: int = setting(INT, 60_000, READ_ONLY,
        "How often recovery points are checkpointed.", check=at_least(0))
    log_flush_scheduler_interval_ms: int = setting(LONG, LONG_MAX, READ_ONLY, NOT_YET)
    log_flush_start_offset_checkpoint_interval_ms: int = setting(INT, 60_000, READ_ONLY,
        "Log starts are checkpointed together with recovery points, see log.flush.offset.checkpoint.interval.ms.",
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
        "How fast a broker reads its finished segments to find damage; 0 turns the scrub off.",
        check=at_least(0), own=True)
    log_scrub_interval_ms: int = setting(LONG, 604_800_000, CLUSTER_WIDE,
        "How long after its last check of a log the scrub reads it again.", check=at_least(1), own=True)
    log_segment_bytes: int = setting(INT, 1_073_741_824, CLUSTER_WIDE,
        "The default of segment.bytes.", check=SEGMENT_BYTES)
    log_segment_delete_delay_ms: int = setting(LONG, 60_000, CLUSTER_WIDE,
        "The default of file.delete.delay.ms.", check=at_least(0))
    log_truncation_mode: str = setting(STRING, "epoch-fetch", READ_ONLY,
        "How a follower reconciles its log with a new leader's: by epochs, within each fetch or requested "
        "before the first fetch; or, as before KIP-101, by its own high watermark, which loses committed "
        "records.",
        check=one_of("epoch-fetch", "epoch-request", "high-watermark"), own=True)
    max_connection_creation_rate: int = setting(INT, INT_MAX, CLUSTER_WIDE,
        "How many client connections per second a broker accepts; the others wait in the backlog.", check=at_least(0))
    max_connections: int = setting(INT, INT_MAX, CLUSTER_WIDE,
        "How many connections a broker accepts; further clients wait in the backlog, and another broker "
        "takes the place of the client that has been silent for longest.", check=at_least(0))
    max_connections_per_ip: int = setting(INT, INT_MAX, CLUSTER_WIDE,
        "How many client connections one address may have; further ones are reset.", check=at_least(0))
    max_connections_per_ip_overrides: str = setting(STRING, "", CLUSTER_WIDE,
        "Other numbers for some hosts, instead of max.connections.per.ip: host:number, separated by commas.",
        check=COUNTS_PER_ADDRESS)
    max_incremental_fetch_session_cache_slots: int = setting(INT, 1_000, READ_ONLY,
        "How many fetch sessions a broker remembers.", check=at_least(0))
    max_request_partition_size_limit: int = setting(INT, 2_000, READ_ONLY,
        "How many partitions a DescribeTopicPartitions response has at most.", check=at_least(1))
    message_max_bytes: int = setting(INT, 1_048_588, CLUSTER_WIDE,
        "The default of max.message.bytes.", check=at_least(0))
    metrics_compatible: tuple[str, ...] = setting(LIST, (), READ_ONLY,
        "Exporters whose metrics the broker also serves, each at /metrics/NAME: kafka_exporter, kminion, "
        "kafka-lag-exporter.",
        check=one_of("kafka_exporter", "kminion", "kafka-lag-exporter"), own=True)
    metrics_label_names: str = setting(STRING, "lowercase", READ_ONLY,
        "How the metrics spell Kafka's labels of several words: delayedoperation, or delayedOperation.",
        check=one_of("lowercase", "kafka"), own=True)
    metrics_port: int = setting(INT, 0, READ_ONLY,
        "The port of the metrics for Prometheus: 0 picks a free port, -1 turns metrics off. `syncline up` "
        "gives the first broker this port, and the others the ports after it.", check=between(-1, 65_535), own=True)
    min_insync_replicas: int = setting(INT, 1, CLUSTER_WIDE,
        "How many replicas must be in sync for acks=all to be accepted and the high watermark to move.",
        check=at_least(1))
    num_partitions: int = setting(INT, 1, READ_ONLY,
        "How many partitions a topic gets if its creator names no number.", check=at_least(1))
    num_replica_fetchers: int = setting(INT, 1, CLUSTER_WIDE, NOT_YET, check=at_least(1))
    offset_metadata_max_bytes: int = setting(INT, 4_096, READ_ONLY,
        "The longest metadata text that may be stored with a committed offset.")
    offsets_commit_timeout_ms: int = setting(INT, 5_000, READ_ONLY,
        "How long the replication of an offset commit may take.", check=at_least(1))
    offsets_retention_check_interval_ms: int = setting(LONG, 600_000, READ_ONLY,
        "How often a broker looks for expired offsets.", check=at_least(1))
    offsets_retention_minutes: int = setting(INT, 10_080, READ_ONLY,
        "How long the offsets of a group without members are kept.", check=at_least(1))
    offsets_topic_num_partitions: int = setting(INT, 50, READ_ONLY,
        "How many partitions the offsets topic has.", check=at_least(1))
    offsets_topic_replication_factor: int = setting(SHORT, 3, READ_ONLY,
        "How many replicas the offsets topic has.", check=at_least(1))
    offsets_topic_segment_bytes: int = setting(INT, 104_857_600, READ_ONLY,
        "The segment size of the offsets topic.", check=at_least(1))
    page_cache_follower_keep_bytes: int = setting(LONG, 16_777_216, READ_ONLY,
        "How many of the newest bytes of each follower replica stay in the page cache; -1 keeps all.",
        check=at_least(-1), own=True)
    page_cache_leader_budget_bytes: int = setting(LONG, -2, READ_ONLY,
        "How many of the newest bytes of all led partitions together stay in the page cache, in equal "
        "shares; -1 keeps all; -2 keeps a 32nd of the memory (64 MiB at least), and up to an eighth more for "
        "readers that are behind.",
        check=at_least(-2), own=True)
    producer_id_expiration_ms: int = setting(INT, 86_400_000, CLUSTER_WIDE,
        "How long the state of a silent idempotent producer is kept.", check=at_least(1))
    queued_max_request_bytes: int = setting(LONG, -1, READ_ONLY,
        "How many bytes a broker holds for clients: receive buffers, responses that are not sent or not "
        "read, unacknowledged records, long requests, fetch sessions (a quarter of the limit at most) and "
        "the metadata of group members. Above the limit, the broker stops reading the connections that hold "
        "most. -1 is a quarter of the memory, at most 4 GiB: a broker under attack may then use that much, "
        "and a cluster on one machine three times as much. Set a limit where brokers share a machine; "
        "150000000 keeps each below 400 MB.")
    quick_bounce_enable: bool = setting(BOOLEAN, False, CLUSTER_WIDE,
        "Whether a restarted broker keeps its place in the in-sync sets unnoticed, as in the histories "
        "behind KIP-101; for demonstrations only.", hidden=True)
    replica_fetch_backoff_ms: int = setting(INT, 1_000, READ_ONLY,
        "How long a follower waits after a failed fetch.", check=at_least(0))
    replica_fetch_max_bytes: int = setting(INT, 1_048_576, READ_ONLY,
        "How many bytes per partition a follower requests.", check=at_least(0))
    replica_fetch_min_bytes: int = setting(INT, 1, READ_ONLY,
        "How many bytes a follower's fetch waits for.")
    replica_fetch_response_max_bytes: int = setting(INT, 10_485_760, READ_ONLY,
        "How many bytes per response a follower requests.", check=at_least(0))
    replica_fetch_wait_max_ms: int = setting(INT, 500, READ_ONLY,
        "How long a follower's fetch waits for data.")
    replica_high_watermark_checkpoint_interval_ms: int = setting(LONG, 5_000, READ_ONLY,
        "How often high watermarks are checkpointed.")
    replica_lag_check_interval_ms: int | None = setting(LONG, None, CLUSTER_WIDE,
        "How often a leader checks its followers' lag; half of replica.lag.time.max.ms when unset.",
        check=at_least(1), own=True)
    replica_lag_max_messages: int = setting(LONG, 4_000, CLUSTER_WIDE,
        "How many records a follower may be behind if replica.lag.mode is messages.", check=at_least(1), own=True)
    replica_lag_mode: str = setting(STRING, "time", CLUSTER_WIDE,
        "The rule that decides whether a follower lags: time (Kafka since 0.10.2), or, for comparison, "
        "lag-begin (KIP-16 as written) and messages (Kafka 0.8.2). See `lag-modes.md`.",
        check=one_of("time", "lag-begin", "messages"), own=True)
    replica_lag_time_max_ms: int = setting(LONG, 30_000, READ_ONLY,
        "How long a follower may go without being caught up before it leaves the in-sync set.")
    replica_selector_class: str | None = setting(STRING, None, READ_ONLY,
        "How a consumer's replica is chosen: if unset, consumers read from the leader; "
        "org.apache.kafka.common.replica.RackAwareReplicaSelector picks a replica in the consumer's rack "
        "(KIP-392).",
        check=one_of(*_REPLICA_SELECTORS))
    replica_socket_timeout_ms: int = setting(INT, 30_000, READ_ONLY,
        "How long a follower waits for the response to a fetch.")
    replication_quota_mode: str = setting(STRING, "strict", CLUSTER_WIDE,
        "How replication quotas are enforced: strict holds them over any period; kafka looks only at what "
        "was already transferred, so the average may be a multiple of the quota. See `throttling.md`.",
        check=one_of("strict", "kafka"),
        own=True)
    replication_quota_window_num: int = setting(INT, 11, READ_ONLY,
        "The number of samples over which the rate of throttled replication is measured.", check=at_least(1))
    replication_quota_window_size_seconds: int = setting(INT, 1, READ_ONLY,
        "The length of each sample of the throttled replication rate.", check=at_least(1))
    request_timeout_ms: int = setting(INT, 30_000, READ_ONLY,
        "How long requests between brokers may take.")
    socket_listen_backlog_size: int = setting(INT, 1_024, READ_ONLY,
        "How many connections not yet accepted the kernel keeps for each listener, at most "
        "net.core.somaxconn; further clients retry after a second. Kafka's default is 50.", check=at_least(1))
    socket_receive_buffer_bytes: int = setting(INT, 102_400, READ_ONLY, NOT_YET)
    socket_request_max_bytes: int = setting(INT, 104_857_600, READ_ONLY,
        "The largest request that a broker reads.", check=at_least(1))
    socket_send_buffer_bytes: int = setting(INT, 102_400, READ_ONLY, NOT_YET)
    transaction_max_timeout_ms: int = setting(INT, 900_000, READ_ONLY,
        "The longest transaction timeout that a producer may request.", check=at_least(1))
    unclean_leader_election_enable: bool = setting(BOOLEAN, False, CLUSTER_WIDE,
        "Whether a replica that is not in sync may lead when no other can.")
    unclean_leader_election_interval_ms: int = setting(LONG, 300_000, READ_ONLY,
        "How often the controller looks for leaderless partitions that allow an unclean election.",
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
