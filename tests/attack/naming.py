"""Attacks by requests that name many things: few bytes that ask for much work."""

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from syncline.wire.api import CLIENT_VERSIONS, INTERNAL_VERSIONS, ApiKey
from tests.attack.case import Size
from tests.attack.frames import CLIENT_ID, CORRELATION_ID, frame
from tests.attack.groups import commit_of, join_and_stay
from tests.attack.largest import frame_with_list, frame_with_string, list_paths, string_paths
from tests.attack.scene import TARGET, Scene
from tests.attack.stream import Stream
from tests.conformance.wire_client import request_frame

TOPIC_TYPE: Final = 2
BROKER_TYPE: Final = 4
GROUP: Final = "attacked"
DESCRIBED_GROUP: Final = "described"
OFFSETS_TOPIC: Final = "__consumer_offsets"
# Requests that only the coordinator of their group takes up.
GROUP_APIS: Final = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
    }
)
# Reading all schemas to find this out would take each process a second.
WITHOUT_LISTS: Final = frozenset(
    {
        ApiKey.HEARTBEAT,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_CLUSTER,
    }
)
# They would remove what the case names.
HARMFUL_IF_PRESENT: Final = frozenset({ApiKey.DELETE_TOPICS, ApiKey.DELETE_GROUPS})


def one_answer(port: int, *frames: bytes) -> Stream:
    """Return a stream of these requests, pipelined on one connection, until all are answered."""
    return Stream(port=port, data=[b"".join(frames)], answers=len(frames))


def each_api(scene: Scene, size: Size) -> Sequence[Stream]:
    """Ask every broker for each API in its newest `size.count` versions, about nothing: that loads the code for it.

    Private messages are cut, so that nothing comes of them.
    """
    requests = [
        frame(key, version, {"acks": 1})
        for key, served in CLIENT_VERSIONS.items()
        for version in range(max(served.min, served.max + 1 - size.count), served.max + 1)
    ]
    private = [
        request_frame(key, version, CORRELATION_ID, bytes(1), client_id=CLIENT_ID, header_version=2)
        for key, served in INTERNAL_VERSIONS.items()
        if key not in CLIENT_VERSIONS
        for version in range(max(served.min, served.max + 1 - size.count), served.max + 1)
    ]
    return [
        *(
            Stream(port=port, data=requests, connections=len(requests), answers=1)
            for port in scene.client_ports.values()
        ),
        *(
            Stream(port=port, data=private, connections=len(private), half_closes=True)
            for port in scene.internal_ports.values()
        ),
    ]


