"""The answer of a fetch: rows become the message, and the session records what its reader was sent.

This happens once per answered request, however often the request looked and waited.
Source: KIP-227 (sessions), KIP-951 (leader hints).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from syncline.core.fetching.session import FetchContext, SessionPartition
from syncline.model.errors import ErrorCode
from syncline.node.fetching.counted_lag import count_lag
from syncline.node.fetching.row import PARTITIONS_AT_ONCE, PARTITIONS_PER_STEP, Row, key_of
from syncline.node.fetching.serving import FetchServing
from syncline.node.fetching.throttled import ThrottledReads
from syncline.node.lag.fetch_lag import Reader
from syncline.node.parts import in_parts
from syncline.wire.endpoints import NodeEndpoint
from syncline.wire.fetch import FetchRequest
from syncline.wire.fetch_response import (
    FetchedPartition,
    FetchResponse,
    encode_fetch_in_steps,
    encode_fetch_response,
)

if TYPE_CHECKING:
    from syncline.node.request import Request, Steps

READ_COMMITTED: Final = 1
# The replica id of a consumer's fetch.
CONSUMER: Final = -1
_HINTED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
# The first fetch version whose answers carry leader hints.
_HINT_VERSION: Final = 16


class Settled(NamedTuple):
    """What the rows of an answer have become so far: its topics, and the brokers that it names."""

    topics: list[tuple[str | bytes, list[FetchedPartition]]]
    endpoints: dict[int, NodeEndpoint]


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

    `unknown` are the partitions that did not exist when the request came. As in Kafka, they come last.
    """
    settled = Settled([], {})
    reader = None
    if fetch.replica_id == CONSUMER:
        reader = serving.lag.reader(request.client_id, request.connection.client_host)
    settle = partial(
        _settle_rows,
        serving,
        context,
        unknown=unknown,
        isolation_level=fetch.isolation_level,
        version=request.version,
        replica_id=fetch.replica_id,
    )
    if len(rows) > PARTITIONS_AT_ONCE:
        parts = _ordered(in_parts(rows, PARTITIONS_PER_STEP), unknown)
        request.step(_answer_in_steps(request, serving, context, parts, settle, throttled, reader))
        return
    if reader is not None and not count_lag(reader, rows, serving.clock.wall_ms()):
        reader.empty_fetches += 1
    if unknown:
        rows.sort(key=lambda row: row.entry in unknown)
    settle(settled, rows)
    if throttled is not None:
        throttled.hold(context.session, is_answered=True)
        throttled.count(rows, settled.topics, request.version, serving.clock.mono_ms())
        throttled.counted()
    context.finish()
    response = FetchResponse(0, ErrorCode.NONE, context.session_id, settled.topics, tuple(settled.endpoints.values()))
    request.reply_parts(encode_fetch_response(response, request.version))


def _ordered(parts: Sequence[Sequence[Row]], unknown: dict[SessionPartition, ErrorCode]) -> Iterator[Sequence[Row]]:
    """Yield the rows in parts, those of unknown partitions last."""
    for part in parts:
        yield [row for row in part if row.entry not in unknown]
    if unknown:
        for part in parts:
            yield [row for row in part if row.entry in unknown]


def _settle_rows(
    serving: FetchServing,
    context: FetchContext,
    settled: Settled,
    rows: Sequence[Row],
    *,
    unknown: dict[SessionPartition, ErrorCode],
    isolation_level: int,
    version: int,
    replica_id: int,
) -> None:
    """Add `rows` to the answer, in their order, and have the session record what it contains.

    A topic whose partitions lie apart is listed again, as in Kafka.
    """
    topics, endpoints = settled
    for row in rows:
        entry = row.entry
        belongs = context.settle(
            entry,
            record_bytes=len(row.records),
            high_watermark=row.high_watermark,
            log_start=row.log_start,
            error=row.error,
            is_notable=row.diverging is not None or row.preferred >= 0,
            at_bound=entry.fetch_offset >= row.bound,
        )
        if row.records:
            _count_out(serving, row, replica_id)
        elif row.error == ErrorCode.UNKNOWN_SERVER_ERROR and row.partition is not None:
            row.partition.counters.failed_fetches += 1
        if belongs:
            topic, index = key_of(entry)
            if row.error:
                hint = _leader_hint(serving, row, endpoints) if version >= _HINT_VERSION else None
                fetched = FetchedPartition(
                    partition=index,
                    error_code=row.error,
                    aborted_transactions=[] if entry in unknown else None,
                    current_leader=hint,
                )
            else:
                fetched = FetchedPartition(
                    partition=index,
                    error_code=ErrorCode.NONE,
                    high_watermark=row.high_watermark,
                    last_stable_offset=row.high_watermark,
                    log_start_offset=row.log_start,
                    records=row.records,
                    aborted_transactions=[] if isolation_level == READ_COMMITTED else None,
                    preferred_read_replica=row.preferred,
                    diverging_epoch=row.diverging,
                    append_times=row.append_times,
                )
            if not topics or topics[-1][0] != topic:
                topics.append((topic, []))
            topics[-1][1].append(fetched)


def _answer_in_steps(
    request: "Request",
    serving: FetchServing,
    context: FetchContext,
    parts: Iterable[Sequence[Row]],
    settle: Callable[[Settled, Sequence[Row]], None],
    throttled: ThrottledReads | None,
    reader: Reader | None,
) -> "Steps":
    """Settle one part of the rows after the other, and send the answer, which is written in steps, too.

    What throttles count of it is the size of its parts, which is a little more than that of the whole.
    """
    settled = Settled([], {})
    is_empty = True
    for rows in parts:
        if reader is not None and count_lag(reader, rows, serving.clock.wall_ms()):
            is_empty = False
        part = Settled([], settled.endpoints)
        settle(part, rows)
        if throttled is not None:
            throttled.count(rows, part.topics, request.version, serving.clock.mono_ms())
        for topic, fetched in part.topics:
            if settled.topics and settled.topics[-1][0] == topic:
                settled.topics[-1][1].extend(fetched)
            else:
                settled.topics.append((topic, fetched))
        yield
    if throttled is not None:
        throttled.hold(context.session, is_answered=True)
        throttled.counted()
    if reader is not None and is_empty:
        reader.empty_fetches += 1
    context.finish()
    topics, endpoints = settled
    response = FetchResponse(0, ErrorCode.NONE, context.session_id, topics, tuple(endpoints.values()))
    request.reply_parts((yield from encode_fetch_in_steps(response, request.version)))


def _count_out(serving: FetchServing, row: Row, replica_id: int) -> None:
    partition = row.partition
    if row.entry.is_follower:
        replication = serving.counters.replication
        replication.bytes_out += len(row.records)
        if partition is not None and partition.record is not None and replica_id in partition.record.adding:
            replication.moved_out += len(row.records)
    elif partition is not None:
        partition.counters.bytes_out += len(row.records)


def _leader_hint(serving: FetchServing, row: Row, endpoints: dict[int, NodeEndpoint]) -> tuple[int, int] | None:
    """Return the leader that the reader should ask, and add its address to `endpoints`."""
    if row.error not in _HINTED:
        return None
    topic, index = key_of(row.entry)
    if isinstance(topic, bytes):
        topic = serving.cluster.image.topic_names.get(UUID(bytes=topic), "")
    leader, endpoint = serving.cluster.leader_hint(topic, index, row.error)
    # Followers know the brokers' addresses.
    if endpoint is not None and not row.entry.is_follower:
        endpoints[endpoint.node_id] = endpoint
    return leader
