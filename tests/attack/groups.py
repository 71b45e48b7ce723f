"""Requests of group members: what fills a group with metadata."""

from collections.abc import Sequence
from typing import Any, Final

from syncline.wire.api import ApiKey
from tests.attack.frames import frame
from tests.attack.scene import TARGET
from tests.process import raw

# The default of offset.metadata.max.bytes.
METADATA_BYTES: Final = 4_096
SESSION_MS: Final = 10_000
# The last that does not ask a new member to come back with an id.
JOIN_VERSION: Final = 3


def join_of(group: str, metadata: Sequence[bytes]) -> bytes:
    """Return a JoinGroup of a new member with these protocols."""
    return frame(ApiKey.JOIN_GROUP, JOIN_VERSION, _joining(group, metadata))


def join_and_stay(port: int, group: str, metadata: bytes) -> None:
    """Make a new member the only one of a stable group, for as long as its session lasts."""
    joined = raw.ask(port, ApiKey.JOIN_GROUP, JOIN_VERSION, _joining(group, [metadata]))
    fields = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "assignments": [{"member_id": joined.member_id, "assignment": metadata}],
    }
    raw.ask(port, ApiKey.SYNC_GROUP, 1, fields)


def _joining(group: str, metadata: Sequence[bytes]) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout": SESSION_MS,
        "rebalance_timeout": SESSION_MS,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": f"protocol-{number}", "metadata": each} for number, each in enumerate(metadata)],
    }


def commit_of(group: str) -> bytes:
    """Return an OffsetCommit of three partitions, each with as much metadata as it may have."""
    partitions = [
        {"partition_index": number, "committed_offset": 1, "committed_metadata": "m" * METADATA_BYTES}
        for number in range(3)
    ]
    topics = [{"name": TARGET, "partitions": partitions}]
    return frame(ApiKey.OFFSET_COMMIT, 8, {"group_id": group, "generation_id_or_member_epoch": -1, "topics": topics})
