"""The answer of a fetch: rows become the message, and the session records what its reader was sent.

This happens once per answered request, however often the request looked and waited.
Source: KIP-227 (sessions), KIP-951 (leader hints).
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from syncline.core.fetching.session import FetchContext, SessionPartition
from syncline.model.errors import NO_ERROR, ErrorCode
from syncline.model.ids import TopicPartition
from syncline.node.fetching.counted_lag import take_empty_sample, take_samples
from syncline.node.fetching.row import PARTITIONS_AT_ONCE, PARTITIONS_PER_STEP, Row, key_of
from syncline.node.fetching.serving import FetchServing
from syncline.node.fetching.throttled import ThrottledReads
from syncline.node.loop.list_parts import in_parts
from syncline.wire.endpoints import NodeEndpoint
from syncline.wire.fetch import FetchRequest
from syncline.wire.fetch_response import (
    AbortedTransaction,
    FetchedPartition,
    FetchResponse,
    encode_fetch_in_steps,
    encode_fetch_response,
)

if TYPE_CHECKING:
    from syncline.node.serving.request import Request, Steps

READ_COMMITTED: Final = 1
# The replica id of a consumer's fetch.
CONSUMER: Final = -1
# That of a tool that looks into any replica reads as a consumer does.
_CONSUMERS: Final = (CONSUMER, -2)
_HINTED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
# The first fetch version whose answers carry leader hints.
_HINT_VERSION: Final = 16


# Where rows stand in an answer, by the errors with which their partitions are unknown.
_ORDER: Final[dict[ErrorCode | None, int]] = {
    None: 0,
    ErrorCode.UNKNOWN_TOPIC_ID: 1,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 2,
}

# What the rows of an answer have become so far: its topics, and the brokers that it names.
Topics: TypeAlias = list[tuple[str | bytes, list[FetchedPartition]]]
Endpoints: TypeAlias = dict[int, NodeEndpoint]

# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__


def answer(
    request: "Request",
    fetch: FetchRequest,
    context: FetchContext,
    serving: FetchServing,
    rows: list[Row],
    unknown: dict[SessionPartition, ErrorCode],
    throttled: ThrottledReads | None,
) -> None:
    """Send the answer that `rows` become; in steps, if they are many.

    `unknown` are the partitions that did not exist when the request came. As in Kafka, they come last, first those of
    unknown topic ids.
    """
    if len(rows) > PARTITIONS_AT_ONCE:
        request.step(_answer_in_steps(request, fetch, context, serving, rows, unknown, throttled))
        return
    if fetch.replica_id == CONSUMER and take_samples(serving, request, rows):
        take_empty_sample(serving, request)
    if unknown:
        rows.sort(key=lambda row: _ORDER[unknown.get(row.entry)])
    topics: Topics = []
    endpoints: Endpoints = {}
    _add_rows(serving, context, fetch, request.version, rows, unknown, topics, endpoints)
    if throttled is not None:
        throttled.hold(context.session, is_answered=True)
        throttled.count(rows, topics, request.version, serving.clock.mono_ms())
        throttled.counted()
    context.finish()
    response = _make(FetchResponse, (0, NO_ERROR, context.session_id, topics, tuple(endpoints.values())))
    request.reply_parts(encode_fetch_response(response, request.version))


def _ordered(parts: Sequence[Sequence[Row]], unknown: dict[SessionPartition, ErrorCode]) -> Iterator[Sequence[Row]]:
    """Yield the rows in parts, those of unknown partitions last."""
    for code in _ORDER if unknown else (None,):
        for part in parts:
            yield [row for row in part if unknown.get(row.entry) == code]


def _add_rows(
    serving: FetchServing,
    context: FetchContext,
    fetch: FetchRequest,
    version: int,
    rows: Sequence[Row],
    unknown: dict[SessionPartition, ErrorCode],
    topics: Topics,
    endpoints: Endpoints,
) -> None:
    """Add `rows` to the answer, in their order, and have the session record what it contains.

    A topic whose partitions lie apart is listed again, as in Kafka.
    """
    is_committed = fetch.isolation_level == READ_COMMITTED and fetch.replica_id in _CONSUMERS
    aborted: list[AbortedTransaction] | None = [] if is_committed else None
    for row in rows:
        entry, records, error = row.entry, row.records, row.error
        high_watermark, log_start = row.high_watermark, row.log_start
        belongs = context.record_sent(
            entry,
            len(records),
            high_watermark,
            log_start,
            entry.fetch_offset >= row.bound,
            error,
            row.diverging is not None or row.preferred >= 0,
        )
        partition = row.partition
        if records:
            if entry.is_follower:
                _count_copied(serving, row, fetch.replica_id)
            elif partition is not None:
                partition.counters.bytes_out += len(records)
        elif error == ErrorCode.UNKNOWN_SERVER_ERROR and partition is not None:
            partition.counters.failed_fetches += 1
        if belongs:
            topic, index = key_of(entry)
            if error:
                is_unknown = entry in unknown
                if is_unknown and context.is_full:
                    # A new session serves its partitions in the order of its first answer.
                    context.session.move_to_end(entry)
                fetched = FetchedPartition(
                    partition=index,
                    error_code=error,
                    aborted_transactions=[] if is_unknown else None,
                    current_leader=_leader_hint(serving, row, endpoints) if version >= _HINT_VERSION else None,
                )
            else:
                # Its fields in their order; the last stable offset is the high watermark.
                fetched = _make(
                    FetchedPartition,
                    (
                        index,
                        error,
                        high_watermark,
                        high_watermark,
                        log_start,
                        records,
                        # Null where Kafka has not looked at the log.
                        aborted if row.diverging is None and row.preferred < 0 else None,
                        row.preferred,
                        row.diverging,
                        None,
                        row.append_times,
                        row.unread,
                    ),
                )
            if not topics or topics[-1][0] != topic:
                topics.append((topic, []))
            topics[-1][1].append(fetched)


def _answer_in_steps(
    request: "Request",
    fetch: FetchRequest,
    context: FetchContext,
    serving: FetchServing,
    rows: Sequence[Row],
    unknown: dict[SessionPartition, ErrorCode],
    throttled: ThrottledReads | None,
) -> "Steps":
    """Add one part of the rows after the other, and send the answer, which is written in steps, too.

    What throttles count of it is the size of its parts, which is a little more than that of the whole.
    """
    topics: Topics = []
    endpoints: Endpoints = {}
    is_empty = fetch.replica_id == CONSUMER
    for some in _ordered(in_parts(rows, PARTITIONS_PER_STEP), unknown):
        if fetch.replica_id == CONSUMER and not take_samples(serving, request, some):
            is_empty = False
        part: Topics = []
        _add_rows(serving, context, fetch, request.version, some, unknown, part, endpoints)
        if throttled is not None:
            throttled.count(some, part, request.version, serving.clock.mono_ms())
        for topic, fetched in part:
            if topics and topics[-1][0] == topic:
                topics[-1][1].extend(fetched)
            else:
                topics.append((topic, fetched))
        yield
    if throttled is not None:
        throttled.hold(context.session, is_answered=True)
        throttled.counted()
    if is_empty:
        take_empty_sample(serving, request)
    context.finish()
    response = FetchResponse(0, NO_ERROR, context.session_id, topics, tuple(endpoints.values()))
    request.reply_parts((yield from encode_fetch_in_steps(response, request.version)))


def _count_copied(serving: FetchServing, row: Row, replica_id: int) -> None:
    """Count the records that are sent to a follower."""
    partition, size_bytes = row.partition, len(row.records)
    replication = serving.counters.replication
    replication.bytes_out += size_bytes
    if partition is not None and partition.record is not None and replica_id in partition.record.adding:
        replication.moved_out += size_bytes
        replication.moved_out_at_ms = serving.clock.mono_ms()


def _leader_hint(serving: FetchServing, row: Row, endpoints: Endpoints) -> tuple[int, int] | None:
    """Return the leader that the reader should ask, and add its address to `endpoints`."""
    if row.error not in _HINTED:
        return None
    topic, index = key_of(row.entry)
    if isinstance(row.entry.target, TopicPartition):
        topic = row.entry.target.topic
    elif isinstance(topic, bytes):
        topic = serving.cluster.image.topic_names.get(UUID(bytes=topic), "")
    leader, endpoint = serving.cluster.leader_hint(topic, index, row.error)
    # Followers know the brokers' addresses.
    if endpoint is not None and not row.entry.is_follower:
        endpoints[endpoint.node_id] = endpoint
    return leader
