"""Reading the offsets topic's log into a shard, in slices that free the loop between them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from syncline.core.groups.groups import GroupShard
from syncline.core.groups.messages import Instant
from syncline.node.groups.port import GroupsHost
from syncline.node.groups.term import Phase, Term, instant_now
from syncline.records.batch import BatchHeader, iterate
from syncline.records.record import read_records

# Records replayed before the loop is freed: some 10 ms of work.
REPLAYED_RECORDS_PER_TURN: Final = 500


async def replay(host: GroupsHost, term: Term, chunks: AsyncIterator[bytes]) -> int:
    """Return how many records the term's shard has replayed; stop early if the term ends."""
    record_count = 0
    turn_count = 0
    try:
        async for chunk in chunks:
            for position, header in iterate(chunk, 0, len(chunk)):
                if term.phase is not Phase.LOADING:
                    return record_count
                turn_count += _replay_batch(term.shard, chunk, position, header, instant_now(host))
                if turn_count >= REPLAYED_RECORDS_PER_TURN:
                    record_count += turn_count
                    turn_count = 0
                    await asyncio.sleep(0)
    finally:
        # The garbage collector would close the generator at an unpredictable time.
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
    return record_count + turn_count


def _replay_batch(shard: GroupShard, chunk: bytes, position: int, header: BatchHeader, at: Instant) -> int:
    if header.is_control:
        return 0
    records = read_records(chunk, position, header)
    for record in records:
        if record.key is not None:
            shard.replay(record.key, record.value, at)
    return len(records)
