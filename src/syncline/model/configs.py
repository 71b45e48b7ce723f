"""Typed configurations: what the rest of the code reads instead of text.

A broker's configuration is resolved from four layers, the first that has a
value wins: set dynamically for this broker, set dynamically for all, given in
its file or command line, default. A topic's configuration is its own overrides
over the broker's. Both are resolved anew when one of the layers changes; the
objects themselves never change.

The fields here are those that something acts on, or will. The tables
(`topic_config_table`, `broker_config_table`) know more names, which are
validated, stored and shown, too, and say which have no effect.

Units are in Kafka's names: `_ms`, `_bytes`, `_minutes`, `_seconds`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from syncline.model.broker_config_table import BROKER_CONFIGS, THROTTLE_RATES
from syncline.model.config_types import LONG_MAX, ConfigDefinition, ConfigError, Value
from syncline.model.topic_config_table import INTERNAL_SEGMENT_BYTES, TOPIC_CONFIGS

PROTECTION_CAP: Final = "follower.fetch.pending.insync.max.ms"

_MS_PER_MINUTE: Final = 60_000
_MS_PER_HOUR: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """What one broker goes by. Without arguments: the defaults."""

    # The texts of its file and command line, for whoever describes them.
    static: Mapping[str, str] = field(default_factory=dict, repr=False)
    auto_create_topics_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    broker_heartbeat_interval_ms: int = 2_000
    broker_rack: str | None = None
    broker_session_timeout_ms: int = 9_000
    compression_type: str = "producer"
    connections_max_idle_ms: int = 600_000
    controlled_shutdown_enable: bool = True
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    eligible_leader_replicas_enable: bool = True
    fault_injection_enable: bool = False
    fetch_max_bytes: int = 57_671_680
    follower_fetch_pending_insync_max_ms: int = 180_000
    follower_fetch_pending_reads_insync_enable: bool = False
    follower_fetch_process_time_max_ms: int = 500
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_min_session_timeout_ms: int = 6_000
    high_watermark_min_isr_gate: bool = True
    initial_broker_registration_timeout_ms: int = 60_000
    journal_enable: bool = True
    journal_progress_interval_ms: int = 1_000
    journal_topic_replication_factor: int = 3
    leader_imbalance_check_interval_seconds: int = 300
    leader_relinquish_demotion_ms: int = 600_000
    leader_relinquish_enable: bool = True
    leader_relinquish_max_per_window: int = 3
    leader_relinquish_min_tenure_ms: int = 30_000
    leader_relinquish_reorder_replicas: bool = False
    leader_relinquish_window_ms: int = 600_000
    log_cleaner_delete_retention_ms: int = 86_400_000
    log_cleaner_max_compaction_lag_ms: int = LONG_MAX
    log_cleaner_min_cleanable_ratio: float = 0.5
    log_cleaner_min_compaction_lag_ms: int = 0
    log_cleanup_policy: tuple[str, ...] = ("delete",)
    log_dir_stuck_read_offline: bool = False
    log_flush_interval_messages: int = LONG_MAX
    log_flush_interval_ms: int | None = None
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_scheduler_interval_ms: int = LONG_MAX
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    log_index_interval_bytes: int = 4_096
    log_index_size_max_bytes: int = 10_485_760
    log_message_timestamp_after_max_ms: int = 3_600_000
    log_message_timestamp_before_max_ms: int = LONG_MAX
    log_message_timestamp_type: str = "CreateTime"
    log_retention_bytes: int = -1
    log_retention_check_interval_ms: int = 300_000
    log_retention_hours: int = 168
    log_retention_minutes: int | None = None
    log_retention_ms: int | None = None
    log_roll_hours: int = 168
    log_roll_jitter_hours: int = 0
    log_roll_jitter_ms: int | None = None
    log_roll_ms: int | None = None
    log_segment_bytes: int = 1_073_741_824
    internal_log_segment_bytes: int | None = None
    log_segment_delete_delay_ms: int = 60_000
    log_truncation_mode: str = "epoch-fetch"
    max_connections: int = 2**31 - 1
    max_incremental_fetch_session_cache_slots: int = 1_000
    message_max_bytes: int = 1_048_588
    metrics_label_names: str = "lowercase"
    metrics_port: int = 0
    min_insync_replicas: int = 1
    num_partitions: int = 1
    num_replica_fetchers: int = 1
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_retention_minutes: int = 10_080
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 104_857_600
    page_cache_follower_keep_bytes: int = 16_777_216
    page_cache_leader_budget_bytes: int = -1
    producer_id_expiration_ms: int = 86_400_000
    quick_bounce_enable: bool = False
    replica_fetch_backoff_ms: int = 1_000
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_min_bytes: int = 1
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_wait_max_ms: int = 500
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    replica_lag_check_interval_ms: int | None = None
    replica_lag_max_messages: int = 4_000
    replica_lag_mode: str = "time"
    replica_lag_time_max_ms: int = 30_000
    replica_selector_class: str | None = None
    replica_socket_timeout_ms: int = 30_000
    request_timeout_ms: int = 30_000
    socket_listen_backlog_size: int = 50
    socket_receive_buffer_bytes: int = 102_400
    socket_request_max_bytes: int = 104_857_600
    socket_send_buffer_bytes: int = 102_400
    transaction_max_timeout_ms: int = 900_000
    unclean_leader_election_enable: bool = False
    unclean_leader_election_interval_ms: int = 300_000

    @classmethod
    def resolve(
        cls,
        static: Mapping[str, str],
        cluster_defaults: Mapping[str, str] | None = None,
        per_broker: Mapping[str, str] | None = None,
    ) -> "BrokerConfig":
        """Return the configuration that the layers give.

        Raises `ConfigError` for a value that cannot be used and for an unknown
        name in `static`; unknown dynamic names are kept by the controller for
        whoever knows them, and do not matter here.
        """
        unknown = [name for name in static if name not in BROKER_CONFIGS and name not in THROTTLE_RATES]
        if unknown:
            raise ConfigError(f"Unknown broker config name: {unknown[0]}")
        layers = {**static, **(cluster_defaults or {}), **(per_broker or {})}
        values = _parsed(BROKER_CONFIGS, layers)
        config = cls(static=dict(static), **_fields_of(cls, values))
        config.check()
        return config

    def check(self) -> None:
        """Raise `ConfigError` when two values do not go together."""
        wait_ms = self.replica_fetch_wait_max_ms
        if wait_ms > self.replica_socket_timeout_ms:
            raise ConfigError("replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms")
        if wait_ms > self.replica_lag_time_max_ms:
            raise ConfigError(
                "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms"
                " to prevent frequent changes in ISR"
            )
        if PROTECTION_CAP in self.static:
            check_protection_cap(self.follower_fetch_pending_insync_max_ms, self.replica_lag_time_max_ms)
        if self.eligible_leader_replicas_enable and not self.high_watermark_min_isr_gate:
            # Whoever leaves a small ISR stays eligible only because nothing is committed without it (KIP-966).
            raise ConfigError(
                "high.watermark.min.isr.gate should be false only if eligible.leader.replicas.enable is false:"
                " an eligible replica could be elected and lack records that consumers have seen"
            )


def check_protection_cap(cap_ms: int, lag_ms: int) -> None:
    """Raise `ConfigError` when followers that wait for their leader would be spared for less than a lag window."""
    if 0 <= cap_ms < lag_ms:
        raise ConfigError(f"{PROTECTION_CAP} ({cap_ms}) should be -1 or at least replica.lag.time.max.ms ({lag_ms})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """What the partitions of one topic go by. Without arguments: the defaults."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4_096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> "TopicConfig":
        """Return the configuration of a topic with these overrides on this broker; raises `ConfigError`."""
        values = _topic_defaults(broker)
        values.update(_fields_of(cls, _parsed(TOPIC_CONFIGS, overrides)))
        small = overrides.get(INTERNAL_SEGMENT_BYTES.name)
        if small is not None:
            values["segment_bytes"] = INTERNAL_SEGMENT_BYTES.parse(small)
        return cls(**values)

    @property
    def is_compacted(self) -> bool:
        """Whether records of this topic need keys."""
        return "compact" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        """Whether the broker stamps records with its own time."""
        return self.message_timestamp_type == "LogAppendTime"


