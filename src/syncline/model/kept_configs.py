"""Kafka's configurations that Syncline checks, stores and shows, but does not read.

Tools list, set and read back these names; a broker that refused them would
break scripts that work with Kafka. Their documentation says that they have no
effect, except for those that options of `syncline up` determine.
Source: Kafka's configurations, as of 4.3.
"""

from typing import Final

from syncline.model.config_types import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    DOUBLE,
    GZIP_LEVELS,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LONG_MAX,
    LZ4_LEVELS,
    NOT_ACTED_ON,
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    SHORT,
    STRING,
    ZSTD_LEVELS,
    Check,
    ConfigDefinition,
    ConfigType,
    UpdateMode,
    at_least,
    one_of,
)

_FOREVER: Final = str(LONG_MAX)
_INT_MAX: Final = str(INT_MAX)
# Configurations of groups whose default at the broker has the same name.
_WITHOUT_BROKER_NAME: Final = frozenset(
    {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
)


def _row(
    name: str,
    kind: ConfigType,
    default: str | None,
    check: Check | None,
    update_mode: UpdateMode,
    documentation: str = NOT_ACTED_ON,
    *,
    synonyms: str = "",
) -> ConfigDefinition:
    return ConfigDefinition(name, kind, default, check, update_mode, documentation, tuple(synonyms.split()))


_BROKER_ROWS: Final = (
    _row("advertised.listeners", LIST, None, None, READ_ONLY,
         "Where clients find this broker."),
    _row("background.threads", INT, "10", at_least(1), CLUSTER_WIDE),
    _row("broker.id", INT, None, None, READ_ONLY,
         "The id of this broker; the same as node.id."),
    _row("compression.gzip.level", INT, "-1", GZIP_LEVELS, CLUSTER_WIDE),
    _row("compression.lz4.level", INT, "9", LZ4_LEVELS, CLUSTER_WIDE),
    _row("compression.zstd.level", INT, "3", ZSTD_LEVELS, CLUSTER_WIDE),
    _row("config.providers", LIST, "", None, CLUSTER_WIDE),
    _row("cordoned.log.dirs", LIST, "", None, PER_BROKER),
    _row("delete.records.purgatory.purge.interval.requests", INT, "1", None, READ_ONLY),
    _row("fetch.purgatory.purge.interval.requests", INT, "1000", None, READ_ONLY),
    _row("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false", None, CLUSTER_WIDE),
    _row("group.consumer.assignment.interval.ms", INT, "1000", at_least(0), CLUSTER_WIDE),
    _row("group.coordinator.cached.buffer.max.bytes", INT, "1048588", at_least(524288), CLUSTER_WIDE),
    _row("group.share.assignment.interval.ms", INT, "1000", at_least(0), CLUSTER_WIDE),
    _row("group.streams.assignment.interval.ms", INT, "1000", at_least(0), CLUSTER_WIDE),
    _row("group.coordinator.rebalance.protocols", LIST, "classic", one_of("classic"), READ_ONLY,
         "Which kinds of groups this broker coordinates."),
    _row("inter.broker.listener.name", STRING, None, None, READ_ONLY,
         "The listener to which other brokers connect."),
    _row("listener.security.protocol.map", STRING, None, None, READ_ONLY,
         "The protocol of each listener."),
    _row("listeners", LIST, None, None, READ_ONLY,
         "Where this broker listens."),
    _row("log.cleaner.backoff.ms", LONG, "15000", at_least(0), CLUSTER_WIDE),
    _row("log.cleaner.dedupe.buffer.size", LONG, "134217728", None, CLUSTER_WIDE),
    _row("log.cleaner.enable", BOOLEAN, "false", None, READ_ONLY,
         "Whether logs are compacted; not implemented yet."),
    _row("log.cleaner.io.buffer.load.factor", DOUBLE, "0.9", None, CLUSTER_WIDE),
    _row("log.cleaner.io.buffer.size", INT, "524288", at_least(0), CLUSTER_WIDE),
    _row("log.cleaner.io.max.bytes.per.second", DOUBLE, "1.7976931348623157E308", None, CLUSTER_WIDE),
    _row("log.cleaner.threads", INT, "1", at_least(0), CLUSTER_WIDE),
    _row("log.dir", LIST, None, None, READ_ONLY,
         "Where this broker keeps its logs; the same as log.dirs."),
    _row("log.dirs", LIST, None, None, READ_ONLY,
         "Where this broker keeps its logs."),
    _row("log.local.retention.bytes", LONG, "-2", at_least(-2), CLUSTER_WIDE),
    _row("log.local.retention.ms", LONG, "-2", at_least(-2), CLUSTER_WIDE),
    _row("log.preallocate", BOOLEAN, "false", None, CLUSTER_WIDE),
    _row("metric.reporters", LIST, "", None, CLUSTER_WIDE),
    _row("node.id", INT, None, at_least(0), READ_ONLY,
         "The id of this broker."),
    _row("num.io.threads", INT, "8", at_least(1), CLUSTER_WIDE),
    _row("num.network.threads", INT, "3", at_least(1), CLUSTER_WIDE),
    _row("num.recovery.threads.per.data.dir", INT, "2", at_least(1), CLUSTER_WIDE),
    _row("offsets.load.buffer.size", INT, "5242880", at_least(1), READ_ONLY),
    _row("offsets.topic.compression.codec", INT, "0", None, READ_ONLY),
    _row("principal.builder.class", CLASS,
         "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", None, PER_BROKER),
    _row("process.roles", LIST, None, None, READ_ONLY,
         "The roles of this process: any broker may become the controller."),
    _row("producer.purgatory.purge.interval.requests", INT, "1000", None, READ_ONLY),
    _row("quota.window.num", INT, "11", at_least(1), READ_ONLY),
    _row("quota.window.size.seconds", INT, "1", at_least(1), READ_ONLY),
    _row("remote.fetch.max.wait.ms", INT, "500", at_least(1), CLUSTER_WIDE),
    _row("remote.list.offsets.request.timeout.ms", LONG, "30000", at_least(1), CLUSTER_WIDE),
    _row("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824", at_least(1), CLUSTER_WIDE),
    _row("remote.log.manager.copier.thread.pool.size", INT, "10", at_least(1), CLUSTER_WIDE),
    _row("remote.log.manager.copy.max.bytes.per.second", LONG, _FOREVER, at_least(1), CLUSTER_WIDE),
    _row("remote.log.manager.expiration.thread.pool.size", INT, "10", at_least(1), CLUSTER_WIDE),
    _row("remote.log.manager.fetch.max.bytes.per.second", LONG, _FOREVER, at_least(1), CLUSTER_WIDE),
    _row("remote.log.manager.follower.thread.pool.size", INT, "2", at_least(1), CLUSTER_WIDE),
    _row("remote.log.reader.threads", INT, "10", at_least(1), CLUSTER_WIDE),
    _row("replica.socket.receive.buffer.bytes", INT, "65536", None, READ_ONLY),
    _row("sasl.enabled.mechanisms", LIST, "GSSAPI", None, PER_BROKER),
    _row("sasl.jaas.config", PASSWORD, None, None, PER_BROKER),
    _row("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", None, PER_BROKER),
    _row("sasl.kerberos.min.time.before.relogin", LONG, "60000", None, PER_BROKER),
    _row("sasl.kerberos.principal.to.local.rules", LIST, "DEFAULT", None, PER_BROKER),
    _row("sasl.kerberos.service.name", STRING, None, None, PER_BROKER),
    _row("sasl.kerberos.ticket.renew.jitter", DOUBLE, "0.05", None, PER_BROKER),
    _row("sasl.kerberos.ticket.renew.window.factor", DOUBLE, "0.8", None, PER_BROKER),
    _row("sasl.login.refresh.buffer.seconds", SHORT, "300", None, PER_BROKER),
    _row("sasl.login.refresh.min.period.seconds", SHORT, "60", None, PER_BROKER),
    _row("sasl.login.refresh.window.factor", DOUBLE, "0.8", None, PER_BROKER),
    _row("sasl.login.refresh.window.jitter", DOUBLE, "0.05", None, PER_BROKER),
    _row("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", None, PER_BROKER),
    _row("share.coordinator.cached.buffer.max.bytes", INT, "1048588", at_least(524288), CLUSTER_WIDE),
    _row("ssl.cipher.suites", LIST, "", None, PER_BROKER),
    _row("ssl.client.auth", STRING, "none", one_of("required", "requested", "none"), PER_BROKER),
    _row("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3", None, PER_BROKER),
    _row("ssl.endpoint.identification.algorithm", STRING, "https", None, PER_BROKER),
    _row("ssl.engine.factory.class", CLASS, None, None, PER_BROKER),
    _row("ssl.key.password", PASSWORD, None, None, PER_BROKER),
    _row("ssl.keymanager.algorithm", STRING, "SunX509", None, PER_BROKER),
    _row("ssl.keystore.certificate.chain", PASSWORD, None, None, PER_BROKER),
    _row("ssl.keystore.key", PASSWORD, None, None, PER_BROKER),
    _row("ssl.keystore.location", STRING, None, None, PER_BROKER),
    _row("ssl.keystore.password", PASSWORD, None, None, PER_BROKER),
    _row("ssl.keystore.type", STRING, "JKS", None, PER_BROKER),
    _row("ssl.protocol", STRING, "TLSv1.3", None, PER_BROKER),
    _row("ssl.provider", STRING, None, None, PER_BROKER),
    _row("ssl.secure.random.implementation", STRING, None, None, PER_BROKER),
    _row("ssl.trustmanager.algorithm", STRING, "PKIX", None, PER_BROKER),
    _row("ssl.truststore.certificates", PASSWORD, None, None, PER_BROKER),
    _row("ssl.truststore.location", STRING, None, None, PER_BROKER),
    _row("ssl.truststore.password", PASSWORD, None, None, PER_BROKER),
    _row("ssl.truststore.type", STRING, "JKS", None, PER_BROKER),
    _row("transaction.partition.verification.enable", BOOLEAN, "true", None, CLUSTER_WIDE),
    _row("transactional.id.expiration.ms", INT, "604800000", at_least(1), READ_ONLY),
)  # fmt: skip

_TOPIC_ROWS: Final = (
    _row("compression.gzip.level", INT, "-1", GZIP_LEVELS, CLUSTER_WIDE, synonyms="compression.gzip.level"),
    _row("compression.lz4.level", INT, "9", LZ4_LEVELS, CLUSTER_WIDE, synonyms="compression.lz4.level"),
    _row("compression.zstd.level", INT, "3", ZSTD_LEVELS, CLUSTER_WIDE, synonyms="compression.zstd.level"),
    _row("local.retention.bytes", LONG, "-2", at_least(-2), CLUSTER_WIDE, synonyms="log.local.retention.bytes"),
    _row("local.retention.ms", LONG, "-2", at_least(-2), CLUSTER_WIDE, synonyms="log.local.retention.ms"),
    _row("preallocate", BOOLEAN, "false", None, CLUSTER_WIDE, synonyms="log.preallocate"),
    _row("remote.log.copy.disable", BOOLEAN, "false", None, CLUSTER_WIDE),
    _row("remote.log.delete.on.disable", BOOLEAN, "false", None, CLUSTER_WIDE),
    _row("remote.storage.enable", BOOLEAN, "false", None, CLUSTER_WIDE),
)

# A subscription to clients' metrics (KIP-714) and groups of the newer kinds (KIP-848, KIP-932, KIP-1071) can be
# described, as tools do, though Syncline has neither.
_CLIENT_METRICS_ROWS: Final = (
    _row("interval.ms", INT, "300000", None, READ_ONLY),
    _row("match", LIST, "", None, READ_ONLY),
    _row("metrics", LIST, "", None, READ_ONLY),
)
_GROUP_ROWS: Final = tuple(
    _row(name, kind, default, None, READ_ONLY, synonyms=name if name in _WITHOUT_BROKER_NAME else f"group.{name}")
    for name, kind, default in (
        ("consumer.assignment.interval.ms", INT, "1000"),
        ("consumer.heartbeat.interval.ms", INT, "5000"),
        ("consumer.session.timeout.ms", INT, "45000"),
        ("share.assignment.interval.ms", INT, "1000"),
        ("share.auto.offset.reset", STRING, "latest"),
        ("share.delivery.count.limit", INT, "5"),
        ("share.heartbeat.interval.ms", INT, "5000"),
        ("share.isolation.level", STRING, "read_uncommitted"),
        ("share.partition.max.record.locks", INT, "2000"),
        ("share.record.lock.duration.ms", INT, "30000"),
        ("share.renew.acknowledge.enable", BOOLEAN, "true"),
        ("share.session.timeout.ms", INT, "45000"),
        ("streams.assignment.interval.ms", INT, "1000"),
        ("streams.heartbeat.interval.ms", INT, "5000"),
        ("streams.initial.rebalance.delay.ms", INT, "3000"),
        ("streams.num.standby.replicas", INT, "0"),
        ("streams.session.timeout.ms", INT, "45000"),
    )
)
CLIENT_METRICS_CONFIGS: Final = {row.name: row for row in _CLIENT_METRICS_ROWS}
GROUP_CONFIGS: Final = {row.name: row for row in _GROUP_ROWS}

KEPT_BROKER_CONFIGS: Final = {row.name: row for row in _BROKER_ROWS}
KEPT_TOPIC_CONFIGS: Final = {row.name: row for row in _TOPIC_ROWS}

# Smaller segments than Kafka allows, for tests.
INTERNAL_SEGMENT_BYTES: Final = ConfigDefinition(
    "internal.segment.bytes", INT, None, at_least(1), CLUSTER_WIDE, hidden=True
)

# Known and dynamic, but listed only while set: without a value there is no throttle.
# Only values that are set dynamically count, as in Kafka: for one broker, or else for all.
THROTTLE_RATES: Final[dict[str, ConfigDefinition]] = {
    row.name: row
    for row in (
        _row(
            "follower.replication.throttled.rate",
            LONG,
            None,
            at_least(0),
            CLUSTER_WIDE,
            "Bytes per second that a broker fetches for the replicas in follower.replication.throttled.replicas.",
        ),
        _row(
            "leader.replication.throttled.rate",
            LONG,
            None,
            at_least(0),
            CLUSTER_WIDE,
            "Bytes per second that a broker sends for the replicas in leader.replication.throttled.replicas.",
        ),
        _row("replica.alter.log.dirs.io.max.bytes.per.second", LONG, None, at_least(0), CLUSTER_WIDE),
    )
}
