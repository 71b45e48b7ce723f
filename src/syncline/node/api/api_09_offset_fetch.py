"""OffsetFetch (key 9), versions 1-9.

v2 all topics of a group (null) and an error of the whole, v3 throttle time, v5
leader epoch, v6 flexible, v7 require_stable (KIP-447), v8 several groups in one
request (KIP-709), v9 member epoch (KIP-848; ignored for classic groups). A
partition without an offset, or that does not exist, has offset -1 and no error.
Without transactions every committed offset is stable.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from syncline.core.groups.records import CommittedOffset
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import NONE, Offset
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows
from syncline.wire.stepwise import ROWS_AT_ONCE

if TYPE_CHECKING:
    from syncline.node.part_views import HasGroups
    from syncline.node.request import Request, Steps

KEY = ApiKey.OFFSET_FETCH
GROUPS_VERSION: Final = 8
GROUP_ERROR_VERSION: Final = 2
_NOTHING: Final = CommittedOffset(Offset(NONE), NONE, "", NONE)


def handle(broker: "HasGroups", request: "Request") -> "Steps":
    """Answer from the committed offsets, at once."""
    asked = yield from request.decode_in_steps()
    if request.version >= GROUPS_VERSION:
        groups = Rows(asked.groups, lambda each: _group(broker, str(each.group_id), each.topics), _rows_of)
        fields: dict[str, Any] = {"throttle_time": 0, "groups": groups}
    else:
        fields = {"throttle_time": 0, **_group(broker, str(asked.group_id), asked.topics)}
        error = fields["error_code"]
        if error and request.version < GROUP_ERROR_VERSION:
            # Version 1 has no field for an error of the whole request.
            fields["topics"] = Rows(
                asked.topics, lambda each: _topic(str(each.name), each.partition_indexes, {}, error), _partitions
            )
    request.answer(fields)


def _rows_of(group: Any) -> range:
    """Return as many numbers as a group has rows in the answer, or enough to call it long."""
    if group.topics is None:
        return range(ROWS_AT_ONCE)
    topics = group.topics[:ROWS_AT_ONCE]
    return range(len(topics) + sum(len(topic.partition_indexes) for topic in topics))


def _group(broker: "HasGroups", group_id: str, topics: Sequence[Any] | None) -> dict[str, Any]:
    group: dict[str, Any] = {"group_id": group_id, "topics": [], "error_code": ErrorCode.NONE}
    try:
        stored = broker.groups.offsets_of(group_id)
    except RequestError as error:
        group["error_code"] = error.code
        return group
    if topics is None:
        group["topics"] = Rows(
            stored.items(), lambda each: _topic(each[0], tuple(each[1]), each[1]), lambda each: each[1]
        )
    else:
        group["topics"] = Rows(
            topics,
            lambda each: _topic(str(each.name), each.partition_indexes, stored.get(str(each.name), {})),
            _partitions,
        )
    return group


def _partitions(topic: Any) -> Sequence[int]:
    partitions: Sequence[int] = topic.partition_indexes
    return partitions


def _topic(
    name: str,
    partitions: Sequence[int],
    stored: Mapping[int, CommittedOffset],
    error: ErrorCode = ErrorCode.NONE,
) -> dict[str, Any]:
    def row(partition: int) -> dict[str, Any]:
        found = stored.get(int(partition), _NOTHING)
        return {
            "partition_index": partition,
            "committed_offset": found.offset,
            "committed_leader_epoch": found.leader_epoch,
            "metadata": found.metadata,
            "error_code": error,
        }

    return {"name": name, "partitions": Rows(partitions, row)}
