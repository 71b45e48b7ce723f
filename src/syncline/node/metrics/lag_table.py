"""Metrics of consumer lag: how far groups are behind, and how far back consumers read.

Kafka has none of them on its brokers. By group come those that a broker computes from the commits that it coordinates;
labels `topic` and `partition` are there as `lag.metrics.detail` says, and a sum by group is right in each case.
"""

from typing import Final

from syncline.node.metrics.table import COUNTER, GAUGE, HISTOGRAM, PARTITION_LABELS, Family

_GROUP: Final = ("group",)
_GROUP_PARTITION: Final = ("group", *PARTITION_LABELS)
_WEIGHT: Final = ("weight",)

# A row takes one or two lines; the formatter would make eight of it.
# fmt: off

# Groups

GROUP_LAG_OFFSETS: Final = Family(
    "syncline_group_lag_offsets", GAUGE, "offsets",
    "Offsets from the commit to an end of the log: hw is what consumers can read; by group alone there are "
    "also lso (the last stable offset) and leo (the log end).", (*_GROUP_PARTITION, "end"))
GROUP_LAG_BYTES: Final = Family(
    "syncline_group_lag_bytes", GAUGE, "bytes",
    "Bytes of the log from the batch that holds the commit to the log end; no sample until the leader has "
    "reported it.",
    _GROUP_PARTITION)
GROUP_STALENESS: Final = Family(
    "syncline_group_staleness_seconds", GAUGE, "s",
    "How long the next record has waited, by the leader's clock; 0 if there is none.", _GROUP_PARTITION)
GROUP_EVENT_LAG: Final = Family(
    "syncline_group_event_lag_seconds", GAUGE, "s",
    "The newest producer timestamp in a partition minus that of the group's next record; the largest of its "
    "partitions.", _GROUP)
GROUP_CATCH_UP: Final = Family(
    "syncline_group_catch_up_seconds", GAUGE, "s",
    "How long the group needs at its speed to read everything, +Inf if producers are faster; as of the last "
    "refresh (lag.refresh.interval.ms), from the third refresh on.", _GROUP)
GROUP_RETENTION_MARGIN: Final = Family(
    "syncline_group_retention_margin_seconds", GAUGE, "s",
    "How long retention will keep the group's next record: +Inf if forever or if there is none, 0 or less if "
    "until the next clean-up; as of the last refresh.", _GROUP)
GROUP_LOST: Final = Family(
    "syncline_group_lost_offsets_total", COUNTER, "offsets",
    "Offsets deleted before the group had read them, since this broker became the group's coordinator, as "
    "seen from refresh to refresh.",
    _GROUP)
GROUP_STATUS: Final = Family(
    "syncline_group_status", GAUGE, "status",
    "Status by Burrow's rules and in its numbers, as of the last refresh: 1 OK, 2 WARN (its lag does not "
    "fall), 3 ERR (it has stopped, stalls or went back).", _GROUP)
GROUP_COMMITS: Final = Family(
    "syncline_group_commits_total", COUNTER, "commits",
    "Commits of single partitions since this broker became the group's coordinator, including those that its "
    "log still had.", _GROUP)
GROUP_LAG_AGE: Final = Family(
    "syncline_group_lag_age_seconds", GAUGE, "s",
    "Age of the oldest leader response on which these lags rest: not 0 while a leader is slow.", _GROUP)
GROUP_UNKNOWN: Final = Family(
    "syncline_group_unknown_partitions", GAUGE, "partitions",
    "Partitions with a commit whose leaders have not reported yet; the lags do not include them.", _GROUP)

# Fetches

FETCH_LAG: Final = Family(
    "syncline_fetch_lag_bytes", HISTOGRAM, "bytes",
    "Bytes from where consumers fetched to the end of the log, weighted by the number of fetches with "
    "records or by their bytes.",
    _WEIGHT)
FETCH_AGE: Final = Family(
    "syncline_fetch_age_seconds", HISTOGRAM, "s",
    "How long before its fetch a batch was appended, if known.", _WEIGHT)
FETCH_DISTANCE: Final = Family(
    "syncline_fetch_stack_distance_bytes", HISTOGRAM, "bytes",
    "Bytes that this broker has appended to all its logs since a fetched batch: a page cache of that size "
    "would hold the batch.",
    _WEIGHT)
EMPTY_FETCHES: Final = Family(
    "syncline_empty_fetches_total", COUNTER, "fetches", "Fetches of consumers answered without records.")
TOPIC_FETCH_LAG: Final = Family(
    "syncline_topic_fetch_lag_bytes", HISTOGRAM, "bytes",
    "Like syncline_fetch_lag_bytes, for each topic; topics beyond the first 50 share `(others)`.", ("topic", *_WEIGHT))
TOPIC_FETCH_EVENT_LAG: Final = Family(
    "syncline_topic_fetch_event_lag_seconds", HISTOGRAM, "s",
    "How much older fetched batches were than the newest batch of their partition, by the records' "
    "timestamps (KIP-489's time lag), for each topic.", ("topic", *_WEIGHT))
CLIENT_FETCH_LAG: Final = Family(
    "syncline_client_fetch_lag_bytes", HISTOGRAM, "bytes",
    "Like syncline_fetch_lag_bytes, for each client id; clients beyond the first 50 share `(others)`.",
    ("client_id", *_WEIGHT))
CLIENT_FETCH_EVENT_LAG: Final = Family(
    "syncline_client_fetch_event_lag_seconds", HISTOGRAM, "s",
    "Like syncline_topic_fetch_event_lag_seconds, for each client id.", ("client_id", *_WEIGHT))

# fmt: on

GROUP_FAMILIES: Final = (
    GROUP_LAG_OFFSETS,
    GROUP_LAG_BYTES,
    GROUP_STALENESS,
    GROUP_EVENT_LAG,
    GROUP_CATCH_UP,
    GROUP_RETENTION_MARGIN,
    GROUP_LOST,
    GROUP_STATUS,
    GROUP_COMMITS,
    GROUP_LAG_AGE,
    GROUP_UNKNOWN,
)
FETCH_FAMILIES: Final = (
    FETCH_LAG,
    FETCH_AGE,
    FETCH_DISTANCE,
    EMPTY_FETCHES,
    TOPIC_FETCH_LAG,
    TOPIC_FETCH_EVENT_LAG,
    CLIENT_FETCH_LAG,
    CLIENT_FETCH_EVENT_LAG,
)
