"""Asking for copies of records that a damaged log lacks: the request, and how a broker finds what it has.

COPIES (20006). All copies of a partition count, also damaged ones and those set aside: what is asked for is sound in
itself, and the one who asks checks every batch.

    request   topic id, 16 bytes | partition i32 | offset i64 | leader epoch i32 | bytes at most i32
    answer    whole batches from that offset on, of that leader epoch (-1: of any one); nothing if there are none

Numbers are big endian, as in Kafka's messages.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from syncline.model.ids import LeaderEpoch, Offset
from syncline.records.buffers import Buffer
from syncline.records.errors import DecodeError
from syncline.storage.disk import Disk

# What one request for copies returns, unless a single batch is larger.
COPIES_BYTES_MAX: Final = 4 << 20
_REQUEST: Final = struct.Struct(">16siqii")


class CopyRequest(NamedTuple):
    """Which records are asked for."""

    topic_id: UUID
    partition: int
    offset: Offset
    leader_epoch: LeaderEpoch
    max_bytes: int = COPIES_BYTES_MAX

    def encode(self) -> bytes:
        """Return the body of the request."""
        topic_id, *numbers = self
        return _REQUEST.pack(topic_id.bytes, *numbers)

    @classmethod
    def decode(cls, body: Buffer, position: int) -> "CopyRequest":
        """Return the request whose body begins at `position`; raises DecodeError."""
        if len(body) - position != _REQUEST.size:
            raise DecodeError(f"a request for copies has {_REQUEST.size} bytes, not {len(body) - position}")
        topic_id, partition, offset, leader_epoch, max_bytes = _REQUEST.unpack_from(body, position)
        size = min(max(0, max_bytes), COPIES_BYTES_MAX)
        return cls(UUID(bytes=topic_id), partition, Offset(offset), LeaderEpoch(leader_epoch), size)


def find_copies(disk: Disk, paths: Sequence[str], asked: CopyRequest) -> bytes:
    """Return what the first directory has that has any of the records; may wait for the disk."""
    # Not at the top: a start does without it.
    from syncline.storage.recovery.mending import copies

    for path in paths:
        found = copies(disk, path, asked.offset, asked.leader_epoch, asked.max_bytes)
        if found:
            return found
    return b""
