"""Fetches that name many partitions: their sessions are built and changed in steps.

A full fetch gets its session when that is complete, so no other request sees a part of it. A fetch that changes its
session does so part by part: a request of the same reader over another connection may come in between, and finds a part
of the changes, as if there had been two requests. If the session ends meanwhile, the fetch is refused.

Source: KIP-227 (sessions).
"""

from collections.abc import Generator, Hashable, Sequence
from typing import Final, TypeAlias

from syncline.core.fetching.session import (
    CLOSING_EPOCH,
    NO_SESSION_ID,
    OPENING_EPOCH,
    FetchContext,
    FetchSession,
    FetchSpec,
)
from syncline.core.fetching.session_bytes import Payer
from syncline.model.errors import ErrorCode
from syncline.model.ids import BrokerEpoch, BrokerId
from syncline.node.fetching.serving import FetchServing
from syncline.node.loop.list_parts import in_parts
from syncline.wire.fetch import FetchRequest

# Partitions, and what the reader wants of them.
Listed: TypeAlias = Sequence[tuple[Hashable, FetchSpec]]

# Each takes some microseconds.
PARTITIONS_PER_STEP: Final = 10


def open_in_steps(
    serving: FetchServing,
    fetch: FetchRequest,
    listed: Listed,
    forgotten: Sequence[Hashable],
    *,
    uses_topic_ids: bool,
    payer: Payer | None,
) -> Generator[None, None, FetchContext | ErrorCode]:
    """Return the context of a fetch request, or the error that refuses it as a whole."""
    if fetch.session_epoch in (OPENING_EPOCH, CLOSING_EPOCH):
        is_kept = fetch.session_epoch == OPENING_EPOCH
        return (yield from _build(serving, fetch, listed, uses_topic_ids=uses_topic_ids, payer=payer, is_kept=is_kept))
    first, *others = in_parts(listed, PARTITIONS_PER_STEP)
    context = serving.sessions.open(
        fetch.session_id,
        fetch.session_epoch,
        listed=first,
        forgotten=(),
        uses_topic_ids=uses_topic_ids,
        replica_id=BrokerId(fetch.replica_id),
        broker_epoch=BrokerEpoch(fetch.replica_epoch),
        now_ms=serving.clock.mono_ms(),
        payer=payer,
    )
    if isinstance(context, ErrorCode):
        return context
    changes: list[tuple[Listed, Sequence[Hashable]]] = [(each, ()) for each in others]
    changes += [((), each) for each in in_parts(forgotten, PARTITIONS_PER_STEP)]
    for more, fewer in changes:
        yield
        if not serving.sessions.change(context.session, more, fewer, serving.clock.mono_ms()):
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if not context.session.partitions:
        # As in `SessionCache.open`: what it listed and forgot is answered once more.
        return (yield from _build(serving, fetch, listed, uses_topic_ids=uses_topic_ids, payer=payer, is_kept=False))
    return context


def _build(
    serving: FetchServing,
    fetch: FetchRequest,
    listed: Listed,
    *,
    uses_topic_ids: bool,
    payer: Payer | None,
    is_kept: bool,
) -> Generator[None, None, FetchContext]:
    session = FetchSession(
        NO_SESSION_ID,
        uses_topic_ids=uses_topic_ids,
        replica_id=BrokerId(fetch.replica_id),
        broker_epoch=BrokerEpoch(fetch.replica_epoch),
        now_ms=serving.clock.mono_ms(),
    )
    try:
        for some in in_parts(listed, PARTITIONS_PER_STEP):
            session.ask(some)
            yield
    except GeneratorExit:
        # The connection is gone. Session and partitions would keep each other until a full garbage collection.
        session.close()
        raise
    serving.sessions.adopt(session, fetch.session_id, is_kept=is_kept, now_ms=serving.clock.mono_ms(), payer=payer)
    return FetchContext(session, is_full=True)