def validate_topic_config(name: str, value: str) -> None:
    """Raise `ConfigError` when a topic cannot be given this value."""
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        raise ConfigError(f"Unknown topic config name: {name}")
    definition.parse(value)


def validate_topic_configs(overrides: Mapping[str, str]) -> None:
    """Raise `ConfigError` when one of a topic's overrides is bad, or two do not go together."""
    for name, value in overrides.items():
        validate_topic_config(name, value)
    parsed = _parsed(TOPIC_CONFIGS, overrides)
    low, high = (
        parsed.get(name, TOPIC_CONFIGS[name].default_value())
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    assert isinstance(low, int), "a lag in milliseconds"
    assert isinstance(high, int), "a lag in milliseconds"
    if low > high:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )


def _topic_defaults(broker: BrokerConfig) -> dict[str, Any]:
    retention_ms = broker.log_retention_ms
    if retention_ms is None:
        minutes = broker.log_retention_minutes
        retention_ms = broker.log_retention_hours * _MS_PER_HOUR if minutes is None else minutes * _MS_PER_MINUTE
    roll_ms = broker.log_roll_ms
    jitter_ms = broker.log_roll_jitter_ms
    flush_ms = broker.log_flush_interval_ms
    segment_bytes = broker.internal_log_segment_bytes
    return {
        "cleanup_policy": broker.log_cleanup_policy,
        "compression_type": broker.compression_type,
        "delete_retention_ms": broker.log_cleaner_delete_retention_ms,
        "file_delete_delay_ms": broker.log_segment_delete_delay_ms,
        "flush_messages": broker.log_flush_interval_messages,
        "flush_ms": broker.log_flush_scheduler_interval_ms if flush_ms is None else flush_ms,
        "index_interval_bytes": broker.log_index_interval_bytes,
        "max_compaction_lag_ms": broker.log_cleaner_max_compaction_lag_ms,
        "max_message_bytes": broker.message_max_bytes,
        "message_timestamp_after_max_ms": broker.log_message_timestamp_after_max_ms,
        "message_timestamp_before_max_ms": broker.log_message_timestamp_before_max_ms,
        "message_timestamp_type": broker.log_message_timestamp_type,
        "min_cleanable_dirty_ratio": broker.log_cleaner_min_cleanable_ratio,
        "min_compaction_lag_ms": broker.log_cleaner_min_compaction_lag_ms,
        "min_insync_replicas": broker.min_insync_replicas,
        "retention_bytes": broker.log_retention_bytes,
        "retention_ms": retention_ms,
        "segment_bytes": broker.log_segment_bytes if segment_bytes is None else segment_bytes,
        "segment_index_bytes": broker.log_index_size_max_bytes,
        "segment_jitter_ms": broker.log_roll_jitter_hours * _MS_PER_HOUR if jitter_ms is None else jitter_ms,
        "segment_ms": broker.log_roll_hours * _MS_PER_HOUR if roll_ms is None else roll_ms,
        "unclean_leader_election_enable": broker.unclean_leader_election_enable,
    }


def _parsed(definitions: Mapping[str, ConfigDefinition], texts: Mapping[str, str]) -> dict[str, Value]:
    return {name: definitions[name].parse(text) for name, text in texts.items() if name in definitions}


def _fields_of(config: type, values: Mapping[str, Value]) -> dict[str, Any]:
    known: Iterable[str] = (each.name for each in fields(config))
    given = {name.replace(".", "_"): value for name, value in values.items()}
    return {name: given[name] for name in known if name in given}
