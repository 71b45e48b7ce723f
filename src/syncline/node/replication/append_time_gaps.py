"""Append times that a follower lost in a crash: it asks its leader for them, once it follows.

One hard idea: only when the leader has accepted a fetch from the follower's log end do their logs agree, so that the
leader's entries are those of the follower's batches. A gap that cannot be filled stays: its times are estimated.

APPEND_TIMES (private key 20008), version 0:

    request   i32 rows | each: topic id, 16 bytes | partition i32 | leader epoch i32 | from i64 | to i64
    answer    i32 rows | each, in the same order: i32 entries | each: offset i64 | time i64, as in `.appendtimes` files

The entries of a row begin with the one at `from` or before. A row without any is of a gap that this leader cannot fill.
Numbers are big endian. Offsets count records, `to` is exclusive, times are Unix milliseconds.
"""

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from syncline.node.links.peer import PeerLost
from syncline.node.loop.tasks import Tasks
from syncline.node.partitions.partition import Partition
from syncline.node.replication.leader_questions import Key
from syncline.records.buffers import Buffer
from syncline.storage.arrivals.append_times import CopiedTime, Entry
from syncline.storage.lag.log_times import Missing
from syncline.wire.errors import DecodeError
from syncline.wire.primitives import INT32

log = logging.getLogger("syncline.node")

ROWS_MAX: Final = 200
# Of a row, and of a whole answer: half a megabyte. A crash loses 20, unless the disk was full.
ROW_ENTRIES_MAX: Final = 1_024
ENTRIES_MAX: Final = 32_768
# How many batches are located in one turn of the loop: each takes some 40 microseconds.
LOCATED_AT_ONCE: Final = 50
_ROW: Final = struct.Struct(">16siiqq")
_ENTRY: Final = struct.Struct(">qq")

# Asks the leader with the body of a request; returns that of its answer, or raises PeerLost.
Ask = Callable[[bytes], Awaitable[bytes]]