def unknown_topics(scene: Scene, size: Size) -> Sequence[Stream]:
    """One Metadata request makes the cluster create its topics; then they are deleted."""
    names = [f"unknown-{number:06d}" for number in range(size.count)]
    fields = {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": True}
    return [
        one_answer(scene.controller_port, frame(ApiKey.METADATA, 12, fields)),
        one_answer(scene.controller_port, deletion(names)),
    ]


def new_topics(scene: Scene, size: Size) -> Sequence[Stream]:
    """One CreateTopics; then the topics are deleted by another broker's clients."""
    names = [f"new-{number:06d}" for number in range(size.count)]
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    return [
        one_answer(scene.controller_port, frame(ApiKey.CREATE_TOPICS, 7, {"topics": topics, "timeout": 20_000})),
        one_answer(scene.other_port, deletion(names)),
    ]


def deletion(names: Sequence[str]) -> bytes:
    """Return a DeleteTopics of these."""
    topics = [{"name": name} for name in names]
    return frame(ApiKey.DELETE_TOPICS, 6, {"topics": topics, "timeout": 20_000})


def same_broker_described(scene: Scene, size: Size) -> Sequence[Stream]:
    """One DescribeConfigs names one broker often."""
    resource = {"resource_type": BROKER_TYPE, "resource_name": str(scene.controller), "configuration_keys": None}
    fields = {"resources": [resource] * size.count, "include_synonyms": True, "include_documentation": True}
    return [one_answer(scene.controller_port, frame(ApiKey.DESCRIBE_CONFIGS, 4, fields))]


def spelled_broker_described(scene: Scene, size: Size) -> Sequence[Stream]:
    """One DescribeConfigs names one broker in many spellings: with spaces before and behind its number."""
    side = math.isqrt(size.count) + 1
    resources = [
        {
            "resource_type": BROKER_TYPE,
            "resource_name": " " * (number // side) + str(scene.controller) + " " * (number % side),
            "configuration_keys": None,
        }
        for number in range(size.count)
    ]
    return [one_answer(scene.controller_port, frame(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": resources}))]


def same_topic_listed(scene: Scene, size: Size) -> Sequence[Stream]:
    """One Metadata names a topic of fifty partitions often."""
    item = {"name": OFFSETS_TOPIC, "topic_id": None}
    fields = {"topics": [item] * size.count, "allow_auto_topic_creation": False}
    return [one_answer(scene.controller_port, frame(ApiKey.METADATA, 12, fields))]


def same_offsets_fetched(scene: Scene, size: Size) -> Sequence[Stream]:
    """A group commits three offsets with all the metadata that it may have; one OffsetFetch names the group often."""
    (port,) = scene.coordinator_ports([GROUP])
    group = {"group_id": GROUP, "member_id": None, "member_epoch": -1, "topics": None}
    fetch = frame(ApiKey.OFFSET_FETCH, 8, {"groups": [group] * size.count})
    return [one_answer(port, commit_of(GROUP)), one_answer(port, fetch)]


def same_group_described(scene: Scene, size: Size) -> Sequence[Stream]:
    """A member joins with a hundred kilobytes and stays; one DescribeGroups names its group often."""
    (port,) = scene.coordinator_ports([DESCRIBED_GROUP])
    join_and_stay(port, DESCRIBED_GROUP, bytes(100_000))
    return [one_answer(port, frame(ApiKey.DESCRIBE_GROUPS, 5, {"groups": [DESCRIBED_GROUP] * size.count}))]


def unknown_configs(scene: Scene, size: Size) -> Sequence[Stream]:
    """A broker gets configurations that nobody knows, is described once for every 200 of them, and loses them."""
    repeats = max(1, size.count // 200)
    broker = {"resource_type": BROKER_TYPE, "resource_name": str(scene.controller)}

    def alteration(operation: int) -> bytes:
        configs = [
            {"name": f"unknown.{number:06d}", "config_operation": operation, "value": "1" if operation == 0 else None}
            for number in range(size.count)
        ]
        return frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [{**broker, "configs": configs}]})

    description = {"resources": [{**broker, "configuration_keys": None}] * repeats, "include_synonyms": True}
    return [
        one_answer(scene.controller_port, alteration(0)),
        one_answer(scene.controller_port, frame(ApiKey.DESCRIBE_CONFIGS, 4, description)),
        one_answer(scene.controller_port, alteration(1)),
    ]


def coordinators(scene: Scene, size: Size) -> Sequence[Stream]:
    """One FindCoordinator asks for many groups."""
    keys = [f"group-{number:06d}" for number in range(size.count)]
    fields = {"key_type": 0, "coordinator_keys": keys}
    return [one_answer(scene.controller_port, frame(ApiKey.FIND_COORDINATOR, 4, fields))]


def every_list(key: ApiKey, scene: Scene, size: Size) -> Sequence[Stream]:
    """Each list of one API at its largest: of things that do not exist, and of one that does, again and again."""
    version = CLIENT_VERSIONS[key].max
    absent_port, present_port = _ports(key, scene)
    streams = []
    for path in list_paths(key, version):
        streams.append(one_answer(absent_port, frame_with_list(key, version, path, _joining(key), size.count)))
        if key not in HARMFUL_IF_PRESENT:
            present = {**present_things(scene), **_joining(key)}
            if key is ApiKey.METADATA:
                # It takes names or ids.
                present["topic_id"] = None
            streams.append(one_answer(present_port, frame_with_list(key, version, path, present, size.count)))
    return streams


def every_string(scene: Scene, size: Size) -> Sequence[Stream]:
    """Each string of each API at its limit, in its oldest and its newest version; `size.count` of them are sent."""
    by_port: dict[int, list[bytes]] = {}
    for key, served in CLIENT_VERSIONS.items():
        for version, port in zip((served.min, served.max), _ports(key, scene), strict=True):
            frames = by_port.setdefault(port, [])
            frames += [frame_with_string(key, version, path, _joining(key)) for path in string_paths(key, version)]
    return [
        # A connection each: some of them are closed instead of answered.
        Stream(port=port, data=chosen, connections=len(chosen), answers=1)
        for port, frames in by_port.items()
        if (chosen := list(islice(frames, 0, None, max(1, len(frames) * len(by_port) // size.count))))
    ]


def _joining(key: ApiKey) -> Mapping[str, Any]:
    """Return the words of a member that joins for the first time."""
    return {"member_id": ""} if key is ApiKey.JOIN_GROUP else {}


def _ports(key: ApiKey, scene: Scene) -> tuple[int, int]:
    """Return two brokers to ask: the controller and another one, or the coordinators of the groups."""
    if key in GROUP_APIS:
        first, second = scene.coordinator_ports(["absent-000000", GROUP])
        return first, second
    return scene.controller_port, scene.other_port


def present_things(scene: Scene) -> dict[str, Any]:
    """Return the names of things that exist, by field."""
    topic = dict.fromkeys(("topic", "topic_name", "topics.name", "topic_data.name"), TARGET)
    partition = dict.fromkeys(("partition", "partition_index", "index", "partitions", "partition_indexes"), 0)
    group = dict.fromkeys(("group_id", "groups", "groups_names", "coordinator_keys"), GROUP)
    return {
        **topic,
        **partition,
        **group,
        "topic_id": str(scene.topic_id(TARGET)),
        "resource_type": BROKER_TYPE,
        "resource_name": str(scene.controller),
        "resources.configuration_keys": "log.segment.bytes",
        "resources.configs.name": "log.segment.bytes",
        "resources.configs.value": "1073741824",
        "topics.configs.name": "segment.bytes",
        "topics.configs.value": "1073741824",
        "broker_ids": scene.controller,
    }
