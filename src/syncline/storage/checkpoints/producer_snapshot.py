"""Snapshots of producer state, so that a restart replays only the batches after them.

Format (big endian), Kafka's: int16 version 1, uint32 CRC-32C of all that
follows, int32 count, then 46 bytes each: producer id int64, epoch int16, last
sequence int32, last offset int64, offset delta int32, timestamp int64,
coordinator epoch int32 (-1), first offset of the open transaction int64 (-1).

One hard idea: Kafka writes one entry per producer, its last batch, and so after
a restart no longer recognises retries of the four batches before it. Here every
remembered batch gets an entry, oldest first. Kafka reads these files as well,
since its reader keeps the last entry of each id.

A damaged snapshot does no harm: the log is the truth, and is replayed.
Source: observed Kafka files.
"""

import contextlib
import struct
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from syncline.core.producer_state import SEQUENCE_MAX, ProducedBatch, ProducerState, ProducerTable
from syncline.model.ids import NONE, Offset
from syncline.records.checksum import crc32c
from syncline.storage.disk import Disk, File
from syncline.storage.segments.batch_walk import NotABatch, walk
from syncline.storage.segments.segment import SNAPSHOT_SUFFIX, Segment, file_name

VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")

assert _ENTRY.size == 46, "the entry's layout is Kafka's"


def path(directory: str, offset: Offset) -> str:
    """Return the path of the snapshot of the state at `offset`."""
    return f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"


def encode(table: ProducerTable) -> bytes:
    """Return the contents of a `.snapshot` file."""
    entries = [entry for producer_id, state in table.entries.items() for entry in _entries(producer_id, state)]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def _entries(producer_id: int, state: ProducerState) -> list[bytes]:
    """Return the entries of one producer, oldest batch first; a single empty entry if it has no batch."""
    batches = state.batches or (ProducedBatch(NONE, NONE, NONE, 0, state.last_timestamp_ms),)
    return [
        _ENTRY.pack(
            producer_id,
            state.producer_epoch,
            batch.last_sequence,
            batch.last_offset,
            batch.offset_delta,
            batch.timestamp_ms,
            state.coordinator_epoch,
            state.transaction_start,
        )
        for batch in batches
    ]


def decode(data: bytes, offset: Offset) -> ProducerTable | None:
    """Return the table that `data` holds of the state at `offset`.

    None if it is damaged, of another version, or of another state: one that rests on later records, or in which
    the batches of a producer do not rise.
    """
    if len(data) < _HEAD.size + _COUNT.size:
        return None
    version, checksum = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    (count,) = _COUNT.unpack_from(body)
    if version != VERSION or checksum != crc32c(body) or len(body) != _COUNT.size + count * _ENTRY.size:
        return None
    table = ProducerTable()
    for entry in _ENTRY.iter_unpack(body[_COUNT.size :]):
        if not _restore(table, offset, *entry):
            return None
    return table


def _restore(
    table: ProducerTable,
    offset: Offset,
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    transaction_start: int,
) -> bool:
    """Add one entry to the table; return False if it cannot belong to a state at `offset`."""
    state = table.entries.get(producer_id)
    if state is None or state.producer_epoch != producer_epoch:
        state = ProducerState(producer_epoch)
        table.restore(producer_id, state)
    state.last_timestamp_ms = timestamp_ms
    state.coordinator_epoch = coordinator_epoch
    state.transaction_start = transaction_start
    if last_offset != NONE:
        if offset_delta < 0 or last_offset - offset_delta <= state.last_offset:
            return False
        first_sequence = (last_sequence - offset_delta) & SEQUENCE_MAX if last_sequence >= 0 else NONE
        state.batches.append(ProducedBatch(first_sequence, last_sequence, last_offset, offset_delta, timestamp_ms))
    return max(last_offset, transaction_start) < offset


def replay(segments: Sequence[Segment], table: ProducerTable, offset: int, skipped: AbstractSet[Offset]) -> None:
    """Record in `table` every batch at or above `offset`, except in `skipped` segments; may wait for the disk.

    Raises NotABatch.
    """
    for segment in segments:
        if segment.end_offset <= offset or not segment.size_bytes or segment.base_offset in skipped:
            continue
        start = segment.index.position_before(offset) if segment.index is not None else 0
        offsets = range(max(offset, segment.base_offset), segment.end_offset)
        replay_file(segment.file, start, segment.size_bytes, table, offsets)


def replay_file(
    file: File, start: int, end: int, table: ProducerTable, offsets: range, *, resident_only: bool = False
) -> None:
    """Record in `table` the batches of a file that lie in `offsets`; `start` and `end` are positions.

    Raises NotABatch, also where offsets go back or beyond the last of `offsets`: that is damage, as in a scan.
    """
    due = 0
    for position, header in walk(file, start, end, resident_only=resident_only):
        if header.base_offset < due:
            raise NotABatch(position, f"offset {header.base_offset} where {due} or more is due")
        due = header.next_offset
        if due > offsets.stop:
            raise NotABatch(position, f"offset {header.last_offset} where all end below {offsets.stop}")
        if header.base_offset >= offsets.start:
            table.record(header)


def remove(disk: Disk, paths: Sequence[str]) -> None:
    """Remove snapshots, unless they are gone already; the caller syncs the names. Raises OSError."""
    for each in paths:
        with contextlib.suppress(FileNotFoundError):
            disk.remove(each)


def offsets(disk: Disk, directory: str) -> list[Offset]:
    """Return the offsets of all snapshots, rising."""
    return [Offset(int(name[:20])) for name in disk.list(directory) if name.endswith(SNAPSHOT_SUFFIX)]
