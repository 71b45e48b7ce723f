"""Attacks that make brokers hold memory: frames that never end, answers that no client reads, members that stay."""

from collections.abc import Sequence
from typing import Any, Final

from syncline.wire.api import ApiKey
from tests.attack.case import Size
from tests.attack.frames import frame, produce_frame
from tests.attack.groups import JOIN_VERSION, commit_of, join_of
from tests.attack.largest import frame_with_list
from tests.attack.playing import Player
from tests.attack.scene import TARGET, Scene
from tests.attack.stream import Stream
from tests.patience import until
from tests.process import raw
from tests.record_batches import build_batch

FRAME_BYTES_MAX: Final = 104_857_600
FILLED: Final = "filled"
FILLED_BATCH_BYTES: Final = 1_000_000
FETCH_BYTES: Final = 50 << 20
PROTOCOLS: Final = 5
FETCH_VERSION: Final = 12


def unread_fetches(scene: Scene, size: Size) -> Sequence[Stream]:
    """Each connection asks for `count` megabytes of records and reads nothing."""
    port = _fill(scene, size.count)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": FETCH_BYTES, "current_leader_epoch": -1}
    fields = {
        "replica_id": -1,
        "max_bytes": FETCH_BYTES,
        "session_epoch": -1,
        "topics": [{"topic": FILLED, "partitions": [partition]}],
    }
    fetch = frame(ApiKey.FETCH, FETCH_VERSION, fields)
    return [_unread(port, fetch, size)]


def unread_metadata(scene: Scene, size: Size) -> Sequence[Stream]:
    """Each connection asks for all topics `count` times and reads nothing."""
    return [_unread(scene.controller_port, frame(ApiKey.METADATA, 12, {"topics": None}) * size.count, size)]


def unread_versions(scene: Scene, size: Size) -> Sequence[Stream]:
    """Each connection sends `count` ApiVersions and reads nothing."""
    return [_unread(scene.controller_port, frame(ApiKey.API_VERSIONS, 0, {}) * size.count, size)]


def _unread(port: int, requests: bytes, size: Size) -> Stream:
    return Stream(port=port, data=[requests], connections=size.connections, reads=False, hold_s=size.hold_s)


def _fill(scene: Scene, megabytes: int) -> int:
    """Create a topic with so much in it; return the port of its leader."""
    topics = [{"name": FILLED, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}]
    fields: dict[str, Any] = {"topics": topics, "timeout": 10_000, "validate_only": False}
    raw.ask(scene.controller_port, ApiKey.CREATE_TOPICS, 7, fields)
    leaders: list[int] = []

    def is_led() -> bool:
        rows = [each for each in raw.metadata(scene.controller_port).topics if each.name == FILLED]
        leaders[:] = [int(each.leader_id) for row in rows for each in row.partitions if each.leader_id >= 0]
        return bool(leaders)

    until(is_led, otherwise=f"{FILLED} has no leader")
    port = scene.client_ports[leaders[0]]
    produce = produce_frame(FILLED, bytes(build_batch([(1, None, bytes(FILLED_BATCH_BYTES))])), acks=1)
    _send_all(port, produce, megabytes)
    return port


def _send_all(port: int, produce: bytes, times: int) -> None:
    stream = Stream(port=port, data=[produce], rounds=times, answers=1)
    assert Player(stream, 30.0).play().answers == times, "the topic could not be filled"


def held_frames(scene: Scene, size: Size) -> Sequence[Stream]:
    """Each connection announces the largest frame, sends `count` per mille of it, and waits."""
    produce = produce_frame(TARGET, bytes(FRAME_BYTES_MAX // 1_000 * size.count))
    announced = FRAME_BYTES_MAX.to_bytes(4, "big") + produce[4:]
    return [Stream(port=scene.controller_port, data=[announced], connections=size.connections, hold_s=size.hold_s)]


def joining_members(scene: Scene, size: Size) -> Sequence[Stream]:
    """Each connection joins a group of its own with `count` kilobytes of metadata, and stays."""
    groups = _groups_of_one_coordinator(scene, size.connections)
    metadata = [bytes(size.count * 1_000 // PROTOCOLS)] * PROTOCOLS
    (port,) = set(scene.coordinator_ports(groups))
    joins = [join_of(group, metadata) for group in groups]
    return [Stream(port=port, data=joins, connections=size.connections, hold_s=size.hold_s)]


def joining_protocols(scene: Scene, size: Size) -> Sequence[Stream]:
    """Each connection joins a group of its own with `count` protocols of a few bytes, and stays."""
    groups = _groups_of_one_coordinator(scene, size.connections)
    (port,) = set(scene.coordinator_ports(groups))
    joins = []
    for group in groups:
        values = {"group_id": group, "member_id": "", "metadata": bytes(8)}
        joins.append(frame_with_list(ApiKey.JOIN_GROUP, JOIN_VERSION, ("protocols",), values, size.count))
    return [Stream(port=port, data=joins, connections=size.connections, hold_s=size.hold_s)]


def _groups_of_one_coordinator(scene: Scene, count: int) -> list[str]:
    """Return new groups that all have the same coordinator."""
    names = [f"large-{number:05d}" for number in range(5 * count + 20)]
    ports = scene.coordinator_ports(names)
    return [name for name, port in zip(names, ports, strict=True) if port == ports[0]][:count]


def crowded_group(scene: Scene, size: Size) -> Sequence[Stream]:
    """`count` members join one group on each connection; none of them ever comes back."""
    (port,) = scene.coordinator_ports(["crowd"])
    joins = join_of("crowd", [bytes(1_000)]) * size.count
    return [Stream(port=port, data=[joins], connections=size.connections, hold_s=size.hold_s)]


def fetch_sessions(scene: Scene, size: Size) -> Sequence[Stream]:
    """Each connection opens a fetch session of `count` partitions."""
    partitions = [
        {"partition": number, "partition_max_bytes": 1_000, "current_leader_epoch": -1} for number in range(size.count)
    ]
    fields = {
        "replica_id": -1,
        "max_bytes": 1 << 20,
        "session_epoch": 0,
        "topics": [{"topic": TARGET, "partitions": partitions}],
    }
    fetch = frame(ApiKey.FETCH, FETCH_VERSION, fields)
    return [Stream(port=scene.controller_port, data=[fetch], connections=size.connections, answers=1)]


def committed_offsets(scene: Scene, size: Size) -> Sequence[Stream]:
    """`count` groups commit offsets with as much metadata as they may have, and are deleted."""
    groups = _groups_of_one_coordinator(scene, size.count)
    commits = [commit_of(group) for group in groups]
    (port,) = set(scene.coordinator_ports(groups))
    deletion = frame(ApiKey.DELETE_GROUPS, 2, {"groups_names": groups})
    return [
        Stream(port=port, data=[b"".join(commits)], answers=len(commits)),
        Stream(port=port, data=[deletion], answers=1),
    ]


def idle_connections(scene: Scene, size: Size) -> Sequence[Stream]:
    """Connections that say hello and nothing more."""
    hello = frame(ApiKey.API_VERSIONS, 0, {})
    return [Stream(port=scene.controller_port, data=[hello], connections=size.connections, hold_s=size.hold_s)]
