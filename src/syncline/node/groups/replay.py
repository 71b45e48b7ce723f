"""Reading the offsets topic's log, in slices that free the loop between them; a new term replays it into its shard."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from syncline.node.groups.port import GroupsHost
from syncline.node.groups.term import Phase, Term, instant_now
from syncline.records.batch import iterate
from syncline.records.record import Record, read_records

# Records read before the loop is freed: some 5 ms of work, for which requests of other groups wait.
REPLAYED_PER_TURN: Final = 500


async def batches_in_turns(chunks: AsyncIterator[bytes], records_per_turn: int) -> AsyncGenerator[list[Record], None]:
    """Yield the records of each data batch of `chunks`, and free the loop after so many. Raises DecodeError."""
    turn_count = 0
    try:
        async for chunk in chunks:
            for position, header in iterate(chunk, 0, len(chunk)):
                if header.is_control:
                    continue
                records = read_records(chunk, position, header)
                yield records
                turn_count += len(records)
                if turn_count >= records_per_turn:
                    turn_count = 0
                    await asyncio.sleep(0)
    finally:
        # The garbage collector would close the generator at an unpredictable time.
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


async def replay(host: GroupsHost, term: Term, chunks: AsyncIterator[bytes]) -> int:
    """Return how many records the term's shard has replayed; stop early if the term ends."""
    record_count = 0
    async with aclosing(batches_in_turns(chunks, REPLAYED_PER_TURN)) as batches:
        async for records in batches:
            if term.phase is not Phase.LOADING:
                break
            at = instant_now(host)
            for record in records:
                if record.key is not None:
                    term.shard.replay(record.key, record.value, at)
            record_count += len(records)
    return record_count
