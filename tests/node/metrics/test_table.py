"""The table of metrics against the exporter's rules and the list of Kafka's metrics that brokers must have."""

import re

import pytest

from syncline.node.metrics import lag_table, table
from syncline.node.metrics.families import FAMILIES
from syncline.node.metrics.table import COUNTER, GAUGE, HISTOGRAM, Family

# The rules of the JMX exporter's kafka-2_0_0.yml that apply to brokers' meters and gauges, in their order:
# pattern, name, labels, type. The first that matches counts.
RULES = [
    (
        r"kafka\.server<type=(.+), name=(.+), clientId=(.+), topic=(.+), partition=(.*)><>Value",
        r"kafka_server_\1_\2",
        {"clientId": r"\3", "topic": r"\4", "partition": r"\5"},
        GAUGE,
    ),
    (
        r"kafka\.(\w+)<type=(.+), name=(.+)PerSec\w*, (.+)=(.+), (.+)=(.+)><>Count",
        r"kafka_\1_\2_\3_total",
        {r"\4": r"\5", r"\6": r"\7"},
        COUNTER,
    ),
    (
        r"kafka\.(\w+)<type=(.+), name=(.+)PerSec\w*, (.+)=(.+)><>Count",
        r"kafka_\1_\2_\3_total",
        {r"\4": r"\5"},
        COUNTER,
    ),
    (r"kafka\.(\w+)<type=(.+), name=(.+)PerSec\w*><>Count", r"kafka_\1_\2_\3_total", {}, COUNTER),
    (
        r"kafka\.(\w+)<type=(.+), name=(.+), (.+)=(.+), (.+)=(.+)><>Value",
        r"kafka_\1_\2_\3",
        {r"\4": r"\5", r"\6": r"\7"},
        GAUGE,
    ),
    (r"kafka\.(\w+)<type=(.+), name=(.+), (.+)=(.+)><>Value", r"kafka_\1_\2_\3", {r"\4": r"\5"}, GAUGE),
    (r"kafka\.(\w+)<type=(.+), name=(.+)><>Value", r"kafka_\1_\2_\3", {}, GAUGE),
    (r"kafka\.(\w+)<type=(.+), name=(.+)><>Count", r"kafka_\1_\2_\3_count", {}, COUNTER),
]

# What a broker must have, by MBean type.
KAFKAS = {
    "server:ReplicaManager": "UnderReplicatedPartitions UnderMinIsrPartitionCount AtMinIsrPartitionCount "
    "ReassigningPartitions LeaderCount PartitionCount OfflineReplicaCount PartitionsWithLateTransactionsCount "
    "ProducerIdCount IsrShrinksPerSec IsrExpandsPerSec FailedIsrUpdatesPerSec PendingFollowerFetches "
    "PendingProtectedReplicas PendingCapExceededPerSec LeaderRelinquishPerSec LeaderRelinquishSkippedPerSec "
    "FollowerFetchProcessTimeMs",
    "cluster:Partition": "UnderReplicated UnderMinIsr AtMinIsr InSyncReplicasCount ReplicasCount LastStableOffsetLag",
    "server:ReplicaFetcherManager": "MaxLag MinFetchRate FailedPartitionsCount DeadThreadCount",
    "server:FetcherLagMetrics": "ConsumerLag",
    "server:FetcherStats": "RequestsPerSec BytesPerSec",
    "server:DelayedOperationPurgatory": "PurgatorySize NumDelayedOperations",
    "server:DelayedProduceMetrics": "ExpiresPerSec",
    "server:DelayedFetchMetrics": "ExpiresPerSec",
    "server:DelayedDeleteRecordsMetrics": "ExpiresPerSec",
    "server:FetchSessionCache": "NumIncrementalFetchSessions NumIncrementalFetchPartitionsCached "
    "IncrementalFetchSessionEvictionsPerSec",
    "server:BrokerTopicMetrics": "BytesInPerSec BytesOutPerSec MessagesInPerSec BytesRejectedPerSec "
    "TotalProduceRequestsPerSec FailedProduceRequestsPerSec TotalFetchRequestsPerSec FailedFetchRequestsPerSec "
    "ReplicationBytesInPerSec ReplicationBytesOutPerSec ReassignmentBytesInPerSec ReassignmentBytesOutPerSec "
    "InvalidMagicNumberRecordsPerSec InvalidMessageCrcRecordsPerSec InvalidOffsetOrSequenceRecordsPerSec "
    "NoKeyCompactedTopicRecordsPerSec ConsumerFetchLagTimeInMs ConsumerFetchLagBytes",
    "log:Log": "NumLogSegments LogStartOffset LogEndOffset Size",
    "controller:KafkaController": "ActiveControllerCount ActiveBrokerCount FencedBrokerCount GlobalTopicCount "
    "GlobalPartitionCount OfflinePartitionsCount PreferredReplicaImbalanceCount TimedOutBrokerHeartbeatCount "
    "MetadataErrorCount",
    "server:KafkaServer": "BrokerState",
    "network:RequestMetrics": "RequestsPerSec",
    "controller:ControllerStats": "UncleanLeaderElectionsPerSec",
}


