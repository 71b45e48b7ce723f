"""AlterPartitionReassignments and ListPartitionReassignments: from requests to decisions, and to replies.

A request may name thousands of partitions. Kafka's is decided in parts, as its partitions are independent of each
other. A move's are not: nothing of it starts if one of them is refused. So all of its parts are judged, without
consequence, before the first is decided. If the controller changes between two parts, the move has begun in part; the
same request again begins the rest, and changes nothing about what has begun.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, NamedTuple

from syncline.core.cluster.decision import Decision
from syncline.core.cluster.moves import check_move, check_room
from syncline.core.cluster.reassignments import (
    PARTITIONS_PER_REQUEST_MAX,
    ReassignmentResult,
    Wanted,
    alter_reassignments,
    change_move,
    owners_of,
    refused_together,
)
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import NONE
from syncline.model.metadata import MetadataImage, MoveRecord, PartitionRecord, Topic
from syncline.node.controller.active import ActiveController
from syncline.node.controller.admin_requests import AdminRequest, Fields, Reply, decide_in_parts, is_over
from syncline.node.loop.list_parts import in_parts
from syncline.node.serving.request import Steps
from syncline.wire.rows import Rows

# Partitions of one decision: each costs some 50 microseconds here, and 200 at the broker that opens a log for it.
REASSIGNED_AT_ONCE: Final = 25
# Partitions that are looked at in one step, to find those that are reassigned.
_SCANNED_AT_ONCE: Final = 500
# A partition that a request names many times is listed so often at most, so that an answer is no longer than what it
# is about.
_LISTED_MAX: Final = 2

Results = Sequence[ReassignmentResult]


class _Part(NamedTuple):
    """The results of one topic of a request, `start` to `end` of all results."""

    topic: str
    start: int
    end: int


def alter(controller: ActiveController, requested: AdminRequest, reply: Reply) -> Steps:
    """Start, change and cancel reassignments; reply when that is committed."""
    request = requested.entity
    wanted: list[Wanted] = []
    topics: list[_Part] = []
    for topic in request.topics:
        start = len(wanted)
        for each in topic.partitions:
            replicas = None if each.replicas is None else tuple(each.replicas)
            wanted.append(Wanted(str(topic.name), int(each.partition_index), replicas))
            yield
        topics.append(_Part(str(topic.name), start, len(wanted)))
        yield
    answer = _AlterAnswer(request, topics, reply)
    try:
        move = _requested_move(controller, request, len(wanted))
    except RequestError as refusal:
        answer.refuse(wanted, refusal)
        return
    if move is None and not topics:
        answer.nothing()
    elif move is None:
        _decide(controller, requested, wanted, None, answer)
    elif wanted:
        yield from _begin_move(controller, requested, wanted, move, answer)
    else:
        answer.move_id = move.move_id
        controller.decide(lambda image, _version: change_move(image, move), answer.move_changed)


def _requested_move(controller: ActiveController, request: Any, partition_count: int) -> MoveRecord | None:
    """Return the move that is asked for, None for Kafka's own request; raise `RequestError` if it is refused."""
    if is_over(request) and request.topics:
        raise RequestError(ErrorCode.REQUEST_TIMED_OUT)
    if partition_count > PARTITIONS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    move = MoveRecord(
        move_id=str(getattr(request, "move_id", "")),
        throttle_bytes_per_s=int(getattr(request, "throttle", NONE)),
        control=str(getattr(request, "control", "")),
        deadline_ms=int(getattr(request, "deadline_ms", NONE)),
        impact_percent=int(getattr(request, "impact_percent", NONE)),
        name=str(getattr(request, "name", "")),
    )
    if move == MoveRecord(""):
        return None
    check_move(move)
    return move._replace(started_ms=controller.clock.wall_ms())


def _begin_move(
    controller: ActiveController,
    requested: AdminRequest,
    wanted: Sequence[Wanted],
    move: MoveRecord,
    answer: "_AlterAnswer",
) -> Steps:
    image = controller.image
    if not move.move_id:
        owner = yield from _owner(image, wanted)
        move = move._replace(move_id=owner or f"{controller.below(1 << 40):010x}")
    try:
        check_room(controller.image, move.move_id)
    except RequestError as refusal:
        answer.refuse(wanted, refusal)
        return
    if len(wanted) > REASSIGNED_AT_ONCE:
        results: list[ReassignmentResult] = []
        for part in in_parts(wanted, REASSIGNED_AT_ONCE):
            results.extend(_judged(controller, requested.entity, part, move, image).answer)
            yield
        if any(result.error for result in results):
            refused: list[ReassignmentResult] = []
            for some in in_parts(results, _SCANNED_AT_ONCE):
                refused.extend(refused_together(some))
                yield
            answer.answered(refused)
            return
    _decide(controller, requested, wanted, move, answer)


def _owner(image: MetadataImage, wanted: Sequence[Wanted]) -> Generator[None, None, str]:
    owners: set[str] = set()
    for part in in_parts(wanted, REASSIGNED_AT_ONCE):
        owners |= owners_of(image, part)
        yield
    return owners.pop() if len(owners) == 1 else ""


def _judged(
    controller: ActiveController,
    request: Any,
    part: Sequence[Wanted],
    move: MoveRecord | None,
    image: MetadataImage,
) -> Decision[tuple[ReassignmentResult, ...]]:
    return alter_reassignments(
        image,
        part,
        controller.config,
        allow_factor_change=_is_change_allowed(request),
        move=move,
    )


