"""What one look of a fetch found in one partition."""

from collections.abc import Sequence
from typing import Final

from syncline.core.fetching.session import SessionPartition
from syncline.core.replication.slow_leader.waits import PendingEntry
from syncline.model.errors import NO_ERROR, ErrorCode
from syncline.model.ids import NONE, LeaderEpoch, Offset
from syncline.node.partitions.partition import Partition
from syncline.records.buffers import Part
from syncline.records.unread import Unread
from syncline.storage.arrivals.append_times import CopiedTime
from syncline.storage.arrivals.read_facts import Noted

# More partitions are looked at in steps: each takes some 5 microseconds, and up to 100 if it has records.
PARTITIONS_AT_ONCE: Final = 50
PARTITIONS_PER_STEP: Final = 5

_NO_OFFSET: Final = Offset(NONE)
_NO_EPOCH: Final = LeaderEpoch(NONE)


def key_of(entry: SessionPartition) -> tuple[str | bytes, int]:
    """Return (topic name or id, partition): how this package identifies the partitions of a session."""
    key = entry.key
    assert isinstance(key, tuple), f"{key} is no topic with a partition"
    return key


class Row:
    """What one look found in one partition."""

    __slots__ = (
        "append_times",
        "bound",
        "diverging",
        "entry",
        "error",
        "high_watermark",
        "is_counted",
        "is_progress",
        "is_reading",
        "leader_epoch",
        "log_end",
        "log_start",
        "missed_bytes",
        "noted",
        "partition",
        "pending",
        "preferred",
        "records",
        "unread",
    )

    def __init__(self, entry: SessionPartition) -> None:
        self.entry = entry
        self.partition: Partition | None = None
        self.error = NO_ERROR
        # In a file only while the callback lasts that found them.
        self.records: Part = b""
        # What the leader says of them to a follower if it has not read them.
        self.unread: Unread | None = None
        # When this leader appended some of the records; only for followers.
        self.append_times: Sequence[CopiedTime] = ()
        # What the read has noted of how far behind the reader is; None for followers.
        self.noted: Noted | None = None
        # How many of the records' bytes came from the disk; UNMEASURED: nobody knows.
        self.missed_bytes = 0
        self.diverging: tuple[int, int] | None = None
        # The replica to which the reader is redirected.
        self.preferred = -1
        self.high_watermark = self.log_start = self.log_end = _NO_OFFSET
        # The reader may have records below this offset: the log end for a follower, the high watermark for a consumer.
        self.bound = _NO_OFFSET
        self.leader_epoch = _NO_EPOCH
        # Whether the request proves a follower's progress, and whether the leader has counted it.
        self.is_progress = False
        self.is_counted = False
        self.is_reading = False
        # The registration of a follower that waits for the disk.
        self.pending: PendingEntry | None = None

    def __repr__(self) -> str:
        state = self.error.name if self.error else "reading" if self.is_reading else f"{len(self.records)} bytes"
        return f"<row {self.entry.key} {self.log_start}..{self.log_end} bound {self.bound}: {state}>"

    def fail(self, error: ErrorCode) -> None:
        """Answer this partition with an error."""
        self.error = error
        self.records, self.unread = b"", None
        self.high_watermark = self.log_start = _NO_OFFSET
        self.is_progress = False
