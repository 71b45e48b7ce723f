"""OffsetFetch (key 9), versions 1-9.

v2 all topics of a group (null) and an error of the whole, v3 throttle time, v5
leader epoch, v6 flexible, v7 require_stable (KIP-447), v8 several groups in one
request (KIP-709), v9 member epoch (KIP-848; ignored for classic groups). A
partition without an offset, or that does not exist, has offset -1 and no error.
Without transactions every committed offset is stable.

A group that is named several times is looked up once, and an answer has at most `ANSWER_BYTES_MAX`: a short request may
name a partition with much metadata again and again.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from syncline.core.groups.records import CommittedOffset
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import NONE, Offset
from syncline.node.loop.list_parts import in_parts
from syncline.wire.api import ApiKey
from syncline.wire.rows import Rows

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps
    from syncline.node.views.parts import HasGroups

KEY = ApiKey.OFFSET_FETCH
GROUPS_VERSION: Final = 8
GROUP_ERROR_VERSION: Final = 2
# In one answer: eight hundred thousand partitions, or 4,000 with as much metadata as Kafka's default allows.
ANSWER_BYTES_MAX: Final = 16 << 20
# Of a partition without metadata, in the newest version.
ROW_BYTES: Final = 20
PARTITIONS_PER_STEP: Final = 100

# A group's committed offsets by topic and partition.
Stored: TypeAlias = Mapping[str, Mapping[int, CommittedOffset]]

_NOTHING: Final = CommittedOffset(Offset(NONE), NONE, "", NONE)


def handle(broker: "HasGroups", request: "Request") -> "Steps":
    """Answer from the committed offsets, at once."""
    asked = yield from request.decode_in_steps()
    found = _Found(broker)
    if request.version >= GROUPS_VERSION:
        groups = []
        for each in asked.groups:
            groups.append((yield from found.group(str(each.group_id), each.topics)))
            yield
        fields: dict[str, Any] = {"throttle_time": 0, "groups": groups}
    else:
        fields = {"throttle_time": 0, **(yield from found.group(str(asked.group_id), asked.topics))}
        error = fields["error_code"]
        if error and request.version < GROUP_ERROR_VERSION:
            # Version 1 has no field for an error of the whole request.
            fields["topics"] = Rows(
                asked.topics, lambda each: _topic(str(each.name), each.partition_indexes, {}, error), _partitions
            )
    request.answer(fields)


class _Found:
    """What the groups of one request have, as of when each was looked up, and how much of it the answer has so far."""

    def __init__(self, broker: "HasGroups") -> None:
        self._broker = broker
        self._stored: dict[str, Stored] = {}
        self._answer_bytes = 0

    def group(self, group_id: str, topics: Sequence[Any] | None) -> Generator[None, None, dict[str, Any]]:
        """Return the row of one group; all its topics if they are None."""
        row: dict[str, Any] = {"group_id": group_id, "topics": (), "error_code": ErrorCode.NONE}
        try:
            if group_id not in self._stored:
                self._stored[group_id] = self._broker.groups.offsets_of(group_id)
        except RequestError as error:
            row["error_code"] = error.code
            return row
        stored = self._stored[group_id]
        yield from self._count(stored, topics)
        if self._answer_bytes > ANSWER_BYTES_MAX:
            row["error_code"] = ErrorCode.INVALID_REQUEST
        elif topics is None:
            row["topics"] = Rows(
                stored.items(), lambda each: _topic(each[0], tuple(each[1]), each[1]), lambda each: each[1]
            )
        else:
            row["topics"] = Rows(
                topics,
                lambda each: _topic(str(each.name), each.partition_indexes, stored.get(str(each.name), {})),
                _partitions,
            )
        return row

    def _count(self, stored: "Stored", topics: Sequence[Any] | None) -> Generator[None, None, None]:
        """Add what a group's row takes, until it is too much."""
        for name, partitions in stored.items() if topics is None else _named(topics):
            committed = stored.get(name, {})
            for some in in_parts(tuple(partitions), PARTITIONS_PER_STEP):
                self._answer_bytes += sum(_size_bytes(committed.get(int(each), _NOTHING)) for each in some)
                if self._answer_bytes > ANSWER_BYTES_MAX:
                    return
                yield


def _named(topics: Sequence[Any]) -> Iterator[tuple[str, Sequence[int]]]:
    return ((str(topic.name), _partitions(topic)) for topic in topics)


def _size_bytes(offset: CommittedOffset) -> int:
    """Return about how many bytes one partition takes in the answer."""
    return ROW_BYTES + len(offset.metadata.encode())


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
