"""Panels of common Grafana dashboards for Kafka, and the metrics that they query.

Of dashboards for a broker's own page: only panels whose every metric our brokers have; `tests/test_documents.py` keeps
it so. The others query the JVM, the exporter of a host or container, the
threads of Kafka's network layer, or features that Syncline does not have.
"""

from typing import Final, NamedTuple


class Dashboard(NamedTuple):
    """A dashboard, and its panels that work: title, metrics."""

    title: str
    panels: dict[str, str]
    # Whether counters must be renamed as the page says.
    is_renamed: bool = False


DASHBOARDS: Final = (
    Dashboard(
        "Strimzi: Kafka",
        {
            "Brokers Online": "kafka_server_replicamanager_leadercount",
            "Active Controllers": "kafka_controller_kafkacontroller_activecontrollercount",
            "Unclean Leader Election Rate": "kafka_controller_controllerstats_uncleanleaderelections_total",
            "Online Replicas": "kafka_server_replicamanager_partitioncount",
            "Under Replicated Partitions": "kafka_server_replicamanager_underreplicatedpartitions",
            "Partitions at minimum ISR": "kafka_cluster_partition_atminisr",
            "Partitions under minimum ISR": "kafka_cluster_partition_underminisr",
            "Offline Partitions Count": "kafka_controller_kafkacontroller_offlinepartitionscount",
            "Open File Descriptors": "process_open_fds",
            "Total Incoming Byte Rate": "kafka_server_brokertopicmetrics_bytesin_total",
            "Total Outgoing Byte Rate": "kafka_server_brokertopicmetrics_bytesout_total",
            "Incoming Messages Rate": "kafka_server_brokertopicmetrics_messagesin_total",
            "Total Produce Request Rate": "kafka_server_brokertopicmetrics_totalproducerequests_total",
            "Byte Rate": "kafka_server_brokertopicmetrics_bytesin_total kafka_server_brokertopicmetrics_bytesout_total",
            "Messages In Per Second": "kafka_server_brokertopicmetrics_messagesin_total",
            "Produce Request Rate": "kafka_server_brokertopicmetrics_failedproducerequests_total "
            "kafka_server_brokertopicmetrics_totalproducerequests_total",
            "Fetch Request Rate": "kafka_server_brokertopicmetrics_failedfetchrequests_total "
            "kafka_server_brokertopicmetrics_totalfetchrequests_total",
            "Log Size": "kafka_log_log_size",
        },
    ),
    Dashboard(
        "Grafana, kafka-observ-lib: Kafka overview",
        {
            "Active kafka controllers": "kafka_controller_kafkacontroller_activecontrollercount",
            "Brokers count": "kafka_server_kafkaserver_brokerstate",
            "Unclean leader election": "kafka_controller_controllerstats_uncleanleaderelections_total",
            "Preferred replica imbalance": "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
            "Cluster network throughput": "kafka_server_brokertopicmetrics_bytesin_total "
            "kafka_server_brokertopicmetrics_bytesout_total",
            "Cluster messages throughput": "kafka_server_brokertopicmetrics_messagesin_total",
            "Online partitions": "kafka_server_replicamanager_partitioncount",
            "Offline partitions": "kafka_controller_kafkacontroller_offlinepartitionscount",
            "Under replicated partitions": "kafka_cluster_partition_underreplicated",
            "Under min ISR partitions": "kafka_cluster_partition_underminisr",
            "Broker network throughput": "kafka_server_brokertopicmetrics_bytesin_total "
            "kafka_server_brokertopicmetrics_bytesout_total",
            "Broker messages throughput": "kafka_server_brokertopicmetrics_messagesin_total",
            "ISR shrinks": "kafka_server_replicamanager_isrshrinks_total",
            "ISR expands": "kafka_server_replicamanager_isrexpands_total",
            "Uptime": "process_start_time_seconds",
            "Process start time": "process_start_time_seconds",
            "Process memory used (rss)": "process_resident_memory_bytes",
            "Process files open": "process_max_fds process_open_fds",
        },
    ),
    Dashboard(
        "Confluent, jmx-monitoring-stacks: Kafka cluster",
        {
            "Active Controllers": "kafka_controller_kafkacontroller_activecontrollercount",
            "Brokers Online": "kafka_server_replicamanager_leadercount",
            "Online Partitions": "kafka_server_replicamanager_partitioncount",
            "Preferred Replica Imbalance": "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
            "Unclean Leader Election Rate": "kafka_controller_controllerstats_uncleanleaderelections_total",
            "Under Replicated Partitions": "kafka_server_replicamanager_underreplicatedpartitions",
            "Under Min ISR Partitions": "kafka_cluster_partition_underminisr",
            "Offline Partitions Count": "kafka_controller_kafkacontroller_offlinepartitionscount",
            "Broker network throughput": "kafka_server_brokertopicmetrics_bytesin_total "
            "kafka_server_brokertopicmetrics_bytesout_total",
            "Leader Count": "kafka_server_replicamanager_leadercount",
            "All Request Per Sec Across All Brokers": "kafka_network_requestmetrics_requests_total",
            "Produce Request Per Sec": "kafka_network_requestmetrics_requests_total",
            "Consumer Fetch Request Per Sec": "kafka_network_requestmetrics_requests_total",
            "Broker Fetch Request Per Sec": "kafka_network_requestmetrics_requests_total",
            "Offset Commit Request Per Sec": "kafka_network_requestmetrics_requests_total",
            "Metadata request per sec": "kafka_network_requestmetrics_requests_total",
            "CPU Usage": "process_cpu_seconds_total",
            "Messages In": "kafka_server_brokertopicmetrics_messagesin_total",
            "Bytes In": "kafka_server_brokertopicmetrics_bytesin_total",
            "Bytes Out": "kafka_server_brokertopicmetrics_bytesout_total",
            "Messages In Per Broker": "kafka_server_brokertopicmetrics_messagesin_total",
            "Bytes Out Per Broker": "kafka_server_brokertopicmetrics_bytesout_total",
            "IsrShrinks per Sec": "kafka_server_replicamanager_isrshrinks_total",
            "IsrExpands per Sec": "kafka_server_replicamanager_isrexpands_total",
            "Log size per Topic": "kafka_log_log_size",
            "Log size per Broker": "kafka_log_log_size",
            "FetchSessionCache - Sessions in cache": "kafka_server_fetchsessioncache_numincrementalfetchsessions",
            "FetchSessionCache - Eviction Rate per sec": (
                "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total"
            ),
            "Replica - Min Fetch Rate": "kafka_server_replicafetchermanager_minfetchrate",
            "Replica - Max Lag": "kafka_server_replicafetchermanager_maxlag",
        },
        is_renamed=True,
    ),
    Dashboard(
        "Confluent, jmx-monitoring-stacks: Kafka topics",
        {
            "Total # of Topics": "kafka_controller_kafkacontroller_globaltopiccount",
            "Messages In": "kafka_server_brokertopicmetrics_messagesin_total",
            "Log size": "kafka_log_log_size",
            "Total # of Partitions": "kafka_controller_kafkacontroller_globalpartitioncount",
            "Bytes In": "kafka_server_brokertopicmetrics_bytesin_total",
            "Bytes Out": "kafka_server_brokertopicmetrics_bytesout_total",
            "Produce Request per sec": "kafka_server_brokertopicmetrics_totalproducerequests_total",
            "Fetch Request per sec": "kafka_server_brokertopicmetrics_totalfetchrequests_total",
            "Start Offset": "kafka_log_log_logstartoffset",
            "End Offset": "kafka_log_log_logendoffset",
            "Total message count": "kafka_log_log_logendoffset kafka_log_log_logstartoffset",
        },
        is_renamed=True,
    ),
)