class AskedRow(NamedTuple):
    """A stretch of one partition whose append times a follower lacks."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    start: int
    end: int


def encode_request(rows: Sequence[AskedRow]) -> bytes:
    """Return the body of a request."""
    return INT32.pack(len(rows)) + b"".join(_ROW.pack(*row) for row in rows)


def decode_request(body: Buffer, position: int) -> list[AskedRow]:
    """Return the rows of the request whose body begins at `position`; raises `DecodeError`."""
    size = len(body) - position - INT32.size
    count = INT32.unpack_from(body, position)[0] if size >= 0 else -1
    if not 0 <= count <= ROWS_MAX or size != count * _ROW.size:
        raise DecodeError(f"a question about append times has {count} rows in {size} bytes, at most {ROWS_MAX}")
    at = position + INT32.size
    return [AskedRow(*_ROW.unpack_from(body, at + number * _ROW.size)) for number in range(count)]


def encode_answer(rows: Sequence[Sequence[CopiedTime]]) -> bytes:
    """Return the body of an answer; rows that have too many entries, or make it too long, are empty."""
    parts, left = [INT32.pack(len(rows))], ENTRIES_MAX
    for row in rows:
        some = row if len(row) <= min(ROW_ENTRIES_MAX, left) else ()
        left -= len(some)
        parts.append(INT32.pack(len(some)))
        parts += [_ENTRY.pack(*entry) for entry in some]
    return b"".join(parts)


def decode_answer(body: bytes, row_count: int) -> list[list[CopiedTime]]:
    """Return the rows of an answer; raises `DecodeError`."""
    try:
        (count,) = INT32.unpack_from(body, 0)
        rows: list[list[CopiedTime]] = []
        position = INT32.size
        for _ in range(row_count):
            (entries,) = INT32.unpack_from(body, position)
            position += INT32.size
            if not 0 <= entries <= ROW_ENTRIES_MAX:
                raise DecodeError(f"{entries} append times of one partition, at most {ROW_ENTRIES_MAX}")
            rows.append([_ENTRY.unpack_from(body, position + _ENTRY.size * number) for number in range(entries)])
            position += entries * _ENTRY.size
    except struct.error:
        raise DecodeError(f"an answer about append times ends after {len(body)} bytes") from None
    if count != row_count or position != len(body):
        raise DecodeError(f"an answer about append times has {count} rows for {row_count}, in {len(body)} bytes")
    return rows


class AppendTimeGaps:
    """The gaps in the append times of the logs that are followed from one leader."""

    def __init__(self, leader_id: int, tasks: Tasks, ask: Ask, follows: Callable[[Key, Partition], bool]) -> None:
        self._leader_id = leader_id
        self._tasks = tasks
        self._ask = ask
        self._follows = follows
        # Partitions with a gap whose leader has not answered a fetch yet. Empty but for the time after a crash.
        self.waiting: dict[Key, None] = {}
        # Those about which it can be asked now.
        self._ready: dict[Key, Partition] = {}
        self._is_asking = False

    def begin(self, key: Key, partition: Partition) -> None:
        """Look for a gap in a log that is followed from now on."""
        if partition.log.append_times.missing() is not None:
            self.waiting[key] = None

    def end(self, key: Key) -> None:
        """Ask nothing more about a log."""
        self.waiting.pop(key, None)
        self._ready.pop(key, None)

    def answered(self, key: Key, partition: Partition) -> None:
        """Ask about a log, if it has a gap: what the leader sent continues it."""
        if key not in self.waiting:
            return
        del self.waiting[key]
        self._ready[key] = partition
        if not self._is_asking:
            self._is_asking = True
            self._tasks.spawn(self._ask_all())

    async def _ask_all(self) -> None:
        try:
            while self._ready:
                # Others of the same answer join.
                await asyncio.sleep(0)
                some = dict(list(self._ready.items())[:ROWS_MAX])
                for key in some:
                    del self._ready[key]
                await self._ask_about(some)
        except PeerLost:
            # The next connection begins with answers that have records of each log.
            pass
        finally:
            self._is_asking = False

    async def _ask_about(self, partitions: dict[Key, Partition]) -> None:
        """Ask about some logs, and fill their gaps. Raises PeerLost; they wait again then."""
        asked: list[tuple[Key, Partition, Missing]] = []
        rows = []
        for key, partition in partitions.items():
            gap = partition.log.append_times.missing()
            if gap is not None and self._follows(key, partition):
                asked.append((key, partition, gap))
                rows.append(AskedRow(*key, partition.leader_epoch, gap.start, gap.end))
        if not rows:
            return
        try:
            answers = decode_answer(await self._ask(encode_request(rows)), len(rows))
        except PeerLost:
            self.waiting.update(dict.fromkeys(key for key, partition, _ in asked if self._follows(key, partition)))
            raise
        except DecodeError as error:
            log.warning("malformed response from broker %s about append times: %s", self._leader_id, error)
            return
        for (key, partition, gap), row, entries in zip(asked, rows, answers, strict=True):
            await self._fill(key, partition, gap, row.leader_epoch, entries)

    async def _fill(
        self, key: Key, partition: Partition, gap: Missing, leader_epoch: int, copied: Sequence[CopiedTime]
    ) -> None:
        """Fill a gap with what the leader of this epoch knows of it, unless the log has another leader now."""
        if not copied or copied[0][0] > gap.start or copied[0][1] < 0:
            # It does not know when the first of these batches came.
            return
        wanted = [entry for entry in copied if gap.start <= entry[0] < gap.end]
        located: list[Entry] = []
        for first in range(0, len(wanted), LOCATED_AT_ONCE):
            some = partition.log.append_times.locate(wanted[first : first + LOCATED_AT_ONCE])
            if some is None:
                return
            located += some
            await asyncio.sleep(0)
        if self._follows(key, partition) and partition.leader_epoch == leader_epoch:
            partition.log.append_times.fill(gap, located)
