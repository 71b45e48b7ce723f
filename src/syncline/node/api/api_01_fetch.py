"""Fetch (key 1), versions 4-17.

v5 log start offset (KIP-107), v7 sessions (KIP-227), v9 leader epochs (KIP-320),
v11 rack and follower reads (KIP-392), v12 last fetched epoch (KIP-595), v13 topic
ids (KIP-516), v15 replica state instead of replica id (KIP-903), v16 leader hints
(KIP-951), v17 directory ids (ignored, KIP-853).

Ignored: isolation level beyond "no transactions are open": every record below the
high watermark is stable as long as transactions are not offered.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from syncline.core.fetching.session import FetchSpec
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerEpoch, BrokerId
from syncline.node.fetching.long_lists import open_in_steps
from syncline.node.fetching.operation import FetchOperation
from syncline.wire.api import ApiKey
from syncline.wire.fetch import (
    ROWS_AT_ONCE,
    UNBOUNDED,
    FetchPartition,
    FetchRequest,
    LongFetch,
    Topic,
    parse_fetch_in_steps,
    parse_fetch_request,
)
from syncline.wire.fetch_response import FetchedPartition, FetchResponse, encode_fetch_response

if TYPE_CHECKING:
    from syncline.node.fetching.serving import FetchServing
    from syncline.node.serving.request import Request, Steps

# A partition, and what the reader wants of it.
Wanted: TypeAlias = tuple[tuple[Topic, int], FetchSpec]

# A named tuple's own constructor takes three times as long.
_make: Final = tuple.__new__

KEY = ApiKey.FETCH
_TOPIC_ID_VERSION: Final = 13
_ISOLATION_LEVELS: Final = (0, 1)


class Host(Protocol):
    """What this handler uses of its broker."""

    @property
    def fetching(self) -> "FetchServing":
        """Return what fetches use."""


def handle(broker: Host, request: "Request") -> "Steps | None":
    """Answer a fetch now, or park it until there is enough to answer."""
    rows_max = ROWS_AT_ONCE if request.listener == "client" else UNBOUNDED
    try:
        fetch = parse_fetch_request(request.body, request.version, request.position, rows_max=rows_max)
    except LongFetch:
        return _read(broker, request)
    # As `_wanted`, in line.
    listed: list[Wanted] = [
        ((topic, index), _make(FetchSpec, (offset, max_bytes, log_start, epoch, last_epoch)))
        for topic, partitions in fetch.topics
        for index, epoch, offset, last_epoch, log_start, max_bytes in partitions
    ]
    _take_up(broker, request, fetch, listed)
    return None


def _read(broker: Host, request: "Request") -> "Steps":
    """Do the same with a client's request that is too long to be read in one go."""
    fetch = yield from parse_fetch_in_steps(request.body, request.version, request.position)
    if fetch.isolation_level not in _ISOLATION_LEVELS:
        request.reply_parts(encode_fetch_response(_refused(fetch, request.version), request.version))
        return
    listed: list[Wanted] = []
    for topic, partitions in fetch.topics:
        yield
        for each in partitions:
            listed.append(_wanted(topic, each))
            yield
    forgotten: list[tuple[Topic, int]] = []
    for topic, indexes in fetch.forgotten:
        yield
        for index in indexes:
            forgotten.append((topic, index))
            yield
    fetching = broker.fetching
    context = yield from open_in_steps(
        fetching,
        fetch,
        listed,
        forgotten,
        uses_topic_ids=request.version >= _TOPIC_ID_VERSION,
        payer=request.connection.holding if request.listener == "client" else None,
    )
    if isinstance(context, ErrorCode):
        request.reply_parts(encode_fetch_response(FetchResponse(error_code=context), request.version))
        return
    FetchOperation(fetching, request, fetch, context).start(fetching.clock.mono_ms())


def _wanted(topic: Topic, each: FetchPartition) -> Wanted:
    index, epoch, offset, last_epoch, log_start, max_bytes = each
    return (topic, index), _make(FetchSpec, (offset, max_bytes, log_start, epoch, last_epoch))


def _take_up(broker: Host, request: "Request", fetch: FetchRequest, listed: Sequence[Wanted]) -> None:
    if fetch.isolation_level not in _ISOLATION_LEVELS:
        request.reply_parts(encode_fetch_response(_refused(fetch, request.version), request.version))
        return
    fetching = broker.fetching
    now_ms = fetching.clock.mono_ms()
    context = fetching.sessions.open(
        fetch.session_id,
        fetch.session_epoch,
        listed=listed,
        forgotten=[(topic, index) for topic, indexes in fetch.forgotten for index in indexes]
        if fetch.forgotten
        else (),
        uses_topic_ids=request.version >= _TOPIC_ID_VERSION,
        replica_id=BrokerId(fetch.replica_id),
        broker_epoch=BrokerEpoch(fetch.replica_epoch),
        now_ms=now_ms,
        payer=request.connection.holding if request.listener == "client" else None,
    )
    if isinstance(context, ErrorCode):
        request.reply_parts(encode_fetch_response(FetchResponse(error_code=context), request.version))
        return
    FetchOperation(fetching, request, fetch, context).start(now_ms)


def _refused(fetch: FetchRequest, version: int) -> FetchResponse:
    """Return the answer to an unknown isolation level: from v13, one error for all rows."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    topics = [
        (topic, [FetchedPartition(each.partition, code, aborted_transactions=[]) for each in partitions])
        for topic, partitions in fetch.topics
    ]
    return FetchResponse(
        error_code=code, session_id=fetch.session_id, topics=topics if version < _TOPIC_ID_VERSION else ()
    )