class ExporterDashboard(NamedTuple):
    """Dashboards for another exporter, and all that they ask of it: panel or variable, query in PromQL.

    `$` marks variables, which Grafana replaces: `instance`, `job`, `topic`, `namespace`, `cluster_name`, `group`. A
    variable's own query is the series that it takes its values from.
    """

    title: str
    exporter: str
    queries: dict[str, str]


# Of Kafka Lag Exporter's dashboard, three more panels show the exporter's own JVM: there is none.
_OF_LAG_EXPORTER: Final = '{namespace="$namespace",cluster_name="$cluster_name",group=~"$group"}'
_OF_CLUSTER: Final = '{namespace="$namespace",cluster_name="$cluster_name"}'

EXPORTER_DASHBOARDS: Final = (
    ExporterDashboard(
        "Grafana 7589: Kafka Exporter Overview",
        "kafka_exporter",
        {
            "Variable job": "kafka_consumergroup_current_offset",
            "Variable instance": 'kafka_consumergroup_current_offset{job=~"$job"}',
            "Variable topic": "kafka_topic_partition_current_offset"
            "{instance='$instance',topic!='__consumer_offsets',topic!='--kafka'}",
            "Message in per second": "sum(rate(kafka_topic_partition_current_offset"
            '{instance="$instance", topic=~"$topic"}[1m])) by (topic)',
            "Lag by Consumer Group": 'sum(kafka_consumergroup_lag{instance="$instance",topic=~"$topic"})'
            " by (consumergroup, topic)",
            "Message in per minute": "sum(delta(kafka_topic_partition_current_offset"
            "{instance=~'$instance', topic=~\"$topic\"}[5m])/5) by (topic)",
            "Message consume per minute": "sum(delta(kafka_consumergroup_current_offset"
            "{instance=~'$instance',topic=~\"$topic\"}[5m])/5) by (consumergroup, topic)",
            "Partitions per Topic": 'sum by(topic) (kafka_topic_partitions{instance="$instance",topic=~"$topic"})',
        },
    ),
    ExporterDashboard(
        "Kafka Lag Exporter",
        "kafka-lag-exporter",
        {
            "Variable namespace": "kafka_consumergroup_group_lag",
            "Variable cluster_name": 'kafka_consumergroup_group_lag{namespace="$namespace"}',
            "Variable consumer_group": f"kafka_consumergroup_group_lag{_OF_CLUSTER}",
            "Consumer Group Max Lag Seconds": f"kafka_consumergroup_group_max_lag_seconds{_OF_LAG_EXPORTER}",
            "Consumer Group Lag Partition Seconds": f"kafka_consumergroup_group_lag_seconds{_OF_LAG_EXPORTER}",
            "Consumer Group Max Lag Offsets": f"kafka_consumergroup_group_max_lag{_OF_LAG_EXPORTER}",
            "Consumer Group Lag Partition Offsets": f"kafka_consumergroup_group_lag_seconds{_OF_LAG_EXPORTER}",
            "Per group: lag": f"max(kafka_consumergroup_group_lag_seconds{_OF_LAG_EXPORTER}) by (group)",
            "Per group: sum of offsets": f"sum(kafka_consumergroup_group_offset{_OF_LAG_EXPORTER})",
            "Per group: sum of latest offsets": f"sum((kafka_consumergroup_group_offset{_OF_LAG_EXPORTER} * 0)"
            f" + on(namespace,cluster_name,topic,partition) kafka_partition_latest_offset{_OF_CLUSTER})",
        },
    ),
    # Its three dashboards, 14012 to 14014, are on grafana.com only. These are the metrics that it documents, all but
    # those of its end-to-end probe, and queries on them that are public elsewhere.
    ExporterDashboard(
        "KMinion: documented metrics and public queries",
        "kminion",
        {
            **{
                f"kminion_{name}": f"kminion_{name}"
                for name in (
                    "exporter_up",
                    "exporter_offset_consumer_records_consumed_total",
                    "kafka_broker_info",
                    "kafka_cluster_info",
                    "kafka_broker_log_dir_size_total_bytes",
                    "kafka_topic_log_dir_size_total_bytes",
                    "kafka_topic_info",
                    "kafka_topic_partition_low_water_mark",
                    "kafka_topic_low_water_mark_sum",
                    "kafka_topic_partition_high_water_mark",
                    "kafka_topic_high_water_mark_sum",
                    "kafka_consumer_group_info",
                    "kafka_consumer_group_members",
                    "kafka_consumer_group_empty_members",
                    "kafka_consumer_group_topic_members",
                    "kafka_consumer_group_topic_assigned_partitions",
                    "kafka_consumer_group_topic_offset_sum",
                    "kafka_consumer_group_topic_partition_lag",
                    "kafka_consumer_group_topic_lag",
                    "kafka_consumer_group_offset_commits_total",
                )
            },
            "Total lag of a group": 'sum(kminion_kafka_consumer_group_topic_lag{group_id="$group"}) by (group_id)',
            "Worst partitions": 'sort_desc(kminion_kafka_consumer_group_topic_partition_lag{group_id="$group"})',
            "Lag trend": 'deriv(sum(kminion_kafka_consumer_group_topic_lag{group_id="$group"})[15m:1s])',
            "Commit rate": 'sum(rate(kminion_kafka_consumer_group_offset_commits_total{group_id="$group"}[5m]))',
            "Messages in": "sum(rate(kminion_kafka_topic_high_water_mark_sum[5m])) by (topic_name)",
            "Disk by broker": "sum(kminion_kafka_broker_log_dir_size_total_bytes) by (broker_id)",
            "Groups that are stable": 'count(kminion_kafka_consumer_group_info{state="Stable"} == 1)',
        },
    ),
)
