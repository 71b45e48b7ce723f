"""The cases: one row each. The first group are those that once stopped a broker, then those around them."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from syncline.wire.api import CLIENT_VERSIONS, ApiKey
from tests.attack import abuse, batches, holding, naming, pages, private, throttles
from tests.attack.case import Case, Size, small
from tests.attack.scene import Scene
from tests.attack.stream import Leaving, Stream

_KNOWN: Final = (
    Case("metadata-unknown", "Metadata of 10,000 unknown topics, to be created", naming.unknown_topics,
         Size(10_000), small(200)),
    Case("describe-same", "DescribeConfigs naming one broker 1,500 times", naming.same_broker_described,
         Size(1_500), small(20)),
    Case("configs-unknown", "20,000 unknown configurations for a broker, then described 100 times",
         naming.unknown_configs, Size(20_000), small(100)),
    Case("throttle-lists", "lists of 100,000 throttled replicas, and the longest allowed", throttles.long_lists,
         Size(100_000), small(3_000)),
    Case("throttle-digits", "lists of throttled replicas with numbers of 90,000 digits", throttles.long_numbers,
         Size(90_000), small(5_000)),
    Case("throttle-rates", "1,000 other rates for throttles of a topic", throttles.flapping_rates,
         Size(1_000), small(20)),
    Case("coordinators", "FindCoordinator of 100,000 groups", naming.coordinators,
         Size(100_000), small(3_000)),
    Case("records-opened", "ten compressed batches of 499,999 records, to be opened", batches.many_records,
         Size(499_999, connections=10), small(20_000, connections=2)),
    Case("create-topics", "CreateTopics of 9,000, then DeleteTopics", naming.new_topics,
         Size(9_000), small(100)),
    Case("fetches-unread", "40 connections that ask for 48 MB and read nothing", holding.unread_fetches,
         Size(48, connections=40), small(4, connections=4)),
    Case("frames-held", "12 frames filled to 94 % and held", holding.held_frames,
         Size(940, connections=12), small(20, connections=4)),
    Case("joins-large", "16 JoinGroups of 5 MB each", holding.joining_members,
         Size(5_000, connections=16), small(200, connections=4)),
    Case("joins-many", "40 JoinGroups of 100,000 protocols each", holding.joining_protocols,
         Size(100_000, connections=40), small(1_000, connections=4)),
    Case("idle", "4,658 idle connections", holding.idle_connections,
         Size(1, connections=4_658), small(1, connections=200)),
    Case("private-short", "private messages cut short, on the brokers' port", private.short_messages,
         Size(1_000), small(100)),
    Case("counts-wrong", "batches whose count contradicts their records", batches.wrong_counts,
         Size(10), small(10)),
)  # fmt: skip

# Short requests with long answers.
_REPEATED: Final = (
    Case("describe-spelled", "DescribeConfigs naming one broker in 1,500 spellings", naming.spelled_broker_described,
         Size(1_500), small(20)),
    Case("metadata-same", "Metadata naming a topic of 50 partitions 100,000 times", naming.same_topic_listed,
         Size(100_000), small(300)),
    Case("offsets-same", "OffsetFetch naming a group with 12 KB of metadata 50,000 times", naming.same_offsets_fetched,
         Size(50_000), small(50)),
    Case("groups-same", "DescribeGroups naming a group with 100 KB of metadata 5,000 times",
         naming.same_group_described, Size(5_000), small(10)),
)  # fmt: skip

_MEMORY: Final = (
    Case("metadata-unread", "40 connections, 2,000 Metadata of all topics each, unread", holding.unread_metadata,
         Size(2_000, connections=40), small(100, connections=4)),
    Case("versions-unread", "40 connections, 20,000 ApiVersions each, unread", holding.unread_versions,
         Size(20_000, connections=40)),
    Case("group-crowded", "2,000 members join one group and do not come back", holding.crowded_group,
         Size(1_000, connections=2), small(20, connections=2)),
    Case("fetch-sessions", "100 fetch sessions of 10,000 partitions", holding.fetch_sessions,
         Size(10_000, connections=100), small(500, connections=4)),
    Case("offsets-large", "500 groups commit 3 offsets with 4 KB of metadata each", holding.committed_offsets,
         Size(500), small(20)),
    Case("bombs", "batches of 128 MB of zeros, compressed", batches.bombs,
         Size(100, connections=4), small(5, connections=4)),
)  # fmt: skip

_CONNECTIONS: Final = (
    Case("half-open", "500 connections that end inside a frame and stay", abuse.half_open,
         Size(1, connections=500), small(1, connections=20)),
    Case("dripping", "300 connections that send a request byte by byte", abuse.dripping,
         Size(30, connections=300), small(5, connections=20)),
    Case("storm-close", "6,000 connections made and closed", abuse.storm(abuse.client_port, Leaving.CLOSE),
         Size(150, connections=40), small(5, connections=20)),
    Case("storm-reset", "6,000 connections made and reset", abuse.storm(abuse.client_port, Leaving.RESET),
         Size(150, connections=40)),
    Case("storm-internal", "2,000 connections made and reset, on the brokers' port",
         abuse.storm(abuse.internal_port, Leaving.RESET), Size(50, connections=40)),
    Case("split", "two requests, cut at every byte", abuse.split_everywhere,
         Size(1_000), small(5)),
    Case("noise", "1,500 frames of random bytes", abuse.noise,
         Size(1_500), small(100)),
    Case("sizes-wrong", "frames of negative, huge and broken sizes", abuse.wrong_sizes,
         Size(270), small(27)),
    Case("versions-wrong", "APIs and versions that are not served", abuse.wrong_versions,
         Size(1_000), small(20)),
    Case("other-protocols", "TLS and HTTP on the ports of clients and brokers", abuse.other_protocols,
         Size(1, connections=100), small(1, connections=4)),
    Case("pipelined", "10,000 ApiVersions without waiting, on 4 connections", abuse.pipelined(ApiKey.API_VERSIONS, 0),
         Size(10_000, connections=4), small(500, connections=2)),
    Case("pipelined-metadata", "10,000 Metadata of all topics without waiting", abuse.pipelined(ApiKey.METADATA, 12),
         Size(10_000)),
    Case("client-ids", "500 requests with the longest client id, on 4 connections", abuse.long_client_id,
         Size(500, connections=4), small(20)),
    Case("pages", "20 connections that pipeline 100 requests for the metrics", pages.pipelined_pages,
         Size(100, connections=20), small(10, connections=4)),
    Case("pages-unread", "60 connections that ask for the metrics and read nothing", pages.unread_pages,
         Size(100, connections=60)),
    Case("pages-odd", "odd requests for the metrics", pages.odd_requests,
         Size(1, connections=32), small(1, connections=8)),
    Case("storm-metrics", "2,000 connections to the metrics made and closed",
         abuse.storm(abuse.metrics_port, Leaving.CLOSE), Size(50, connections=40)),
)  # fmt: skip


def _name(key: ApiKey) -> str:
    return key.name.lower().replace("_", "-")


_LISTS: Final = tuple(
    Case(
        f"lists-{_name(key)}",
        f"each list of {key.name.title().replace('_', '')} at its largest",
        partial(naming.every_list, key),
        Size(100_000),
        small(300),
    )
    for key in CLIENT_VERSIONS
    if key not in naming.WITHOUT_LISTS
)


def _all_code(scene: Scene, size: Size) -> Sequence[Stream]:
    return [*naming.each_api(scene, size), *batches.each_codec(scene, size), *pages.each_page(scene, size)]


# Not a case: after it, the brokers have loaded all code that requests need, and their memory is compared with that.
# The short form, which compares none, names the newest version only: four programs load a schema for each.
WARM_UP: Final = Case(
    "warm-up", "each API in each version, each codec and each page once", _all_code, Size(100), small(1)
)

CASES: Final = (
    *_KNOWN,
    *_REPEATED,
    *_MEMORY,
    *_LISTS,
    Case("strings", "each string of each API at its limit", naming.every_string, Size(10_000), small(40)),
    *_CONNECTIONS,
)