def exported(family: Family) -> tuple[str, dict[str, str], str]:
    """Return (name, labels, type) that the exporter gives one attribute of the family's MBean."""
    match = re.fullmatch(r"(kafka\.\w+):type=(\w+),name=(\w+)((?:,\w+=\*)*)", family.bean)
    assert match is not None, family.bean
    domain, bean_type, name, tags = match.groups()
    values = "".join(f", {tag.removesuffix('=*')}=v{number}" for number, tag in enumerate(tags.split(",")) if tag)
    attribute = "Value" if family.kind == GAUGE else "Count"
    text = f"{domain}<type={bean_type}, name={name}{values}><>{attribute}"
    for pattern, named, labels, kind in RULES:
        found = re.fullmatch(pattern, text)
        if found is not None:
            expanded = {found.expand(label): found.expand(value) for label, value in labels.items()}
            return found.expand(named).lower(), expanded, kind
    raise AssertionError(f"no rule for {text}")


def kafkas() -> list[Family]:
    """Return the metrics that Kafka has."""
    return [family for family in FAMILIES if family.bean]


@pytest.mark.parametrize("family", [each for each in kafkas() if each.kind != HISTOGRAM], ids=lambda each: each.name)
def test_names_and_types_are_those_that_the_exporter_gives(family: Family) -> None:
    """Dashboards for Kafka find the metrics that they query."""
    name, labels, kind = exported(family)

    assert (name, kind) == (family.name, family.kind)
    if family.bean.startswith("kafka.server:type=FetcherStats"):
        # The rule knows two tags, of three, and makes a label's name of all that is before the second.
        assert len(labels) == 2
    else:
        assert tuple(labels) == family.labels


@pytest.mark.parametrize("family", [each for each in kafkas() if each.kind == HISTOGRAM], ids=lambda each: each.name)
def test_histograms_have_the_count_that_the_exporter_gives(family: Family) -> None:
    """The exporter makes quantiles beside it, which cannot be added up; here it is buckets."""
    assert exported(family)[0] == f"{family.name}_count"


@pytest.mark.parametrize("bean", KAFKAS)
def test_table_has_every_metric_of_kafka(bean: str) -> None:
    """No metric that operators watch is missing."""
    domain, bean_type = bean.split(":")
    there = [
        match[1] for each in kafkas() if (match := re.match(rf"kafka\.{domain}:type={bean_type},name=(\w+)", each.bean))
    ]

    assert sorted(KAFKAS[bean].split()) == sorted(there)


def test_names_are_unique_and_say_what_they_are() -> None:
    """Counters end in _total, nothing else does; own names are in base units."""
    names = [family.name for family in FAMILIES]

    assert len(names) == len(set(names))
    assert [family.name for family in FAMILIES if family.name.endswith("_total") != (family.kind == COUNTER)] == []
    assert [name for name in names if not re.fullmatch(r"(kafka|syncline|process)_[a-z0-9_]+", name)] == []
    assert [
        name for name in names if not name.startswith("kafka_") and re.search(r"_(ms|kb|mb|minutes)(_|$)", name)
    ] == []


def test_meanings_are_sentences() -> None:
    """Each can stand in a table, and behind # HELP."""
    assert [each.name for each in FAMILIES if not re.fullmatch(r"[A-Z0-9][^\n|]*[.]", each.meaning)] == []
    assert [each.name for each in FAMILIES if not each.unit] == []


def test_every_row_is_on_the_pages_that_scrapes_make() -> None:
    """A row that nothing fills would be a promise: each constant is used by a module beside the table."""
    folder = table.__file__.rpartition("/")[0]
    code = ""
    for module in ("scrape", "partition_samples", "group_samples", "fetch_samples"):
        with open(f"{folder}/{module}.py") as file:  # noqa: PTH123
            code += file.read()
    rows = {**vars(table), **vars(lag_table)}
    unused = [name for name, value in rows.items() if isinstance(value, Family) and f"table.{name}" not in code]

    assert unused == []