def _decide(
    controller: ActiveController,
    requested: AdminRequest,
    wanted: Sequence[Wanted],
    move: MoveRecord | None,
    answer: "_AlterAnswer",
) -> None:
    if move is not None:
        answer.move_id = move.move_id

    def decide(part: Sequence[Wanted], image: MetadataImage) -> Decision[tuple[ReassignmentResult, ...]]:
        # Another request may have changed the move's rate since the first part: that one is in force.
        is_first = part is parts[0]
        owner = move if move is None or is_first else image.moves.get(move.move_id, move)
        return _judged(controller, requested.entity, part, owner, image)

    parts = in_parts(wanted, REASSIGNED_AT_ONCE)
    decide_in_parts(controller, requested, parts, decide, answer.answered)


class _AlterAnswer:
    """The reply to one request, when its results are known."""

    def __init__(self, request: Any, parts: Sequence[_Part], reply: Reply) -> None:
        self._request = request
        self._parts = parts
        self._reply = reply
        self.move_id = ""

    def refuse(self, wanted: Sequence[Wanted], refusal: RequestError) -> None:
        """Give every partition, and the whole request, the same refusal; of too many, only the whole request."""

        def row(each: Wanted) -> Fields:
            return _result_row(ReassignmentResult(each.topic, each.partition, refusal.code, refusal.message))

        parts = self._parts if len(wanted) <= PARTITIONS_PER_REQUEST_MAX else ()
        # As in Kafka, what was not looked at is allowed.
        self._send(Rows(parts, _topic_of(wanted, row), _parts_of), refusal.code, refusal.message, is_any_allowed=True)

    def nothing(self) -> None:
        """Answer a request without topics as Kafka does: with an empty text, even if it has no time."""
        self._send((), ErrorCode.NONE, "", is_any_allowed=True)

    def move_changed(self, code: ErrorCode | None) -> None:
        """Answer a request that named a move and no partition; None: this broker is not the controller."""
        if code is None:
            self._reply(None)
        else:
            self._send((), code, f"There is no move {self.move_id}: it is over." if code else None)

    def answered(self, results: Results | None) -> None:
        """Reply with the results of all partitions, in order; None: this broker is not the controller."""
        if results is None:
            self._reply(None)
            return
        expected = self._parts[-1].end if self._parts else 0
        assert expected == len(results), f"{len(results)} results for {expected} partitions"
        self._send(Rows(self._parts, _topic_of(results, _result_row), _parts_of), ErrorCode.NONE, None)

    def _send(
        self, responses: Rows | tuple[()], code: ErrorCode, message: str | None, *, is_any_allowed: bool = False
    ) -> None:
        self._reply(
            {
                "allow_replication_factor_change": is_any_allowed or _is_change_allowed(self._request),
                "error_code": code,
                "error_message": message,
                "responses": responses,
                "move_id": self.move_id,
            }
        )


def _is_change_allowed(request: Any) -> bool:
    return bool(getattr(request, "allow_replication_factor_change", True))


def _topic_of(items: Sequence[Any], row: Callable[[Any], Fields]) -> Callable[[_Part], Fields]:
    return lambda part: {"name": part.topic, "partitions": Rows(items[part.start : part.end], row)}


def _parts_of(part: _Part) -> range:
    return range(part.start, part.end)


def _result_row(result: ReassignmentResult) -> Fields:
    return {"partition_index": result.partition, "error_code": result.error, "error_message": result.message}


def list_all(controller: ActiveController, requested: AdminRequest, reply: Reply) -> Steps:
    """Reply with the partitions that are reassigned, of those that are asked for; others are left out."""
    image = controller.image
    rows: list[tuple[str, list[PartitionRecord]]] = []
    if requested.entity.topics is None:
        for topic in image.topics.values():
            found = yield from _reassigned_of(topic)
            if found:
                rows.append((topic.name, found))
    else:
        listed: dict[tuple[str, int], int] = {}
        for each in requested.entity.topics:
            found = []
            for index in each.partition_indexes:
                record = image.partition(str(each.name), int(index))
                if record is not None and record.is_reassigned:
                    key = str(each.name), record.partition
                    listed[key] = listed.get(key, 0) + 1
                    if listed[key] <= _LISTED_MAX:
                        found.append(record)
                yield
            if found:
                rows.append((str(each.name), found))
            yield
    reply(
        {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "topics": Rows(rows, _topic_row, lambda row: row[1]),
            "moves": [_move_row(move) for move in image.moves.values()],
        }
    )


def _reassigned_of(topic: Topic) -> Generator[None, None, list[PartitionRecord]]:
    found: list[PartitionRecord] = []
    for some in in_parts(topic.partitions, _SCANNED_AT_ONCE):
        found.extend(record for record in some if record.is_reassigned)
        yield
    return found


def _topic_row(row: tuple[str, list[PartitionRecord]]) -> Fields:
    name, records = row
    return {"name": name, "partitions": Rows(records, _partition_row)}


def _partition_row(record: PartitionRecord) -> Fields:
    return {
        "partition_index": record.partition,
        "replicas": record.replicas,
        "adding_replicas": record.adding,
        "removing_replicas": record.removing,
        "original": record.original,
        "move_id": record.move,
    }


def _move_row(move: MoveRecord) -> Fields:
    return {
        "move_id": move.move_id,
        "throttle": move.throttle_bytes_per_s,
        "started_ms": move.started_ms,
        "control": move.control,
        "deadline_ms": move.deadline_ms,
        "impact_percent": move.impact_percent,
        "name": move.name,
    }
