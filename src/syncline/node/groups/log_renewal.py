"""Renewing the logs of the offsets topic, one after the other, when they have grown.

`core/groups/renewal.py` decides what is copied; this module reads, appends and lets the log start move. Retention
removes the segments, here and on the followers, which learn the log start from their fetches, and sync what they have
before they adopt it.

What is easy to break: between the answer of `take` and the append nothing may be awaited, or a write of the
coordinator could come between.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Final

from syncline.core.groups.records import GroupRecord
from syncline.core.groups.renewal import Renewal
from syncline.model.errors import ErrorCode, RequestError
from syncline.model.ids import OFFSETS_TOPIC, Offset
from syncline.node.groups.port import GroupsHost, OffsetsPartition
from syncline.node.groups.replay import batches_in_turns
from syncline.node.groups.term import Phase, Term
from syncline.records.builder import BatchBuilder
from syncline.records.errors import DecodeError
from syncline.storage.errors import DamagedLogError, StorageError

log = logging.getLogger("syncline.groups")

# A renewal pays once the finished segments hold this many times what the one before had to copy.
GROWTH: Final = 2
BYTES_PER_WRITE_MAX: Final = 16 << 10
# Some 1 to 2 ms of work: unlike a new coordinator, this one has time.
READ_PER_TURN: Final = 100
# The coordinator gives a renewal up after waiting so long for the high watermark, and goes on with the next log.
STALL_S: Final = 10.0


class _GivenUpError(Exception):
    """The term has ended, or one of its writes has failed: the log stays as it is."""


class LogRenewals:
    """Renews the logs of all partitions of the offsets topic that a broker leads."""

    def __init__(self, host: GroupsHost, terms: Callable[[], Sequence[Term]]) -> None:
        self._host = host
        self._terms = terms
        self._is_under_way = False

    def begin(self) -> None:
        """Renew the logs that have grown, unless that is under way."""
        if not self._is_under_way and any(map(self._is_due, self._terms())):
            self._is_under_way = True
            self._host.spawn(self._renew_all())

    def _is_due(self, term: Term) -> bool:
        partition = self._host.partition(OFFSETS_TOPIC, term.index)
        if partition is None or not partition.is_leader or term.phase is not Phase.ACTIVE:
            return False
        finished_bytes, _ = partition.finished_segments()
        return finished_bytes > GROWTH * term.copied_bytes

    async def _renew_all(self) -> None:
        try:
            for term in self._terms():
                if self._is_due(term):
                    await self._renew(term)
        finally:
            self._is_under_way = False

    async def _renew(self, term: Term) -> None:
        partition = self._host.partition(OFFSETS_TOPIC, term.index)
        assert partition is not None, f"{term!r} has no log"
        finished_bytes, begin = partition.finished_segments()
        # From here on the term names the keys that it writes; what it appended before lies below this end.
        term.renewal, end = Renewal(begin), partition.log_end
        before_bytes = term.copied_bytes
        try:
            count = await self._copy(term, partition, term.renewal, end)
            await self._settle(term, partition, term.renewal)
            partition.raise_log_start(begin)
            term.copied_bytes -= before_bytes
        except _GivenUpError:
            return
        except (DamagedLogError, DecodeError) as error:
            # A copy would have a checksum that matches, and replace what other replicas may have whole.
            if partition.is_leader:
                self._host.damaged(term.index, str(error))
            # Else the topic was deleted, and its files went under the worker that read them.
            return
        except (RequestError, StorageError, OSError) as error:
            log.info("the group log %s-%s is not renewed: %s", OFFSETS_TOPIC, term.index, error)
            return
        finally:
            term.renewal = None
        log.info(
            "groups of %s-%s: everything below offset %s can be deleted, %s bytes; copied records: %s",
            OFFSETS_TOPIC,
            term.index,
            begin,
            finished_bytes,
            count,
        )

    async def _copy(self, term: Term, partition: OffsetsPartition, renewal: Renewal, end: Offset) -> int:
        """Return how many records were copied and committed."""
        await _committed(partition, end)
        chunks = partition.read_committed_batches(0, end)
        async with aclosing(batches_in_turns(chunks, READ_PER_TURN)) as batches:
            async for batch in batches:
                _check(term, renewal)
                for record in batch.records():
                    if record.key is not None:
                        renewal.read(record.offset, record.key, record.value)
        count = 0
        while copies := _next_copies(term, renewal):
            await self._append(term, partition, copies)
            count += len(copies)
        return count

    async def _settle(self, term: Term, partition: OffsetsPartition, renewal: Renewal) -> None:
        """Wait until nothing can be lost that makes the oldest records useless: the copies, and commits since then."""
        await _committed(partition, partition.log_end)
        await partition.flush()
        _check(term, renewal)

    async def _append(self, term: Term, partition: OffsetsPartition, copies: Sequence[GroupRecord]) -> None:
        """Append copies at once, and wait until they are committed."""
        builder = BatchBuilder()
        now_ms = self._host.clock.wall_ms()
        for key, value in copies:
            builder.append(now_ms, key, value)
        refusals: list[ErrorCode] = []

        def done(code: ErrorCode, base_offset: int) -> None:
            if base_offset < 0:
                refusals.append(code)

        partition.append_internal(builder.build(), done)
        if refusals:
            raise RequestError(refusals[0])
        term.copied_bytes += builder.size_bytes
        await _committed(partition, partition.log_end)


async def _committed(partition: OffsetsPartition, end: Offset) -> None:
    """Wait until all below `end` is committed. Raises RequestError if it cannot be, or not soon."""
    try:
        async with asyncio.timeout(STALL_S):
            await partition.until_committed(end)
    except TimeoutError:
        raise RequestError(
            ErrorCode.REQUEST_TIMED_OUT, f"what lies below offset {end} is not committed after {STALL_S:.0f} s"
        ) from None


def _next_copies(term: Term, renewal: Renewal) -> tuple[GroupRecord, ...]:
    _check(term, renewal)
    return renewal.take(BYTES_PER_WRITE_MAX)


def _check(term: Term, renewal: Renewal) -> None:
    if term.phase is not Phase.ACTIVE or term.renewal is not renewal:
        raise _GivenUpError
