"""Reading the offsets topic's log, in slices that free the loop between them; a new term replays it into its shard."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final, NamedTuple

from syncline.node.groups.port import GroupsHost
from syncline.node.groups.term import Phase, Term, instant_now
from syncline.records.batch import BatchHeader, crc_matches, iterate
from syncline.records.record import Record, read_records
from syncline.storage.errors import DamagedLogError

# Records read before the loop is freed: some 5 ms of work, for which requests of other groups wait.
REPLAYED_PER_TURN: Final = 500


class ReadBatch(NamedTuple):
    """A data batch, and what it lies in."""

    chunk: bytes
    position: int
    header: BatchHeader

    def records(self) -> list[Record]:
        """Return its records. Raises DecodeError."""
        return read_records(self.chunk, self.position, self.header)


async def batches_in_turns(chunks: AsyncIterator[bytes], records_per_turn: int) -> AsyncGenerator[ReadBatch, None]:
    """Yield the data batches of `chunks`, and free the loop after so many records.

    Raises DamagedLogError, or DecodeError, before anything of a damaged batch is read.
    """
    turn_count = 0
    try:
        async for chunk in chunks:
            for position, header in iterate(chunk, 0, len(chunk)):
                if not crc_matches(chunk, position, header):
                    raise DamagedLogError(f"the checksum of the batch at offset {header.base_offset} does not match")
                if header.is_control:
                    continue
                yield ReadBatch(chunk, position, header)
                turn_count += header.record_count
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
        async for batch in batches:
            if term.phase is not Phase.LOADING:
                break
            at = instant_now(host)
            for record in batch.records():
                if record.key is not None:
                    term.shard.replay(record.key, record.value, at)
            record_count += batch.header.record_count
    return record_count
